//! A node as the TOML of a scenario, each value with its origin beside it.

use core::fmt::Write as _;

use sim_core::units::Rate;
use toml::{Table, Value};

use crate::faults::{Degraded, FaultKind};

use super::{Certainty, FoundGraph, FoundGraphs, Imported, Kind, Origin};

/// Keys of a node in the order in which they are written; others follow.
const ORDER: [&str; 18] = [
    "gpu",
    "gpus",
    "nic",
    "nics",
    "nic_rate",
    "nvlink",
    "xgmi",
    "max_nodes_per_domain",
    "c2c",
    "sockets",
    "numa_per_socket",
    "socket_link",
    "memory",
    "cpu",
    "peer_to_peer",
    "gpudirect_rdma",
    "trained",
    "pcie",
];

/// The scenario of an imported node: `name` is the file's.
///
/// # Errors
/// If the node cannot be serialised, which would be a fault of this crate.
pub fn toml(imported: &Imported, name: &str) -> Result<String, toml::ser::Error> {
    let table = Table::try_from(&imported.node)?;
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "# A node read from {} ({}).", plain(name), imported.kind.title());
    let _ = writeln!(
        out,
        "# Values without a remark are the file's. What it does not say is marked: `catalogue` follows from"
    );
    let _ = writeln!(
        out,
        "# the catalogue, `assumed` is a guess, `given` came from the command line. Change what you know better."
    );
    if !imported.findings.is_empty() {
        let _ = writeln!(out, "#\n# Found on the way:");
        for finding in &imported.findings {
            let _ = writeln!(out, "# - {}", plain(&finding.message));
        }
    }
    let _ = writeln!(out, "\n[node]");
    for key in ORDER.iter().copied().chain(table.keys().map(String::as_str).filter(|k| !ORDER.contains(k))) {
        match table.get(key) {
            None => {}
            Some(Value::Array(rows)) if key == "pcie" => {
                let _ = writeln!(out, "pcie = [");
                for row in rows {
                    let _ = writeln!(out, "  {},", inline(row));
                }
                let _ = writeln!(out, "]");
            }
            Some(value) => {
                let remark = remark(&imported.origins, key);
                let text = format!("{key} = {}", inline(value));
                let _ =
                    if remark.is_empty() { writeln!(out, "{text}") } else { writeln!(out, "{text:<32}  # {remark}") };
            }
        }
    }
    for fault in &imported.faults {
        if let FaultKind::Degraded(Degraded { links: Some(left), .. }) = fault.kind {
            let target = Value::String(fault.target.clone());
            let _ = writeln!(out, "\n[[fault]]\ntarget = {target}\nkind = \"degraded\"\nlinks = {left}");
        }
    }
    let _ = writeln!(out, "\n# Devices:");
    for device in &imported.devices {
        let alias =
            device.alias.as_ref().filter(|a| **a != device.name).map_or(String::new(), |a| format!(" ({})", plain(a)));
        let _ = writeln!(out, "# {:<6} {}{alias}", device.device, plain(&device.name));
    }
    Ok(out)
}

/// The channels of a graph file or log as a scenario's tables. `head` holds lines that go before them (`system = "…"`,
/// `extends = "…"`).
#[must_use]
pub fn graphs_toml(found: &FoundGraphs, kind: Kind, name: &str, head: &str) -> String {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let mut out = String::new();
    let _ = writeln!(out, "# Channels read from {} ({}), in place of the modelled search.", plain(name), kind.title());
    for note in found.notes.iter().chain(found.findings.iter().map(|f| &f.message)) {
        let _ = writeln!(out, "# - {}", plain(note));
    }
    let _ = write!(out, "\n{head}");
    if let Some(transport) = found.transport {
        let _ = writeln!(out, "\n[transport]\nkind = {}", quoted(transport));
    }
    let _ = writeln!(out, "\n[software]");
    if let Some(version) = &found.version {
        let _ = writeln!(out, "nccl = {}", quoted(version));
    }
    if !found.env.is_empty() {
        let _ = writeln!(out, "\n[software.env]");
        for (variable, value) in &found.env {
            let _ = writeln!(out, "{variable} = {}", quoted(value));
        }
    }
    let _ = writeln!(out, "\n[software.channels]\nsource = {}", quoted(&plain(name)));
    if let Some(count) = found.count {
        let _ = writeln!(out, "count = {count}");
    }
    for (key, graph) in [("ring", &found.ring), ("tree", &found.tree), ("nvls", &found.nvls)] {
        if let Some(graph) = graph {
            let _ = writeln!(out, "{key} = {}", graph_text(graph));
        }
    }
    if !found.orders.is_empty() {
        let _ = writeln!(out, "orders = [");
        for order in &found.orders {
            let _ = writeln!(out, "  {order:?},");
        }
        let _ = writeln!(out, "]");
    }
    out
}

fn graph_text(graph: &FoundGraph) -> String {
    let classes = ["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"];
    let mut parts = vec![format!("channels = {}", graph.channels)];
    if let Some((intra, inter)) = graph.speeds {
        parts.push(format!("bw_intra = \"{intra} GB/s\", bw_inter = \"{inter} GB/s\""));
    }
    if let Some((intra, inter)) = &graph.types {
        for (key, class) in [("type_intra", intra), ("type_inter", inter)] {
            // Older versions write NODE for what is PHB now.
            let class = if class == "NODE" { "PHB" } else { class };
            if classes.contains(&class) {
                parts.push(format!("{key} = \"{class}\""));
            }
        }
    }
    parts.extend(graph.pattern.filter(|p| (1..=6).contains(p)).map(|p| format!("pattern = {p}")));
    if graph.cross_nic {
        parts.push("cross_nic = true".to_owned());
    }
    format!("{{ {} }}", parts.join(", "))
}

/// The origins of a key and those inside its table.
fn remark(origins: &[Origin], key: &str) -> String {
    let of = |origin: &&Origin| origin.key.split('.').next() == Some(key);
    let one = |origin: &Origin| {
        let inner = origin.key.split_once('.').map_or(String::new(), |(_, inner)| format!("{inner} "));
        match (origin.certainty, inner.as_str()) {
            (Certainty::File, "") => origin.why.clone(),
            (Certainty::File, inner) => format!("{inner}by {}", origin.why),
            (certainty, inner) => format!("{inner}{certainty}: {}", origin.why),
        }
    };
    plain(&origins.iter().filter(of).map(one).collect::<Vec<_>>().join("; "))
}

/// Text that cannot leave a comment.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A rate as people write it, and exactly: in GB/s where one digit is enough.
pub(super) fn rate_shown(rate: Rate) -> String {
    let n = rate.get();
    if n.is_multiple_of(125_000_000) || !n.is_multiple_of(100_000_000) {
        return crate::text::rate_text(rate);
    }
    format!("{}.{} GB/s", n / 1_000_000_000, n / 100_000_000 % 10)
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) if text.ends_with(" B/s") => match text.parse() {
            Ok(rate) => Value::String(rate_shown(rate)).to_string(),
            Err(_) => value.to_string(),
        },
        Value::Table(table) => {
            let order = ["socket", "numa", "host_bridge", "parent", "switch", "uplink", "slot", "gen", "lanes", "name"];
            let rank = |key: &str| order.iter().position(|o| *o == key).unwrap_or(order.len());
            let mut keys: Vec<&String> = table.keys().collect();
            keys.sort_by_key(|key| (rank(key), table.keys().position(|k| k == *key)));
            let parts: Vec<String> =
                keys.iter().map(|key| format!("{key} = {}", inline(&table[key.as_str()]))).collect();
            format!("{{ {} }}", parts.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
