//! A collective as nccl-tests times it: one warm call, then calls back to back on the same world, the mean over ranks.

use std::time::Duration;

use sim_core::engine::Limits;
use sim_core::network::Network;
use sim_core::outcome::Outcome;
use sim_core::units::Span;

use crate::machine::Machine;
use crate::plan::{Plan, Request};
use crate::step_graph::{ExecuteError, Node, StepGraph, Work};

/// What one size gave.
#[derive(Clone, Debug)]
pub struct Timed {
    /// What was run.
    pub plan: Plan,
    /// Time of one call: the mean over ranks of the span from the end of the warm calls to the end of the last, divided
    /// by the timed calls.
    pub time: Span,
    /// The shortest and the longest such time of a rank.
    pub range: (Span, Span),
    /// The engine's measurements over all calls, the warm ones too.
    pub outcome: Outcome,
    /// Time on the clock that the event loop took.
    pub wall: Duration,
}

/// Times `request` with `warm` calls before `timed` ones.
///
/// # Errors
/// If the call can't be run.
pub fn time(
    machine: &Machine<'_>,
    network: &Network,
    request: &Request,
    warm: u32,
    timed: u32,
    limits: Limits,
) -> Result<Timed, ExecuteError> {
    let timed = timed.max(1);
    let plan = machine.plan(request)?;
    let mut graph = StepGraph::default();
    let request = Request { iterations: warm + timed, ..request.clone() };
    graph.add(Node { work: Work::Collective { communicator: 0, request }, after: Vec::new(), start: Span::ZERO })?;
    let run = graph.execute(network, machine.fabric.mtu(), &[machine], limits)?;
    let parts = &run.nodes[0].parts;
    let mut from = vec![None; machine.ranks() as usize];
    let mut by_rank: Vec<Option<Span>> = vec![None; machine.ranks() as usize];
    for part in parts {
        let rank = part.index as usize;
        if warm == 0 && part.iteration == 0 {
            from[rank] = Some(part.started);
        } else if part.iteration + 1 == warm {
            from[rank] = Some(part.ended);
        }
        if part.iteration == warm + timed - 1 {
            by_rank[rank] = from[rank].map(|f| Span::from_ps(part.ended.since(f).as_ps() / u64::from(timed)));
        }
    }
    let known: Vec<Span> = by_rank.into_iter().flatten().collect();
    let sum: u128 = known.iter().map(|s| u128::from(s.as_ps())).sum();
    let mean = Span::from_ps((sum / known.len().max(1) as u128) as u64);
    let range = (known.iter().copied().min().unwrap_or(Span::ZERO), known.iter().copied().max().unwrap_or(Span::ZERO));
    Ok(Timed { plan, time: mean, range, outcome: run.outcome, wall: run.wall })
}
