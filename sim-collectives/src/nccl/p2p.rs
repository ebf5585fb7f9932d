//! Sends and receives: the order of peers, and how a message lies on channels (`src/init.cc`, `src/enqueue.cc`).

use serde::{Deserialize, Serialize};

use super::communicator::Communicator;
use super::knobs::Knob;
use super::path::PathType;
use super::protocol::Protocol;
use super::version::Version;

const KIB: u64 = 1 << 10;
/// Local ranks that are scheduled together, and pairs that one channel works on at once.
const GROUP: u32 = 8;
/// Parts of a message begin at multiples of this.
const PART_ALIGN: u64 = 4 * KIB;

/// The peers of `rank` in the order of a grouped all-to-all, as (send to, receive from); round 0 is the rank itself.
///
/// On one node round d sends to rank + d and receives from rank − d. Over nodes, ranks form groups of 8 (or the largest
/// smaller number that divides a node); group distances follow 0, 1, 3, 6, 10 … modulo the next power of two, those
/// beyond the group count skipped, and within a pair of groups all local offsets follow each other.
///
/// A rank outside `nodes` × `gpus_per_node` has no rounds.
#[must_use]
pub fn p2p_rounds(nodes: u32, gpus_per_node: u32, rank: u32) -> Vec<(u32, u32)> {
    rounds_in_groups(nodes, gpus_per_node, rank, GROUP)
}

fn rounds_in_groups(nodes: u32, gpus_per_node: u32, rank: u32, largest: u32) -> Vec<(u32, u32)> {
    let ranks = u64::from(nodes) * u64::from(gpus_per_node);
    if u64::from(rank) >= ranks || ranks > u64::from(u32::MAX) {
        return Vec::new();
    }
    let ranks = ranks as u32;
    let size = if nodes == 1 { gpus_per_node } else { group_size(gpus_per_node, largest) };
    let groups = ranks / size;
    let (group, local) = (rank / size, rank % size);
    let mut rounds = Vec::with_capacity(ranks as usize);
    for distance in group_distances(groups) {
        let send = (group + distance) % groups;
        let receive = (group + groups - distance) % groups;
        for offset in 0..size {
            rounds.push((send * size + (local + offset) % size, receive * size + (local + size - offset) % size));
        }
    }
    rounds
}

/// The largest divisor of a node's ranks up to `largest`.
fn group_size(gpus_per_node: u32, largest: u32) -> u32 {
    (1..=largest.min(gpus_per_node).max(1)).rev().find(|size| gpus_per_node.is_multiple_of(*size)).unwrap_or(1)
}

/// Triangular numbers modulo the next power of two run through every residue; those beyond the count are skipped.
fn group_distances(groups: u32) -> impl Iterator<Item = u32> {
    let residues = groups.next_power_of_two();
    (0..residues)
        .scan(0, move |distance, round| {
            *distance = (*distance + round) & (residues - 1);
            Some(*distance)
        })
        .filter(move |distance| *distance < groups)
}

/// What lies between two ranks, for the number of channels per peer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerLink {
    /// NVLink: path rate over the rate of one link.
    NvLink {
        /// How many links the path is wide.
        links: f64,
    },
    /// PCIe or shared memory.
    Pci,
    /// NICs.
    Network {
        /// NICs of the GPU.
        nics: u32,
        /// Their rate in all, GB/s per direction; 0 if unknown.
        gbps: f64,
    },
}

impl PeerLink {
    /// Channels that one message may use; `per_channel_gbps` is what a channel is counted on for over the network, 14
    /// GB/s by default.
    fn channels(self, per_channel_gbps: f64) -> u32 {
        match self {
            Self::NvLink { links } => ((2.0 * links.max(1.0)).clamp(1.0, 64.0) as u32).next_power_of_two(),
            Self::Pci => 2,
            Self::Network { gbps, .. } if gbps <= 0.0 => 2,
            Self::Network { nics, gbps } => nics.max((gbps / per_channel_gbps).ceil().clamp(1.0, 64.0) as u32),
        }
    }
}

