//! A collective over its sizes.

use std::collections::BTreeSet;
use std::time::Duration;

use rayon::prelude::*;
use sim_collectives::nccl::{Element, Operation};
use sim_collectives::step_graph::ExecuteError;
use sim_collectives::timing::{Key, Timing};
use sim_collectives::{Machine, Plan, Request, bench};
use sim_core::engine;
use sim_core::ids::LinkId;
use sim_core::network::Network;
use sim_core::outcome::{Outcome, StopReason};
use sim_core::units::{Bytes, Time};
use sim_report::metrics;
use sim_report::result::CollectiveResult;
use sim_report::table::time_text;

use super::{Explain, RunError, Sum, World, best, bottleneck, explain, interval, profile};
use crate::scenario::{Collective, Loaded, Uneven};

/// Timed calls that are played at most: calls back to back are alike after the first (to 0.2 % from 2 to 4 of them), so
/// that more would only repeat what is known. Not so where ranks are coupled to their neighbours or to a root alone, and
/// run ahead of the others, or a slow one is felt one rank further with each call: those are all played.
const fn most_timed(operation: Operation) -> u32 {
    if matches!(operation, Operation::SendRecv | Operation::Gather | Operation::Scatter) { 20 } else { 2 }
}

/// Calls before those that are timed: the first differs from the others, no later one does.
const MOST_WARM: u32 = 1;

/// How many of `warm` calls before `timed` ones are played.
#[must_use]
pub fn played(operation: Operation, (warm, timed): (u32, u32)) -> (u32, u32) {
    (warm.min(MOST_WARM), timed.clamp(1, most_timed(operation)))
}

/// One size of a collective, played.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// The row of results.
    pub row: CollectiveResult,
    /// The shortest and the longest time of a rank, µs.
    pub range_us: (f64, f64),
    /// What the engine measured.
    pub outcome: Outcome,
    /// Time of the simulation itself.
    pub wall: Duration,
}

/// The size that nccl-tests would make of `bytes`: whole elements, and where the size counts all ranks' parts, equal
/// parts of whole 16 bytes.
pub(super) fn trimmed(operation: Operation, bytes: Bytes, element: Element, ranks: u32) -> Bytes {
    match metric(operation) {
        Some(op) => op.trim(bytes, element.datatype.bytes(), ranks).bytes,
        None => bytes,
    }
}

/// The operation as results know it.
pub(super) fn metric(operation: Operation) -> Option<metrics::Operation> {
    metrics::Operation::ALL.into_iter().find(|op| op.name() == operation.name())
}

/// Plays one size with so many calls before the timed ones, and so many of these, as nccl-tests does, but no more than
/// [`played`] says; and gives the row of results.
///
/// # Errors
/// If the call can't be run.
pub fn predict(
    machine: &Machine<'_>,
    network: &Network,
    request: &Request,
    calls: (u32, u32),
    limits: engine::Limits,
) -> Result<Predicted, RunError> {
    let what = format!("{} of {}", request.operation, request.bytes);
    let (warm, timed) = played(request.operation, calls);
    let timed = bench::time(machine, network, request, warm, timed, limits).map_err(RunError::unable(what.clone()))?;
    let wall = timed.wall;
    super::sum::sound(&what, &timed.outcome)?;
    profile::used_links(machine.fabric, &machine.timing, &timed.outcome);
    let row = row((machine, network), request, &timed.plan, &timed.outcome, timed.time.as_us(), None);
    let range_us = (timed.range.0.as_us(), timed.range.1.as_us());
    Ok(Predicted { row, range_us, outcome: timed.outcome, wall })
}

/// Plays one size on some GPUs of a scenario, rank by rank, with timing parameters that `change` has put in place, and gives the
/// keys of those that the prediction asked for.
///
/// # Errors
/// If the call can't be run.
pub fn predict_with(
    loaded: &Loaded,
    group: &[u32],
    request: &Request,
    calls: (u32, u32),
    limits: engine::Limits,
    change: impl FnOnce(&mut Timing),
) -> Result<(Predicted, Vec<Key>), RunError> {
    let mut machine = loaded.machine(group)?;
    change(&mut machine.timing);
    machine.timing = machine.timing.watched();
    let network = profile::library(machine.fabric, &machine.timing, loaded.packets.as_ref());
    let predicted = predict(&machine, &network, request, calls, limits)?;
    let asked = machine.timing.read().into_iter().map(|p| p.key).collect();
    Ok((predicted, asked))
}

