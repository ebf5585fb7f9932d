//! Scenarios: what a TOML file says, checked and typed.
//!
//! Reading goes in stages, each of which reports all faults that it finds: the files become a tree whose parts know their
//! places (`tree`, `load`), the tree is held against the tables of keys (`keys`, `validate`), and what holds becomes a
//! [`Scenario`], in which no text is left that matters.

mod build;
mod catalogue;
mod channels;
mod cluster;
mod designs;
mod fabrics;
mod faults;
mod hardware;
mod hash;
mod impossible;
pub(crate) mod keys;
mod load;
mod named_files;
mod named_keys;
mod network;
mod observe;
pub mod presets;
mod profile;
mod quantity;
mod reference;
mod reference_cluster;
mod schema;
mod shorthand;
mod software;
mod starter;
mod transport;
mod transport_preset;
pub(crate) mod tree;
pub(crate) mod validate;
mod varied;
pub(crate) mod view;
mod workload;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::Path;

use sim_core::units::Span;
use sim_topology::{Catalogue, Fabric, FabricSpec, Fault};

use crate::diagnostic::{Code, Diagnostics, Place};

use build::Built;
pub use channels::Channels;
pub use designs::Designs;
pub use fabrics::Fabrics;
pub(crate) use keys::{DATATYPES, OPERATIONS, REDUCTIONS};
pub use keys::{KeySpec, Kind, ROOT, TableSpec};
pub(crate) use load::read_table;
pub use load::{Input, MAX_BYTES, Setting, decode};
pub use observe::Observed;
pub use profile::{Profile, ProfileValue};
pub use quantity::{MOST_BYTES, Metres};
pub(crate) use quantity::{diagnose, too_large};
pub use reference::markdown;
pub use schema::{SCHEMA, all_tables, json_schema};
pub use software::{Scalar, Software};
pub(crate) use software::{TUNER_FILE, acts};
pub use starter::starter;
pub use transport::{Carried, Class, Packets, Parameter};
pub(crate) use varied::{Key, Varied};
pub(crate) use workload::nics_between;
pub(crate) use workload::reduction;
pub use workload::{
    Collective, Failures, GpuPrice, Inference, Moves, PoolSpec, SlowRank, Step, Traffic, Transfer, Transfers, Uneven,
    Workload,
};

/// A scenario: which cluster, which software, which work.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name for results: the key `name`, else the file's name, else the system's.
    pub name: String,
    /// What it is about; may be empty.
    pub description: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// The reference cluster that it is based on.
    pub reference: Option<String>,
    /// The system's catalogue name; `None` for an inline node.
    pub system: Option<String>,
    /// Nodes and network.
    pub cluster: FabricSpec,
    /// Queue pairs over which a transfer is spread.
    pub qps: u32,
    /// The communication library.
    pub software: Software,
    /// Timing parameters by name that replace the built-in ones.
    pub profile: Profile,
    /// What to run, in order.
    pub workloads: Vec<Workload>,
    /// What is broken, in order.
    pub faults: Vec<Fault>,
    /// Where each of them stands.
    pub fault_places: Vec<Place>,
    /// When to stop early.
    pub limits: Limits,
}

/// When to stop early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of events.
    pub events: Option<u64>,
    /// Simulated time.
    pub time: Option<Span>,
}

/// A scenario with what came of reading it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Scenario,
    /// The fabric that it describes, built.
    pub fabric: Fabric,
    /// How packets fare on its network; `None` where links are virtual.
    pub packets: Option<Packets>,
    /// The catalogue that it was built from: the built-in one, with the scenario's own rows.
    pub catalogue: Cow<'static, Catalogue>,
    /// The ways to play it that its file lists, and which of them this is.
    pub designs: Designs,
    /// A hash of all keys that have been set, wherever they were: equal scenarios have equal ones, whatever their
    /// comments and order of keys. `name` and `description` don't count.
    pub hash: u64,
    /// Warnings; no errors.
    pub diagnostics: Diagnostics,
}

impl Scenario {
    /// Reads a scenario and checks it, its fabric included. `settings` are laid upon it in order.
    ///
    /// ```
    /// use fabricsim::scenario::{Input, Scenario, Setting};
    ///
    /// let flags = [Setting::text("--system", "system", "hgx-h100"), Setting::value("--nodes", "nodes", 4)];
    /// let loaded = Scenario::load(&Input::Flags, &flags).map_err(|faults| faults.warning_lines())?;
    /// assert_eq!(loaded.scenario.gpus(), 32);
    /// # Ok::<(), Vec<String>>(())
    /// ```
    ///
    /// # Errors
    /// All faults of the files and settings, and the warnings with them.
    pub fn load(input: &Input, settings: &[Setting]) -> Result<Loaded, Diagnostics> {
        let mut out = Diagnostics::new();
        let (table, designs) = load::tree(input, settings, &mut out);
        checked(&table, designs, &default_name(input), None, out)
    }

    /// The catalogue with the rows that `settings` state, without a scenario; keys of other tables are passed over.
    ///
    /// # Errors
    /// All faults of the rows.
    pub fn catalogue(settings: &[Setting]) -> Result<(Cow<'static, Catalogue>, Diagnostics), Diagnostics> {
        let mut out = Diagnostics::new();
        let settings: Vec<Setting> = settings.iter().filter(|s| s.is_of_catalogue()).cloned().collect();
        let (table, _) = load::tree(&Input::Flags, &settings, &mut out);
        validate::table(&table, &ROOT, None, &mut out);
        let catalogue = catalogue::catalogue(&table, &mut out);
        out.sort();
        match catalogue {
            Some(catalogue) if !out.has_errors() => Ok((catalogue, out)),
            _ => Err(out),
        }
    }

