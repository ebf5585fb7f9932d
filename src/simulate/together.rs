//! Collectives of several communicators at the same time, on the same links.
//!
//! All start at once and make their calls back to back, the short ones more often, so that all are at it for about as
//! long. A collective's time is the mean of its calls after the first, as far as they end while all the others still run;
//! if there is no such call, it is the first one's.

use std::collections::BTreeSet;

use sim_collectives::step_graph::{Node, NodeOutcome, StepGraph, Work};
use sim_collectives::{Machine, Request, bench};
use sim_core::ids::LinkId;
use sim_core::outcome::StopReason;
use sim_core::units::{Bytes, Span, Time};
use sim_report::table::time_text;

use super::sweep::{self, requests};
use super::{Explain, RunError, Sum, World, explain};
use crate::scenario::Collective;

/// Calls of the longest collective, and the most of a shorter one.
const CALLS: (u32, u32) = (3, 64);

/// Plays the collectives size by size; false if one stopped early.
pub(super) fn play(world: &mut World<'_>, all: &[&Collective], sum: &mut Sum) -> Result<bool, RunError> {
    let machines = all.iter().map(|c| world.loaded.machine(&c.group)).collect::<Result<Vec<_>, RunError>>()?;
    let asked: Vec<Vec<Request>> = all.iter().zip(&machines).map(|(c, m)| requests(c, m.ranks())).collect();
    for turn in 0..asked[0].len() {
        let now: Vec<&Request> = asked.iter().map(|list| &list[turn.min(list.len() - 1)]).collect();
        if world.interrupted() {
            sum.stop(StopReason::Interrupted, what(&now));
            break;
        }
        if !one(world, &machines, &now, sum)? {
            break;
        }
        world.one_done();
    }
    Ok(sum.stopped.is_none())
}

/// What runs, in words.
fn what(now: &[&Request]) -> String {
    let each: Vec<String> = now.iter().map(|r| format!("{} of {}", r.operation, r.bytes)).collect();
    each.join(" with ")
}

/// How often each is called, from what it takes alone.
fn calls(world: &World<'_>, machines: &[Machine<'_>], now: &[&Request]) -> Result<Vec<u32>, RunError> {
    let alone = |(machine, request): (&Machine<'_>, &&Request)| {
        let timed = bench::time(machine, world.by_library, request, 0, 1, world.limits());
        timed.map(|timed| timed.time.as_ps().max(1)).map_err(RunError::unable(what(now)))
    };
    let times = machines.iter().zip(now).map(alone).collect::<Result<Vec<u64>, RunError>>()?;
    let longest = times.iter().copied().max().unwrap_or(1);
    let most = u64::from(CALLS.1);
    Ok(times.iter().map(|t| (u64::from(CALLS.0) * (longest / t)).clamp(u64::from(CALLS.0), most) as u32).collect())
}

fn one(world: &World<'_>, machines: &[Machine<'_>], now: &[&Request], sum: &mut Sum) -> Result<bool, RunError> {
    let what = what(now);
    let unable = || RunError::unable(what.clone());
    let mut graph = StepGraph::default();
    for (communicator, (request, calls)) in now.iter().zip(calls(world, machines, now)?).enumerate() {
        let request = Request { iterations: calls, ..(*request).clone() };
        let work = Work::Collective { communicator, request };
        graph.add(Node { work, after: Vec::new(), start: Span::ZERO }).map_err(unable())?;
    }
    let members: Vec<&Machine<'_>> = machines.iter().collect();
    let mtu = world.loaded.fabric.mtu();
    let run = graph.execute(world.by_library, mtu, &members, world.limits()).map_err(unable())?;
    if !sum.add(&what, world.loaded, &run.outcome, Time::ZERO, run.wall)? {
        return Ok(false);
    }
    let until = run.nodes.iter().filter_map(|node| node.ended).min().unwrap_or(Time::MAX);
    let mut said = Vec::new();
    for ((node, machine), request) in run.nodes.iter().zip(machines).zip(now) {
        let plan = machine.plan(request).map_err(|error| unable()(error.into()))?;
        let program = plan.program(machine, 1).map_err(|error| unable()(error.into()))?;
        let links: BTreeSet<LinkId> = program.routes.iter().copied().collect();
        let row = sweep::row(
            (machine, world.by_library),
            request,
            &plan,
            &run.outcome,
            mean(node, until).as_us(),
            Some(&links),
        );
        if world.options.explain != Explain::No {
            let given = world.loaded.scenario.software.channels.as_ref();
            let channels_from = given.map(|c| c.source.clone().unwrap_or_default());
            sum.results.explain.push(explain::size(world, machine, request, &row, (1, 1), channels_from)?);
        }
        said.push(format!("{} of {} {}", row.op, Bytes::new(row.bytes), time_text(row.time_us)));
        sum.collective(row, machine.ranks());
        sum.parameters(machine);
    }
    sum.headline = format!("At the same time: {}.", said.join(", "));
    Ok(true)
}

/// The mean time of a call after the first, over those that end by `until`; the first one's if there is none.
fn mean(node: &NodeOutcome, until: Time) -> Span {
    let count = node.parts.iter().map(|p| p.iteration + 1).max().unwrap_or(0);
    let mut ends = vec![Time::ZERO; count as usize];
    for part in &node.parts {
        let end = &mut ends[part.iteration as usize];
        *end = (*end).max(part.ended);
    }
    let Some((first, later)) = ends.split_first() else { return Span::ZERO };
    match later.iter().take_while(|end| **end <= until).enumerate().last() {
        Some((i, last)) => Span::from_ps(last.since(*first).as_ps() / (i as u64 + 1)),
        None => first.since(node.started.unwrap_or(Time::ZERO)),
    }
}
