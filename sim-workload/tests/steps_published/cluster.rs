//! The clusters of the published steps: systems of the catalogue by GPU and network.

use sim_core::units::{Rate, Span};
use sim_topology::Catalogue;

use crate::rows::Row;

/// A cluster as closed forms take it.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// The system of the catalogue.
    pub(crate) system: &'static str,
    /// GPUs of a scale-up domain.
    pub(crate) domain: u64,
    /// What a GPU moves over the scale-up network at best, one direction, and what each step of a ring adds.
    pub(crate) up: (Rate, Span),
    /// The same over its NIC.
    pub(crate) out: (Rate, Span),
    /// Peak rate of the GPU's memory.
    pub(crate) memory: Rate,
}

/// What collectives fill of links: the part of NVLink's data rate that rings reach with large messages, and that of a NIC's port.
/// Both are what the rows of `docs/accuracy.md` show for large messages, 0.75 to 0.85 and 0.93 to 0.97.
const SHARE_UP: f64 = 0.80;
const SHARE_OUT: f64 = 0.95;
/// A step of a ring, and a call: from the same rows.
const STEP_UP_US: f64 = 1.5;
const STEP_OUT_US: f64 = 6.0;
pub(crate) const CALL_US: f64 = 10.0;

/// The system of a row: `Err` with what is missing.
pub(crate) fn of(row: &Row) -> Result<Cluster, String> {
    let (system, domain, nic_gbit) = match row.gpu.as_str() {
        "a100-sxm4-80" => ("hgx-a100", 8, 200),
        "h100-sxm" => ("hgx-h100", 8, 400),
        "h200-sxm" => ("hgx-h200", 8, 400),
        "h800-sxm" => ("hgx-h800", 8, 400),
        "b200-sxm" => ("hgx-b200", 8, 400),
        "b300-sxm" => ("hgx-b300", 8, 800),
        "gb200" => ("nvl72-gb200", 72, 400),
        "gb300" => ("nvl72-gb300", 72, 800),
        gpu => return Err(format!("no rates of kernels for {gpu}")),
    };
    let catalogue = Catalogue::builtin();
    let gpu = catalogue.gpu(&row.gpu).map_err(|e| e.to_string())?;
    let link = catalogue.gpu_link(gpu).map_err(|e| e.to_string())?.ok_or("no links between GPUs")?;
    let up = Rate::bytes_per_sec((link.link_rate.get() as f64 * f64::from(gpu.nvlinks) * SHARE_UP) as u64);
    let gbit = match row.network.as_deref() {
        Some("ib-200" | "roce-200" | "ethernet-200") => 200,
        Some("ib-400" | "roce-400" | "ethernet-400" | "roce") => 400,
        Some("ib-800") => 800,
        _ => nic_gbit,
    };
    let out = Rate::bytes_per_sec((gbit as f64 * 1e9 / 8.0 * SHARE_OUT) as u64);
    let memory = if row.tagged("96GB") { Rate::gbyte(2400) } else { gpu.memory_rate };
    Ok(Cluster {
        system,
        domain,
        up: (up, Span::from_us_f64(STEP_UP_US)),
        out: (out, Span::from_us_f64(STEP_OUT_US)),
        memory,
    })
}
