//! The search for channels, in closed form for the regular machines that [`Facts`] describes.
//!
//! NCCL (`src/graph/search.cc`) tries, from the fastest listed speed down, how many channels of that speed its links
//! can carry, relaxes its wishes in a fixed order, and keeps the best of channels × speed. On a machine whose GPUs and
//! NICs are all alike the number of channels of a speed follows from the load that one channel puts on each link, so no
//! back-tracking is needed:
//!
//! * a ring inside a node loads every GPU's NVLink once; between nodes it loads them once if it returns to its NIC
//!   through another GPU (PXN), and (g − 1)/g times if it leaves through the NIC of its last GPU;
//! * an NVLS channel loads every GPU once each way and its head twice, so that h heads allow (h + 1) × speed ≤ total.
//!
//! With `NCCL_CROSS_NIC=2` NCCL swaps NICs between pairs of channels "if not good enough" without; here a ring that
//! keeps its NIC is good enough from 90 % of what the swap would give.

use super::facts::{CrossNic, Facts};
use super::graph::{Graph, Graphs, Pattern};
use super::path::PathType;
use super::version::Version;

/// Most channels of a search: half of the 64 that a communicator may have.
const MAX_CHANNELS: u32 = 32;
/// Most heads of NVLS in one domain.
const MAX_HEADS: u32 = 32;
/// The speed of the one channel that is used if nothing else is found.
const FALLBACK_GBPS: f64 = 0.1;
/// A lower speed is tried as long as it is more than this share of the best one's.
const LOWER_SPEED_SHARE: f64 = 0.49;
/// [`CrossNic::Auto`] keeps rings on their NIC from this share on.
const GOOD_ENOUGH: f64 = 0.9;

const INTRA_VOLTA: &[f64] = &[40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.];
const INTER_VOLTA: &[f64] =
    &[48., 30., 28., 24., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3., 2.4, 1.2, 0.24, 0.12];
const INTRA_HOPPER: &[f64] = &[60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.];
/// 11 came with 2.21.
const INTRA_HOPPER_OLD: &[f64] = &[60., 50., 40., 30., 24., 20., 15., 12., 6., 3.];
const INTER_HOPPER: &[f64] = &[48., 45., 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2, 0.24, 0.12];
const INTRA_BLACKWELL: &[f64] = &[90., 80., 70., 60., 50., 45., 40., 30., 24., 20., 19., 18.];
const INTER_BLACKWELL: &[f64] =
    &[96., 86., 80., 48., 45.1, 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2, 0.24, 0.12];

/// The speeds that are tried, GB/s, fastest first.
fn speeds(facts: &Facts, version: Version) -> &'static [f64] {
    let one_node = facts.nodes == 1;
    match facts.compute_cap {
        100.. if version.since(25) => {
            if one_node {
                INTRA_BLACKWELL
            } else {
                INTER_BLACKWELL
            }
        }
        90.. => {
            if one_node {
                if version.since(21) { INTRA_HOPPER } else { INTRA_HOPPER_OLD }
            } else {
                INTER_HOPPER
            }
        }
        _ if one_node => INTRA_VOLTA,
        _ => INTER_VOLTA,
    }
}

/// Searches the graphs of a machine by the rules of the newest version.
#[must_use]
pub fn search(facts: &Facts) -> Graphs {
    search_as(facts, Version::NEWEST)
}

/// Searches the graphs of a machine by the rules of `version`.
#[must_use]
pub fn search_as(facts: &Facts, version: Version) -> Graphs {
    let speeds = speeds(facts, version);
    let ring = ring(facts, speeds);
    let tree = tree(facts, speeds, &ring);
    let nvls = nvls(facts, speeds);
    Graphs { ring, tree, nvls, nvls_tree: nvls, pat: Some(tree), collnet: collnet(facts, speeds) }
}

/// How many times `load` fits in `capacity`, forgiving the last bit.
fn fits(capacity: f64, load: f64) -> u32 {
    if load <= 0.0 || !load.is_finite() {
        return 0;
    }
    (capacity / load * (1.0 + 1e-12)).floor().clamp(0.0, f64::from(MAX_CHANNELS)) as u32
}

