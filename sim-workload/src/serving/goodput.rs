//! Goodput: the highest rate of requests at which a share of them is served in time, for as long as they come.
//!
//! A queue that grows needs time to be seen: what few requests show in time may be late after more. So a rate that was found is tried with
//! four times as many, and looked for below where it does not hold, until it does in a run that is long beside what a first token may take.

use super::report::{Slo, in_time};
use super::requests::Demand;
use super::server::{Deployment, ServeError, serve_until};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// What a request may take.
    pub slo: Slo,
    /// The share of requests that must be served so.
    pub share: f64,
    /// Requests that are not counted at the start of a run.
    pub warm: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Goodput {
    /// Requests a second; zero if not even the slowest rate that was tried does.
    pub rate: f64,
    /// Whether the rate is bounded by the search: all that was tried does.
    pub unbounded: bool,
    /// The rates that were tried last, and before those that were too fast, ascending, with the share that was served in time.
    pub tried: Vec<(f64, f64)>,
    /// Requests with which the rate held.
    pub requests: u64,
}

/// The rate is known to this part of itself.
const STEP: f64 = 0.02;
/// Rates are tried up to this, in requests a second.
const FASTEST: f64 = 1e6;
/// And down to this, and to as few that all come within [`LAST`] seconds.
const SLOWEST: f64 = 1e-4;
/// Seconds that times of a run are counted for.
const LAST: f64 = 1e7;
/// Requests up to which a rate is tried with more, unless more are asked for: at 95 % of the load that can be served queues settle within some
/// 1/(1 − 0.95)² times the requests that are served at once, which are tens to hundreds.
const MOST: u64 = 20_000;
/// How many times as many.
const MORE: u64 = 4;
/// A run in which a rate holds takes so many times what a first token may: a queue that grows by a part of this would be seen.
const LONG: f64 = 20.0;

/// Finds the goodput of a deployment for `demand`, whose law is tried at other rates with the same draws: doubling or halving first,
/// then by bisection. More requests a second are taken never to make more of them be in time.
///
/// # Errors
/// If a request never fits, or `stop` said so.
pub fn find(
    deployment: &Deployment<'_>,
    demand: &Demand,
    goal: Goal,
    stop: &dyn Fn() -> bool,
) -> Result<Goodput, ServeError> {
    let mut tried = Vec::new();
    let does = |rate: f64, count: u64, tried: &mut Vec<(f64, f64)>| -> Result<bool, ServeError> {
        let asked = Demand { arrivals: demand.arrivals.at(rate), count, ..demand.clone() };
        let requests = asked.draw_until(stop).ok_or(ServeError::Stopped)?;
        let share = in_time(&serve_until(deployment, &requests, stop)?, goal.slo, goal.warm);
        tried.push((rate, share));
        Ok(share >= goal.share)
    };
    let slowest = |count: u64| SLOWEST.max(count as f64 / LAST);
    let mut count = demand.count;
    let mut low = 1.0;
    let mut high;
    if does(low, count, &mut tried)? {
        high = low * 2.0;
        while high <= FASTEST && does(high, count, &mut tried)? {
            (low, high) = (high, high * 2.0);
        }
    } else {
        high = low;
        low /= 2.0;
        while low >= slowest(count) && !does(low, count, &mut tried)? {
            (low, high) = (low / 2.0, low);
        }
    }
    let mut unbounded = high > FASTEST;
    let between = |mut low: f64, mut high: f64, count: u64, tried: &mut Vec<(f64, f64)>| {
        while low >= slowest(count) && high / low > 1.0 + STEP {
            let middle = (low * high).sqrt();
            if does(middle, count, tried)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok::<f64, ServeError>(low)
    };
    if !unbounded {
        low = between(low, high, count, &mut tried)?;
    }
    // Few requests can all be served in time however fast they come.
    while low >= slowest(count) && count.saturating_mul(MORE) <= MOST {
        count *= MORE;
        tried.retain(|(_, share)| *share < goal.share);
        if does(low, count, &mut tried)? {
            // A queue can grow for as long as a first token may take, and nobody is late yet.
            if unbounded || (count as f64) < LONG * low * goal.slo.ttft_ms / 1e3 {
                continue;
            }
            break;
        }
        unbounded = false;
        high = low;
        low /= 2.0;
        while low >= slowest(count) && !does(low, count, &mut tried)? {
            (low, high) = (low / 2.0, low);
        }
        low = between(low, high, count, &mut tried)?;
    }
    let none = low < slowest(count);
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Goodput { rate: if none { 0.0 } else { low }, unbounded, tried, requests: count })
}
