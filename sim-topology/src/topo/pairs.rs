//! The partition of ordered GPU pairs by the kind of their path.

use serde::Serialize;

use super::classes::NodeClasses;
use crate::device::DeviceId;
use crate::fabric::Fabric;
use crate::faults::census::{each_pair, sorts};
use crate::route::PairKind;

/// Ordered pairs of different GPUs by kind; every pair is in exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pairs {
    /// Joined by NVLink.
    pub nvlink: u64,
    /// In one node, over PCIe.
    pub pcie: u64,
    /// Over the network on one rail.
    pub same_rail: u64,
    /// Over the network on the receiver's rail, through a relay GPU.
    pub pxn: u64,
    /// Over the network from rail to rail.
    pub cross_rail: u64,
}

impl Pairs {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.nvlink + self.pcie + self.same_rail + self.pxn + self.cross_rail
    }

    pub(crate) fn add(&mut self, kind: PairKind, count: u64) {
        *match kind {
            PairKind::NvLink => &mut self.nvlink,
            PairKind::Pcie => &mut self.pcie,
            PairKind::SameRail => &mut self.same_rail,
            PairKind::Pxn => &mut self.pxn,
            PairKind::CrossRail => &mut self.cross_rail,
        } += count;
    }
}

/// The kind of one ordered pair of GPUs.
#[must_use]
pub fn pair_kind(fabric: &Fabric, from: DeviceId, to: DeviceId, pxn: bool) -> PairKind {
    if fabric.nvlinks(from, to) > 0 {
        return PairKind::NvLink;
    }
    if fabric.device(from).node == fabric.device(to).node {
        return PairKind::Pcie;
    }
    match fabric.auto_nics(from, to) {
        Some((src, dst)) if fabric.rail_of(src) == fabric.rail_of(dst) => PairKind::SameRail,
        _ if pxn && fabric.pxn_relay(from, to).is_some() => PairKind::Pxn,
        _ => PairKind::CrossRail,
    }
}

/// Counts all ordered pairs of GPUs by kind.
///
/// Nodes of a class are alike, so that it is enough to look at one pair of nodes of each sort: the same node, two nodes of
/// one NVLink domain, nodes of two domains.
#[must_use]
pub fn pairs(fabric: &Fabric, pxn: bool) -> Pairs {
    if !fabric.faults().is_empty() {
        // Nodes are not alike any more. Pairs of dead GPUs are none.
        let mut pairs = Pairs::default();
        each_pair(fabric, &sorts(fabric), |from, to, count| pairs.add(pair_kind(fabric, from, to, pxn), count));
        return pairs;
    }
    let nodes = fabric.nodes();
    let mut pairs = Pairs::default();
    for sort in NodeClasses::new(fabric).pairs(fabric) {
        let (a, b) = sort.nodes;
        for &from in &nodes[a].gpus {
            for &to in nodes[b].gpus.iter().filter(|&&to| to != from) {
                pairs.add(pair_kind(fabric, from, to, pxn), sort.count);
            }
        }
    }
    pairs
}