/// How a ring gets back to its NIC, which decides what it loads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Return {
    /// By the NIC of its last GPU, or by a NIC that several GPUs share.
    LastGpu,
    /// Over NVLink through the NIC's GPU.
    Relay,
    /// Through the hosts.
    Host,
}

/// Whether two GPUs are near each NIC.
const fn shared(facts: &Facts) -> bool {
    facts.gpus_near_nic >= 2 || facts.nics_per_node.saturating_mul(2) <= facts.gpus_per_node
}

fn way_back(facts: &Facts, cross: bool) -> Return {
    if facts.gpus_per_node == 1 || shared(facts) || (cross && facts.nics_per_node > 1) || facts.nvlink_total_gbps <= 0.0
    {
        Return::LastGpu
    } else if facts.pxn {
        Return::Relay
    } else {
        Return::Host
    }
}

/// Channels of `speed` that rings find, with the path class between GPUs and NICs.
fn ring_channels(facts: &Facts, speed: f64, cross: bool) -> (u32, PathType) {
    let gpus = f64::from(facts.gpus_per_node);
    let nvlink = facts.nvlink_total_gbps > 0.0;
    if facts.nodes == 1 {
        let capacity = if nvlink { facts.nvlink_total_gbps } else { facts.intra_gbps };
        let channels = if speed <= facts.intra_gbps * (1.0 + 1e-12) { fits(capacity, speed) } else { 0 };
        return (channels, facts.nic_path);
    }
    let back = way_back(facts, cross);
    let by_nic = facts.nics_per_node.saturating_mul(fits(facts.nic_path_gbps(), speed));
    let by_gpu_pci = fits(gpus * facts.gpu_host_gbps, speed);
    let inside = match (facts.gpus_per_node, nvlink, back) {
        (1, ..) => MAX_CHANNELS,
        (_, false, _) => fits(facts.intra_gbps, speed),
        (_, true, Return::LastGpu) => fits(facts.nvlink_total_gbps * gpus / (gpus - 1.0), speed),
        (_, true, Return::Relay) => fits(facts.nvlink_total_gbps, speed),
        (_, true, Return::Host) => fits(facts.nvlink_total_gbps, speed).min(fits(facts.socket_gbps, speed)),
    };
    let class = match back {
        Return::LastGpu => facts.nic_path,
        Return::Relay => facts.nic_path.max(PathType::Pxn),
        Return::Host => facts.nic_path.max(PathType::Sys),
    };
    (by_nic.min(by_gpu_pci).min(inside).min(MAX_CHANNELS), class)
}

fn ring(facts: &Facts, speeds: &[f64]) -> Graph {
    let same_nic = || ring_with(facts, speeds, false);
    let swapped = || ring_with(facts, speeds, true);
    match facts.cross_nic {
        _ if facts.nodes == 1 => same_nic(),
        CrossNic::Never => same_nic(),
        CrossNic::Always => swapped(),
        CrossNic::Auto => {
            let (same, swapped) = (same_nic(), swapped());
            if same.total_inter() >= GOOD_ENOUGH * swapped.total_inter() { same } else { swapped }
        }
    }
}

fn ring_with(facts: &Facts, speeds: &[f64], cross: bool) -> Graph {
    let type_intra = if facts.gpus_per_node == 1 { PathType::Loc } else { facts.intra_path };
    let graph = |channels, speed, type_inter| Graph {
        channels,
        bw_intra: speed,
        bw_inter: speed,
        type_intra,
        type_inter,
        pattern: Pattern::Ring,
        same_channels: facts.nodes == 1 || facts.nics_per_node <= 1,
        cross_nic: cross,
    };
    let fastest = if facts.nodes == 1 { facts.intra_gbps } else { facts.nic_path_gbps() };
    let total = if facts.nvlink_total_gbps > 0.0 { facts.nvlink_total_gbps } else { facts.intra_gbps };

    // Pass 1: the best of channels × speed, fastest first.
    let mut best: Option<Graph> = None;
    for &speed in speeds.iter().filter(|&&s| s <= fastest * (1.0 + 1e-12)) {
        if best.is_some_and(|b| b.total_inter() >= total || speed / b.bw_inter <= LOWER_SPEED_SHARE) {
            break;
        }
        let (channels, class) = ring_channels(facts, speed, cross);
        let found = graph(channels, speed, class);
        if channels > 0 && best.is_none_or(|b| found.total_intra() > b.total_intra() * (1.0 + 1e-9)) {
            best = Some(found);
        }
    }
    let Some(mut best) = best else {
        return graph(1, FALLBACK_GBPS, facts.nic_path);
    };

    duplicate(facts, &mut best);

    // Pass 2: a higher speed with as many channels.
    let found = best.bw_inter;
    for &speed in speeds.iter().rev().filter(|&&s| s > found && s <= fastest) {
        if ring_channels(facts, speed, cross).0 < best.channels {
            break;
        }
        (best.bw_intra, best.bw_inter) = (speed, speed);
    }
    best
}

