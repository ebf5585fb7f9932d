//! A long run played with failures that are drawn.

use rand_distr::{Distribution, Exp1};
use sim_core::random;

use super::LongRun;

/// What a run came to. Seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Played {
    /// All time.
    pub seconds: f64,
    /// Work that lasts.
    pub work: f64,
    /// Work that failures lost.
    pub lost: f64,
    /// Standing still for checkpoints.
    pub paused: f64,
    /// From failures until the run went on.
    pub restarting: f64,
    /// Failures.
    pub failures: u64,
}

impl Played {
    /// The share of the time that is work which lasts.
    #[must_use]
    pub fn effective(&self) -> f64 {
        self.work / self.seconds.max(1e-12)
    }
}

/// The most [occurrences](LongRun::occurrences) that a run is played with: some seconds.
pub const MOST_OCCURRENCES: f64 = 1e8;

/// Plays `seconds` of a run, or as much of it as has about [`MOST_OCCURRENCES`] ([`Played::seconds`] says how much). Distances between
/// failures are exponential, from the stream of failures of `seed`; restarts fail too. What is computed at the end lasts. An interval or
/// a distance between failures that is not above zero gives a run without work.
#[must_use]
pub fn play(run: &LongRun, seconds: f64, seed: u64) -> Played {
    play_until(run, seconds, seed, &|| false).unwrap_or_default()
}

/// Intervals from one look at the outside to the next.
const LOOKS: u64 = 4096;

/// The same, or nothing if `stop` says so on the way.
#[must_use]
pub fn play_until(run: &LongRun, seconds: f64, seed: u64, stop: &dyn Fn() -> bool) -> Option<Played> {
    let mut stream = random::stream(seed, "failures", 0);
    let mut failure = || {
        let distance: f64 = Exp1.sample(&mut stream);
        distance * run.between
    };
    let (pause, late) = (run.checkpoint.pause.max(0.0), (run.checkpoint.write - run.checkpoint.pause).max(0.0));
    let interval = run.interval;
    // What callers have not checked ends all the same.
    let seconds = seconds * (MOST_OCCURRENCES / run.occurrences(seconds)).min(1.0);
    if interval <= 0.0 || run.between <= 0.0 {
        return Some(Played { seconds, ..Played::default() });
    }
    let mut out = Played { seconds, ..Played::default() };
    let (mut now, mut fails) = (0.0, failure());
    // Work since the last checkpoint that counts, and that of it which counts from an instant on.
    let (mut open, mut pending): (f64, Option<(f64, f64)>) = (0.0, None);
    let mut turns = 0u64;
    while now < seconds {
        turns += 1;
        if turns.is_multiple_of(LOOKS) && stop() {
            return None;
        }
        // The next thing: the end of an interval with its pause.
        let (computed, stood) = (now + interval, now + interval + pause);
        let settle = |pending: &mut Option<(f64, f64)>, open: &mut f64, out: &mut Played, at: f64| {
            if let Some((_, work)) = pending.take_if(|(counts, _)| *counts <= at) {
                out.work += work;
                *open -= work;
            }
        };
        if fails >= stood.min(seconds) {
            settle(&mut pending, &mut open, &mut out, stood.min(seconds));
            open += interval.min(seconds - now);
            out.paused += (stood.min(seconds) - computed).max(0.0);
            if stood < seconds && pending.is_none() {
                pending = Some((stood + late, open));
                settle(&mut pending, &mut open, &mut out, stood);
            }
            now = stood;
            continue;
        }
        settle(&mut pending, &mut open, &mut out, fails);
        out.lost += open + (fails - now).min(interval);
        out.paused += (fails - computed).max(0.0);
        (open, pending) = (0.0, None);
        out.failures += 1;
        let mut on = fails + run.restart;
        let mut next = fails + failure();
        while next < on && next < seconds {
            out.failures += 1;
            if out.failures.is_multiple_of(LOOKS) && stop() {
                return None;
            }
            on = next + run.restart;
            next += failure();
        }
        out.restarting += on.min(seconds) - fails;
        (now, fails) = (on, next);
    }
    out.work += open;
    Some(out)
}
