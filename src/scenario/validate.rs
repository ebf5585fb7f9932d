//! Holds a tree against the tables of keys: unknown keys, wrong types, faulty quantities, missing keys.
//!
//! Everything is reported at once. What this pass accepts, later passes read without looking again.

use core::str::FromStr;

use sim_core::units::{Bytes, Rate, Span, UnitError};

use super::keys::{KeySpec, Kind, TableSpec, Unit, canonical};
use super::quantity::{MOST_BYTES, Metres, diagnose, too_large};
use super::tree::{Node, Table, Value};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten, similar, suggest};

/// Reports all faults of a table. `place` is where to point if a key is missing.
pub(crate) fn table(table: &Table, spec: &TableSpec, place: Option<&Place>, out: &mut Diagnostics) {
    part(table, spec, out);
    absent(table, spec, place, out);
}

/// Reports the required keys that a table lacks.
pub(crate) fn absent(table: &Table, spec: &TableSpec, place: Option<&Place>, out: &mut Diagnostics) {
    for key in spec.keys.iter().filter(|k| k.required && table.get(k.name).is_none()) {
        out.push(missing(key, spec, place));
    }
}

/// Reports the faults of a table of which any keys may be given.
pub(crate) fn part(table: &Table, spec: &TableSpec, out: &mut Diagnostics) {
    for entry in &table.entries {
        match spec.key(&entry.key) {
            Some(key) => value(&entry.node, key.name, &key.kind, out),
            None => unknown_key(&entry.key, &entry.key_place, spec, out),
        }
    }
}

fn missing(key: &KeySpec, spec: &TableSpec, place: Option<&Place>) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::MissingKey, format!("`{}` is missing", key.name)).help(format!(
        "add `{}`: {}",
        key.name,
        key.kind.describe()
    ));
    match place {
        Some(place) => diagnostic.at(place.clone(), format!("this {} lacks `{}`", spec.name, key.name)),
        None => diagnostic,
    }
}

fn unknown_key(name: &str, place: &Place, spec: &TableSpec, out: &mut Diagnostics) {
    let names = || spec.keys.iter().map(|k| k.name);
    let all: Vec<&str> = names().collect();
    let shown = shorten(name);
    let mut diagnostic = Diagnostic::new(Code::UnknownKey, format!("unknown key `{shown}`"));
    let meant = another_word(name).filter(|word| all.contains(word));
    diagnostic = match meant.or_else(|| similar(name, names())) {
        Some(alike) => diagnostic.at(place.clone(), format!("did you mean `{alike}`?")),
        None => match elsewhere(name, spec) {
            Some(home) => diagnostic.at(place.clone(), format!("`{shown}` belongs under [{}]", written(home))),
            None => diagnostic.at(place.clone(), format!("not a key of {}", spec.name)),
        },
    };
    out.push(diagnostic.help(format!("keys allowed here: {}", all.join(", "))));
}

/// The key that other tools call so.
fn another_word(name: &str) -> Option<&'static str> {
    let words = [("title", "name"), ("label", "name"), ("comment", "description")];
    words.iter().find(|(other, _)| *other == name).map(|(_, key)| *key)
}

/// The table that has a key of that name: one within this table, if there is one.
fn elsewhere(name: &str, spec: &TableSpec) -> Option<&'static str> {
    let tables = super::schema::all_tables().into_iter().filter(|t| t.key(name).is_some()).map(|t| t.name);
    let within = |table: &&str| table.strip_prefix(spec.name).is_some_and(|rest| rest.starts_with('.'));
    tables.clone().find(within).or_else(|| tables.clone().next())
}

/// The name of a table as scenarios write it: `workload.compute` for `workload.step.compute`.
fn written(table: &str) -> String {
    let variants = super::keys::ROOT.keys.iter().filter_map(|key| match key.kind {
        Kind::Variants(variants) => Some(variants.iter().map(move |(_, spec)| (key.name, spec.name))),
        _ => None,
    });
    let of = |(key, variant): (&str, &str)| {
        let rest = table.strip_prefix(variant).filter(|rest| rest.is_empty() || rest.starts_with('.'))?;
        Some(format!("{key}{rest}"))
    };
    variants.flatten().find_map(of).unwrap_or_else(|| table.to_owned())
}

