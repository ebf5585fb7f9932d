//! Nodes and network of a scenario.

use std::collections::BTreeMap;

use sim_collectives::nccl::Knob;
use sim_core::units::{Bytes, Rate};
use sim_topology::catalogue::UnknownName;
use sim_topology::{
    Catalogue, CpuSpec, CpuVendor, FabricSpec, GpudirectLevel, NicOverride, NicPolicy, NodeSpec, NvlinkSpec, PcieSpec,
    SlotSpec, SocketLinkSpec, TransportKind, XgmiSpec,
};

use super::software::Software;
use super::tree::{Node, Table, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten, suggest};

/// The node: by name, or described in place.
pub(super) struct System {
    name: Option<String>,
    node: NodeSpec,
    transport: Option<TransportKind>,
}

/// The node that a scenario names or describes.
pub(super) fn system(root: &View<'_>, catalogue: &Catalogue, out: &mut Diagnostics) -> Option<System> {
    match (root.node("system"), root.node("node")) {
        (Some(named), Some(inline)) => {
            let fault = Diagnostic::new(Code::Exclusive, "`system` and `[node]` exclude each other");
            let fault = fault.at(inline.place.clone(), "the node is described here");
            out.push(fault.related(named.place.clone(), "and named here").help("take one of them out"));
            None
        }
        (None, None) => {
            let fault = Diagnostic::new(Code::MissingKey, "which system? Neither `system` nor `[node]` is given");
            out.push(fault.help("system = \"hgx-h100\"; `fabricsim catalog` lists all"));
            None
        }
        (Some(named), None) => by_name(named, catalogue, out),
        (None, Some(_)) => {
            let view = root.table("node")?;
            Some(System { name: None, node: inline(&view)?, transport: None })
        }
    }
}

fn by_name(named: &Node, catalogue: &Catalogue, out: &mut Diagnostics) -> Option<System> {
    let name = named.as_text()?;
    match catalogue.system(name) {
        Ok(row) => Some(System { name: Some(row.name.clone()), node: row.node.clone(), transport: row.transport }),
        Err(error) => {
            let fault = Diagnostic::new(Code::UnknownSystem, format!("unknown system `{}`", shorten(name)));
            let fault = fault.at(named.place.clone(), "not in the catalogue");
            out.push(
                fault.help(advice(&error)).help("`fabricsim catalog` shows them; `[node]` describes one of your own"),
            );
            None
        }
    }
}

/// A did-you-mean out of the catalogue's own, else out of all names.
pub(super) fn advice(error: &UnknownName) -> String {
    match &error.suggestion {
        Some(alike) => format!("did you mean `{alike}`?"),
        None => suggest(&error.name, error.known.iter().map(String::as_str)),
    }
}

/// The cluster of such nodes, with the system's name; `None` if a key that it needs is faulty.
pub(super) fn cluster(
    root: &View<'_>,
    system: System,
    software: &Software,
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) -> Option<(Option<String>, FabricSpec)> {
    let mut spec = FabricSpec::new(system.node, root.integer("nodes")?);
    spec.system.clone_from(&system.name);
    spec.nodes_per_domain = root.integer("nodes_per_domain");
    spec.gpus_per_node = root.integer("gpus_per_node");
    if let (Some(wanted), Some(node)) = (spec.gpus_per_node, root.node("gpus_per_node"))
        && wanted > spec.node.gpus
    {
        let fault = Diagnostic::new(
            Code::NotDivisible,
            format!("{} of a node that has {}", counted(wanted, "GPU"), spec.node.gpus),
        );
        out.push(fault.at(node.place.clone(), format!("at most {}", spec.node.gpus)));
    }
    trays(&mut spec, software, out);
    spec.nics = nics(root, out);
    policy(root, &mut spec.node, software, out);
    if let Some(vendor) = root.choice("cpu") {
        spec.node.cpu.vendor = cpu_vendor(vendor);
    }
    if root.has("acs") {
        spec.node.acs = root.boolean("acs");
    }
    nvlink_rate(root, &mut spec, catalogue, out);
    transport(root, &mut spec, system.transport, software, out);
    super::network::network(root, &mut spec, catalogue, out);
    Some((system.name, spec))
}

