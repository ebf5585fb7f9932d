//! Goodput: the highest rate of requests at which a share of them is served in time.

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
    /// The rates that were tried, ascending, with the share that was served in time.
    pub tried: Vec<(f64, f64)>,
}

/// The rate is known to this part of itself.
const STEP: f64 = 0.02;
/// Rates are tried up to this, in requests a second.
const FASTEST: f64 = 1e6;
/// And down to this.
const SLOWEST: f64 = 1e-4;

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
    let mut tried: Vec<(f64, f64)> = Vec::new();
    let mut does = |rate: f64| -> Result<bool, ServeError> {
        let asked = Demand { arrivals: demand.arrivals.at(rate), ..demand.clone() };
        let requests = asked.draw_until(stop).ok_or(ServeError::Stopped)?;
        let share = in_time(&serve_until(deployment, &requests, stop)?, goal.slo, goal.warm);
        tried.push((rate, share));
        Ok(share >= goal.share)
    };
    let mut low = 1.0;
    let mut high;
    if does(low)? {
        high = low * 2.0;
        while high <= FASTEST && does(high)? {
            (low, high) = (high, high * 2.0);
        }
    } else {
        high = low;
        low /= 2.0;
        while low >= SLOWEST && !does(low)? {
            (low, high) = (low / 2.0, low);
        }
    }
    let (none, unbounded) = (low < SLOWEST, high > FASTEST);
    while !none && !unbounded && high / low > 1.0 + STEP {
        let middle = (low * high).sqrt();
        if does(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Goodput { rate: if none { 0.0 } else { low }, unbounded, tried })
}
