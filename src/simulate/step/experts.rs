//! Tokens of a step on their way to experts: what that came to, and whom ranks waited for.

use std::collections::BTreeMap;

use sim_core::units::Span;
use sim_report::result::{StepExchange, StepExperts, StepLate};
use sim_workload::experts::Kernels;
use sim_workload::messages::experts::goes_back;
use sim_workload::parallel::{Group, Ranks};
use sim_workload::step::exchange::{self, Exchange};
use sim_workload::step::outcome::Outcome;
use sim_workload::step::plan::Plan;

use crate::scenario::Step;

/// Rows of late ranks that are listed.
const MOST_LATE: usize = 16;

/// What its experts got, and how it went there and back; `None` without ranks that share experts.
pub(super) fn experts(step: &Step, plan: &Plan, ranks: &Ranks, outcome: &Outcome) -> Option<StepExperts> {
    let n = step.sizes.expert;
    let layer = step.model.experts.filter(|_| n > 1)?;
    let spread = step.placement.spread(&ranks.group(Group::Expert, 0));
    let (lambda, most) = step.imbalance.as_ref().map_or((1.0, 1.0), |i| i.lambda(n));
    let kernel = match step.choices.kernels {
        Kernels::Library => "sends and receives of NCCL".to_owned(),
        Kernels::Normal { processors } => format!("DeepEP's normal kernels on {processors} processors"),
        Kernels::LowLatency => "DeepEP's low-latency kernels".to_owned(),
    };
    // Calls by name, whatever they have drawn.
    let mut rows: BTreeMap<&'static str, (StepExchange, Span)> = BTreeMap::new();
    for (call, (count, span)) in plan.calls.iter().zip(&outcome.made) {
        if call.group != Group::Expert || *count == 0 {
            continue;
        }
        let number = call.exchange.map(|number| number as usize);
        let even = || Exchange {
            kernels: Kernels::Library,
            back: goes_back(call.name),
            experts: exchange::experts_of(layer, n),
            shares: None,
            copies: step.choices.copies,
        };
        let how = number.and_then(|number| plan.exchanges.get(number)).cloned().unwrap_or_else(even);
        let sent = how.sent(call.bytes, n as u32, spread.domains as u32);
        let (row, sum) = rows.entry(call.name).or_default();
        call.name.clone_into(&mut row.what);
        let times = *count as f64;
        row.count += count;
        row.logical_bytes += sent.logical * times;
        row.network_bytes += sent.network * times;
        row.scale_up_bytes += sent.scale_up * times;
        *sum += *span;
    }
    let mean = |(mut row, sum): (StepExchange, Span)| {
        let times = row.count.max(1) as f64;
        let us = (sum.as_us() / times).max(f64::MIN_POSITIVE);
        row.time_us = us;
        for bytes in [&mut row.logical_bytes, &mut row.network_bytes, &mut row.scale_up_bytes] {
            *bytes = (*bytes / times).round();
        }
        let rate = |bytes: f64| bytes / us / 1e3;
        row.logical_gbyte_per_s = rate(row.logical_bytes);
        row.network_gbyte_per_s = rate(row.network_bytes);
        row.scale_up_gbyte_per_s = rate(row.scale_up_bytes);
        row
    };
    Some(StepExperts {
        kernel,
        ranks: n,
        domains: spread.domains,
        fullest: lambda,
        fullest_of_draws: most,
        draws: step.imbalance.as_ref().map_or(1, |i| i.draws().len() as u64),
        dropped: step.imbalance.as_ref().map_or(0.0, |i| i.dropped()),
        messages: rows.into_values().map(mean).collect(),
    })
}

/// What ranks waited for late ones, of the mean rank: by what the late one came with, the longest first, with the rank that was waited for
/// most.
pub(super) fn late(outcome: &Outcome, device: impl Fn(u32) -> String) -> Vec<StepLate> {
    let mut rows: BTreeMap<&'static str, (u128, u128, u32)> = BTreeMap::new();
    for ((what, rank), span) in &outcome.late {
        let (sum, most, who) = rows.entry(what).or_default();
        let ps = u128::from(span.as_ps());
        *sum += ps;
        if ps > *most {
            (*most, *who) = (ps, *rank);
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(b.0)));
    rows.truncate(MOST_LATE);
    let n = outcome.ranks.len().max(1) as f64;
    let us = |ps: u128| ps as f64 / n / 1e6;
    let row = |(what, (sum, most, rank)): (&str, (u128, u128, u32))| StepLate {
        what: what.to_owned(),
        time_us: us(sum),
        rank,
        device: device(rank),
        of_rank_us: us(most),
    };
    rows.into_iter().map(row).collect()
}
