//! From a specification to a frozen fabric.

use petgraph::unionfind::UnionFind;
use sim_core::ids::LinkId;
use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate, Span};

use super::blueprint::{Blueprint, MOST_PORTS, Site};
use super::{BuildError, Fabric, FabricKind, FabricSpec, PathChoice, SwitchRoutes, TransportKind, kinds};
use crate::catalogue::{Catalogue, Family, Row, Switch, TransportPreset};
use crate::device::{Device, DeviceId, DeviceKind, Link, LinkClass, Node};
use crate::faults::Ailments;
use crate::node::{NodeSpec, NodeTemplate, NvlinkKind, TemplateEnd};

/// The most nodes of a fabric; a million GPUs.
const MOST_NODES: u32 = 131_072;

/// Everything that is known before devices are numbered.
struct Frame<'a> {
    spec: &'a FabricSpec,
    node: NodeSpec,
    template: NodeTemplate,
    blueprint: Blueprint,
    /// Switch models by tier; none without a network.
    models: Option<[&'a Row<Switch>; 3]>,
    per_domain: u32,
    mtu: Bytes,
    network: NetworkCosts,
}

struct NetworkCosts {
    overhead: Bytes,
    /// The latency of every link, if one is stated.
    any: Option<Span>,
    nic_end: Span,
    nic_wire: Span,
    switch_wire: Span,
    core_wire: Span,
}

pub(super) fn build(spec: &FabricSpec, catalogue: &Catalogue) -> Result<Fabric, BuildError> {
    let frame = frame(spec, catalogue)?;
    let mut parts = Parts::default();
    for node in 0..spec.nodes {
        parts.add_node(&frame, node);
    }
    parts.add_network(&frame);
    check_connected(&parts)?;
    Ok(freeze(frame, parts))
}

fn frame<'a>(spec: &'a FabricSpec, catalogue: &'a Catalogue) -> Result<Frame<'a>, BuildError> {
    if spec.nodes == 0 || spec.nodes > MOST_NODES {
        let expected = format!("from 1 to {MOST_NODES}");
        return Err(BuildError::Range { what: "nodes", got: spec.nodes.to_string(), expected });
    }
    let core_cable_m = spec.core_cable_m.unwrap_or(spec.switch_cable_m);
    let runs =
        [("nic_cable_m", spec.nic_cable_m), ("switch_cable_m", spec.switch_cable_m), ("core_cable_m", core_cable_m)];
    for (what, metres) in runs {
        if !metres.is_finite() || !(0.0..=100_000.0).contains(&metres) {
            return Err(BuildError::Range {
                what,
                got: metres.to_string(),
                expected: "from 0 to 100000 metres".into(),
            });
        }
    }
    let transport = catalogue.transport(spec.transport.as_str())?;
    let mtu = spec.mtu.unwrap_or(transport.mtu);
    if !(256..=65_536).contains(&mtu.get()) {
        return Err(BuildError::Range { what: "mtu", got: mtu.to_string(), expected: "from 256 B to 64 KiB".into() });
    }
    let node = adapt(spec)?;
    let per_domain = nodes_per_domain(spec, &node)?;
    let template = NodeTemplate::new(&node, catalogue, mtu, per_domain)?;
    if template.nics == 0 && spec.nodes > per_domain {
        return Err(BuildError::NoNics { nodes: spec.nodes, domain: per_domain });
    }
    let rails = template.nics;
    let (models, blueprint) = if spec.nodes > 1 && rails > 0 {
        let site = site(spec, catalogue, transport, &node, &template)?;
        (Some(site.models), kinds::draw(&site)?)
    } else {
        (None, Blueprint::none(spec, rails))
    };
    let network = costs(spec, catalogue, transport, &blueprint)?;
    Ok(Frame { spec, node, template, blueprint, models, per_domain, mtu, network })
}

