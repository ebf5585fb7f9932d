//! From lines to tables.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::Limits;
use super::error::{LogError, LogErrorKind, shorten};
use super::evidence::{Evidence, foreign};
use super::header::{self, Fact};
use super::infer::{self, Said};
use super::lines::Line;
use super::row::{self, Expected, Parsed};
use super::types::{
    Convention, Device, Layout, LogWarning, NcclLog, OperationSource, Parameters, RanksSource, Row, Table,
};
use crate::metrics::Operation;

/// What was said about the run whose rows come next.
#[derive(Clone, Debug, Default)]
struct Run {
    said: Said,
    parameters: Option<Parameters>,
    nccl_version: Option<String>,
    tests_version: Option<String>,
    devices: BTreeMap<u32, Device>,
    columns: Option<Layout>,
}

/// A table that can still grow. Its run is shared until it closes: facts also come between the rows.
#[derive(Debug, Default)]
struct Open {
    rows: Vec<Row>,
    layout: Option<Layout>,
    /// Two rows, or a row and a header, agree on the layout.
    sure: bool,
    columns: Option<Layout>,
    out_of_bounds: Option<super::types::OutOfBounds>,
    average: Option<f64>,
}

/// A row that was cut, kept in case the next line continues it.
#[derive(Debug)]
struct Cut {
    line: usize,
    text: String,
    label: Option<String>,
}

/// The state of reading.
#[derive(Debug)]
pub(super) struct Scan<'l> {
    limits: &'l Limits,
    run: Run,
    /// By the label before the lines, so that processes that each print a table are kept apart.
    open: BTreeMap<Option<String>, Open>,
    tables: Vec<Table>,
    env: IndexMap<String, String>,
    network: Option<String>,
    warnings: Vec<LogWarning>,
    more_warnings: usize,
    rows: usize,
    /// Where the last line ends, if it looks like the beginning of a row.
    stump: Option<(usize, usize)>,
    cut: Option<Cut>,
    evidence: Evidence,
    file_name: Option<Operation>,
}

impl<'l> Scan<'l> {
    pub(super) fn new(name: Option<&str>, limits: &'l Limits) -> Self {
        Self {
            limits,
            run: Run::default(),
            open: BTreeMap::new(),
            tables: Vec::new(),
            env: IndexMap::new(),
            network: None,
            warnings: Vec::new(),
            more_warnings: 0,
            rows: 0,
            stump: None,
            cut: None,
            evidence: Evidence::default(),
            file_name: name.and_then(infer::operation_of_name),
        }
    }

    pub(super) fn warn(&mut self, line: usize, column: usize, message: impl Into<String>) {
        if self.warnings.len() < self.limits.warnings {
            self.warnings.push(LogWarning { line, column, message: message.into() });
        } else {
            self.more_warnings += 1;
        }
    }

    /// Takes a line in. Carriage returns inside separate what a terminal would have overwritten.
    pub(super) fn line(&mut self, line: &Line) -> Result<(), LogError> {
        if line.cut {
            self.warn(line.number, self.limits.line_bytes, "the line is too long; its rest was skipped");
        }
        let e = &mut self.evidence;
        e.lines = line.number;
        e.binary |= line.binary;
        if !line.text.trim().is_empty() {
            e.last = (line.number, shorten(&line.text, 120));
            if !e.ink {
                e.first = e.last.clone();
            }
            e.ink = true;
        }
        if !line.text.trim().is_empty() {
            self.stump = None;
        }
        line.text.split('\r').try_for_each(|part| self.part(part, line.number))
    }

    /// Takes a line in. Where line ends were lost, it may hold several rows and what belongs around them.
    fn part(&mut self, text: &str, number: usize) -> Result<(), LogError> {
        let starts = row::starts(text);
        let Some(first) = starts.first() else {
            if let Some((at, message)) = row::stranger(text) {
                self.damaged(text, number, text[..at].chars().count() + 1, &message);
                return Ok(());
            }
            return self.no_row(text, number);
        };
        let label = header::label(text);
        if text[..*first].contains("# ") {
            self.pieces(&text[..*first], number, label);
        }
        for (i, start) in starts.iter().enumerate() {
            let start = if i == 0 { 0 } else { *start };
            let next = starts.get(i + 1).copied().unwrap_or(text.len());
            let row = &text[start..next];
            let from = if i == 0 { *first } else { 0 };
            let end = row[from..].find(" #").map_or(row.len(), |at| from + at);
            self.row((&row[..end], start, text), number, label)?;
            self.pieces(&row[end..], number, label);
        }
        Ok(())
    }

    /// The facts of a text that may have lost its line ends: every `#` begins a line.
    fn pieces(&mut self, text: &str, number: usize, label: Option<&str>) {
        for piece in text.split("# ").filter(|piece| !piece.trim().is_empty()) {
            self.facts(piece, number, label);
        }
    }

