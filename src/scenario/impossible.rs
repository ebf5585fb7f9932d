//! Where a fabric or a node that cannot be built is at fault.

use sim_topology::catalogue::UnknownName;
use sim_topology::node::NodeError;
use sim_topology::{BuildError, Catalogue, FabricSpec, names_device};

use super::cluster::advice;
use super::keys::ROOT;
use super::tree::{Node, Table, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten};

/// The finding about a fabric that cannot be built, at the key that says so.
pub(super) fn impossible(error: &BuildError, root: &Table) -> Diagnostic {
    if let BuildError::Node(NodeError::Unknown(unknown)) = error {
        let fault =
            Diagnostic::new(Code::UnknownModel, format!("unknown {} `{}`", unknown.kind, shorten(&unknown.name)));
        let place = node_place(&NodeError::Unknown(unknown.clone()), root).or_else(|| text_place(root, &unknown.name));
        return match place {
            Some(place) => fault.at(place, "not in the catalogue").help(advice(unknown)),
            None => fault.help(advice(unknown)),
        };
    }
    let text = error.to_string();
    let code = match error {
        BuildError::Unknown(_) | BuildError::Node(NodeError::Unknown(_)) => Code::UnknownModel,
        BuildError::Range { .. }
        | BuildError::Node(NodeError::Count { .. } | NodeError::Lanes { .. } | NodeError::TrainedLanes { .. }) => {
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
        BuildError::Node(node) => fault.maybe_help(node_hint(node).or_else(|| error.hint())),
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

/// The place that an error of the node is about: in `[node]`, or where `[software]` says which NICs GPUs use.
fn node_place(error: &NodeError, root: &Table) -> Option<Place> {
    let at = |path: &str| path_place(root, path);
    if matches!(error, NodeError::NicPolicy { .. }) {
        return at("software.nic_map").or_else(|| at("software.nic_policy"));
    }
    let table = root.get("node")?.as_table()?;
    let rows = table.get("pcie").and_then(Node::as_array).unwrap_or_default();
    let row = |number: usize, key: &str| {
        let row = rows.get(number)?;
        Some(row.as_table().and_then(|t| t.get(key)).unwrap_or(row).place.clone())
    };
    // The entry of a row's `down` for which this holds, or all of `down`.
    let down = |number: usize, holds: &dyn Fn(&str) -> bool| {
        let down = rows.get(number)?.as_table()?.get("down")?;
        let entry = down.as_array()?.iter().find(|n| n.as_text().is_some_and(holds));
        Some(entry.unwrap_or(down).place.clone())
    };
    match error {
        NodeError::Unknown(unknown) => {
            let key = match unknown.kind {
                "GPU" => "node.gpu",
                "NIC" => "node.nic",
                "NVMe drive" => "node.nvme",
                "chip-to-chip link" => "node.c2c",
                "PCIe generation" => return generation_place(rows, &unknown.name),
                _ => "",
            };
            let named = |n: &Node| n.as_text().is_some_and(|t| t.starts_with(unknown.name.as_str()));
            let node = key.strip_prefix("node.").and_then(|key| table.get(key)).filter(|n| named(n));
            node.map(|n| n.place.clone()).or_else(|| text_place(table, &unknown.name))
        }
        NodeError::Count { what, .. } => at(&format!("node.{what}")).or_else(|| at("node.pcie")),
        NodeError::Missing { key: "nic", .. } => at("node.nics"),
        NodeError::Missing { key: "nvme", .. } => at("node.nvmes"),
        NodeError::Missing { key: "socket_link", .. } => at("node.sockets"),
        NodeError::BadMember { text, row } => down(*row, &|t| t.starts_with(text.as_str())),
        NodeError::NoSuchMember { kind, index, row, .. } | NodeError::Twice { kind, index, second: row, .. } => {
            down(*row, &|t| names_device(t, *kind, *index))
        }
        NodeError::Loose { kind, .. } => at(&format!("node.{kind}s")),
        NodeError::NoSuchParent { row: number, what, .. } => {
            row(*number, if what.starts_with("socket") { "socket" } else { "parent" })
        }
        NodeError::OtherSocket { row: number, .. } => row(*number, "socket"),
        NodeError::Lanes { row: number, lanes } => ["uplink", "slot"]
            .iter()
            .filter_map(|key| rows.get(*number)?.as_table()?.get(key)?.as_table()?.get("lanes"))
            .find(|n| matches!(n.value, Value::Integer(Some(value)) if value == i64::from(*lanes)))
            .map(|n| n.place.clone())
            .or_else(|| row(*number, "uplink")),
        NodeError::TrainedLanes { device, .. } => {
            at(&format!("node.trained.{device}.lanes")).or_else(|| at("node.trained"))
        }
        NodeError::BadDevice { key, text, .. } => {
            let entries = &table.get(key)?.as_table()?.entries;
            let entry = entries.iter().find(|e| e.key.starts_with(text.as_str()));
            entry.map(|e| e.key_place.clone()).or_else(|| at(&format!("node.{key}")))
        }
        NodeError::NoSuchGpu { key, index, .. } => {
            let path = format!("node.{key}");
            let mut node = root.get("node")?;
            for part in key.split('.') {
                node = node.as_table()?.get(part)?;
            }
            let is = |n: &&Node| matches!(n.value, Value::Integer(Some(value)) if value == i64::from(*index));
            let entry = node.as_array().and_then(|items| items.iter().find(is));
            entry.map(|n| n.place.clone()).or_else(|| at(&path))
        }
        NodeError::Boards { trunk: 0, .. } => at("node.nvlink.board_gpus").or_else(|| at("node.nvlink")),
        NodeError::Boards { .. } => at("node.nvlink.board_gpus").or_else(|| at("node.nvlink.trunk")),
        NodeError::TwoScaleUps => at("node.xgmi"),
        NodeError::TooManyNvlinks { .. } => {
            at("node.nvlink.pairs").or_else(|| at("node.nvlink.links")).or_else(|| at("node.nvlink"))
        }
        NodeError::TooManySwitchPorts { chip, .. } => {
            let links = table.get("nvlink")?.as_table()?.get("links")?;
            Some(links.as_array()?.get(*chip).unwrap_or(links).place.clone())
        }
        NodeError::BadPair { pair } => {
            let pairs = ["nvlink", "xgmi"].iter().find_map(|key| table.get(key)?.as_table()?.get("pairs"))?;
            let is = |n: &&Node| {
                let numbers = n.as_array().unwrap_or_default().iter().map(|n| match n.value {
                    Value::Integer(value) => value,
                    _ => None,
                });
                numbers.eq(pair.map(|p| Some(i64::from(p))))
            };
            Some(pairs.as_array()?.iter().find(is).unwrap_or(pairs).place.clone())
        }
        NodeError::NvlinkForm => at("node.nvlink").or_else(|| at("node.xgmi")),
        _ => None,
    }
}

/// The first link of a PCIe generation, given as the catalogue names it.
fn generation_place(rows: &[Node], name: &str) -> Option<Place> {
    let wanted: i64 = name.strip_prefix("pcie")?.parse().ok()?;
    let slots = rows.iter().filter_map(Node::as_table).flat_map(|row| [row.get("uplink"), row.get("slot")]);
    let mut generations = slots.filter_map(|slot| slot?.as_table()?.get("gen"));
    let wrong = generations.find(|n| matches!(n.value, Value::Integer(Some(value)) if value == wanted));
    wrong.map(|n| n.place.clone())
}

/// How to mend a node, where that can be said.
fn node_hint(error: &NodeError) -> Option<String> {
    let text = match error {
        NodeError::Missing { key: "nic", .. } => "nic = \"connectx-7\"; `fabricsim catalog` lists NICs",
        NodeError::Missing { key: "nvme", .. } => "nvme = \"nvme-gen4\"",
        NodeError::Missing { key: "socket_link", .. } => {
            "socket_link = { name = \"upi2-16\", links = 3 }, or sockets = 1"
        }
        NodeError::BadMember { .. } => "down = [\"gpu0-3\", \"nic0\"]",
        NodeError::Twice { .. } => "take it out of one of the two rows",
        NodeError::Loose { .. } => "add it to `down` of the row that it hangs on",
        NodeError::NoSuchParent { what: "socket", .. } => "sockets are counted from 0",
        NodeError::NoSuchParent { .. } => "`parent` is the number, from 0, of a row above that is a switch",
        NodeError::Lanes { .. } | NodeError::TrainedLanes { .. } => "lanes = 16",
        NodeError::BadDevice { .. } => "trained = { gpu3 = { gen = 1, lanes = 16 } }",
        NodeError::NoSuchGpu { .. } => "GPUs are counted from 0",
        NodeError::NicPolicy { .. } => {
            "nic_policy = \"nearest\", or nic_map = [[0], [1], ...] with a list for every GPU"
        }
        NodeError::Boards { trunk: 0, .. } => "trunk = 6: links from each chip to its counterpart on another board",
        NodeError::Boards { .. } => "more GPUs on a board make fewer boards",
        NodeError::TwoScaleUps => "take one of them out",
        NodeError::TooManyNvlinks { .. } => "fewer links, or another GPU",
        NodeError::TooManySwitchPorts { .. } => "spread the links over more chips: links = [5, 4, 4, 5]",
        NodeError::BadPair { .. } => "pairs = [[0, 1, 4], [2, 3, 4]]: two GPUs and their links, each pair once",
        NodeError::NvlinkForm => {
            "nvlink = { chip = \"nvswitch3\", links = [5, 4, 4, 5] }, or nvlink = { pairs = [[0, 1, 4]] }"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Rows of `pcie` that state another socket than the switch that they hang on.
fn other_sockets(rows: &[Node], out: &mut Diagnostics) {
    let integer = |row: usize, key: &str| match rows.get(row)?.as_table()?.get(key)?.value {
        Value::Integer(Some(value)) => usize::try_from(value).ok(),
        _ => None,
    };
    for row in 0..rows.len() {
        let (Some(parent), Some(socket)) = (integer(row, "parent"), integer(row, "socket")) else { continue };
        let mut root = row;
        while let Some(above) = integer(root, "parent").filter(|&above| above < root) {
            root = above;
        }
        let on = integer(root, "socket").unwrap_or(0);
        let node = rows.get(row).and_then(|n| n.as_table()?.get("socket"));
        if let Some(node) = node.filter(|_| root != row && on != socket) {
            let fault = Diagnostic::new(Code::Impossible, format!("row {row} of `pcie` is on two sockets"));
            let label = format!("socket {socket}, but row {parent}, on which it hangs, is on socket {on}");
            out.push(fault.at(node.place.clone(), label).help("leave `socket` out: it is the parent's"));
        }
    }
}

/// All faults of the node, each at its key, and what is merely odd about a node described in place. With `sound` false (the
/// tree has faults, and rows may be missing) only names are judged.
pub(super) fn node_faults(table: &Table, spec: &FabricSpec, sound: bool, catalogue: &Catalogue, out: &mut Diagnostics) {
    if let Some(rows) = table.get("node").and_then(|n| n.as_table()?.get("pcie")?.as_array()) {
        other_sockets(rows, out);
    }
    // Counts that cannot be are found when the fabric is built.
    let Ok(node) = spec.node_as_built() else { return };
    for fault in node.faults(catalogue) {
        if sound || matches!(fault, NodeError::Unknown(_)) {
            out.push(impossible(&BuildError::Node(fault), table));
        }
    }
    let view = View::new(table, &ROOT);
    if view.has("node") {
        unknown_names(&view.table_or_empty("node"), catalogue, out);
    }
}

/// Names that only matter where they are known.
fn unknown_names(view: &View<'_>, catalogue: &Catalogue, out: &mut Diagnostics) {
    let mut odd = |node: &Node, key: &str, why: &str, error: &UnknownName| {
        let help = error.suggestion.as_ref().map(|alike| format!("did you mean `{alike}`?"));
        let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect")).at(node.place.clone(), why);
        out.push(fault.maybe_help(help));
    };
    let cpu = view.table_or_empty("cpu");
    if let Some((node, name)) = cpu.node("model").and_then(|n| Some((n, n.as_text()?)))
        && let Err(error) = catalogue.host(name)
        && !name.is_empty()
        && !catalogue.systems().any(|s| s.node.cpu.model == name)
    {
        odd(node, "cpu.model", "no CPU of this name is known: its root ports have no limits", &error);
    }
    for row in view.items("pcie").iter().filter_map(Node::as_table) {
        if let Some((node, name)) = row.get("model").and_then(|n| Some((n, n.as_text()?)))
            && let Err(error) = catalogue.pcie_switch(name)
            && error.suggestion.is_some()
        {
            odd(node, "model", "no PCIe switch of this name is in the catalogue", &error);
        }
    }
}
