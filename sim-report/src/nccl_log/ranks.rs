//! The number of ranks from figures: size over count, and busbw over algbw.

use super::types::Row;
use crate::metrics::Operation;

/// Half a unit of the last printed digit of a bandwidth.
const HALF_DIGIT: f64 = 0.005;
/// Bandwidths below this say too little.
const LEAST: f64 = 0.05;

/// Size over (count times element size): the number of blocks in the size column. `None` if rows disagree, or all
/// are of size zero.
pub(super) fn blocks(rows: &[Row]) -> Option<u64> {
    let mut found = None;
    for row in rows {
        let block = row.count.checked_mul(row.dtype.size())?;
        if block == 0 {
            continue;
        }
        let bytes = row.bytes.get();
        if !bytes.is_multiple_of(block) || found.is_some_and(|n| n != bytes / block) {
            return None;
        }
        found = Some(bytes / block);
    }
    found
}

/// What the printed figures allow for busbw / algbw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BusFactor {
    /// The interval.
    pub(super) range: (f64, f64),
    /// Two figures or more say so, and none contradicts: it is not the work of one damaged digit.
    pub(super) sure: bool,
}

/// The interval that all printed figures allow for busbw / algbw; `None` if they say nothing.
pub(super) fn bus_factor(rows: &[Row]) -> Option<BusFactor> {
    let mut all: Option<(f64, f64)> = None;
    let mut best: Option<(f64, (f64, f64))> = None;
    let (mut agree, mut count) = (true, 0);
    for timing in rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten() {
        if timing.algbw < LEAST {
            continue;
        }
        let low = (timing.busbw - HALF_DIGIT).max(0.0) / (timing.algbw + HALF_DIGIT);
        let high = (timing.busbw + HALF_DIGIT) / (timing.algbw - HALF_DIGIT);
        if best.is_none_or(|(algbw, _)| timing.algbw > algbw) {
            best = Some((timing.algbw, (low, high)));
        }
        let (l, h) = all.unwrap_or((0.0, f64::INFINITY));
        let both = (l.max(low), h.min(high));
        agree &= both.0 <= both.1;
        count += 1;
        all = Some(both);
    }
    // Where rows contradict each other (a damaged digit), the fastest, which is the most precise, decides.
    let range = if agree { all } else { best.map(|(_, interval)| interval) };
    range.map(|range| BusFactor { range, sure: agree && count > 1 })
}

/// The numbers of ranks whose bus factor lies in the interval.
pub(super) fn from_factor(operation: Operation, (low, high): (f64, f64)) -> Option<(u32, u32)> {
    // (n−1)/n = x, or 2(n−1)/n = 2x.
    let scale = match operation {
        Operation::AllReduce => 2.0,
        op if op.busbw_factor(2) < 1.0 => 1.0,
        _ => return None,
    };
    let ranks = |factor: f64| 1.0 / (1.0 - factor / scale);
    let (low, high) = (low.max(0.0), high.min(scale));
    if low >= scale {
        return None;
    }
    let from = (ranks(low) - 1e-6).ceil().max(1.0);
    let to = if high >= scale { f64::from(u32::MAX) } else { (ranks(high) + 1e-6).floor().min(f64::from(u32::MAX)) };
    (from <= to).then_some((from as u32, to as u32))
}

/// The likeliest number of an interval: a multiple of eight, four or two next to the middle, else the middle.
pub(super) fn likeliest((low, high): (u32, u32)) -> u32 {
    let middle = low + (high - low) / 2;
    for step in [8, 4, 2] {
        let below = middle - middle % step;
        for candidate in [below, below.saturating_add(step)] {
            if (low..=high).contains(&candidate) && candidate > 0 {
                return candidate;
            }
        }
    }
    middle
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_figures() {
        let ranks = |algbw: f64, busbw: f64| {
            let interval = ((busbw - 0.005) / (algbw + 0.005), (busbw + 0.005) / (algbw - 0.005));
            from_factor(Operation::AllReduce, interval)
        };
        assert_eq!(ranks(156.48, 234.72), Some((4, 4)));
        assert_eq!(ranks(195.31, 386.56), Some((96, 96)));
        assert_eq!(ranks(47.49, 47.49), Some((2, 2)));
        assert_eq!(from_factor(Operation::SendRecv, (0.99, 1.01)), None);
        assert_eq!(from_factor(Operation::AllReduce, (2.5, 2.6)), None);
    }

    proptest! {
        #[test]
        fn the_truth_is_in_the_interval(n in 1u32..5000, algbw in 0.1f64..2000.0) {
            let round = |x: f64| (x * 100.0).round() / 100.0;
            for op in [Operation::AllReduce, Operation::AllGather] {
                let (a, b) = (round(algbw), round(algbw * op.busbw_factor(n)));
                let interval = ((b - HALF_DIGIT).max(0.0) / (a + HALF_DIGIT), (b + HALF_DIGIT) / (a - HALF_DIGIT));
                let (low, high) = from_factor(op, interval).unwrap();
                prop_assert!(low <= n && n <= high, "{op} {n}: {low}..{high}");
                let guess = likeliest((low, high));
                prop_assert!(low <= guess && guess <= high);
            }
        }
    }
}
