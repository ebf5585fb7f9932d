//! The same work on the fabric without its faults: what they cost.

use sim_report::result::{FaultResult, HealthyResult, RunResults};
use sim_report::table::number;
use sim_topology::Fabric;

use super::{Options, Report, RunError};
use crate::scenario::{Loaded, Workload};

/// Work up to which a run is played again without its faults: about a second. By events, in steps by operations of ranks, and not by
/// the clock, so that the same scenario always gives the same output, whatever is reused.
pub(crate) const CHEAP: u64 = 5_000_000;

/// What is broken, as results have it.
pub(super) fn faults(loaded: &Loaded) -> Vec<FaultResult> {
    let fabric = &loaded.fabric;
    // Where packets are played they are lost one by one, and no rate stands for that.
    let loss = |fault: &sim_topology::faults::AppliedFault| {
        let lossy = fault.links.iter().map(|link| fabric.losses_of(*link)).collect::<Option<Vec<_>>>()?;
        let most = lossy.iter().map(|lossy| lossy.loss).fold(0.0, f64::max);
        (loaded.packets.is_some() && fault.kind == "degraded" && most > 0.0)
            .then(|| format!("{} % of the packets are lost", number(most * 100.0, 3)))
    };
    let result = |fault: &sim_topology::faults::AppliedFault| FaultResult {
        kind: fault.kind.to_owned(),
        target: fault.target.clone(),
        what: loss(fault).unwrap_or_else(|| fault.what.clone()),
        links: fault.links.len() as u64,
        devices: fault.devices.len() as u64,
    };
    fabric.faults().iter().map(result).collect()
}

/// Loss from which a straggler is said to hold the others: below, it is not on the longest chain of steps.
const LOSS: f64 = 1.001;

/// What stragglers, called `who`, do to the collective of that row: nothing is put down to them that the comparison with
/// the healthy fabric doesn't show, or that other faults may have a part in.
pub(super) fn straggle(results: &RunResults, row: usize, who: &str) -> String {
    let well = results.healthy.as_ref().and_then(|h| h.collectives_us.get(row));
    let ill = results.collectives.get(row);
    let lost = ill.zip(well).is_some_and(|(ill, well)| ill.time_us > well * LOSS);
    if lost && results.faults.iter().all(|fault| fault.kind == "straggler") {
        return format!(" All ranks wait for {who}.");
    }
    format!(" Among the ranks: {who}.")
}

impl Loaded {
    /// The same work without the faults, where there are any and the run was short enough to be played again.
    pub(super) fn healthy(&self, ill: &Report, options: &Options<'_>) -> Result<Option<Report>, RunError> {
        if self.fabric.faults().is_empty() || ill.stopped.is_some() || ill.work > CHEAP {
            return Ok(None);
        }
        // The faults were laid upon such a fabric, so that it can be built.
        let fabric = Fabric::build(&self.scenario.cluster, &self.catalogue).map_err(|error| RunError::Invariant {
            what: "the fabric without its faults".to_owned(),
            faults: error.to_string(),
        })?;
        let mut well = Self { fabric, ..self.clone() };
        // Times are the same with reuse and without.
        for workload in &mut well.scenario.workloads {
            if let Workload::Step(step) = workload {
                step.reuse = true;
            }
        }
        if let Some(packets) = &mut well.packets {
            // Nobody looks at it.
            packets.observed = crate::scenario::Observed::default();
        }
        let options =
            Options { interrupt: options.interrupt.clone(), play_all: options.play_all, ..Options::default() };
        let report = well.run_with(&options)?;
        Ok(report.stopped.is_none().then_some(report))
    }
}

/// The times without the faults, as results have them.
pub(super) fn result(well: &Report) -> HealthyResult {
    HealthyResult {
        collectives_us: well.results.collectives.iter().map(|row| row.time_us).collect(),
        longest_transfer_us: well.results.transfer_totals.longest_us,
        steps_us: well.results.step.iter().chain(&well.results.further_steps).map(|step| step.time_us).collect(),
    }
}

/// What the faults cost, for the first line: ` +21.7 % against the healthy fabric.`
pub(super) fn cost(ill: &Report, well: &Report) -> String {
    if ill.headline_us <= 0.0 || well.headline_us <= 0.0 {
        return String::new();
    }
    let tenths = ((ill.headline_us / well.headline_us - 1.0) * 1000.0).round();
    // Without a negative zero.
    format!(" {:+.1} % against the healthy fabric.", tenths / 10.0 + 0.0)
}
