//! Files that hosts print, read as nodes: NCCL's topology XML and `nvidia-smi topo -m`; and the channels of NCCL's graph files and
//! logs.
//!
//! The way: a reader for each format gives a host as the file describes it; what the file cannot say is filled in from
//! the [`Catalogue`]; a [`NodeSpec`] is made of both; and the node's matrix is held against the file's. Everything
//! suspicious is a [`Finding`] with the bytes that say so.
//!
//! ```
//! use sim_topology::{Catalogue, import::{self, Request}};
//!
//! let text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\t0-31\t0\nGPU1\tNV12\t X \t0-31\t0\n";
//! let imported = import::node(text, import::detect(text).unwrap(), &Request::default(), Catalogue::builtin())?;
//! assert_eq!(imported.node.gpus, 2);
//! assert_eq!(imported.matrix[0][1].to_string(), "NV12");
//! # Ok::<(), import::Refusal>(())
//! ```

mod fill;
mod finding;
mod graphs;
mod host;
mod known;
mod matrix_host;
mod nccl_links;
mod nccl_log;
mod nccl_xml;
mod node;
mod rocm_topo;
mod sockets;
mod suspicions;
mod tally;
mod topo_m;
mod write;
mod xml;

pub use fill::{Certainty, Origin};
pub use finding::{Finding, FindingKind, Refusal};
pub use graphs::{FoundGraph, FoundGraphs, graph_file, log};
pub use write::{graphs_toml, toml as to_toml};

use crate::catalogue::Catalogue;
use crate::fabric::{Fabric, FabricSpec};
use crate::faults::{Degraded, Fault, FaultKind};
use crate::node::NodeSpec;
use crate::path_class::PathClass;
use crate::topo;

/// Largest file that is read.
pub const MOST_BYTES: usize = 64 << 20;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// NCCL's topology XML.
    NcclXml,
    /// The matrix of `nvidia-smi topo -m`.
    TopoM,
    /// The tables of `rocm-smi --showtopo`.
    RocmTopo,
    /// NCCL's graph file: channels, not a machine.
    NcclGraph,
    /// A log with `NCCL_DEBUG=INFO`: channels, not a machine.
    NcclLog,
}

impl Kind {
    /// In words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::NcclXml => "NCCL topology XML",
            Self::TopoM => "nvidia-smi topo -m",
            Self::RocmTopo => "rocm-smi --showtopo",
            Self::NcclGraph => "NCCL graph file",
            Self::NcclLog => "NCCL log",
        }
    }
}

/// What the user adds to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The GPU's name in the catalogue.
    pub gpu: Option<String>,
    /// The NIC's name in the catalogue.
    pub nic: Option<String>,
    /// The CPU's family: `sapphire-rapids`.
    pub cpu: Option<String>,
    /// PCIe links that trained down are lifted to those of their peers, or their cards.
    pub full_links: bool,
}

/// A device of the node and what the file calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// `gpu0`, `nic3`.
    pub device: String,
    /// Bus id or column.
    pub name: String,
    /// The system's name for it, such as `mlx5_0`.
    pub alias: Option<String>,
}

/// A node that was read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// What the file is.
    pub kind: Kind,
    /// The node.
    pub node: NodeSpec,
    /// What was filled in, or taken over with some thought.
    pub origins: Vec<Origin>,
    /// What is suspicious, in the order of the file.
    pub findings: Vec<Finding>,
    /// GPUs, then NICs.
    pub devices: Vec<Named>,
    /// The path classes between them that the file shows, with what was filled in.
    pub matrix: Vec<Vec<PathClass>>,
    /// What is broken: NVLinks to switches that are down.
    pub faults: Vec<Fault>,
}

/// What a text is, by its content; `None` if it is nothing that can be imported.
#[must_use]
pub fn detect(text: &str) -> Option<Kind> {
    let head = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if head.starts_with('<') {
        let place = |mark: &str| head.find(mark).unwrap_or(usize::MAX);
        return Some(if place("<graphs") < place("<system") { Kind::NcclGraph } else { Kind::NcclXml });
    }
    if rocm_topo::looks_like(text) {
        return Some(Kind::RocmTopo);
    }
    if topo_m::looks_like(text) {
        return Some(Kind::TopoM);
    }
    nccl_log::looks_like(text).then_some(Kind::NcclLog)
}

