//! Puts a node's interior together from its specification and the catalogue, checking as it goes.

use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate};

use super::check::homes;
use super::paths::{Limits, host_paths};
use super::pcie::SlotSpec;
use super::pcie_tree::Cards;
use super::template::{Direct, Firsts, NodeTemplate, TemplateDevice, TemplateEnd, TemplateLink};
use super::{NodeError, NodeSpec};
use crate::catalogue::Catalogue;
use crate::device::{DeviceKind, LinkClass};

/// A node's interior as it is put together.
pub(super) struct Builder<'a> {
    pub(super) spec: &'a NodeSpec,
    pub(super) catalogue: &'a Catalogue,
    pub(super) mtu: Bytes,
    pub(super) devices: Vec<TemplateDevice>,
    pub(super) links: Vec<TemplateLink>,
    pub(super) limits: Limits,
    /// What is worth saying about the node as built.
    pub(super) notes: Vec<String>,
    /// Links that no path takes.
    dead: Vec<u32>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(spec: &'a NodeSpec, catalogue: &'a Catalogue, mtu: Bytes) -> Result<Self, NodeError> {
        match spec.faults(catalogue).into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(Self::unchecked(spec, catalogue, mtu)),
        }
    }

    /// As [`new`](Self::new), of a specification that may have faults.
    pub(super) fn unchecked(spec: &'a NodeSpec, catalogue: &'a Catalogue, mtu: Bytes) -> Self {
        Self {
            spec,
            catalogue,
            mtu,
            devices: Vec::new(),
            links: Vec::new(),
            limits: Limits::default(),
            notes: Vec::new(),
            dead: Vec::new(),
        }
    }

    /// No path takes these links.
    pub(super) fn without(self, dead: &[u32]) -> Self {
        Self { dead: dead.to_vec(), ..self }
    }

    pub(super) fn build(mut self, domain_nodes: u32) -> Result<NodeTemplate, NodeError> {
        let spec = self.spec;
        let gpu = self.catalogue.gpu(&spec.gpu)?;
        let nic = match (&spec.nic, spec.nics) {
            (Some(name), _) => Some(self.catalogue.nic(name)?),
            (None, 0) => None,
            (None, n) => return Err(NodeError::Missing { key: "nic", because: format!("{n} NICs") }),
        };
        let nvme = match (&spec.nvme, spec.nvmes) {
            (Some(name), _) => Some(self.catalogue.nvme(name)?),
            (None, 0) => None,
            (None, n) => return Err(NodeError::Missing { key: "nvme", because: format!("{n} NVMe drives") }),
        };
        let nic_rate = spec.nic_rate.or_else(|| nic.map(|n| n.port_rate)).unwrap_or(Rate::gbit(1));

        let homes = homes(spec, &mut Vec::new());
        self.add_devices(&homes);
        let first = Firsts {
            socket: self.first_of(DeviceKind::Socket),
            memory: self.first_of(DeviceKind::HostMemory),
            nic: self.first_of(DeviceKind::Nic),
            nvme: self.first_of(DeviceKind::Nvme),
        };
        let cards = Cards {
            gpu: SlotSpec { generation: gpu.pcie_gen, lanes: gpu.pcie_lanes },
            nic: nic.map(|n| SlotSpec { generation: n.pcie_gen, lanes: n.pcie_lanes }),
            nvme,
        };
        self.add_pcie(&homes, first, &cards)?;
        self.add_c2c(gpu.c2c_rate, first)?;
        self.add_sockets_and_memory(first)?;
        let nvlink = self.add_scale_up(gpu, domain_nodes)?;
        self.add_limits(first)?;
        if spec.nics > 0 && spec.gpus > spec.nics && !spec.gpus.is_multiple_of(spec.nics) {
            self.notes.push(format!("{} GPUs share {} NICs unevenly: some NICs serve one more", spec.gpus, spec.nics));
        }
        for link in &mut self.links {
            // A catalogue or a user may state a rate of next to nothing; the engine has a floor.
            link.rate = link.rate.max(Rate::MIN);
        }
        let host = host_paths(&self.devices, &self.links, &self.dead, spec.acs, &self.limits);
        let mut template = NodeTemplate {
            devices: self.devices,
            links: self.links,
            nvlink,
            gpus: spec.gpus,
            nics: spec.nics,
            nvmes: spec.nvmes,
            sockets: spec.sockets,
            nic_rate,
            first,
            host,
            notes: self.notes,
            nics_of: Vec::new(),
            gpu_of_nic: Vec::new(),
            peer_to_peer: spec.peer_to_peer,
            peers_up_to: spec.peers_up_to,
            direct: Direct {
                able: spec.gpudirect_rdma,
                reads: gpu.sm >= 80 || spec.nvlink.is_some(),
                level: spec.gpudirect,
                c2c: spec.c2c.is_some(),
            },
        };
        template.share_nics(&spec.nic_policy);
        Ok(template)
    }

    fn first_of(&self, kind: DeviceKind) -> u32 {
        self.devices.iter().position(|d| d.kind == kind).unwrap_or(self.devices.len()) as u32
    }

    fn add_devices(&mut self, homes: &Homes) {
        let spec = self.spec;
        // The store that a root complex or a PCIe switch needs: a header, and for the root complex a whole TLP.
        let header = Forwarding::CutThrough { header: Bytes::new(24) };
        let tlp = Forwarding::CutThrough { header: spec.pcie_payload + Bytes::new(24) };
        let place = |home: Option<usize>, i: u32, of: u32| match home {
            Some(row) => {
                let root = root_row(spec, row);
                (
                    spec.pcie[root].socket,
                    spec.numa_of_row(row),
                    Some(spec.pcie[root].host_bridge.unwrap_or(root as u32)),
                )
            }
            None => {
                let socket = (u64::from(i) * u64::from(spec.sockets) / u64::from(of.max(1))) as u32;
                (socket, socket * spec.numa_per_socket, None)
            }
        };
        let mut push = |kind, index, forwarding, (socket, numa, host_bridge)| {
            self.devices.push(TemplateDevice { kind, index, forwarding, socket, numa, host_bridge, chip: None });
        };
        for i in 0..spec.gpus {
            push(DeviceKind::Gpu, i, Forwarding::Relay, place(homes.gpu[i as usize], i, spec.gpus));
        }
        let mut switches = 0;
        for (row, entry) in spec.pcie.iter().enumerate() {
            if entry.switch {
                push(DeviceKind::PcieSwitch, switches, header, place(Some(row), 0, 1));
                switches += 1;
            }
        }
        for s in 0..spec.sockets {
            push(DeviceKind::Socket, s, tlp, (s, s * spec.numa_per_socket, None));
        }
        for s in 0..spec.sockets {
            push(DeviceKind::HostMemory, s, Forwarding::Relay, (s, s * spec.numa_per_socket, None));
        }
        for i in 0..spec.nics {
            push(DeviceKind::Nic, i, Forwarding::StoreAndForward, place(homes.nic[i as usize], i, spec.nics));
        }
        for i in 0..spec.nvmes {
            push(DeviceKind::Nvme, i, Forwarding::Relay, place(homes.nvme[i as usize], i, spec.nvmes));
        }
        for (switch, entry) in (spec.gpus as usize..).zip(spec.pcie.iter().filter(|row| row.switch)) {
            self.devices[switch].chip = entry.chip;
        }
    }

    /// Adds both directions of a link between two devices of the node.
    pub(super) fn join(&mut self, a: u32, b: u32, link: TemplateLink) {
        let (a, b) = (TemplateEnd::Local(a), TemplateEnd::Local(b));
        self.links.push(TemplateLink { from: a, to: b, ..link });
        self.links.push(TemplateLink { from: b, to: a, ..link });
    }

    fn add_c2c(&mut self, rate: Option<Rate>, first: Firsts) -> Result<(), NodeError> {
        let Some(name) = &self.spec.c2c else { return Ok(()) };
        let row = self.catalogue.c2c(name)?;
        let link = TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::C2c,
            rate: rate.unwrap_or(row.link_rate),
            latency: self.catalogue.latency("c2c")?.latency,
            packet_overhead: row.header * self.mtu.get().div_ceil(row.payload.get().max(1)),
            parallel: 0,
            width: 1,
        };
        for gpu in 0..self.spec.gpus {
            let socket = first.socket + self.devices[gpu as usize].socket;
            self.join(gpu, socket, link);
        }
        Ok(())
    }
}

/// For each device the row of `pcie` on which it hangs.
pub(super) struct Homes {
    pub(super) gpu: Vec<Option<usize>>,
    pub(super) nic: Vec<Option<usize>>,
    pub(super) nvme: Vec<Option<usize>>,
}

/// The NUMA domain that `row` states, or the nearest of its parents that states one.
pub(super) fn numa_of(spec: &NodeSpec, row: usize) -> Option<u32> {
    let entry = &spec.pcie[row];
    let parent = entry.parent.and_then(|parent| usize::try_from(parent).ok()).filter(|&parent| parent < row);
    entry.numa.or_else(|| numa_of(spec, parent?))
}

/// The row at the top of the chain of parents of `row`.
pub(super) fn root_row(spec: &NodeSpec, row: usize) -> usize {
    let mut row = row;
    while let Some(parent) = spec.pcie[row].parent {
        match usize::try_from(parent) {
            Ok(parent) if parent < row => row = parent,
            _ => break,
        }
    }
    row
}
