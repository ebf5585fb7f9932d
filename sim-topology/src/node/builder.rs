//! Puts a node's interior together from its specification and the catalogue, checking as it goes.

use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate, Span};

use super::pcie::{Member, SlotSpec, members};
use super::template::{Firsts, NodeTemplate, NvlinkKind, TemplateDevice, TemplateEnd, TemplateLink};
use super::{NodeError, NodeSpec};
use crate::catalogue::{Catalogue, Gpu, Row};
use crate::device::{DeviceKind, LinkClass};

/// A node's interior as it is put together.
pub(super) struct Builder<'a> {
    spec: &'a NodeSpec,
    catalogue: &'a Catalogue,
    mtu: Bytes,
    devices: Vec<TemplateDevice>,
    links: Vec<TemplateLink>,
}

/// Latency that an end of a host-side link contributes.
struct Ends {
    gpu: Span,
    pcie_switch: Span,
    socket: Span,
    nic: Span,
}

impl Ends {
    fn of(&self, kind: DeviceKind) -> Span {
        match kind {
            DeviceKind::Gpu => self.gpu,
            DeviceKind::PcieSwitch => self.pcie_switch,
            DeviceKind::Socket => self.socket,
            DeviceKind::Nic => self.nic,
            _ => Span::ZERO,
        }
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(spec: &'a NodeSpec, catalogue: &'a Catalogue, mtu: Bytes) -> Result<Self, NodeError> {
        let rows = u32::try_from(spec.pcie.len()).unwrap_or(u32::MAX);
        let counts = [
            ("gpus", spec.gpus, 1, 64),
            ("nics", spec.nics, 0, 256),
            ("sockets", spec.sockets, 1, 16),
            ("the number of rows of `pcie`", rows, 0, 512),
        ];
        for (what, got, least, most) in counts {
            if got < least || got > most {
                return Err(NodeError::Count { what, got, least, most });
            }
        }
        if spec.pcie_payload.get() == 0 || spec.pcie_payload.get() > 4096 {
            let got = u32::try_from(spec.pcie_payload.get()).unwrap_or(u32::MAX);
            return Err(NodeError::Count { what: "pcie_payload", got, least: 1, most: 4096 });
        }
        Ok(Self { spec, catalogue, mtu, devices: Vec::new(), links: Vec::new() })
    }

    pub(super) fn build(mut self, domain_nodes: u32) -> Result<NodeTemplate, NodeError> {
        let spec = self.spec;
        let gpu = self.catalogue.gpu(&spec.gpu)?;
        let nic = match (&spec.nic, spec.nics) {
            (Some(name), _) => Some(self.catalogue.nic(name)?),
            (None, 0) => None,
            (None, n) => return Err(NodeError::Missing { key: "nic", because: format!("{n} NICs") }),
        };
        let nic_rate = spec.nic_rate.or_else(|| nic.map(|n| n.port_rate)).unwrap_or(Rate::gbit(1));

        let homes = self.homes()?;
        self.add_devices(&homes);
        let first = Firsts {
            socket: self.first_of(DeviceKind::Socket),
            memory: self.first_of(DeviceKind::HostMemory),
            nic: self.first_of(DeviceKind::Nic),
        };
        let gpu_slot = SlotSpec { generation: gpu.pcie_gen, lanes: gpu.pcie_lanes };
        let nic_slot = nic.map(|n| SlotSpec { generation: n.pcie_gen, lanes: n.pcie_lanes });
        self.add_pcie(&homes, first, gpu_slot, nic_slot)?;
        self.add_c2c(gpu.c2c_rate, first)?;
        self.add_sockets_and_memory(first)?;
        let nvlink = self.add_nvlink(gpu, domain_nodes)?;
        for link in &mut self.links {
            // A catalogue or a user may state a rate of next to nothing; the engine has a floor.
            link.rate = link.rate.max(Rate::MIN);
        }
        let paths = all_paths(&self.devices, &self.links);
        let mut template = NodeTemplate {
            devices: self.devices,
            links: self.links,
            nvlink,
            gpus: spec.gpus,
            nics: spec.nics,
            sockets: spec.sockets,
            nic_rate,
            first,
            paths,
            nics_of: Vec::new(),
            gpu_of_nic: Vec::new(),
            peer_to_peer: spec.peer_to_peer,
        };
        template.share_nics();
        Ok(template)
    }

    fn first_of(&self, kind: DeviceKind) -> u32 {
        self.devices.iter().position(|d| d.kind == kind).unwrap_or(self.devices.len()) as u32
    }

    /// For each GPU and NIC the row of `pcie` on which it hangs.
    fn homes(&self) -> Result<Homes, NodeError> {
        let spec = self.spec;
        let mut homes = Homes { gpu: vec![None; spec.gpus as usize], nic: vec![None; spec.nics as usize] };
        for (row, entry) in spec.pcie.iter().enumerate() {
            for text in &entry.down {
                let bad = || NodeError::BadMember { text: text.chars().take(60).collect(), row };
                for member in members(text).ok_or_else(bad)? {
                    let (kind, index, slots) = match member {
                        Member::Gpu(i) => (DeviceKind::Gpu, i, &mut homes.gpu),
                        Member::Nic(i) => (DeviceKind::Nic, i, &mut homes.nic),
                    };
                    let count = slots.len() as u32;
                    match slots.get_mut(index as usize) {
                        None => return Err(NodeError::NoSuchMember { kind, index, count, row }),
                        Some(Some(first)) => return Err(NodeError::Twice { kind, index, first: *first, second: row }),
                        Some(slot) => *slot = Some(row),
                    }
                }
            }
        }
        if let Some(i) = homes.nic.iter().position(Option::is_none) {
            return Err(NodeError::Loose { kind: DeviceKind::Nic, index: i as u32 });
        }
        if spec.c2c.is_none()
            && let Some(i) = homes.gpu.iter().position(Option::is_none)
        {
            return Err(NodeError::Loose { kind: DeviceKind::Gpu, index: i as u32 });
        }
        Ok(homes)
    }

    fn add_devices(&mut self, homes: &Homes) {
        let spec = self.spec;
        // The store that a root complex or a PCIe switch needs: a header, and for the root complex a whole TLP.
        let header = Forwarding::CutThrough { header: Bytes::new(24) };
        let tlp = Forwarding::CutThrough { header: spec.pcie_payload + Bytes::new(24) };
        let place = |home: Option<usize>, i: u32, of: u32| match home {
            Some(row) => {
                let entry = &spec.pcie[row];
                let root = root_row(spec, row);
                (
                    entry.socket,
                    entry.numa.unwrap_or(entry.socket),
                    Some(spec.pcie[root].host_bridge.unwrap_or(root as u32)),
                )
            }
            None => {
                let socket = (u64::from(i) * u64::from(spec.sockets) / u64::from(of.max(1))) as u32;
                (socket, socket, None)
            }
        };
        let mut push = |kind, index, forwarding, (socket, numa, host_bridge)| {
            self.devices.push(TemplateDevice { kind, index, forwarding, socket, numa, host_bridge });
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
            push(DeviceKind::Socket, s, tlp, (s, s, None));
        }
        for s in 0..spec.sockets {
            push(DeviceKind::HostMemory, s, Forwarding::Relay, (s, s, None));
        }
        for i in 0..spec.nics {
            push(DeviceKind::Nic, i, Forwarding::StoreAndForward, place(homes.nic[i as usize], i, spec.nics));
        }
    }

    /// Adds both directions of a link between two devices of the node.
    fn join(&mut self, a: u32, b: u32, link: TemplateLink) {
        let (a, b) = (TemplateEnd::Local(a), TemplateEnd::Local(b));
        self.links.push(TemplateLink { from: a, to: b, ..link });
        self.links.push(TemplateLink { from: b, to: a, ..link });
    }

    fn pcie_link(&self, slot: SlotSpec, latency: Span) -> Result<TemplateLink, NodeError> {
        let row = self.catalogue.pcie(slot.generation)?;
        let packets = self.mtu.get().div_ceil(self.spec.pcie_payload.get());
        Ok(TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::Pcie,
            rate: Rate::bytes_per_sec(row.lane_rate.get().saturating_mul(u64::from(slot.lanes))),
            latency,
            packet_overhead: row.tlp_overhead * packets,
            width: slot.lanes,
        })
    }