/// What the network is drawn with: the ports of the NICs, the switch models and the rates of the links.
fn site<'a>(
    spec: &'a FabricSpec,
    catalogue: &'a Catalogue,
    transport: &TransportPreset,
    node: &NodeSpec,
    template: &NodeTemplate,
) -> Result<Site<'a>, BuildError> {
    let splits = kinds::usual_ports(spec.fabric) > 1;
    // A NIC of several ports drives them all where each has a cable.
    let card =
        if node.nic_rate.is_none() { node.nic.as_ref().map(|name| catalogue.nic(name)).transpose()? } else { None };
    let nic_rate = match card {
        Some(card) if splits => Rate::bytes_per_sec(card.port_rate.get().saturating_mul(card.ports.into())),
        _ => template.nic_rate,
    };
    let shares_spines = spec.fabric == FabricKind::DualTor && spec.planes == Some(1);
    let ports = if splits && !shares_spines { spec.planes } else { None };
    let ports = ports.unwrap_or(kinds::usual_ports(spec.fabric));
    if splits {
        // A card has the ports that the catalogue says; NICs that are stated by their rate have lanes of 100 Gb/s.
        let lanes = (nic_rate.get() / Rate::gbit(100).get()).min(MOST_PORTS.into()) as u32;
        let most = card.map_or(lanes, |card| card.max_ports.unwrap_or(1).max(card.ports)).max(1);
        if ports == 0 || ports > most {
            let nic = card.map_or_else(|| format!("a NIC of {nic_rate}"), |card| card.title.clone());
            let name = card.map(|card| card.name.clone());
            return Err(BuildError::Planes { planes: ports, nic, name, most });
        }
    }
    let port_rate = Rate::bytes_per_sec(nic_rate.get() / u64::from(ports));
    let leaf = pick_switch(spec, catalogue, transport, port_rate)?;
    let named = |name: &Option<String>, other| match name {
        Some(name) => catalogue.switch(name),
        None => Ok(other),
    };
    let spine = named(&spec.spine_switch, leaf)?;
    let core = named(&spec.core_switch, spine)?;
    for (what, rate) in [("uplink_rate", spec.uplink_rate), ("core_rate", spec.core_rate)] {
        if let Some(rate) = rate.filter(|&rate| rate < Rate::MIN) {
            let (got, expected) = (rate.to_string(), "a link carries at least 1 kB/s".to_owned());
            return Err(BuildError::Range { what, got, expected });
        }
    }
    let nic = port_rate.min(leaf.port_rate);
    let uplink = spec.uplink_rate.unwrap_or(nic).min(leaf.port_rate).min(spine.port_rate);
    let core_link = spec.core_rate.unwrap_or(uplink).min(spine.port_rate).min(core.port_rate);
    Ok(Site { spec, rails: template.nics, ports, models: [leaf, spine, core], rates: [nic, uplink, core_link] })
}

/// The node with the GPUs and NICs that the fabric asks for.
pub(super) fn adapt(spec: &FabricSpec) -> Result<NodeSpec, BuildError> {
    let mut node = spec.node.clone();
    if let Some(gpus) = spec.gpus_per_node {
        if gpus == 0 || gpus > node.gpus {
            let (got, expected) = (gpus.to_string(), format!("the node has {} GPUs", node.gpus));
            return Err(BuildError::Range { what: "gpus_per_node", got, expected });
        }
        node = node.with_gpus(gpus);
    }
    if let Some(nics) = spec.nics {
        if nics.count == 0 || nics.count > 256 {
            let (got, expected) = (nics.count.to_string(), "a node has 1 to 256 NICs".to_owned());
            return Err(BuildError::Range { what: "nics.count", got, expected });
        }
        if nics.rate < Rate::MIN {
            let (got, expected) = (nics.rate.to_string(), "a NIC carries at least 1 kB/s".to_owned());
            return Err(BuildError::Range { what: "nics.rate", got, expected });
        }
        node = node.with_nics(nics.count, nics.rate);
    }
    Ok(node)
}

