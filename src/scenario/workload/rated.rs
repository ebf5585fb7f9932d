//! The GPU whose rates kernels run at: the system's own, or another that is named.

use sim_core::units::Rate;
use sim_topology::{Catalogue, Fabric};
use sim_workload::compute::data::{Device, Figures};

use super::step::Asked;
use crate::diagnostic::{Code, Diagnostics, shorten, suggest};

/// The rates of the GPU that `wanted` names, else of the system's, and the rate of the system's memory, which is its own under another
/// GPU's rates, too. `key` is where it is named, `example` how.
pub(super) fn rated(
    asked: &Asked<'_>,
    (key, wanted, example): (&str, Option<&str>, &str),
    (fabric, catalogue): (&Fabric, &Catalogue),
    out: &mut Diagnostics,
) -> Option<(&'static Device, Rate)> {
    let (figures, own) = (Figures::builtin(), &fabric.node_spec().gpu);
    let name = wanted.unwrap_or(own);
    let Ok(device) = figures.device(name) else {
        let known: Vec<&str> = figures.devices().map(|device| device.gpu.as_str()).collect();
        let message = format!("no rates of kernels are known for the GPU `{}`", shorten(name));
        let label = if wanted.is_some() { "not one of those" } else { "kernels run on it" };
        let fault = asked.fault(Code::NoKernelRates, message, &[key], label).help(suggest(name, known));
        out.push(fault.help(format!("take another GPU's: {example}")));
        return None;
    };
    let row = catalogue.gpu(own).ok().or_else(|| catalogue.gpu(&device.gpu).ok())?;
    Some((device, row.memory_rate))
}