/// How sends and receives of a communicator use channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct P2pPlan {
    /// Channels of all sends and receives, a power of two.
    pub channels: u32,
    /// Most channels of one message.
    pub per_peer: u32,
    /// Bytes of a step: what moves at once.
    pub step: u64,
    /// Nodes of the communicator.
    pub nodes: u32,
    /// Ranks per node.
    pub gpus_per_node: u32,
    /// Bytes of a message up to which LL is used inside a node: `NCCL_P2P_LL_THRESHOLD` for each of its most channels.
    pub ll_threshold: u64,
    /// Data bytes of a step of LL.
    pub ll_step: u64,
    /// Whether a message to another node leaves through the local GPU that shares the receiver's rail: 0 never, 1 where
    /// the sender has no near NIC of its own, 2 always.
    pub pxn_level: u32,
    /// Whether GPUs have a NIC behind PCIe switches of their own.
    pub near_nic: bool,
}

impl P2pPlan {
    /// Whether messages to other nodes leave through the local GPU that shares the receiver's rail.
    #[must_use]
    pub const fn relays(&self) -> bool {
        self.pxn_level >= 2 || (self.pxn_level == 1 && !self.near_nic)
    }

    /// Channels that a message of `bytes` is cut over: one channel per operation as long as all peers together fill
    /// them, more if a part would exceed 32 steps on one node, one step over several.
    #[must_use]
    pub fn parts(&self, bytes: u64) -> u32 {
        if bytes == 0 {
            return 1;
        }
        // LL's step is counted with its flags.
        let step = if self.uses_ll(bytes, self.nodes == 1) { 2 * self.ll_step } else { self.step };
        let (least, most) = if self.nodes == 1 { (step / 8, step * 32) } else { (step / 2, step) };
        let least = least.max(1);
        let ranks = u64::from(self.nodes) * u64::from(self.gpus_per_node);
        let mut few = self.per_peer;
        while few > 1 && u64::from(few) * ranks > u64::from(self.channels) {
            few /= 2;
        }
        let mut parts = u64::from(few).min(bytes.div_ceil(least)).max(1) as u32;
        let mut part = least.max(bytes.div_ceil(u64::from(parts)));
        while part > most && parts <= self.per_peer / 2 {
            parts *= 2;
            part = bytes.div_ceil(u64::from(parts));
        }
        parts
    }

    /// The first byte and the number of bytes of every part of a message, aligned to 4 KiB; the last ones can be empty.
    #[must_use]
    pub fn part_ranges(&self, bytes: u64) -> Vec<(u64, u64)> {
        let parts = u64::from(self.parts(bytes));
        let part = bytes.div_ceil(parts).div_ceil(PART_ALIGN).saturating_mul(PART_ALIGN);
        (0..parts)
            .map(|i| {
                let start = i.saturating_mul(part).min(bytes);
                (start, part.min(bytes - start))
            })
            .collect()
    }

    /// The first channel of a message in round `round` of [`p2p_rounds`]: the bit-reversed round on one node, the
    /// bit-reversed number of its group of 8 peers over several.
    #[must_use]
    pub const fn first_channel(&self, round: u32) -> u32 {
        let base = if self.nodes > 1 {
            let (distance, offset) = (round / self.gpus_per_node, round % self.gpus_per_node);
            distance * self.gpus_per_node.div_ceil(GROUP) + offset / GROUP
        } else {
            round
        };
        let bits = self.channels.ilog2();
        if bits == 0 { 0 } else { (base & (self.channels - 1)).reverse_bits() >> (u32::BITS - bits) }
    }

    /// The channel of part `part` in round `round`: parts follow the first channel.
    #[must_use]
    pub const fn channel(&self, round: u32, part: u32) -> u32 {
        self.first_channel(round).wrapping_add(part) & (self.channels - 1)
    }

    /// Bytes of the pieces that a message of `bytes`, on all its channels, travels in: the step inside a node; over the network a
    /// quarter of it below one step and half below eight.
    #[must_use]
    pub const fn network_step(&self, bytes: u64) -> u64 {
        if bytes < self.step {
            self.step / 4
        } else if bytes < 8 * self.step {
            self.step / 2
        } else {
            self.step
        }
    }

