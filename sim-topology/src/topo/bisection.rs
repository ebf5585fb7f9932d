//! What crosses between two halves of the cluster.

use std::collections::BTreeMap;

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::unionfind::UnionFind;
use serde::Serialize;

use crate::device::{DeviceId, DeviceKind, Link, LinkClass, Node};
use crate::fabric::{Fabric, FabricKind, SwitchPlace};

/// Bisection rates in GB/s, one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// From the first half of the GPUs of an NVLink domain to the second: over NVLink, without it over PCIe.
    #[serde(rename = "domain_GBps")]
    pub domain_gbyte: f64,
    /// What the NICs of half of the nodes inject; absent without a network.
    #[serde(rename = "nic_GBps")]
    pub nic_gbyte: Option<f64>,
    /// Half of what all leaves send up (all groups of a dragonfly send out); absent without uplinks.
    #[serde(rename = "uplink_GBps")]
    pub uplink_gbyte: Option<f64>,
    /// Half of what all spines send up; absent without cores.
    #[serde(rename = "core_GBps")]
    pub core_gbyte: Option<f64>,
    /// From the first half of the domains to the second, over the network; as `domain` where there is one only.
    #[serde(rename = "overall_GBps")]
    pub overall_gbyte: f64,
}

/// The bisection of `fabric`, tier by tier; dead links carry nothing.
#[must_use]
pub fn bisection(fabric: &Fabric) -> Bisection {
    let domain_gbyte = inside_domain(fabric);
    let plan = fabric.plan();
    let network = plan.leaves > 0;
    let domains = fabric.nodes().last().map_or(1, |n| n.domain + 1);
    let half = fabric.nodes().len() / 2;
    let tier = |counts: fn(&SwitchPlace, &SwitchPlace) -> bool| {
        let sum: u64 = switch_links(fabric).filter(|(_, a, b)| counts(a, b)).map(|(link, ..)| link.rate.get()).sum();
        sum as f64 / 2e9
    };
    let dragonfly = plan.kind == FabricKind::Dragonfly;
    let joined = if dragonfly { plan.cables.global > 0 } else { plan.spines > 0 };
    let leaves = if dragonfly { tier(|a, b| a.pod != b.pod) } else { tier(|a, b| a.tier() == 0 && b.tier() == 1) };
    Bisection {
        domain_gbyte,
        nic_gbyte: network.then(|| nics_of_half(fabric, half)),
        uplink_gbyte: joined.then_some(leaves),
        core_gbyte: (plan.cores > 0).then(|| tier(|a, b| a.tier() == 1 && b.tier() == 2)),
        overall_gbyte: match (domains, network, dragonfly) {
            (..2, ..) | (_, false, _) => domain_gbyte,
            _ if !fabric.faults().is_empty() && fabric.network_links().count() <= MOST_LINKS => {
                by_flow(fabric, domains / 2)
            }
            (_, _, true) => across_groups(fabric, domains / 2),
            _ => across_domains(fabric, domains / 2),
        },
    }
}

/// Links of the network up to which what faults left is worked out link by link.
const MOST_LINKS: usize = 6_000;

/// What the NICs of the first `nodes` inject, or those of as many last ones if that is less.
fn nics_of_half(fabric: &Fabric, nodes: usize) -> f64 {
    let rate = |nodes: &[Node]| -> u64 {
        let ports = nodes.iter().flat_map(|n| &n.nics).flat_map(|&nic| fabric.attached(nic));
        ports.map(|port| fabric.link(port.up)).filter(|link| link.alive).map(|link| link.rate.get()).sum()
    };
    let (first, last) = (&fabric.nodes()[..nodes], &fabric.nodes()[fabric.nodes().len() - nodes..]);
    rate(first).min(rate(last)) as f64 / 1e9
}

/// The largest flow from the NICs of the first `domains` domains to the others, over links that work; a path may go up twice.
fn by_flow(fabric: &Fabric, domains: u32) -> f64 {
    let mut graph: DiGraph<(), u64> = DiGraph::new();
    let mut known: BTreeMap<DeviceId, NodeIndex> = BTreeMap::new();
    for link in fabric.network_links().filter(|l| l.alive) {
        let [from, to] = [link.from, link.to].map(|end| *known.entry(end).or_insert_with(|| graph.add_node(())));
        graph.add_edge(from, to, link.rate.get());
    }
    let (source, sink) = (graph.add_node(()), graph.add_node(()));
    for node in fabric.nodes() {
        for nic in node.nics.iter().filter_map(|nic| known.get(nic)) {
            let (from, to) = if node.domain < domains { (source, *nic) } else { (*nic, sink) };
            graph.add_edge(from, to, u64::MAX / 4096);
        }
    }
    dinics(&graph, source, sink).0 as f64 / 1e9
}