/// Takes the trays of an NVLink domain apart where NCCL is told to; warns where that changes nothing.
fn trays(spec: &mut FabricSpec, software: &Software, out: &mut Diagnostics) {
    let Some(enabled) = software.knobs.number(Knob::MnnvlEnable) else { return };
    if enabled == 0 && spec.node.max_nodes_per_domain > 1 {
        spec.nodes_per_domain = Some(1);
        return;
    }
    let name = Knob::MnnvlEnable.name();
    let fault = Diagnostic::new(Code::NoEffect, format!("`{name}` has no effect here"));
    let fault = fault.help("NVLink domains are those of the system: set `nodes_per_domain`");
    let why = if enabled == 0 { "the system's NVLinks end at the host" } else { "that is what NCCL does by itself" };
    out.push(match software.env_places.get(name) {
        Some(place) => fault.at(place.clone(), why),
        None => fault,
    });
}

/// The rate of NVLinks, where the scenario states it, and a warning if it looks like the sum of both directions.
fn nvlink_rate(root: &View<'_>, spec: &mut FabricSpec, catalogue: &Catalogue, out: &mut Diagnostics) {
    let described = root.table_or_empty("node").table_or_empty("nvlink");
    let written = root.node("nvlink");
    let Some(nvlink) = &mut spec.node.nvlink else {
        if let Some(node) = written {
            let fault = Diagnostic::new(Code::NoEffect, "`nvlink` has no effect");
            out.push(fault.at(node.place.clone(), "the node has no NVLinks"));
        }
        return;
    };
    if written.is_some() {
        nvlink.rate = root.rate("nvlink");
    }
    let links = match nvlink.links.iter().sum::<u32>() {
        0 => catalogue.gpu(&spec.node.gpu).map_or(0, |gpu| gpu.nvlinks),
        wired => wired,
    };
    let row = catalogue.gpu(&spec.node.gpu).and_then(|gpu| catalogue.gpu_link(gpu)).ok().flatten();
    if let (Some(node), Some(rate), Some(row)) = (written.or(described.node("rate")), nvlink.rate, row) {
        let one_way = Rate::bytes_per_sec(row.link_rate.get().saturating_mul(u64::from(links)));
        let what = format!("NVLink {} ({links} links x {})", row.generation, row.link_rate);
        suspect(node, rate, one_way, &what, out);
    }
}

fn nics(root: &View<'_>, out: &mut Diagnostics) -> Option<NicOverride> {
    let node = root.node("nics")?;
    match node.as_text()?.parse::<NicOverride>() {
        Ok(nics) => Some(nics),
        Err(why) => {
            let fault = Diagnostic::new(Code::BadName, "`nics` takes COUNTxRATE");
            // As a flag, or as a key.
            let form = match out.sources.name(node.place.source) {
                flag @ "--nics" => format!("{flag} 8x400Gb/s"),
                _ => "nics = \"8x400Gb/s\"".to_owned(),
            };
            out.push(fault.at(node.place.clone(), why).help(format!("{form}: eight NICs a node of 400 Gb/s each")));
            None
        }
    }
}

fn transport(
    root: &View<'_>,
    spec: &mut FabricSpec,
    usual: Option<TransportKind>,
    software: &Software,
    out: &mut Diagnostics,
) {
    let view = root.table_or_empty("transport");
    let named = view.choice("kind").and_then(|t| t.parse().ok());
    spec.transport = named.or(usual).unwrap_or_default();
    let verbs = matches!(spec.transport, TransportKind::Infiniband | TransportKind::Roce);
    if software.knobs.sockets(verbs) {
        spec.transport = TransportKind::Tcp;
    }
    // The kernel's sockets know no memory of GPUs.
    if spec.transport == TransportKind::Tcp {
        spec.node.gpudirect = GpudirectLevel::Loc;
    }
    spec.path_choice = view.choice("path_choice").and_then(|text| text.parse().ok());
    if let (Some(node), Some(overhead)) = (view.node("packet_overhead"), view.size("packet_overhead")) {
        if overhead > Bytes::kib(1) {
            let fault = Diagnostic::new(Code::OutOfRange, "`packet_overhead` is out of range");
            out.push(fault.at(node.place.clone(), format!("{overhead}; up to 1 KiB are possible")));
        } else {
            spec.packet_overhead = Some(overhead);
        }
    }
    let Some(node) = view.node("mtu") else { return };
    let (low, high) = (Bytes::new(256), Bytes::new(9000));
    match view.size("mtu") {
        Some(mtu) if (low..=high).contains(&mtu) => spec.mtu = Some(mtu),
        Some(mtu) => {
            let fault = Diagnostic::new(Code::OutOfRange, "`mtu` is out of range");
            out.push(fault.at(node.place.clone(), format!("{mtu}; 256 B to 9000 B are possible")));
        }
        None => {}
    }
}