    /// Whether a message of `bytes` is sent with LL; over the network it never is by default.
    #[must_use]
    pub const fn uses_ll(&self, bytes: u64, same_node: bool) -> bool {
        same_node && bytes <= self.ll_threshold
    }

    /// Rounds that a channel works on at once; the next batch starts when all are done.
    pub const BATCH: u32 = GROUP;
}

impl Communicator {
    /// How this communicator's sends and receives use channels.
    #[must_use]
    pub fn p2p(&self) -> P2pPlan {
        let facts = self.facts();
        let knob = |knob| self.knobs().number(knob).and_then(|n| u32::try_from(n).ok());
        let limit = self.version().max_channels();
        let most = knob(Knob::MaxP2pNchannels).unwrap_or(limit).clamp(1, limit);
        let least = knob(Knob::MinP2pNchannels).unwrap_or(1).clamp(1, most);
        let channels = self.channels().clamp(least, most).next_power_of_two().min(limit);

        let mut links: Vec<PeerLink> = Vec::new();
        if facts.gpus_per_node > 1 {
            let nvlink = facts.nvlink_link_gbps > 0.0 && facts.nvlink_total_gbps > 0.0;
            let wide = || PeerLink::NvLink { links: facts.intra_gbps / facts.nvlink_link_gbps };
            links.push(if nvlink { wide() } else { PeerLink::Pci });
        }
        if facts.nodes > 1 {
            let nics = (facts.nics_per_node / facts.gpus_per_node.max(1)).max(1);
            links.push(PeerLink::Network { nics, gbps: f64::from(nics) * facts.nic_gbps });
        }
        // Before 2.30 two channels a NIC, fewer where many ranks would crowd the channels; since then by the NIC's rate.
        let ranks = u64::from(self.ranks());
        let by_count = |nics: u32| {
            let mut few = 2u32;
            while few > 1 && u64::from(few) * ranks > 4 * u64::from(channels) {
                few /= 2;
            }
            few.max(nics)
        };
        let per_channel = knob(Knob::P2pPerChannelNetBw).map_or(14.0, |bw| f64::from(bw.max(1)));
        let network = knob(Knob::NchannelsPerNetPeer);
        let of = |link: PeerLink| match link {
            PeerLink::Network { nics, .. } => network.unwrap_or_else(|| match self.version() < Version::v2(30) {
                true => by_count(nics),
                false => link.channels(per_channel),
            }),
            _ => link.channels(per_channel),
        };
        let mut per_peer = links.into_iter().map(of).min().unwrap_or(1).clamp(1, channels);
        if facts.nodes > 1 {
            while per_peer > 1 && per_peer * self.ranks().div_ceil(GROUP) > channels {
                per_peer /= 2;
            }
        }
        let ll = self.knobs().number(Knob::P2pLlThreshold).and_then(|n| u64::try_from(n).ok());
        P2pPlan {
            channels,
            per_peer,
            ll_threshold: ll.unwrap_or(16 * KIB).saturating_mul(u64::from(per_peer)),
            ll_step: self.buffers().step_data(Protocol::Ll),
            step: self.p2p_step(),
            nodes: facts.nodes,
            gpus_per_node: facts.gpus_per_node,
            pxn_level: if facts.pxn && facts.nodes > 1 { knob(Knob::P2pPxnLevel).unwrap_or(2) } else { 0 },
            near_nic: facts.nic_path <= PathType::P2c,
        }
    }

    /// 512 KiB if all ranks share NVLink, 128 KiB else (256 KiB over the network on Arm hosts with Blackwell).
    fn p2p_step(&self) -> u64 {
        let facts = self.facts();
        let (knob, default) = if facts.nodes > 1 {
            let grace = facts.compute_cap >= 100 && facts.cpu == super::facts::HostCpu::Arm;
            (Knob::P2pNetChunksize, if grace { 256 * KIB } else { 128 * KIB })
        } else if facts.nvlink_total_gbps > 0.0 {
            (Knob::P2pNvlChunksize, 512 * KIB)
        } else {
            (Knob::P2pPciChunksize, 128 * KIB)
        };
        self.knobs().number(knob).and_then(|n| u64::try_from(n).ok()).unwrap_or(default).max(PART_ALIGN)
    }

