//! What a scenario runs.

mod collective;
mod failures;
mod group;
mod inference;
mod kv_transfer;
mod rated;
mod step;
mod traffic;
mod transfer;

pub(super) use collective::exclusive;
use sim_topology::{Catalogue, DeviceId, Fabric};

pub use collective::Collective;
pub(crate) use collective::reduction;
pub use failures::Failures;
pub use inference::{GpuPrice, Inference, Moves, PoolSpec};
pub use step::{SlowRank, Step};
pub use traffic::Uneven;
pub use transfer::{Traffic, Transfer, Transfers};

use super::Packets;
use super::keys::{COLLECTIVE, TRANSFER};
use super::tree::{Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten};

/// A piece of work.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// A collective over a sweep of sizes.
    Collective(Collective),
    /// Point-to-point transfers.
    Transfer(Transfers),
    /// A training step.
    Step(Box<Step>),
    /// Inference.
    Inference(Box<Inference>),
    /// A long run that fails.
    Failures(Failures),
}

impl Workload {
    /// The name in results, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Collective(collective) => collective.name.as_deref(),
            Self::Transfer(transfers) => transfers.name.as_deref(),
            Self::Step(step) => step.name.as_deref(),
            Self::Inference(inference) => inference.name.as_deref(),
            Self::Failures(failures) => failures.name.as_deref(),
        }
    }
}

impl Workload {
    /// Whether it runs at the same time as the one before it, which is of its kind.
    #[must_use]
    pub const fn with_previous(&self) -> bool {
        match self {
            Self::Collective(collective) => collective.with_previous,
            Self::Transfer(transfers) => transfers.with_previous,
            Self::Step(step) => step.with_previous,
            Self::Inference(_) | Self::Failures(_) => false,
        }
    }

    /// The inference, if it is one.
    #[must_use]
    pub fn inference(&self) -> Option<&Inference> {
        if let Self::Inference(inference) = self { Some(inference) } else { None }
    }

    /// The collective, if it runs with the one before it.
    #[must_use]
    pub fn collective_together(&self) -> Option<&Collective> {
        match self {
            Self::Collective(collective) => Some(collective).filter(|c| c.with_previous),
            Self::Transfer(_) | Self::Step(_) | Self::Inference(_) | Self::Failures(_) => None,
        }
    }

    /// The transfers, if they run with those before them.
    #[must_use]
    pub fn transfers_together(&self) -> Option<&Transfers> {
        match self {
            Self::Transfer(transfers) => Some(transfers).filter(|t| t.with_previous),
            Self::Collective(_) | Self::Step(_) | Self::Inference(_) | Self::Failures(_) => None,
        }
    }
}

/// All workloads, in order; those with faults are left out and reported.
pub(super) fn workloads(
    root: &View<'_>,
    (fabric, catalogue): (&Fabric, &Catalogue),
    packets: Option<&Packets>,
    out: &mut Diagnostics,
) -> Vec<Workload> {
    let seed = root.integer("seed").unwrap_or(1);
    let mut list: Vec<Workload> = Vec::new();
    // The kind that is written before, and whether it was read without faults.
    let mut before: Option<(&str, bool)> = None;
    // Whether the last step has faults: what runs beside it has none for that.
    let mut unread_step = false;
    for (number, item) in root.items("workload").iter().enumerate() {
        let Some(table) = item.as_table() else { continue };
        let kind = table.get("kind").and_then(Node::as_text);
        let workload = match kind {
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
            Some("step") => step::step(item, fabric, catalogue, seed, out).map(Workload::Step),
            Some("inference") => inference::inference(item, fabric, catalogue, seed, out).map(Workload::Inference),
            Some("kv-transfer") => {
                kv_transfer::transfers(item, (fabric, catalogue), packets, out).map(Workload::Transfer)
            }
            Some("failures") => failures::failures(item, fabric, out).map(Workload::Failures),
            _ => None,
        };
        if let (Some(workload), Some(node)) = (&workload, table.get("with_previous"))
            && workload.with_previous()
            && let Some(fault) = apart(workload, before.map(|(kind, read)| (kind, list.last().filter(|_| read))))
        {
            out.push(fault.at(node.place.clone(), "asked for here"));
        }
        if let Some(Workload::Step(step)) = &workload
            && step.with_previous
            && let Some(fault) = shared(step, &list)
        {
            out.push(fault.at(step.place.clone(), "this step"));
        }
        if let Some(Workload::Transfer(transfers)) = &workload
            && transfers.repeat
            && !(transfers.with_previous && (beside_step(&list) || unread_step))
            && let Some(node) = table.get("repeat")
        {
            let fault = Diagnostic::new(Code::OutOfRange, "transfers repeat beside a step only, as long as it runs");
            out.push(fault.at(node.place.clone(), "asked for here").help("set `with_previous = true` after a step"));
        }
        if kind == Some("step") {
            unread_step = workload.is_none();
        }
        // Caches on their way are transfers.
        let like = |kind| if kind == "kv-transfer" { "transfer" } else { kind };
        before = kind.map(|kind| (like(kind), workload.is_some()));
        list.extend(workload);
    }
    list
}

