//! How many links lie between GPUs.

use std::collections::{BTreeMap, HashMap};

use super::classes::{NodeClasses, Relation};
use crate::device::DeviceId;
use crate::fabric::Fabric;
use crate::faults::census::{each_pair, sorts};
use crate::route::RouteRequest;

/// Ordered pairs of different GPUs by the number of links of their route (NVLink where there is one; no relays).
///
/// Pairs without a path are left out: those from rail to rail of a rail-only fabric, and what faults cut off. The work
/// grows with the nodes and with the square of the leaves that differ in what they are cabled to, not with the pairs.
#[must_use]
pub fn hop_histogram(fabric: &Fabric) -> BTreeMap<u32, u64> {
    if !fabric.faults().is_empty() {
        let mut histogram = BTreeMap::new();
        each_pair(fabric, &sorts(fabric), |from, to, count| {
            if let Ok(route) = fabric.route(&RouteRequest::auto(from, to)) {
                *histogram.entry(route.links.len() as u32).or_insert(0) += count;
            }
        });
        return histogram;
    }
    let classes = NodeClasses::new(fabric);
    let mut histogram = BTreeMap::new();
    let mut places = None;
    for pairs in classes.pairs(fabric) {
        let (a, b) = pairs.nodes;
        let (a, b) = (&fabric.nodes()[a], &fabric.nodes()[b]);
        let mut ways: BTreeMap<(u32, u32), BTreeMap<u32, u64>> = BTreeMap::new();
        for &from in &a.gpus {
            for &to in b.gpus.iter().filter(|&&to| to != from) {
                if pairs.relation != Relation::Apart {
                    if let Ok(route) = fabric.route(&RouteRequest::auto(from, to)) {
                        *histogram.entry(route.links.len() as u32).or_insert(0) += pairs.count;
                    }
                } else if let Some((src, dst)) = fabric.auto_nics(from, to)
                    && fabric.is_cabled(src, dst)
                    && let Some(inside) = links_inside(fabric, [from, src, dst, to])
                {
                    let nics = (fabric.rail_of(src), fabric.rail_of(dst));
                    *ways.entry(nics).or_default().entry(inside).or_insert(0) += 1;
                }
            }
        }
        for (nics, inside) in ways {
            let places = places.get_or_insert_with(|| Places::new(fabric));
            let apart = places.distances(fabric, &classes, pairs.classes, nics);
            for (&hops, &combinations) in &inside {
                for (&links, &count) in &apart {
                    *histogram.entry(hops + 2 + links).or_insert(0) += combinations * count;
                }
            }
        }
    }
    histogram
}

/// The links of a route inside the two nodes: from a GPU to its NIC, from a NIC to its GPU.
fn links_inside(fabric: &Fabric, stations: [DeviceId; 4]) -> Option<u32> {
    let [from, src, dst, to] = stations;
    if let (Ok(route), Some(links)) =
        (fabric.route(&RouteRequest::auto(from, to)), fabric.switch_links_between(src, dst))
    {
        return (route.links.len() as u32).checked_sub(links + 2);
    }
    // This pair has no path; others of its sort may.
    let count =
        |a, b| if a == b { Some(0) } else { Some(fabric.route(&RouteRequest::auto(a, b)).ok()?.links.len() as u32) };
    Some(count(from, src)? + count(dst, to)?)
}

/// Where NICs are cabled to: the leaves of their ports. Leaves that see the same live switches are as far from all others.
struct Places {
    /// Place of each NIC: `[node * NICs + NIC]`.
    of: Vec<u32>,
    rails: u32,
    /// Class of each place.
    class: Vec<u32>,
    /// A NIC of the first place of each class, and one of another place of it.
    examples: Vec<(DeviceId, Option<DeviceId>)>,
    /// Links between different places of two classes: `[class * classes + class]`.
    known: Vec<u8>,
}

/// Not worked out yet.
const UNKNOWN: u8 = u8::MAX;
/// No path.
const NONE: u8 = u8::MAX - 1;

impl Places {
    fn new(fabric: &Fabric) -> Self {
        let leaf_class = leaf_classes(fabric);
        let mut places: HashMap<Vec<DeviceId>, u32> = HashMap::new();
        let mut classes: HashMap<Vec<u32>, u32> = HashMap::new();
        let (mut of, mut class, mut examples) = (Vec::new(), Vec::new(), Vec::new());
        for &nic in fabric.nodes().iter().flat_map(|n| &n.nics) {
            let leaves: Vec<DeviceId> = fabric.leaves_of(nic).collect();
            let kinds: Vec<u32> = leaves.iter().map(|l| leaf_class.get(l).copied().unwrap_or(0)).collect();
            let place = *places.entry(leaves).or_insert_with(|| {
                let number = classes.len() as u32;
                let kind = *classes.entry(kinds).or_insert(number);
                if kind as usize == examples.len() {
                    examples.push((nic, None));
                } else {
                    let example: &mut (DeviceId, Option<DeviceId>) = &mut examples[kind as usize];
                    example.1.get_or_insert(nic);
                }
                class.push(kind);
                class.len() as u32 - 1
            });
            of.push(place);
        }
        let rails = fabric.nodes().first().map_or(0, |n| n.nics.len() as u32);
        let known = vec![UNKNOWN; examples.len() * examples.len()];
        Self { of, rails, class, examples, known }
    }