fn value(node: &Node, key: &str, kind: &Kind, out: &mut Diagnostics) {
    match (kind, &node.value) {
        (Kind::Text | Kind::Named(..), Value::Text(text)) => {
            if matches!(kind, Kind::Named(..)) && text.trim().is_empty() {
                wrong(node, key, kind, "an empty text", out);
            }
        }
        (Kind::NamedOrTable(what, example, _), Value::Text(_)) => value(node, key, &Kind::Named(what, example), out),
        (Kind::NamedOrTable(_, _, spec), Value::Table(_)) => value(node, key, &Kind::Table(spec), out),
        (Kind::Boolean, Value::Boolean(_)) => {}
        (Kind::Integer(low, high), Value::Integer(found)) => match found {
            Some(found) if (low..=high).contains(&found) => {}
            found => {
                let found = found.map_or_else(|| "the number does not fit into 64 bits".to_owned(), |f| f.to_string());
                range(node, key, kind, &found, out);
            }
        },
        (Kind::IntegerOr(low, high, _), Value::Integer(_)) => value(node, key, &Kind::Integer(*low, *high), out),
        (Kind::IntegerOr(_, _, words), Value::Text(text)) if text.trim().parse::<f64>().is_err() => {
            value(node, key, &Kind::Choice(words), out);
        }
        (Kind::Number(low, high), Value::Integer(Some(found))) => {
            number(node, key, kind, *found as f64, *low, *high, out);
        }
        (Kind::Number(low, high), Value::Float(found)) => number(node, key, kind, *found, *low, *high, out),
        (Kind::PerTier(low, high), Value::Array(items)) if (1..=2).contains(&items.len()) => {
            for item in items {
                value(item, key, &Kind::Number(*low, *high), out);
            }
        }
        (Kind::PerTier(low, high), Value::Integer(_) | Value::Float(_)) => {
            value(node, key, &Kind::Number(*low, *high), out);
        }
        (Kind::Choice(words), Value::Text(text)) => {
            if canonical(words, text).is_none() {
                let message = format!("`{key}` has no choice `{}`", shorten(text));
                let diagnostic = Diagnostic::new(Code::UnknownChoice, message);
                out.push(diagnostic.at(node.place.clone(), "not known").help(suggest(text, words.iter().copied())));
            }
        }
        (Kind::Size(zero), Value::Text(text)) => match quantity::<Bytes>(node, key, text, out) {
            Some(_) if part_of_a_byte(text) => range(node, key, kind, "a part of a byte", out),
            Some(Bytes::ZERO) if !zero => range(node, key, kind, "zero bytes", out),
            Some(size) if size > MOST_BYTES => out.push(too_large(key, node.place.clone())),
            _ => {}
        },
        (Kind::Time, Value::Text(text)) => {
            quantity::<Span>(node, key, text, out);
        }
        (Kind::Length, Value::Text(text)) => {
            quantity::<Metres>(node, key, text, out);
        }
        (Kind::Rate, Value::Text(text)) => {
            quantity::<Rate>(node, key, text, out);
        }
        (Kind::Rate, Value::Table(table)) => both_directions(node, key, table, out),
        (Kind::Size(_) | Kind::Rate | Kind::Time | Kind::Length, Value::Integer(_) | Value::Float(_)) => {
            bare_number(node, key, kind, out);
        }
        (Kind::Device, Value::Integer(Some(rank))) => {
            if *rank < 0 {
                range(node, key, kind, &rank.to_string(), out);
            }
        }
        (Kind::Device, Value::Text(_)) => {}
        (Kind::Scalar, Value::Text(_) | Value::Integer(Some(_)) | Value::Boolean(_)) => {}
        (Kind::Scalar, Value::Float(found)) if found.is_finite() => {}
        (Kind::Ranks, Value::Text(_)) => {}
        (Kind::Ranks, Value::Array(items)) => {
            for item in items {
                if !matches!(item.value, Value::Text(_)) {
                    value(item, key, &Kind::Integer(0, 10_000_000), out);
                }
            }
        }
        (Kind::List(of), Value::Array(items)) => {
            for item in items {
                value(item, key, of, out);
            }
        }
        (Kind::Part(spec), Value::Table(inner)) => part(inner, spec, out),
        (Kind::Figure(unit), _) => figure(node, key, *unit, out),
        (Kind::Any(_), _) => {}
        (Kind::Table(spec), Value::Table(inner)) => table(inner, spec, Some(&node.place), out),
        (Kind::Tables(spec), Value::Array(items)) => {
            for item in items {
                match &item.value {
                    Value::Table(inner) => table(inner, spec, Some(&item.place), out),
                    _ => wrong(item, key, &Kind::Table(spec), item.describe(), out),
                }
            }
        }
        (Kind::Variants(variants), Value::Array(items)) => {
            for item in items {
                variant(item, key, variants, out);
            }
        }
        (Kind::Map(of), Value::Table(inner)) => {
            for entry in &inner.entries {
                value(&entry.node, &entry.key, of, out);
            }
        }
        _ => wrong(node, key, kind, node.describe(), out),
    }
}

