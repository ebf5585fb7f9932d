//! The clusters of the published steps: systems of the catalogue by GPU.

use sim_core::units::Rate;
use sim_topology::Catalogue;

use crate::rows::Row;

/// The cluster of a row.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// The system of the catalogue.
    pub(crate) system: &'static str,
    /// GPUs of a scale-up domain.
    pub(crate) domain: u64,
    /// Peak rate of the GPU's memory.
    pub(crate) memory: Rate,
}

/// The system of a row: `Err` with what is missing.
pub(crate) fn of(row: &Row) -> Result<Cluster, String> {
    let (system, domain) = match row.gpu.as_str() {
        "a100-sxm4-80" => ("hgx-a100", 8),
        "h100-sxm" => ("hgx-h100", 8),
        "h200-sxm" => ("hgx-h200", 8),
        "h800-sxm" => ("hgx-h800", 8),
        "b200-sxm" => ("hgx-b200", 8),
        "b300-sxm" => ("hgx-b300", 8),
        "gb200" => ("nvl72-gb200", 72),
        "gb300" => ("nvl72-gb300", 72),
        gpu => return Err(format!("no rates of kernels for {gpu}")),
    };
    let gpu = Catalogue::builtin().gpu(&row.gpu).map_err(|e| e.to_string())?;
    let memory = if row.tagged("96GB") { Rate::gbyte(2400) } else { gpu.memory_rate };
    Ok(Cluster { system, domain, memory })
}