    /// Takes a row in; it begins at `start` of `line`.
    fn row(
        &mut self,
        (text, start, line): (&str, usize, &str),
        number: usize,
        label: Option<&str>,
    ) -> Result<(), LogError> {
        self.cut = None;
        match row::parse(text, number, self.expected(label)) {
            Parsed::Complete(row, layout) => self.take_row(label, *row, layout),
            Parsed::Damaged { at, message } => {
                let column = line[..start + at].chars().count() + 1;
                self.damaged(line, number, column, &message);
                self.cut = Some(Cut { line: number, text: text.to_owned(), label: label.map(str::to_owned) });
                Ok(())
            }
            Parsed::NotARow => Ok(()),
        }
    }

    /// Remarks on a damaged row; the first is the error if there is no other row.
    fn damaged(&mut self, line: &str, number: usize, column: usize, message: &str) {
        if self.evidence.damaged.is_none() {
            let hint = "the row is cut or garbled: take the log from the file that the run wrote, not from a terminal";
            let error = LogError::new(LogErrorKind::Damaged, number, column, message);
            self.evidence.damaged = Some(error.text(line).hint(hint));
        }
        self.warn(number, column, format!("a damaged row ({message}); it is left out"));
    }

    fn no_row(&mut self, text: &str, number: usize) -> Result<(), LogError> {
        if let Some(cut) = self.cut.take()
            && self.continues(&cut, text, number)?
        {
            return Ok(());
        }
        self.facts(text, number, header::label(text));
        if row::is_stump(text) {
            self.stump = Some((number, text.trim_end().chars().count() + 1));
        }
        Ok(())
    }

    /// Tries to read a wrapped line together with the cut row before it.
    fn continues(&mut self, cut: &Cut, text: &str, number: usize) -> Result<bool, LogError> {
        let words = row::words(text);
        let numeric = |w: &row::Word<'_>| w.text == "N/A" || w.text.parse::<f64>().is_ok();
        if cut.line + 1 != number || words.is_empty() || !words.iter().all(numeric) {
            return Ok(false);
        }
        let joined = format!("{} {}", cut.text.trim_end(), text.trim_start());
        let expected = self.expected(cut.label.as_deref());
        let Parsed::Complete(row, layout) = row::parse(&joined, cut.line, expected) else {
            return Ok(false);
        };
        if self.warnings.last().is_some_and(|w| w.line == cut.line) {
            self.warnings.pop();
        }
        self.warn(cut.line, 1, "the row was wrapped; it was joined with the next line");
        self.take_row(cut.label.as_deref(), *row, layout)?;
        Ok(true)
    }

    fn expected(&self, label: Option<&str>) -> Option<Expected> {
        let open = self.open.get(&label.map(str::to_owned));
        if let Some(layout) = open.and_then(|open| open.layout) {
            let sure = open.is_some_and(|open| open.sure);
            return Some(Expected { layout, sure });
        }
        let header = open.and_then(|open| open.columns).or(self.run.columns)?;
        Some(Expected { layout: header, sure: false })
    }

    pub(super) fn take_row(&mut self, label: Option<&str>, row: Row, layout: Layout) -> Result<(), LogError> {
        if self.rows >= self.limits.rows {
            return Err(LogError::limit(row.line, &format!("{} rows", self.limits.rows)));
        }
        self.rows += 1;
        let columns = self.run.columns;
        let line = row.line;
        let open = self.open.entry(label.map(str::to_owned)).or_default();
        if open.columns.is_none() {
            open.columns = columns;
        }
        let max_error = layout.max_error || open.layout.is_some_and(|l| l.max_error);
        let layout =
            Layout { cpu_time: open.columns.is_some_and(|c| c.cpu_time) || layout.cpu_time, max_error, ..layout };
        let whole = row.out_of_place.is_some() && row.in_place.is_some();
        // Layouts are the same if their columns are: an error can look like a count in single rows.
        let same = |other: Layout| {
            let columns = |l: Layout| (l.redop, l.root, l.copybw, l.spread);
            columns(other) == columns(layout)
        };
        let changed = open.layout.is_some_and(|seen| !same(seen));
        if !changed && whole {
            open.sure |= open.layout.is_some() || open.columns.is_some_and(same);
        }
        open.layout = Some(layout);
        open.rows.push(row);
        if changed {
            self.warn(line, 1, "the columns differ from those of the rows before");
        }
        Ok(())
    }

    fn facts(&mut self, text: &str, number: usize, label: Option<&str>) {
        if self.evidence.nccl_info.is_none() && text.contains("NCCL INFO") {
            self.evidence.nccl_info = Some(number);
        }
        if self.evidence.foreign.is_none() {
            self.evidence.foreign = foreign(text).map(|what| (number, what));
        }
        for fact in header::facts(text) {
            self.fact(fact, text, number, label);
        }
    }

