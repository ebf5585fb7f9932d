//! `transport.preset = "NAME"`: the keys of a preset, below all that the scenario and its settings say of the transport.

use super::named_keys::{self, Kind};
use super::tree::{Node, Table};
use crate::diagnostic::{Code, Diagnostics};

static PRESETS: Kind = Kind {
    word: "preset",
    unknown: Code::UnknownSystem,
    builtin: |catalogue, name| {
        let row = catalogue.preset(name)?;
        let keys = toml::Table::from_iter([("transport".to_owned(), toml::Value::Table(row.transport.clone()))]);
        Ok((row.name.clone(), keys))
    },
};

/// Lays `table` upon the keys of the preset that it names, if it names one.
pub(super) fn under(table: Table, diagnostics: &mut Diagnostics) -> Table {
    let Some(node) = table.get("transport").and_then(|t| t.as_table()?.get("preset")) else { return table };
    // Another type than text is for validation to refuse.
    let Some(name) = node.as_text() else { return table };
    let below = keys(&table, (name, node), diagnostics);
    let Some(mut below) = below else { return table };
    below.lay(table);
    below
}

/// The keys of the preset called `name`.
pub(super) fn keys(table: &Table, (name, node): (&str, &Node), diagnostics: &mut Diagnostics) -> Option<Table> {
    named_keys::keys(&PRESETS, table, (name, node), &mut Vec::new(), diagnostics)
}

/// The name of a preset's text among sources.
pub(super) fn is_preset(source: &str) -> Option<&str> {
    source.strip_prefix("preset ")
}
