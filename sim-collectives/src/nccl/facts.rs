//! What the search and the tuning see of the machine.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::algorithm::{UnknownName, fold};
use super::links;
use super::path::PathType;
use super::version::Version;

/// Vendor or architecture of the hosts, as far as NCCL's tuning tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostCpu {
    /// x86, Intel.
    #[default]
    Intel,
    /// x86, AMD.
    Amd,
    /// x86, Zhaoxin.
    Zhaoxin,
    /// x86, Intel on some hosts and AMD on others.
    Mixed,
    /// Arm, among them Grace.
    Arm,
    /// POWER.
    Power,
    /// Anything else.
    Other,
}

impl HostCpu {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Intel, Self::Amd, Self::Zhaoxin, Self::Mixed, Self::Arm, Self::Power, Self::Other];

    /// The name: `intel`, `amd`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intel => "intel",
            Self::Amd => "amd",
            Self::Zhaoxin => "zhaoxin",
            Self::Mixed => "mixed",
            Self::Arm => "arm",
            Self::Power => "power",
            Self::Other => "other",
        }
    }

    /// Whether the host is an x86 one.
    #[must_use]
    pub const fn is_x86(self) -> bool {
        matches!(self, Self::Intel | Self::Amd | Self::Zhaoxin | Self::Mixed)
    }
}

impl fmt::Display for HostCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HostCpu {
    type Err = UnknownName;

    /// The name in any case.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let folded = fold(s);
        Self::ALL.into_iter().find(|c| c.name() == folded).ok_or_else(|| UnknownName {
            what: "host CPU",
            seen: s.to_owned(),
            expected: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

/// Whether a ring or tree may leave a node by another NIC than it entered (`NCCL_CROSS_NIC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrossNic {
    /// 0: it may not.
    Never,
    /// 1: it may.
    Always,
    /// 2, the default: only if that is needed for a good graph.
    #[default]
    Auto,
}

/// One communicator's machine, as NCCL's topology detection would describe it. A *node* is what shares NVLink: one
/// host, or a whole multi-node NVLink domain. All rates are NCCL's planning figures (see
/// [`nvlink_gbps`](super::nvlink_gbps)), GB/s in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Compute capability times ten, the least over all GPUs: 70 Volta, 80 A100, 90 Hopper, 100 Blackwell.
    pub compute_cap: u32,
    /// Whether all GPUs have the same compute capability.
    pub uniform_compute_cap: bool,
    /// Number of nodes.
    pub nodes: u32,
    /// GPUs per node that take part.
    pub gpus_per_node: u32,
    /// The hosts' CPUs.
    pub cpu: HostCpu,
    /// NVLink total of one GPU; 0 without NVLink.
    pub nvlink_total_gbps: f64,
    /// NVLink rate of one link, for the channel count of point-to-point; 0 without NVLink.
    pub nvlink_link_gbps: f64,
    /// Best path between two GPUs of a node: the NVLink total through NVSwitch, one bundle in a mesh, the slowest part
    /// of a PCIe path (the socket link where a ring must cross it).
    pub intra_gbps: f64,
    /// Worst path class between neighbours of the ring inside a node.
    pub intra_path: PathType,
    /// Whether the GPUs of a node are joined by NVSwitch.
    pub nvswitch: bool,
    /// Whether the NVSwitch can multicast and reduce (NVLS) and the software lets it.
    pub multicast: bool,
    /// NICs per node that take part; 0 is a node without a network.
    pub nics_per_node: u32,
    /// GPUs that reach one NIC at `nic_path`; with two or more a ring returns to its NIC without PXN.
    pub gpus_near_nic: u32,
    /// Rate of one NIC port.
    pub nic_gbps: f64,
    /// Rate of the PCIe link between NIC and GPU.
    pub nic_pci_gbps: f64,
    /// Rate of a GPU's own link to its host: PCIe, or C2C where it has that.
    pub gpu_host_gbps: f64,
    /// Path class from a GPU to its nearest NIC.
    pub nic_path: PathType,
    /// Latency that the network plugin reports, µs; 0 for the built-in ones.
    pub nic_latency_us: f64,
    /// Rate of the link between two sockets, for NIC traffic that must cross it.
    pub socket_gbps: f64,
    /// Whether a GPU may use another GPU's NIC over NVLink (PXN).
    pub pxn: bool,
    /// Whether a ring may change NIC inside a node.
    pub cross_nic: CrossNic,
    /// Whether the network reduces (SHARP) and the plugin for it is enabled.
    pub collnet: bool,
}

/// A figure that no machine can have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{field}` is {seen}: expected {expected}")]
pub struct FactsError {
    /// The field of [`Facts`].
    pub field: &'static str,
    /// Its value.
    pub seen: String,
    /// What it may be.
    pub expected: &'static str,
}

impl Facts {
    /// `nodes` nodes of `gpus_per_node` GPUs on NVSwitch, the rest as a common server of that generation has it: 12
    /// NVLinks up to Ampere and 18 from Hopper on, one NIC per GPU (200 Gb/s up to Ampere, 400 Gb/s after) behind a
    /// PCIe switch of its GPU's (two GPUs' up to Ampere), Intel hosts, no in-network reduction. Every field can be
    /// changed after.
    #[must_use]
    pub fn nvswitch(compute_cap: u32, gpus_per_node: u32, nodes: u32) -> Self {
        let hopper = compute_cap >= 90;
        let link = links::nvlink_gbps(compute_cap, Version::NEWEST);
        let nvlink = link * if hopper { 18.0 } else { 12.0 };
        Self {
            compute_cap,
            uniform_compute_cap: true,
            nodes,
            gpus_per_node,
            cpu: HostCpu::Intel,
            nvlink_total_gbps: nvlink,
            nvlink_link_gbps: link,
            intra_gbps: nvlink,
            intra_path: PathType::Nvl,
            nvswitch: true,
            multicast: hopper,
            nics_per_node: gpus_per_node,
            gpus_near_nic: if hopper || gpus_per_node < 2 { 1 } else { 2 },
            nic_gbps: links::nic_gbps(if hopper { 400_000 } else { 200_000 }),
            nic_pci_gbps: links::pci_gbps(if hopper { 5 } else { 4 }, 16),
            gpu_host_gbps: links::pci_gbps(if hopper { 5 } else { 4 }, 16),
            nic_path: PathType::Pix,
            nic_latency_us: 0.0,
            socket_gbps: links::socket_gbps(HostCpu::Intel, 0x8F, Version::NEWEST),
            pxn: true,
            cross_nic: CrossNic::Auto,
            collnet: false,
        }
    }

