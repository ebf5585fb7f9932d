//! Why NCCL takes an algorithm and protocol at a size.

use sim_collectives::nccl::Verdict;
use sim_collectives::{Machine, Request};
use sim_report::result::{CandidateResult, CollectiveResult, ExplainResult};

/// All combinations with NCCL's predicted times, the cheapest first, then those that are not offered with the reason.
pub(super) fn size(
    machine: &Machine<'_>,
    request: &Request,
    row: &CollectiveResult,
    channels_from: Option<String>,
) -> ExplainResult {
    let mut candidates: Vec<CandidateResult> = machine
        .comm
        .candidates_of(request.operation, request.bytes.get(), request.element)
        .into_iter()
        .map(|candidate| {
            let (predicted_us, reason) = match candidate.verdict {
                Verdict::Offered { time_us, .. } => (Some(time_us), None),
                Verdict::NotOffered(reason) => (None, Some(reason.to_string())),
            };
            let (algorithm, protocol) = (candidate.algorithm.to_string(), candidate.protocol.to_string());
            let chosen = algorithm == row.algorithm && protocol == row.protocol;
            CandidateResult { algorithm, protocol, predicted_us, reason, chosen }
        })
        .collect();
    // What was forced by a name that is none of NCCL's, or is made of sends and receives.
    if !candidates.iter().any(|c| c.chosen) {
        candidates.push(CandidateResult {
            algorithm: row.algorithm.clone(),
            protocol: row.protocol.clone(),
            predicted_us: None,
            reason: Some("taken outside NCCL's table".to_owned()),
            chosen: true,
        });
    }
    // A stable sort: equal times, and those that are not offered, stay in NCCL's order.
    candidates.sort_by(|a, b| {
        let key = |c: &CandidateResult| c.predicted_us.unwrap_or(f64::INFINITY);
        key(a).total_cmp(&key(b))
    });
    ExplainResult {
        op: row.op.clone(),
        bytes: row.bytes,
        algorithm: row.algorithm.clone(),
        protocol: row.protocol.clone(),
        channels_from,
        candidates,
    }
}
