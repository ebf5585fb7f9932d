//! Axes of the grid, and the rules that take points out of it.

use super::cell;
use super::columns::one_of;
use super::keys::AXIS;
use super::range;
use super::{ERROR, MOST_POINTS, POINT, SWEEP_ID};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, counted, shorten};
use crate::scenario::tree::{Node, Value};
use crate::scenario::view::View;
use crate::scenario::{Key, Setting, Varied};

/// The most values of an axis that are checked one by one before anything is played.
const CHECKED: usize = 4096;

/// Keys that vary together.
#[derive(Debug)]
pub(super) struct Axis {
    /// The columns, one a key.
    pub(super) names: Vec<String>,
    pub(super) keys: Vec<Key>,
    /// The values, one row a place on the axis, one value a key.
    pub(super) rows: Vec<Vec<Node>>,
    /// The same as text.
    pub(super) cells: Vec<Vec<String>>,
}

/// `[[skip]]`: the places on some axes that, together, take a point out.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) place: Place,
    /// Axis, and whether each place on it is meant.
    parts: Vec<(usize, Vec<bool>)>,
}

impl Rule {
    /// Whether it takes out the point at these places.
    pub(super) fn takes_out(&self, at: &[usize]) -> bool {
        self.parts.iter().all(|(axis, meant)| meant[at[*axis]])
    }
}

/// All axes of a sweep file.
pub(super) fn axes(view: &View<'_>, out: &mut Diagnostics) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for item in view.items("axis") {
        let Some(table) = item.as_table() else { continue };
        let before = out.list.len();
        // Values are counted before they are made.
        let points = axes.iter().fold(1_usize, |all, axis: &Axis| all.saturating_mul(axis.rows.len()));
        let Some(axis) = axis(&View::new(table, &AXIS), &item.place, MOST_POINTS / points.max(1), out) else {
            debug_assert!(out.list.len() > before || out.has_errors());
            continue;
        };
        for key in &axis.keys {
            if let Some(other) = axes.iter().flat_map(|axis| &axis.keys).find(|other| other.is(key)) {
                let fault = Diagnostic::new(Code::Exclusive, format!("`{}` is on two axes", shorten(&key.text)));
                out.push(fault.at(key.place.clone(), "here").related(other.place.clone(), "and here"));
            }
        }
        axes.push(axis);
    }
    if axes.is_empty() && !out.has_errors() {
        let fault = Diagnostic::new(Code::MissingKey, "a sweep without an `[[axis]]`");
        out.push(fault.help("[[axis]], below it key = \"nodes\" and values = [2, 4, 8]"));
    }
    axes
}

fn axis(view: &View<'_>, place: &Place, most: usize, out: &mut Diagnostics) -> Option<Axis> {
    let keys = keys(view, place, out)?;
    let names = match view.node("name") {
        Some(node) if view.has("keys") => {
            let fault = Diagnostic::new(Code::Exclusive, "`name` is for an axis of one key");
            out.push(fault.at(node.place.clone(), "columns of several keys are named by them"));
            return None;
        }
        _ => match view.text("name") {
            Some(name) => vec![cell::one_line(name.trim())],
            None => keys.iter().map(|key| key.text.clone()).collect(),
        },
    };
    let rows = match (view.node("values"), view.table("range")) {
        (Some(values), Some(_)) => {
            let fault = Diagnostic::new(Code::Exclusive, "`values` and `range` exclude each other");
            out.push(fault.at(values.place.clone(), "the values are listed here, too"));
            return None;
        }
        (None, None) => {
            if !view.has("range") {
                let fault = Diagnostic::new(Code::MissingKey, "an axis without values");
                let fault = fault.at(place.clone(), "neither `values` nor `range` is given");
                out.push(fault.help("values = [2, 4, 8], or range = { from = 2, to = 8, factor = 2 }"));
            }
            return None;
        }
        (Some(values), None) => listed(values, keys.len(), out)?,
        (None, Some(range)) => {
            let node = view.node("range")?;
            if keys.len() > 1 {
                let fault = Diagnostic::new(Code::Exclusive, "a range is for an axis of one key");
                out.push(fault.at(node.place.clone(), "list rows of `values` for several"));
                return None;
            }
            range::values(&range, &node.place, most, out)?.into_iter().map(|node| vec![node]).collect()
        }
    };
    if rows.is_empty() {
        let at = view.node("values").or(view.node("range")).map_or(place, |node| &node.place);
        let fault = Diagnostic::new(Code::OutOfRange, "an axis without values");
        out.push(fault.at(at.clone(), "empty").help("one value is enough; without any the grid has no point"));
        return None;
    }
    let mut cells: Vec<Vec<String>> = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut texts = Vec::with_capacity(row.len());
        for node in row {
            let Some(text) = cell::of_node(node) else {
                let fault = Diagnostic::new(Code::WrongType, "a value that no key takes");
                out.push(fault.at(node.place.clone(), node.describe()));
                return None;
            };
            texts.push(text);
        }
        cells.push(texts);
    }
    let mut seen = std::collections::BTreeMap::new();
    for (at, texts) in cells.iter().enumerate() {
        if let Some(first) = seen.insert(texts, at) {
            let place = |at: usize| rows[at].first().map_or(place, |node| &node.place).clone();
            let message = format!("a value that is there twice: {}", shorten(&texts.join(", ")));
            let fault = Diagnostic::new(Code::BadArgument, message).at(place(at), "the second one");
            out.push(fault.related(place(first), "the first").help("for several seeds, write seeds = 5"));
            return None;
        }
    }
    let rows = rows.into_iter().map(|row| row.into_iter().zip(&keys).map(|(node, key)| key.fitted(node)).collect());
    Some(Axis { names, rows: rows.collect(), cells, keys })
}