/// Whether what comes next and runs with the previous runs beside a step.
fn beside_step(list: &[Workload]) -> bool {
    let joined = |w: &&Workload| matches!(w, Workload::Transfer(_)) && w.with_previous();
    matches!(list.iter().rev().find(|w| !joined(w)), Some(Workload::Step(_)))
}

/// Why a step can't run with those before it: they have a GPU in common.
fn shared(step: &Step, list: &[Workload]) -> Option<Diagnostic> {
    let mut mine = step.gpus.clone();
    mine.sort_unstable();
    for workload in list.iter().rev() {
        if let Workload::Step(other) = workload
            && let Some(gpu) = other.gpus.iter().find(|gpu| mine.binary_search(gpu).is_ok())
        {
            let message = format!("GPU {gpu} is of this step and of `{}` before it", other.title());
            let help = "jobs that run together are on GPUs of their own: give each its `ranks` and `placement.nodes`";
            return Some(Diagnostic::new(Code::OutOfRange, message).help(help));
        }
        if !workload.with_previous() {
            break;
        }
    }
    None
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

/// Why a workload can't run with the one `before` it, of which the kind is known and, if it has no faults, the rest: both are
/// collectives with as many sizes (or this one has a single size), or both are transfers.
fn apart(workload: &Workload, before: Option<(&str, Option<&Workload>)>) -> Option<Diagnostic> {
    let fault = |message: &str, help: &str| Some(Diagnostic::new(Code::OutOfRange, message).help(help));
    let as_transfers = "collectives run with collectives, and transfers with transfers; to set both side by side write the \
                        collective as transfers: pattern = \"shift\" is a step of a ring, \"all_to_all\" an all-to-all";
    match (workload, before) {
        (Workload::Collective(ours), Some(("collective", theirs))) => {
            let Some(Workload::Collective(theirs)) = theirs else { return None };
            let (ours, theirs) = (ours.sizes.len(), theirs.sizes.len());
            if ours == theirs || ours == 1 {
                return None;
            }
            let message = format!("{ours} sizes can't run with {theirs} of the collective before");
            let help = "give both as many sizes, or this one a single size";
            Some(Diagnostic::new(Code::NotDivisible, message).help(help))
        }
        (Workload::Transfer(_), Some(("transfer", _))) => None,
        (Workload::Inference(_) | Workload::Failures(_), _) | (_, Some(("inference" | "failures", _))) => {
            fault("inference and long runs have no links that others could share", as_transfers)
        }
        (Workload::Step(_) | Workload::Transfer(_), Some(("step", _))) => None,
        (Workload::Collective(_), Some(("step", _))) => {
            fault("a collective can't run with the step before it", as_transfers)
        }
        (Workload::Collective(_), Some(("transfer", _))) => {
            fault("a collective can't run with the transfers before it", as_transfers)
        }
        (Workload::Transfer(_), Some(("collective", _))) => {
            fault("transfers can't run with the collective before them", as_transfers)
        }
        (Workload::Collective(_), None) => fault(
            "there is no collective before this one to run with",
            "put it after the collective whose links it shares",
        ),
        (Workload::Transfer(_), None) => fault(
            "there are no transfers before these to run with",
            "put them after the transfers whose links they share",
        ),
        (Workload::Step(_), _) => fault(
            "there is no step before this one to run with",
            "steps run with the step before them, and transfers with either: put the steps first",
        ),
        // What is neither has been refused.
        (_, Some(_)) => None,
    }
}

/// The checks of workloads that need no fabric, where there is none because of other faults.
pub(super) fn shapes_only(root: &View<'_>, out: &mut Diagnostics) {
    for item in root.items("workload") {
        let Some(table) = item.as_table() else { continue };
        match table.get("kind").and_then(Node::as_text) {
            Some("collective") => {
                collective::collective(&View::new(table, &COLLECTIVE), None, out);
            }
            Some("step") => step::shape(item, out),
            Some("inference") => inference::shape(item, out),
            Some("kv-transfer") => kv_transfer::shape(item, out),
            Some("transfer") => transfer::shape(&View::new(table, &TRANSFER), item, out),
            _ => {}
        }
    }
}

/// The NICs of a message between two GPUs when that of number `nic` of the sender's node carries it: into the receiver's own NIC if
/// each rank uses its own, else into the one of the same number. `None` where a node has no such NIC.
pub(crate) fn nics_between(
    fabric: &Fabric,
    src: DeviceId,
    dst: DeviceId,
    choice: sim_workload::serving::cache_transfer::NicChoice,
    nic: u64,
) -> Option<(DeviceId, DeviceId)> {
    let own = |gpu: DeviceId| fabric.nics_of(gpu).first().copied();
    if choice == sim_workload::serving::cache_transfer::NicChoice::Affine {
        return Some((own(src)?, own(dst)?));
    }
    let of = |gpu: DeviceId| {
        let node = fabric.nodes().get(fabric.device(gpu).node? as usize)?;
        node.nics.get((nic % node.nics.len().max(1) as u64) as usize).copied()
    };
    Some((of(src)?, of(dst)?))
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
