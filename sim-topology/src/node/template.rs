//! The interior of a node, worked out once and stamped for every node.

use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate, Span};

use super::builder::Builder;
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
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateLink {
    pub(crate) from: TemplateEnd,
    pub(crate) to: TemplateEnd,
    pub(crate) class: LinkClass,
    pub(crate) rate: Rate,
    pub(crate) latency: Span,
    pub(crate) packet_overhead: Bytes,
    pub(crate) width: u32,
}

/// How the GPUs of a node are joined by NVLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NvlinkKind {
    /// Not at all.
    None,
    /// Through NVSwitches: the chips, and for each GPU its links up and down.
    Switched { chips: u32, width: u32, up: Vec<u32>, down: Vec<u32> },
    /// Directly: `link[a * gpus + b]`, `u32::MAX` where there is none.
    Direct { link: Vec<u32> },
}

/// A node's interior with local numbers.
#[derive(Clone, Debug)]
pub(crate) struct NodeTemplate {
    pub(crate) devices: Vec<TemplateDevice>,
    pub(crate) links: Vec<TemplateLink>,
    pub(crate) nvlink: NvlinkKind,
    pub(crate) gpus: u32,
    pub(crate) nics: u32,
    pub(crate) sockets: u32,
    pub(crate) nic_rate: Rate,
    pub(super) first: Firsts,
    /// `paths[a * devices + b]`: links over PCIe, sockets and C2C; empty if `a == b` or there is none.
    pub(super) paths: Vec<Box<[u32]>>,
    /// For each GPU the local device numbers of the NICs it uses, its own first.
    pub(crate) nics_of: Vec<Vec<u32>>,
    /// For each NIC the local number of the GPU nearest to it.
    pub(crate) gpu_of_nic: Vec<u32>,
    pub(crate) peer_to_peer: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Firsts {
    pub(super) socket: u32,
    pub(super) memory: u32,
    pub(super) nic: u32,
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

    pub(crate) fn path(&self, from: u32, to: u32) -> &[u32] {
        &self.paths[from as usize * self.devices.len() + to as usize]
    }

    /// The NVLink between two GPUs of a node or, with NVSwitches, of a domain: number of links, 0 if there is none.
    pub(crate) fn nvlinks(&self, a: u32, b: u32) -> u32 {
        match &self.nvlink {
            NvlinkKind::None => 0,
            NvlinkKind::Switched { width, .. } => *width,
            NvlinkKind::Direct { link } => match link[(a * self.gpus + b) as usize] {
                u32::MAX => 0,
                id => self.links[id as usize].width,
            },
        }
    }

    /// The class of the path over PCIe and sockets.
    pub(crate) fn host_class(&self, from: u32, to: u32) -> PathClass {
        if from == to {
            return PathClass::X;
        }
        let mut switches = 0;
        let mut sockets = 0;
        let mut count = |local: u32| match self.devices[local as usize].kind {
            DeviceKind::PcieSwitch => switches += 1,
            DeviceKind::Socket => sockets += 1,
            _ => {}
        };
        count(from);
        for &link in self.path(from, to) {
            if let TemplateEnd::Local(end) = self.links[link as usize].to {
                count(end);
            }
        }
        let (a, b) = (&self.devices[from as usize], &self.devices[to as usize]);
        let host = |kind| matches!(kind, DeviceKind::Socket | DeviceKind::HostMemory);
        match (switches, sockets) {
            (0..=1, 0) => PathClass::Pix,
            (_, 0) => PathClass::Pxb,
            (_, 1) if host(a.kind) || host(b.kind) => PathClass::Phb,
            (_, 1) if a.numa != b.numa => PathClass::Sys,
            (_, 1) if a.host_bridge.is_some() && a.host_bridge == b.host_bridge => PathClass::Phb,
            (_, 1) => PathClass::Node,
            _ => PathClass::Sys,
        }
    }

    /// Distance for the choice of a NIC: class, then links.
    fn distance(&self, from: u32, to: u32) -> (u8, usize) {
        (self.host_class(from, to).rank(), self.path(from, to).len())
    }

    /// The NIC nearest to a device, lowest number first; `None` without NICs.
    pub(crate) fn nearest_nic(&self, from: u32) -> Option<u32> {
        (0..self.nics).map(|n| self.nic(n)).min_by_key(|&nic| (self.distance(from, nic), nic))
    }
}

impl NodeTemplate {
    /// Deals the NICs to the GPUs: GPUs that see the same nearest NICs share them evenly, in order.
    pub(super) fn share_nics(&mut self) {
        let nearest: Vec<Vec<u32>> = (0..self.gpus)
            .map(|gpu| {
                let best = (0..self.nics).map(|n| self.host_class(gpu, self.nic(n)).rank()).min();
                let near = |&nic: &u32| Some(self.host_class(gpu, nic).rank()) == best;
                (0..self.nics).map(|n| self.nic(n)).filter(near).collect()
            })
            .collect();
        self.nics_of = (0..nearest.len())
            .map(|gpu| {
                let mine = &nearest[gpu];
                let sharing: Vec<usize> = (0..nearest.len()).filter(|&g| nearest[g] == *mine).collect();
                let position = sharing.iter().position(|&g| g == gpu).unwrap_or(0);
                let each = mine.len().div_ceil(sharing.len());
                let start = position * mine.len() / sharing.len();
                (0..each).map(|i| mine[(start + i) % mine.len()]).collect()
            })
            .collect();
        self.gpu_of_nic = (0..self.nics)
            .map(|n| {
                let nic = self.nic(n);
                let uses =
                    |gpu: u32| self.nics_of[gpu as usize].iter().position(|&own| own == nic).unwrap_or(usize::MAX);
                (0..self.gpus).min_by_key(|&gpu| (uses(gpu), self.distance(gpu, nic), gpu)).unwrap_or(0)
            })
            .collect();
    }
}
