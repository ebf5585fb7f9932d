//! The names of the timing model's values.

use core::fmt;
use core::str::FromStr;

use sim_topology::LinkClass;

use crate::nccl::Protocol;

macro_rules! keys {
    ($($(#[$doc:meta])+ $key:ident = $name:literal,)+) => {
        /// A value of the timing model. The end of its name is its unit: `_us` microseconds, `_gbps` GB/s, `_share` parts of 1.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[$doc])+ $key,)+
        }

        impl Key {
            /// All of them, in the order in which results list them.
            pub const ALL: &'static [Self] = &[$(Self::$key),+];

            /// Its name, as in `data/timing.toml` and in a scenario's `[profile]`: `group.value`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$key => $name,)+
                }
            }
        }
    };
}

keys! {
    /// Start of a copy.
    CopyEngineCopy = "copy_engine.copy_us",
    /// Start of a call made of copies.
    CopyEngineKernel = "copy_engine.kernel_us",
    /// What one copy moves.
    CopyEngineRate = "copy_engine.rate_gbps",
    /// Start of a kernel that works in its peers' memory, to its first operation.
    DirectKernel = "direct.kernel_us",
    /// What it moves of the data of one peer.
    DirectRate = "direct.rate_gbps",
    /// One phase of it: flags of all peers.
    DirectStep = "direct.step_us",
    /// What a channel reads of host memory that a NIC wrote, wire bytes.
    HostRate = "host.rate_gbps",
    /// What a channel reads of host memory that another GPU wrote, wire bytes.
    HostSharedRate = "host.shared_rate_gbps",
    /// Start of a kernel in a captured graph, to its first operation.
    LaunchGraph = "launch.graph_us",
    /// The host's time for a kernel.
    LaunchHost = "launch.host_us",
    /// Start of a kernel, to its first operation.
    LaunchKernel = "launch.kernel_us",
    /// The host's time for a send or receive inside a node.
    LaunchMessage = "launch.message_us",
    /// Latency of an LL128 message over NVLink, beyond the path's.
    NvlinkLl128 = "nvlink.ll128_us",
    /// Latency of an LL message over NVLink, beyond the path's.
    NvlinkLl = "nvlink.ll_us",
    /// Latency of a Simple message over NVLink, beyond the path's.
    NvlinkSimple = "nvlink.simple_us",
    /// What a channel of a head reduces, over all heads.
    NvlsHeadRate = "nvls.head_rate_gbps",
    /// Fixed cost of a head's loop.
    NvlsHead = "nvls.head_us",
    /// Fixed cost of a loop of the staging lanes.
    NvlsLoop = "nvls.loop_us",
    /// What a channel stages, over all heads.
    NvlsRate = "nvls.rate_gbps",
    /// As `nvls.head_rate_gbps`, with trees between nodes.
    NvlsTreeHeadRate = "nvls_tree.head_rate_gbps",
    /// As `nvls.head_us`, with trees between nodes.
    NvlsTreeHead = "nvls_tree.head_us",
    /// As `nvls.loop_us`, with trees between nodes.
    NvlsTreeLoop = "nvls_tree.loop_us",
    /// As `nvls.rate_gbps`, with trees between nodes.
    NvlsTreeRate = "nvls_tree.rate_gbps",
    /// Share of its rate that a message with one warp gets.
    P2pLoneWarpShare = "p2p.lone_warp_share",
    /// What a block moves of sends and receives.
    P2pRate = "p2p.rate_gbps",
    /// Fixed cost of a slice of a send or receive.
    P2pStep = "p2p.step_us",
    /// What a warp moves of sends and receives.
    P2pWarpRate = "p2p.warp_rate_gbps",
    /// Latency of an LL128 message over PCIe, beyond the path's.
    PcieLl128 = "pcie.ll128_us",
    /// Latency of an LL message over PCIe, beyond the path's.
    PcieLl = "pcie.ll_us",
    /// Latency of a Simple message over PCIe, beyond the path's.
    PcieSimple = "pcie.simple_us",
    /// What a channel of an LL ring moves beyond a pass.
    RingLlRate = "ring_ll.rate_gbps",
    /// Fixed cost of a step of an LL ring.
    RingLlStep = "ring_ll.step_us",
    /// A full block's first pass in an LL ring.
    RingLlThread = "ring_ll.thread_us",
    /// What a channel of an LL128 ring moves beyond a pass.
    RingLl128Rate = "ring_ll128.rate_gbps",
    /// Fixed cost of a step of an LL128 ring.
    RingLl128Step = "ring_ll128.step_us",
    /// A full block's first pass in an LL128 ring.
    RingLl128Thread = "ring_ll128.thread_us",
    /// What a channel moves with Simple.
    SimpleRate = "simple.rate_gbps",
    /// Fixed cost of a slice with Simple.
    SimpleStep = "simple.step_us",
    /// What a call on symmetric memory moves without reduction.
    SymmetricCopyRate = "symmetric.copy_rate_gbps",
    /// Start of a kernel on symmetric memory, to its last flag.
    SymmetricKernel = "symmetric.kernel_us",
    /// What a call on symmetric memory moves with reduction.
    SymmetricReduceRate = "symmetric.reduce_rate_gbps",
    /// What a channel of an LL tree moves beyond a pass.
    TreeLlRate = "tree_ll.rate_gbps",
    /// Fixed cost of a step of an LL tree.
    TreeLlStep = "tree_ll.step_us",
    /// A full block's first pass in an LL tree.
    TreeLlThread = "tree_ll.thread_us",
    /// What a channel of an LL128 tree moves beyond a pass.
    TreeLl128Rate = "tree_ll128.rate_gbps",
    /// Fixed cost of a step of an LL128 tree.
    TreeLl128Step = "tree_ll128.step_us",
    /// A full block's first pass in an LL128 tree.
    TreeLl128Thread = "tree_ll128.thread_us",
    /// End of the consuming step to the posting of the clear-to-send.
    NetworkCts = "network.cts_us",
    /// Latency of an LL128 message between nodes, beyond the path's.
    NetworkLl128 = "network.ll128_us",
    /// Latency of an LL message between nodes, beyond the path's.
    NetworkLl = "network.ll_us",
    /// The host's time for a send or receive between nodes.
    NetworkMessage = "network.message_us",
    /// Share of a NIC's port that the library's messages fill.
    NetworkPortShare = "network.port_share",
    /// Latency of a Simple message between nodes, beyond the path's.
    NetworkSimple = "network.simple_us",
    /// Least time between the beginnings of two messages of a queue pair, where they are sent as data and signal.
    NetworkSplit = "network.split_us",
    /// The same, on top, from the last message of a call to the first of the next.
    NetworkTurn = "network.turn_us",
    /// The host's time to wake the thread that serves the network, once a call.
    NetworkWake = "network.wake_us",
    /// Share of their data rate that network links carry.
    LinkNetworkShare = "link.network_share",
    /// Share of their data rate that links between GPUs carry.
    LinkNvlinkShare = "link.nvlink_share",
    /// Share of their data rate that links inside a host carry.
    LinkPcieShare = "link.pcie_share",
}

