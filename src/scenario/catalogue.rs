//! The rows of `[catalogue]`, laid upon the built-in catalogue.

use std::borrow::Cow;

use sim_topology::Catalogue;
use sim_topology::catalogue::{Change, OwnRow, OwnRowFault};
use sim_topology::text::rate_text;

use super::cluster::advice;
use super::keys::{CATALOGUE, Kind, TableSpec, Unit, canonical};
use super::quantity;
use super::tree::{Entry, Node, Table, Value};
use super::validate;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};

/// A row as it is written.
struct Written<'a> {
    entry: &'a Entry,
    table: &'a Table,
    spec: &'static TableSpec,
}

/// The catalogue of a scenario; `None` if a row of its own is faulty.
pub(super) fn catalogue(root: &Table, out: &mut Diagnostics) -> Option<Cow<'static, Catalogue>> {
    let builtin = Catalogue::builtin();
    let Some(tables) = root.get("catalogue") else { return Some(Cow::Borrowed(builtin)) };
    let (mut rows, mut written, mut faulty) = (Vec::new(), Vec::new(), Vec::new());
    // Clusters and presets are keys of scenarios and have been laid below this one's.
    for kind in tables.as_table()?.entries.iter().filter(|kind| !is_keys(&kind.key)) {
        let (Some(spec), Some(list)) = (spec_of(&kind.key), kind.node.as_table()) else {
            faulty.push(kind.key.as_str());
            continue;
        };
        for entry in &list.entries {
            match entry.node.as_table() {
                Some(table) if sound(entry, table, spec, out) => {
                    rows.push(row(&kind.key, &entry.key, table, spec));
                    written.push(Written { entry, table, spec });
                }
                _ => faulty.push(entry.key.as_str()),
            }
        }
    }
    match builtin.with_rows(&rows) {
        Ok(catalogue) => {
            for change in catalogue.changes() {
                if let Some(written) = written.get(change.index) {
                    both_directions(change, written, builtin, out);
                }
            }
            faulty.is_empty().then_some(Cow::Owned(catalogue))
        }
        Err(errors) => {
            for error in errors {
                // What is like a faulty row would only repeat its fault.
                let like = rows.get(error.index).and_then(|row| row.like.as_deref());
                if like.is_none_or(|like| !faulty.contains(&like))
                    && let Some(at) = written.get(error.index)
                {
                    fault(&error.fault, at, &written, out);
                }
            }
            None
        }
    }
}

/// Whether rows of the kind are keys of scenarios.
fn is_keys(kind: &str) -> bool {
    matches!(kind, "cluster" | "preset")
}

fn spec_of(kind: &str) -> Option<&'static TableSpec> {
    match CATALOGUE.key(kind)?.kind {
        Kind::Map(Kind::Part(spec)) => Some(spec),
        _ => None,
    }
}

/// Whether validation, which has told of its faults, let a row pass, and its name is one.
fn sound(entry: &Entry, table: &Table, spec: &TableSpec, out: &mut Diagnostics) -> bool {
    let name = entry.key.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 60 || !name.chars().all(plain) {
        let fault = Diagnostic::new(Code::BadName, format!("`{}` is no name for a row", shorten(name)));
        let label = "letters, digits, `-`, `_` and `.` make a name, 60 at most";
        out.push(fault.at(entry.key_place.clone(), label));
        return false;
    }
    let mut found = Diagnostics { sources: out.sources.clone(), list: Vec::new() };
    validate::part(table, spec, &mut found);
    !found.has_errors()
}

fn row(kind: &str, name: &str, table: &Table, spec: &'static TableSpec) -> OwnRow {
    let text = |key: &str| table.get(key).and_then(Node::as_text).map(str::to_owned);
    let mut figures = part(table, spec);
    for key in ["like", "title", "note"] {
        figures.remove(key);
    }
    OwnRow {
        kind: kind.to_owned(),
        name: name.to_owned(),
        like: text("like"),
        title: text("title"),
        note: text("note"),
        figures,
    }
}

/// A table in the form of the embedded data.
fn part(table: &Table, spec: &'static TableSpec) -> toml::Table {
    let keys = table.entries.iter().filter_map(|e| Some((e, &spec.key(&e.key)?.kind)));
    keys.filter_map(|(e, kind)| Some((e.key.clone(), value(&e.node, kind)?))).collect()
}