fn nodes_per_domain(spec: &FabricSpec, node: &NodeSpec) -> Result<u32, BuildError> {
    let most = if node.nvlink.is_some() { node.max_nodes_per_domain.max(1) } else { 1 };
    match spec.nodes_per_domain {
        Some(n) if n == 0 || n > most => {
            let expected = format!("an NVLink domain of these nodes spans 1 to {most}");
            Err(BuildError::Range { what: "nodes_per_domain", got: n.to_string(), expected })
        }
        Some(n) if !spec.nodes.is_multiple_of(n.min(spec.nodes)) => {
            Err(BuildError::Domains { nodes: spec.nodes, per_domain: n })
        }
        Some(n) => Ok(n.min(spec.nodes)),
        // Full racks, and a last one that may be smaller.
        None => Ok(most.min(spec.nodes)),
    }
}

/// The named switch, or the one usual for the transport and the rate of the NICs.
fn pick_switch<'a>(
    spec: &FabricSpec,
    catalogue: &'a Catalogue,
    transport: &TransportPreset,
    rate: Rate,
) -> Result<&'a Row<Switch>, BuildError> {
    if let Some(name) = &spec.switch {
        return Ok(catalogue.switch(name)?);
    }
    let name = match transport.family {
        Family::Ethernet => "sn5600",
        Family::Infiniband if rate <= Rate::gbit(100) => "sb7800",
        Family::Infiniband if rate <= Rate::gbit(200) => "qm8700",
        Family::Infiniband if rate <= Rate::gbit(400) => "qm9700",
        Family::Infiniband => "q3400",
    };
    Ok(catalogue.switch(name)?)
}

fn costs(
    spec: &FabricSpec,
    catalogue: &Catalogue,
    transport: &TransportPreset,
    blueprint: &Blueprint,
) -> Result<NetworkCosts, BuildError> {
    let plan = &blueprint.plan;
    let wire = |metres: f64, rate: Rate| -> Result<Span, BuildError> {
        let fec = match rate {
            r if r <= Rate::gbit(100) => "fec-100g",
            r if r <= Rate::gbit(200) => "fec-200g",
            r if r <= Rate::gbit(400) => "fec-400g",
            _ => "fec-800g",
        };
        let per_m = catalogue.cable(metres)?.delay_per_m;
        Ok(Span::from_us_f64(per_m.as_us() * metres) + catalogue.latency(fec)?.latency)
    };
    Ok(NetworkCosts {
        overhead: spec.packet_overhead.unwrap_or(transport.packet_overhead),
        any: spec.link_latency,
        nic_end: catalogue.latency("nic-port")?.latency + transport.extra_per_side,
        nic_wire: wire(spec.nic_cable_m, plan.rate)?,
        switch_wire: wire(spec.switch_cable_m, plan.uplink_rate)?,
        core_wire: wire(spec.core_cable_m.unwrap_or(spec.switch_cable_m), plan.core_rate)?,
    })
}

/// Devices and links as they are added.
#[derive(Default)]
struct Parts {
    devices: Vec<Device>,
    links: Vec<Link>,
    nodes: Vec<Node>,
    /// The NVSwitches of each domain; `None` without NVSwitches.
    planes: Vec<Option<DeviceId>>,
    /// The leaf of each NIC port, and the links to and from it: `[(node * NICs + NIC) * ports + port]`.
    attach: Vec<Attach>,
    first_switch: u32,
    /// The first link between switches.
    first_link: u32,
}

/// Where a NIC port is cabled to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attach {
    pub(crate) leaf: DeviceId,
    pub(crate) up: LinkId,
    pub(crate) down: LinkId,
    /// Its number among the NIC ports of its leaf.
    pub(crate) position: u32,
}

