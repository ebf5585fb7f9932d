//! Where a fabric or a node that cannot be built is at fault.

use sim_topology::catalogue::UnknownName;
use sim_topology::node::NodeError;
use sim_topology::{BuildError, Catalogue};

use super::cluster::advice;
use super::tree::{Node, Table, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten};

/// The finding about a fabric that cannot be built, at the key that says so.
pub(super) fn impossible(error: &BuildError, root: &Table) -> Diagnostic {
    let text = error.to_string();
    let code = match error {
        BuildError::Unknown(_) | BuildError::Node(NodeError::Unknown(_)) => Code::UnknownModel,
        BuildError::Range { .. } | BuildError::Node(NodeError::Count { .. } | NodeError::Lanes { .. }) => {
            Code::OutOfRange
        }
        BuildError::Domains { .. } | BuildError::LeavesPerRail { .. } => Code::NotDivisible,
        _ => Code::Impossible,
    };
    let keys: &[&str] = match error {
        BuildError::Domains { .. } => &["nodes_per_domain", "nodes"],
        BuildError::NoNics { .. } => &["nics", "nodes"],
        BuildError::SwitchPorts { .. } => &["fabric.leaves", "fabric.switch", "fabric.kind", "nodes"],
        BuildError::SpinePorts { .. } => &["fabric.spines", "fabric.oversubscription", "nodes"],
        BuildError::SpinesUnreached { .. } => &["fabric.spines", "nodes"],
        BuildError::LeavesPerRail { .. } => &["fabric.leaves", "fabric.kind"],
        BuildError::Node(_) => &["node", "gpus_per_node", "nics", "system"],
        BuildError::TooLarge { .. } => &["nodes", "system"],
        _ => &["fabric", "node", "system"],
    };
    let named = match error {
        BuildError::Unknown(unknown) | BuildError::Node(NodeError::Unknown(unknown)) => text_place(root, &unknown.name),
        BuildError::Range { what, .. } => {
            let first = what.split('.').next().unwrap_or(what);
            path_place(root, what).or_else(|| key_place(root, what)).or_else(|| key_place(root, first))
        }
        BuildError::Node(error) => node_place(error, root),
        _ => None,
    };
    let title = match code {
        Code::Impossible if matches!(error, BuildError::Node(_)) => "the node cannot be built".to_owned(),
        Code::Impossible => "the fabric cannot be built".to_owned(),
        Code::UnknownModel => "not in the catalogue".to_owned(),
        Code::NotDivisible => "counts that do not divide".to_owned(),
        _ => "out of range".to_owned(),
    };
    let place = named.or_else(|| keys.iter().find_map(|key| path_place(root, key)));
    let fault = match place {
        Some(place) => Diagnostic::new(code, title).at(place, text),
        None => Diagnostic::new(code, text),
    };
    match error {
        BuildError::NoNics { .. } => fault.help(match root.get("node") {
            Some(_) => "give the node NICs: `nics = 8` and `nic = \"connectx-7\"` under [node]",
            None => "give the node NICs: nics = \"8x400Gb/s\", or --nics 8x400Gb/s",
        }),
        _ => fault.maybe_help(error.hint()),
    }
}

/// The place of a text with this value, anywhere.
fn text_place(table: &Table, wanted: &str) -> Option<Place> {
    fn inside(node: &Node, wanted: &str) -> Option<Place> {
        match &node.value {
            Value::Text(text) if text == wanted => Some(node.place.clone()),
            Value::Table(table) => text_place(table, wanted),
            Value::Array(items) => items.iter().find_map(|n| inside(n, wanted)),
            _ => None,
        }
    }
    table.entries.iter().find_map(|e| inside(&e.node, wanted))
}

/// The place of the value of a key with this name (or the last part of it), anywhere.
fn key_place(table: &Table, wanted: &str) -> Option<Place> {
    let last = wanted.rsplit(['.', ' ']).next().unwrap_or(wanted).trim_matches('`');
    for entry in &table.entries {
        if entry.key == last {
            return Some(entry.node.place.clone());
        }
        if let Some(place) = entry.node.as_table().and_then(|t| key_place(t, wanted)) {
            return Some(place);
        }
    }
    None
}

