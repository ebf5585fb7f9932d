//! Values as cells of a table: one line each.

use crate::scenario::tree::{Node, Value};

/// A value of a scenario. `None` for dates, and for numbers that are none.
pub(super) fn of_node(node: &Node) -> Option<String> {
    Some(match &node.value {
        Value::Text(text) => one_line(text),
        Value::Integer(value) => (*value)?.to_string(),
        Value::Float(value) => serde_json::Number::from_f64(*value)?.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Date => return None,
        Value::Array(_) | Value::Table(_) => inline(node)?,
    })
}

/// A value in the notation of TOML, on one line.
fn inline(node: &Node) -> Option<String> {
    Some(match &node.value {
        Value::Text(text) => format!("\"{}\"", one_line(text).replace('"', "'")),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(inline).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Table(table) => {
            let pair = |entry: &crate::scenario::tree::Entry| Some(format!("{} = {}", entry.key, inline(&entry.node)?));
            let pairs: Option<Vec<String>> = table.entries.iter().map(pair).collect();
            format!("{{ {} }}", pairs?.join(", "))
        }
        _ => of_node(node)?,
    })
}

/// A value of the results; nothing for null.
pub(super) fn of_json(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => one_line(text),
        other => other.to_string(),
    }
}

/// Text without line ends: a row is a line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