/// The live links between switches, with where their ends stand.
fn switch_links(fabric: &Fabric) -> impl Iterator<Item = (&Link, SwitchPlace, SwitchPlace)> {
    let place = |id| fabric.switch_place(id);
    fabric.network_links().filter(|l| l.alive).filter_map(move |link| Some((link, place(link.from)?, place(link.to)?)))
}

/// What the first half sends and the second takes at a switch or a group of them, in B/s.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    first: u64,
    second: u64,
    up: u64,
}

impl Halves {
    /// What meets here; what is left goes up as far as there is room.
    fn meet(self, above: &mut Self) -> u64 {
        above.first += self.first.saturating_sub(self.second).min(self.up);
        above.second += self.second.saturating_sub(self.first).min(self.up);
        self.first.min(self.second)
    }
}

/// NIC rate on each leaf, from the first `domains` domains and from the others, by switch number.
fn on_leaves(fabric: &Fabric, domains: u32) -> Vec<Halves> {
    let mut halves = vec![Halves::default(); fabric.devices().iter().filter(|d| d.kind.is_network_switch()).count()];
    for node in fabric.nodes() {
        for port in node.nics.iter().flat_map(|&nic| fabric.attached(nic)) {
            let link = fabric.link(port.up);
            let leaf = &mut halves[fabric.switch_number(port.leaf)];
            if link.alive {
                *(if node.domain < domains { &mut leaf.first } else { &mut leaf.second }) += link.rate.get();
            }
        }
    }
    halves
}

/// From the first `domains` domains to the others: what a leaf joins by itself, what the spines of a pod join, and what
/// goes over the cores. Switches of a tier share evenly, as they are cabled.
fn across_domains(fabric: &Fabric, domains: u32) -> f64 {
    let mut leaves = on_leaves(fabric, domains);
    let n = leaves.len();
    let mut pods = UnionFind::<u32>::new(n);
    let mut cores = UnionFind::<u32>::new(n);
    for (link, from, to) in switch_links(fabric) {
        let ends = [link.from, link.to].map(|end| fabric.switch_number(end) as u32);
        cores.union(ends[0], ends[1]);
        if from.tier().max(to.tier()) < 2 {
            pods.union(ends[0], ends[1]);
        }
    }
    let mut above = vec![Halves::default(); n];
    for (link, from, to) in switch_links(fabric).filter(|(_, from, to)| from.tier() < to.tier()) {
        let number = fabric.switch_number(link.from);
        let at = if from.tier() == 0 { &mut leaves[number] } else { &mut above[pods.find(number as u32) as usize] };
        debug_assert!(to.tier() > 0);
        at.up += link.rate.get();
    }
    let mut met = 0;
    for (number, leaf) in leaves.into_iter().enumerate() {
        met += leaf.meet(&mut above[pods.find(number as u32) as usize]);
    }
    let mut top = vec![Halves::default(); n];
    for (number, pod) in above.into_iter().enumerate() {
        met += pod.meet(&mut top[cores.find(number as u32) as usize]);
    }
    met += top.iter().map(|t| t.first.min(t.second)).sum::<u64>();
    met as f64 / 1e9
}