/// A number within its bounds, or a quantity that is one.
fn figure(node: &Node, key: &str, unit: Unit, out: &mut Diagnostics) {
    let kind = Kind::Figure(unit);
    let (low, high) = unit.bounds();
    match (&node.value, unit) {
        (Value::Integer(found), _) => match found {
            Some(found) => number(node, key, &kind, *found as f64, low, high, out),
            None => range(node, key, &kind, "the number does not fit into 64 bits", out),
        },
        (Value::Float(_), Unit::Bytes) => wrong(node, key, &kind, node.describe(), out),
        (Value::Float(found), _) => number(node, key, &kind, *found, low, high, out),
        (Value::Text(_), Unit::Nanoseconds) => value(node, key, &Kind::Time, out),
        (Value::Text(_), Unit::Bytes) => value(node, key, &Kind::Size(true), out),
        (Value::Text(_) | Value::Table(_), Unit::GBps | Unit::Gbit) => value(node, key, &Kind::Rate, out),
        _ => wrong(node, key, &kind, node.describe(), out),
    }
}

fn variant(item: &Node, key: &str, variants: &[(&str, &TableSpec)], out: &mut Diagnostics) {
    let Value::Table(inner) = &item.value else {
        return wrong(item, key, &Kind::Variants(&[]), item.describe(), out);
    };
    let names = || variants.iter().map(|(name, _)| *name);
    let Some(kind) = inner.get("kind") else {
        let list: Vec<String> = names().map(|n| format!("kind = \"{n}\"")).collect();
        let diagnostic = Diagnostic::new(Code::MissingKey, "`kind` is missing");
        out.push(diagnostic.at(item.place.clone(), format!("this {key} lacks `kind`")).help(list.join(" or ")));
        return;
    };
    match kind.as_text() {
        Some(text) => match variants.iter().find(|(name, _)| *name == text) {
            Some((_, spec)) => table(inner, spec, Some(&item.place), out),
            None => {
                let diagnostic =
                    Diagnostic::new(Code::UnknownChoice, format!("`kind` has no choice `{}`", shorten(text)));
                out.push(diagnostic.at(kind.place.clone(), "not known").help(suggest(text, names())));
            }
        },
        None => wrong(kind, "kind", &Kind::Text, kind.describe(), out),
    }
}

fn quantity<T: FromStr<Err = UnitError>>(node: &Node, key: &str, text: &str, out: &mut Diagnostics) -> Option<T> {
    match text.parse::<T>() {
        Ok(value) => Some(value),
        Err(error) => {
            let diagnostic = diagnose(key, &error, text, &node.place, &out.sources);
            out.push(diagnostic);
            None
        }
    }
}

/// Whether a size in plain bytes is not a whole number of them.
fn part_of_a_byte(text: &str) -> bool {
    let number = text.trim().strip_suffix('B').and_then(|number| number.trim_end().parse::<f64>().ok());
    number.is_some_and(|number| number.fract() != 0.0)
}

