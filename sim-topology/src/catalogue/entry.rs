//! The catalogue as a listing: every figure with its unit, its source and its standing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Catalogue;
use super::computed::{Computed, ComputedFigure};
use super::table::{CatalogueError, Row, Standing, Table};

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The document's title.
    pub title: String,
    /// Where it is found.
    #[serde(rename = "where")]
    pub place: String,
    /// Its date, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

/// All sources by id.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sources {
    source: BTreeMap<String, Source>,
}

impl Sources {
    pub(crate) fn parse(text: &str) -> Result<Self, CatalogueError> {
        toml::from_str(text).map_err(|e| CatalogueError { table: "source".into(), message: e.to_string() })
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Source> {
        self.source.get(id)
    }
}

/// One figure of an entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The key as it is written.
    pub key: String,
    /// The key with its unit cut off, nested keys joined by dots: `node.gpus`.
    pub name: String,
    /// The value as it stands in the data.
    pub value: String,
    /// Its unit, as far as it has one.
    pub unit: Option<&'static str>,
    /// How well it is founded.
    pub standing: Standing,
}

/// One thing in the catalogue.
#[derive(Clone, Debug, Serialize)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// Other names that are accepted.
    pub aliases: &'a [String],
    /// The kind: `system`, `gpu`, `nic`, `switch`, ...
    pub kind: &'static str,
    /// What it is, in a few words.
    pub summary: &'a str,
    /// A remark on the figures.
    pub note: Option<&'a str>,
    /// The figures in the order of the data file.
    pub figures: Vec<Figure>,
    /// What follows from them.
    pub computed: Vec<ComputedFigure>,
    /// Where they come from.
    pub sources: Vec<&'a Source>,
}

impl<'a> Entry<'a> {
    /// The name and the aliases.
    pub fn all_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let aliases = self.aliases;
        std::iter::once(self.name).chain(aliases.iter().map(String::as_str))
    }

    /// Whether `name` is the name or an alias, without regard to case.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        let folded = name.trim().to_lowercase();
        self.all_names().any(|n| n == folded)
    }

    /// Whether some figure is only recalled.
    #[must_use]
    pub fn is_provisional(&self) -> bool {
        self.figures.iter().any(|f| f.standing.is_provisional())
    }
}

pub(crate) fn all<'a, T: Computed>(
    catalogue: &'a Catalogue,
    table: &'a Table<T>,
) -> impl Iterator<Item = Entry<'a>> + use<'a, T> {
    let kind = table.key();
    table.rows().map(move |row| of_row(kind, catalogue, row))
}

fn of_row<'a, T: Computed>(kind: &'static str, catalogue: &'a Catalogue, row: &'a Row<T>) -> Entry<'a> {
    let mut figures = Vec::new();
    collect(&row.figures, "", row, row.standing, &mut figures);
    Entry {
        name: &row.name,
        aliases: &row.aliases,
        kind,
        summary: &row.title,
        note: row.note.as_deref(),
        figures,
        computed: row.data.computed(catalogue),
        sources: row.source.iter().filter_map(|id| catalogue.sources.get(id)).collect(),
    }
}

fn collect<T>(table: &toml::Table, prefix: &str, row: &Row<T>, standing: Standing, out: &mut Vec<Figure>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let standing = row.standings.get(&path).copied().unwrap_or(standing);
        match value {
            toml::Value::Table(inner) => collect(inner, &path, row, standing, out),
            value => {
                let (name, unit) = split_unit(&path);
                out.push(Figure { key: path.clone(), name: name.to_owned(), value: plain(value), unit, standing });
            }
        }
    }
}

/// A value as text, strings without quotes.
pub(super) fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) if items.iter().all(|v| !v.is_table() && !v.is_array()) => {
            items.iter().map(plain).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// The units that keys end in.
const UNITS: [(&str, &str); 20] = [
    ("_GBps", "GB/s"),
    ("_gbit", "Gb/s"),
    ("_ns_per_m", "ns/m"),
    ("_ns_per_side", "ns a side"),
    ("_usd_per_hour", "USD/h"),
    ("packets_per_ns", "packets/ns"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_gb", "GB"),
    ("_mb", "MB"),
    ("_bytes", "B"),
    ("_bits", "bits"),
    ("_tflops", "TFLOP/s"),
    ("tflops", "TFLOP/s"),
    ("_gt_per_lane", "GT/s"),
    ("gt_per_lane", "GT/s a lane"),
    ("_usd", "USD"),
    ("_m", "m"),
    ("_w", "W"),
    ("bytes", "B"),
];

pub(super) fn split_unit(key: &str) -> (&str, Option<&'static str>) {
    for (suffix, unit) in UNITS {
        if let Some(stem) = key.strip_suffix(suffix) {
            return (if stem.is_empty() { key } else { stem }, Some(unit));
        }
    }
    (key, None)
}
