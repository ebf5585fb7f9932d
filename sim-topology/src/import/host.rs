//! What a file says about a host, before anything is filled in: NUMA nodes, PCIe switches, GPUs, NICs, NVLinks.

use core::ops::Range;

use sim_core::units::Rate;

use super::finding::Finding;
use crate::node::SlotSpec;
use crate::path_class::PathClass;

/// A host as a file describes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    /// NUMA nodes, in order of their numbers.
    pub(super) numas: Vec<Numa>,
    /// PCIe switches and bridges; a parent stands before its children.
    pub(super) switches: Vec<Switch>,
    /// GPUs in the order of their numbers.
    pub(super) gpus: Vec<Device>,
    /// NICs (ports) in the order of their numbers.
    pub(super) nics: Vec<Device>,
    /// The GPUs' links to each other.
    pub(super) nvlink: Nvlink,
    /// Whether those links are AMD's xGMI, which the matrix shows without a number.
    pub(super) xgmi: bool,
    /// What the file says of the CPUs.
    pub(super) cpu: Cpu,
    /// Whether GPUs hang on their CPUs by a chip-to-chip link.
    pub(super) c2c: bool,
    /// What was found on the way.
    pub(super) findings: Vec<Finding>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numa {
    /// Its number.
    pub(super) id: u32,
    /// The hardware threads in it, as ranges; empty if unknown.
    pub(super) threads: Vec<(u32, u32)>,
    /// Where it is described.
    pub(super) at: Range<usize>,
}

/// What is known of a PCIe link, as the device below sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lanes {
    /// The PCIe generation by its speed, 1 to 7.
    pub(super) generation: Option<u32>,
    /// The width.
    pub(super) lanes: Option<u32>,
}

impl Lanes {
    /// The link, with what is unknown taken from `other`.
    pub(super) fn or(self, other: SlotSpec) -> SlotSpec {
        SlotSpec { generation: self.generation.unwrap_or(other.generation), lanes: self.lanes.unwrap_or(other.lanes) }
    }
}

/// A PCIe switch or bridge.
#[derive(Clone, Debug, Default)]
pub(super) struct Switch {
    /// The NUMA node, by its place in [`Host::numas`].
    pub(super) numa: usize,
    /// The switch that it hangs on, by its place in [`Host::switches`]; `None` on the host.
    pub(super) parent: Option<usize>,
    /// Switches and devices with the same number share a host bridge.
    pub(super) bridge: Option<u32>,
    /// Its uplink.
    pub(super) link: Lanes,
    /// Bus id, or what else names it.
    pub(super) name: String,
    /// Where it is described.
    pub(super) at: Range<usize>,
}

/// A GPU or a port of a NIC.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// The NUMA node, by its place in [`Host::numas`].
    pub(super) numa: usize,
    /// The switch that it hangs on; `None` on the host.
    pub(super) switch: Option<usize>,
    /// Switches and devices with the same number share a host bridge.
    pub(super) bridge: Option<u32>,
    /// Its link upwards.
    pub(super) link: Lanes,
    /// Bus id or column name.
    pub(super) name: String,
    /// The name of the operating system: `mlx5_0`.
    pub(super) alias: Option<String>,
    /// Vendor and device id of PCI.
    pub(super) pci_id: Option<(u16, u16)>,
    /// Compute capability times ten (NVIDIA).
    pub(super) sm: Option<u32>,
    /// The architecture's name (AMD): `gfx942`.
    pub(super) gfx: Option<String>,
    /// Rate of a NIC's port, one direction.
    pub(super) rate: Option<Rate>,
    /// Whether the host says that GPUDirect RDMA works.
    pub(super) gdr: Option<bool>,
    /// Where it is described.
    pub(super) at: Range<usize>,
}

/// How GPUs are joined, by their places in [`Host::gpus`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Nvlink {
    /// Not at all.
    #[default]
    None,
    /// Nothing is said.
    Unknown,
    /// Through NVSwitches.
    Switched {
        /// The links of each GPU, all chips together.
        links: Vec<u32>,
        /// Links of a whole GPU to each chip, where the file tells chips apart.
        chips: Vec<u32>,
    },
    /// Directly: GPU, GPU, links.
    Pairs(Vec<[u32; 3]>),
}

impl Nvlink {
    /// The links that two GPUs show to each other.
    pub(super) fn between(&self, a: usize, b: usize) -> u32 {
        match self {
            Self::None | Self::Unknown => 0,
            Self::Switched { links, .. } => links[a].min(links[b]),
            Self::Pairs(pairs) => pairs
                .iter()
                .find(|p| (p[0] as usize, p[1] as usize) == (a, b) || (p[1] as usize, p[0] as usize) == (a, b))
                .map_or(0, |p| p[2]),
        }
    }
}

/// The CPUs, as NCCL's files name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    /// `x86_64`, `arm64`, `ppc64`.
    pub(super) arch: String,
    /// `GenuineIntel`, `AuthenticAMD`.
    pub(super) vendor: String,
    /// Family.
    pub(super) family: Option<u32>,
    /// Model.
    pub(super) model: Option<u32>,
    /// Where it is said.
    pub(super) at: Range<usize>,
}

impl Host {
    /// GPUs, then NICs.
    pub(super) fn devices(&self) -> impl Iterator<Item = &Device> {
        self.gpus.iter().chain(&self.nics)
    }

    /// The class of the path over PCIe and CPUs between two devices, as `nvidia-smi topo -m` has it. This is worked out
    /// on the file's own tree, so that it can be held against the node that is made of it.
    pub(super) fn host_class(&self, a: &Device, b: &Device) -> PathClass {
        if a.numa != b.numa {
            return PathClass::Sys;
        }
        let (up, down) = (self.above(a.switch), self.above(b.switch));
        if let Some(i) = up.iter().position(|s| down.contains(s)) {
            let j = down.iter().position(|s| *s == up[i]).unwrap_or(0);
            return if i + j == 0 { PathClass::Pix } else { PathClass::Pxb };
        }
        if a.bridge.is_some() && self.bridge_of(a) == self.bridge_of(b) { PathClass::Phb } else { PathClass::Node }
    }

    /// The switches above, nearest first.
    fn above(&self, first: Option<usize>) -> Vec<usize> {
        let mut list = Vec::new();
        let mut next = first;
        while let Some(s) = next {
            list.push(s);
            next = self.switches[s].parent.filter(|&p| p < s);
        }
        list
    }

    fn bridge_of(&self, device: &Device) -> Option<u32> {
        match self.above(device.switch).last() {
            Some(&root) => self.switches[root].bridge,
            None => device.bridge,
        }
    }

    /// The matrix that `nvidia-smi topo -m` would show: GPUs, then NICs.
    pub(super) fn matrix(&self) -> Vec<Vec<PathClass>> {
        let all: Vec<&Device> = self.devices().collect();
        let gpus = self.gpus.len();
        let cell = |a: usize, b: usize| {
            if a == b {
                return PathClass::X;
            }
            match if a < gpus && b < gpus { self.nvlink.between(a, b) } else { 0 } {
                0 => self.host_class(all[a], all[b]),
                links if self.xgmi => PathClass::Xgmi(links),
                links => PathClass::Nvl(links),
            }
        };
        (0..all.len()).map(|a| (0..all.len()).map(|b| cell(a, b)).collect()).collect()
    }
}
