//! The path-class matrix of a node, laid out as `nvidia-smi topo -m` does.

use core::fmt;

use serde::Serialize;

use crate::device::DeviceId;
use crate::fabric::Fabric;
use crate::path_class::PathClass;

/// Path classes between the GPUs and NICs of a node.
///
/// Its `Display` form is the table with tabs, legend and NIC names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// The node.
    pub node: u32,
    /// A row a device: GPUs, then NICs; the columns are in the same order.
    pub rows: Vec<MatrixRow>,
}

/// A row of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatrixRow {
    /// `GPU0`, `NIC3`.
    pub name: String,
    /// The device's name in the fabric.
    pub device: String,
    /// The class of the path to each device.
    pub cells: Vec<PathClass>,
    /// Hardware threads near a GPU: `0-55,112-167`; absent for NICs.
    pub cpu_affinity: Option<String>,
    /// The NUMA node near a GPU; absent for NICs.
    pub numa_affinity: Option<u32>,
}

/// The matrix of `node`; `None` if there is no such node.
#[must_use]
pub fn matrix(fabric: &Fabric, node: u32) -> Option<Matrix> {
    let devices = fabric.nodes().get(node as usize)?;
    let gpus = devices.gpus.iter().enumerate().map(|(i, &id)| (format!("GPU{i}"), id, true));
    let nics = devices.nics.iter().enumerate().map(|(i, &id)| (format!("NIC{i}"), id, false));
    let all: Vec<(String, DeviceId, bool)> = gpus.chain(nics).collect();
    let rows = all.iter().map(|(name, id, is_gpu)| {
        let numa = fabric.local(*id).map_or(0, |(n, local)| fabric.template_of(n).devices[local as usize].numa);
        MatrixRow {
            name: name.clone(),
            device: fabric.device(*id).name.clone(),
            cells: all.iter().map(|(_, other, _)| fabric.path_class(*id, *other)).collect(),
            cpu_affinity: is_gpu.then(|| threads(fabric, numa)),
            numa_affinity: is_gpu.then_some(numa),
        }
    });
    Some(Matrix { node, rows: rows.collect() })
}

/// The hardware threads of a NUMA node: its cores, then their siblings.
fn threads(fabric: &Fabric, numa: u32) -> String {
    let node = &fabric.spec().node;
    let most = fabric.template_of(0).devices.iter().map(|d| d.numa + 1).max().unwrap_or(1);
    let domains = most.max(node.sockets * node.numa_per_socket).max(1);
    let cores = u64::from(node.cpu.cores) * u64::from(node.sockets);
    let each = (cores / u64::from(domains)).max(1);
    let ranges = (0..u64::from(node.cpu.threads_per_core.clamp(1, 8))).map(|sibling| {
        let first = sibling * cores + u64::from(numa) * each;
        format!("{first}-{}", first + each - 1)
    });
    ranges.collect::<Vec<_>>().join(",")
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            write!(f, "\t{}", row.name)?;
        }
        writeln!(f, "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID")?;
        for row in &self.rows {
            write!(f, "{}", row.name)?;
            for cell in &row.cells {
                match cell {
                    PathClass::X => write!(f, "\t X ")?,
                    cell => write!(f, "\t{cell}")?,
                }
            }
            match (&row.cpu_affinity, row.numa_affinity) {
                (Some(cpu), Some(numa)) => writeln!(f, "\t{cpu}\t{numa}\t\tN/A")?,
                _ => writeln!(f, "\t\t\t\t")?,
            }
        }
        writeln!(f, "\nLegend:\n")?;
        let legend = [PathClass::X, PathClass::Sys, PathClass::Node, PathClass::Phb, PathClass::Pxb, PathClass::Pix];
        for class in legend {
            writeln!(f, "  {class:<4} = {}", class.meaning())?;
        }
        let mut cells = self.rows.iter().flat_map(|row| &row.cells);
        if let Some(xgmi) = cells.find(|cell| matches!(cell, PathClass::Xgmi(_))) {
            writeln!(f, "  {xgmi:<4} = {}", xgmi.meaning())?;
        }
        writeln!(f, "  NV#  = {}", PathClass::Nvl(0).meaning())?;
        if self.rows.iter().flat_map(|row| &row.cells).any(|cell| matches!(cell, PathClass::Xgmi(_))) {
            writeln!(f, "  XGMI = {}", PathClass::Xgmi(0).meaning())?;
        }
        let nics: Vec<&MatrixRow> = self.rows.iter().filter(|r| r.numa_affinity.is_none()).collect();
        if !nics.is_empty() {
            writeln!(f, "\nNIC Legend:\n")?;
            for nic in nics {
                writeln!(f, "  {}: {}", nic.name, nic.device)?;
            }
        }
        Ok(())
    }
}