fn keys(view: &View<'_>, place: &Place, out: &mut Diagnostics) -> Option<Vec<Key>> {
    let nodes = match (view.node("key"), view.node("keys")) {
        (Some(one), None) => vec![one],
        (None, Some(several)) => several.as_array()?.iter().collect(),
        (Some(one), Some(_)) => {
            let fault = Diagnostic::new(Code::Exclusive, "`key` and `keys` exclude each other");
            out.push(fault.at(one.place.clone(), "`keys` is given, too"));
            return None;
        }
        (None, None) => {
            let fault = Diagnostic::new(Code::MissingKey, "`key` is missing");
            let fault = fault.at(place.clone(), "which key of the scenario varies?");
            out.push(fault.help("key = \"fabric.spines\", as `--set` takes it"));
            return None;
        }
    };
    let mut keys: Vec<Key> = Vec::new();
    for node in &nodes {
        match Key::read(node.as_text()?, &node.place) {
            Ok(key) if keys.iter().any(|other| other.is(&key)) => {
                let fault = Diagnostic::new(Code::Exclusive, format!("`{}` is there twice", shorten(&key.text)));
                out.push(fault.at(key.place, "the second one"));
            }
            Ok(key) => keys.push(key),
            Err(fault) => out.push(*fault),
        }
    }
    if nodes.is_empty() {
        let fault = Diagnostic::new(Code::OutOfRange, "an axis without keys");
        out.push(fault.at(place.clone(), "`keys` is empty"));
    }
    (keys.len() == nodes.len() && !keys.is_empty()).then_some(keys)
}

/// Values as listed: one each, or a row of one a key.
fn listed(values: &Node, keys: usize, out: &mut Diagnostics) -> Option<Vec<Vec<Node>>> {
    let Some(items) = values.as_array() else {
        let fault = Diagnostic::new(Code::WrongType, "`values` takes an array");
        out.push(fault.at(values.place.clone(), values.describe()).help("values = [2, 4, 8]"));
        return None;
    };
    if items.len() > MOST_POINTS {
        let fault = Diagnostic::new(Code::TooLarge, format!("{} values", items.len()));
        out.push(fault.at(values.place.clone(), format!("at most {MOST_POINTS}")));
        return None;
    }
    if keys == 1 {
        return Some(items.iter().map(|node| vec![node.clone()]).collect());
    }
    let mut rows = Vec::with_capacity(items.len());
    for item in items {
        match item.as_array() {
            Some(row) if row.len() == keys => rows.push(row.to_vec()),
            row => {
                let found = row.map_or_else(|| item.describe().to_owned(), |row| counted(row.len(), "value"));
                let message = format!("an axis of {} takes rows of as many values", counted(keys, "key"));
                let fault = Diagnostic::new(Code::WrongType, message);
                out.push(fault.at(item.place.clone(), found).help("values = [[2, 8], [4, 16]]"));
                return None;
            }
        }
    }
    Some(rows)
}

impl Axis {
    /// Reports keys that are none and values that a key does not take, whatever the other axes say.
    pub(super) fn check(&self, varied: &Varied, out: &mut Diagnostics) {
        for row in self.rows.iter().take(CHECKED) {
            let keys: Vec<_> = self.keys.iter().zip(row).collect();
            for fault in varied.faults(&keys) {
                out.push(fault);
            }
            if out.list.len() > 50 {
                return;
            }
        }
    }
}

