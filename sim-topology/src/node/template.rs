//! The interior of a node, worked out once and stamped for every node.

use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate, Span};

use super::builder::Builder;
use super::paths::HostPaths;
use super::policy::{Bounce, GpudirectLevel, NicPolicy};
use super::{NodeError, NodeSpec};
use crate::catalogue::Catalogue;
use crate::device::{DeviceKind, LinkClass};
use crate::path_class::PathClass;

/// Where a template's link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateEnd {
    /// A device of the node.
    Local(u32),
    /// The NVSwitches of the node's domain.
    Plane,
}

#[derive(Clone, Debug)]
pub(crate) struct TemplateDevice {
    pub(crate) kind: DeviceKind,
    pub(crate) index: u32,
    pub(crate) forwarding: Forwarding,
    pub(crate) socket: u32,
    pub(crate) numa: u32,
    pub(super) host_bridge: Option<u32>,
    /// The switch chip of which it is a partition.
    pub(super) chip: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TemplateLink {
    pub(crate) from: TemplateEnd,
    pub(crate) to: TemplateEnd,
    pub(crate) class: LinkClass,
    pub(crate) rate: Rate,
    pub(crate) latency: Span,
    pub(crate) packet_overhead: Bytes,
    pub(crate) parallel: u32,
    pub(crate) width: u32,
}

/// How the GPUs of a node are joined by NVLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NvlinkKind {
    /// Not at all.
    None,
    /// Through NVSwitches: the chips, and for each GPU its links up and down.
    Switched { chips: u32, width: u32, up: Vec<u32>, down: Vec<u32>, lost: Vec<bool>, trunk: Option<Trunk> },
    /// Directly: `link[a * gpus + b]`, `u32::MAX` where there is none.
    Direct { link: Vec<u32> },
}

/// NVSwitches on several boards, joined by trunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trunk {
    /// Boards.
    pub(crate) boards: u32,
    /// GPUs of a board.
    pub(crate) per_board: u32,
    /// All links between two boards, one direction; its ends are filled in where the boards are.
    pub(crate) link: TemplateLink,
}

impl Trunk {
    /// The board of the GPU at this place in its domain.
    pub(crate) fn board(&self, place: u32) -> u32 {
        (place / self.per_board.max(1)).min(self.boards - 1)
    }
}

/// A node's interior with local numbers.
#[derive(Clone, Debug)]
pub(crate) struct NodeTemplate {
    pub(crate) devices: Vec<TemplateDevice>,
    pub(crate) links: Vec<TemplateLink>,
    pub(crate) nvlink: NvlinkKind,
    pub(crate) gpus: u32,
    pub(crate) nics: u32,
    pub(crate) nvmes: u32,
    pub(crate) sockets: u32,
    pub(crate) nic_rate: Rate,
    pub(super) first: Firsts,
    /// Paths over PCIe, sockets and C2C.
    pub(super) host: HostPaths,
    /// What is worth saying about the node as built: links below what a card could, more GPUs than NICs.
    pub(crate) notes: Vec<String>,
    /// For each GPU the local device numbers of the NICs it uses, its own first.
    pub(crate) nics_of: Vec<Vec<u32>>,
    /// For each NIC the local number of the GPU nearest to it.
    pub(crate) gpu_of_nic: Vec<u32>,
    pub(crate) peer_to_peer: bool,
    /// How far apart GPUs may be that reach each other directly.
    pub(crate) peers_up_to: PathClass,
    pub(super) direct: Direct,
}

/// What GPUDirect may do in a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    /// GPU, driver and NIC can.
    pub(super) able: bool,
    /// NICs may also read GPU memory: from Ampere on, or with NVLink.
    pub(super) reads: bool,
    /// How far.
    pub(super) level: GpudirectLevel,
    /// GPUs hang on their CPU by a chip-to-chip link.
    pub(super) c2c: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Firsts {
    pub(super) socket: u32,
    pub(super) memory: u32,
    pub(super) nic: u32,
    pub(super) nvme: u32,
}

impl NodeTemplate {
    /// Works out the interior of `spec` for packets of `mtu`; `domain_gpus` share its NVSwitches.
    pub(crate) fn new(
        spec: &NodeSpec,
        catalogue: &Catalogue,
        mtu: Bytes,
        domain_nodes: u32,
    ) -> Result<Self, NodeError> {
        Builder::new(spec, catalogue, mtu)?.build(domain_nodes)
    }

    pub(crate) fn gpu(&self, index: u32) -> u32 {
        index
    }

    pub(crate) fn socket(&self, index: u32) -> u32 {
        self.first.socket + index
    }

    pub(crate) fn memory(&self, index: u32) -> u32 {
        self.first.memory + index
    }

    pub(crate) fn nic(&self, index: u32) -> u32 {
        self.first.nic + index
    }

    pub(crate) fn nvme(&self, index: u32) -> u32 {
        self.first.nvme + index
    }

    /// Links over PCIe, sockets and C2C, as data go; empty if both are one or there is none.
    pub(crate) fn path(&self, from: u32, to: u32) -> &[u32] {
        &self.host.paths[from as usize * self.devices.len() + to as usize]
    }

