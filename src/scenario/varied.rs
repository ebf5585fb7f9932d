//! A scenario that is loaded many times, with other values of some keys each time.
//!
//! Files are read once, whenever a value names them first, and fabrics that come again are built once.

use std::path::Path;

use super::keys::{Kind, ROOT, TableSpec};
use super::tree::{Node, Table, Value};
use super::{Fabrics, Loaded, Setting, checked, designs, hash, load, named_files, validate};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten};

/// A key of a scenario, as `--set` takes it, and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// As written.
    pub(crate) text: String,
    pub(crate) place: Place,
    parts: Vec<String>,
}

/// A scenario whose keys can be varied.
#[derive(Debug)]
pub(crate) struct Varied {
    table: Table,
    settings: Vec<Setting>,
    name: String,
    fabrics: Fabrics,
    /// The texts that were read, with warnings at most; what is loaded shares their files.
    found: Diagnostics,
}

impl Key {
    /// Reads a key.
    pub(crate) fn read(text: &str, place: &Place) -> Result<Self, Box<Diagnostic>> {
        let refuse =
            |message: String, label: &str| Diagnostic::new(Code::BadArgument, message).at(place.clone(), label);
        let Some(parts) = load::split_key(text) else {
            let fault = refuse(format!("`{}` is not a key", shorten(text)), "parts are separated by one dot");
            return Err(Box::new(fault.help("key = \"fabric.spines\", or \"workload.0.op\" for the first workload")));
        };
        if let ["extends" | "schema" | "name" | "description"] =
            parts.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            return Err(Box::new(refuse(format!("`{}` cannot be varied", parts[0]), "it changes no result")));
        }
        Ok(Self { text: text.trim().to_owned(), place: place.clone(), parts })
    }

    /// The key of the seed.
    pub(crate) fn seed(place: &Place) -> Self {
        Self { text: "seed".to_owned(), place: place.clone(), parts: vec!["seed".to_owned()] }
    }

    /// Whether both are the same key, however they are spelt.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.parts == other.parts
    }

    /// Whether a setting of the command line sets it.
    pub(crate) fn is_set_by(&self, setting: &Setting) -> bool {
        let text = setting.key.as_deref().or_else(|| setting.text.split_once('=').map(|(key, _)| key));
        !setting.is_file() && text.and_then(load::split_key).is_some_and(|parts| parts == self.parts)
    }

    /// A value as the key takes it: one value for a key that takes an array is an array of it.
    pub(crate) fn fitted(&self, node: Node) -> Node {
        if matches!(node.value, Value::Array(_)) || !takes_list(&ROOT, &self.parts) {
            return node;
        }
        Node { place: node.place.clone(), value: Value::Array(vec![node]) }
    }

    /// Whether its values may name files.
    pub(crate) fn may_name_files(&self) -> bool {
        named_files::may_name(&self.parts)
    }

    fn is_design(&self) -> bool {
        matches!(&self.parts[..], [only] if only == designs::KEY)
    }
}

/// Whether the key takes an array of single values.
fn takes_list(spec: &TableSpec, parts: &[String]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return false };
    match (spec.key(first).map(|key| &key.kind), rest) {
        (Some(Kind::List(of)), []) => !matches!(of, Kind::List(_)),
        (Some(Kind::Table(inner) | Kind::Part(inner)), rest) => takes_list(inner, rest),
        (Some(Kind::Map(Kind::Table(inner) | Kind::Part(inner))), [_, rest @ ..]) => takes_list(inner, rest),
        (Some(Kind::Tables(inner)), [_, rest @ ..]) => takes_list(inner, rest),
        (Some(Kind::Variants(list)), [_, rest @ ..]) => list.iter().any(|(_, inner)| takes_list(inner, rest)),
        _ => false,
    }
}

