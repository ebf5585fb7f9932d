//! Which GPU each rank takes.

use sim_topology::Fabric;
use sim_workload::parallel::{Group, Placement, Ranks, SizeFault};

use super::Asked;
use crate::diagnostic::{Code, Diagnostics};
use crate::scenario::tree::{Node, Value};

/// The placement of `ranks` ranks, and the GPU of each.
pub(super) fn placement(
    asked: &Asked<'_>,
    fabric: &Fabric,
    ranks: u64,
    out: &mut Diagnostics,
) -> Option<(Placement, Vec<u32>)> {
    let view = asked.view.table_or_empty("placement");
    let list = |key: &str| {
        let number = |node: &Node| match node.value {
            Value::Integer(Some(n)) => u64::try_from(n).ok(),
            _ => None,
        };
        view.has(key).then(|| view.items(key).iter().filter_map(number).collect::<Vec<u64>>())
    };
    let placement = Placement {
        per_node: fabric.nodes().first().map_or(1, |node| node.gpus.len() as u64).max(1),
        nodes_per_domain: u64::from(fabric.nodes_per_domain()).max(1),
        segment: view.integer("segment"),
        locals: list("locals"),
        nodes: list("nodes"),
    };
    let nodes = fabric.nodes().len() as u64;
    if let Some(absent) = placement.nodes.iter().flatten().find(|node| **node >= nodes) {
        let label = format!("nodes go from 0 to {}", nodes.saturating_sub(1));
        let message = format!("there is no node {absent}");
        out.push(asked.fault(Code::UnknownDevice, message, &["placement.nodes"], label));
        return None;
    }
    if let Err(faults) = placement.check(ranks) {
        for fault in &faults {
            let (keys, help): (&[&str], String) = match fault {
                SizeFault::Rule { near, .. } => (&["placement.segment"], format!("near: segment = {near}")),
                SizeFault::Needs { what: "the list of nodes", hint, .. } => (&["placement.nodes"], hint.clone()),
                SizeFault::Needs { hint, .. } => (&["placement.locals"], hint.clone()),
                _ => (&["placement"], String::new()),
            };
            let message = match fault {
                SizeFault::Rule { rule, values, .. } => format!("`{rule}` does not hold: {values}"),
                SizeFault::Needs { what, needs, .. } => format!("{what} must be {needs}"),
                other => other.to_string(),
            };
            out.push(asked.fault(Code::BadSizes, message, keys, "placed so here").help(help));
        }
        return None;
    }
    let there = fabric.gpus().len() as u64;
    let gpus: Vec<u64> = (0..ranks).map(|rank| placement.gpu(rank)).collect();
    if let Some((rank, gpu)) = gpus.iter().enumerate().find(|(_, gpu)| **gpu >= there) {
        let message = format!("rank {rank} would take GPU {gpu} of {there}");
        let label = format!("node {}, and there are {}", gpu / placement.per_node, fabric.nodes().len());
        let keys = ["placement.nodes", "placement.segment", "ranks"];
        let help = "fewer `ranks`, or more `nodes`: with `segment` the rest of each domain stays idle";
        out.push(asked.fault(Code::BadSizes, message, &keys, label).help(help));
        return None;
    }
    Some((placement, gpus.iter().map(|gpu| *gpu as u32).collect()))
}

/// The rail of each GPU, if the network has rails and all of these have a NIC.
pub(super) fn rails(fabric: &Fabric, gpus: &[u32]) -> Option<Vec<u32>> {
    let leaves = fabric.leaf_rails();
    if leaves.is_empty() || leaves.iter().any(Option::is_none) {
        return None;
    }
    let rail = |gpu: &u32| {
        let gpu = fabric.gpus().get(*gpu as usize)?;
        fabric.nics_of(*gpu).first().map(|nic| fabric.rail_of(*nic))
    };
    gpus.iter().map(rail).collect()
}

/// Warns of tensor parallelism over NICs.
pub(super) fn leaving(asked: &Asked<'_>, placement: &Placement, ranks: &Ranks, out: &mut Diagnostics) {
    let Err(SizeFault::Rule { values, near, .. }) = placement.within_domain(ranks, Group::Tensor) else { return };
    let keys = ["tp", "order", "placement"];
    let fault = asked.fault(Code::LeavesScaleUp, "tensor parallelism goes over NICs", &keys, values);
    out.push(fault.help(format!("near: tp = {near}; or `tp` first in `order`")));
}