/// Twice the channels at half the speed, unless they are slow, or (beyond Ampere) many already.
fn duplicate(facts: &Facts, graph: &mut Graph) {
    let many = facts.compute_cap >= 90 && graph.bw_intra < 50.0 && graph.channels > 4;
    if graph.bw_intra < 25.0 || many {
        return;
    }
    let channels = (graph.channels * 2).min(MAX_CHANNELS);
    let share = f64::from(graph.channels) / f64::from(channels);
    graph.bw_intra *= share;
    graph.bw_inter *= share;
    graph.channels = channels;
}

/// The tree graph: as many channels as the ring, of the same speed; inside a node faster if the chains allow it.
fn tree(facts: &Facts, speeds: &[f64], ring: &Graph) -> Graph {
    // Hopper and later try the simpler pattern before a worse path to the NIC.
    let simple = facts.gpus_per_node == 1 || (facts.nodes > 1 && facts.compute_cap >= 90 && !shared(facts));
    let pattern = if simple { Pattern::Tree } else { Pattern::BalancedTree };
    let type_inter = match pattern {
        Pattern::BalancedTree => ring.type_inter,
        _ => facts.nic_path,
    };
    let mut graph = Graph { pattern, type_inter, cross_nic: false, ..*ring };
    if facts.nodes > 1 && facts.gpus_per_node > 1 && facts.nvlink_total_gbps > 0.0 {
        let gpus = f64::from(facts.gpus_per_node);
        let capacity = facts.nvlink_total_gbps * gpus / (gpus - 1.0);
        for &speed in speeds.iter().rev().filter(|&&s| s > ring.bw_intra) {
            if fits(capacity, speed) < graph.channels || graph.bw_intra >= 2.0 * graph.bw_inter {
                break;
            }
            graph.bw_intra = speed;
        }
    }
    graph
}

/// One channel per head: the fastest listed speed for all heads, then a faster network side.
fn nvls(facts: &Facts, speeds: &[f64]) -> Option<Graph> {
    if !facts.multicast || !facts.nvswitch || facts.compute_cap < 90 || facts.gpus_per_node < 2 {
        return None;
    }
    let several = facts.nodes > 1;
    let heads = facts.gpus_per_node.min(MAX_HEADS).min(if several { facts.nics_per_node } else { u32::MAX });
    let nic_limit = if several { facts.nic_path_gbps() } else { f64::INFINITY };
    let per_gpu = f64::from(heads + 1);
    let listed =
        speeds.iter().position(|&s| s * per_gpu <= facts.nvlink_total_gbps * (1.0 + 1e-12) && s <= nic_limit)?;
    let bw_intra = speeds[listed];
    let mut bw_inter = bw_intra;
    for &faster in speeds[..listed].iter().rev() {
        if bw_inter >= 2.0 * bw_intra || faster > nic_limit {
            break;
        }
        bw_inter = faster;
    }
    Some(Graph {
        channels: heads,
        bw_intra,
        bw_inter,
        type_intra: facts.intra_path,
        type_inter: facts.nic_path,
        pattern: Pattern::Nvls,
        same_channels: false,
        cross_nic: false,
    })
}