impl Parts {
    fn device(
        &mut self,
        kind: DeviceKind,
        node: Option<u32>,
        index: u32,
        name: String,
        forwarding: Forwarding,
    ) -> DeviceId {
        let id = DeviceId(self.devices.len() as u32);
        self.devices.push(Device { kind, node, index, name, forwarding, ports_used: 0, ports: 0, alive: true });
        id
    }

    fn add_node(&mut self, frame: &Frame<'_>, number: u32) {
        let template = &frame.template;
        let first_device = self.devices.len() as u32;
        let domain = number / frame.per_domain;
        for d in &template.devices {
            let name = format!("node{number}.{}{}", d.kind, d.index);
            self.device(d.kind, Some(number), d.index, name, d.forwarding);
        }
        if number.is_multiple_of(frame.per_domain) {
            let plane = match &template.nvlink {
                NvlinkKind::Switched { .. } => Some(self.add_plane(frame, number, domain)),
                _ => None,
            };
            self.planes.push(plane);
        }
        let first_link = self.links.len() as u32;
        let plane = self.planes[domain as usize];
        let place = |end: TemplateEnd, other: TemplateEnd| match (end, other, plane) {
            (TemplateEnd::Local(local), ..) => DeviceId(first_device + local),
            (TemplateEnd::Plane, TemplateEnd::Local(gpu), Some(plane)) => {
                DeviceId(plane.0 + frame.template.board_of(number % frame.per_domain, gpu))
            }
            _ => unreachable!("links to NVSwitches come with NVSwitches, from GPUs"),
        };
        for l in &template.links {
            self.links.push(Link {
                from: place(l.from, l.to),
                to: place(l.to, l.from),
                class: l.class,
                rate: l.rate,
                latency: l.latency,
                packet_overhead: l.packet_overhead,
                parallel: l.parallel,
                width: l.width,
                alive: true,
            });
        }
        let all = |count: u32, of: fn(&NodeTemplate, u32) -> u32| -> Vec<DeviceId> {
            (0..count).map(|i| DeviceId(first_device + of(template, i))).collect()
        };
        self.nodes.push(Node {
            gpus: all(template.gpus, NodeTemplate::gpu),
            nics: all(template.nics, NodeTemplate::nic),
            sockets: all(template.sockets, NodeTemplate::socket),
            memories: all(template.sockets, NodeTemplate::memory),
            nvmes: all(template.nvmes, NodeTemplate::nvme),
            domain,
            template: 0,
            first_device,
            first_link,
        });
    }

    /// The NVSwitches of a domain: one device, or one a board and the trunks between them.
    fn add_plane(&mut self, frame: &Frame<'_>, node: u32, domain: u32) -> DeviceId {
        let forwarding = Forwarding::CutThrough { header: Bytes::new(16) };
        let trunk = frame.template.trunk();
        let boards = trunk.map_or(1, |t| t.boards);
        let first = DeviceId(self.devices.len() as u32);
        for board in 0..boards {
            let (owner, index, of) = match frame.per_domain {
                1 => (Some(node), board, format!("node{node}")),
                _ => (None, domain * boards + board, format!("domain{domain}")),
            };
            let name = if boards == 1 { format!("{of}.nvswitch") } else { format!("{of}.nvswitch{board}") };
            self.device(DeviceKind::NvSwitch, owner, index, name, forwarding);
        }
        // From each board to every other, in order: `Fabric::trunk_link` counts on it.
        for (a, b) in (0..boards).flat_map(|a| (0..boards).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let Some(link) = trunk.map(|t| t.link) else { break };
            self.links.push(Link {
                from: DeviceId(first.0 + a),
                to: DeviceId(first.0 + b),
                class: link.class,
                rate: link.rate,
                latency: link.latency,
                packet_overhead: link.packet_overhead,
                parallel: 0,
                width: link.width,
                alive: true,
            });
        }
        first
    }

