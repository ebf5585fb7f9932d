//! `[[design]]`: the same scenario several ways, each some keys laid upon the rest.

use super::load::{self, Input, Setting};
use super::tree::{Table, Value};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten, suggest};

/// The key of the designs; as a setting it names the one to take.
pub(super) const KEY: &str = "design";
/// The most designs of a scenario.
const MOST: usize = 1_000;

/// The designs of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Designs {
    /// Their names, in order; empty where there are none.
    pub names: Vec<String>,
    /// The one that was taken, as a number of [`Designs::names`]: the one asked for, or the first.
    pub taken: usize,
    /// Whether it was asked for.
    pub asked: bool,
}

impl Designs {
    /// The designs of an input, whatever else is wrong with it.
    #[must_use]
    pub fn of(input: &Input, settings: &[Setting]) -> Self {
        load::tree(input, settings, &mut Diagnostics::new()).1
    }

    /// The name of the one that was taken.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.names.get(self.taken).map(String::as_str)
    }
}

impl Setting {
    /// The design called `name`.
    #[must_use]
    pub fn design(origin: &str, name: impl Into<String>) -> Self {
        Self::text(origin, KEY, name)
    }

    /// The name of a design, and where in the text it begins, if it is this that is set.
    pub(super) fn wanted_design(&self) -> Option<(usize, &str)> {
        match &self.key {
            Some(key) => (key == KEY).then_some((0, self.text.as_str())),
            None => {
                let (key, value) = self.text.split_once('=')?;
                (key.trim() == KEY).then_some((key.len() + 1, value))
            }
        }
    }
}

/// Takes the designs out of `table`, and lays one upon what is left.
pub(super) fn lay(table: &mut Table, settings: &[Setting], out: &mut Diagnostics) -> Designs {
    let mut wanted: Option<(String, Place)> = None;
    for setting in settings {
        let Some((at, name)) = setting.wanted_design() else { continue };
        let source = out.sources.add(setting.origin.clone(), setting.text.clone());
        let name = name.trim().trim_matches('"').to_owned();
        wanted = Some((name, Place { source, span: at..setting.text.len() }));
    }
    let Some(entry) = table.remove(KEY) else {
        if let Some((name, place)) = wanted {
            let fault = Diagnostic::new(Code::BadArgument, format!("there is no design `{}`", shorten(&name)));
            out.push(
                fault.at(place, "the scenario has no `[[design]]`").help("give each a `name` and the keys that differ"),
            );
        }
        return Designs::default();
    };
    let place = entry.node.place.clone();
    let Value::Array(items) = entry.node.value else {
        let fault = Diagnostic::new(Code::WrongType, "`design` takes an array of tables");
        out.push(
            fault.at(place, entry.node.describe()).help("[[design]], below it name = \"ib\" and the keys that differ"),
        );
        return Designs::default();
    };
    if items.len() > MOST {
        let fault = Diagnostic::new(Code::TooLarge, format!("{} designs; there may be {MOST}", items.len()));
        out.push(fault.at(place, "too many"));
        return Designs::default();
    }
    let mut names: Vec<String> = Vec::new();
    let mut tables: Vec<Table> = Vec::new();
    for item in items {
        let place = item.place.clone();
        let Value::Table(mut keys) = item.value else {
            let fault = Diagnostic::new(Code::WrongType, "`design` takes an array of tables");
            out.push(
                fault.at(place, "not a table").help("[[design]], below it name = \"ib\" and the keys that differ"),
            );
            continue;
        };
        let Some(name) = keys.remove("name") else {
            let fault = Diagnostic::new(Code::BadArgument, "a design has no `name`");
            out.push(fault.at(place, "this one").help("name = \"ib\""));
            continue;
        };
        let at = name.node.place.clone();
        let Some(name) = name.node.as_text().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()) else {
            let fault = Diagnostic::new(Code::WrongType, "`name` takes a text");
            out.push(fault.at(at, "the design's name is due").help("name = \"ib\""));
            continue;
        };
        if names.contains(&name) {
            let fault = Diagnostic::new(Code::BadArgument, format!("two designs are called `{}`", shorten(&name)));
            out.push(fault.at(at, "the second one").help("results name them, so each needs a name of its own"));
        }
        for whole in [KEY, "extends", "schema"] {
            if let Some(entry) = keys.remove(whole) {
                let fault = Diagnostic::new(Code::BadArgument, format!("`{whole}` has no place in a design"));
                out.push(fault.at(entry.key_place, "it is of the whole file"));
            }
        }
        names.push(name);
        tables.push(keys);
    }
    let taken = match &wanted {
        None => 0,
        Some((name, place)) => match names.iter().position(|known| known == name) {
            Some(at) => at,
            None => {
                let fault = Diagnostic::new(Code::BadArgument, format!("there is no design `{}`", shorten(name)));
                let hint = suggest(name, names.iter().map(String::as_str));
                out.push(fault.at(place.clone(), "not known").help(hint));
                0
            }
        },
    };
    if taken < tables.len() {
        table.lay(tables.swap_remove(taken));
    }
    Designs { names, taken, asked: wanted.is_some() }
}
