//! A table of catalogue rows: parsing, provenance and lookup by name.

use core::fmt;
use core::ops::Deref;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::entry::{plain, split_unit};
use super::own::{Change, ChangedFigure, OwnRow, OwnRowFault};
use crate::text::closest;

/// How well a figure is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Read in the vendor's or the authors' own text, source code or topology dump.
    Published,
    /// A measurement that the source reports.
    Measured,
    /// Computed from other figures.
    Derived,
    /// Read in a third party's text.
    Secondary,
    /// Commonly quoted, not re-checked: provisional.
    Recalled,
    /// Stated by the user, in a scenario or a file of their own.
    Yours,
}

impl Standing {
    /// Whether the figure should be confirmed before it is relied on.
    #[must_use]
    pub const fn is_provisional(self) -> bool {
        matches!(self, Self::Recalled)
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured",
            Self::Derived => "derived",
            Self::Secondary => "secondary",
            Self::Recalled => "recalled",
            Self::Yours => "yours",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that the catalogue does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} `{name}`{}", self.tail())]
pub struct UnknownName {
    /// What was looked for: `GPU`, `NIC`, `system`, ...
    pub kind: &'static str,
    /// The name as given.
    pub name: String,
    /// A known name that is close to it.
    pub suggestion: Option<String>,
    /// All names that would have been understood, without aliases.
    pub known: Vec<String>,
}

impl UnknownName {
    pub(crate) fn new<'a>(kind: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self {
            kind,
            name: name.chars().take(60).collect(),
            suggestion: closest(name, known.iter().copied()),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }

    fn tail(&self) -> String {
        match &self.suggestion {
            Some(near) => format!("; did you mean `{near}`?"),
            None if self.known.len() <= 12 => format!("; known: {}", self.known.join(", ")),
            None => String::new(),
        }
    }
}

/// A fault of the embedded data; tests keep it from happening.
#[derive(Debug, thiserror::Error)]
#[error("catalogue table `{table}`: {message}")]
pub struct CatalogueError {
    /// The table.
    pub table: String,
    /// What is wrong.
    pub message: String,
}

/// One row: its data, its names, and where the figures come from.
///
/// Dereferences to the data.
#[derive(Clone, Debug)]
pub struct Row<T> {
    /// The name that the tool prints.
    pub name: String,
    /// Other names that are accepted.
    pub aliases: Vec<String>,
    /// What it is, in a few words.
    pub title: String,
    /// A remark on the figures.
    pub note: Option<String>,
    /// The standing of figures that [`standings`](Self::standings) does not name.
    pub standing: Standing,
    /// The standing of single keys.
    pub standings: BTreeMap<String, Standing>,
    /// Ids of the sources.
    pub source: Vec<String>,
    /// The typed data.
    pub data: T,
    /// The keys and values as they stand in the file, for listings.
    pub(crate) figures: toml::Table,
}

#[cfg(test)]
impl<T> Row<T> {
    pub(crate) fn without_data(&self) -> Row<()> {
        Row {
            name: self.name.clone(),
            aliases: self.aliases.clone(),
            title: self.title.clone(),
            note: self.note.clone(),
            standing: self.standing,
            standings: self.standings.clone(),
            source: self.source.clone(),
            data: (),
            figures: self.figures.clone(),
        }
    }
}

impl<T> Deref for Row<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

#[derive(Deserialize)]
struct Provenance {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    title: String,
    note: Option<String>,
    standing: Standing,
    #[serde(default)]
    standings: BTreeMap<String, Standing>,
    source: Vec<String>,
    like: Option<String>,
}

const PROVENANCE: [&str; 8] = ["name", "aliases", "title", "note", "standing", "standings", "source", "like"];

/// Rows of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    key: &'static str,
    kind: &'static str,
    rows: Vec<Row<T>>,
}

impl<T: DeserializeOwned> Table<T> {
    /// Lays a row of the user's own upon the row called `base`, or adds it. Returns what that changed.
    pub(crate) fn put(&mut self, own: &OwnRow, base: Option<&str>) -> Result<Change, OwnRowFault> {
        let at = self.rows.iter().position(|row| row.name == own.name);
        let base = match base {
            Some(name) => Some(self.get(name).map_err(OwnRowFault::UnknownLike)?),
            None => at.and_then(|i| self.rows.get(i)),
        };
        let mut figures = base.map(|row| row.figures.clone()).unwrap_or_default();
        let mut standings = base.map(|row| row.standings.clone()).unwrap_or_default();
        let mut changed = Vec::new();
        lay("", &own.figures, &mut figures, &mut standings, &mut changed);
        let data =
            figures.clone().try_into().map_err(|e: toml::de::Error| OwnRowFault::Data(e.message().to_owned()))?;
        let row = Row {
            name: own.name.clone(),
            aliases: at.and_then(|i| self.rows.get(i)).map_or_else(Vec::new, |row| row.aliases.clone()),
            title: own.title.clone().or_else(|| base.map(|b| b.title.clone())).unwrap_or_else(|| own.name.clone()),
            note: own.note.clone().or_else(|| base.and_then(|b| b.note.clone())),
            standing: base.map_or(Standing::Yours, |b| b.standing),
            standings,
            source: base.map_or_else(Vec::new, |b| b.source.clone()),
            data,
            figures,
        };
        let like = base.filter(|b| b.name != own.name).map(|b| b.name.clone());
        let change =
            Change { index: 0, kind: self.key, name: own.name.clone(), added: at.is_none(), like, figures: changed };
        match at.and_then(|i| self.rows.get_mut(i)) {
            Some(place) => *place = row,
            None => self.rows.push(row),
        }
        Ok(change)
    }

