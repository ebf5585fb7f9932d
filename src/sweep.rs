//! Sweeps: a scenario at every point of a grid over some of its keys, one row a point.
//!
//! [`Sweep::read`] takes a TOML file that names a scenario, axes (keys with their values) and columns, and numbers the points
//! in the order of the grid, the first axis slowest. A point is played by itself ([`Sweep::play`]) and depends on nothing but
//! its number, so that points can be spread over threads ([`play::play`]), shards and calls; [`rows::RowFile`] keeps what is
//! done in the order of the points.

mod axis;
mod cell;
mod columns;
mod keys;
pub mod merge;
pub mod parquet;
pub mod play;
mod range;
pub mod rows;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_core::outcome::StopReason;
use sim_core::random::mix;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::scenario::tree::Value;
use crate::scenario::view::View;
use crate::scenario::{Key, Loaded, Setting, Varied, read_table, validate};
use crate::simulate::Options;
use axis::{Axis, Rule};
use columns::Column;
use keys::SWEEP;

/// The most points of a grid.
pub const MOST_POINTS: usize = 1_000_000;
/// How many points are looked at for one that can be played.
const LOOKED_AT: usize = 200;
/// The first column: the number of the point.
pub const POINT: &str = "point";
/// The column that says why a point could not be played.
pub const ERROR: &str = "error";
/// The last column: which sweep this is, and how many points it has.
pub const SWEEP_ID: &str = "sweep";

/// A sweep, read and checked.
#[derive(Debug)]
pub struct Sweep {
    /// What its file says it is about; may be empty.
    pub description: String,
    /// Whether a point that cannot be played ends the sweep.
    pub stop_on_error: bool,
    /// The files that it was read from.
    pub files: Vec<PathBuf>,
    /// Warnings about the sweep itself.
    pub warnings: Diagnostics,
    /// A hash of the grid, the columns, the scenario and the version of the program, and the number of points.
    pub id: String,
    axes: Vec<Axis>,
    varied: Varied,
    /// The points of the grid that are not skipped, by their numbers in it.
    points: Vec<u32>,
    columns: Vec<Column>,
}

/// A point that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// Its cells, in the order of [`Sweep::header`].
    pub cells: Vec<String>,
    /// Whether it could not be played to its end.
    pub failed: bool,
    /// Errors and warnings.
    pub found: Diagnostics,
    /// Columns that the results have not, and why.
    pub absent: Vec<(String, String)>,
}