/// Reports settings of the command line that an axis would undo.
pub(super) fn conflicts(axes: &[Axis], settings: &[Setting], out: &mut Diagnostics) {
    for key in axes.iter().flat_map(|axis| &axis.keys) {
        for setting in settings.iter().filter(|setting| key.is_set_by(setting)) {
            let message = format!("`{}` is on an axis, and set by {}", shorten(&key.text), setting.origin);
            let fault = Diagnostic::new(Code::Exclusive, message).at(key.place.clone(), "varied here");
            out.push(fault.help("take one of them out: the axis would win at every point"));
        }
    }
}

/// The axis of `seeds = N`.
pub(super) fn seeds(axes: &[Axis], node: &Node, count: i64, varied: &Varied, out: &mut Diagnostics) -> Axis {
    let place = node.place.clone();
    let key = Key::seed(&place);
    if let Some(other) = axes.iter().flat_map(|axis| &axis.keys).find(|other| other.is(&key)) {
        let fault = Diagnostic::new(Code::Exclusive, "`seeds`, and an axis of seeds");
        out.push(fault.at(place.clone(), "here").related(other.place.clone(), "and here"));
    }
    let first = varied.seed();
    let last = first.saturating_add(count);
    let node = |seed: i64| Node { value: Value::Integer(Some(seed)), place: place.clone() };
    Axis {
        names: vec![key.text.clone()],
        rows: (first..last).map(|seed| vec![node(seed)]).collect(),
        cells: (first..last).map(|seed| vec![seed.to_string()]).collect(),
        keys: vec![key],
    }
}

/// All `[[skip]]` of a sweep file.
pub(super) fn rules(view: &View<'_>, axes: &[Axis], out: &mut Diagnostics) -> Vec<Rule> {
    let Some(node) = view.node("skip") else { return Vec::new() };
    let Some(items) = node.as_array() else {
        let fault = Diagnostic::new(Code::WrongType, "`skip` takes an array of tables");
        out.push(fault.at(node.place.clone(), node.describe()).help("[[skip]], below it nodes = 2"));
        return Vec::new();
    };
    items.iter().filter_map(|item| rule(item, axes, out)).collect()
}

fn rule(item: &Node, axes: &[Axis], out: &mut Diagnostics) -> Option<Rule> {
    let mut flat = item.clone();
    flat.flatten();
    let Some(table) = flat.as_table().filter(|table| !table.entries.is_empty()) else {
        let fault = Diagnostic::new(Code::WrongType, "`[[skip]]` takes keys of axes with values");
        out.push(fault.at(item.place.clone(), "none is given").help("[[skip]], below it nodes = 2"));
        return None;
    };
    let names = || axes.iter().enumerate().flat_map(|(at, axis)| axis.names.iter().enumerate().map(move |n| (at, n)));
    let mut parts = Vec::new();
    for entry in &table.entries {
        let own = Key::read(&entry.key, &entry.key_place).ok();
        let same = |at: usize, column: usize| own.as_ref().is_some_and(|key| axes[at].keys[column].is(key));
        let found = names().find(|(at, (column, name))| **name == entry.key || same(*at, *column));
        let Some((at, (column, name))) = found else {
            let fault = Diagnostic::new(Code::UnknownKey, format!("`{}` is on no axis", shorten(&entry.key)));
            let hint = one_of(&entry.key, names().map(|(_, (_, name))| name.as_str()));
            out.push(fault.at(entry.key_place.clone(), "not varied").help(hint));
            return None;
        };
        let nodes = entry.node.as_array().map_or_else(|| vec![&entry.node], |items| items.iter().collect());
        let mut meant = vec![false; axes[at].rows.len()];
        for node in nodes {
            let text = cell::of_node(node).unwrap_or_default();
            let before = meant.iter().filter(|meant| **meant).count();
            for (meant, cells) in meant.iter_mut().zip(&axes[at].cells) {
                *meant |= cells[column] == text;
            }
            if meant.iter().filter(|meant| **meant).count() == before {
                let fault = Diagnostic::new(Code::UnknownChoice, format!("`{name}` never is `{}`", shorten(&text)));
                let hint = one_of(&text, axes[at].cells.iter().map(|cells| cells[column].as_str()));
                out.push(fault.at(node.place.clone(), "no value of the axis").help(hint));
                return None;
            }
        }
        parts.push((at, meant));
    }
    Some(Rule { place: item.place.clone(), parts })
}

/// Names that no axis may have.
pub(super) const TAKEN: [&str; 3] = [POINT, ERROR, SWEEP_ID];
