//! Min-hop tables as a subnet manager fills them, beside what `min-hop` makes of them.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::ids::LinkId;

use super::*;
use crate::DeviceId;

/// The tables of all switches, filled as OpenSM's min-hop engine does: at each switch by itself, destinations leaf by leaf
/// in the order of ports, each to the least loaded of the ports on minimal paths, the first among equals.
fn greedy(fabric: &Fabric) -> BTreeMap<(DeviceId, DeviceId), LinkId> {
    let mut ports: BTreeMap<(DeviceId, DeviceId), BTreeSet<LinkId>> = BTreeMap::new();
    for &a in fabric.gpus() {
        for &b in fabric.gpus().iter().filter(|&&b| b != a) {
            for route in fabric.equal_routes(&RouteRequest::auto(a, b)).unwrap() {
                for &link in route.links.iter().filter(|&&l| fabric.link(l).class == crate::LinkClass::Uplink) {
                    ports.entry((fabric.link(link).from, b)).or_default().insert(link);
                }
            }
        }
    }
    let mut order: Vec<DeviceId> = fabric.gpus().to_vec();
    order.sort_by_key(|&gpu| {
        let port = &fabric.attached(fabric.nics_of(gpu)[0])[0];
        (port.leaf, port.position)
    });
    let place: BTreeMap<DeviceId, usize> = order.iter().copied().zip(0..).collect();
    let mut entries: Vec<_> = ports.into_iter().collect();
    entries.sort_by_key(|((switch, to), _)| (*switch, place[to]));
    let mut load: BTreeMap<LinkId, u32> = BTreeMap::new();
    let mut tables = BTreeMap::new();
    for (at, links) in entries {
        let link = links.into_iter().min_by_key(|link| (load.get(link).copied().unwrap_or(0), *link)).unwrap();
        *load.entry(link).or_insert(0) += 1;
        tables.insert(at, link);
    }
    tables
}

/// Flows on the fullest link between switches, where each GPU sends to the one `shift` further on.
fn fullest(fabric: &Fabric, shift: usize, links: impl Fn(DeviceId, DeviceId) -> Vec<LinkId>) -> u32 {
    let gpus = fabric.gpus();
    let mut load: BTreeMap<LinkId, u32> = BTreeMap::new();
    for (i, &a) in gpus.iter().enumerate() {
        for link in links(a, gpus[(i + shift) % gpus.len()]) {
            *load.entry(link).or_insert(0) += 1;
        }
    }
    load.into_values().max().unwrap_or(0)
}

#[test]
fn loads_are_those_of_tables_filled_port_by_port() {
    for (nodes, k) in [(16, 4), (54, 6), (128, 8)] {
        let mut spec = FabricSpec::new(node(1), nodes);
        (spec.fabric, spec.k, spec.path_choice) = (FabricKind::FatTree, Some(k), Some(PathChoice::MinHop));
        let fabric = build(&spec);
        let tables = greedy(&fabric);
        let ours = |a, b| -> Vec<LinkId> {
            let route = fabric.route(&RouteRequest::auto(a, b)).unwrap();
            route.links.into_iter().filter(|&l| fabric.link(l).class == crate::LinkClass::Uplink).collect()
        };
        let theirs = |a, b: DeviceId| -> Vec<LinkId> {
            let mut at = fabric.leaf_of(fabric.nics_of(a)[0]).unwrap();
            let mut links = Vec::new();
            while let Some(&link) = tables.get(&(at, b)) {
                links.push(link);
                at = fabric.link(link).to;
            }
            links
        };
        // From pod to pod, and by less than a leaf.
        let pod = (k * k / 4) as usize;
        for shift in [1, pod, 2 * pod, nodes as usize / 2] {
            assert_eq!(fullest(&fabric, shift, ours), fullest(&fabric, shift, theirs), "k = {k}, shift {shift}");
        }
        // A leaf deals destinations to its k/2 spines in turn, and each of these in turn too: all those that reach a spine
        // are of one residue, and go up by one link. It is so in tables filled port by port, not only here.
        assert_eq!(fullest(&fabric, pod, theirs), k / 2, "k = {k}");
        // d-mod-k, which is made for trees, keeps every link to itself.
        spec.path_choice = Some(PathChoice::Destination);
        let fabric = build(&spec);
        let routed = |a, b| fabric.route(&RouteRequest::auto(a, b)).unwrap().links;
        assert_eq!(fullest(&fabric, pod, routed), 1, "k = {k}");
    }
}
