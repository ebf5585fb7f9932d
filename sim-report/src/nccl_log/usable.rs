//! Which measurements of a table count, and what is said of those that don't. Whoever uses a row's times asks here.

use super::infer::timings;
use super::types::{Check, Convention, Row, Table, Timing};
use crate::metrics::Operation;

/// No call takes less, us: what claims to is no time.
pub const LEAST_US: f64 = 1e-3;

/// So many rows whose rates all differ by one factor from size over time are of another convention, not damaged.
const CONVENTION_ROWS: usize = 3;
/// How far such factors may lie apart, as a ratio.
const ONE_FACTOR: f64 = 1.05;

/// Why a measurement doesn't count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Of size zero: nothing was moved.
    NoBytes,
    /// The time is zero.
    NoTime,
    /// nccl-tests found so many wrong values in the result.
    Wrong(u64),
    /// The figures of the row contradict each other.
    Damaged,
}

impl Row {
    /// The times out of place and in place, us, or why they don't count; `None` where the log has none.
    #[must_use]
    pub fn halves(&self) -> [Option<Result<f64, Unusable>>; 2] {
        [self.out_of_place, self.in_place].map(|timing| timing.map(|t| self.judged(&t)))
    }

    fn judged(&self, timing: &Timing) -> Result<f64, Unusable> {
        match timing.wrong {
            _ if self.damaged => Err(Unusable::Damaged),
            Check::Wrong(n) if n > 0 => Err(Unusable::Wrong(n)),
            _ if self.bytes.get() == 0 => Err(Unusable::NoBytes),
            _ if !timing.time_us.is_finite() || timing.time_us < LEAST_US => Err(Unusable::NoTime),
            _ => Ok(timing.time_us),
        }
    }
}

/// Marks rows whose figures contradict each other, and says (line, message) what doesn't count.
pub(super) fn judge(table: &mut Table, remarks: &mut Vec<(usize, String)>) {
    let doubtful = doubtful(table);
    if let Some((line, message)) = other_convention(table, &doubtful) {
        remarks.push((line, message));
    } else {
        for Doubt { line, message, .. } in doubtful {
            let mut whole = table.rows.iter_mut().filter(|row| row.line == line && !row.damaged).peekable();
            // One remark a row, whichever of its halves are in doubt.
            if whole.peek().is_some() {
                remarks.push((line, message));
            }
            whole.for_each(|row| row.damaged = true);
        }
    }
    for row in &table.rows {
        for (half, place) in row.halves().into_iter().zip(["out of place", "in place"]) {
            let why = match half {
                Some(Err(Unusable::NoTime)) => "the time is zero",
                Some(Err(Unusable::Wrong(1))) => "1 wrong value in the result",
                Some(Err(Unusable::Wrong(n))) => &format!("{n} wrong values in the result"),
                // Size zero is what a sweep may begin with, and a damaged row has its remark.
                Some(Err(Unusable::NoBytes | Unusable::Damaged) | Ok(_)) | None => continue,
            };
            remarks.push((row.line, format!("{} B {place}: {why}; it is left out", row.bytes.get())));
        }
    }
}

/// A row whose algbw is not what size and time give.
struct Doubt {
    line: usize,
    /// Size over time, over the printed algbw.
    ratio: f64,
    message: String,
}

fn doubtful(table: &Table) -> Vec<Doubt> {
    let factor = match (table.convention, table.operation, table.ranks) {
        (Convention::Scaled, _, Some(n)) | (_, Some(Operation::Hypercube), Some(n)) => f64::from(n - 1) / f64::from(n),
        _ => 1.0,
    };
    let one = |(row, timing): (&Row, Timing)| {
        if timing.algbw < 1.0 || timing.time_us <= 0.0 {
            return None;
        }
        let algbw = row.bytes.get() as f64 / timing.time_us / 1e3 * factor;
        // Times are printed with two decimals, so short ones are coarse.
        let slack = 0.02 + 0.01 / timing.time_us;
        let ratio = algbw / timing.algbw;
        let (bytes, time) = (row.bytes.get(), timing.time_us);
        ((ratio - 1.0).abs() > slack).then(|| Doubt {
            line: row.line,
            ratio,
            message: format!(
                "algbw {} is not {bytes} B in {time} us, which makes {algbw:.2}: one of the figures is damaged; the row is left out",
                timing.algbw
            ),
        })
    };
    timings(&table.rows).filter_map(one).collect()
}

/// The remark on a table whose rates are all size over time but for one factor: it has another convention, and its times hold.
fn other_convention(table: &Table, doubtful: &[Doubt]) -> Option<(usize, String)> {
    let all = timings(&table.rows).filter(|(_, t)| t.algbw >= 1.0 && t.time_us > 0.0).count();
    let ratios = || doubtful.iter().map(|d| d.ratio);
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    (doubtful.len() >= CONVENTION_ROWS && doubtful.len() * 2 > all && most < ONE_FACTOR * least).then(|| {
        let message = format!(
            "size over time is {least:.2} times the printed algbw: another convention than nccl-tests'; times are taken as they are"
        );
        (table.line, message)
    })
}