/// What a value is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Us,
    /// GB/s, one direction.
    GbytePerSecond,
    /// Parts of 1.
    Share,
}

impl Key {
    /// The first part of its name.
    #[must_use]
    pub fn group(self) -> &'static str {
        self.name().split_once('.').map_or("", |(group, _)| group)
    }

    /// Its unit, which its name ends with.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self.name() {
            name if name.ends_with("_us") => Unit::Us,
            name if name.ends_with("_share") => Unit::Share,
            _ => Unit::GbytePerSecond,
        }
    }

    /// Latency over NVLink by protocol.
    pub(super) const fn nvlink(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ll => Self::NvlinkLl,
            Protocol::Ll128 => Self::NvlinkLl128,
            Protocol::Simple => Self::NvlinkSimple,
        }
    }

    /// Latency over PCIe by protocol.
    pub(super) const fn pcie(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ll => Self::PcieLl,
            Protocol::Ll128 => Self::PcieLl128,
            Protocol::Simple => Self::PcieSimple,
        }
    }

    /// Latency between nodes by protocol.
    pub(super) const fn network(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ll => Self::NetworkLl,
            Protocol::Ll128 => Self::NetworkLl128,
            Protocol::Simple => Self::NetworkSimple,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no value has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown timing parameter `{name}`")]
pub struct UnknownKey {
    /// What was given.
    pub name: String,
    /// The nearest that exists.
    pub similar: Option<Key>,
}

impl FromStr for Key {
    type Err = UnknownKey;

    fn from_str(name: &str) -> Result<Self, UnknownKey> {
        Self::ALL.iter().copied().find(|key| key.name() == name).ok_or_else(|| {
            let distance = |key: &Self| strsim::damerau_levenshtein(key.name(), name);
            let similar = Self::ALL.iter().copied().min_by_key(distance).filter(|key| distance(key) <= 4);
            UnknownKey { name: name.to_owned(), similar }
        })
    }
}

/// Kinds of links whose share of the data rate can be set, by `link.*_share`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// Between GPUs.
    Nvlink,
    /// Inside a host: PCIe, between sockets, memory.
    Pcie,
    /// Between NICs and switches, and between switches.
    Network,
}

impl LinkKind {
    /// All kinds.
    pub const ALL: &'static [Self] = &[Self::Nvlink, Self::Pcie, Self::Network];

    /// The kind of a link of this class.
    #[must_use]
    pub const fn of(class: LinkClass) -> Self {
        match class {
            LinkClass::NvLink | LinkClass::Xgmi => Self::Nvlink,
            LinkClass::Network | LinkClass::Uplink => Self::Network,
            _ => Self::Pcie,
        }
    }

    /// The value that says what such links carry.
    #[must_use]
    pub const fn share(self) -> Key {
        match self {
            Self::Nvlink => Key::LinkNvlinkShare,
            Self::Pcie => Key::LinkPcieShare,
            Self::Network => Key::LinkNetworkShare,
        }
    }
}
