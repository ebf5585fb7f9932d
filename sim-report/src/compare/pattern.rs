//! The pattern of residuals in words: which sizes are off, which way, and what that usually means.

use std::collections::BTreeMap;

use sim_core::units::Bytes;

use super::clues;
use super::shape;
use super::stats::quantile;
use super::{BandName, LogComparison, Placement, Row};

/// A size is off if its median error is beyond this.
const OFF: f64 = 0.10;

/// A difference of times that grows more than so many times over the sizes is no latency.
const GROWS: f64 = 5.0;

/// How the measurement of a size stands to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// Measured is slower than predicted.
    Slow,
    /// Measured is faster than predicted.
    Fast,
}

/// A size and how it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) bytes: Bytes,
    /// measured rate / predicted rate − 1, the median over its rows: predicted / measured time − 1, the error of a row.
    rate: f64,
    verdict: Verdict,
    /// Predicted, µs.
    pub(super) predicted_us: f64,
    /// Measured, µs: that of the median error.
    pub(super) measured_us: f64,
}

impl Size {
    /// Measured rate / predicted rate.
    pub(super) fn ratio(&self) -> f64 {
        1.0 + self.rate
    }
}

pub(super) fn describe(log: &LogComparison) -> Vec<String> {
    let rows = &log.rows;
    let sizes = sizes(rows);
    let mut out = Vec::new();
    if log.ranks == Some(1) && !rows.is_empty() {
        let help = "start the test with more (-g 8, or mpirun -np 8)";
        return vec![format!("one rank: a copy within a GPU, in which no link takes part; {help}")];
    }
    if let Some(shape) = shape::describe(&sizes) {
        // A rate says little of a run that stalled or collapsed.
        out.push(shape);
    } else if let Some(seen) = by_size(&sizes) {
        let clues = log.clues.clone().unwrap_or_default();
        out.extend(with_causes(seen, clues::describe(&sizes, log.operation, log.ranks, &clues)));
    }
    out.extend(by_placement(rows));
    out.extend(outliers(rows));
    out
}

/// Which sizes are off, and what such a split of the sizes usually means, whatever the cluster.
struct Seen {
    sizes: String,
    usually: Option<String>,
}

impl Seen {
    fn new(sizes: impl Into<String>, usually: &str) -> Self {
        Self { sizes: sizes.into(), usually: Some(usually.to_owned()) }
    }
}

/// What was seen, the causes that the cluster tells (those that explain most first), what else it tells, and what it usually
/// means: that last, and only if no cause explains it.
fn with_causes(seen: Seen, told: clues::Told) -> Vec<String> {
    let usually = seen.usually.filter(|_| !told.explained);
    if told.causes.is_empty() {
        let first = usually.map_or_else(|| seen.sizes.clone(), |usually| format!("{}: {usually}", seen.sizes));
        return core::iter::once(first).chain(told.facts).collect();
    }
    let last = usually.map(|usually| format!("if it is none of these: {usually}"));
    core::iter::once(seen.sizes).chain(told.causes).chain(told.facts).chain(last).collect()
}

fn sizes(rows: &[Row]) -> Vec<Size> {
    let mut by_size: BTreeMap<Bytes, (f64, Vec<f64>)> = BTreeMap::new();
    for row in rows {
        by_size.entry(row.bytes).or_insert((row.predicted_us, Vec::new())).1.push(row.error());
    }
    by_size
        .into_iter()
        .filter_map(|(bytes, (predicted_us, mut errors))| {
            errors.sort_by(f64::total_cmp);
            // The row's rate against the model's is predicted time over measured time.
            let rate = quantile(&errors, 0.5)?;
            let verdict = if rate < -OFF {
                Verdict::Slow
            } else if rate > OFF {
                Verdict::Fast
            } else {
                Verdict::Fine
            };
            Some(Size { bytes, rate, verdict, predicted_us, measured_us: predicted_us / (1.0 + rate) })
        })
        .collect()
}

/// The sentence about sizes. Runs of up to one stray size in ten are overlooked.
fn by_size(sizes: &[Size]) -> Option<Seen> {
    let all = sizes.len();
    if all == 0 {
        return None;
    }
    let off = sizes.iter().filter(|s| s.verdict != Verdict::Fine).count();
    if off == 0 {
        let sizes = format!("all {} within {} %", count(all, "size"), OFF * 100.0);
        return Some(Seen { sizes, usually: None });
    }
    let strays = |part: &[Size], verdict| part.iter().filter(|s| s.verdict != verdict).count();
    let mostly = |part: &[Size], verdict| !part.is_empty() && strays(part, verdict) * 10 <= part.len();
    for verdict in [Verdict::Slow, Verdict::Fast] {
        if mostly(sizes, verdict) {
            let hint = whole_range(sizes, verdict);
            return Some(Seen::new(format!("all sizes {}", by_how_much(sizes)), hint));
        }
    }
    // The split that leaves the fewest strays, where one side is off and the other is not like it.
    let mut best: Option<(usize, usize, Verdict, Verdict)> = None;
    for split in 1..all {
        for small in [Verdict::Fine, Verdict::Slow, Verdict::Fast] {
            for large in [Verdict::Fine, Verdict::Slow, Verdict::Fast] {
                let (left, right) = sizes.split_at(split);
                if small == large || !mostly(left, small) || !mostly(right, large) {
                    continue;
                }
                let cost = strays(left, small) + strays(right, large);
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, split, small, large));
                }
            }
        }
    }
    if let Some((_, split, small, large)) = best {
        let (left, right) = sizes.split_at(split);
        return Some(two_ranges(left, small, right, large));
    }
    let worst: Vec<_> = sizes.iter().filter(|s| s.verdict != Verdict::Fine).collect();
    let first = worst.first()?;
    let last = worst.last()?;
    let inside: Vec<Size> = sizes.iter().filter(|s| (first.bytes..=last.bytes).contains(&s.bytes)).copied().collect();
    if inside.len() < all && mostly(&inside, first.verdict) {
        return Some(Seen::new(
            format!("{} {}, smaller and larger fine", range(&inside), by_how_much(&inside)),
            "looks like a change of algorithm or protocol at another size than the model's",
        ));
    }
    Some(Seen::new(
        format!("{off} of {} off by more than {} %, in no simple pattern", count(all, "size"), OFF * 100.0),
        "noise, or changes of algorithm at other sizes than the model's",
    ))
}

