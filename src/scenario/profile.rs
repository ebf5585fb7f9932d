//! Timing parameters of a scenario that replace the built-in ones.

use indexmap::IndexMap;
use sim_collectives::timing::{Origin, ProfileError, Timing};
use sim_topology::{Catalogue, FabricSpec};

use super::quantity;
use super::tree::{Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten, suggest};

/// The parameters by name, in the unit that ends their name; names and values are those of the timing model.
pub(super) fn profile(
    root: &View<'_>,
    spec: &FabricSpec,
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) -> IndexMap<String, f64> {
    let mut values = IndexMap::new();
    let entries = root.node("profile").and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    if entries.is_empty() {
        return values;
    }
    // Which parameters there are does not depend on the GPU; an unknown one has been reported.
    let sm = catalogue.gpu(&spec.node.gpu).map_or(90, |gpu| gpu.sm);
    let mut timing = Timing::builtin(sm, spec.transport.as_str());
    let names: Vec<String> = timing.parameters().iter().map(|p| p.name.clone()).collect();
    for entry in entries {
        let name = &entry.key;
        if !names.contains(name) {
            let fault = Diagnostic::new(Code::UnknownKey, format!("unknown timing parameter `{}`", shorten(name)));
            let fault = fault.at(entry.key_place.clone(), "not one of the timing model's");
            out.push(fault.help(suggest(name, names.iter().map(String::as_str))));
            continue;
        }
        let Some(value) = number(name, &entry.node) else {
            let unit = if name.ends_with("_us") { "microseconds" } else { "GB/s" };
            let fault = Diagnostic::new(Code::WrongType, format!("`{name}` takes a number"));
            let label = format!("{}; {unit} are due", entry.node.describe());
            out.push(fault.at(entry.node.place.clone(), label).help(example(name)));
            continue;
        };
        match timing.set(name, value, Origin::Assumed, "") {
            Ok(()) => drop(values.insert(name.clone(), value)),
            Err(ProfileError::Value { .. } | ProfileError::Unknown { .. }) => {
                let least = if name.ends_with("_gbps") { "above zero" } else { "zero or more" };
                let fault = Diagnostic::new(Code::OutOfRange, format!("`{name}` is out of range"));
                out.push(fault.at(entry.node.place.clone(), format!("a finite number, {least}, is due")));
            }
        }
    }
    values
}

/// A bare number, or a quantity of the kind that the name's end tells.
fn number(name: &str, node: &Node) -> Option<f64> {
    match &node.value {
        Value::Integer(Some(value)) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Text(_) if name.ends_with("_us") => quantity::time(node).map(|span| span.as_us()),
        Value::Text(_) => quantity::rate(node).map(|rate| rate.as_gbyte()),
        _ => None,
    }
}

fn example(name: &str) -> String {
    if name.ends_with("_us") {
        format!("\"{name}\" = 1.5, or \"{name}\" = \"1500 ns\"")
    } else {
        format!("\"{name}\" = 20.5, or \"{name}\" = \"20.5 GB/s\"")
    }
}
