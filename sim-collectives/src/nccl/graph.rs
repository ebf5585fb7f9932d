//! The result of the search: how many channels of what speed an algorithm gets.

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::path::PathType;

/// How a channel meets the network and runs through a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// A tree whose NIC traffic is shared by the first two GPUs (1 in logs).
    BalancedTree,
    /// A tree with the parent on the first GPU and the children on the second (2).
    SplitTree,
    /// A tree with all NIC traffic on the first GPU (3).
    Tree,
    /// A ring (4).
    Ring,
    /// One channel per head GPU, reduced in the NVSwitch (5).
    Nvls,
    /// One channel per head GPU, reduced in the network (6).
    CollNetDirect,
}

impl Pattern {
    /// Its number in NCCL's logs and graph files.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// One search result. These are the *search* figures that the tuning uses; the communicator then runs twice the
/// channels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Channels found.
    pub channels: u32,
    /// Speed of one channel inside a node, GB/s per direction.
    pub bw_intra: f64,
    /// Speed of one channel between nodes, GB/s per direction.
    pub bw_inter: f64,
    /// Worst path class between GPUs of a channel.
    pub type_intra: PathType,
    /// Worst path class between a channel's GPUs and its NICs.
    pub type_inter: PathType,
    /// The pattern.
    pub pattern: Pattern,
    /// Whether all channels run through the GPUs in the same order.
    pub same_channels: bool,
    /// Whether a channel may leave a node by another NIC than it entered.
    pub cross_nic: bool,
}

impl Graph {
    /// Channels × speed inside a node, GB/s.
    #[must_use]
    pub fn total_intra(&self) -> f64 {
        f64::from(self.channels) * self.bw_intra
    }

    /// Channels × speed between nodes, GB/s.
    #[must_use]
    pub fn total_inter(&self) -> f64 {
        f64::from(self.channels) * self.bw_inter
    }
}

/// The graphs of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graphs {
    /// For [`Algorithm::Ring`].
    pub ring: Graph,
    /// For [`Algorithm::Tree`].
    pub tree: Graph,
    /// For [`Algorithm::Nvls`], where the NVSwitch can multicast.
    pub nvls: Option<Graph>,
    /// For [`Algorithm::NvlsTree`]; the search gives the same graph as for NVLS.
    pub nvls_tree: Option<Graph>,
    /// For [`Algorithm::Pat`]; the search gives the tree's.
    pub pat: Option<Graph>,
    /// For both CollNet algorithms, where the network reduces.
    pub collnet: Option<Graph>,
}

impl Graphs {
    /// The graph that `algorithm` runs on.
    #[must_use]
    pub const fn of(&self, algorithm: Algorithm) -> Option<&Graph> {
        match algorithm {
            Algorithm::Tree => Some(&self.tree),
            Algorithm::Ring => Some(&self.ring),
            Algorithm::CollNetDirect | Algorithm::CollNetChain => self.collnet.as_ref(),
            Algorithm::Nvls => self.nvls.as_ref(),
            Algorithm::NvlsTree => self.nvls_tree.as_ref(),
            Algorithm::Pat => self.pat.as_ref(),
        }
    }
}
