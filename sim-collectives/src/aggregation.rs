//! Reduction in the switches between nodes: the tree that the data of several nodes go up, and the sums come down.
//!
//! Every member's data go to the leaf that its NIC is on; a leaf that has several members' reduces them and sends one
//! stream up; the root does so with the leaves', and copies go down the same tree. A link of the tree carries S in each
//! direction, however many members are behind it (Graham et al.: Scalable Hierarchical Aggregation Protocol, COMHPC
//! 2016). The root is the switch from which the leaves are nearest; calls on different channels take different ones
//! among equals. Where one member sends to all (all-gather), or all to one (reduce-scatter), only the links on their ways carry anything.

use std::collections::{BTreeMap, VecDeque};

use sim_core::ids::LinkId;
use sim_topology::{DeviceId, Fabric};

/// Two switches are joined by the links between them, one in each direction; channels share parallel ones out.
type Step = (DeviceId, LinkId, LinkId);

/// A tree of switches over some leaves.
#[derive(Debug)]
pub(crate) struct SwitchTree {
    /// The switches at which something is reduced or copied, the root first.
    pub(crate) switches: Vec<DeviceId>,
    /// Of each but the root: which is above, and the links up to it and down from it.
    pub(crate) above: Vec<Option<(usize, LinkId, LinkId)>>,
}

/// The way of a member of a collective to its leaf, and from it.
#[derive(Debug)]
pub(crate) struct NetworkWay {
    pub(crate) up: Vec<LinkId>,
    pub(crate) down: Vec<LinkId>,
    pub(crate) leaf: DeviceId,
}

/// Ranks of different nodes, and the tree that joins them on a channel.
#[derive(Debug)]
pub(crate) struct InNetwork {
    pub(crate) members: Vec<u32>,
    pub(crate) channel: u32,
    pub(crate) ways: Vec<NetworkWay>,
    pub(crate) tree: SwitchTree,
}

/// Where streams meet in a tree: once a switch on the way up, and once on the way down; at the root these are one.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    /// By switch, where what comes from below meets.
    pub(crate) up: Vec<usize>,
    /// By switch, where what comes from above is copied.
    pub(crate) down: Vec<usize>,
    /// By meeting, the links to others.
    pub(crate) onward: Vec<Vec<(LinkId, usize)>>,
}

impl SwitchTree {
    /// The meetings of a stream from below the switches at the places `from` to below those at `to`. Up to the root goes what
    /// somebody sends, and down from it what somebody receives.
    pub(crate) fn meetings(&self, from: impl Iterator<Item = usize>, to: impl Iterator<Item = usize>) -> Meetings {
        let count = self.switches.len();
        let (mut sends, mut receives) = (vec![false; count], vec![false; count]);
        from.for_each(|switch| sends[switch] = true);
        to.for_each(|switch| receives[switch] = true);
        // A switch stands behind the one above it.
        for (switch, above) in self.above.iter().enumerate().rev() {
            if let Some((above, ..)) = above {
                sends[*above] |= sends[switch];
                receives[*above] |= receives[switch];
            }
        }
        let mut meetings = Meetings { up: vec![0; count], down: vec![0; count], onward: vec![Vec::new()] };
        for (switch, above) in self.above.iter().enumerate() {
            let Some((above, up, down)) = above else { continue };
            if sends[switch] {
                meetings.up[switch] = meetings.onward.len();
                meetings.onward.push(vec![(*up, meetings.up[*above])]);
            }
            if receives[switch] {
                meetings.down[switch] = meetings.onward.len();
                meetings.onward.push(Vec::new());
                let at = meetings.down[*above];
                meetings.onward[at].push((*down, meetings.down[switch]));
            }
        }
        meetings
    }

    /// The tree over `leaves` (each once) for `channel`; `None` if they are not joined by switches.
    pub(crate) fn over(fabric: &Fabric, leaves: &[DeviceId], channel: u32) -> Option<Self> {
        let [first, rest @ ..] = leaves else { return None };
        if rest.is_empty() {
            return Some(Self { switches: vec![*first], above: vec![None] });
        }
        let next = neighbours(fabric, channel);
        let distances: Vec<BTreeMap<DeviceId, u32>> = leaves.iter().map(|leaf| distances(&next, *leaf)).collect();
        let farthest = |switch: &DeviceId| {
            distances.iter().map(|d| d.get(switch).copied()).max_by_key(|d| d.unwrap_or(u32::MAX)).flatten()
        };
        let reached: Vec<(u32, DeviceId)> = distances[0]
            .keys()
            .filter(|switch| distances.iter().all(|d| d.contains_key(switch)))
            .filter_map(|switch| Some((farthest(switch)?, *switch)))
            .collect();
        let least = reached.iter().map(|(d, _)| *d).min()?;
        let roots: Vec<DeviceId> = reached.iter().filter(|(d, _)| *d == least).map(|(_, s)| *s).collect();
        let root = roots[channel as usize % roots.len()];
        Some(Self::from_root(&next, root, leaves))
    }

    /// The paths of least length from the root to every leaf, as one tree.
    fn from_root(next: &BTreeMap<DeviceId, Vec<Step>>, root: DeviceId, leaves: &[DeviceId]) -> Self {
        let mut parent: BTreeMap<DeviceId, (DeviceId, LinkId, LinkId)> = BTreeMap::new();
        let mut queue = VecDeque::from([root]);
        while let Some(switch) = queue.pop_front() {
            for (other, down, up) in next.get(&switch).into_iter().flatten() {
                if *other != root && !parent.contains_key(other) {
                    parent.insert(*other, (switch, *up, *down));
                    queue.push_back(*other);
                }
            }
        }
        let mut tree = Self { switches: vec![root], above: vec![None] };
        for leaf in leaves {
            // From the leaf up to a switch that is in the tree already.
            let mut path = Vec::new();
            let mut at = *leaf;
            while !tree.switches.contains(&at) {
                let Some((above, up, down)) = parent.get(&at) else { break };
                path.push((at, *up, *down));
                at = *above;
            }
            for (switch, up, down) in path.into_iter().rev() {
                let above = tree.switches.iter().position(|s| *s == at).unwrap_or(0);
                tree.switches.push(switch);
                tree.above.push(Some((above, up, down)));
                at = switch;
            }
        }
        tree
    }

