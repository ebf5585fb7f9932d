//! Why NCCL takes an algorithm and protocol at a size.

use rayon::prelude::*;
use sim_collectives::nccl::Verdict;
use sim_collectives::{Machine, Request};
use sim_core::outcome::StopReason;
use sim_report::result::{CandidateResult, CollectiveResult, ExplainResult};

use super::{Explain, RunError, World, predict};

/// All combinations with NCCL's predicted times, the cheapest first, then those that are not offered with the reason.
pub(super) fn size(
    world: &World<'_>,
    machine: &Machine<'_>,
    request: &Request,
    row: &CollectiveResult,
    calls: (u32, u32),
    channels_from: Option<String>,
) -> Result<ExplainResult, RunError> {
    let simulated = |candidate: &sim_collectives::nccl::Candidate| -> Result<Option<CollectiveResult>, RunError> {
        let way = Request {
            algorithm: Some(candidate.algorithm.into()),
            protocol: Some(candidate.protocol),
            ..request.clone()
        };
        if candidate.algorithm.name() == row.algorithm && candidate.protocol.name() == row.protocol {
            return Ok(Some(row.clone()));
        }
        let offered = matches!(candidate.verdict, Verdict::Offered { .. });
        // What is offered and can't be run here stays without a time.
        if world.options.explain != Explain::Simulated || !offered || world.interrupted() || machine.plan(&way).is_err()
        {
            return Ok(None);
        }
        let ran = predict(machine, world.by_library, &way, calls, world.limits())?;
        Ok((ran.outcome.reason == StopReason::Finished).then_some(ran.row))
    };
    let offered = machine.comm.candidates_of(request.operation, request.bytes.get(), request.element);
    let times: Vec<Option<CollectiveResult>> = offered.par_iter().map(simulated).collect::<Result<_, _>>()?;
    let mut candidates: Vec<CandidateResult> = offered
        .into_iter()
        .zip(times)
        .map(|(candidate, ran)| {
            let ran = ran.filter(|_| world.options.explain == Explain::Simulated);
            let (predicted_us, reason) = match candidate.verdict {
                Verdict::Offered { time_us, .. } => (Some(time_us), None),
                Verdict::NotOffered(reason) => (None, Some(reason.to_string())),
            };
            let (algorithm, protocol) = (candidate.algorithm.to_string(), candidate.protocol.to_string());
            let chosen = algorithm == row.algorithm && protocol == row.protocol;
            let (simulated_us, channels) = (ran.as_ref().map(|r| r.time_us), ran.as_ref().map(|r| r.channels));
            CandidateResult { algorithm, protocol, predicted_us, simulated_us, channels, reason, chosen }
        })
        .collect();
    // What was forced by a name that is none of NCCL's, or is made of sends and receives.
    if !candidates.iter().any(|c| c.chosen) {
        candidates.push(CandidateResult {
            algorithm: row.algorithm.clone(),
            protocol: row.protocol.clone(),
            predicted_us: None,
            simulated_us: None,
            channels: None,
            reason: Some("taken outside NCCL's table".to_owned()),
            chosen: true,
        });
    }
    // A stable sort: equal times, and those that are not offered, stay in NCCL's order.
    candidates.sort_by(|a, b| {
        let key = |c: &CandidateResult| c.predicted_us.unwrap_or(f64::INFINITY);
        key(a).total_cmp(&key(b))
    });
    let plan = machine.plan(request).ok();
    let work = plan.as_ref().and_then(|plan| plan.call.channels.first());
    let nvls = row.algorithm.starts_with("nvls");
    Ok(ExplainResult {
        channels: row.channels,
        most_channels: if nvls { machine.comm.nvls().channels } else { machine.comm.channels() }.max(row.channels),
        threads: plan.as_ref().map_or(0, sim_collectives::Plan::threads),
        chunk_bytes: work.map(|work| work.chunk),
        slices: work.map(|work| work.slices),
        op: row.op.clone(),
        bytes: row.bytes,
        algorithm: row.algorithm.clone(),
        protocol: row.protocol.clone(),
        channels_from,
        candidates,
    })
}