    fn add_pcie(
        &mut self,
        homes: &Homes,
        first: Firsts,
        gpu_slot: SlotSpec,
        nic_slot: Option<SlotSpec>,
    ) -> Result<(), NodeError> {
        let spec = self.spec;
        let latency = |name| self.catalogue.latency(name).map(|row| row.latency);
        let ends = Ends {
            gpu: latency("gpu")?,
            pcie_switch: latency("pcie-switch")?,
            socket: latency("socket")?,
            nic: latency("nic-host")?,
        };
        let mut switch_of: Vec<Option<u32>> = Vec::with_capacity(spec.pcie.len());
        let mut next = spec.gpus;
        for entry in &spec.pcie {
            switch_of.push(entry.switch.then_some(next));
            next += u32::from(entry.switch);
        }
        for (row, entry) in spec.pcie.iter().enumerate() {
            let slot = entry.slot.unwrap_or(entry.uplink);
            for lanes in [entry.uplink.lanes, slot.lanes] {
                if !matches!(lanes, 1 | 2 | 4 | 8 | 16) {
                    return Err(NodeError::Lanes { row, lanes });
                }
            }
            let above = match entry.parent {
                None if entry.socket < spec.sockets => first.socket + entry.socket,
                None => {
                    let count = spec.sockets as usize;
                    return Err(NodeError::NoSuchParent { row, what: "socket", index: entry.socket, count });
                }
                // Only rows above: a cycle cannot be written.
                Some(parent) => {
                    match switch_of.get(parent as usize).copied().flatten().filter(|_| (parent as usize) < row) {
                        Some(switch) => switch,
                        None => {
                            return Err(NodeError::NoSuchParent { row, what: "switch row", index: parent, count: row });
                        }
                    }
                }
            };
            let (holder, holder_slot) = match switch_of[row] {
                Some(switch) => {
                    let above_kind = self.devices[above as usize].kind;
                    let alpha = ends.of(DeviceKind::PcieSwitch) + ends.of(above_kind);
                    let link = self.pcie_link(entry.uplink, alpha)?;
                    self.join(switch, above, link);
                    (switch, slot)
                }
                None => (above, entry.uplink),
            };
            let here = |homes: &[Option<usize>]| -> Vec<u32> {
                (0..homes.len() as u32).filter(|&i| homes[i as usize] == Some(row)).collect()
            };
            let holder_end = ends.of(self.devices[holder as usize].kind);
            for gpu in here(&homes.gpu) {
                let link = self.pcie_link(holder_slot.negotiate(gpu_slot), ends.gpu + holder_end)?;
                self.join(gpu, holder, link);
            }
            for nic in here(&homes.nic) {
                let slot = nic_slot.map_or(holder_slot, |s| holder_slot.negotiate(s));
                let link = self.pcie_link(slot, ends.nic + holder_end)?;
                self.join(first.nic + nic, holder, link);
            }
        }
        Ok(())
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
            width: 1,
        };
        for gpu in 0..self.spec.gpus {
            let socket = first.socket + self.devices[gpu as usize].socket;
            self.join(gpu, socket, link);
        }
        Ok(())
    }

    fn add_sockets_and_memory(&mut self, first: Firsts) -> Result<(), NodeError> {
        let spec = self.spec;
        let staged = if spec.peer_to_peer { "memory" } else { "staging" };
        let mut link = TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::Memory,
            rate: spec.memory.unwrap_or(Rate::gbyte(200)),
            latency: self.catalogue.latency(staged)?.latency,
            packet_overhead: Bytes::ZERO,
            width: 1,
        };
        for s in 0..spec.sockets {
            self.join(first.socket + s, first.memory + s, link);
        }
        if spec.sockets < 2 {
            return Ok(());
        }
        let Some(between) = &spec.socket_link else {
            return Err(NodeError::Missing { key: "socket_link", because: format!("{} sockets", spec.sockets) });
        };
        if between.links == 0 || between.links > 64 {
            return Err(NodeError::Count { what: "socket_link.links", got: between.links, least: 1, most: 64 });
        }
        let row = self.catalogue.socket_link(&between.name)?;
        link.class = LinkClass::SocketLink;
        link.rate = Rate::bytes_per_sec(row.link_rate.get().saturating_mul(u64::from(between.links)));
        link.latency = self.catalogue.latency("socket-link")?.latency;
        link.width = between.links;
        for a in 0..spec.sockets {
            for b in a + 1..spec.sockets {
                self.join(first.socket + a, first.socket + b, link);
            }
        }
        Ok(())
    }

    fn add_nvlink(&mut self, gpu: &Row<Gpu>, domain_nodes: u32) -> Result<NvlinkKind, NodeError> {
        let spec = self.spec;
        let Some(wiring) = &spec.nvlink else { return Ok(NvlinkKind::None) };
        let generation = match gpu.nvlink_gen {
            Some(generation) => self.catalogue.nvlink(generation)?,
            None => return Err(NodeError::TooManyNvlinks { gpu: 0, model: gpu.name.clone(), used: 1, has: 0 }),
        };
        let overhead = generation.header * self.mtu.get().div_ceil(generation.payload.get().max(1));
        let nominal = u128::from(generation.link_rate.get());
        let wired: u64 = wiring.links.iter().map(|&n| u64::from(n)).sum();
        let all = u128::from(if wired > 0 { wired } else { u64::from(gpu.nvlinks) }).max(1);
        let rate = |links: u32| {
            let bytes = match wiring.rate {
                Some(rate) => u128::from(rate.get()) * u128::from(links) / all,
                None => nominal * u128::from(links),
            };
            Rate::bytes_per_sec(u64::try_from(bytes).unwrap_or(u64::MAX))
        };
        let bundle = |links: u32, latency| TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::NvLink,
            rate: rate(links),
            latency,
            packet_overhead: overhead,
            width: links,
        };
        let fits = |index: u32, used: u64| {
            if used > u64::from(gpu.nvlinks) {
                Err(NodeError::TooManyNvlinks { gpu: index, model: gpu.name.clone(), used, has: gpu.nvlinks })
            } else {
                Ok(())
            }
        };
        match (&wiring.chip, wiring.links.is_empty(), wiring.pairs.is_empty()) {
            (Some(chip), false, true) => {
                let chip = self.catalogue.nvswitch(chip)?;
                let used: u64 = wiring.links.iter().map(|&n| u64::from(n)).sum();
                fits(0, used)?;
                if used == 0 {
                    return Err(NodeError::NvlinkForm);
                }
                let gpus = spec.gpus.saturating_mul(domain_nodes);
                for (i, &each) in wiring.links.iter().enumerate() {
                    let used = u64::from(each) * u64::from(gpus);
                    if used > u64::from(chip.ports) {
                        let (model, has) = (chip.name.clone(), chip.ports);
                        return Err(NodeError::TooManySwitchPorts { chip: i, gpus, each, used, model, has });
                    }
                }
                let link = bundle(used as u32, self.catalogue.latency("nvlink-switched")?.latency);
                let (mut up, mut down) = (Vec::new(), Vec::new());
                for g in 0..spec.gpus {
                    up.push(self.links.len() as u32);
                    self.links.push(TemplateLink { from: TemplateEnd::Local(g), ..link });
                    down.push(self.links.len() as u32);
                    self.links.push(TemplateLink { to: TemplateEnd::Local(g), ..link });
                }
                Ok(NvlinkKind::Switched { chips: wiring.links.len() as u32, width: used as u32, up, down })
            }
            (None, true, false) => {
                let latency = self.catalogue.latency("nvlink-direct")?.latency;
                let n = spec.gpus;
                let mut link = vec![u32::MAX; (n * n) as usize];
                let mut used = vec![0u64; n as usize];
                for &pair in &wiring.pairs {
                    let [a, b, links] = pair;
                    if a >= n || b >= n || a == b || links == 0 || link[(a * n + b) as usize] != u32::MAX {
                        return Err(NodeError::BadPair { pair });
                    }
                    for end in [a, b] {
                        used[end as usize] += u64::from(links);
                        fits(end, used[end as usize])?;
                    }
                    link[(a * n + b) as usize] = self.links.len() as u32;
                    link[(b * n + a) as usize] = self.links.len() as u32 + 1;
                    self.join(a, b, bundle(links, latency));
                }
                Ok(NvlinkKind::Direct { link })
            }
            _ => Err(NodeError::NvlinkForm),
        }
    }
}

