//! Timing parameters of a scenario that replace the built-in ones.

use indexmap::IndexMap;
use sim_collectives::spread::FormClass;
use sim_collectives::timing::{Key, Origin, Timing, Unit};
use sim_topology::{Catalogue, FabricSpec};

use super::load::{self, MAX_DEPTH};
use super::quantity;
use super::tree::{Entry, Node, Table, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, shorten, suggest};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileValue {
    /// In the unit of its key.
    pub value: f64,
    /// Where it comes from.
    pub origin: Origin,
    /// The source in words.
    pub source: String,
    /// One standard deviation of the value's logarithm, where the file states it.
    pub spread: Option<f64>,
}

/// Timing parameters, and how far rows may lie from what they predict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The values by name.
    pub values: IndexMap<Key, ProfileValue>,
    /// The standard deviation of ln(measured / predicted) by class of rows, in place of that of clusters in general.
    pub forms: Vec<(FormClass, f64)>,
}

/// What a file of parameters may have beside its `[profile]`.
const BESIDE: &[&str] = &["schema", "name", "description"];

/// Lays the `[profile]` of `table` upon that of the file that it names by `from`, if it names one.
pub(super) fn below(table: &mut Table, depth: usize, diagnostics: &mut Diagnostics) {
    let Some(own) = table.entries.iter_mut().find(|e| e.key == "profile") else { return };
    let Value::Table(keys) = &mut own.node.value else { return };
    let Some(Entry { node, .. }) = keys.remove("from") else { return };
    let Some(name) = node.as_text() else {
        let label = format!("{}; the path of a file is due", node.describe());
        let fault = Diagnostic::new(Code::WrongType, "`profile.from` takes a text").at(node.place, label);
        return diagnostics.push(fault.help("from = \"profile.toml\""));
    };
    if depth >= MAX_DEPTH {
        let fault = Diagnostic::new(Code::Cycle, format!("`profile.from` more than {MAX_DEPTH} files deep"));
        return diagnostics.push(fault.at(node.place.clone(), "named here").help("take one of the `from` out"));
    }
    let Some(path) = load::beside(&node, &diagnostics.sources) else { return };
    let before = diagnostics.list.len();
    let mut read = load::file(&path, Some(&node.place), &mut Vec::new(), diagnostics);
    below(&mut read, depth + 1, diagnostics);
    for entry in read.entries.iter().filter(|e| e.key != "profile" && !BESIDE.contains(&e.key.as_str())) {
        let fault = Diagnostic::new(
            Code::BadArgument,
            format!("`{}` has no place in a file of timing parameters", shorten(&entry.key)),
        );
        let fault = fault.at(entry.key_place.clone(), "only a [profile] is taken from it");
        diagnostics.push(fault.help("a whole scenario is taken by `extends`, at the top of a file"));
    }
    let sound = diagnostics.list.len() == before;
    match read.remove("profile").map(|e| e.node) {
        Some(Node { value: Value::Table(mut lower), .. }) => {
            lower.lay(core::mem::take(keys));
            *keys = lower;
        }
        Some(_) => {}
        None if sound => {
            let fault = Diagnostic::new(Code::BadArgument, format!("`{}` has no [profile]", shorten(name)));
            let fault = fault.at(node.place, "named here");
            diagnostics.push(fault.help("`fabricsim fit LOG --out profile.toml` writes such a file"));
        }
        None => {}
    }
}

/// The parameters by name, in the unit that ends their name; names and values are those of the timing model.
pub(super) fn profile(root: &View<'_>, spec: &FabricSpec, catalogue: &Catalogue, out: &mut Diagnostics) -> Profile {
    let mut profile = Profile::default();
    let values = &mut profile.values;
    let entries = root.node("profile").and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    if entries.is_empty() {
        return profile;
    }
    // An unknown GPU has been reported.
    let sm = catalogue.gpu(&spec.node.gpu).map_or(90, |gpu| gpu.sm);
    let mut timing = Timing::builtin(sm, spec.transport.as_str());
    let about = About::of(entries, out);
    let mut spreads: Vec<(Key, &Node)> = Vec::new();
    for entry in entries {
        let name = &entry.key;
        if matches!(name.as_str(), "origin" | "source") {
            continue;
        }
        if let Some(class) = name.strip_prefix("form.") {
            profile.forms.extend(form(class, entry, out));
            continue;
        }
        let spread = name.strip_prefix("spread.");
        let wanted = spread.unwrap_or(name);
        let Ok(key) = wanted.parse::<Key>() else {
            let fault = Diagnostic::new(Code::UnknownKey, format!("unknown timing parameter `{}`", shorten(wanted)));
            let fault = fault.at(entry.key_place.clone(), "not one of the timing model's");
            out.push(fault.help(suggest(wanted, Key::ALL.iter().map(|key| key.name()))));
            continue;
        };
        if spread.is_some() {
            spreads.push((key, &entry.node));
            continue;
        }
        let Some(value) = number(Some(key.unit()), &entry.node) else {
            let unit = match key.unit() {
                Unit::Us => "microseconds",
                Unit::Share => "parts of 1",
                Unit::GbytePerSecond => "GB/s",
            };
            let fault = Diagnostic::new(Code::WrongType, format!("`{name}` takes a number"));
            let label = format!("{}; {unit} are due", entry.node.describe());
            out.push(fault.at(entry.node.place.clone(), label).help(example(key)));
            continue;
        };
        match timing.set(key, value, Origin::Assumed, "") {
            Ok(()) => {
                let (origin, source) = about.of_value(&entry.node);
                values.insert(key, ProfileValue { value, origin, source, spread: None });
            }
            Err(_) => {
                let due = match key.unit() {
                    Unit::Share => "a number from 0.01 to 1",
                    Unit::GbytePerSecond => "a finite number, above zero,",
                    Unit::Us => "a finite number, zero or more,",
                };
                let fault = Diagnostic::new(Code::OutOfRange, format!("`{name}` is out of range"));
                out.push(fault.at(entry.node.place.clone(), format!("{due} is due")));
            }
        }
    }
    for (key, node) in spreads {
        let given = number(None, node).filter(|s| (0.0..=3.0).contains(s));
        match (given, values.get_mut(&key)) {
            (Some(spread), Some(value)) => value.spread = Some(spread),
            // Of a value that was refused, or is another's by now.
            (Some(_), None) => {}
            (None, _) => {
                let fault = Diagnostic::new(Code::OutOfRange, format!("the spread of `{key}` is out of range"));
                let fault = fault.at(node.place.clone(), "a number from 0 to 3 is due");
                out.push(fault.help("the standard deviation of the value's logarithm: 0.05 is about 5 %"));
            }
        }
    }
    profile
}