/// Reads a node.
///
/// # Errors
/// If the text is not what `kind` says, is larger than [`MOST_BYTES`], or names parts that the catalogue does not have.
pub fn node(text: &str, kind: Kind, request: &Request, catalogue: &Catalogue) -> Result<Imported, Refusal> {
    if text.len() > MOST_BYTES {
        return Err(Refusal::new(format!("the file is larger than {} MiB", MOST_BYTES >> 20)));
    }
    let mut host = match kind {
        Kind::NcclXml => nccl_xml::read(text)?,
        Kind::TopoM => matrix_host::host(topo_m::read(text)?),
        Kind::RocmTopo => matrix_host::host(rocm_topo::read(text)?),
        Kind::NcclGraph | Kind::NcclLog => {
            let refusal = Refusal::new(format!("an {} is no machine", kind.title()));
            return Err(refusal.help("it tells of channels: they go beside a node that is imported or named"));
        }
    };
    for (what, count, most) in
        [("GPUs", host.gpus.len(), 64), ("NICs", host.nics.len(), 256), ("PCIe switches", host.switches.len(), 400)]
    {
        if count > most {
            return Err(Refusal::new(format!("{count} {what}; a node has at most {most}")));
        }
    }
    let filled = fill::fill(&mut host, request, catalogue)?;
    suspicions::find(&mut host, filled.gpu);
    if request.full_links {
        suspicions::lift(&mut host);
    }
    let node = node::node(&host, &filled, catalogue);
    let faults = faults(&host);
    let matrix = host.matrix();
    verify(&node, &faults, &matrix, catalogue, &mut host.findings)?;
    let named = |kind: &'static str, list: &[host::Device]| {
        let name = |(i, d): (usize, &host::Device)| Named {
            device: format!("{kind}{i}"),
            name: d.name.clone(),
            alias: d.alias.clone(),
        };
        list.iter().enumerate().map(name).collect::<Vec<_>>()
    };
    let devices = named("gpu", &host.gpus).into_iter().chain(named("nic", &host.nics)).collect();
    let mut findings = host.findings;
    findings.sort_by_key(|f| f.at.as_ref().map_or(usize::MAX, |at| at.start));
    Ok(Imported { kind, node, origins: filled.origins, findings, devices, matrix, faults })
}

/// GPUs that have some of their links to the switches, but not all.
fn faults(host: &host::Host) -> Vec<Fault> {
    let host::Nvlink::Switched { links, .. } = &host.nvlink else { return Vec::new() };
    let most = links.iter().copied().max().unwrap_or(0);
    let partly = links.iter().enumerate().filter(|(_, n)| **n > 0 && **n < most);
    let fault = |(gpu, &left): (usize, &u32)| Fault {
        target: format!("node*.gpu{gpu}"),
        pick: None,
        kind: FaultKind::Degraded(Degraded { links: Some(left), ..Degraded::default() }),
    };
    partly.map(fault).collect()
}

/// Builds the node and holds its matrix against the file's.
fn verify(
    node: &NodeSpec,
    faults: &[Fault],
    matrix: &[Vec<PathClass>],
    catalogue: &Catalogue,
    findings: &mut Vec<Finding>,
) -> Result<(), Refusal> {
    let fabric = Fabric::build(&FabricSpec::new(node.clone(), 1), catalogue)
        .map_err(|e| Refusal::new(format!("no node can be built of it: {e}")))?;
    let fabric = if faults.is_empty() {
        fabric
    } else {
        let ill = fabric.with_faults(faults, 0, true, catalogue);
        let why = |errors: Vec<crate::faults::FaultError>| {
            let first = errors.first().map(|e| e.message.clone()).unwrap_or_default();
            Refusal::new(format!("links that are down cannot be taken away: {first}"))
        };
        ill.map_err(why)?.0
    };
    let Some(built) = topo::matrix(&fabric, 0) else { return Ok(()) };
    let mut different = 0;
    let mut first = String::new();
    for (i, row) in built.rows.iter().enumerate() {
        for (j, cell) in row.cells.iter().enumerate() {
            let due = matrix.get(i).and_then(|r| r.get(j));
            if due.is_some_and(|due| due != cell) {
                different += 1;
                if first.is_empty() {
                    first = format!(
                        "{} to {} is {}, and the node shows {cell}",
                        row.name, built.rows[j].name, matrix[i][j]
                    );
                }
            }
        }
    }
    if different > 0 {
        let finding =
            Finding::new(FindingKind::Contradiction, format!("{different} cells of the matrix come out differently"));
        findings.push(finding.help(first));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