fn cpu_vendor(name: &str) -> CpuVendor {
    match name {
        "amd" => CpuVendor::Amd,
        "arm" => CpuVendor::Arm,
        "power" => CpuVendor::Power,
        _ => CpuVendor::Intel,
    }
}

/// A node described in place; `None` if a required key is faulty.
fn inline(view: &View<'_>) -> Option<NodeSpec> {
    let cpu = view.table("cpu").map_or_else(CpuSpec::default, |cpu| CpuSpec {
        vendor: cpu.choice("vendor").map_or(CpuVendor::Intel, cpu_vendor),
        model: cpu.text("model").unwrap_or_default().to_owned(),
        cores: cpu.integer("cores").unwrap_or(32),
        threads_per_core: cpu.integer("threads_per_core").unwrap_or(2),
    });
    Some(NodeSpec {
        nic: view.text("nic").map(str::to_owned),
        nics: view.integer("nics")?,
        nic_rate: view.rate("nic_rate"),
        nvme: view.text("nvme").map(str::to_owned),
        nvmes: view.integer("nvmes")?,
        nvlink: view.table("nvlink").map(|n| nvlink(&n)),
        xgmi: view.table("xgmi").and_then(|x| {
            let (rate, mesh) = (x.rate("rate")?, x.integer("mesh"));
            Some(XgmiSpec { rate, mesh, pairs: pairs(&x) })
        }),
        max_nodes_per_domain: view.integer("max_nodes_per_domain")?,
        sockets: view.integer("sockets")?,
        numa_per_socket: view.integer("numa_per_socket")?,
        socket_link: view
            .table("socket_link")
            .and_then(|s| Some(SocketLinkSpec { name: s.text("name")?.to_owned(), links: s.integer("links")? })),
        memory: view.rate("memory"),
        cpu,
        c2c: view.text("c2c").map(str::to_owned),
        peer_to_peer: view.boolean("peer_to_peer"),
        acs: view.boolean("acs"),
        gpudirect_rdma: view.boolean("gpudirect_rdma"),
        trained: trained(view),
        pcie_payload: view.size("pcie_payload")?,
        pcie: view.items("pcie").iter().filter_map(Node::as_table).filter_map(pcie).collect(),
        // The policy and the level are keys of [software].
        ..NodeSpec::new(view.text("gpu")?, view.integer("gpus")?)
    })
}

pub(super) fn integers(items: &[Node]) -> Vec<u32> {
    let number = |n: &Node| match n.value {
        Value::Integer(Some(value)) => u32::try_from(value).ok(),
        _ => None,
    };
    items.iter().filter_map(number).collect()
}

fn pairs(view: &View<'_>) -> Vec<[u32; 3]> {
    let pair = |node: &Node| <[u32; 3]>::try_from(integers(node.as_array()?)).ok();
    view.items("pairs").iter().filter_map(pair).collect()
}

fn nvlink(view: &View<'_>) -> NvlinkSpec {
    NvlinkSpec {
        chip: view.text("chip").map(str::to_owned),
        links: integers(view.items("links")),
        board_gpus: view.integer("board_gpus").unwrap_or(0),
        trunk: view.integer("trunk").unwrap_or(0),
        pairs: pairs(view),
        lost: integers(view.items("lost")),
        rate: view.rate("rate"),
    }
}