struct Homes {
    gpu: Vec<Option<usize>>,
    nic: Vec<Option<usize>>,
}

/// The row at the top of the chain of parents of `row`.
fn root_row(spec: &NodeSpec, row: usize) -> usize {
    let mut row = row;
    while let Some(parent) = spec.pcie[row].parent {
        match usize::try_from(parent) {
            Ok(parent) if parent < row => row = parent,
            _ => break,
        }
    }
    row
}

/// Shortest paths in links between all devices of a node, over all links but NVLink; only switches and sockets
/// forward. Among equal ones the one over the links that were added first.
fn all_paths(devices: &[TemplateDevice], links: &[TemplateLink]) -> Vec<Box<[u32]>> {
    let n = devices.len();
    let mut out: Vec<Vec<(u32, usize)>> = vec![Vec::new(); n];
    for (id, link) in links.iter().enumerate() {
        if let (TemplateEnd::Local(from), TemplateEnd::Local(to)) = (link.from, link.to)
            && link.class != LinkClass::NvLink
        {
            out[from as usize].push((id as u32, to as usize));
        }
    }
    let mut paths: Vec<Box<[u32]>> = vec![Box::default(); n * n];
    for source in 0..n {
        let mut queue = std::collections::VecDeque::from([source]);
        let mut seen = vec![false; n];
        seen[source] = true;
        while let Some(at) = queue.pop_front() {
            if at != source && !devices[at].kind.forwards_in_node() {
                continue;
            }
            for &(link, to) in &out[at] {
                if !seen[to] {
                    seen[to] = true;
                    let mut path = paths[source * n + at].to_vec();
                    path.push(link);
                    paths[source * n + to] = path.into();
                    queue.push_back(to);
                }
            }
        }
    }
    paths
}