    /// The place of a switch in the tree.
    pub(crate) fn place(&self, switch: DeviceId) -> usize {
        self.switches.iter().position(|s| *s == switch).unwrap_or(0)
    }
}

/// Every network switch's neighbours, in order of their numbers.
fn neighbours(fabric: &Fabric, channel: u32) -> BTreeMap<DeviceId, Vec<Step>> {
    let switch = |id: DeviceId| fabric.device(id).kind.is_network_switch();
    let mut between: BTreeMap<(DeviceId, DeviceId), Vec<LinkId>> = BTreeMap::new();
    for (i, link) in fabric.links().iter().enumerate() {
        if link.alive && switch(link.from) && switch(link.to) {
            between.entry((link.from, link.to)).or_default().push(LinkId(i as u32));
        }
    }
    let mut next: BTreeMap<DeviceId, Vec<Step>> = BTreeMap::new();
    for ((from, to), forth) in &between {
        if let Some(back) = between.get(&(*to, *from)) {
            let pick = |list: &[LinkId]| list[channel as usize % list.len()];
            next.entry(*from).or_default().push((*to, pick(forth), pick(back)));
        }
    }
    next
}

/// Hops from one switch to every other.
fn distances(next: &BTreeMap<DeviceId, Vec<Step>>, from: DeviceId) -> BTreeMap<DeviceId, u32> {
    let mut out = BTreeMap::from([(from, 0)]);
    let mut queue = VecDeque::from([from]);
    while let Some(switch) = queue.pop_front() {
        let hops = out[&switch] + 1;
        for (other, ..) in next.get(&switch).into_iter().flatten() {
            if !out.contains_key(other) {
                out.insert(*other, hops);
                queue.push_back(*other);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use sim_topology::{Catalogue, FabricSpec};

    use super::*;

    fn cluster(nodes: u32) -> Fabric {
        let node = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
        Fabric::build(&FabricSpec::new(node, nodes), Catalogue::builtin()).unwrap()
    }

    /// The leaves of the first GPUs of all nodes, each once.
    fn leaves(fabric: &Fabric) -> Vec<DeviceId> {
        let first = |n: &sim_topology::Node| fabric.leaf_of(fabric.nics_of(n.gpus[0])[0]);
        let mut list: Vec<DeviceId> = fabric.nodes().iter().filter_map(first).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    #[test]
    fn one_leaf_is_its_own_tree() {
        let fabric = cluster(4);
        let tree = SwitchTree::over(&fabric, &leaves(&fabric), 0).unwrap();
        assert_eq!((tree.switches.len(), tree.above[0].is_none()), (1, true));
    }

    #[test]
    fn streams_meet_only_where_somebody_sends_or_receives() {
        let link = |n| (LinkId(n), LinkId(100 + n));
        let above = |at, n| Some((at, link(n).0, link(n).1));
        // A root, two switches below it, and two leaves below the first of these.
        let switches = (0..5).map(DeviceId).collect();
        let tree = SwitchTree { switches, above: vec![None, above(0, 1), above(0, 2), above(1, 3), above(1, 4)] };
        let all = tree.meetings([2, 3, 4].into_iter(), [2, 3, 4].into_iter());
        assert_eq!(all.onward.len(), 9);
        // From one leaf to all: up by its own links only.
        let one = tree.meetings([3].into_iter(), [2, 3, 4].into_iter());
        assert_eq!(one.onward[one.up[3]], [(LinkId(3), one.up[1])]);
        assert_eq!(one.onward[one.up[1]], [(LinkId(1), 0)]);
        assert_eq!(one.onward[0], [(LinkId(101), one.down[1]), (LinkId(102), one.down[2])]);
        assert_eq!(one.onward.len(), 7);
        // From all to one: the others get nothing.
        let to_one = tree.meetings([2, 3, 4].into_iter(), [2].into_iter());
        assert_eq!(to_one.onward[0], [(LinkId(102), to_one.down[2])]);
        assert_eq!(to_one.onward.len(), 6);
    }

    #[test]
    fn several_leaves_meet_at_a_spine_and_channels_at_different_ones() {
        let fabric = cluster(80);
        let leaves = leaves(&fabric);
        assert!(leaves.len() > 1, "{leaves:?}");
        let roots: std::collections::BTreeSet<DeviceId> = (0..4)
            .map(|channel| {
                let tree = SwitchTree::over(&fabric, &leaves, channel).unwrap();
                assert_eq!(tree.switches.len(), leaves.len() + 1);
                for (switch, above) in tree.switches.iter().zip(&tree.above).skip(1) {
                    let (root, up, down) = above.unwrap();
                    let (up, down) = (fabric.link(up), fabric.link(down));
                    assert_eq!((up.from, up.to, down.from, down.to), {
                        let root = tree.switches[root];
                        (*switch, root, root, *switch)
                    });
                }
                tree.switches[0]
            })
            .collect();
        assert_eq!(roots.len(), 4);
        assert!(SwitchTree::over(&fabric, &[], 0).is_none());
    }
}