    pub(super) fn fact(&mut self, fact: Fact, text: &str, number: usize, label: Option<&str>) {
        let key = label.map(str::to_owned);
        let has_rows = self.open.get(&key).is_some_and(|open| !open.rows.is_empty());
        match fact {
            Fact::Banner(parameters) => {
                self.evidence.nccl_tests = true;
                // The version, the program's name and a command come just before; a banner alone begins a run, too.
                if has_rows {
                    self.next_run();
                }
                self.run.parameters = Some(parameters);
            }
            Fact::TestsVersion(version, library) => {
                self.evidence.nccl_tests = true;
                if has_rows {
                    self.next_run();
                }
                self.run.tests_version = Some(version);
                if self.run.nccl_version.is_none() {
                    self.run.nccl_version = library;
                }
            }
            Fact::Starting(op) => {
                self.evidence.nccl_tests = true;
                if has_rows {
                    self.next_run();
                }
                self.run.said.banner = Some(op);
            }
            Fact::Concluded(op) => {
                self.run.said.banner.get_or_insert(op);
            }
            Fact::Command(op, parameters) => {
                if has_rows {
                    self.next_run();
                }
                self.run.said.command = Some(op);
                self.run.parameters.get_or_insert(parameters);
            }
            Fact::UsingDevices => {
                self.evidence.nccl_tests = true;
                if has_rows {
                    self.next_run();
                }
                self.run.devices.clear();
            }
            Fact::Device(device) => {
                self.evidence.nccl_tests = true;
                if self.run.devices.len() < self.limits.devices {
                    self.run.devices.insert(device.rank, device);
                }
            }
            Fact::NcclVersion(version) => self.run.nccl_version = Some(version),
            Fact::Ranks(n) => {
                // The largest communicator is the one that is timed.
                let nranks = self.run.said.nranks.map_or(n, |seen| seen.max(n));
                self.run.said.nranks = Some(nranks);
            }
            Fact::Env(name, value) => {
                if self.env.len() < 1000 {
                    self.env.insert(name, shorten(&value, 200));
                }
            }
            Fact::Network(network) => self.network = Some(network),
            Fact::Columns(layout) => {
                self.evidence.nccl_tests = true;
                if has_rows {
                    self.close(&key);
                }
                self.run.columns = layout;
            }
            Fact::OutOfBounds(footer) => {
                if let Some(open) = self.open.get_mut(&key) {
                    open.out_of_bounds = Some(footer);
                }
                if !footer.ok {
                    self.warn(number, 1, format!("the run reports {} wrong values", footer.count));
                }
            }
            Fact::Average(average) => {
                if let Some(open) = self.open.get_mut(&key) {
                    open.average = Some(average);
                }
            }
            Fact::Failure => {
                if self.evidence.failure.is_none() {
                    self.evidence.failure = Some((number, shorten(text.trim(), 120)));
                    self.warn(number, 1, format!("the run complains: {}", shorten(text.trim(), 120)));
                }
            }
        }
    }

    fn next_run(&mut self) {
        self.close_all();
        self.run = Run::default();
    }

    fn close_all(&mut self) {
        let keys: Vec<_> = self.open.keys().cloned().collect();
        for key in keys {
            self.close(&key);
        }
    }

    fn close(&mut self, key: &Option<String>) {
        let Some(open) = self.open.remove(key) else { return };
        let (Some(first), Some(layout)) = (open.rows.first(), open.layout) else { return };
        let run = self.run.clone();
        let mut table = Table {
            operation: None,
            operation_source: OperationSource::Unknown,
            ranks: None,
            ranks_source: RanksSource::Unknown,
            ranks_range: None,
            devices: run.devices.into_values().collect(),
            parameters: run.parameters.unwrap_or_default(),
            nccl_version: run.nccl_version,
            tests_version: run.tests_version,
            layout,
            convention: Convention::Size,
            line: first.line,
            rows: open.rows,
            out_of_bounds: open.out_of_bounds,
            average_busbw: open.average,
        };
        let said = Said { file_name: self.file_name, ..run.said };
        for (line, message) in infer::complete(&mut table, &said) {
            self.warn(line, 1, message);
        }
        self.tables.push(table);
    }

    /// The log, or why there is none.
    pub(super) fn finish(mut self) -> Result<NcclLog, LogError> {
        self.close_all();
        if self.tables.is_empty() {
            return Err(self.evidence.explain());
        }
        if let Some((line, column)) = self.stump {
            self.warn(line, column, "the last line is cut before its figures; it is left out");
        }
        self.tables.sort_by_key(|table| table.line);
        self.warnings.sort_by_key(|w| (w.line, w.column));
        Ok(NcclLog {
            nccl_version: self.tables.iter().find_map(|t| t.nccl_version.clone()),
            tests_version: self.tables.iter().find_map(|t| t.tests_version.clone()),
            tables: self.tables,
            env: self.env,
            network: self.network,
            warnings: self.warnings,
            more_warnings: self.more_warnings,
        })
    }
}