fn bare_number(node: &Node, key: &str, kind: &Kind, out: &mut Diagnostics) {
    let written = match &node.value {
        Value::Integer(Some(number)) => number.to_string(),
        Value::Float(number) => plain(*number),
        _ => "this number".to_owned(),
    };
    let faulty = match &node.value {
        Value::Integer(found) => found.is_some_and(|f| f < 0),
        Value::Float(found) => !found.is_finite() || *found < 0.0,
        _ => false,
    };
    if faulty {
        let diagnostic = Diagnostic::new(Code::NotPositive, format!("`{key}` is not a number above zero"));
        out.push(diagnostic.at(node.place.clone(), format!("{written}; {} is due", kind.describe())));
        return;
    }
    let help = match kind {
        Kind::Rate => format!("write \"{written} Gb/s\" (bits) or \"{written} GB/s\" (bytes)"),
        Kind::Size(_) => format!("write \"{written} B\", \"{written} KiB\" or \"{written} MiB\""),
        Kind::Time => format!("write \"{written} ns\", \"{written} us\" or \"{written} ms\""),
        _ => format!("write \"{written} m\""),
    };
    let label = format!("a bare number: {written} what?");
    out.push(Diagnostic::new(Code::MissingUnit, "unit missing").at(node.place.clone(), label).help(help));
}

fn both_directions(node: &Node, key: &str, table: &Table, out: &mut Diagnostics) {
    for entry in &table.entries {
        if entry.key != "both_directions" {
            let diagnostic = Diagnostic::new(Code::UnknownKey, format!("unknown key `{}`", shorten(&entry.key)));
            out.push(diagnostic.at(entry.key_place.clone(), "a rate has only `both_directions` here"));
        }
    }
    match table.get("both_directions") {
        Some(both) => value(both, key, &Kind::Rate, out),
        None => wrong(node, key, &Kind::Rate, "a table without `both_directions`", out),
    }
}

fn number(node: &Node, key: &str, kind: &Kind, found: f64, low: f64, high: f64, out: &mut Diagnostics) {
    if !(low..=high).contains(&found) {
        range(node, key, kind, &plain(found), out);
    }
}

/// A number as one would write it: not all 308 digits of `1e308`.
fn plain(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || !number.is_finite() || (1e-6..1e15).contains(&size) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

fn range(node: &Node, key: &str, kind: &Kind, found: &str, out: &mut Diagnostics) {
    let diagnostic = Diagnostic::new(Code::OutOfRange, format!("`{key}` is out of range"));
    out.push(diagnostic.at(node.place.clone(), format!("{found}; {} is due", kind.describe())));
}

fn wrong(node: &Node, key: &str, kind: &Kind, found: &str, out: &mut Diagnostics) {
    let mut diagnostic = Diagnostic::new(Code::WrongType, format!("`{key}` takes {}", kind.describe()))
        .at(node.place.clone(), format!("found {found}"));
    if let (Kind::Integer(..) | Kind::IntegerOr(..) | Kind::Number(..) | Kind::Boolean, Value::Text(text)) =
        (kind, &node.value)
        && (text.trim().parse::<f64>().is_ok() || matches!(text.trim(), "true" | "false"))
    {
        diagnostic = diagnostic.help(format!("without quotes: {key} = {}", text.trim()));
    }
    if let (Kind::Text | Kind::Named(..) | Kind::NamedOrTable(..), Value::Integer(Some(_)) | Value::Float(_)) =
        (kind, &node.value)
    {
        // As it was written: 2.20 is not 2.2 where it names a version.
        let written = &out.sources.text(node.place.source)[out.sources.clip(&node.place)];
        diagnostic = diagnostic.help(format!("quote it: {key} = \"{}\"", shorten(written)));
    }
    if let Value::Text(text) = &node.value
        && text.starts_with('{')
    {
        diagnostic = diagnostic.help(format!("quote the texts in it: {key}={{gpu3=\"nic0\"}}"));
    }
    if let (Kind::Tables(_) | Kind::Variants(_), Value::Table(_)) = (kind, &node.value) {
        diagnostic = diagnostic.help(format!("double brackets make an array of tables: [[{key}]]"));
    }
    if let (Kind::Choice(words), _) = (kind, &node.value) {
        diagnostic = diagnostic.help(format!("known: {}", words.join(", ")));
    }
    out.push(diagnostic);
}