/// The place of the value at a path.
fn path_place(root: &Table, path: &str) -> Option<Place> {
    let mut parts = path.split('.');
    let mut node = root.get(parts.next()?)?;
    for part in parts {
        node = node.as_table()?.get(part)?;
    }
    Some(node.place.clone())
}

/// The place in `[node]` that an error is about.
fn node_place(error: &NodeError, root: &Table) -> Option<Place> {
    let at = |path: &str| path_place(root, path);
    let table = root.get("node")?.as_table()?;
    let rows = table.get("pcie").and_then(Node::as_array).unwrap_or_default();
    let row = |number: usize, key: &str| {
        let row = rows.get(number)?;
        Some(row.as_table().and_then(|t| t.get(key)).unwrap_or(row).place.clone())
    };
    match error {
        NodeError::Unknown(unknown) => text_place(table, &unknown.name),
        NodeError::Count { what, .. } => at(&format!("node.{what}")).or_else(|| at("node.pcie")),
        NodeError::Missing { key: "nic", .. } => at("node.nics"),
        NodeError::Missing { key: "socket_link", .. } => at("node.sockets"),
        NodeError::BadMember { text, row: number } => {
            let down = rows.get(*number)?.as_table()?.get("down")?;
            let wrong = down.as_array()?.iter().find(|n| n.as_text().is_some_and(|t| t.starts_with(text.as_str())));
            Some(wrong.unwrap_or(down).place.clone())
        }
        NodeError::NoSuchMember { row: number, .. } | NodeError::Twice { second: number, .. } => row(*number, "down"),
        NodeError::Loose { kind, .. } => at(&format!("node.{kind}s")),
        NodeError::NoSuchParent { row: number, what, .. } => {
            row(*number, if what.starts_with("socket") { "socket" } else { "parent" })
        }
        NodeError::Lanes { row: number, .. } => row(*number, "uplink"),
        NodeError::TooManyNvlinks { .. } => at("node.nvlink.pairs").or_else(|| at("node.nvlink.links")),
        NodeError::TooManySwitchPorts { chip, .. } => {
            let links = table.get("nvlink")?.as_table()?.get("links")?;
            Some(links.as_array()?.get(*chip).unwrap_or(links).place.clone())
        }
        NodeError::BadPair { .. } => at("node.nvlink.pairs"),
        NodeError::NvlinkForm => at("node.nvlink"),
        _ => None,
    }
}

/// Faults of a node described in place that can be told one by one, before it is built: names that are not in the
/// catalogue, and widths that no PCIe link has.
pub(super) fn node_faults(view: &View<'_>, catalogue: &Catalogue, out: &mut Diagnostics) {
    let mut name = |node: Option<&Node>, what: &str, known: &dyn Fn(&str) -> Option<UnknownName>| {
        if let Some((node, text)) = node.and_then(|n| Some((n, n.as_text()?)))
            && let Some(error) = known(text)
        {
            let fault = Diagnostic::new(Code::UnknownModel, format!("unknown {what} `{}`", shorten(text)));
            out.push(fault.at(node.place.clone(), "not in the catalogue").help(advice(&error)));
        }
    };
    name(view.node("gpu"), "GPU", &|text| catalogue.gpu(text).err());
    name(view.node("nic"), "NIC", &|text| catalogue.nic(text).err());
    name(view.node("c2c"), "link", &|text| catalogue.c2c(text).err());
    name(view.table_or_empty("nvlink").node("chip"), "NVSwitch chip", &|text| catalogue.nvswitch(text).err());
    name(view.table_or_empty("socket_link").node("name"), "link", &|text| catalogue.socket_link(text).err());
    for row in view.items("pcie").iter().filter_map(Node::as_table) {
        for slot in ["uplink", "slot"].iter().filter_map(|key| row.get(key)?.as_table()) {
            if let Some(node) = slot.get("lanes")
                && let Value::Integer(Some(lanes @ 1..=32)) = node.value
                && ![1, 2, 4, 8, 16].contains(&lanes)
            {
                let fault = Diagnostic::new(Code::OutOfRange, "`lanes` is out of range");
                out.push(fault.at(node.place.clone(), format!("{lanes}; a link has 1, 2, 4, 8 or 16")));
            }
        }
    }
}
