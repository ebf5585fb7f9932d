//! A TOML document in which every key and value knows where it was written.
//!
//! Documents of several texts (a file, what it extends, `--set`) are laid over each other without losing the places.

use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, SourceId};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// `None` if it does not fit into 64 bits.
    Integer(Option<i64>),
    Float(f64),
    Boolean(bool),
    Date,
    Array(Vec<Node>),
    Table(Table),
}

/// Keys in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

impl Node {
    /// What the value is, in words.
    pub(crate) fn describe(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number with a fraction",
            Value::Boolean(_) => "a boolean",
            Value::Date => "a date",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    pub(crate) fn as_array(&self) -> Option<&[Self]> {
        if let Value::Array(items) = &self.value { Some(items) } else { None }
    }

    /// Tables within this table become keys with dots, so that `a.b = 1` and `"a.b" = 1` are the same; the later wins.
    pub(crate) fn flatten(&mut self) {
        fn put(prefix: &str, table: Table, flat: &mut Table) {
            for mut entry in table.entries {
                entry.key = if prefix.is_empty() { entry.key } else { format!("{prefix}.{}", entry.key) };
                match entry.node.value {
                    Value::Table(inner) => put(&entry.key, inner, flat),
                    _ => match flat.entries.iter_mut().find(|e| e.key == entry.key) {
                        Some(below) => *below = entry,
                        None => flat.entries.push(entry),
                    },
                }
            }
        }
        if let Value::Table(table) = &mut self.value {
            let mut flat = Table::default();
            put("", core::mem::take(table), &mut flat);
            *table = flat;
        }
    }

    /// Lays `over` upon this node: tables are merged key by key, anything else is replaced. A table whose keys are
    /// all indices is laid upon the members of an array.
    pub(crate) fn lay(&mut self, over: Self) {
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => below.lay(above),
            (Value::Array(items), Value::Table(above)) if above.indexes(items.len()) => {
                for entry in above.entries {
                    if let Some(item) = entry.key.parse().ok().and_then(|i: usize| items.get_mut(i)) {
                        item.lay(entry.node);
                    }
                }
            }
            (_, value) => *self = Self { value, place: over.place },
        }
    }
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.node)
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Entry> {
        self.entries.iter().position(|e| e.key == key).map(|i| self.entries.remove(i))
    }

    pub(crate) fn lay(&mut self, over: Self) {
        for entry in over.entries {
            match self.entries.iter_mut().find(|e| e.key == entry.key) {
                Some(below) => {
                    if !matches!(entry.node.value, Value::Table(_)) {
                        below.key_place = entry.key_place;
                    }
                    below.node.lay(entry.node);
                }
                None => self.entries.push(entry),
            }
        }
    }

    fn indexes(&self, len: usize) -> bool {
        !self.entries.is_empty() && self.entries.iter().all(|e| e.key.parse().is_ok_and(|i: usize| i < len))
    }
}

/// Reads a document; what can't be read is reported, and the rest returned.
pub(crate) fn parse(source: SourceId, text: &str, diagnostics: &mut Diagnostics) -> Table {
    let (table, errors) = DeTable::parse_recoverable(text);
    let total = errors.len();
    for error in errors.into_iter().take(20) {
        diagnostics.push(syntax(source, text, &error));
    }
    if total > 20 {
        diagnostics.push(Diagnostic::new(Code::Syntax, format!("and {} more faults of syntax", total - 20)));
    }
    convert_table(source, 0, table.into_inner())
}

/// Reads one value that stands at byte `at` of a text; `None` if it is not a TOML value.
pub(crate) fn parse_value(source: SourceId, at: usize, text: &str) -> Option<Node> {
    DeValue::parse(text).ok().map(|value| convert(source, at, value))
}

fn syntax(source: SourceId, text: &str, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(text.len()..text.len());
    let mut lines = error.message().lines();
    let label = lines.next().unwrap_or("not valid TOML").to_owned();
    let help: Vec<&str> = lines.collect();
    let mut diagnostic =
        Diagnostic::new(Code::Syntax, "not valid TOML").at(Place { source, span: span.clone() }, label);
    if !help.is_empty() {
        diagnostic = diagnostic.help(help.join("; "));
    }
    diagnostic.maybe_help(unquoted(text, span))
}

