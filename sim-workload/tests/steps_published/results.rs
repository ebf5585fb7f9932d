//! `tests/data/steps-played.toml`: what plays came to. Long ones are not played again by every run of the tests; short ones are, and
//! must come to the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use crate::fit::Scored;
use crate::kernels::Fit;
use crate::mapping::Case;
use crate::played::Parts;

const HEAD: &str = "\
# What steps came to when they were played: at the laws' rates (plain), and at the efficiency of the row's group with where the time went, in
# seconds. Written by `UPDATE_DOCS=1 cargo test -p sim-workload --test steps_published -- --ignored all_rows_are_played`; never by hand.
";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    family: String,
    name: String,
    efficiency: f64,
    plain: f64,
    total: f64,
    compute: f64,
    bubble: f64,
    optimizer: f64,
    exposed: BTreeMap<String, f64>,
    /// Played by every run of the tests.
    short: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    row: Vec<Entry>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/steps-played.toml")
}

/// What is stored, by family and name.
pub(crate) fn stored() -> BTreeMap<(String, String), Entry> {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let file: File = toml::from_str(&text).unwrap_or_else(|e| panic!("steps-played.toml: {e}"));
    file.row.into_iter().map(|e| ((e.family.clone(), e.name.clone()), e)).collect()
}

/// The entry of a case.
pub(crate) fn of(stored: &BTreeMap<(String, String), Entry>, case: &Case) -> Entry {
    let key = (case.row.family.to_owned(), case.row.name.clone());
    let missing = || panic!("{} {} was not played: see the head of steps-played.toml", case.row.family, case.row.name);
    stored.get(&key).cloned().unwrap_or_else(missing)
}

impl Entry {
    pub(crate) const fn is_short(&self) -> bool {
        self.short
    }

    pub(crate) const fn plain(&self) -> f64 {
        self.plain
    }

    pub(crate) const fn fit(&self) -> Fit {
        Fit { efficiency: self.efficiency }
    }

    pub(crate) fn parts(&self) -> Parts {
        Parts {
            total: self.total,
            compute: self.compute,
            exposed: self.exposed.clone(),
            bubble: self.bubble,
            optimizer: self.optimizer,
        }
    }
}

/// Writes what was played; `short` says of a row whether each run of the tests plays it.
pub(crate) fn write(scored: &[Scored], short: impl Fn(&Scored) -> bool) {
    let mut w = format!("{HEAD}\nrow = [\n");
    for s in scored {
        let p = &s.parts;
        let exposed: Vec<String> = p.exposed.iter().map(|(name, v)| format!("{name} = {v:.6}")).collect();
        writeln!(
            w,
            "  {{ family = \"{}\", name = \"{}\", efficiency = {:.3}, plain = {:.6}, total = {:.6}, compute = {:.6}, bubble = {:.6}, optimizer = {:.6}, exposed = {{ {} }}, short = {} }},",
            s.case.row.family,
            s.case.row.name,
            s.fit.efficiency,
            s.plain,
            p.total,
            p.compute,
            p.bubble,
            p.optimizer,
            exposed.join(", "),
            short(s),
        )
        .unwrap();
    }
    w.push_str("]\n");
    fs::write(path(), w).expect("the file of plays");
}