/// The row of results of a call that took `time_us`; where others ran too, `links` are those that it uses itself.
pub(super) fn row(
    (machine, network): (&Machine<'_>, &Network),
    request: &Request,
    plan: &Plan,
    outcome: &Outcome,
    time_us: f64,
    links: Option<&BTreeSet<LinkId>>,
) -> CollectiveResult {
    let plain = request.bytes.get() as f64 / time_us.max(1e-6) / 1e3;
    let (algbw, busbw) =
        metric(request.operation).map_or((plain, plain), |op| op.bandwidths(request.bytes, time_us, machine.ranks()));
    CollectiveResult {
        op: request.operation.to_string(),
        bytes: request.bytes.get(),
        algorithm: plan.algorithm.to_owned(),
        protocol: plan.protocol.to_string(),
        channels: plan.channels,
        time_us,
        algbw,
        busbw,
        bottleneck: bottleneck::collective(machine, (plan, network), outcome, (time_us, algbw, busbw), links),
        low_us: None,
        high_us: None,
        kind: None,
    }
}

/// What a collective asks for at each of its sizes, on so many ranks.
pub(super) fn requests(collective: &Collective, ranks: u32) -> Vec<Request> {
    let element = Element { datatype: collective.datatype, reduction: collective.reduction };
    let given = matches!(collective.uneven, Uneven::Matrix(_));
    let request = |bytes: &Bytes| Request {
        operation: collective.op,
        bytes: if given { *bytes } else { trimmed(collective.op, *bytes, element, ranks) },
        traffic: collective.uneven.traffic(*bytes, ranks),
        element,
        algorithm: collective.algorithm,
        protocol: collective.protocol,
        channels: collective.channels,
        root: collective.root,
        iterations: 1,
        way: collective.way,
    };
    collective.sizes.iter().map(request).collect()
}

/// Plays all sizes; false if one stopped early.
pub(super) fn play(world: &mut World<'_>, collective: &Collective, sum: &mut Sum) -> Result<bool, RunError> {
    let machine = world.loaded.machine(&collective.group)?;
    let requests = requests(collective, machine.ranks());
    // Large sizes take longest; begun first, they leave no thread idle at the end.
    let one = |request: &Request| {
        if world.interrupted() {
            return Ok(None);
        }
        let calls = (collective.warmup, collective.iterations);
        let predicted = if world.options.interval {
            let ranged =
                interval::predict_ranged(&machine, world.loaded.packets.as_ref(), request, calls, &world.limits())?;
            let mut predicted = ranged.predicted;
            predicted.row.low_us = Some(ranged.low_us);
            predicted.row.high_us = Some(ranged.high_us);
            predicted
        } else {
            predict(&machine, world.by_library, request, calls, world.limits())?
        };
        world.one_done();
        Ok(Some(predicted))
    };
    let mut played: Vec<Result<Option<Predicted>, RunError>> =
        requests.par_iter().rev().with_max_len(1).map(one).collect();
    played.reverse();
    let mut largest: Option<CollectiveResult> = None;
    let before = sum.results.collectives.len();
    let (mut held, mut at) = (String::new(), 0);
    for (predicted, request) in played.into_iter().zip(&requests) {
        let what = format!("{} of {}", request.operation, request.bytes);
        let Some(Predicted { row, outcome, wall, .. }) = predicted? else {
            sum.stop(StopReason::Interrupted, what);
            continue;
        };
        if !sum.add(&what, world.loaded, &outcome, Time::ZERO, wall)? {
            continue;
        }
        if largest.as_ref().is_none_or(|largest| row.bytes >= largest.bytes) {
            largest = Some(row.clone());
            at = sum.results.collectives.len();
            held = bottleneck::held(machine.fabric, &outcome);
        }
        let given = world.loaded.scenario.software.channels.as_ref();
        let channels_from = given.map(|c| c.source.clone().unwrap_or_default());
        if world.options.explain != Explain::No {
            let calls = (collective.warmup, collective.iterations);
            sum.results.explain.push(explain::size(world, &machine, request, &row, calls, channels_from)?);
        }
        sum.collective(CollectiveResult { kind: world.kind(collective), ..row }, machine.ranks());
    }
    if let Some(search) = world.options.best {
        let rows = &sum.results.collectives[before..];
        let found = best::search(world, &machine, collective, &requests, rows, search)?;
        sum.results.best.extend(found);
        if world.interrupted() {
            sum.stop(StopReason::Interrupted, "the search for the best".to_owned());
        }
    }
    sum.parameters(&machine);
    if let Some(row) = largest
        && (sum.headline.is_empty() || row.bytes > 0)
    {
        sum.headline = headline(&machine, world.loaded.packets.is_some(), &row) + &held;
        sum.stragglers = bottleneck::stragglers(&machine).map(|who| (at, who));
        sum.headline_us = row.time_us;
    }
    Ok(sum.stopped.is_none())
}

/// The largest size in a sentence.
fn headline(machine: &Machine<'_>, packets: bool, row: &CollectiveResult) -> String {
    format!(
        "{} of {} on {} ranks: {}, {:.1} GB/s busbw. Bottleneck: {}. {}/{}, {} channels.",
        row.op,
        Bytes::new(row.bytes),
        machine.ranks(),
        time_text(row.time_us),
        row.busbw,
        bottleneck::sentence(machine.fabric, packets, &row.bottleneck),
        row.algorithm,
        row.protocol,
        row.channels
    )
}

impl From<ExecuteError> for RunError {
    fn from(source: ExecuteError) -> Self {
        Self::Unable { what: "the workload".to_owned(), source }
    }
}