impl Sweep {
    /// Reads a sweep from a file; `settings` are laid upon its scenario below the axes.
    ///
    /// # Errors
    /// All faults of the file; those of the scenario if none of the first 200 points can be loaded.
    pub fn read(path: &Path, settings: &[Setting]) -> Result<Self, Diagnostics> {
        let mut out = Diagnostics::new();
        let mut table = read_table(path, &mut out);
        if out.has_errors() {
            return Err(out);
        }
        let base = table.remove("base");
        let base_place = base.as_ref().map(|entry| entry.node.place.clone());
        validate::table(&table, &SWEEP, None, &mut out);
        let view = View::new(&table, &SWEEP);
        let base = base.and_then(|entry| match entry.node.value {
            Value::Table(table) => Some(table),
            _ => {
                let label = format!("{}; keys of a scenario are due", entry.node.describe());
                out.push(Diagnostic::new(Code::WrongType, "`base` takes a table").at(entry.node.place, label));
                None
            }
        });
        let axes = axis::axes(&view, &mut out);
        let own = columns::given(&view, &mut out);
        let scenario = view.node("scenario").and_then(|node| Some((node.as_text()?, &node.place)));
        if scenario.is_none() && base_place.is_none() && !view.has("scenario") {
            let fault = Diagnostic::new(Code::MissingKey, "which scenario? Neither `scenario` nor `[base]` is given");
            out.push(fault.help("scenario = \"cluster.toml\", relative to this file, or its keys under [base]"));
        }
        axis::conflicts(&axes, settings, &mut out);
        if out.has_errors() {
            out.sort();
            return Err(out);
        }
        let name = scenario.map_or(path, |(path, _)| Path::new(path)).file_stem().unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new("."));
        let name = (name.to_string_lossy().into_owned(), out);
        let varied = Varied::read(scenario, base, folder, settings.to_vec(), name)?;
        Self::checked(&view, axes, own, varied)
    }

    fn checked(
        view: &View<'_>,
        mut axes: Vec<Axis>,
        own: Option<Vec<Column>>,
        varied: Varied,
    ) -> Result<Self, Diagnostics> {
        let mut out = varied.found().clone();
        if let (Some(node), Some(seeds)) = (view.node("seeds"), view.integer("seeds")) {
            axes.push(axis::seeds(&axes, node, seeds, &varied, &mut out));
        }
        for axis in &axes {
            axis.check(&varied, &mut out);
        }
        let rules = axis::rules(view, &axes, &mut out);
        let all = axes.iter().map(|axis| axis.rows.len()).try_fold(1_usize, usize::checked_mul);
        let Some(all) = all.filter(|all| *all <= MOST_POINTS) else {
            let sizes: Vec<String> = axes.iter().map(|axis| axis.rows.len().to_string()).collect();
            let fault = Diagnostic::new(Code::TooLarge, format!("a grid of {} points", sizes.join(" x ")));
            out.push(fault.help(format!("a sweep has at most {MOST_POINTS}; take several, or fewer values")));
            return Err(out);
        };
        if out.has_errors() {
            out.sort();
            return Err(out);
        }
        let points = points(&axes, &rules, all, &mut out);
        if points.is_empty() {
            let fault = Diagnostic::new(Code::NoWorkload, format!("no point is left: `[[skip]]` takes out all {all}"));
            out.push(fault.help("a point is left out where all keys of one `[[skip]]` have the values that it lists"));
            return Err(out);
        }
        let mut sweep = Self {
            description: view.text("description").unwrap_or_default().to_owned(),
            stop_on_error: view.choice("on_error") == Some("stop"),
            files: Vec::new(),
            warnings: Diagnostics::new(),
            id: String::new(),
            axes,
            varied,
            points,
            columns: Vec::new(),
        };
        let first = sweep.first()?;
        sweep.columns = match own {
            Some(columns) => columns,
            None => columns::usual(&first).map_err(|fault| Diagnostics::of(*fault))?,
        };
        columns::apart(&sweep.header(), view.node("columns"), &mut out);
        sweep.files = out.sources.names().chain(first.diagnostics.sources.names()).map(PathBuf::from).collect();
        sweep.id = sweep.identity(first.hash);
        if out.has_errors() {
            return Err(out);
        }
        sweep.warnings = out;
        Ok(sweep)
    }

    /// The first point that can be loaded, for what all have in common.
    fn first(&self) -> Result<Loaded, Diagnostics> {
        let mut first: Option<Diagnostics> = None;
        for point in 0..self.points.len().min(LOOKED_AT) {
            match self.load(point) {
                Ok(loaded) if loaded.scenario.workloads.is_empty() => {
                    let fault =
                        Diagnostic::new(Code::NoWorkload, "nothing to play: the scenario has no `[[workload]]`");
                    return Err(Diagnostics::of(
                        fault.help("a sweep plays the workloads of its scenario at every point"),
                    ));
                }
                Ok(loaded) => {
                    let refused = loaded.refused();
                    if !refused.has_errors() {
                        return Ok(loaded);
                    }
                    first = first.or(Some(refused));
                }
                Err(faults) => first = first.or(Some(faults)),
            }
        }
        let mut faults = first.unwrap_or_default();
        let tried = self.points.len().min(LOOKED_AT);
        let note = if tried == 1 { String::new() } else { format!("nor can any other of the first {tried} points") };
        let fault =
            Diagnostic::new(Code::NoWorkload, format!("the first point ({}) cannot be played", self.describe(0)));
        faults.list.push(if note.is_empty() { fault } else { fault.note(note) });
        Err(faults)
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there is none; there always is one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The seed of the scenario, where no axis varies it.
    #[must_use]
    pub fn seed(&self) -> u64 {
        u64::try_from(self.varied.seed()).unwrap_or(1)
    }

    /// How many values each axis has, by its columns.
    #[must_use]
    pub fn shape(&self) -> Vec<(String, usize)> {
        self.axes.iter().map(|axis| (axis.names.join(" + "), axis.rows.len())).collect()
    }

    /// The names of the columns.
    #[must_use]
    pub fn header(&self) -> Vec<String> {
        let axes = self.axes.iter().flat_map(|axis| axis.names.iter().cloned());
        let own = self.columns.iter().map(|column| column.name.clone());
        let fixed = |name: &str| core::iter::once(name.to_owned());
        fixed(POINT).chain(axes).chain(own).chain(fixed(ERROR)).chain(fixed(SWEEP_ID)).collect()
    }

    /// What the first cells of a point's row are: its number and its values.
    #[must_use]
    pub fn place(&self, point: usize) -> Vec<String> {
        let mut cells = vec![point.to_string()];
        for (axis, at) in self.axes.iter().zip(self.at(point)) {
            cells.extend(axis.cells[at].iter().cloned());
        }
        cells
    }

    /// The values of a point in words: `nodes = 2, fabric.spines = 4`.
    #[must_use]
    pub fn describe(&self, point: usize) -> String {
        let names = self.axes.iter().flat_map(|axis| &axis.names);
        let values = self.place(point);
        let pairs: Vec<String> = names.zip(&values[1..]).map(|(name, value)| format!("{name} = {value}")).collect();
        pairs.join(", ")
    }

    /// Loads the scenario of a point.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(&self, point: usize) -> Result<Loaded, Diagnostics> {
        let mut keys = Vec::new();
        for (axis, at) in self.axes.iter().zip(self.at(point)) {
            keys.extend(axis.keys.iter().zip(&axis.rows[at]));
        }
        self.varied.load(&keys)
    }

    /// Plays a point; `None` if it was interrupted.
    #[must_use]
    pub fn play(&self, point: usize, interrupt: &Arc<AtomicBool>) -> Option<Played> {
        let loaded = match self.load(point) {
            Ok(loaded) => loaded,
            Err(faults) => {
                let errors = || faults.list.iter().filter(|d| d.severity() == Severity::Error);
                let more = errors().count().saturating_sub(1);
                let first = errors().next().map_or_else(String::new, |d| short(&faults, d));
                let error = if more == 0 { first } else { format!("{first} (and {more} more)") };
                return Some(self.row(point, None, error, faults));
            }
        };
        let mut found = loaded.diagnostics.clone();
        // What jobs take alone is played only for columns that have it.
        let alone = self.columns.iter().any(|column| column.path().contains("alone"));
        let options = Options { interrupt: Some(Arc::clone(interrupt)), alone, ..Options::default() };
        let report = match loaded.run_with(&options) {
            Ok(report) => report,
            Err(error) => {
                let fault = error.diagnostic(&loaded.forced());
                let text = short(&found, &fault);
                found.push(fault);
                return Some(self.row(point, None, text, found));
            }
        };
        let error = match report.stopped {
            None => String::new(),
            Some(StopReason::Interrupted) => return None,
            Some(_) => format!("stopped: {}", report.stopped_at),
        };
        for finding in report.findings {
            found.push(finding);
        }
        let results = columns::needed(&self.columns, report.results);
        Some(self.row(point, Some(&results), error, found))
    }

    fn row(&self, point: usize, results: Option<&serde_json::Value>, error: String, found: Diagnostics) -> Played {
        let mut cells = self.place(point);
        let mut absent = Vec::new();
        for column in &self.columns {
            let value = results.map_or(Ok(None), |results| column.find(results)).unwrap_or_else(|why| {
                absent.push((column.path(), why));
                None
            });
            cells.push(value.map_or_else(String::new, cell::of_json));
        }
        let failed = !error.is_empty();
        cells.push(cell::one_line(&error));
        cells.push(self.id.clone());
        Played { cells, failed, found, absent }
    }

    /// The places of a point on the axes.
    fn at(&self, point: usize) -> Vec<usize> {
        places(&self.axes, self.points[point] as usize)
    }

    fn identity(&self, scenario: u64) -> String {
        let mut sum = mix(self.varied.hash() ^ mix(scenario));
        let mut add = |text: &str| {
            for byte in text.bytes().chain([0xff]) {
                sum = mix(sum ^ u64::from(byte));
            }
        };
        add(env!("CARGO_PKG_VERSION"));
        for axis in &self.axes {
            axis.keys.iter().for_each(|key| add(&key.text));
            axis.cells.iter().flatten().for_each(|cell| add(cell));
            add("");
            if axis.keys.iter().any(Key::may_name_files) {
                for row in &axis.rows {
                    let keys: Vec<_> = axis.keys.iter().zip(row).collect();
                    add(&self.varied.contents(&keys).to_string());
                }
            }
        }
        for column in &self.columns {
            add(&column.name);
            add(&column.path());
        }
        for point in &self.points {
            sum = mix(sum ^ u64::from(*point));
        }
        format!("{sum:016x}/{}", self.points.len())
    }
}

