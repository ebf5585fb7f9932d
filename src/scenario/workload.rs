//! What a scenario runs.

mod collective;
mod group;
mod traffic;
mod transfer;

pub(super) use collective::exclusive;
use sim_topology::{DeviceId, Fabric};

pub use collective::Collective;
pub(crate) use collective::reduction;
pub use traffic::Uneven;
pub use transfer::{Traffic, Transfer, Transfers};

use super::Packets;
use super::keys::{COLLECTIVE, TRANSFER};
use super::tree::{Node, Table, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten};

/// A piece of work.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// A collective over a sweep of sizes.
    Collective(Collective),
    /// Point-to-point transfers.
    Transfer(Transfers),
}

impl Workload {
    /// The name in results, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Collective(collective) => collective.name.as_deref(),
            Self::Transfer(transfers) => transfers.name.as_deref(),
        }
    }
}

impl Workload {
    /// The collective, if it runs with the one before it.
    #[must_use]
    pub fn together(&self) -> Option<&Collective> {
        match self {
            Self::Collective(collective) => Some(collective).filter(|c| c.with_previous),
            Self::Transfer(_) => None,
        }
    }
}

/// All workloads, in order; those with faults are left out and reported.
pub(super) fn workloads(
    root: &View<'_>,
    fabric: &Fabric,
    packets: Option<&Packets>,
    out: &mut Diagnostics,
) -> Vec<Workload> {
    let seed = root.integer("seed").unwrap_or(1);
    let mut list = Vec::new();
    for (number, item) in root.items("workload").iter().enumerate() {
        let Some(table) = item.as_table() else { continue };
        let workload = match table.get("kind").and_then(Node::as_text) {
            Some("collective") => {
                let view = View::new(table, &COLLECTIVE);
                let way = way(&view, None, packets, out);
                let collective = collective::collective(&view, Some(fabric), out);
                collective.map(|collective| Workload::Collective(Collective { way, ..collective }))
            }
            Some("transfer") => {
                let view = View::new(table, &TRANSFER);
                let stream = number as u64;
                transfer::transfers(&view, item, fabric, packets, (seed, stream), out).map(Workload::Transfer)
            }
            _ => None,
        };
        if let Some(Workload::Collective(collective)) = &workload {
            together(collective, list.last(), table, out);
        }
        list.extend(workload);
    }
    list
}

/// The way in which what a table sends is carried; keys of it are warned of where no packets are played.
fn way(view: &View<'_>, outer: Option<&View<'_>>, packets: Option<&Packets>, out: &mut Diagnostics) -> u16 {
    if let Some(packets) = packets {
        return packets.way(view, outer);
    }
    // Packets that are faulty have been told of.
    if !out.has_errors() {
        super::transport::without_packets(view, out);
    }
    0
}

/// What runs with another needs a collective before it, and as many sizes (or one).
fn together(collective: &Collective, before: Option<&Workload>, table: &Table, out: &mut Diagnostics) {
    let Some(node) = table.get("with_previous").filter(|_| collective.with_previous) else { return };
    let fault = match before {
        Some(Workload::Collective(first)) => {
            let (ours, theirs) = (collective.sizes.len(), first.sizes.len());
            if ours == theirs || ours == 1 {
                return;
            }
            let message = format!("{ours} sizes can't run with {theirs} of the collective before");
            Diagnostic::new(Code::NotDivisible, message).help("give both as many sizes, or this one a single size")
        }
        _ => Diagnostic::new(Code::OutOfRange, "there is no collective before this one to run with")
            .help("put it after the collective whose links it shares"),
    };
    out.push(fault.at(node.place.clone(), "asked for here"));
}

/// The checks of workloads that need no fabric, where there is none because of other faults.
pub(super) fn shapes_only(root: &View<'_>, out: &mut Diagnostics) {
    for item in root.items("workload") {
        let Some(table) = item.as_table() else { continue };
        match table.get("kind").and_then(Node::as_text) {
            Some("collective") => {
                collective::collective(&View::new(table, &COLLECTIVE), None, out);
            }
            Some("transfer") => transfer::shape(&View::new(table, &TRANSFER), item, out),
            _ => {}
        }
    }
}

/// The number of ranks that a workload takes of the `gpus` there are.
fn ranks(view: &View<'_>, fabric: &Fabric, least: u32, out: &mut Diagnostics) -> Option<u32> {
    let gpus = u32::try_from(fabric.gpus().len()).unwrap_or(u32::MAX);
    let per_node = fabric.nodes().first().map_or(1, |n| n.gpus.len() as u32).max(1);
    let Some(node) = view.node("ranks") else {
        if gpus < least {
            let fault =
                Diagnostic::new(Code::OutOfRange, format!("the work needs at least {least} GPUs, and there is {gpus}"));
            out.push(fault.help("set `nodes` or `gpus_per_node` higher"));
            return None;
        }
        return Some(gpus);
    };
    let wanted: u32 = view.integer("ranks")?;
    let mut fault = |message: String, label: String, help: &str| {
        out.push(Diagnostic::new(Code::NotDivisible, message).at(node.place.clone(), label).help(help));
        None
    };
    if wanted > gpus {
        let label = format!("{} x {} = {gpus}", counted(fabric.nodes().len(), "node"), counted(per_node, "GPU"));
        return fault(
            format!("{wanted} ranks on {}", counted(gpus, "GPU")),
            label,
            "leave `ranks` out to use all, or set `nodes` higher",
        );
    }
    if wanted < least {
        return fault(format!("{wanted} ranks"), format!("at least {least} are needed"), "");
    }
    if wanted > per_node && !wanted.is_multiple_of(per_node) {
        let label = format!("{wanted} = {} x {per_node} + {}", wanted / per_node, wanted % per_node);
        let help = "use a multiple of the GPUs of a node, or name the ranks by `group`";
        return fault(format!("{wanted} ranks do not fill nodes of {per_node} GPUs"), label, help);
    }
    Some(wanted)
}

/// The device that a text or a rank number means.
fn device(node: &Node, fabric: &Fabric, out: &mut Diagnostics) -> Option<DeviceId> {
    match &node.value {
        Value::Integer(Some(rank)) => {
            let found = usize::try_from(*rank).ok().and_then(|r| fabric.gpus().get(r)).copied();
            if found.is_none() {
                let last = fabric.gpus().len().saturating_sub(1);
                let fault = Diagnostic::new(Code::UnknownDevice, format!("there is no rank {rank}"));
                out.push(fault.at(node.place.clone(), format!("ranks go from 0 to {last}")));
            }
            found
        }
        Value::Text(name) => match fabric.find(name) {
            Ok(id) => Some(id),
            Err(error) => {
                let fault = Diagnostic::new(Code::UnknownDevice, format!("there is no device `{}`", shorten(name)));
                let fault = fault.at(node.place.clone(), "not in this fabric");
                let alike = error.suggestion.map(|s| format!("did you mean `{s}`?"));
                out.push(
                    fault.maybe_help(alike).help("devices are named like node0.gpu3, node0.nic1, node0.socket0, leaf4"),
                );
                None
            }
        },
        _ => None,
    }
}