    /// [`p2p_rounds`] of this communicator's shape, with `NCCL_P2P_SCHEDULE_GROUP_SIZE`.
    #[must_use]
    pub fn p2p_rounds(&self, rank: u32) -> Vec<(u32, u32)> {
        let size = self.knobs().number(Knob::P2pScheduleGroupSize).and_then(|n| u32::try_from(n).ok());
        let facts = self.facts();
        rounds_in_groups(facts.nodes, facts.gpus_per_node, rank, size.unwrap_or(GROUP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::{Facts, Knobs, Version};

    fn plan(facts: Facts) -> P2pPlan {
        Communicator::new(facts, Version::NEWEST, Knobs::default()).unwrap().p2p()
    }

    #[test]
    fn eight_hoppers() {
        let plan = plan(Facts::nvswitch(90, 8, 1));
        assert_eq!((plan.channels, plan.per_peer, plan.step), (32, 32, 512 * KIB));
        assert_eq!(plan.parts(0), 1);
        // LL to 512 KiB: parts of 8 KiB at least.
        assert_eq!([8, 16, 32, 64, 512].map(|kib| plan.parts(kib * KIB)), [1, 2, 4, 4, 4]);
        assert!(plan.uses_ll(512 * KIB, true) && !plan.uses_ll(513 * KIB, true));
        assert_eq!(plan.parts(1 << 20), 4);
        assert_eq!(plan.parts(64 << 20), 4);
        assert_eq!(plan.parts(128 << 20), 8);
        let ranges = plan.part_ranges(1 << 20);
        assert_eq!(ranges.len(), 4);
        assert_eq!(ranges.iter().map(|r| r.1).sum::<u64>(), 1 << 20);
    }

    #[test]
    fn over_the_network_messages_use_few_channels() {
        let plan = plan(Facts::nvswitch(90, 8, 4));
        assert_eq!((plan.channels, plan.per_peer, plan.step), (16, 4, 128 * KIB));
        assert_eq!(plan.parts(16 << 20), 4);
        assert!(!plan.uses_ll(1024, false));
        assert!(plan.uses_ll(1024, true));
        assert_eq!(plan.network_step(100 * KIB), 32 * KIB);
    }

    #[test]
    fn level_one_relays_only_from_gpus_without_a_near_nic() {
        let relays = |near: PathType, level: &str| {
            let mut knobs = Knobs::default();
            knobs.set("NCCL_P2P_PXN_LEVEL", level).unwrap();
            let facts = Facts { nic_path: near, ..Facts::nvswitch(90, 8, 2) };
            Communicator::new(facts, Version::NEWEST, knobs).unwrap().p2p().relays()
        };
        assert_eq!([0, 1, 2].map(|level| relays(PathType::Pix, &level.to_string())), [false, false, true]);
        assert_eq!([0, 1, 2].map(|level| relays(PathType::Sys, &level.to_string())), [false, true, true]);
    }

    #[test]
    fn parts_of_a_round_use_different_channels() {
        let plan = plan(Facts::nvswitch(90, 8, 1));
        let mut used: Vec<u32> = (0..8).flat_map(|round| (0..4).map(move |part| plan.channel(round, part))).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 32);
    }

    #[test]
    fn groups_divide_a_node() {
        assert_eq!(group_size(8, 8), 8);
        assert_eq!(group_size(12, 8), 6);
        assert_eq!(group_size(7, 8), 7);
        assert_eq!(group_size(4, 8), 4);
        assert_eq!(group_size(11, 8), 1);
    }

    #[test]
    fn a_rank_that_does_not_exist_has_no_rounds() {
        assert!(p2p_rounds(2, 8, 16).is_empty());
        assert!(p2p_rounds(0, 8, 0).is_empty());
    }
}