    /// Whether data go straight between a GPU and a NIC or a drive, and why not if they don't.
    pub(crate) fn direct(&self, from: u32, to: u32) -> Result<(), Bounce> {
        let kind = |local: u32| self.devices[local as usize].kind;
        let (gpu, device) = match (kind(from), kind(to)) {
            (DeviceKind::Gpu, DeviceKind::Nic | DeviceKind::Nvme) => (from, to),
            (DeviceKind::Nic | DeviceKind::Nvme, DeviceKind::Gpu) => (to, from),
            _ => return Ok(()),
        };
        let Direct { able, reads, level, c2c } = self.direct;
        if !able {
            return Err(Bounce::Unable);
        }
        if gpu == from && !reads {
            return Err(Bounce::NoReads);
        }
        let class = self.host_class(gpu, device);
        let by_c2c = c2c && self.devices[gpu as usize].socket == self.devices[device as usize].socket;
        let needed = match class {
            PathClass::X | PathClass::Nvl(_) | PathClass::Xgmi(_) | PathClass::Pix => GpudirectLevel::Pix,
            PathClass::Pxb => GpudirectLevel::Pxb,
            PathClass::Phb | PathClass::Node if by_c2c => GpudirectLevel::P2c,
            PathClass::Phb | PathClass::Node => GpudirectLevel::Phb,
            PathClass::Sys | PathClass::Net => GpudirectLevel::Sys,
        };
        if needed <= level { Ok(()) } else { Err(Bounce::Far { class, level }) }
    }

    /// The NVLink between two GPUs of a node or, with NVSwitches, of a domain: number of links, 0 if there is none.
    pub(crate) fn nvlinks(&self, a: u32, b: u32) -> u32 {
        match &self.nvlink {
            NvlinkKind::None => 0,
            NvlinkKind::Switched { lost, .. } if lost[a as usize] || lost[b as usize] => 0,
            NvlinkKind::Switched { width, .. } => *width,
            NvlinkKind::Direct { link } => match link[(a * self.gpus + b) as usize] {
                u32::MAX => 0,
                id => self.links[id as usize].width,
            },
        }
    }

    /// The class of the path over PCIe and sockets.
    pub(crate) fn host_class(&self, from: u32, to: u32) -> PathClass {
        self.host.classes[from as usize * self.devices.len() + to as usize]
    }

    /// Distance for the choice of a NIC: class, then links.
    fn distance(&self, from: u32, to: u32) -> (u8, usize) {
        (self.host_class(from, to).rank(), self.path(from, to).len())
    }

    /// The trunks between boards of NVSwitches, if there are several.
    pub(crate) fn trunk(&self) -> Option<Trunk> {
        match &self.nvlink {
            NvlinkKind::Switched { trunk, .. } => *trunk,
            _ => None,
        }
    }

    /// The board of NVSwitches on which a GPU hangs, for the node of this number in its domain.
    pub(crate) fn board_of(&self, node: u32, gpu: u32) -> u32 {
        self.trunk().map_or(0, |t| t.board(node * self.gpus + gpu))
    }

    /// The class of the link from GPU to GPU that is neither PCIe nor the network.
    pub(crate) fn scale_up_class(&self, links: u32) -> PathClass {
        let xgmi = match &self.nvlink {
            NvlinkKind::Direct { link } => {
                link.iter().find(|&&l| l != u32::MAX).is_some_and(|&l| self.links[l as usize].class == LinkClass::Xgmi)
            }
            _ => false,
        };
        if xgmi { PathClass::Xgmi(links) } else { PathClass::Nvl(links) }
    }

    /// The NIC nearest to a device, lowest number first; `None` without NICs.
    pub(crate) fn nearest_nic(&self, from: u32) -> Option<u32> {
        (0..self.nics).map(|n| self.nic(n)).min_by_key(|&nic| (self.distance(from, nic), nic))
    }
}

impl NodeTemplate {
    /// Deals the NICs to the GPUs as the policy says, which was checked.
    pub(super) fn share_nics(&mut self, policy: &NicPolicy) {
        let (gpus, nics) = (self.gpus, self.nics);
        self.nics_of = match policy {
            _ if nics == 0 => vec![Vec::new(); gpus as usize],
            NicPolicy::Nearest => self.nearest_shared(),
            NicPolicy::RoundRobin => (0..gpus).map(|g| vec![self.nic(g % nics)]).collect(),
            NicPolicy::Fixed(nic) => vec![vec![self.nic(*nic)]; gpus as usize],
            NicPolicy::Map(map) => map.iter().map(|list| list.iter().map(|&nic| self.nic(nic)).collect()).collect(),
        };
        self.find_gpus_of_nics();
    }

    /// For each NIC the GPU that uses it first, or else the nearest.
    pub(super) fn find_gpus_of_nics(&mut self) {
        self.gpu_of_nic = (0..self.nics)
            .map(|n| {
                let nic = self.nic(n);
                let uses =
                    |gpu: u32| self.nics_of[gpu as usize].iter().position(|&own| own == nic).unwrap_or(usize::MAX);
                (0..self.gpus).min_by_key(|&gpu| (uses(gpu), self.distance(gpu, nic), gpu)).unwrap_or(0)
            })
            .collect();
    }

    /// GPUs that see the same nearest NICs share them evenly, in order.
    fn nearest_shared(&self) -> Vec<Vec<u32>> {
        let nearest: Vec<Vec<u32>> = (0..self.gpus)
            .map(|gpu| {
                let best = (0..self.nics).map(|n| self.host_class(gpu, self.nic(n)).rank()).min();
                let near = |&nic: &u32| Some(self.host_class(gpu, nic).rank()) == best;
                (0..self.nics).map(|n| self.nic(n)).filter(near).collect()
            })
            .collect();
        (0..nearest.len())
            .map(|gpu| {
                let mine = &nearest[gpu];
                let sharing: Vec<usize> = (0..nearest.len()).filter(|&g| nearest[g] == *mine).collect();
                let position = sharing.iter().position(|&g| g == gpu).unwrap_or(0);
                let each = mine.len().div_ceil(sharing.len());
                let start = position * mine.len() / sharing.len();
                (0..each).map(|i| mine[(start + i) % mine.len()]).collect()
            })
            .collect()
    }
}
