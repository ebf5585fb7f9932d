//! Typed reading that keeps a book of every value that was asked for, and where it comes from.

use core::fmt::Display;
use std::borrow::Cow;

use sim_core::units::{Bytes, Rate, Span};
use sim_topology::Catalogue;

use super::super::transport_preset;
use super::super::tree::{Node, Value};
use super::super::view::View;
use crate::diagnostic::Diagnostics;

/// A value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its key under `[transport]`, `ecn.kmin`.
    pub name: String,
    /// The value with its unit.
    pub value: String,
    /// Who says so: `scenario`, `preset roce-400g`, `default`.
    pub origin: String,
    /// How well that is founded, for values of built-in presets.
    pub standing: Option<&'static str>,
    /// Where the value of a built-in preset comes from.
    pub sources: Vec<String>,
}

/// A table that is read.
pub(super) struct Reader<'a, 'b> {
    view: View<'a>,
    book: Book<'b>,
}

/// What all tables share.
struct Book<'b> {
    catalogue: &'b Catalogue,
    preset: Option<&'b str>,
    out: &'b mut Diagnostics,
    list: Vec<Parameter>,
}

/// A table inside, for as long as it is read.
pub(super) struct Inside<'r, 'a, 'b> {
    view: View<'a>,
    prefix: Cow<'static, str>,
    book: &'r mut Book<'b>,
}

impl<'a, 'b> Reader<'a, 'b> {
    pub(super) fn new(
        view: View<'a>,
        catalogue: &'b Catalogue,
        preset: Option<&'b str>,
        out: &'b mut Diagnostics,
    ) -> Self {
        Self { view, book: Book { catalogue, preset, out, list: Vec::new() } }
    }

    /// The values that were asked for, in order.
    pub(super) fn into_parameters(self) -> Vec<Parameter> {
        self.book.list
    }

    /// The table `name` inside.
    pub(super) fn inside<'r>(&'r mut self, name: &'static str) -> Inside<'r, 'a, 'b> {
        Inside { view: self.view.table_or_empty(name), prefix: name.into(), book: &mut self.book }
    }

    /// A table that lies elsewhere, whose values are noted as those of `name`.
    pub(super) fn beside<'r, 't>(&'r mut self, table: View<'t>, name: String) -> Inside<'r, 't, 'b> {
        Inside { view: table, prefix: name.into(), book: &mut self.book }
    }

    /// What has been found so far.
    pub(super) fn out(&mut self) -> &mut Diagnostics {
        self.book.out
    }

    /// The whole table.
    pub(super) const fn view(&self) -> View<'a> {
        self.view
    }

    fn own<'r>(&'r mut self) -> Inside<'r, 'a, 'b> {
        Inside { view: self.view, prefix: "".into(), book: &mut self.book }
    }

    pub(super) fn choice_or(&mut self, key: &str, other: &'static str) -> &'static str {
        self.own().choice_or(key, other)
    }

    pub(super) fn size_or(&mut self, key: &str, other: Bytes) -> Bytes {
        self.own().size_or(key, other)
    }

    pub(super) fn number(&mut self, key: &str) -> Option<f64> {
        self.own().number(key)
    }

    pub(super) fn text(&mut self, key: &str) -> String {
        let text = self.view.text_or_default(key).trim().to_owned();
        self.own().note(key, &text);
        text
    }

    /// The size, if it was written.
    pub(super) fn size_if(&mut self, key: &str) -> Option<Bytes> {
        self.own().size(key)
    }

    pub(super) fn time(&mut self, key: &str) -> Option<Span> {
        self.own().time(key)
    }

    pub(super) fn time_or(&mut self, key: &str, other: Span) -> Span {
        self.own().time_or(key, other)
    }

    pub(super) fn integer<T: TryFrom<i64> + Display + Copy>(&mut self, key: &str) -> Option<T> {
        self.own().integer(key)
    }

    /// A whole number, or `None` where one of its key's words was written.
    pub(super) fn integer_or_word<T: TryFrom<i64> + Display + Copy>(&mut self, key: &str) -> Option<T> {
        let mut own = self.own();
        if own.view.text(key).is_some() {
            own.note(key, &"");
            return None;
        }
        own.integer(key)
    }

    pub(super) fn integer_or<T: TryFrom<i64> + Display + Copy>(&mut self, key: &str, other: T) -> T {
        self.own().integer_or(key, other)
    }
}

