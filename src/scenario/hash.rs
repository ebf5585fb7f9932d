//! A hash of what a scenario sets, for results to name the scenario they belong to.

use sim_core::random::mix;

use super::tree::{Node, Table, Value};

/// The hash of all keys but `name` and `description`, whatever their order.
pub(super) fn of(root: &Table) -> u64 {
    let entries = root.entries.iter().filter(|e| !matches!(e.key.as_str(), "name" | "description"));
    unordered(entries.map(|e| text(&e.key, node(&e.node))))
}

/// The same with the contents of the files that it names.
pub(super) fn with_files<'a>(scenario: u64, files: impl Iterator<Item = &'a str>) -> u64 {
    files.fold(scenario, |sum, content| text(content, sum))
}

/// The hash of one key's value; 0 where it isn't set.
pub(super) fn key(root: &Table, key: &str) -> u64 {
    root.get(key).map_or(0, node)
}

/// Order doesn't matter, number does.
fn unordered(parts: impl Iterator<Item = u64>) -> u64 {
    mix(parts.fold(0, |sum, part| mix(part).wrapping_add(sum)))
}

pub(super) fn text(text: &str, seed: u64) -> u64 {
    text.bytes().fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)))
}

pub(super) fn node(node: &Node) -> u64 {
    match &node.value {
        Value::Text(value) => text(value, 1),
        Value::Integer(value) => text(&value.unwrap_or_default().to_string(), 2),
        Value::Float(value) => mix(3 ^ value.to_bits()),
        Value::Boolean(value) => mix(4 + u64::from(*value)),
        Value::Date => mix(6),
        Value::Array(items) => items.iter().fold(mix(7), |state, item| mix(state ^ self::node(item))),
        Value::Table(table) => mix(8 ^ unordered(table.entries.iter().map(|e| text(&e.key, self::node(&e.node))))),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Input, Scenario, Setting};

    fn hash(text: &str, settings: &[Setting]) -> u64 {
        Scenario::load(&Input::Text { name: "t.toml".into(), text: text.into() }, settings).unwrap().hash
    }

    #[test]
    fn comments_order_and_origin_do_not_count_and_values_do() {
        let base = hash("system = \"hgx-h100\"\nnodes = 2\n", &[]);
        assert_eq!(base, hash("# two\nname = \"x\"\nnodes = 2\nsystem = \"hgx-h100\"\n", &[]));
        assert_eq!(base, hash("system = \"hgx-h100\"\n", &[Setting::set("nodes=2")]));
        assert_ne!(base, hash("system = \"hgx-h100\"\nnodes = 3\n", &[]));
        assert_ne!(base, hash("system = \"hgx-h100\"\nnodes = 2\nseed = 2\n", &[]));
    }
}
