//! Predicted beside measured: errors per row, their figures, and their pattern in words.
//!
//! ```
//! # use sim_report::compare::{LogComparison, Prediction};
//! # let text = b"1073741824 268435456 float sum -1 7163.5 149.89 224.84 0 7161.8 149.93 224.89 0\n";
//! let log = sim_report::nccl_log::read(text).unwrap();
//! let compared = LogComparison::new("night.txt", &log.tables[0], |row, _placement| {
//!     Some(Prediction::exactly(row.bytes.get() as f64 / 150e3))
//! });
//! assert!(compared.rows.iter().all(|row| row.error().abs() < 0.01));
//! ```

mod baseline;
mod checks;
mod clues;
mod pattern;
mod shape;
mod stats;

use serde::{Deserialize, Serialize};
use sim_core::units::Bytes;

use crate::metrics::Operation;
use crate::nccl_log::{self, Table};
use crate::result::ParameterResult;

pub use baseline::{Baseline, BaselineBand, Change, key};
pub use checks::{Check, Failed, Gates, checks};
pub use clues::{Clues, WhatIf};
pub use stats::{Band, BandName, Missed, Summary, Thresholds};

/// A row that takes more than this many times its twin of the other placement is an outlier.
pub const OUTLIER_RATIO: f64 = 1.5;

/// Where the result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Placement {
    /// Separate send and receive buffers.
    #[serde(rename = "out")]
    OutOfPlace,
    /// One buffer.
    #[serde(rename = "in")]
    InPlace,
}

impl Placement {
    /// `out` or `in`, as in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfPlace => "out",
            Self::InPlace => "in",
        }
    }
}

/// A predicted time and its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The model's time.
    pub time_us: f64,
    /// Lower end of its range.
    pub low_us: f64,
    /// Upper end of its range.
    pub high_us: f64,
}

impl Prediction {
    /// A prediction without a range.
    #[must_use]
    pub const fn exactly(time_us: f64) -> Self {
        Self { time_us, low_us: time_us, high_us: time_us }
    }
}

/// A measured row beside its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Size as printed.
    pub bytes: Bytes,
    /// Out of place or in place.
    pub placement: Placement,
    /// The log's time.
    pub measured_us: f64,
    /// The model's time.
    pub predicted_us: f64,
    /// Lower end of the model's range.
    pub low_us: f64,
    /// Upper end of the model's range.
    pub high_us: f64,
    /// It took more than [`OUTLIER_RATIO`] times its twin. It counts in all figures all the same.
    pub outlier: bool,
    /// Line of the log, from 1.
    pub line: usize,
    /// Type and operator of its elements, where the table has several: `float sum`.
    pub kind: Option<String>,
}

impl Row {
    /// predicted / measured − 1: above zero where the model is too slow.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }

    /// True if the measured time lies in the model's range.
    #[must_use]
    pub fn in_range(&self) -> bool {
        (self.low_us..=self.high_us).contains(&self.measured_us)
    }
}

/// Whether a table has elements of several types, or several operators: a sweep with `-d all` or `-o all`.
fn several_types(table: &Table) -> bool {
    table.rows.windows(2).any(|pair| pair[0].dtype != pair[1].dtype || pair[0].redop != pair[1].redop)
}

/// Type and operator of a row, as a log has them.
fn kind(row: &nccl_log::Row) -> String {
    match &row.redop {
        Some(redop) => format!("{} {redop}", row.dtype.name()),
        None => row.dtype.name().to_owned(),
    }
}

/// The share of rows whose measured time lies in the model's range; `None` without a row.
pub fn in_range<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Option<f64> {
    let (mut all, mut inside) = (0_u32, 0_u32);
    for row in rows {
        all += 1;
        inside += u32::from(row.in_range());
    }
    (all > 0).then(|| f64::from(inside) / f64::from(all))
}

/// How it is known for which version of NCCL a prediction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibrarySource {
    /// The log tells it.
    Log,
    /// A flag or the scenario says so.
    Given,
    /// Nothing tells it: the newest was taken.
    Assumed,
}