/// A finding in one line, without the name of its file: `E031 the fabric cannot be built: 9 uplinks of 8`.
fn short(all: &Diagnostics, finding: &Diagnostic) -> String {
    let line = all.line(&Diagnostic { place: None, ..finding.clone() });
    line.replacen(": ", " ", 1)
}

/// The places on the axes of a number of the whole grid.
fn places(axes: &[Axis], mut number: usize) -> Vec<usize> {
    let mut at = vec![0; axes.len()];
    for (place, axis) in at.iter_mut().zip(axes).rev() {
        *place = number % axis.rows.len();
        number /= axis.rows.len();
    }
    at
}

/// The numbers of the grid that no rule takes out.
fn points(axes: &[Axis], rules: &[Rule], all: usize, out: &mut Diagnostics) -> Vec<u32> {
    let mut used = vec![false; rules.len()];
    let mut left = Vec::with_capacity(all);
    for number in 0..all {
        let at = places(axes, number);
        let mut out = false;
        for (rule, used) in rules.iter().zip(&mut used) {
            if rule.takes_out(&at) {
                (out, *used) = (true, true);
            }
        }
        if !out {
            left.extend(u32::try_from(number));
        }
    }
    for (rule, _) in rules.iter().zip(used).filter(|(_, used)| !used) {
        let fault = Diagnostic::new(Code::NoEffect, "a `[[skip]]` without effect");
        out.push(fault.at(rule.place.clone(), "no point has all these values"));
    }
    left
}

/// Reads the sweep file's tree; for tests of parts.
#[cfg(test)]
fn parsed(text: &str) -> (crate::scenario::tree::Table, Diagnostics) {
    let mut out = Diagnostics::new();
    let source = out.sources.add("sweep.toml", text);
    let table = crate::scenario::tree::parse(source, text, &mut out);
    (table, out)
}
