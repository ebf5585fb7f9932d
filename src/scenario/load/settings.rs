//! Settings laid upon a scenario: `--set key=value`, texts of flags, faults in words.

use super::super::keys::{Kind, ROOT, TableSpec};
use super::super::shorthand;
use super::super::tree::{self, Entry, Node, Table, Value};
use super::Setting;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, SourceId, shorten};

/// The key of the faults; a setting that is literal adds one.
pub(super) const FAULT: &str = "fault";

/// Lays one setting upon a scenario.
pub(super) fn apply(table: &mut Table, setting: &Setting, diagnostics: &mut Diagnostics) {
    let source = diagnostics.sources.add(setting.origin.clone(), setting.text.clone());
    let whole = Place { source, span: 0..setting.text.len() };
    if setting.literal && setting.key.as_deref() == Some(FAULT) {
        add_fault(table, &whole, shorthand::fault(source, &setting.text, diagnostics));
        return;
    }
    let (path, key_place, value_at) = match &setting.key {
        Some(key) => (key.as_str(), whole.clone(), 0),
        None => match setting.text.split_once('=') {
            Some((key, _)) if !key.trim().is_empty() => {
                (key, Place { source, span: 0..key.trim_end().len() }, key.len() + 1)
            }
            _ => {
                let diagnostic = Diagnostic::new(Code::BadArgument, "`--set` takes key=value");
                diagnostics.push(diagnostic.at(whole, "no `key=`").help("--set nodes=4 or --set fabric.spines=8"));
                return;
            }
        },
    };
    if path.trim() == "extends" {
        let diagnostic = Diagnostic::new(Code::BadArgument, "`extends` can only stand in a file");
        let help = "write a file with `extends = \"base.toml\"`, or give the other file itself";
        diagnostics.push(diagnostic.at(key_place, "paths in it are relative to that file").help(help));
        return;
    }
    let Some(parts) = split_key(path) else {
        let diagnostic = Diagnostic::new(Code::BadArgument, format!("`{}` is not a key", shorten(path)));
        diagnostics
            .push(diagnostic.at(key_place, "parts are separated by one dot").help("--set workload.0.op=alltoall"));
        return;
    };
    let raw = &setting.text[value_at..];
    let lead = raw.len() - raw.trim_start().len();
    let node = if setting.literal {
        text(source, value_at + lead, raw.trim())
    } else {
        value(source, value_at + lead, raw.trim(), takes_text(&ROOT, &parts))
    };
    set(table, &parts, &key_place, node, diagnostics);
}

/// Sets the key that `parts` name.
pub(super) fn set(table: &mut Table, parts: &[String], key_place: &Place, node: Node, diagnostics: &mut Diagnostics) {
    if let Some((key, at)) = missing_member(table, parts) {
        let message = format!("`{}` has {} members, numbered from 0", key, at);
        diagnostics.push(Diagnostic::new(Code::BadArgument, message).at(key_place.clone(), "no such member"));
        return;
    }
    let last = parts.len() - 1;
    let mut over = node;
    for (depth, part) in parts.iter().enumerate().rev() {
        let entry = Entry { key: part.clone(), key_place: key_place.clone(), node: over };
        if depth == 0 {
            table.lay(Table { entries: vec![entry] });
            return;
        }
        debug_assert!(depth <= last);
        over = Node { value: Value::Table(Table { entries: vec![entry] }), place: key_place.clone() };
    }
}

/// Adds a fault to those that the file lists.
fn add_fault(table: &mut Table, place: &Place, fault: Option<Node>) {
    let Some(fault) = fault else { return };
    match table.entries.iter_mut().find(|e| e.key == FAULT).map(|e| &mut e.node.value) {
        Some(Value::Array(items)) => items.push(fault),
        // Something else stands there, which validation reports.
        Some(_) => {}
        None => {
            let node = Node { value: Value::Array(vec![fault]), place: place.clone() };
            table.entries.push(Entry { key: FAULT.to_owned(), key_place: place.clone(), node });
        }
    }
}

/// Whether the key takes a text, so that `software.nccl=2.20` is the version 2.20 and not the number 2.2.
fn takes_text(spec: &TableSpec, parts: &[String]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return false };
    match (spec.key(first).map(|key| &key.kind), rest) {
        (Some(Kind::Text | Kind::Named(..) | Kind::NamedOrTable(..)), []) => true,
        (Some(Kind::Table(inner) | Kind::Part(inner) | Kind::NamedOrTable(_, _, inner)), rest) => {
            takes_text(inner, rest)
        }
        (Some(Kind::Map(Kind::Table(inner) | Kind::Part(inner))), [_, rest @ ..]) => takes_text(inner, rest),
        (Some(Kind::Tables(inner)), [_, rest @ ..]) => takes_text(inner, rest),
        (Some(Kind::Variants(list)), [_, rest @ ..]) => list.iter().any(|(_, inner)| takes_text(inner, rest)),
        _ => false,
    }
}

/// The name and length of the array that `parts` leave by a number that is too large.
fn missing_member(table: &Table, parts: &[String]) -> Option<(String, usize)> {
    let mut node = table.get(&parts[0])?;
    for (depth, part) in parts.iter().enumerate().skip(1) {
        node = match &node.value {
            Value::Table(inner) => inner.get(part)?,
            Value::Array(items) => match part.parse().ok().and_then(|i: usize| items.get(i)) {
                Some(item) => item,
                None => return Some((parts[..depth].join("."), items.len())),
            },
            _ => return None,
        };
    }
    None
}

fn text(source: SourceId, at: usize, raw: &str) -> Node {
    Node { value: Value::Text(raw.to_owned()), place: Place { source, span: at..at + raw.len() } }
}

/// A value as typed: TOML, or text without its quotes, where it is no TOML or the key takes a text.
fn value(source: SourceId, at: usize, raw: &str, takes_text: bool) -> Node {
    match tree::parse_value(source, at, raw) {
        Some(node) if takes_text && !matches!(node.value, Value::Text(_) | Value::Array(_) | Value::Table(_)) => {
            text(source, at, raw)
        }
        Some(node) => node,
        None => text(source, at, raw),
    }
}

/// `workload[0].op` as `workload`, `0`, `op`.
pub(in super::super) fn split_key(path: &str) -> Option<Vec<String>> {
    let path = path.trim().replace('[', ".").replace(']', "");
    // A name in quotes may have dots: catalogue.socket_link."upi-10.4".link_GBps
    let mut quoted = false;
    let cut = |c: char| {
        quoted ^= c == '"';
        c == '.' && !quoted
    };
    let parts: Vec<String> = path.split(cut).map(|p| p.trim().trim_matches('"').to_owned()).collect();
    (parts.iter().all(|p| !p.is_empty()) && parts.len() <= 16).then_some(parts)
}