    fn place(&self, node: usize, nic: u32) -> usize {
        self.of[node * self.rails as usize + nic as usize] as usize
    }

    /// Links between different places of two classes, `NONE` where there is no path.
    fn between(&mut self, fabric: &Fabric, a: u32, b: u32) -> u8 {
        let at = a as usize * self.examples.len() + b as usize;
        if self.known[at] == UNKNOWN {
            let from = self.examples[a as usize].0;
            let to = if a == b { self.examples[b as usize].1 } else { Some(self.examples[b as usize].0) };
            let links = to.and_then(|to| fabric.switch_links_between(from, to));
            self.known[at] = links.and_then(|n| u8::try_from(n).ok()).unwrap_or(NONE).min(NONE);
        }
        self.known[at]
    }

    /// Ordered pairs of nodes of two classes and domains by the links between the leaves of NIC `nics.0` and `nics.1`.
    fn distances(
        &mut self,
        fabric: &Fabric,
        classes: &NodeClasses,
        (a, b): (u32, u32),
        nics: (u32, u32),
    ) -> BTreeMap<u32, u64> {
        let count = |members: &[usize], nic: u32| {
            let mut at: BTreeMap<usize, u64> = BTreeMap::new();
            for &node in members {
                *at.entry(self.place(node, nic)).or_insert(0) += 1;
            }
            at
        };
        let (from, to) = (count(classes.members(a), nics.0), count(classes.members(b), nics.1));
        let by_class = |at: &BTreeMap<usize, u64>| {
            let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
            for (&place, n) in at {
                *sums.entry(self.class[place]).or_insert(0) += n;
            }
            sums
        };
        let (from_class, to_class) = (by_class(&from), by_class(&to));
        // Pairs on one place, which are no link apart, and pairs in one domain, which are not asked for.
        let mut near: BTreeMap<u32, i64> = BTreeMap::new();
        let mut zero = 0i64;
        for (place, n) in &from {
            let same = (n * to.get(place).unwrap_or(&0)) as i64;
            zero += same;
            *near.entry(self.class[*place]).or_insert(0) += same;
        }
        let mut inside: BTreeMap<(u32, u32), i64> = BTreeMap::new();
        let nodes = fabric.nodes();
        for &x in classes.members(a) {
            let domain = nodes[x].domain;
            let first = nodes[..x].iter().rev().take_while(|n| n.domain == domain).count();
            let mates = nodes[x..].iter().take_while(|n| n.domain == domain).count();
            for y in (x - first..x + mates).filter(|&y| classes.of[y] == b) {
                let (s, d) = (self.place(x, nics.0), self.place(y, nics.1));
                if s == d {
                    zero -= 1;
                } else {
                    *inside.entry((self.class[s], self.class[d])).or_insert(0) += 1;
                }
            }
        }
        let mut counts = [0i64; 256];
        counts[0] = zero;
        for (&s, &n) in &from_class {
            for (&d, &m) in &to_class {
                counts[usize::from(self.between(fabric, s, d))] += (n * m) as i64;
            }
        }
        for (&class, &count) in &near {
            counts[usize::from(self.between(fabric, class, class))] -= count;
        }
        for (&(s, d), &count) in &inside {
            counts[usize::from(self.between(fabric, s, d))] -= count;
        }
        let live = (0..u32::from(NONE)).zip(counts);
        live.filter(|&(_, count)| count > 0).map(|(links, count)| (links, count as u64)).collect()
    }
}

/// The class of each leaf: those with the same live neighbours are alike.
fn leaf_classes(fabric: &Fabric) -> HashMap<DeviceId, u32> {
    let mut neighbours: BTreeMap<DeviceId, Vec<DeviceId>> = BTreeMap::new();
    for link in fabric.links().iter().rev().take_while(|l| l.class.is_network()) {
        let leaf = |id| fabric.switch_place(id).is_some_and(|place| place.tier() == 0);
        if leaf(link.from) && fabric.switch_place(link.to).is_some() && link.alive {
            neighbours.entry(link.from).or_default().push(link.to);
        }
    }
    let mut known: BTreeMap<Vec<DeviceId>, u32> = BTreeMap::new();
    let mut classes = HashMap::new();
    for (leaf, mut seen) in neighbours {
        seen.sort_unstable();
        seen.dedup();
        let next = known.len() as u32 + 1;
        classes.insert(leaf, *known.entry(seen).or_insert(next));
    }
    classes
}