/// A line of `[profile.form]`.
fn form(class: &str, entry: &Entry, out: &mut Diagnostics) -> Option<(FormClass, f64)> {
    let Ok(parsed) = class.parse::<FormClass>() else {
        let fault = Diagnostic::new(Code::BadName, format!("`{}` is no class of rows", shorten(class)));
        let fault = fault.at(entry.key_place.clone(), "reach/algorithm/protocol/band is due");
        out.push(fault.help("\"node/ring/LL/small\": reach is node, network or preset, band is small, mid or large"));
        return None;
    };
    let sigma = number(None, &entry.node).filter(|s| (0.0..=3.0).contains(s));
    if sigma.is_none() {
        let fault = Diagnostic::new(Code::OutOfRange, format!("the form of `{}` is out of range", shorten(class)));
        let fault = fault.at(entry.node.place.clone(), "a number from 0 to 3 is due");
        out.push(fault.help("the standard deviation of ln(measured / predicted): 0.05 is about 5 %"));
    }
    Some((parsed, sigma?))
}

/// What a file of parameters says about them all: `origin` and `source`.
struct About {
    /// The text that says so, and what.
    origin: Option<(SourceId, Origin)>,
    source: Option<(SourceId, String)>,
}

impl About {
    fn of(entries: &[Entry], out: &mut Diagnostics) -> Self {
        let text = |key: &str| entries.iter().find(|e| e.key == key).map(|e| &e.node);
        let mut about = Self { origin: None, source: None };
        if let Some(node) = text("origin") {
            let known = [Origin::Spec, Origin::Measured, Origin::Fitted, Origin::Assumed];
            match known.into_iter().find(|o| node.as_text() == Some(o.name())) {
                Some(origin) => about.origin = Some((node.place.source, origin)),
                None => {
                    let fault = Diagnostic::new(Code::UnknownChoice, "no origin of parameters");
                    let words = known.map(Origin::name).join(", ");
                    out.push(fault.at(node.place.clone(), format!("one of {words} is due")));
                }
            }
        }
        if let Some(node) = text("source") {
            match node.as_text() {
                Some(source) => about.source = Some((node.place.source, source.to_owned())),
                None => {
                    let fault = Diagnostic::new(Code::WrongType, "`profile.source` takes a text");
                    out.push(fault.at(node.place.clone(), format!("{} stands here", node.describe())));
                }
            }
        }
        about
    }

    /// They hold for the values of the same text; what is laid upon these is the user's own.
    fn of_value(&self, node: &Node) -> (Origin, String) {
        let here = node.place.source;
        let origin = self.origin.as_ref().filter(|o| o.0 == here).map_or(Origin::Assumed, |o| o.1);
        let source = self.source.as_ref().filter(|s| s.0 == here);
        (origin, source.map_or_else(|| "the scenario's [profile]".to_owned(), |s| s.1.clone()))
    }
}

/// A bare number, or a quantity of that unit.
fn number(unit: Option<Unit>, node: &Node) -> Option<f64> {
    match &node.value {
        Value::Integer(Some(value)) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Text(_) => match unit? {
            Unit::Share => None,
            Unit::Us => quantity::time(node).map(|span| span.as_us()),
            Unit::GbytePerSecond => quantity::rate(node).map(|rate| rate.as_gbyte()),
        },
        _ => None,
    }
}

fn example(key: Key) -> String {
    match key.unit() {
        Unit::Share => format!("\"{key}\" = 0.95"),
        Unit::Us => format!("\"{key}\" = 1.5, or \"{key}\" = \"1500 ns\""),
        Unit::GbytePerSecond => format!("\"{key}\" = 20.5, or \"{key}\" = \"20.5 GB/s\""),
    }
}