impl Inside<'_, '_, '_> {
    /// Whether the key was written, in the scenario or its preset.
    pub(super) fn has(&self, key: &str) -> bool {
        self.view.has(key)
    }

    fn note(&mut self, key: &str, value: &dyn Display) {
        let name = if self.prefix.is_empty() { key.to_owned() } else { format!("{}.{key}", self.prefix) };
        let node = self.view.node(key);
        // As it was written, where it was.
        let value = match node.map(|node| &node.value) {
            Some(Value::Text(text)) => text.clone(),
            _ => value.to_string(),
        };
        let (origin, standing, sources) = self.origin(node, &name);
        if self.book.list.iter().all(|known| known.name != name) {
            self.book.list.push(Parameter { name, value, origin, standing, sources });
        }
    }

    fn origin(&self, node: Option<&Node>, name: &str) -> (String, Option<&'static str>, Vec<String>) {
        let Some(node) = node else { return ("default".to_owned(), None, Vec::new()) };
        let source = self.book.out.sources.name(node.place.source);
        let Some(preset) = transport_preset::is_preset(source) else {
            // A preset of the scenario's own stands in the scenario.
            return ("scenario".to_owned(), None, Vec::new());
        };
        let Ok(row) = self.book.catalogue.preset(preset) else { return (source.to_owned(), None, Vec::new()) };
        let standing = row.standings.get(&format!("transport.{name}")).copied().unwrap_or(row.standing);
        let shown = self.book.preset.filter(|asked| *asked == preset || row.aliases.iter().any(|a| a == asked));
        let origin = format!("preset {}", shown.unwrap_or(preset));
        (origin, Some(standing.as_str()), row.source.clone())
    }

    pub(super) fn choice_or(&mut self, key: &str, other: &'static str) -> &'static str {
        let word = self.view.choice(key).unwrap_or(other);
        self.note(key, &word);
        word
    }

    pub(super) fn size(&mut self, key: &str) -> Option<Bytes> {
        let value = self.view.size(key)?;
        self.note(key, &value);
        Some(value)
    }

    pub(super) fn size_or(&mut self, key: &str, other: Bytes) -> Bytes {
        let value = self.view.size(key).unwrap_or(other);
        self.note(key, &value);
        value
    }

    pub(super) fn time(&mut self, key: &str) -> Option<Span> {
        let value = self.view.time(key)?;
        self.note(key, &value);
        Some(value)
    }

    pub(super) fn time_or(&mut self, key: &str, other: Span) -> Span {
        let value = self.view.time(key).unwrap_or(other);
        self.note(key, &value);
        value
    }

    pub(super) fn rate(&mut self, key: &str) -> Option<Rate> {
        let value = self.view.rate(key)?;
        self.note(key, &value);
        Some(value)
    }

    pub(super) fn rate_or(&mut self, key: &str, other: Rate) -> Rate {
        let value = self.view.rate(key).unwrap_or(other);
        self.note(key, &value);
        value
    }

    pub(super) fn number(&mut self, key: &str) -> Option<f64> {
        let value = self.view.number(key)?;
        self.note(key, &value);
        Some(value)
    }

    pub(super) fn number_or(&mut self, key: &str, other: f64) -> f64 {
        let value = self.view.number(key).unwrap_or(other);
        self.note(key, &value);
        value
    }

    pub(super) fn integer<T: TryFrom<i64> + Display + Copy>(&mut self, key: &str) -> Option<T> {
        let value = self.view.integer(key)?;
        self.note(key, &value);
        Some(value)
    }

    pub(super) fn integer_or<T: TryFrom<i64> + Display + Copy>(&mut self, key: &str, other: T) -> T {
        let value = self.view.integer(key).unwrap_or(other);
        self.note(key, &value);
        value
    }

    pub(super) fn boolean_or(&mut self, key: &str, other: bool) -> bool {
        let value = if self.view.has(key) { self.view.boolean(key) } else { other };
        self.note(key, &value);
        value
    }

    pub(super) fn boolean(&mut self, key: &str) -> bool {
        let value = self.view.boolean(key);
        self.note(key, &value);
        value
    }
}
