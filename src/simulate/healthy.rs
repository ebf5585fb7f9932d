//! The same work on the fabric without its faults: what they cost.

use sim_report::result::{FaultResult, HealthyResult, RunResults};
use sim_topology::Fabric;

use super::{Options, RunError};
use crate::scenario::Loaded;

/// Events up to which a run is played again without its faults: about a second of work. By events and not by the clock,
/// so that the same scenario always gives the same output.
const CHEAP: u64 = 5_000_000;

/// What is broken, as results have it.
pub(super) fn faults(fabric: &Fabric) -> Vec<FaultResult> {
    let result = |fault: &sim_topology::faults::AppliedFault| FaultResult {
        kind: fault.kind.to_owned(),
        target: fault.target.clone(),
        what: fault.what.clone(),
        links: fault.links.len() as u64,
        devices: fault.devices.len() as u64,
    };
    fabric.faults().iter().map(result).collect()
}

impl Loaded {
    /// The times without the faults, where there are any and the run was short enough to be played again.
    pub(super) fn healthy(&self, ill: &RunResults, options: &Options<'_>) -> Result<Option<HealthyResult>, RunError> {
        let stopped = ill.engine.stopped.as_deref() != Some("finished");
        if self.fabric.faults().is_empty() || stopped || ill.engine.events > CHEAP {
            return Ok(None);
        }
        let Ok(fabric) = Fabric::build(&self.scenario.cluster, &self.catalogue) else { return Ok(None) };
        let well = Self { fabric, ..self.clone() };
        let options = Options { interrupt: options.interrupt.clone(), ..Options::default() };
        let report = well.run_with(&options)?;
        if report.stopped.is_some() {
            return Ok(None);
        }
        Ok(Some(HealthyResult {
            collectives_us: report.results.collectives.iter().map(|row| row.time_us).collect(),
            longest_transfer_us: report.results.transfer_totals.longest_us,
        }))
    }
}
