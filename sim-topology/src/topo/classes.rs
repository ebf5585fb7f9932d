//! Nodes that are alike, so that one pair of them stands for all of its sort.

use std::collections::BTreeMap;

use crate::device::Node;
use crate::fabric::Fabric;

/// How two nodes stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// One node.
    Same,
    /// Two nodes of one NVLink domain.
    Domain,
    /// Nodes of two domains.
    Apart,
}

/// Ordered pairs of nodes of two classes, and one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePairs {
    pub(super) relation: Relation,
    /// Classes of the sender and the receiver.
    pub(super) classes: (u32, u32),
    /// Nodes that stand for them.
    pub(super) nodes: (usize, usize),
    pub(super) count: u64,
}

/// Two different nodes of a domain.
type Example = Option<(usize, usize)>;

/// The classes of nodes: those of one interior with the same dead parts are alike.
#[derive(Clone, Debug)]
pub(super) struct NodeClasses {
    /// Class of each node.
    pub(super) of: Vec<u32>,
    /// Nodes of each class.
    members: Vec<Vec<usize>>,
}

impl NodeClasses {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let nodes = fabric.nodes();
        let mut known: BTreeMap<(u16, Vec<u32>), u32> = BTreeMap::new();
        let mut of = Vec::with_capacity(nodes.len());
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let class = *known.entry((node.template, dead(fabric, node))).or_insert_with(|| {
                members.push(Vec::new());
                members.len() as u32 - 1
            });
            members[class as usize].push(number);
            of.push(class);
        }
        Self { of, members }
    }

    /// Nodes of a class.
    pub(super) fn members(&self, class: u32) -> &[usize] {
        &self.members[class as usize]
    }

    /// All ordered pairs of nodes, a node with itself among them, by relation and classes.
    pub(super) fn pairs(&self, fabric: &Fabric) -> Vec<NodePairs> {
        let nodes = fabric.nodes();
        let mut pairs: Vec<NodePairs> = (0..)
            .zip(&self.members)
            .map(|(class, members)| NodePairs {
                relation: Relation::Same,
                classes: (class, class),
                nodes: (members[0], members[0]),
                count: members.len() as u64,
            })
            .collect();
        // Of each domain the nodes by class; `within` counts pairs in a domain, a node with itself among them.
        let mut within: BTreeMap<(u32, u32), (u64, Example)> = BTreeMap::new();
        let mut start = 0;
        while start < nodes.len() {
            let domain = nodes[start].domain;
            let end = start + nodes[start..].iter().take_while(|n| n.domain == domain).count();
            let mut inside: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for node in start..end {
                inside.entry(self.of[node]).or_default().push(node);
            }
            for (&a, from) in &inside {
                for (&b, to) in &inside {
                    let entry = within.entry((a, b)).or_insert((0, None));
                    entry.0 += from.len() as u64 * to.len() as u64;
                    if entry.1.is_none() {
                        entry.1 = to.iter().find(|&&n| n != from[0]).map(|&n| (from[0], n));
                    }
                }
            }
            start = end;
        }
        for a in 0..self.members.len() as u32 {
            for b in 0..self.members.len() as u32 {
                let (from, to) = (self.members(a), self.members(b));
                let (near, example) = within.get(&(a, b)).copied().unwrap_or((0, None));
                let selves = if a == b { from.len() as u64 } else { 0 };
                if let Some(nodes) = example
                    && near > selves
                {
                    let count = near - selves;
                    pairs.push(NodePairs { relation: Relation::Domain, classes: (a, b), nodes, count });
                }
                let count = from.len() as u64 * to.len() as u64 - near;
                let apart = from.iter().find_map(|&x| {
                    let other = to.iter().find(|&&y| nodes[y].domain != nodes[x].domain)?;
                    Some((x, *other))
                });
                if let (Some(nodes), true) = (apart, count > 0) {
                    pairs.push(NodePairs { relation: Relation::Apart, classes: (a, b), nodes, count });
                }
            }
        }
        pairs
    }
}

/// The dead devices and links of a node and of its NICs' cables, by their numbers within it.
fn dead(fabric: &Fabric, node: &Node) -> Vec<u32> {
    let template = &fabric.templates()[usize::from(node.template)];
    let (devices, links) = (template.devices.len(), template.links.len());
    let (first_device, first_link) = (node.first_device as usize, node.first_link as usize);
    let devices = fabric.devices()[first_device..first_device + devices].iter().map(|d| d.alive);
    let links = fabric.links()[first_link..first_link + links].iter().map(|l| l.alive);
    // A NIC is cut off by its cable, too.
    let cables = node.nics.iter().flat_map(|&nic| fabric.attached(nic)).flat_map(|port| [port.up, port.down]);
    let cables = cables.map(|link| fabric.link(link).alive);
    (0..).zip(devices.chain(links).chain(cables)).filter(|&(_, alive)| !alive).map(|(i, _)| i).collect()
}