/// A value in the form of the embedded data; `None` for what validation has refused.
fn value(node: &Node, kind: &'static Kind) -> Option<toml::Value> {
    Some(match (kind, &node.value) {
        (Kind::Figure(unit), _) => figure(node, *unit)?,
        (Kind::Choice(words), Value::Text(text)) => canonical(words, text)?.into(),
        (Kind::Size(_), _) => i64::try_from(quantity::size(node)?.get()).ok()?.into(),
        (Kind::Rate, _) => rate_text(quantity::rate(node)?).into(),
        (Kind::Number(..), Value::Integer(Some(number))) => (*number as f64).into(),
        (Kind::List(of), Value::Array(items)) => {
            toml::Value::Array(items.iter().filter_map(|item| value(item, of)).collect())
        }
        (Kind::Table(spec) | Kind::Part(spec), Value::Table(table)) => part(table, spec).into(),
        (Kind::Tables(spec), Value::Array(items)) => {
            let tables = items.iter().filter_map(Node::as_table);
            toml::Value::Array(tables.map(|table| part(table, spec).into()).collect())
        }
        (_, Value::Text(text)) => text.as_str().into(),
        (_, Value::Integer(Some(number))) => (*number).into(),
        (_, Value::Float(number)) => (*number).into(),
        (_, Value::Boolean(flag)) => (*flag).into(),
        _ => return None,
    })
}

/// A figure in the unit that its key names.
fn figure(node: &Node, unit: Unit) -> Option<toml::Value> {
    let number = match (&node.value, unit) {
        (Value::Integer(Some(number)), Unit::Bytes) => return Some((*number).into()),
        (Value::Integer(Some(number)), _) => *number as f64,
        (Value::Float(number), _) => *number,
        (_, Unit::Bytes) => return Some(i64::try_from(quantity::size(node)?.get()).ok()?.into()),
        (_, Unit::Nanoseconds) => quantity::time(node)?.as_us() * 1e3,
        (_, Unit::GBps) => quantity::rate(node)?.as_gbyte(),
        (_, Unit::Gbit) => quantity::rate(node)?.as_gbyte() * 8.0,
    };
    // As it would be written: 400, not 400.0.
    let whole = number.fract() == 0.0 && number.abs() < 1e15;
    Some(if whole { (number as i64).into() } else { number.into() })
}

fn fault(fault: &OwnRowFault, at: &Written<'_>, all: &[Written<'_>], out: &mut Diagnostics) {
    let name = shorten(&at.entry.key);
    let like = at.table.get("like").map(|node| node.place.clone());
    let place = at.entry.key_place.clone();
    match fault {
        OwnRowFault::UnknownKind(error) => {
            out.push(Diagnostic::new(Code::UnknownKey, error.to_string()).at(place, "not a kind of row"));
        }
        OwnRowFault::UnknownLike(error) => {
            let diagnostic =
                Diagnostic::new(Code::UnknownModel, format!("unknown {} `{}`", error.kind, shorten(&error.name)));
            out.push(diagnostic.at(like.unwrap_or(place), "not in the catalogue").help(advice(error)));
        }
        OwnRowFault::Cycle(names) => {
            let diagnostic = Diagnostic::new(Code::Cycle, "`like` runs in a circle").note(names.join(" is like "));
            out.push(diagnostic.at(like.unwrap_or(place), "leads back to this row").help("take one of the `like` out"));
        }
        OwnRowFault::Twice(first) => {
            let mut diagnostic = Diagnostic::new(Code::Exclusive, format!("`{name}` is changed twice"));
            diagnostic = diagnostic.at(place, "means the same row by another name");
            if let Some(first) = all.get(*first) {
                diagnostic = diagnostic.related(first.entry.key_place.clone(), "changed here before");
            }
            out.push(diagnostic.help("put the keys into one table"));
        }
        OwnRowFault::Data(why) => {
            let before = out.list.len();
            validate::absent(at.table, at.spec, Some(&place), out);
            if out.list.len() == before {
                let diagnostic = Diagnostic::new(Code::MissingKey, format!("`{name}` is incomplete"));
                out.push(diagnostic.at(place, why.clone()));
            }
            if let Some(last) = out.list.last_mut().filter(|_| at.table.get("like").is_none()) {
                let kind = at.spec.name.strip_prefix("catalogue.").unwrap_or(at.spec.name);
                let help = format!("there is no {kind} `{name}` to take it from: state it, or name a row in `like`");
                *last = last.clone().help(help);
            }
        }
    }
}