fn whole_range(sizes: &[Size], verdict: Verdict) -> &'static str {
    let rates: Vec<f64> = sizes.iter().map(|s| 1.0 + s.rate).collect();
    let even = rates.iter().copied().fold(f64::INFINITY, f64::min) > 0.8 * rates.iter().copied().fold(0.0, f64::max);
    match (verdict, even) {
        (Verdict::Slow, true) => {
            "looks like one factor on everything (another system, a slower clock, a shared machine)"
        }
        (Verdict::Slow, false) => {
            "looks like another path than the model's (socket transport, no GPUDirect, no peer-to-peer)"
        }
        (_, true) => "looks like one factor on everything (a faster system than the model's)",
        (_, false) => "looks like a better path or another algorithm than the model's",
    }
}

fn two_ranges(left: &[Size], small: Verdict, right: &[Size], large: Verdict) -> Seen {
    use Verdict::{Fast, Fine, Slow};
    let cut = right.first().map(|s| size(s.bytes)).unwrap_or_default();
    let low = format!("all sizes >= {cut} {}", by_how_much(right));
    let high = format!("all sizes < {cut} {}", by_how_much(left));
    let latency = by_latency(left);
    match (small, large) {
        (Fine, Slow) => Seen::new(
            format!("{low}, smaller fine"),
            "looks like per-step cost, NIC goodput or a shared uplink, not one latency",
        ),
        (Slow, Fine) => Seen::new(
            format!("{high}, larger fine"),
            if latency {
                "looks like launch cost or latency per step (alpha), not bandwidth"
            } else {
                "looks like another algorithm or protocol, or fewer channels, below that size: what is lost grows with the size, so it is no latency"
            },
        ),
        (Fine, Fast) => Seen::new(format!("{low}, smaller fine"), "the model's link rate or efficiency is too low"),
        (Fast, Fine) => Seen::new(
            format!("{high}, larger fine"),
            if latency {
                "the model's launch cost or latency is too high"
            } else {
                "looks like a better algorithm or protocol, or more channels, below that size than the model's"
            },
        ),
        _ => Seen::new(
            format!("{high}, and {low}"),
            if latency {
                "latency and bandwidth are off in opposite ways"
            } else {
                "looks like a change of algorithm or protocol at another size than the model's"
            },
        ),
    }
}

/// Whether what is lost, or won, at the smaller sizes is a latency: they begin where latency bounds, and it doesn't grow with them.
fn by_latency(part: &[Size]) -> bool {
    let off: Vec<&Size> = part.iter().filter(|s| s.verdict != Verdict::Fine).collect();
    let (Some(first), Some(last)) = (off.first(), off.last()) else { return false };
    let lost = |s: &Size| (s.measured_us - s.predicted_us).abs();
    BandName::of(first.bytes) == BandName::Small && lost(last) <= GROWS * lost(first)
}

/// `35 % slower than predicted (error -35 %)`, the median over the sizes that are off: the measured rate against the model's, which
/// is the scale of the error of a row.
fn by_how_much(part: &[Size]) -> String {
    let mut rates: Vec<f64> = part.iter().filter(|s| s.verdict != Verdict::Fine).map(|s| s.rate).collect();
    rates.sort_by(f64::total_cmp);
    let rate = quantile(&rates, 0.5).unwrap_or(0.0) * 100.0;
    let way = if rate < 0.0 { "slower" } else { "faster" };
    format!("{:.0} % {way} than predicted (error {rate:+.0} %)", rate.abs())
}

fn by_placement(rows: &[Row]) -> Option<String> {
    let median = |placement| {
        let mut errors: Vec<f64> = rows.iter().filter(|r| r.placement == placement).map(Row::error).collect();
        errors.sort_by(f64::total_cmp);
        quantile(&errors, 0.5)
    };
    let (out, inside) = (median(Placement::OutOfPlace)?, median(Placement::InPlace)?);
    let (slower, gap) = if out < inside { ("out of place", inside - out) } else { ("in place", out - inside) };
    (gap > OFF).then(|| {
        let (out, inside, gap) = (out * 100.0, inside * 100.0, gap * 100.0);
        format!("{slower} is {gap:.0} points slower: median error {out:+.0} % out of place, {inside:+.0} % in place")
    })
}

fn outliers(rows: &[Row]) -> Option<String> {
    let found: Vec<_> = rows.iter().filter(|row| row.outlier).collect();
    let first = found.first()?;
    let which = match found.len() {
        1 => format!("{} {}", size(first.bytes), first.placement.name()),
        n => format!("{n} rows, first {} {}", size(first.bytes), first.placement.name()),
    };
    Some(format!("outliers (more than {} times their twin placement, kept): {which}", super::OUTLIER_RATIO))
}

pub(super) fn range(part: &[Size]) -> String {
    match part {
        [] => String::new(),
        [one] => size(one.bytes),
        [first, .., last] => format!("{} to {}", size(first.bytes), size(last.bytes)),
    }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn size(bytes: Bytes) -> String {
    bytes.to_string()
}
