//! Whether a step fits into the memory of a GPU.

use sim_core::units::Bytes;
use sim_topology::{Catalogue, Fabric};
use sim_workload::job::Job;
use sim_workload::memory::{self, Budget, Usage};
use sim_workload::parallel::SizesSpec;

use super::Asked;
use crate::diagnostic::{Code, Diagnostics};

/// What a GPU has and the fullest rank needs; `None` if it does not fit and must.
pub(super) fn memory(
    asked: &Asked<'_>,
    fabric: &Fabric,
    catalogue: &Catalogue,
    spec: &SizesSpec,
    job: &Job<'_>,
    out: &mut Diagnostics,
) -> Option<(Budget, Usage)> {
    let view = asked.view.table_or_empty("memory");
    let gpu = &fabric.node_spec().gpu;
    let own = || catalogue.gpu(gpu).ok().map(|gpu| Bytes::new((gpu.memory_gb * 1e9).round() as u64));
    let Some(memory) = view.size("size").or_else(own) else {
        let message = format!("the memory of the GPU `{gpu}` is not known");
        let fault = asked.fault(Code::NoKernelRates, message, &["memory"], "the step's ranks run on it");
        out.push(fault.help("memory = { size = \"80 GB\" }"));
        return None;
    };
    let budget =
        Budget { memory, usable: (view.number("usable")? * 1e6).round() as u64, buffers: view.size("buffers")? };
    let must = asked.view.boolean("memory_check");
    let (error, advice) = match memory::would_fit(job.model, spec, job, &budget) {
        Ok(usage) => return Some((budget, usage)),
        Err(both) => both,
    };
    let (code, message) = match must {
        true => (Code::DoesNotFit, "the step does not fit into memory"),
        false => (Code::WouldNotFit, "the step would not fit into memory"),
    };
    let usable = view.number("usable")? * 100.0;
    let label = format!(
        "a rank of stage {} needs {}, and {} can be filled ({usable:.0} % of the {} of {gpu})",
        error.usage.stage, error.needed, error.limit, error.memory
    );
    let keys = ["memory", "tp", "pp", "micro_batch", "zero", "fsdp", "model"];
    let mut fault = asked.fault(code, message, &keys[..1], label).note(format!("by parts: {}", error.parts));
    if advice.is_empty() {
        fault = fault.help("no change of one or two sizes would make it fit: more GPUs, or a smaller model");
    }
    for one in &advice {
        fault = fault.help(format!("{} would fit: {}", one.change, one.usage.total()));
    }
    out.push(fault);
    (!must).then_some((budget, error.usage))
}