/// Warns of a rate that is at least one and a half times that of the row it departs from, unless a newer generation is
/// stated with it.
fn both_directions(change: &Change, at: &Written<'_>, builtin: &Catalogue, out: &mut Diagnostics) {
    let newer = ["generation", "pcie_gen", "nvlink_gen"];
    let generation =
        |name: &str| change.figures.iter().any(|f| f.name == name && f.from.is_some() && f.from != Some(f.to.clone()));
    if newer.into_iter().any(generation) {
        return;
    }
    for entry in &at.table.entries {
        let Some(stem) = entry.key.strip_suffix("_GBps").or_else(|| entry.key.strip_suffix("_gbit")) else { continue };
        // Memory has one rate for both.
        if stem == "memory" || matches!(entry.node.value, Value::Table(_)) {
            continue;
        }
        let changed = change.figures.iter().find(|f| f.name == stem);
        let Some(figure) = changed else { continue };
        let number = |text: &str| text.parse::<f64>().ok();
        let known = match &figure.from {
            Some(from) => number(from),
            None => of_generation(change.kind, stem, at.table, builtin),
        };
        let (Some(from), Some(to)) = (known, number(&figure.to)) else { continue };
        if to < 1.5 * from {
            continue;
        }
        let unit = figure.unit.unwrap_or_default();
        let whose = match (&change.like, &figure.from) {
            (Some(like), Some(_)) => format!("`{like}`"),
            (None, Some(_)) => "the built-in row".to_owned(),
            _ => "that generation".to_owned(),
        };
        let diagnostic = Diagnostic::new(Code::BothDirections, "looks like the sum of both directions");
        let label = format!("{whose} has {from} {unit}, one direction");
        let help = format!("if it is the sum, state it: {} = {{ both_directions = \"{to} {unit}\" }}", entry.key);
        out.push(diagnostic.at(entry.node.place.clone(), label).help(help));
    }
}

/// The rate of the built-in row of the generation that a new row states.
fn of_generation(kind: &str, stem: &str, table: &Table, builtin: &Catalogue) -> Option<f64> {
    let Value::Integer(Some(generation)) = table.get("generation")?.value else { return None };
    let generation = u32::try_from(generation).ok()?;
    match (kind, stem) {
        ("nvlink", "link") => builtin.nvlink(generation).ok().map(|row| row.link_rate.as_gbyte()),
        ("pcie", "lane") => builtin.pcie(generation).ok().map(|row| row.lane_rate.as_gbyte()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of keys and the embedded data know the same kinds and keys.
    #[test]
    fn every_figure_of_the_data_has_its_key() {
        // Of one's own they are keys of a scenario.
        let kinds: Vec<&str> = Catalogue::KINDS.iter().map(|(key, _)| *key).filter(|key| !is_keys(key)).collect();
        let mut known: Vec<&str> = CATALOGUE.keys.iter().map(|k| k.name).filter(|name| !is_keys(name)).collect();
        known.sort_unstable_by_key(|name| kinds.iter().position(|kind| kind == name));
        assert_eq!(kinds, known);
        for entry in Catalogue::builtin().entries().filter(|e| !is_keys(e.kind)) {
            let spec = spec_of(entry.kind).unwrap();
            for figure in &entry.figures {
                let first = figure.key.split('.').next().unwrap();
                assert!(spec.key(first).is_some(), "{} `{}`: {}", entry.kind, entry.name, figure.key);
            }
        }
    }

    /// Every key can be set on some row of its kind, and a key that a row cannot do without is required.
    #[test]
    fn every_key_is_one_of_the_data() {
        let builtin = Catalogue::builtin();
        for (kind, _) in Catalogue::KINDS.iter().filter(|(kind, _)| !is_keys(kind)) {
            let spec = spec_of(kind).unwrap();
            let like = builtin.entries().find(|e| e.kind == *kind).unwrap().name.to_owned();
            for key in spec.keys.iter().filter(|k| !matches!(k.name, "like" | "title" | "note" | "node")) {
                let value = match &key.kind {
                    Kind::Boolean => toml::Value::from(true),
                    Kind::List(_) => toml::Value::Array(vec!["x".into()]),
                    Kind::Choice(words) => words[0].into(),
                    Kind::Text | Kind::Named(..) => "x".into(),
                    Kind::Integer(low, _) => (*low).into(),
                    Kind::Number(..) => 1.0.into(),
                    Kind::Figure(_) => 4.into(),
                    other => panic!("{kind}.{}: {other:?}", key.name),
                };
                let figures = toml::Table::from_iter([(key.name.to_owned(), value)]);
                let (title, note) = (None, None);
                let row =
                    OwnRow { kind: (*kind).into(), name: "x".into(), like: Some(like.clone()), title, note, figures };
                assert!(builtin.with_rows(&[row]).is_ok(), "{kind}.{}", key.name);
            }
        }
    }
}
