//! From a specification to a frozen fabric.

use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::Dfs;
use sim_core::ids::LinkId;
use sim_core::network::Forwarding;
use sim_core::units::{Bytes, Rate, Span};

use super::{BuildError, Fabric, FabricPlan, FabricSpec, PathChoice, SwitchRoutes, TransportKind};
use crate::catalogue::{Catalogue, Family, Row, Switch, TransportPreset};
use crate::device::{Device, DeviceId, DeviceKind, Link, LinkClass, Node};
use crate::node::{NodeSpec, NodeTemplate, NvlinkKind, TemplateEnd};

/// The most nodes of a fabric; a million GPUs.
const MOST_NODES: u32 = 131_072;

/// Everything that is known before devices are numbered.
struct Frame<'a> {
    spec: &'a FabricSpec,
    node: NodeSpec,
    template: NodeTemplate,
    plan: FabricPlan,
    switch: Option<&'a Row<Switch>>,
    per_domain: u32,
    mtu: Bytes,
    network: NetworkCosts,
}

struct NetworkCosts {
    overhead: Bytes,
    nic_end: Span,
    nic_wire: Span,
    switch_wire: Span,
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
    for (what, metres) in [("nic_cable_m", spec.nic_cable_m), ("switch_cable_m", spec.switch_cable_m)] {
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
    let (switch, plan) = if spec.nodes > 1 && template.nics > 0 {
        let switch = pick_switch(spec, catalogue, transport, template.nic_rate)?;
        (Some(switch), FabricPlan::new(spec, switch, template.nics, template.nic_rate)?)
    } else {
        (None, FabricPlan::none(spec, template.nics))
    };
    let network = costs(spec, catalogue, transport, plan.rate)?;
    Ok(Frame { spec, node, template, plan, switch, per_domain, mtu, network })
}

/// The node with the GPUs and NICs that the fabric asks for.
fn adapt(spec: &FabricSpec) -> Result<NodeSpec, BuildError> {
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
    rate: Rate,
) -> Result<NetworkCosts, BuildError> {
    let fec = match rate {
        r if r <= Rate::gbit(100) => "fec-100g",
        r if r <= Rate::gbit(200) => "fec-200g",
        r if r <= Rate::gbit(400) => "fec-400g",
        _ => "fec-800g",
    };
    let fec = catalogue.latency(fec)?.latency;
    let wire = |metres: f64| -> Result<Span, BuildError> {
        let per_m = catalogue.cable(metres)?.delay_per_m;
        Ok(Span::from_us_f64(per_m.as_us() * metres) + fec)
    };
    Ok(NetworkCosts {
        overhead: transport.packet_overhead,
        nic_end: catalogue.latency("nic-port")?.latency + transport.extra_per_side,
        nic_wire: wire(spec.nic_cable_m)?,
        switch_wire: wire(spec.switch_cable_m)?,
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
    /// The leaf of each NIC, and the links to and from it: `[node * nics + nic]`.
    attach: Vec<Attach>,
    first_switch: u32,
}

/// Where a NIC is cabled to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attach {
    pub(crate) leaf: DeviceId,
    pub(crate) up: LinkId,
    pub(crate) down: LinkId,
    /// The NIC's number among those of its leaf.
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
        let Some(switch) = frame.switch else { return };
        let plan = &frame.plan;
        let forwarding = match switch.forwarding.as_str() {
            "cut-through" => {
                // InfiniBand decides on its own header; Ethernet on the least frame.
                let header = if switch.family == Family::Infiniband { frame.network.overhead } else { Bytes::new(64) };
                Forwarding::CutThrough { header }
            }
            _ => Forwarding::StoreAndForward,
        };
        for leaf in 0..plan.leaves {
            self.device(DeviceKind::Leaf, None, leaf, format!("leaf{leaf}"), forwarding);
        }
        for spine in 0..plan.spines {
            self.device(DeviceKind::Spine, None, spine, format!("spine{spine}"), forwarding);
        }
        for d in &mut self.devices[self.first_switch as usize..] {
            d.ports = plan.radix;
        }
        self.cable_nics(frame, switch);
        self.cable_spines(frame, switch);
    }

    /// Adds both directions of a cable with their latencies.
    fn cable(&mut self, ends: [DeviceId; 2], latency: [Span; 2], link: Link) -> (LinkId, LinkId) {
        let [a, b] = ends;
        let up = LinkId(self.links.len() as u32);
        self.links.push(Link { from: a, to: b, latency: latency[0], ..link });
        self.links.push(Link { from: b, to: a, latency: latency[1], ..link });
        for end in [a, b] {
            self.devices[end.index()].ports_used += 1;
        }
        (up, LinkId(up.0 + 1))
    }

    fn cable_nics(&mut self, frame: &Frame<'_>, switch: &Row<Switch>) {
        let (plan, costs) = (&frame.plan, &frame.network);
        let mut used = vec![0u32; plan.leaves as usize];
        for node in 0..frame.spec.nodes {
            for rail in 0..frame.template.nics {
                let leaf = plan.leaf_of(node, rail);
                let leaf_id = DeviceId(self.first_switch + leaf);
                let nic = self.nodes[node as usize].nics[rail as usize];
                let link = network_link(LinkClass::Network, plan.rate, costs.overhead);
                // The NIC's end counts both ways, the switch's latency on the way out of it.
                let end = costs.nic_end + costs.nic_wire;
                let (up, down) = self.cable([nic, leaf_id], [end, switch.latency + end], link);
                self.attach.push(Attach { leaf: leaf_id, up, down, position: used[leaf as usize] });
                used[leaf as usize] += 1;
            }
        }
    }

    fn cable_spines(&mut self, frame: &Frame<'_>, switch: &Row<Switch>) {
        let (plan, costs) = (&frame.plan, &frame.network);
        for leaf in 0..plan.leaves {
            let mut parallel = vec![0u32; plan.spines as usize];
            for uplink in 0..plan.uplinks {
                let spine = plan.spine_of(leaf, uplink);
                let mut link = network_link(LinkClass::Uplink, plan.rate, costs.overhead);
                link.parallel = parallel[spine as usize];
                parallel[spine as usize] += 1;
                let leaf_id = DeviceId(self.first_switch + leaf);
                let spine_id = DeviceId(self.first_switch + plan.leaves + spine);
                let latency = switch.latency + costs.switch_wire;
                self.cable([leaf_id, spine_id], [latency, latency], link);
            }
        }
    }
}

fn network_link(class: LinkClass, rate: Rate, packet_overhead: Bytes) -> Link {
    let none = DeviceId(0);
    Link { from: none, to: none, class, rate, latency: Span::ZERO, packet_overhead, parallel: 0, width: 1, alive: true }
}

/// Checks that every device reaches every other.
fn check_connected(parts: &Parts) -> Result<(), BuildError> {
    let mut graph: UnGraph<(), ()> = UnGraph::with_capacity(parts.devices.len(), parts.links.len());
    let nodes: Vec<NodeIndex> = parts.devices.iter().map(|_| graph.add_node(())).collect();
    for link in &parts.links {
        graph.add_edge(nodes[link.from.index()], nodes[link.to.index()], ());
    }
    let mut seen = vec![false; nodes.len()];
    let mut dfs = Dfs::new(&graph, nodes[0]);
    while let Some(node) = dfs.next(&graph) {
        seen[node.index()] = true;
    }
    match seen.iter().position(|&s| !s) {
        None => Ok(()),
        Some(i) => Err(BuildError::Disconnected { device: parts.devices[i].name.clone() }),
    }
}

fn freeze(frame: Frame<'_>, parts: Parts) -> Fabric {
    let Frame { spec, node, template, plan, mtu, per_domain, .. } = frame;
    let uplinks: Vec<(LinkId, u32, u32)> = (0..parts.links.len())
        .filter(|&i| parts.links[i].class == LinkClass::Uplink)
        .map(|i| (LinkId(i as u32), parts.links[i].from.0, parts.links[i].to.0))
        .collect();
    let switches = parts.devices.len() as u32 - parts.first_switch;
    let routes = SwitchRoutes::new(parts.first_switch, switches, plan.leaves, &uplinks);
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
        spec: spec.clone(),
        node,
        templates: vec![template],
        plan,
        routes,
        gpus,
        mtu,
        per_domain,
        path_choice,
    }
}
