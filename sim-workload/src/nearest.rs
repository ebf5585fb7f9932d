//! The valid values next to one that is not: what errors offer.

use core::fmt;

/// At most two valid values below and two above what was asked for, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest(Vec<u64>);

impl Nearest {
    /// The nearest of `valid` (any order) to `wanted`.
    #[must_use]
    pub fn to(wanted: u64, valid: impl IntoIterator<Item = u64>) -> Self {
        let mut all: Vec<u64> = valid.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        let at = all.partition_point(|v| *v < wanted);
        let from = at.saturating_sub(2);
        let till = (at + 2).min(all.len());
        Self(all[from..till].to_vec())
    }

    /// The divisors of `n` that `keep` accepts, nearest to `wanted`.
    #[must_use]
    pub fn divisor(wanted: u64, n: u64, keep: impl Fn(u64) -> bool) -> Self {
        Self::to(wanted, divisors(n).into_iter().filter(|d| keep(*d)))
    }

    /// The multiples of `n` next to `wanted`, zero left out.
    #[must_use]
    pub fn multiple(wanted: u64, n: u64) -> Self {
        let n = n.max(1);
        let below = wanted / n * n;
        Self([below, below.saturating_add(n)].into_iter().filter(|v| *v > 0 && v % n == 0).collect())
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.0
    }
}

impl fmt::Display for Nearest {
    /// `4, 8 or 16`; `nothing` if there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("nothing"),
            [one] => write!(f, "{one}"),
            [start @ .., last] => {
                let start: Vec<String> = start.iter().map(u64::to_string).collect();
                write!(f, "{} or {last}", start.join(", "))
            }
        }
    }
}

/// All divisors of `n`, ascending; none of zero. Takes √n steps.
#[must_use]
pub fn divisors(n: u64) -> Vec<u64> {
    let mut low = Vec::new();
    let mut high = Vec::new();
    let mut d = 1;
    while d * d <= n {
        if n.is_multiple_of(d) {
            low.push(d);
            if d * d != n {
                high.push(n / d);
            }
        }
        d += 1;
    }
    low.extend(high.into_iter().rev());
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_and_neighbours() {
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(49), [1, 7, 49]);
        assert!(divisors(0).is_empty());
        assert_eq!(Nearest::divisor(7, 128, |_| true).to_string(), "2, 4, 8 or 16");
        assert_eq!(Nearest::divisor(300, 128, |_| true).to_string(), "64 or 128");
        assert_eq!(Nearest::multiple(13, 8).to_string(), "8 or 16");
        assert_eq!(Nearest::multiple(3, 8).to_string(), "8");
        assert_eq!(Nearest::to(3, []).to_string(), "nothing");
    }
}