/// The same in a dragonfly, as the least cut between groups: all NICs of a half, or the links between the groups of the two
/// halves with what a group shared by both holds of the other. Links inside a group are taken not to bind, as in a
/// balanced dragonfly.
fn across_groups(fabric: &Fabric, domains: u32) -> f64 {
    let mut groups = vec![Halves::default(); fabric.plan().pods as usize];
    for (router, place) in on_leaves(fabric, domains).into_iter().zip(fabric.switch_places()) {
        let group = &mut groups[place.pod as usize];
        group.first += router.first;
        group.second += router.second;
    }
    let cut = |with_first: fn(&Halves) -> bool| -> u64 {
        let sides: Vec<bool> = groups.iter().map(with_first).collect();
        let crosses =
            |(_, from, to): &(&Link, SwitchPlace, SwitchPlace)| sides[from.pod as usize] && !sides[to.pod as usize];
        let links: u64 = switch_links(fabric).filter(crosses).map(|(link, ..)| link.rate.get()).sum();
        let others = groups.iter().zip(&sides).map(|(g, &first)| if first { g.second } else { g.first });
        links + others.sum::<u64>()
    };
    let whole = |half: fn(&Halves) -> u64| groups.iter().map(half).sum::<u64>();
    let cuts = [cut(|g| g.first > 0), cut(|g| g.second == 0), whole(|g| g.first), whole(|g| g.second)];
    cuts.into_iter().min().unwrap_or(0) as f64 / 1e9
}

/// The largest flow from the first half of the GPUs of a domain to the second half: over NVLink, or over PCIe where there
/// is none between them. Of the first domain, or beside faults of the worst.
fn inside_domain(fabric: &Fabric) -> f64 {
    let inside = |domain: u32| {
        let nvlink = largest_flow(fabric, domain, |class| matches!(class, LinkClass::NvLink | LinkClass::Xgmi));
        if nvlink > 0.0 { nvlink } else { largest_flow(fabric, domain, |class| !class.is_network()) }
    };
    let ill = ill_domains(fabric);
    ill.into_iter().chain([0]).map(inside).reduce(f64::min).unwrap_or(0.0)
}

/// Domains in which links are dead or of another rate than in the first one; the first of each sort.
fn ill_domains(fabric: &Fabric) -> Vec<u32> {
    let mut sorts: BTreeMap<Vec<(u16, u64)>, u32> = BTreeMap::new();
    if fabric.faults().is_empty() {
        return Vec::new();
    }
    let mut domain: Vec<(u16, u64)> = Vec::new();
    let nodes = fabric.nodes();
    for (i, node) in nodes.iter().enumerate() {
        let links = fabric.templates()[usize::from(node.template)].links.len();
        let links = &fabric.links()[node.first_link as usize..node.first_link as usize + links];
        domain.extend(links.iter().map(|l| (node.template, if l.alive { l.rate.get() } else { 0 })));
        if nodes.get(i + 1).is_none_or(|next| next.domain != node.domain) {
            sorts.entry(core::mem::take(&mut domain)).or_insert(node.domain);
        }
    }
    // A last domain of fewer nodes is no fault.
    let full = nodes.iter().take_while(|n| n.domain == 0).count();
    let count = |domain: u32| nodes.iter().filter(|n| n.domain == domain).count();
    sorts.into_values().filter(|&domain| count(domain) == full).collect()
}

fn largest_flow(fabric: &Fabric, domain: u32, counts: impl Fn(LinkClass) -> bool) -> f64 {
    let members: Vec<DeviceId> = fabric
        .nodes()
        .iter()
        .filter(|n| n.domain == domain)
        .flat_map(|n| n.gpus.iter().copied())
        .filter(|&gpu| fabric.device(gpu).alive)
        .collect();
    let half = members.len() / 2;
    if half == 0 {
        return 0.0;
    }
    let mut graph: DiGraph<(), u64> = DiGraph::new();
    let nodes: Vec<NodeIndex> = fabric.devices().iter().map(|_| graph.add_node(())).collect();
    let inside = |id: DeviceId| {
        let device = fabric.device(id);
        match device.kind {
            DeviceKind::NvSwitch => fabric.nvswitches_of(domain).any(|s| s == id),
            _ => fabric.domain_of(id) == Some(domain),
        }
    };
    for link in fabric.links() {
        if link.alive && counts(link.class) && inside(link.from) && inside(link.to) {
            graph.add_edge(nodes[link.from.index()], nodes[link.to.index()], link.rate.get());
        }
    }
    let (source, sink) = (graph.add_node(()), graph.add_node(()));
    for (i, gpu) in members.iter().enumerate() {
        let gpu = nodes[gpu.index()];
        let (from, to) = if i < half { (source, gpu) } else { (gpu, sink) };
        graph.add_edge(from, to, u64::MAX / 4096);
    }
    let (flow, _) = dinics(&graph, source, sink);
    flow as f64 / 1e9
}