    /// `nodes` nodes of `gpus_per_node` GPUs that reach each other by PCIe only, at `pci_gbps` through the host bridge,
    /// with one NIC of `nic_gbps` per node (0: none).
    #[must_use]
    pub fn pcie(compute_cap: u32, gpus_per_node: u32, nodes: u32, pci_gbps: f64, nic_gbps: f64) -> Self {
        Self {
            nvlink_total_gbps: 0.0,
            nvlink_link_gbps: 0.0,
            intra_gbps: pci_gbps,
            intra_path: PathType::Phb,
            nvswitch: false,
            multicast: false,
            nics_per_node: u32::from(nic_gbps > 0.0),
            gpus_near_nic: gpus_per_node,
            nic_gbps,
            nic_pci_gbps: pci_gbps,
            gpu_host_gbps: pci_gbps,
            nic_path: PathType::Phb,
            ..Self::nvswitch(compute_cap, gpus_per_node, nodes)
        }
    }

    /// Number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.nodes.saturating_mul(self.gpus_per_node)
    }

    /// Ranks per node, as the formulas use it.
    #[must_use]
    pub fn ppn(&self) -> f64 {
        f64::from(self.ranks()) / f64::from(self.nodes.max(1))
    }

    /// Rate between a GPU and its nearest NIC: the lesser of NIC and PCIe link.
    #[must_use]
    pub fn nic_path_gbps(&self) -> f64 {
        self.nic_gbps.min(self.nic_pci_gbps)
    }

    /// Checks that every figure is one that a machine can have.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), FactsError> {
        let positive = [("nodes", self.nodes), ("gpus_per_node", self.gpus_per_node)];
        for (field, value) in positive {
            if value == 0 {
                return Err(FactsError { field, seen: "0".into(), expected: "at least 1" });
            }
        }
        if self.nodes.checked_mul(self.gpus_per_node).is_none_or(|n| n > 1 << 24) {
            let seen = format!("{} with {} GPUs each", self.nodes, self.gpus_per_node);
            return Err(FactsError { field: "nodes", seen, expected: "at most 2^24 ranks in all" });
        }
        let figures = [
            ("nvlink_total_gbps", self.nvlink_total_gbps),
            ("nvlink_link_gbps", self.nvlink_link_gbps),
            ("intra_gbps", self.intra_gbps),
            ("nic_gbps", self.nic_gbps),
            ("nic_pci_gbps", self.nic_pci_gbps),
            ("gpu_host_gbps", self.gpu_host_gbps),
            ("nic_latency_us", self.nic_latency_us),
            ("socket_gbps", self.socket_gbps),
        ];
        for (field, value) in figures {
            if !value.is_finite() || value < 0.0 {
                return Err(FactsError { field, seen: value.to_string(), expected: "a finite number, 0 or more" });
            }
        }
        if self.nodes > 1 && (self.nics_per_node == 0 || self.nic_path_gbps() <= 0.0) {
            return Err(FactsError {
                field: "nics_per_node",
                seen: format!("{} of {} GB/s", self.nics_per_node, self.nic_path_gbps()),
                expected: "at least one NIC with a rate where there are several nodes",
            });
        }
        if self.gpus_per_node > 1 && self.intra_gbps <= 0.0 {
            return Err(FactsError {
                field: "intra_gbps",
                seen: self.intra_gbps.to_string(),
                expected: "more than 0 where a node has several GPUs",
            });
        }
        Ok(())
    }
}