    /// The number of GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.cluster.nodes.saturating_mul(self.gpus_per_node())
    }

    /// The number of GPUs of a node that are used.
    #[must_use]
    pub fn gpus_per_node(&self) -> u32 {
        self.cluster.gpus_per_node.unwrap_or(self.cluster.node.gpus)
    }

    /// The scenario in one line: `hgx-h100 x2, 16 GPUs, rail-optimized, infiniband, 1 workload`.
    #[must_use]
    pub fn describe(&self) -> String {
        let system = self.system.as_deref().unwrap_or("inline node");
        let of = self.reference.as_ref().filter(|name| **name != self.name);
        let system = of.map_or_else(|| system.to_owned(), |name| format!("cluster {name}, {system}"));
        let work = match self.workloads.len() {
            0 => "no workload".to_owned(),
            1 => "1 workload".to_owned(),
            n => format!("{n} workloads"),
        };
        let (nodes, gpus) = (self.cluster.nodes, self.gpus());
        let gpus = crate::diagnostic::counted(gpus, "GPU");
        if nodes == 1 {
            format!("{}: {system} x1, {gpus}, {work}", self.name)
        } else {
            format!(
                "{}: {system} x{nodes}, {gpus}, {}, {}, {work}",
                self.name, self.cluster.fabric, self.cluster.transport
            )
        }
    }
}

impl Loaded {
    /// The kinds of the workloads of an input, whatever else is wrong with it.
    #[must_use]
    pub fn kinds(input: &Input, settings: &[Setting]) -> Vec<String> {
        let (table, _) = load::tree(input, settings, &mut Diagnostics::new());
        let of = |item: &tree::Node| Some(item.as_table()?.get("kind")?.as_text()?.to_owned());
        let items = table.get("workload").and_then(tree::Node::as_array).unwrap_or(&[]);
        items.iter().map(|item| of(item).unwrap_or_default()).collect()
    }

    /// What a key of a workload that is true or false has been set to, whatever else is wrong with the input.
    #[must_use]
    pub fn flag(input: &Input, settings: &[Setting], workload: usize, key: &str) -> Option<bool> {
        let (table, _) = load::tree(input, settings, &mut Diagnostics::new());
        let item = table.get("workload")?.as_array()?.get(workload)?;
        if let tree::Value::Boolean(value) = item.as_table()?.get(key)?.value { Some(value) } else { None }
    }

    /// The scenario in one line, and the catalogue rows of its own in another.
    #[must_use]
    pub fn head(&self) -> String {
        let own = self.own_rows().map_or_else(String::new, |rows| format!("\ncatalogue: {rows}"));
        self.scenario.describe() + &own
    }

    /// The catalogue rows of the scenario's own in one line, `2 rows of your own: gpu my-h100 (...), switch qm9700 (...)`;
    /// `None` without any.
    #[must_use]
    pub fn own_rows(&self) -> Option<String> {
        own_rows(&self.catalogue)
    }
}

/// The rows of a catalogue that are not built in, in one line; `None` without any.
pub(crate) fn own_rows(catalogue: &Catalogue) -> Option<String> {
    const SHOWN: usize = 4;
    let changes = catalogue.changes();
    let count = changes.len();
    let mut list: Vec<String> = changes.iter().take(SHOWN).map(ToString::to_string).collect();
    if count > SHOWN {
        list.push(format!("and {} more", count - SHOWN));
    }
    (count > 0).then(|| format!("{} of your own: {}", crate::diagnostic::counted(count, "row"), list.join(", ")))
}

/// Holds a tree, of whose reading `out` has the faults, against the tables of keys, and builds what it describes.
fn checked(
    table: &tree::Table,
    designs: Designs,
    name: &str,
    fabrics: Option<&Fabrics>,
    mut out: Diagnostics,
) -> Result<Loaded, Diagnostics> {
    let unread = out.has_errors();
    validate::table(table, &ROOT, None, &mut out);
    let built = build::scenario(table, name, !out.has_errors(), fabrics, &mut out);
    if unread {
        without_consequences(&mut out);
    }
    out.sort();
    match built {
        Some(Built { scenario, fabric, packets, catalogue }) if !out.has_errors() => {
            let hash = hash::with_files(hash::of(table), out.sources.data());
            Ok(Loaded { scenario, fabric, packets, catalogue, designs, hash, diagnostics: out })
        }
        _ => Err(out),
    }
}

fn default_name(input: &Input) -> String {
    let stem = |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    match input {
        Input::File(path) => stem(path),
        Input::Text { name, .. } => stem(Path::new(name)),
        Input::Flags => String::new(),
    }
}

/// After a file could not be read in full, what is missing may stand in the part that was lost: such findings, and
/// those on the very lines that could not be read, are consequences.
fn without_consequences(out: &mut Diagnostics) {
    let lines: Vec<_> = out
        .list
        .iter()
        .filter(|d| d.code == Code::Syntax)
        .filter_map(|d| d.place.as_ref())
        .map(|p| (p.source, out.sources.position(p).line))
        .collect();
    let sources = out.sources.clone();
    out.list.retain(|d| {
        let on_lost_line = d.place.as_ref().is_some_and(|p| lines.contains(&(p.source, sources.position(p).line)));
        d.code == Code::Syntax || (d.code != Code::MissingKey && !on_lost_line)
    });
}
