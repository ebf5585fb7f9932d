//! Typed reading of a validated table, with the defaults of the tables of keys.
//!
//! Values that validation has refused read as absent, so that later checks go on with what is sound.

use core::str::FromStr;

use sim_core::units::{Bytes, Rate, Span};

use super::keys::{Kind, TableSpec, canonical};
use super::quantity::{self, Metres};
use super::tree::{Node, Table, Value};

/// A table with the specification of its keys.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    table: &'a Table,
    spec: &'static TableSpec,
}

impl<'a> View<'a> {
    pub(crate) fn new(table: &'a Table, spec: &'static TableSpec) -> Self {
        Self { table, spec }
    }

    /// The value as written, if it was.
    pub(crate) fn node(&self, key: &str) -> Option<&'a Node> {
        debug_assert!(self.spec.key(key).is_some(), "{}.{key} is not in the tables", self.spec.name);
        self.table.get(key)
    }

    /// Whether the key was written.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    fn default<T: FromStr>(&self, key: &str) -> Option<T> {
        self.spec.key(key)?.default?.parse().ok()
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.node(key)?.as_text()
    }

    /// The text, else the default.
    pub(crate) fn text_or_default(&self, key: &str) -> &'a str {
        self.text(key).or(self.spec.key(key).and_then(|k| k.default)).unwrap_or("")
    }

    /// The word of a choice in its own spelling, else the default.
    pub(crate) fn choice(&self, key: &str) -> Option<&'static str> {
        let spec = self.spec.key(key)?;
        match (&spec.kind, self.node(key)) {
            (Kind::Choice(words), Some(node)) => canonical(words, node.as_text()?),
            _ => spec.default,
        }
    }

    /// An integer within the bounds of its key, else the default. `None` without a default.
    pub(crate) fn integer<T: TryFrom<i64>>(&self, key: &str) -> Option<T> {
        let value = match self.node(key) {
            Some(node) => match node.value {
                Value::Integer(Some(value)) => Some(value),
                _ => None,
            },
            None => self.default(key),
        };
        value.and_then(|v: i64| T::try_from(v).ok())
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match self.node(key).map(|n| &n.value) {
            Some(Value::Integer(Some(value))) => Some(*value as f64),
            Some(Value::Float(value)) => Some(*value),
            Some(_) => None,
            None => self.default(key),
        }
    }

    pub(crate) fn boolean(&self, key: &str) -> bool {
        match self.node(key).map(|n| &n.value) {
            Some(Value::Boolean(value)) => *value,
            _ => self.default(key).unwrap_or(false),
        }
    }

    pub(crate) fn size(&self, key: &str) -> Option<Bytes> {
        self.node(key).map_or_else(|| self.default(key), quantity::size)
    }

    pub(crate) fn time(&self, key: &str) -> Option<Span> {
        self.node(key).map_or_else(|| self.default(key), quantity::time)
    }

    pub(crate) fn rate(&self, key: &str) -> Option<Rate> {
        self.node(key).map_or_else(|| self.default(key), quantity::rate)
    }

    pub(crate) fn length(&self, key: &str) -> Option<Metres> {
        self.node(key).map_or_else(|| self.default(key), quantity::length)
    }

    /// The members of an array; none if it is absent.
    pub(crate) fn items(&self, key: &str) -> &'a [Node] {
        self.node(key).and_then(Node::as_array).unwrap_or(&[])
    }

    /// A table inside this one, with the specification of its key.
    pub(crate) fn table(&self, key: &str) -> Option<Self> {
        let (Kind::Table(spec) | Kind::NamedOrTable(_, _, spec)) = self.spec.key(key)?.kind else { return None };
        Some(Self::new(self.node(key)?.as_table()?, spec))
    }

    /// A table inside this one, an empty one if it is absent.
    pub(crate) fn table_or_empty(&self, key: &str) -> Self {
        static EMPTY: Table = Table { entries: Vec::new() };
        self.table(key).unwrap_or_else(|| match self.spec.key(key).map(|k| &k.kind) {
            Some(Kind::Table(spec)) => Self::new(&EMPTY, spec),
            _ => Self::new(&EMPTY, self.spec),
        })
    }
}
