//! The best of all ways to run a call: every algorithm, protocol and number of channels that NCCL would allow, simulated.

use rayon::prelude::*;
use sim_collectives::algorithms::{NAMES, Name};
use sim_collectives::nccl::{Algorithm, Verdict};
use sim_collectives::{Machine, Request};
use sim_core::engine;
use sim_core::outcome::StopReason;
use sim_core::units::{Span, Time};
use sim_report::result::{BestResult, CollectiveResult, TriedResult};

use super::{RunError, World, played, predict, profile};
use crate::scenario::Collective;

/// What a search tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// What NCCL offers, with every number of channels that is a power of two or NCCL's most.
    Nccl,
    /// That, and every other algorithm that can do the operation on this machine.
    All,
}

/// Something else has to be faster by this share of the time before it is taken in place of NCCL's choice.
const WORTH: f64 = 0.005;
/// What takes longer than this many times NCCL's choice is given up.
const GIVE_UP: f64 = 1.25;

/// The best at each size; `rows` are what NCCL's choice gave. Sizes without an answer, as the run was interrupted, are left
/// out.
pub(super) fn search(
    world: &World<'_>,
    machine: &Machine<'_>,
    collective: &Collective,
    requests: &[Request],
    rows: &[CollectiveResult],
    best: Best,
) -> Result<Vec<BestResult>, RunError> {
    let jobs: Vec<(usize, Request)> = requests
        .iter()
        .enumerate()
        .filter(|(_, request)| rows.iter().any(|row| row.bytes == request.bytes.get()))
        .flat_map(|(size, request)| ways(machine, request, best).into_iter().map(move |way| (size, way)))
        .collect();
    world.more(jobs.len());
    let network = profile::library(machine.fabric, &machine.timing, world.loaded.packets.as_ref());
    let row_of = |request: &Request| rows.iter().find(|row| row.bytes == request.bytes.get());
    let one = |(size, request): &(usize, Request)| -> Result<(usize, Option<TriedResult>), RunError> {
        let calls = (collective.warmup, collective.iterations);
        let (warm, timed) = played(request.operation, calls);
        let least = row_of(request).map_or(f64::INFINITY, |row| row.time_us);
        // The first call may take longer than the others.
        let most = Time::ZERO + Span::from_us_f64(least * GIVE_UP * f64::from(warm + timed + 1));
        let limits = world.limits();
        let limits = engine::Limits { time: limits.time.min(most), ..limits };
        let ran = if world.interrupted() { None } else { Some(predict(machine, &network, request, calls, limits)?) };
        world.one_done();
        let ran = ran.filter(|ran| ran.outcome.reason == StopReason::Finished);
        Ok((*size, ran.map(|ran| tried(&ran.row, request.channels))))
    };
    let ran: Vec<(usize, Option<TriedResult>)> =
        jobs.par_iter().rev().with_max_len(1).map(one).collect::<Result<_, _>>()?;
    if world.interrupted() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for (size, request) in requests.iter().enumerate() {
        let Some(row) = row_of(request) else { continue };
        let nccl = tried(row, None);
        let all = ran.iter().filter(|(of, _)| *of == size);
        let slower = all.clone().filter(|(_, tried)| tried.is_none()).count() as u32;
        let mut list: Vec<TriedResult> = all.filter_map(|(_, tried)| tried.clone()).collect();
        list.push(nccl.clone());
        // A stable sort of a list in a fixed order: equal times have a fixed order too.
        list.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        let fastest = &list[0];
        let faster = fastest.time_us < nccl.time_us * (1.0 - WORTH);
        let best = if faster { fastest.clone() } else { nccl.clone() };
        let saved = if nccl.time_us > 0.0 { 1.0 - best.time_us / nccl.time_us } else { 0.0 };
        out.push(BestResult { op: row.op.clone(), bytes: row.bytes, nccl, best, saved, tried: list, slower });
    }
    Ok(out)
}

fn tried(row: &CollectiveResult, most_channels: Option<u32>) -> TriedResult {
    TriedResult {
        algorithm: row.algorithm.clone(),
        protocol: row.protocol.clone(),
        channels: row.channels,
        most_channels,
        time_us: row.time_us,
        busbw: row.busbw,
    }
}

/// All ways to run `request` but NCCL's own, one of those that come to the same.
fn ways(machine: &Machine<'_>, request: &Request, best: Best) -> Vec<Request> {
    let forced = |name: Name| Request { algorithm: Some(name), ..request.clone() };
    let candidates = machine.comm.candidates_of(request.operation, request.bytes.get(), request.element);
    let offered = candidates.iter().filter(|c| matches!(c.verdict, Verdict::Offered { .. }));
    let mut ways: Vec<Request> = offered
        .flat_map(|c| {
            let way = Request { protocol: Some(c.protocol), ..forced(c.algorithm.into()) };
            let most = if c.algorithm.is_nvls() { machine.comm.nvls().channels } else { machine.comm.channels() };
            let counts = counts(most).into_iter().map(Some);
            core::iter::once(None).chain(counts).map(move |channels| Request { channels, ..way.clone() })
        })
        .collect();
    if best == Best::All {
        let own = NAMES.iter().filter(|name| name.parse::<Algorithm>().is_err());
        ways.extend(own.filter_map(|name| Some(forced(name.parse().ok()?))));
    }
    // What comes to the same plan is played once, and what NCCL would do by itself not at all.
    let plan = |way: &Request| machine.plan(way).ok().map(|plan| (plan.algorithm, plan.protocol, plan.channels));
    let mut seen: Vec<_> = plan(request).into_iter().collect();
    ways.retain(|way| {
        let Some(plan) = plan(way) else { return false };
        let new = !seen.contains(&plan);
        if new {
            seen.push(plan);
        }
        new
    });
    ways
}

/// The powers of two up to `most`, and `most`.
fn counts(most: u32) -> Vec<u32> {
    let mut list: Vec<u32> = (0..most.max(1).ilog2() + 1).map(|k| 1 << k).collect();
    if list.last() != Some(&most.max(1)) {
        list.push(most);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_with_the_most() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(16), [1, 2, 4, 8, 16]);
        assert_eq!(counts(24), [1, 2, 4, 8, 16, 24]);
    }
}
