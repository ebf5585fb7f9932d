//! What a node is made of: the specification that catalogue systems and a user's own `[node]` table share.

mod adapt;
mod builder;
mod check;
mod error;
mod paths;
mod pcie;
mod pcie_tree;
mod policy;
mod root_complex;
mod scale_up;
mod template;
mod variant;

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim_core::units::{Bytes, Rate};

use crate::path_class::PathClass;
use crate::text;

pub use check::names_device;
pub use error::NodeError;
pub use pcie::{PcieSpec, SlotSpec};
pub use policy::{BadPolicy, Bounce, GpudirectLevel, NicPolicy};
pub use scale_up::{NvlinkSpec, XgmiSpec};

pub(crate) use template::{NodeTemplate, NvlinkKind, TemplateEnd};
pub(crate) use variant::Changes;

/// A node: GPUs, NICs and what joins them.
///
/// Devices are named `gpu0`, `gpu1`, ..., `nic0`, ... and `nvme0`, ... in its tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// The GPU's catalogue name.
    pub gpu: String,
    /// Number of GPUs.
    pub gpus: u32,
    /// The NIC's catalogue name; needed if `nics` is not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Number of NICs.
    #[serde(default)]
    pub nics: u32,
    /// Rate of a NIC's network side, one direction, in place of the catalogue's.
    #[serde(default, with = "text::rate_opt", skip_serializing_if = "Option::is_none")]
    pub nic_rate: Option<Rate>,
    /// The NVMe drive's catalogue name; needed if `nvmes` is not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<String>,
    /// Number of NVMe drives.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nvmes: u32,
    /// NVLink wiring; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<NvlinkSpec>,
    /// xGMI wiring (AMD's links from GPU to GPU); none if absent. Excludes `nvlink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xgmi: Option<XgmiSpec>,
    /// How many nodes an NVLink domain may span (18 compute trays of an NVL72).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub max_nodes_per_domain: u32,
    /// CPU sockets.
    #[serde(default = "two")]
    pub sockets: u32,
    /// NUMA domains of a socket (NPS4 or sub-NUMA clusters): devices of two domains are SYS apart, and the columns of
    /// affinity count them.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub numa_per_socket: u32,
    /// The link between every two sockets; needed if there are two or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_link: Option<SocketLinkSpec>,
    /// Rate of a socket's memory, reads and writes together; that of a usual socket if absent.
    #[serde(default, with = "text::rate_opt", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Rate>,
    /// The CPU; NCCL's choices depend on it.
    #[serde(default)]
    pub cpu: CpuSpec,
    /// The chip-to-chip link by which GPUs hang on their socket, by catalogue name (Grace).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c2c: Option<String>,
    /// Whether GPUs may reach each other over PCIe; GeForce drivers forbid it, and copies go through host memory.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub peer_to_peer: bool,
    /// How far apart GPUs may be that reach each other directly, as the communication library is told; beyond, copies go
    /// through host memory. [`PathClass::X`] takes NVLink away too; [`PathClass::Net`] is no limit.
    #[serde(skip, default = "no_limit")]
    pub peers_up_to: PathClass,
    /// Access control services: PCIe switches send peer traffic up to the root port and back, in place of straight across.
    #[serde(default, skip_serializing_if = "is_no")]
    pub acs: bool,
    /// Whether NICs and drives may read and write GPU memory at all; GeForce drivers forbid it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub gpudirect_rdma: bool,
    /// How far a NIC may be from a GPU whose memory it reads and writes; beyond, data go through host memory.
    #[serde(default, skip_serializing_if = "GpudirectLevel::is_default")]
    pub gpudirect: GpudirectLevel,
    /// Which NICs each GPU uses.
    #[serde(default, skip_serializing_if = "NicPolicy::is_default")]
    pub nic_policy: NicPolicy,
    /// PCIe links of devices that trained to less than both ends could: `gpu3 = { gen = 1, lanes = 16 }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub trained: BTreeMap<String, SlotSpec>,
    /// Largest payload of a PCIe packet (MPS).
    #[serde(default = "mps", skip_serializing_if = "is_mps")]
    pub pcie_payload: Bytes,
    /// PCIe switches and root ports, with what hangs on them.
    #[serde(default)]
    pub pcie: Vec<PcieSpec>,
}

impl NodeSpec {
    /// So many GPUs with nothing else yet: two sockets, no NICs, no PCIe rows; every other field at its default.
    #[must_use]
    pub fn new(gpu: &str, gpus: u32) -> Self {
        Self {
            gpu: gpu.to_owned(),
            gpus,
            nic: None,
            nics: 0,
            nic_rate: None,
            nvme: None,
            nvmes: 0,
            nvlink: None,
            xgmi: None,
            max_nodes_per_domain: 1,
            sockets: 2,
            numa_per_socket: 1,
            socket_link: None,
            memory: None,
            cpu: CpuSpec::default(),
            c2c: None,
            peer_to_peer: true,
            peers_up_to: no_limit(),
            acs: false,
            gpudirect_rdma: true,
            gpudirect: GpudirectLevel::default(),
            nic_policy: NicPolicy::default(),
            trained: BTreeMap::new(),
            pcie_payload: mps(),
            pcie: Vec::new(),
        }
    }
}

const fn no_limit() -> PathClass {
    PathClass::Net
}
const fn is_zero(n: &u32) -> bool {
    *n == 0
}
const fn is_no(b: &bool) -> bool {
    !*b
}
const fn one() -> u32 {
    1
}
const fn is_one(n: &u32) -> bool {
    *n == 1
}
const fn two() -> u32 {
    2
}
const fn yes() -> bool {
    true
}
const fn is_yes(b: &bool) -> bool {
    *b
}
const fn mps() -> Bytes {
    Bytes::new(256)
}
const fn is_mps(b: &Bytes) -> bool {
    b.get() == 256
}

/// The link between every two sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketLinkSpec {
    /// The link's catalogue name.
    pub name: String,
    /// How many run in parallel.
    #[serde(default = "one")]
    pub links: u32,
}

/// A node's CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuSpec {
    /// The maker.
    #[serde(default)]
    pub vendor: CpuVendor,
    /// The generation: `sapphire-rapids`, `rome`, `grace`.
    #[serde(default)]
    pub model: String,
    /// Cores of a socket, for the affinity columns of the topology matrix.
    #[serde(default = "cores")]
    pub cores: u32,
    /// Hardware threads of a core.
    #[serde(default = "two")]
    pub threads_per_core: u32,
}

const fn cores() -> u32 {
    32
}

impl Default for CpuSpec {
    fn default() -> Self {
        Self { vendor: CpuVendor::default(), model: String::new(), cores: cores(), threads_per_core: 2 }
    }
}

/// The makers that NCCL tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuVendor {
    /// Intel x86.
    #[default]
    Intel,
    /// AMD x86.
    Amd,
    /// Any 64-bit Arm, Grace among them.
    Arm,
    /// IBM POWER.
    Power,
}

impl fmt::Display for CpuVendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Intel => "intel",
            Self::Amd => "amd",
            Self::Arm => "arm",
            Self::Power => "power",
        })
    }
}

#[cfg(test)]
mod tests;