impl Varied {
    /// The scenario in the file at `scenario`, if any, with the keys of `over` upon it; paths are relative to `folder`.
    /// `found` has the texts that places in `over` point into. `settings` are laid upon it whenever it is loaded.
    pub(crate) fn read(
        scenario: Option<(&str, &Place)>,
        over: Option<Table>,
        folder: &Path,
        settings: Vec<Setting>,
        (name, mut found): (String, Diagnostics),
    ) -> Result<Self, Diagnostics> {
        let mut table = match scenario {
            Some((path, place)) => load::file(&folder.join(path), Some(place), &mut Vec::new(), &mut found),
            None => Table::default(),
        };
        if let Some(over) = over {
            table.lay(load::extend(over, folder, &mut Vec::new(), &mut found));
        }
        if found.has_errors() {
            return Err(found);
        }
        Ok(Self { table, settings, name, fabrics: Fabrics::default(), found })
    }

    /// The texts, with warnings at most.
    pub(crate) fn found(&self) -> &Diagnostics {
        &self.found
    }

    /// The seed that holds where none is varied.
    pub(crate) fn seed(&self) -> i64 {
        let mut out = Diagnostics { sources: self.found.sources.clone(), list: Vec::new() };
        let (table, _) = self.tree(&[], &mut out);
        super::view::View::new(&table, &ROOT).integer("seed").unwrap_or(1)
    }

    /// A hash of what was read, whatever is varied, and of the settings.
    pub(crate) fn hash(&self) -> u64 {
        let settings = self.settings.iter().map(|s| format!("{}={}", s.key.as_deref().unwrap_or(""), s.text));
        settings.fold(hash::of(&self.table), |sum, setting| hash::text(&setting, sum))
    }

    /// A hash of the contents of the files that it names with these keys set.
    pub(crate) fn contents(&self, keys: &[(&Key, &Node)]) -> u64 {
        let mut out = Diagnostics { sources: self.found.sources.clone(), list: Vec::new() };
        let (table, _) = self.tree(keys, &mut out);
        named_files::contents(&table, &out.sources)
    }

    /// Loads it with these keys set.
    pub(crate) fn load(&self, keys: &[(&Key, &Node)]) -> Result<Loaded, Diagnostics> {
        let mut out = self.found.clone();
        let (table, designs) = self.tree(keys, &mut out);
        checked(&table, designs, &self.name, Some(&self.fabrics), out)
    }

    /// The faults of these values for these keys, as far as keys and values by themselves show them. What others may cause,
    /// or mend, is left out.
    pub(crate) fn faults(&self, keys: &[(&Key, &Node)]) -> Vec<Diagnostic> {
        let mut out = Diagnostics { sources: self.found.sources.clone(), list: Vec::new() };
        let (table, _) = self.tree(keys, &mut out);
        let mut list = core::mem::take(&mut out.list);
        validate::table(&table, &ROOT, None, &mut out);
        list.append(&mut out.list);
        let within = |outer: &Place, place: &Place| {
            outer.source == place.source && outer.span.start <= place.span.start && place.span.end <= outer.span.end
        };
        let own = |fault: Diagnostic| {
            let place = fault.place.as_ref()?;
            if keys.iter().any(|(key, node)| within(&key.place, place) || within(&node.place, place)) {
                return Some(fault);
            }
            // The text of a design's name is a text of its own.
            let (_, node) = keys.iter().find(|(key, _)| key.is_design())?;
            let named = out.sources.name(place.source) == designs::KEY;
            named.then(|| Diagnostic { place: Some(node.place.clone()), ..fault })
        };
        list.into_iter().filter_map(own).collect()
    }

    fn tree(&self, keys: &[(&Key, &Node)], out: &mut Diagnostics) -> (Table, super::Designs) {
        let mut settings = self.settings.clone();
        let design = keys.iter().filter(|(key, _)| key.is_design()).filter_map(|(_, node)| node.as_text());
        settings.extend(design.map(|name| Setting::design(designs::KEY, name)));
        let keys: Vec<_> = keys
            .iter()
            .filter(|(key, _)| !key.is_design())
            .map(|(key, node)| (&key.parts[..], &key.place, *node))
            .collect();
        load::over(self.table.clone(), &settings, &keys, out)
    }
}