/// A version of NCCL, as `2.21`, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// The version.
    pub version: String,
    /// How it is known.
    pub source: LibrarySource,
}

impl core::fmt::Display for Library {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let how = match self.source {
            LibrarySource::Log => "",
            LibrarySource::Given => " (given)",
            LibrarySource::Assumed => " (assumed: the log does not tell it)",
        };
        write!(f, "NCCL {}{how}", self.version)
    }
}

/// One table of a log beside its prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogComparison {
    /// The log's name.
    pub log: String,
    /// The operation, where known.
    pub operation: Option<Operation>,
    /// The number of ranks, where known.
    pub ranks: Option<u32>,
    /// One row a size and placement, in the log's order.
    pub rows: Vec<Row>,
    /// Measurements that are left out: of size or time zero, wrong, damaged, or without a prediction.
    pub skipped: usize,
    /// The version of NCCL that was simulated.
    pub library: Option<Library>,
    /// The timing parameters that the predictions rest on.
    pub parameters: Vec<ParameterResult>,
    /// Remarks on the log.
    pub warnings: Vec<String>,
    /// What is known of the cluster, for the pattern in words.
    pub clues: Option<Clues>,
}

impl LogComparison {
    /// Compares a table with a model. Measurements that don't count ([`nccl_log::Row::halves`]), and those for which `predict`
    /// has no (finite, positive) answer, are left out and counted in [`skipped`](Self::skipped).
    pub fn new(
        log: impl Into<String>,
        table: &Table,
        mut predict: impl FnMut(&nccl_log::Row, Placement) -> Option<Prediction>,
    ) -> Self {
        let mut rows = Vec::new();
        let mut skipped = 0;
        let several = several_types(table);
        for row in &table.rows {
            let [out, inside] = row.halves();
            let kind = several.then(|| kind(row));
            for (placement, own, twin) in [(Placement::OutOfPlace, out, inside), (Placement::InPlace, inside, out)] {
                let Some(own) = own else { continue };
                let prediction = own.ok().and_then(|measured_us| Some((measured_us, predict(row, placement)?)));
                let Some((measured_us, p)) = prediction.filter(|(_, p)| p.time_us.is_finite() && p.time_us > 0.0)
                else {
                    skipped += 1;
                    continue;
                };
                rows.push(Row {
                    bytes: row.bytes,
                    placement,
                    measured_us,
                    predicted_us: p.time_us,
                    low_us: p.low_us,
                    high_us: p.high_us,
                    outlier: twin.and_then(Result::ok).is_some_and(|twin| measured_us > OUTLIER_RATIO * twin),
                    line: row.line,
                    kind: kind.clone(),
                });
            }
        }
        let (operation, ranks) = (table.operation, table.ranks);
        Self {
            log: log.into(),
            operation,
            ranks,
            rows,
            skipped,
            library: None,
            parameters: Vec::new(),
            warnings: Vec::new(),
            clues: None,
        }
    }

    /// The same with these remarks on the log.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The same with what is known of the cluster.
    #[must_use]
    pub fn with_clues(mut self, clues: Clues) -> Self {
        self.clues = Some(clues);
        self
    }

    /// The same, predicted for this version of NCCL.
    #[must_use]
    pub fn with_library(mut self, library: Library) -> Self {
        self.library = Some(library);
        self
    }

    /// The same, resting on these timing parameters.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Vec<ParameterResult>) -> Self {
        self.parameters = parameters;
        self
    }

    /// The figures over all rows; `None` without a row.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.rows)
    }

    /// The figures of small, mid and large messages, of those that there are.
    #[must_use]
    pub fn bands(&self) -> Vec<Band> {
        stats::bands(&self.rows)
    }

    /// What the residuals look like, in words; at least one sentence if there is a row. With [`clues`](Self::clues) also what
    /// a low rate says in the light of the cluster.
    #[must_use]
    pub fn pattern(&self) -> Vec<String> {
        pattern::describe(self)
    }
}

#[cfg(test)]
mod tests;
