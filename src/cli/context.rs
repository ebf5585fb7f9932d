//! What every verb needs to know about how it was called.

use std::io::Write as _;

use sim_report::result::{CatalogueOverride, OverriddenFigure, Warning};
use sim_topology::Catalogue;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity, Style, text};
use crate::scenario::{Input, Loaded, Scenario, Setting};

use super::fault::Failure;

/// The common options, made ready.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// Warnings are not printed.
    pub(super) quiet: bool,
    /// Colour of messages on standard error.
    pub(super) style: Style,
    /// `--set` and `--seed` as keys of the scenario.
    pub(super) settings: Vec<Setting>,
    /// `--seed`.
    pub(super) seed: Option<u64>,
}

impl Context {
    /// The files of `--catalogue`.
    pub(super) fn catalogues(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().filter(|setting| setting.is_file()).map(|setting| setting.text.as_str())
    }

    /// Loads a scenario with `settings` and then the common ones on top, and prints its warnings.
    pub(super) fn load(&self, input: &Input, mut settings: Vec<Setting>) -> Result<Loaded, Failure> {
        settings.extend(self.settings.iter().cloned());
        let loaded = Scenario::load(input, &settings).map_err(Failure::usage)?;
        self.say(&loaded.diagnostics);
        Ok(loaded)
    }

    /// Prints findings to standard error; under `--quiet` errors only.
    pub(super) fn say(&self, diagnostics: &Diagnostics) {
        let list: Vec<Diagnostic> =
            diagnostics.list.iter().filter(|d| !self.quiet || d.severity() == Severity::Error).cloned().collect();
        if !list.is_empty() {
            let shown = Diagnostics { sources: diagnostics.sources.clone(), list };
            // Nothing can be done if standard error is closed.
            let _ = write!(std::io::stderr(), "{}", text(&shown, self.style));
        }
    }

    /// A remark on standard error, unless `--quiet`.
    pub(super) fn note(&self, line: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

/// Warnings as results carry them.
pub(super) fn warnings(diagnostics: &Diagnostics) -> Vec<Warning> {
    diagnostics
        .list
        .iter()
        .filter(|d| d.severity() == Severity::Warning)
        .map(|d| {
            let line = diagnostics.line(d);
            let message = line.strip_prefix(d.code.id()).unwrap_or(&line).trim_start_matches([':', ' ']).to_owned();
            Warning { code: d.code.id().to_owned(), message, hint: d.help.first().cloned() }
        })
        .collect()
}

/// Catalogue rows of the user's own as results carry them.
pub(super) fn overrides(catalogue: &Catalogue) -> Vec<CatalogueOverride> {
    let figure = |f: &sim_topology::catalogue::ChangedFigure| OverriddenFigure {
        name: f.name.clone(),
        unit: f.unit.map(str::to_owned),
        from: f.from.clone(),
        to: f.to.clone(),
    };
    let row = |change: &sim_topology::catalogue::Change| CatalogueOverride {
        kind: change.kind.to_owned(),
        name: change.name.clone(),
        added: change.added,
        like: change.like.clone(),
        figures: change.figures.iter().map(figure).collect(),
    };
    catalogue.changes().iter().map(row).collect()
}
