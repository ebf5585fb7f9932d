//! How many links lie between GPUs.

use std::collections::BTreeMap;

use crate::device::Node;
use crate::fabric::Fabric;
use crate::route::{Route, RouteRequest};

/// Ordered pairs of different GPUs by the number of links of their route (NVLink where there is one; no relays).
///
/// Nodes on the same leaves are alike, so that one pair of nodes stands for all of its sort.
#[must_use]
pub fn hop_histogram(fabric: &Fabric) -> BTreeMap<u32, u64> {
    let nodes = fabric.nodes();
    let block_of = |node: usize| node / (fabric.plan().nodes_per_leaf.max(1) as usize);
    let blocks = block_of(nodes.len() - 1) + 1;
    // Pairs of nodes of different domains, by block; what is in one domain is taken out below.
    let size = |block: usize| (0..nodes.len()).filter(|&n| block_of(n) == block).count() as u64;
    let sizes: Vec<u64> = (0..blocks).map(size).collect();
    let mut count: Vec<u64> = (0..blocks * blocks).map(|i| sizes[i / blocks] * sizes[i % blocks]).collect();
    let mut histogram = BTreeMap::new();
    let per_domain = fabric.nodes_per_domain() as usize;
    for a in 0..nodes.len() {
        let first = a / per_domain * per_domain;
        for b in first..(first + per_domain).min(nodes.len()) {
            count[block_of(a) * blocks + block_of(b)] -= 1;
        }
    }
    let n = nodes.len() as u64;
    let (full, rest) = (n / per_domain as u64, n % per_domain as u64);
    let pairs_within = full * (per_domain as u64) * (per_domain as u64 - 1) + rest * rest.saturating_sub(1);
    add(fabric, &nodes[0], &nodes[0], n, &mut histogram);
    if let (Some(other), true) = (nodes.get(1), pairs_within > 0) {
        add(fabric, &nodes[0], other, pairs_within, &mut histogram);
    }
    for from in 0..blocks {
        for to in 0..blocks {
            let count = count[from * blocks + to];
            let members = |block| (0..nodes.len()).filter(move |&n| block_of(n) == block);
            let apart =
                members(from).find_map(|a| members(to).find(|&b| nodes[a].domain != nodes[b].domain).map(|b| (a, b)));
            if let (Some((a, b)), true) = (apart, count > 0) {
                add(fabric, &nodes[a], &nodes[b], count, &mut histogram);
            }
        }
    }
    histogram
}

fn add(fabric: &Fabric, a: &Node, b: &Node, count: u64, histogram: &mut BTreeMap<u32, u64>) {
    for &from in &a.gpus {
        for &to in b.gpus.iter().filter(|&&to| to != from) {
            if let Ok(Route { links, .. }) = fabric.route(&RouteRequest::auto(from, to)) {
                *histogram.entry(links.len() as u32).or_insert(0) += count;
            }
        }
    }
}