    fn add_network(&mut self, frame: &Frame<'_>) {
        self.first_switch = self.devices.len() as u32;
        let Some(models) = frame.models else { return };
        let forwarding = models.map(|switch| match switch.forwarding.as_str() {
            "cut-through" => {
                // InfiniBand decides on its own header; Ethernet on the least frame.
                let header = if switch.family == Family::Infiniband { frame.network.overhead } else { Bytes::new(64) };
                Forwarding::CutThrough { header }
            }
            _ => Forwarding::StoreAndForward,
        });
        let mut numbers = [0u32; 3];
        for switch in &frame.blueprint.switches {
            let tier = switch.tier();
            let number = numbers[tier];
            numbers[tier] += 1;
            self.device(switch.role, None, number, format!("{}{number}", switch.role), forwarding[tier]);
        }
        self.cable_nics(frame, models);
        self.first_link = self.links.len() as u32;
        self.cable_switches(frame, models);
        // Ports are counted at the rate of a switch's slowest links: a faster one takes several.
        let mut slowest = vec![Rate::bytes_per_sec(u64::MAX); self.devices.len() - self.first_switch as usize];
        let network = self.links.iter().filter(|l| l.class.is_network());
        for link in network.clone() {
            for end in [link.from, link.to].into_iter().filter(|end| end.0 >= self.first_switch) {
                let at = &mut slowest[(end.0 - self.first_switch) as usize];
                *at = (*at).min(link.rate);
            }
        }
        for link in network {
            if link.from.0 >= self.first_switch {
                let number = (link.from.0 - self.first_switch) as usize;
                let model = models[frame.blueprint.switches[number].tier()];
                let device = &mut self.devices[link.from.index()];
                device.ports = model.ports_at(slowest[number]);
                device.ports_used += (device.ports / model.ports_at(link.rate).max(1)).max(1);
            } else {
                self.devices[link.from.index()].ports_used += 1;
            }
        }
    }

    /// Adds both directions of a cable with their latencies.
    fn cable(&mut self, ends: [DeviceId; 2], latency: [Span; 2], link: Link) -> (LinkId, LinkId) {
        let [a, b] = ends;
        let up = LinkId(self.links.len() as u32);
        self.links.push(Link { from: a, to: b, latency: latency[0], ..link });
        self.links.push(Link { from: b, to: a, latency: latency[1], ..link });
        (up, LinkId(up.0 + 1))
    }

    fn cable_nics(&mut self, frame: &Frame<'_>, models: [&Row<Switch>; 3]) {
        let (blueprint, costs) = (&frame.blueprint, &frame.network);
        let plan = &blueprint.plan;
        let mut used = vec![0u32; plan.leaves as usize];
        let link = network_link(LinkClass::Network, plan.rate, costs.overhead);
        // The NIC's end counts both ways, the switch's latency on the way out of it.
        let end = costs.nic_end + costs.nic_wire;
        for (i, &leaf) in blueprint.leaf_of.iter().enumerate() {
            let (nic, port) = (i as u32 / plan.ports, i as u32 % plan.ports);
            let (node, rail) = (nic / plan.rails, nic % plan.rails);
            let nic = self.nodes[node as usize].nics[rail as usize];
            let leaf_id = DeviceId(self.first_switch + leaf);
            let beside = blueprint.leaf_of[i - port as usize..i].iter().filter(|&&l| l == leaf).count();
            let link = Link { parallel: beside as u32, ..link };
            let latency = costs.any.map_or([end, models[0].latency + end], |any| [any; 2]);
            let (up, down) = self.cable([nic, leaf_id], latency, link);
            self.attach.push(Attach { leaf: leaf_id, up, down, position: used[leaf as usize] });
            used[leaf as usize] += 1;
        }
    }

