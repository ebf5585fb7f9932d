//! The parts of a frozen fabric: devices and directed links.

use core::fmt;

use serde::{Deserialize, Serialize};
use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate, Span};

/// Dense number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// The number as an index.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A GPU.
    Gpu,
    /// All NVSwitch chips of an NVLink domain, taken together.
    NvSwitch,
    /// A PCIe switch.
    PcieSwitch,
    /// A CPU socket with its root complex.
    Socket,
    /// The memory of a socket.
    HostMemory,
    /// A NIC.
    Nic,
    /// An NVMe drive.
    Nvme,
    /// A network switch to which NICs are cabled.
    Leaf,
    /// A network switch of the second tier.
    Spine,
    /// A network switch of the third tier.
    Core,
}

impl DeviceKind {
    /// The word in device names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::NvSwitch => "nvswitch",
            Self::PcieSwitch => "pcie",
            Self::Socket => "socket",
            Self::HostMemory => "memory",
            Self::Nic => "nic",
            Self::Nvme => "nvme",
            Self::Leaf => "leaf",
            Self::Spine => "spine",
            Self::Core => "core",
        }
    }

    /// Whether it is a switch of the network between nodes.
    #[must_use]
    pub const fn is_network_switch(self) -> bool {
        matches!(self, Self::Leaf | Self::Spine | Self::Core)
    }

    /// Whether traffic may pass through it on the way inside a node.
    #[must_use]
    pub const fn forwards_in_node(self) -> bool {
        matches!(self, Self::PcieSwitch | Self::Socket)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// The node it is in; `None` for network switches and for the NVSwitches of a domain of several nodes.
    pub node: Option<u32>,
    /// Its number within its kind and node (within its kind, outside nodes).
    pub index: u32,
    /// `node0.gpu3`, `node0.socket1`, `domain0.nvswitch`, `leaf4`.
    pub name: String,
    /// How it passes on what it receives.
    pub forwarding: Forwarding,
    /// Ports in use, each a link in both directions, or 0 where ports are not counted.
    pub ports_used: u32,
    /// Ports there are, or 0 where ports are not counted.
    pub ports: u32,
    /// Whether it works; all links of a device that does not are dead too.
    pub alive: bool,
}

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkClass {
    /// All NVLinks of a GPU to its NVSwitches, or of one GPU to another.
    NvLink,
    /// All xGMI links of one GPU to another (AMD).
    Xgmi,
    /// PCIe.
    Pcie,
    /// Between sockets.
    SocketLink,
    /// Between a socket and its memory; from a socket to itself, what reads and writes have together.
    Memory,
    /// Between a GPU and its CPU, coherent.
    C2c,
    /// A limit on traffic between devices on PCIe inside a root complex or a switch, from that to itself.
    Peer,
    /// Between a NIC and its leaf.
    Network,
    /// Between network switches.
    Uplink,
}

impl LinkClass {
    /// All classes, in order.
    pub const ALL: [Self; 9] = [
        Self::NvLink,
        Self::Xgmi,
        Self::Pcie,
        Self::SocketLink,
        Self::Memory,
        Self::C2c,
        Self::Peer,
        Self::Network,
        Self::Uplink,
    ];

    /// Its name in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NvLink => "nvlink",
            Self::Xgmi => "xgmi",
            Self::Pcie => "pcie",
            Self::SocketLink => "socket-link",
            Self::Memory => "memory",
            Self::C2c => "c2c",
            Self::Peer => "peer",
            Self::Network => "network",
            Self::Uplink => "uplink",
        }
    }

    /// Whether it belongs to the network between nodes.
    #[must_use]
    pub const fn is_network(self) -> bool {
        matches!(self, Self::Network | Self::Uplink)
    }
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The device that sends.
    pub from: DeviceId,
    /// The device that receives.
    pub to: DeviceId,
    /// What it is.
    pub class: LinkClass,
    /// Net data rate of this direction, before packet headers.
    pub rate: Rate,
    /// Latency α, one way: wire, FEC and the share of the devices at its ends.
    pub latency: Span,
    /// Wire bytes beyond the payload of a packet of the fabric's MTU.
    pub packet_overhead: Bytes,
    /// Its number among the parallel links from `from` to `to`.
    pub parallel: u32,
    /// How many physical links it stands for: 18 for the NVLinks of an H100, the lanes of a PCIe link, else 1.
    pub width: u32,
    /// Whether it works; no route takes a link that does not.
    pub alive: bool,
}

impl Link {
    /// The payload rate of full packets of `mtu` bytes.
    #[must_use]
    pub fn goodput(&self, mtu: Bytes) -> Rate {
        let wire = u128::from(mtu.get() + self.packet_overhead.get()).max(1);
        Rate::bytes_per_sec((u128::from(self.rate.get()) * u128::from(mtu.get()) / wire) as u64)
    }
}

/// A node's devices that others ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its GPUs in order.
    pub gpus: Vec<DeviceId>,
    /// Its NICs in order.
    pub nics: Vec<DeviceId>,
    /// Its sockets in order.
    pub sockets: Vec<DeviceId>,
    /// The memories of its sockets in order.
    pub memories: Vec<DeviceId>,
    /// Its NVMe drives in order.
    pub nvmes: Vec<DeviceId>,
    /// The number of its NVLink domain.
    pub domain: u32,
    /// Which of the fabric's templates its interior is.
    pub(crate) template: u16,
    pub(crate) first_device: u32,
    pub(crate) first_link: u32,
}
