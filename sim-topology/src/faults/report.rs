//! What faults change: pairs of GPUs, NICs, oversubscription, bisection.

use petgraph::algo::ford_fulkerson;
use petgraph::graph::{DiGraph, NodeIndex};
use serde::Serialize;

use super::census::{each_pair, route, sorts};
use crate::device::{DeviceId, LinkClass};
use crate::fabric::Fabric;
use crate::topo::{Pairs, pair_kind};

/// Names listed of each sort of change.
const SHOWN: usize = 8;
/// Links of the network up to which its largest flow is worked out.
const MOST_LINKS: usize = 6_000;

/// One fault as it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultLine {
    /// `degraded`, `dead`, ...
    pub kind: &'static str,
    /// What it befell, as written.
    pub target: String,
    /// What it did.
    pub what: String,
    /// Links that it changed, each direction counted.
    pub links: u64,
    /// Devices that it changed.
    pub devices: u64,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// On the healthy fabric.
    pub before: f64,
    /// With the faults.
    pub after: f64,
}

/// What all faults together change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultEffects {
    /// GPUs that are dead; their pairs are not counted below.
    pub dead_gpus: u64,
    /// Pairs by kind, of the GPUs that live, on the healthy fabric.
    pub pairs_before: Pairs,
    /// The same with the faults.
    pub pairs_after: Pairs,
    /// Ordered pairs whose path is of another kind.
    pub other_kind: u64,
    /// Ordered pairs whose path has another class (NVLinks lost, PCIe switches passed).
    pub other_class: u64,
    /// Ordered pairs whose path has more links.
    pub longer: u64,
    /// Ordered pairs whose path has a slower slowest link.
    pub slower: u64,
    /// Pairs of one rail whose path passes more switches than it did: a rail that is not what it is taken for.
    pub rails_broken: u64,
    /// GPUs that use other NICs: `node0.gpu2: nic3 in place of nic2` (the first of them).
    pub nics: Vec<String>,
    /// GPUs that use other NICs, all of them.
    pub nics_changed: u64,
    /// Rate into the fullest leaf over its rate up, by what works; absent without uplinks.
    pub oversubscription: Option<Change>,
    /// The largest flow from the NICs of the first half of the nodes to those of the second, GB/s one way; absent without a
    /// network and for very large ones.
    #[serde(rename = "network_bisection_GBps")]
    pub bisection: Option<Change>,
}

/// The faults of a fabric.
#[must_use]
pub fn lines(fabric: &Fabric) -> Vec<FaultLine> {
    let line = |fault: &super::AppliedFault| FaultLine {
        kind: fault.kind,
        target: fault.target.clone(),
        what: fault.what.clone(),
        links: fault.links.len() as u64,
        devices: fault.devices.len() as u64,
    };
    fabric.faults().iter().map(line).collect()
}

/// What the faults of `ill` change against `well`, the same fabric without them; `pxn` as for
/// [`pairs`](crate::topo::pairs).
#[must_use]
pub fn effects(well: &Fabric, ill: &Fabric, pxn: bool) -> FaultEffects {
    let lives = |id: &&DeviceId| ill.device(**id).alive;
    let mut effects = FaultEffects {
        dead_gpus: (ill.gpus().len() - ill.gpus().iter().filter(lives).count()) as u64,
        pairs_before: Pairs::default(),
        pairs_after: Pairs::default(),
        other_kind: 0,
        other_class: 0,
        longer: 0,
        slower: 0,
        rails_broken: 0,
        nics: Vec::new(),
        nics_changed: 0,
        oversubscription: oversubscription(well).zip(oversubscription(ill)).map(change),
        bisection: bisection(well).zip(bisection(ill)).map(change),
    };
    each_pair(ill, &sorts(ill), |a, b, count| {
        let (before, after) = (pair_kind(well, a, b, pxn), pair_kind(ill, a, b, pxn));
        effects.pairs_before.add(before, count);
        effects.pairs_after.add(after, count);
        let tally = |is: bool, sum: &mut u64| *sum += if is { count } else { 0 };
        tally(before != after, &mut effects.other_kind);
        tally(well.path_class(a, b) != ill.path_class(a, b), &mut effects.other_class);
        let (Some(old), Some(new)) = (route(well, a, b, pxn), route(ill, a, b, pxn)) else { return };
        tally(new.links.len() > old.links.len(), &mut effects.longer);
        tally(slowest(ill, &new.links) < slowest(well, &old.links), &mut effects.slower);
        let rails = old.kind == crate::PairKind::SameRail && new.kind == crate::PairKind::SameRail;
        let ups = |fabric: &Fabric, links: &[sim_core::ids::LinkId]| {
            links.iter().filter(|&&l| fabric.link(l).class == LinkClass::Uplink).count()
        };
        tally(rails && ups(ill, &new.links) > ups(well, &old.links), &mut effects.rails_broken);
    });
    for &gpu in ill.gpus().iter().filter(lives) {
        let (old, new) = (well.nics_of(gpu), ill.nics_of(gpu));
        if old == new {
            continue;
        }
        effects.nics_changed += 1;
        if effects.nics.len() < SHOWN {
            let names = |list: &[DeviceId]| {
                let names: Vec<&str> = list.iter().map(|&n| short(&ill.device(n).name)).collect();
                if names.is_empty() { "none".to_owned() } else { names.join(" and ") }
            };
            let name = &ill.device(gpu).name;
            effects.nics.push(format!("{name}: {} in place of {}", names(new), names(old)));
        }
    }
    effects
}

fn change((before, after): (f64, f64)) -> Change {
    Change { before, after }
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn slowest(fabric: &Fabric, links: &[sim_core::ids::LinkId]) -> u64 {
    links.iter().map(|&l| fabric.link(l).goodput(fabric.mtu()).get()).min().unwrap_or(0)
}

/// The largest ratio of a leaf's rate from its NICs to its rate up, over what works.
fn oversubscription(fabric: &Fabric) -> Option<f64> {
    let mut rates: Vec<(u64, u64)> = vec![(0, 0); fabric.devices().len()];
    for link in fabric.links().iter().filter(|l| l.alive) {
        match link.class {
            LinkClass::Network => rates[link.to.index()].0 += link.rate.get(),
            LinkClass::Uplink => rates[link.from.index()].1 += link.rate.get(),
            _ => {}
        }
    }
    let ratios = rates.iter().filter(|(down, up)| *down > 0 && *up > 0).map(|&(down, up)| down as f64 / up as f64);
    ratios.reduce(f64::max)
}

fn bisection(fabric: &Fabric) -> Option<f64> {
    let network: Vec<_> = fabric.links().iter().filter(|l| l.class.is_network()).collect();
    if network.is_empty() || network.len() > MOST_LINKS {
        return None;
    }
    let mut graph: DiGraph<(), u64> = DiGraph::new();
    let ids: Vec<NodeIndex> = fabric.devices().iter().map(|_| graph.add_node(())).collect();
    for link in network.iter().filter(|l| l.alive) {
        graph.add_edge(ids[link.from.index()], ids[link.to.index()], link.rate.get());
    }
    let (source, sink) = (graph.add_node(()), graph.add_node(()));
    for (i, node) in fabric.nodes().iter().enumerate() {
        for nic in &node.nics {
            let (nic, first) = (ids[nic.index()], i < fabric.nodes().len() / 2);
            graph.add_edge(if first { source } else { nic }, if first { nic } else { sink }, u64::MAX / 4096);
        }
    }
    let (flow, _) = ford_fulkerson(&graph, source, sink);
    Some(flow as f64 / 1e9)
}
