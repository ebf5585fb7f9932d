//! Which share of its peak a matrix product reaches.

/// A share by size, in steps. Sizes and shares (millionths) ascend with the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve(Vec<(u128, u64)>);

impl Curve {
    /// The same share at all sizes.
    #[must_use]
    pub fn flat(millionths: u64) -> Self {
        Self(vec![(0, millionths)])
    }

    /// From steps, each from a size on; sorted here. Below the first the first holds.
    #[must_use]
    pub fn steps(mut steps: Vec<(u128, u64)>) -> Self {
        steps.sort_unstable();
        Self(steps)
    }

    /// The share at `size`, in millionths; all of it if there are no steps.
    #[must_use]
    pub fn at(&self, size: u128) -> u64 {
        let after = self.0.partition_point(|(from, _)| *from <= size);
        self.0.get(after.saturating_sub(1)).map_or(1_000_000, |(_, share)| *share)
    }
}

/// A law of matrix products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatrixLaw {
    /// By the operations of a product alone.
    Share(Curve),
    /// By the tiles that its result is cut in.
    Tiles(Tiles),
    /// By the best of several shapes of tiles, and of cuts of what is summed over: what libraries search for where results are
    /// small, as in decoding. At most the size of tile that is given.
    Chosen(Tiles),
}

/// Tiles over processors, wave after wave: `best · tiles/(⌈tiles/processors⌉·processors) · K/(K + K0)`, times the part of
/// the tiles that the result fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// The best share of the peak, in millionths.
    pub best: u64,
    /// Processors (SMs, CUs).
    pub processors: u64,
    /// Rows of a tile.
    pub rows: u64,
    /// Columns of a tile.
    pub columns: u64,
    /// K0: the depth at which half the time is filling and emptying.
    pub half_depth: u64,
}

impl Tiles {
    /// The share of the peak of `groups` products of (m×k)(k×n), in millionths, at least one.
    #[must_use]
    pub fn share(&self, groups: u64, m: u64, n: u64, k: u64) -> u64 {
        let wide = u128::from;
        let (rows, columns, processors) =
            (wide(self.rows.max(1)), wide(self.columns.max(1)), wide(self.processors.max(1)));
        let tiles = wide(groups) * wide(m).div_ceil(rows) * wide(n).div_ceil(columns);
        if tiles == 0 {
            return self.best.max(1);
        }
        let filled = wide(groups) * wide(m) * wide(n);
        // Room for tiles in all waves.
        let room = tiles.div_ceil(processors) * processors * rows * columns;
        let depth = wide(k) * 1_000_000 / (wide(k) + wide(self.half_depth)).max(1);
        let share = wide(self.best) * (filled * 1_000_000 / room) / 1_000_000 * depth / 1_000_000;
        u64::try_from(share).unwrap_or(1_000_000).max(1)
    }

    /// The best share over tiles of fewer rows and columns and over cuts of the sum, in millionths.
    ///
    /// A tile of r rows and c columns does `2·r·c/(r + c)` operations for each element that it loads: a smaller one is taken to
    /// reach less of the rate in proportion, as what feeds it is the same.
    #[must_use]
    pub fn chosen(&self, groups: u64, m: u64, n: u64, k: u64) -> u64 {
        let load = |r: u64, c: u64| r as f64 * c as f64 / (r + c).max(1) as f64;
        let full = load(self.rows.max(1), self.columns.max(1));
        let mut best = 1;
        for rows in halves(self.rows, 8) {
            for columns in halves(self.columns, 32) {
                let fed = (load(rows, columns) / full * 1e6) as u64;
                for cut in [1u64, 2, 4, 8] {
                    let tiles = Self { rows, columns, ..*self };
                    // Parts of a sum are as many tiles; each fills and empties its pipeline.
                    let share = tiles.share(groups.saturating_mul(cut), m, n, k.div_ceil(cut));
                    best = best.max((u128::from(share) * u128::from(fed) / 1_000_000) as u64);
                }
            }
        }
        best
    }
}

/// `from`, its half, and so on, not below `least`.
fn halves(from: u64, least: u64) -> impl Iterator<Item = u64> {
    core::iter::successors(Some(from.max(1)), move |n| (n / 2 >= least).then_some(n / 2))
}
