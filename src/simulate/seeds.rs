//! A scenario over several seeds: each a run of its own, spread over threads, put together in their order.

use rayon::prelude::*;
use sim_core::outcome::StopReason;
use sim_core::units::Bytes;
use sim_report::result::{DesignResult, SeedsResult, Spread, TransportTotals};

use super::{Options, Report, RunError, failures};
use crate::scenario::{Loaded, Workload};

/// What is kept of the run of one seed; its whole report is as large as its fabric and its traffic.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The seed.
    pub seed: u64,
    /// Why and where it stopped early; `None` if everything is complete.
    pub stopped: Option<(StopReason, String)>,
    measures: Vec<(String, f64)>,
    totals: Option<TransportTotals>,
}

impl Digest {
    /// What is kept of a run.
    #[must_use]
    pub fn of(loaded: &Loaded, report: &Report) -> Self {
        let reason = report.stopped.filter(|reason| *reason != StopReason::Finished);
        Self {
            seed: loaded.scenario.seed,
            stopped: reason.map(|reason| (reason, report.stopped_at.clone())),
            measures: measures(loaded, report),
            totals: report.results.transport.as_ref().map(|transport| transport.totals),
        }
    }
}

/// Plays scenarios that differ in their seeds; what is kept stands in their order whatever the number of threads.
///
/// # Errors
/// The first error, in order.
pub fn run_all(all: &[Loaded], options: &Options<'_>) -> Result<Vec<Digest>, RunError> {
    let one = |loaded: &Loaded| Ok(Digest::of(loaded, &loaded.run_with(options)?));
    all.par_iter().with_max_len(1).map(one).collect()
}

/// The times of a run by name: each collective and size, each step, the slowest transfer of each workload and, after all these, the median
/// of each that has several; of inference the medians of requests, or the steps where none are served; of long runs the time that is no
/// work that lasts.
#[must_use]
pub fn measures(loaded: &Loaded, report: &Report) -> Vec<(String, f64)> {
    let mut list: Vec<(String, f64)> = Vec::new();
    for row in &report.results.collectives {
        let name = told_apart(format!("{} of {}", row.op, Bytes::new(row.bytes)), list.iter().map(|(known, _)| known));
        list.push((name, row.time_us));
    }
    for step in report.results.step.iter().chain(&report.results.further_steps) {
        let name = format!("step {}", step.outline.name);
        list.push((told_apart(name, list.iter().map(|(known, _)| known)), step.time_us));
    }
    let transfers = || {
        loaded.scenario.workloads.iter().filter_map(|workload| match workload {
            Workload::Transfer(transfers) => Some(transfers),
            Workload::Collective(_) | Workload::Step(_) | Workload::Inference(_) | Workload::Failures(_) => None,
        })
    };
    let mut names: Vec<String> = Vec::new();
    for transfers in transfers() {
        let name = transfers.name.as_deref().unwrap_or("transfers").to_owned();
        names.push(told_apart(name, names.iter()));
    }
    for (name, us) in names.iter().zip(&report.slowest_us) {
        list.push((format!("slowest of {name}"), *us));
    }
    for ((name, us), transfers) in names.iter().zip(&report.median_us).zip(transfers()) {
        if transfers.traffic.len() > 1 {
            list.push((format!("median of {name}"), *us));
        }
    }
    let mut add = |name: String, us: f64| {
        let name = told_apart(name, list.iter().map(|(known, _)| known));
        list.push((name, us));
    };
    for one in &report.results.inference {
        if let Some(served) = &one.served {
            for (what, quantiles) in [("TTFT", served.ttft), ("TPOT", served.tpot), ("last token", served.all)] {
                add(format!("{what} of {}", one.name), quantiles.p50_ms * 1e3);
            }
        } else {
            for step in one.pools.iter().flat_map(|pool| &pool.steps) {
                add(
                    format!("{} of {} x {} tokens, {}", step.phase, step.sequences, step.tokens, one.name),
                    step.time_us,
                );
            }
        }
    }
    for run in &report.results.long_runs {
        add(format!("lost of {} days, {}", run.days, run.name), failures::not_work_us(run));
    }
    list
}

/// A name, with its number if there are equal ones before it.
fn told_apart<'a>(name: String, before: impl Iterator<Item = &'a String>) -> String {
    let numbered = format!("{name}#");
    match before.filter(|known| **known == name || known.starts_with(&numbered)).count() {
        0 => name,
        n => format!("{name}#{}", n + 1),
    }
}

/// The spread of each time over the seeds that gave one; a run that stopped early gives those it came to.
fn spreads(all: &[Digest]) -> Vec<Spread> {
    let column = |name: &str| -> Vec<(u64, f64)> {
        let time = |one: &Digest| one.measures.iter().find(|(known, _)| known == name).map(|(_, us)| *us);
        all.iter().filter_map(|one| Some((one.seed, time(one)?))).collect()
    };
    // The run that came furthest names all.
    let names = all.iter().map(|one| &one.measures).rev().max_by_key(|row| row.len());
    names.into_iter().flatten().map(|(name, _)| Spread::of(name, &column(name))).collect()
}

/// What several seeds of a scenario gave.
#[must_use]
pub fn result(all: &[Digest]) -> SeedsResult {
    let first = all.first().map_or(1, |one| one.seed);
    SeedsResult { first, count: all.len() as u64, measures: spreads(all) }
}

/// One of several scenarios, over its seeds, with the links of the first, `loaded` and its `report`; `file` is what it was
/// called by.
#[must_use]
pub fn design(
    file: &str,
    loaded: &Loaded,
    report: &Report,
    all: &[Digest],
    first: Option<&DesignResult>,
) -> DesignResult {
    let mut totals: Option<TransportTotals> = None;
    for one in all.iter().filter_map(|one| one.totals.as_ref()) {
        totals.get_or_insert_with(TransportTotals::default).add(one);
    }
    let measures = spreads(all);
    let ratio = |m: &Spread| {
        let base = first.map_or(Some(m), |first| first.measures.iter().find(|other| other.name == m.name));
        base.filter(|base| base.p50_us > 0.0).map(|base| m.p50_us / base.p50_us)
    };
    let network = |class: &str| matches!(class, "network" | "uplink");
    let busiest = report
        .results
        .links
        .iter()
        .filter(|link| network(&link.class) && link.bytes > 0)
        .max_by(|a, b| a.utilization.total_cmp(&b.utilization).then_with(|| b.link.cmp(&a.link)));
    let stopped = all.iter().find_map(|one| {
        let (reason, at) = one.stopped.as_ref()?;
        Some(format!("{} with seed {}: {at}", super::sum::reason_name(*reason), one.seed))
    });
    DesignResult {
        name: loaded.designs.name().map_or_else(|| loaded.scenario.name.clone(), str::to_owned),
        scenario: file.to_owned(),
        transport: transport(loaded),
        ratios: measures.iter().map(ratio).collect(),
        measures,
        busiest_link: busiest.map(|link| link.link.clone()).unwrap_or_default(),
        utilization: busiest.map_or(0.0, |link| link.utilization),
        totals,
        stopped,
    }
}

/// The transport in a word or two.
fn transport(loaded: &Loaded) -> String {
    let kind = loaded.scenario.cluster.transport;
    match &loaded.packets {
        Some(packets) => packets.preset.clone().unwrap_or_else(|| kind.to_string()),
        None => format!("{kind}, virtual links"),
    }
}
