//! Channels and chunk sizes of NVLS, which do not follow from the graph (`src/transport/nvls.cc`, `src/init.cc`).

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::graph::Graphs;
use super::knobs::{Knob, Knobs};
use super::path::PathType;
use super::version::Version;

const KIB: u64 = 1 << 10;

/// What NVLS and NVLS trees run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvlsPlan {
    /// Channels, whatever the size of the call.
    pub channels: u32,
    /// Head GPUs per node: those that reduce.
    pub heads: u32,
    /// Largest chunk of NVLS, bytes.
    pub chunk: u64,
    /// Largest chunk of an NVLS tree, bytes.
    pub tree_chunk: u64,
}

impl NvlsPlan {
    /// The plan of a communicator. Where NVLS is not possible it is not used.
    pub(super) fn new(facts: &Facts, graphs: &Graphs, version: Version, knobs: &Knobs) -> Self {
        let heads = graphs.nvls.or(graphs.nvls_tree).map_or(1, |graph| graph.channels.max(1));
        let default = Self {
            channels: 16,
            heads,
            chunk: 128 * KIB,
            // A smaller chunk for trees over many nodes came with 2.21.
            tree_chunk: if facts.nodes >= 4 && version.since(21) { 64 * KIB } else { 128 * KIB },
        };
        let plan = if facts.compute_cap >= 100 { blackwell(default, facts) } else { default };
        let size = |knob, default| knobs.number(knob).and_then(|n| u64::try_from(n).ok()).unwrap_or(default);
        let channels = size(Knob::NvlsNchannels, u64::from(plan.channels)).clamp(1, 64) as u32;
        Self {
            channels: knobs.clamp_nvls_channels(channels, version.max_channels()),
            heads,
            chunk: size(Knob::NvlsChunksize, plan.chunk),
            tree_chunk: size(Knob::NvlstreeMaxChunksize, plan.tree_chunk),
        }
    }
}

/// Blackwell has more channels, and chunks by node count and NIC.
fn blackwell(plan: NvlsPlan, facts: &Facts) -> NvlsPlan {
    let ppn = facts.gpus_per_node;
    let near = facts.nic_path <= PathType::Pxb;
    let nic = facts.nic_gbps;
    let tree = |channels, kib: u64| NvlsPlan { channels, tree_chunk: kib * KIB, ..plan };
    match facts.nodes {
        1 => NvlsPlan { channels: 24, ..plan },
        2 if nic >= 48.0 => {
            if ppn <= 4 {
                NvlsPlan { chunk: 256 * KIB, ..tree(32, 256) }
            } else if ppn >= 16 || (ppn <= 8 && near && nic < 96.0) {
                tree(32, 64)
            } else {
                tree(32, 128)
            }
        }
        3.. if nic >= 96.0 && ppn <= 8 => NvlsPlan { chunk: 256 * KIB, ..tree(24, 256) },
        3.. if nic >= 96.0 => tree(32, if ppn >= 32 { 64 } else { 128 }),
        3.. if nic >= 48.0 => tree(24, if near { 64 } else { 128 }),
        _ => NvlsPlan { channels: 32, ..plan },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::Communicator;

    fn plan(cap: u32, gpus: u32, nodes: u32) -> (u32, u64, u64) {
        let comm = Communicator::new(Facts::nvswitch(cap, gpus, nodes), Version::NEWEST, Knobs::default()).unwrap();
        let plan = comm.nvls();
        (plan.channels, plan.chunk / KIB, plan.tree_chunk / KIB)
    }

    #[test]
    fn plans_by_generation_and_nodes() {
        assert_eq!(plan(90, 8, 1), (16, 128, 128));
        assert_eq!(plan(90, 8, 2), (16, 128, 128));
        assert_eq!(plan(90, 8, 16), (16, 128, 64));
        assert_eq!(plan(100, 8, 1), (24, 128, 128));
        assert_eq!(plan(100, 8, 2), (32, 128, 64));
        assert_eq!(plan(100, 4, 2), (32, 256, 256));
        assert_eq!(plan(100, 8, 8), (24, 128, 64));
    }
}
