//! What crosses between two halves of the cluster.

use petgraph::algo::ford_fulkerson;
use petgraph::graph::{DiGraph, NodeIndex};
use serde::Serialize;

use crate::device::{DeviceId, DeviceKind, LinkClass};
use crate::fabric::Fabric;

/// Bisection rates in GB/s, one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// From the first half of the GPUs of an NVLink domain to the second: over NVLink, without it over PCIe.
    #[serde(rename = "domain_GBps")]
    pub domain_gbyte: f64,
    /// What the NICs of half of the nodes inject; absent without a network.
    #[serde(rename = "nic_GBps")]
    pub nic_gbyte: Option<f64>,
    /// Half of what all leaves send up; absent without uplinks.
    #[serde(rename = "uplink_GBps")]
    pub uplink_gbyte: Option<f64>,
    /// From the first half of the domains to the second, over the network; as `domain` where there is one only.
    #[serde(rename = "overall_GBps")]
    pub overall_gbyte: f64,
}

/// The bisection of `fabric`, tier by tier.
#[must_use]
pub fn bisection(fabric: &Fabric) -> Bisection {
    let domain_gbyte = inside_domain(fabric);
    let plan = fabric.plan();
    let rate = plan.rate.as_gbyte();
    let network = plan.leaves > 0;
    let domains = fabric.nodes().last().map_or(1, |n| n.domain + 1);
    let half_nics = |nodes: u64| (nodes * u64::from(plan.rails)) as f64 * rate;
    let smaller_half = (fabric.nodes().len() / 2) as u64;
    Bisection {
        domain_gbyte,
        nic_gbyte: network.then(|| half_nics(smaller_half)),
        uplink_gbyte: (plan.uplinks > 0).then(|| f64::from(plan.leaves) * f64::from(plan.uplinks) * rate / 2.0),
        overall_gbyte: if domains < 2 || !network { domain_gbyte } else { across_domains(fabric, domains / 2) },
    }
}

/// From the first `domains` domains to the others: what a leaf joins by itself, and what goes over the spines.
fn across_domains(fabric: &Fabric, domains: u32) -> f64 {
    let plan = fabric.plan();
    let mut ports = vec![(0u64, 0u64); plan.leaves as usize];
    for (number, node) in fabric.nodes().iter().enumerate() {
        for rail in 0..plan.rails {
            let leaf = &mut ports[plan.leaf_of(number as u32, rail) as usize];
            *(if node.domain < domains { &mut leaf.0 } else { &mut leaf.1 }) += 1;
        }
    }
    let uplinks = u64::from(plan.uplinks);
    let local: u64 = ports.iter().map(|&(a, b)| a.min(b)).sum();
    let out: u64 = ports.iter().map(|&(a, b)| a.saturating_sub(b).min(uplinks)).sum();
    let into: u64 = ports.iter().map(|&(a, b)| b.saturating_sub(a).min(uplinks)).sum();
    (local + out.min(into)) as f64 * plan.rate.as_gbyte()
}

/// The largest flow from the first half of the GPUs of the first domain to the second half: over NVLink, or over PCIe
/// where there is none between them.
fn inside_domain(fabric: &Fabric) -> f64 {
    let nvlink = largest_flow(fabric, |class| matches!(class, LinkClass::NvLink | LinkClass::Xgmi));
    if nvlink > 0.0 { nvlink } else { largest_flow(fabric, |class| !class.is_network()) }
}

fn largest_flow(fabric: &Fabric, counts: impl Fn(LinkClass) -> bool) -> f64 {
    let members: Vec<DeviceId> =
        fabric.nodes().iter().take_while(|n| n.domain == 0).flat_map(|n| n.gpus.iter().copied()).collect();
    let half = members.len() / 2;
    if half == 0 {
        return 0.0;
    }
    let mut graph: DiGraph<(), u64> = DiGraph::new();
    let nodes: Vec<NodeIndex> = fabric.devices().iter().map(|_| graph.add_node(())).collect();
    let inside = |id: DeviceId| {
        let device = fabric.device(id);
        match device.kind {
            DeviceKind::NvSwitch => fabric.nvswitches_of(0).any(|s| s == id),
            _ => fabric.domain_of(id) == Some(0),
        }
    };
    for link in fabric.links() {
        if counts(link.class) && inside(link.from) && inside(link.to) {
            graph.add_edge(nodes[link.from.index()], nodes[link.to.index()], link.rate.get());
        }
    }
    let (source, sink) = (graph.add_node(()), graph.add_node(()));
    for (i, gpu) in members.iter().enumerate() {
        let gpu = nodes[gpu.index()];
        let (from, to) = if i < half { (source, gpu) } else { (gpu, sink) };
        graph.add_edge(from, to, u64::MAX / 4096);
    }
    let (flow, _) = ford_fulkerson(&graph, source, sink);
    flow as f64 / 1e9
}