    /// Reads the array of tables `key` of `text`.
    pub(crate) fn parse(key: &'static str, kind: &'static str, text: &str) -> Result<Self, CatalogueError> {
        let fail = |message: String| CatalogueError { table: key.to_owned(), message };
        let mut document: toml::Table = text.parse().map_err(|e| fail(format!("{e}")))?;
        let Some(toml::Value::Array(items)) = document.remove(key) else {
            return Err(fail("no such array of tables".into()));
        };
        let mut rows: Vec<Row<T>> = Vec::with_capacity(items.len());
        for item in items {
            let toml::Value::Table(mut figures) = item else { return Err(fail("a row is not a table".into())) };
            let mut p: Provenance = figures.clone().try_into().map_err(|e| fail(format!("{e}")))?;
            for k in PROVENANCE {
                figures.remove(k);
            }
            if let Some(like) = &p.like {
                let base = rows.iter().find(|r| &r.name == like);
                let base = base.ok_or_else(|| fail(format!("`{}` is like `{like}`, which comes later", p.name)))?;
                inherit_node(&base.figures, &mut figures);
                inherit_transport(base, &mut figures, &mut p);
            }
            let data = figures.clone().try_into().map_err(|e| fail(format!("`{}`: {e}", p.name)))?;
            let Provenance { name, aliases, title, note, standing, standings, source, .. } = p;
            rows.push(Row { name, aliases, title, note, standing, standings, source, data, figures });
        }
        Ok(Self { key, kind, rows })
    }
}

/// Lays figures upon others: tables key by key, one level deep; anything else is replaced. What differs goes to
/// `changed`, and stands as the user's.
fn lay(
    prefix: &str,
    over: &toml::Table,
    figures: &mut toml::Table,
    standings: &mut BTreeMap<String, Standing>,
    changed: &mut Vec<ChangedFigure>,
) {
    for (key, value) in over {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if let (toml::Value::Table(inner), true) = (value, prefix.is_empty()) {
            let below = figures.entry(key.clone()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(below) = below {
                lay(&path, inner, below, standings, changed);
                continue;
            }
        }
        let from = figures.get(key).map(plain);
        let to = plain(value);
        standings.retain(|k, _| *k != path && !k.starts_with(&format!("{path}.")));
        standings.insert(path.clone(), Standing::Yours);
        figures.insert(key.clone(), value.clone());
        if from.as_ref() != Some(&to) {
            let (name, unit) = split_unit(&path);
            changed.push(ChangedFigure { name: name.to_owned(), unit, from, to });
        }
    }
}

/// Takes the keys of `base.node` that `figures.node` does not give.
fn inherit_node(base: &toml::Table, figures: &mut toml::Table) {
    let Some(toml::Value::Table(base)) = base.get("node") else { return };
    let own = figures.entry("node").or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let toml::Value::Table(own) = own {
        for (key, value) in base {
            if !own.contains_key(key) {
                own.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Takes the keys of `base.transport`, at any depth, that `figures.transport` does not give, with their standing and the
/// base's sources.
fn inherit_transport<T>(base: &Row<T>, figures: &mut toml::Table, row: &mut Provenance) {
    fn lay<T>(
        path: &str,
        (below, base): (&toml::Table, &Row<T>),
        above: &mut toml::Table,
        own: Standing,
        standings: &mut BTreeMap<String, Standing>,
    ) {
        for (key, value) in below {
            let path = format!("{path}.{key}");
            match (value, above.get_mut(key)) {
                (toml::Value::Table(below), Some(toml::Value::Table(above))) => {
                    lay(&path, (below, base), above, own, standings);
                }
                (_, Some(_)) => {}
                (toml::Value::Table(below), None) => {
                    let mut inner = toml::Table::new();
                    lay(&path, (below, base), &mut inner, own, standings);
                    above.insert(key.clone(), toml::Value::Table(inner));
                }
                (value, None) => {
                    let standing = base.standings.get(&path).copied().unwrap_or(base.standing);
                    if standing != own {
                        standings.insert(path, standing);
                    }
                    above.insert(key.clone(), value.clone());
                }
            }
        }
    }
    let key = "transport";
    let Some(toml::Value::Table(below)) = base.figures.get(key) else { return };
    let above = figures.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let toml::Value::Table(above) = above {
        lay(key, (below, base), above, row.standing, &mut row.standings);
    }
    let more = base.source.iter().filter(|id| !row.source.contains(id)).cloned().collect::<Vec<_>>();
    row.source.extend(more);
}

impl<T> Table<T> {
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row<T>> {
        self.rows.iter()
    }

    /// The last row that `is` holds of.
    pub(crate) fn last(&self, is: impl Fn(&Row<T>) -> bool) -> Option<&Row<T>> {
        self.rows.iter().rev().find(|row| is(row))
    }

    pub(crate) fn key(&self) -> &'static str {
        self.key
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Row<T>, UnknownName> {
        let folded = name.trim().to_lowercase();
        let hit = |row: &&Row<T>| row.name == folded || row.aliases.contains(&folded);
        self.rows.iter().find(hit).ok_or_else(|| self.unknown(name))
    }

    pub(crate) fn unknown(&self, name: &str) -> UnknownName {
        let names = self.rows.iter().map(|r| r.name.as_str());
        let mut error = UnknownName::new(self.kind, name, names);
        if error.suggestion.is_none() {
            let aliases = self.rows.iter().flat_map(|r| r.aliases.iter().map(String::as_str));
            error.suggestion = closest(name, aliases);
        }
        error
    }
}