    fn cable_switches(&mut self, frame: &Frame<'_>, models: [&Row<Switch>; 3]) {
        let (blueprint, costs) = (&frame.blueprint, &frame.network);
        // Cables of one switch follow each other, so that parallel ones are among the last few.
        let mut parallel: Vec<(u32, u32)> = Vec::new();
        let mut last = None;
        for cable in &blueprint.cables {
            if last != Some(cable.from) {
                parallel.clear();
                last = Some(cable.from);
            }
            let beside = match parallel.iter_mut().find(|(to, _)| *to == cable.to) {
                Some((_, n)) => {
                    *n += 1;
                    *n
                }
                None => {
                    parallel.push((cable.to, 0));
                    0
                }
            };
            let ends = [cable.from, cable.to].map(|s| &blueprint.switches[s as usize]);
            let long =
                ends[1].role == DeviceKind::Core || (ends[0].tier() == ends[1].tier() && ends[0].pod != ends[1].pod);
            let (rate, wire) = if long {
                (blueprint.plan.core_rate, costs.core_wire)
            } else {
                (blueprint.plan.uplink_rate, costs.switch_wire)
            };
            let link = Link { parallel: beside, ..network_link(LinkClass::Uplink, rate, costs.overhead) };
            let latency = ends.map(|end| costs.any.unwrap_or(models[end.tier()].latency + wire));
            let ids = [cable.from, cable.to].map(|s| DeviceId(self.first_switch + s));
            self.cable(ids, latency, link);
        }
    }
}

fn network_link(class: LinkClass, rate: Rate, packet_overhead: Bytes) -> Link {
    let none = DeviceId(0);
    Link { from: none, to: none, class, rate, latency: Span::ZERO, packet_overhead, parallel: 0, width: 1, alive: true }
}

/// Checks that every device reaches every other.
fn check_connected(parts: &Parts) -> Result<(), BuildError> {
    let mut sets = UnionFind::<u32>::new(parts.devices.len());
    for link in &parts.links {
        sets.union(link.from.0, link.to.0);
    }
    let first = sets.find_mut(0);
    match (0..parts.devices.len() as u32).find(|&i| sets.find_mut(i) != first) {
        Some(i) => Err(BuildError::Disconnected { device: parts.devices[i as usize].name.clone() }),
        None => Ok(()),
    }
}

fn freeze(frame: Frame<'_>, parts: Parts) -> Fabric {
    let Frame { spec, node, template, blueprint, models, mtu, per_domain, .. } = frame;
    let buffer = |switch: &Row<Switch>| switch.buffer_mb.map(|mb| Bytes::new((mb * 1e6) as u64));
    let buffers = models.map_or([None; 3], |models| models.map(buffer));
    let mut ports = vec![0u32; blueprint.plan.leaves as usize];
    for &leaf in &blueprint.leaf_of {
        ports[leaf as usize] += 1;
    }
    let cables: Vec<_> = blueprint.cables.iter().map(|c| (c.from, c.to, c.step)).collect();
    let switches = blueprint.switches.len() as u32;
    let routes = SwitchRoutes::new(parts.first_switch, parts.first_link, switches, &ports, &cables);
    let gpus: Vec<DeviceId> = parts.nodes.iter().flat_map(|n| n.gpus.iter().copied()).collect();
    let nics_of = parts.nodes.iter().flat_map(|node| {
        template.nics_of.iter().map(|nics| nics.iter().map(|&n| DeviceId(node.first_device + n)).collect())
    });
    let path_choice = spec.path_choice.unwrap_or(match spec.transport {
        TransportKind::Infiniband => PathChoice::Destination,
        _ => PathChoice::Hash,
    });
    Fabric {
        nics_of: nics_of.collect(),
        devices: parts.devices,
        links: parts.links,
        nodes: parts.nodes,
        planes: parts.planes,
        attach: parts.attach,
        switches: blueprint.switches,
        first_switch: parts.first_switch,
        spec: spec.clone(),
        node,
        templates: vec![template],
        plan: blueprint.plan,
        routes,
        gpus,
        mtu,
        per_domain,
        path_choice,
        buffers,
        ailments: Ailments::default(),
    }
}