/// Links that trained to less than they could, by device.
fn trained(view: &View<'_>) -> BTreeMap<String, SlotSpec> {
    let entries = view.node("trained").and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    let slot = |entry: &super::tree::Entry| {
        let slot = View::new(entry.node.as_table()?, &super::keys::SLOT);
        Some((entry.key.clone(), SlotSpec { generation: slot.integer("gen")?, lanes: slot.integer("lanes")? }))
    };
    entries.iter().filter_map(slot).collect()
}

/// Which NICs GPUs use and how far GPUDirect goes, as `[software]` says.
fn policy(root: &View<'_>, node: &mut NodeSpec, software: &Software, out: &mut Diagnostics) {
    let view = root.table_or_empty("software");
    let mut read = |key: &str, fault: Option<String>| {
        if let (Some(node), Some(why)) = (view.node(key), fault) {
            let fault = Diagnostic::new(Code::UnknownChoice, format!("`{key}` cannot be read"));
            out.push(fault.at(node.place.clone(), why));
        }
    };
    if let Some(text) = view.text("nic_policy") {
        match text.parse() {
            Ok(policy) => node.nic_policy = policy,
            Err(error) => read("nic_policy", Some(error.to_string())),
        }
    }
    // The variable is another spelling of the key, and wins.
    let variable = sim_collectives::machine::gpudirect_level(&software.knobs);
    if let Some(level) = variable {
        node.gpudirect = level;
    } else if let Some(text) = view.text("gpudirect") {
        match text.parse() {
            Ok(level) => node.gpudirect = level,
            Err(error) => read("gpudirect", Some(error.to_string())),
        }
    }
    if let Some(most) = sim_collectives::machine::peer_level(&software.knobs) {
        node.peers_up_to = most;
    }
    if view.has("nic_map") {
        let list = |n: &Node| n.as_array().map_or_else(Vec::new, integers);
        node.nic_policy = NicPolicy::Map(view.items("nic_map").iter().map(list).collect());
        super::workload::exclusive(&view, "nic_map", &["nic_policy"], out);
    }
}

fn pcie(table: &Table) -> Option<PcieSpec> {
    let view = View::new(table, &super::keys::PCIE);
    let slot = |key: &str| {
        let slot = view.table(key)?;
        Some(SlotSpec { generation: slot.integer("gen")?, lanes: slot.integer("lanes")? })
    };
    Some(PcieSpec {
        socket: view.integer("socket")?,
        numa: view.integer("numa"),
        host_bridge: view.integer("host_bridge"),
        parent: view.integer("parent"),
        switch: view.boolean("switch"),
        chip: view.integer("chip"),
        model: view.text("model").map(str::to_owned),
        packet_extra: view.integer("packet_extra")?,
        peer_uplink: view.rate("peer_uplink"),
        quadrant: view.integer("quadrant"),
        uplink: slot("uplink")?,
        slot: slot("slot"),
        down: view.items("down").iter().filter_map(Node::as_text).map(str::to_owned).collect(),
    })
}

/// Warns of a rate in `[node]` that looks like the sum of both directions.
pub(super) fn both_directions(root: &View<'_>, catalogue: &Catalogue, out: &mut Diagnostics) {
    let Some(node) = root.table("node") else { return };
    let (Some(written), Some(rate)) = (node.node("nic_rate"), node.rate("nic_rate")) else { return };
    let Some(row) = node.text("nic").and_then(|name| catalogue.nic(name).ok()) else { return };
    suspect(written, rate, row.port_rate, &row.title, out);
}

/// Warns if `rate` is at least one and a half times what the part carries in one direction.
fn suspect(written: &Node, rate: Rate, one_way: Rate, what: &str, out: &mut Diagnostics) {
    if rate.get().saturating_mul(2) < one_way.get().saturating_mul(3) || !matches!(written.value, Value::Text(_)) {
        return;
    }
    let fault = Diagnostic::new(Code::BothDirections, "looks like the sum of both directions");
    let fault = fault.at(written.place.clone(), format!("{what} carries {one_way} in each direction"));
    out.push(fault.help(format!("use \"{one_way}\", or state it: {{ both_directions = \"{rate}\" }}")));
}
