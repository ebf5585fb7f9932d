//! A scenario over several seeds: each a run of its own, spread over threads, put together in their order.

use rayon::prelude::*;
use sim_core::outcome::StopReason;
use sim_core::units::Bytes;
use sim_report::result::{DesignResult, SeedsResult, Spread, TransportTotals};

use super::{Options, Report, RunError};
use crate::scenario::{Loaded, Workload};

/// Plays scenarios that differ in their seeds; reports stand in their order whatever the number of threads.
///
/// # Errors
/// The first error, in order.
pub fn run_all(all: &[Loaded], options: &Options<'_>) -> Result<Vec<Report>, RunError> {
    all.par_iter().with_max_len(1).map(|loaded| loaded.run_with(options)).collect()
}

/// The times of a run by name: each collective and size, and the slowest transfer of each workload.
#[must_use]
pub fn measures(loaded: &Loaded, report: &Report) -> Vec<(String, f64)> {
    let mut list: Vec<(String, f64)> = Vec::new();
    let mut put = |name: String, us: f64| {
        // Equal ones are told apart by their number.
        let numbered = format!("{name}#");
        let same = list.iter().filter(|(known, _)| *known == name || known.starts_with(&numbered));
        let name = match same.count() {
            0 => name,
            n => format!("{name}#{}", n + 1),
        };
        list.push((name, us));
    };
    for row in &report.results.collectives {
        put(format!("{} of {}", row.op, Bytes::new(row.bytes)), row.time_us);
    }
    let transfers = loaded.scenario.workloads.iter().filter(|w| matches!(w, Workload::Transfer(_)));
    let names: Vec<String> =
        transfers.map(|w| w.name().map_or_else(|| "transfers".to_owned(), str::to_owned)).collect();
    for (name, us) in names.into_iter().zip(&report.slowest_us) {
        put(format!("slowest of {name}"), *us);
    }
    list
}

/// The spread of each time over the seeds, of which the reports are complete.
fn spreads(all: &[Loaded], reports: &[Report]) -> Vec<Spread> {
    let Some((first, report)) = all.first().zip(reports.first()) else { return Vec::new() };
    let seed = first.scenario.seed;
    let rows: Vec<Vec<(String, f64)>> =
        all.iter().zip(reports).map(|(loaded, report)| measures(loaded, report)).collect();
    let names = measures(first, report);
    let column = |name: &str| -> Vec<f64> {
        rows.iter().filter_map(|row| row.iter().find(|(known, _)| known == name).map(|(_, us)| *us)).collect()
    };
    names.iter().map(|(name, _)| Spread::of(name, seed, &column(name))).collect()
}

/// What several seeds of a scenario gave.
#[must_use]
pub fn result(all: &[Loaded], reports: &[Report]) -> SeedsResult {
    let first = all.first().map_or(1, |loaded| loaded.scenario.seed);
    SeedsResult { first, count: all.len() as u64, measures: spreads(all, reports) }
}

/// One of several scenarios, over its seeds; `file` is what it was called by.
#[must_use]
pub fn design(file: &str, all: &[Loaded], reports: &[Report], first: Option<&DesignResult>) -> DesignResult {
    let mut totals: Option<TransportTotals> = None;
    for transport in reports.iter().filter_map(|report| report.results.transport.as_ref()) {
        totals.get_or_insert_with(TransportTotals::default).add(&transport.totals);
    }
    let measures = spreads(all, reports);
    let ratio = |m: &Spread| {
        let base = first.map_or(Some(m), |first| first.measures.iter().find(|other| other.name == m.name));
        base.filter(|base| base.p50_us > 0.0).map(|base| m.p50_us / base.p50_us)
    };
    let network = |class: &str| matches!(class, "network" | "uplink");
    let links = reports.first().into_iter().flat_map(|report| &report.results.links);
    let busiest = links
        .filter(|link| network(&link.class) && link.bytes > 0)
        .max_by(|a, b| a.utilization.total_cmp(&b.utilization).then_with(|| b.link.cmp(&a.link)));
    let stopped = all.iter().zip(reports).find_map(|(loaded, report)| {
        let reason = report.stopped.filter(|reason| *reason != StopReason::Finished)?;
        Some(format!("{} with seed {}: {}", super::reason_name(reason), loaded.scenario.seed, report.stopped_at))
    });
    DesignResult {
        name: all.first().map(|loaded| loaded.scenario.name.clone()).unwrap_or_default(),
        scenario: file.to_owned(),
        transport: all.first().map(transport).unwrap_or_default(),
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
