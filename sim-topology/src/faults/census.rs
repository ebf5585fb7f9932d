//! Nodes that are alike, and one pair of nodes for all of its sort: counting pairs of GPUs in a fabric with faults.

use std::collections::BTreeMap;

use crate::device::DeviceId;
use crate::fabric::Fabric;
use crate::route::{Route, RouteRequest};

/// An ordered pair of nodes that stands for `count` alike; twice the same node for the pairs inside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) count: u64,
}

/// Nodes of one interior, on the same leaves by cables that work alike.
#[derive(Default)]
struct Class {
    nodes: Vec<u32>,
    /// Per NVLink domain how many, and the first two.
    domains: BTreeMap<u32, Vec<u32>>,
}

/// The leaf of each port of a NIC, and whether its cable works.
type Cabling = Vec<(u32, bool)>;

/// All ordered pairs of nodes, by sort. Their counts add up to the square of the number of nodes.
pub(crate) fn sorts(fabric: &Fabric) -> Vec<Sort> {
    let mut classes: BTreeMap<(u16, Vec<Cabling>), Class> = BTreeMap::new();
    for (number, node) in fabric.nodes().iter().enumerate() {
        let key = (node.template, node.nics.iter().map(|&nic| fabric.cabling(nic)).collect());
        let class = classes.entry(key).or_default();
        class.nodes.push(number as u32);
        class.domains.entry(node.domain).or_default().push(number as u32);
    }
    let classes: Vec<Class> = classes.into_values().collect();
    let mut sorts = Vec::new();
    for (i, a) in classes.iter().enumerate() {
        sorts.push(Sort { a: a.nodes[0], b: a.nodes[0], count: a.nodes.len() as u64 });
        for (j, b) in classes.iter().enumerate() {
            let own = if i == j { a.nodes.len() as u64 } else { 0 };
            let mut within = 0;
            let mut inside = None;
            for (domain, members) in &a.domains {
                let Some(others) = b.domains.get(domain) else { continue };
                within += members.len() as u64 * others.len() as u64;
                inside = inside.or_else(|| others.iter().find(|&&o| o != members[0]).map(|&o| (members[0], o)));
            }
            let within = within - own;
            let across = a.nodes.len() as u64 * b.nodes.len() as u64 - own - within;
            if let (Some((a, b)), true) = (inside, within > 0) {
                sorts.push(Sort { a, b, count: within });
            }
            let apart = a.domains.iter().find_map(|(domain, members)| {
                b.domains.iter().find(|(other, _)| *other != domain).map(|(_, others)| (members[0], others[0]))
            });
            if let (Some((a, b)), true) = (apart, across > 0) {
                sorts.push(Sort { a, b, count: across });
            }
        }
    }
    sorts
}

/// Calls `each` with every ordered pair of different working GPUs of a sort, and how many pairs it stands for.
pub(crate) fn each_pair(fabric: &Fabric, sorts: &[Sort], mut each: impl FnMut(DeviceId, DeviceId, u64)) {
    let lives = |id: &&DeviceId| fabric.device(**id).alive;
    for sort in sorts {
        let (a, b) = (&fabric.nodes()[sort.a as usize], &fabric.nodes()[sort.b as usize]);
        for &from in a.gpus.iter().filter(lives) {
            for &to in b.gpus.iter().filter(lives).filter(|&&to| to != from) {
                each(from, to, sort.count);
            }
        }
    }
}

/// The route of a pair: straight, or over a relay where that is allowed and there is no other.
pub(crate) fn route(fabric: &Fabric, from: DeviceId, to: DeviceId, pxn: bool) -> Option<Route> {
    if let Ok(route) = fabric.route(&RouteRequest::auto(from, to)) {
        return Some(route);
    }
    let relay = fabric.pxn_relay(from, to).filter(|_| pxn)?;
    fabric.route(&RouteRequest::auto(from, to).via(relay.via())).ok()
}

/// Pairs of working GPUs without any route: how many, and a few of them.
pub(crate) fn cut_off(fabric: &Fabric, pxn: bool) -> (u64, Vec<(DeviceId, DeviceId)>) {
    let (mut count, mut examples) = (0, Vec::new());
    each_pair(fabric, &sorts(fabric), |from, to, pairs| {
        if route(fabric, from, to, pxn).is_none() {
            count += pairs;
            if examples.len() < 3 {
                examples.push((from, to));
            }
        }
    });
    (count, examples)
}