/// Advice for the most frequent slip: text without quotes after `=`.
fn unquoted(text: &str, span: Range<usize>) -> Option<String> {
    let start = text.get(..span.start)?.rfind('\n').map_or(0, |i| i + 1);
    let line = text.get(start..)?.lines().next()?;
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next()?.trim();
    let bare = value.chars().next()?.is_alphanumeric()
        && value.len() <= 60
        && value.chars().all(|c| c.is_alphanumeric() || " -_./".contains(c));
    bare.then(|| format!("text needs quotes: {} = \"{value}\"", key.trim()))
}

fn convert_table(source: SourceId, at: usize, table: DeTable<'_>) -> Table {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, node)| {
            let span = key.span();
            Entry {
                key: key.into_inner().into_owned(),
                key_place: Place { source, span: span.start + at..span.end + at },
                node: convert(source, at, node),
            }
        })
        .collect();
    entries.sort_by_key(|e| e.key_place.span.start);
    Table { entries }
}

fn convert(source: SourceId, at: usize, node: Spanned<DeValue<'_>>) -> Node {
    let span = node.span();
    let value = match node.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(integer) => Value::Integer(i64::from_str_radix(integer.as_str(), integer.radix()).ok()),
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(boolean) => Value::Boolean(boolean),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::Array(items.into_iter().map(|n| convert(source, at, n)).collect()),
        DeValue::Table(table) => Value::Table(convert_table(source, at, table)),
    };
    Node { value, place: Place { source, span: span.start + at..span.end + at } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Table, Diagnostics) {
        let mut diagnostics = Diagnostics::new();
        let source = diagnostics.sources.add("t.toml", text);
        let table = parse(source, text, &mut diagnostics);
        (table, diagnostics)
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "nodes = 2\n[fabric]\nkind = \"leaf-spine\"\n";
        let (table, diagnostics) = read(text);
        assert!(diagnostics.list.is_empty());
        let kind = table.get("fabric").unwrap().as_table().unwrap().entry("kind").unwrap();
        assert_eq!(&text[kind.key_place.span.clone()], "kind");
        assert_eq!(&text[kind.node.place.span.clone()], "\"leaf-spine\"");
    }

    #[test]
    fn several_syntax_errors_are_reported_and_the_rest_is_kept() {
        let (table, diagnostics) = read("system = hgx-h100\nnodes = \nseed = 4\n");
        assert_eq!(diagnostics.list.len(), 2, "{diagnostics:?}");
        assert!(diagnostics.list[0].help.iter().any(|h| h == "text needs quotes: system = \"hgx-h100\""));
        assert!(matches!(table.get("seed").unwrap().value, Value::Integer(Some(4))));
    }

    #[test]
    fn layers_keep_what_they_do_not_mention() {
        let (mut below, _) = read("nodes = 2\n[fabric]\nspines = 4\nleaves = 8\n[[workload]]\nop = \"a\"\nmin = 1\n");
        let (above, _) = read("nodes = 3\nfabric.spines = 5\nworkload.0.op = \"b\"\n");
        below.lay(above);
        let fabric = below.get("fabric").unwrap().as_table().unwrap();
        assert!(matches!(below.get("nodes").unwrap().value, Value::Integer(Some(3))));
        assert!(matches!(fabric.get("spines").unwrap().value, Value::Integer(Some(5))));
        assert!(matches!(fabric.get("leaves").unwrap().value, Value::Integer(Some(8))));
        let first = below.get("workload").unwrap().as_array().unwrap()[0].as_table().unwrap();
        assert_eq!(first.get("op").unwrap().as_text(), Some("b"));
        assert!(first.get("min").is_some());
    }

    #[test]
    fn integers_beyond_64_bits_are_kept_as_such() {
        let (table, _) = read("a = 0xffff_ffff\nb = 99999999999999999999\nc = nan\n");
        assert!(matches!(table.get("a").unwrap().value, Value::Integer(Some(0xffff_ffff))));
        assert!(!matches!(table.get("b").unwrap().value, Value::Integer(Some(_))));
        assert!(matches!(table.get("c").unwrap().value, Value::Float(f) if f.is_nan()));
    }
}