/// One channel per NIC, at the fastest listed speed of a NIC.
fn collnet(facts: &Facts, speeds: &[f64]) -> Option<Graph> {
    if !facts.collnet || facts.nodes < 2 {
        return None;
    }
    let speed = speeds.iter().copied().find(|&s| s <= facts.nic_path_gbps())?;
    Some(Graph {
        channels: facts.nics_per_node.min(facts.gpus_per_node).max(1),
        bw_intra: speed,
        bw_inter: speed,
        type_intra: facts.intra_path,
        type_inter: facts.nic_path,
        pattern: Pattern::CollNetDirect,
        same_channels: false,
        cross_nic: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring_of(facts: &Facts) -> (u32, f64) {
        let ring = search(facts).ring;
        (ring.channels, ring.bw_intra)
    }

    #[test]
    fn rings_inside_a_node() {
        assert_eq!(ring_of(&Facts::nvswitch(80, 8, 1)), (12, 20.0));
        assert_eq!(ring_of(&Facts::nvswitch(90, 8, 1)), (12, 30.0));
        assert_eq!(ring_of(&Facts::nvswitch(100, 8, 1)), (16, 45.0));
    }

    #[test]
    fn rings_between_hopper_nodes() {
        let mut facts = Facts::nvswitch(90, 8, 4);
        assert_eq!(ring_of(&facts), (8, 45.0));
        assert_eq!(search(&facts).ring.type_inter, PathType::Pxn);
        facts.cross_nic = CrossNic::Never;
        assert_eq!(ring_of(&facts), (8, 45.0));
        facts.cross_nic = CrossNic::Always;
        assert_eq!(ring_of(&facts), (8, 48.0));
        assert_eq!(search(&facts).ring.type_inter, PathType::Pix);
        assert_eq!(ring_of(&Facts::nvswitch(90, 1, 16)), (2, 24.0));
    }

    #[test]
    fn without_pxn_rings_swap_nics() {
        let facts = Facts { pxn: false, ..Facts::nvswitch(90, 8, 2) };
        let ring = search(&facts).ring;
        assert!(ring.cross_nic);
        assert_eq!((ring.channels, ring.bw_inter), (8, 48.0));
    }

    #[test]
    fn two_gpus_on_a_switch_need_no_relay() {
        let ring = search(&Facts::nvswitch(80, 8, 2)).ring;
        assert_eq!((ring.channels, ring.bw_inter, ring.type_inter), (8, 24.0, PathType::Pix));
        let ring = search(&Facts { gpus_near_nic: 1, ..Facts::nvswitch(80, 8, 2) }).ring;
        assert_eq!(ring.type_inter, PathType::Pxn);
    }

    #[test]
    fn four_nics_bound_the_rings_of_eight_gpus() {
        let ring = search(&Facts { nics_per_node: 4, ..Facts::nvswitch(80, 8, 3) }).ring;
        assert_eq!((ring.channels, ring.bw_inter), (4, 24.0));
        assert_eq!(ring.type_inter, PathType::Pix);
    }

    #[test]
    fn multicast_graphs() {
        let of = |cap, gpus, nodes| {
            let graph = search(&Facts::nvswitch(cap, gpus, nodes)).nvls.unwrap();
            (graph.channels, graph.bw_intra, graph.bw_inter)
        };
        assert_eq!(of(90, 8, 1), (8, 40.0, 60.0));
        assert_eq!(of(100, 8, 1), (8, 80.0, 90.0));
        assert_eq!(of(100, 72, 1), (32, 20.0, 40.0));
        assert_eq!(of(90, 8, 2), (8, 40.0, 48.0));
        assert!(search(&Facts::nvswitch(80, 8, 1)).nvls.is_none());
    }

    #[test]
    fn trees_follow_the_rings() {
        let tree = search(&Facts::nvswitch(90, 8, 16)).tree;
        assert_eq!((tree.channels, tree.bw_inter, tree.pattern), (8, 45.0, Pattern::Tree));
        let tree = search(&Facts::nvswitch(90, 8, 1)).tree;
        assert_eq!((tree.channels, tree.bw_intra, tree.pattern), (12, 30.0, Pattern::BalancedTree));
    }

    #[test]
    fn a_machine_slower_than_the_list_still_gets_a_channel() {
        let facts = Facts { nic_gbps: 0.05, ..Facts::nvswitch(90, 8, 2) };
        assert_eq!(ring_of(&facts), (1, FALLBACK_GBPS));
    }

    #[test]
    fn pcie_boxes() {
        // 24 GB/s is not a listed speed inside a node: two channels of 12 beat one of 20.
        assert_eq!(ring_of(&Facts::pcie(89, 4, 1, 24.0, 0.0)), (2, 12.0));
    }
}
