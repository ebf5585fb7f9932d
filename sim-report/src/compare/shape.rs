//! Shapes of residuals that no slow link makes: a stall in the middle of a sweep, a collapse under load.

use super::pattern::{Size, range};

/// A size is stuck if its rate is below this part of the model's.
const STUCK: f64 = 0.4;
/// Larger sizes have recovered if the last reaches this part of the model's rate.
const RECOVERED: f64 = 0.6;
/// Time grows at most with this power of the size where it does not depend on it; where a link is slow it grows with the first.
const FLAT: f64 = 0.55;
/// Sizes that a shape takes at least, and the least ratio of the last to the first.
const LEAST_SIZES: usize = 4;
const LEAST_SPAN: f64 = 16.0;
/// In a collapse the rate falls below this part of what a smaller size reached, and has recovered at that.
const FALLEN: f64 = 0.4;
const BACK: f64 = 0.8;
/// A size is bound by bandwidth if it moves at this part of the best rate measured.
const LOADED: f64 = 0.3;

/// The sentence about a stall or a collapse, if there is one.
pub(super) fn describe(sizes: &[Size]) -> Option<String> {
    collapse(sizes).or_else(|| stall(sizes))
}

/// Measured rate, bytes a microsecond.
fn rate(size: &Size) -> f64 {
    size.bytes.get() as f64 / size.measured_us
}

/// Larger sizes that move at a small part of the rate that smaller ones reached. It takes no model to see that.
fn collapse(sizes: &[Size]) -> Option<String> {
    let best = sizes.iter().map(rate).fold(0.0, f64::max);
    let first = sizes.iter().enumerate().position(|(at, size)| {
        let before = sizes[..at].iter().map(rate).fold(0.0, f64::max);
        before > LOADED * best && rate(size) < FALLEN * before
    })?;
    let before = sizes[..first].iter().map(rate).fold(0.0, f64::max);
    let fallen = sizes[first..].iter().take_while(|s| rate(s) < FALLEN * before).count();
    let run = &sizes[first..first + fallen];
    if run.len() < LEAST_SIZES {
        return None;
    }
    let (low, high) = extremes(run);
    let part = rate(run.first()?) / before * 100.0;
    let after = sizes[first + fallen..].iter().find(|s| rate(s) >= BACK * before);
    let after = after.map_or_else(|| "it does not come back".to_owned(), |s| format!("it is back at {}", s.bytes));
    Some(format!(
        "at {} the rate falls to {part:.0} % of what smaller sizes reach; {} take {}, and {after}: looks like a collapse of the network under load (loss and retransmission, pauses or reordering), not a slow link",
        run.first()?.bytes,
        range(run),
        times(low, high)
    ))
}

/// Sizes in the middle whose time hardly depends on their number of bytes, where larger ones recover.
fn stall(sizes: &[Size]) -> Option<String> {
    let stuck = longest_stuck(sizes)?;
    let (first, last) = (stuck.first()?, stuck.last()?);
    let span = last.bytes.get() as f64 / first.bytes.get().max(1) as f64;
    if stuck.len() < LEAST_SIZES || span < LEAST_SPAN || exponent(stuck) > FLAT {
        return None;
    }
    let recovered = sizes.last().filter(|s| s.bytes > last.bytes && s.ratio() >= RECOVERED)?;
    let (low, high) = extremes(stuck);
    Some(format!(
        "{} take {} whatever their size, and {} reaches {:.0} % of the predicted rate: something stalls in the middle of the sweep (a time-out, flow control, a protocol that waits), no link is slow",
        range(stuck),
        times(low, high),
        recovered.bytes,
        recovered.ratio() * 100.0
    ))
}

/// The shortest and the longest measured time.
fn extremes(sizes: &[Size]) -> (f64, f64) {
    sizes.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(s.measured_us), high.max(s.measured_us)))
}

/// The longest run of stuck sizes; one size in it may be better.
fn longest_stuck(sizes: &[Size]) -> Option<&[Size]> {
    let is = |at: usize| sizes.get(at).is_some_and(|s: &Size| s.ratio() < STUCK);
    let mut best = 0..0;
    let mut at = 0;
    while at < sizes.len() {
        let start = at;
        while is(at) || (at > start && is(at - 1) && is(at + 1)) {
            at += 1;
        }
        if at - start > best.len() {
            best = start..at;
        }
        at = at.max(start + 1);
    }
    sizes.get(best).filter(|run| !run.is_empty())
}

/// With which power of the size the measured time grows, by least squares over logarithms.
fn exponent(sizes: &[Size]) -> f64 {
    let points: Vec<(f64, f64)> =
        sizes.iter().map(|s| ((s.bytes.get().max(1) as f64).ln(), s.measured_us.max(1e-9).ln())).collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let (up, down) =
        points.iter().fold((0.0, 0.0), |(up, down), p| (up + (p.0 - x) * (p.1 - y), down + (p.0 - x).powi(2)));
    if down > 0.0 { up / down } else { f64::INFINITY }
}

/// `0.3 to 2.1 ms`.
fn times(low_us: f64, high_us: f64) -> String {
    let (scale, unit) = if high_us >= 1000.0 { (1000.0, "ms") } else { (1.0, "us") };
    let number = |us: f64| {
        let value = us / scale;
        if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
    };
    format!("{} to {} {unit}", number(low_us), number(high_us))
}
