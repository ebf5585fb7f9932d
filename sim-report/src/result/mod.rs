//! The serialisable results: one envelope around what a verb found, with a unit in every field name.
//!
//! Field names are a contract with scripts. Numbers are numbers; what is absent is left out, and minor versions of
//! the schema only add fields.

mod ab;
mod compare;
mod path;
mod run;
mod topo;

use serde::{Deserialize, Serialize};

pub use ab::{AbLink, AbMessage, AbReach, AbResults, AbRow};
pub use compare::{CompareLog, CompareResults, CompareRow};
pub use path::{PathHop, PathResults};
pub use run::{
    CandidateResult, CollectiveResult, EngineResult, ExplainResult, LinkResult, LinkTotals, MAX_LINKS, MAX_TRANSFERS,
    RunResults, StepResult, TransferResult, TransferTotals,
};
pub use topo::{BillItem, PairCounts, TopoResults};

/// The version of the JSON schema, counted up when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// What every JSON answer looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope<R> {
    /// Version of this schema.
    pub schema_version: u32,
    /// Version of the program.
    pub tool_version: String,
    /// The scenario's file name, or what stood in for one.
    pub scenario: String,
    /// The seed of all random streams.
    pub seed: u64,
    /// What the reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
    /// The answer.
    pub results: R,
}

impl<R: Serialize> Envelope<R> {
    /// An envelope of this version without warnings.
    pub fn new(scenario: impl Into<String>, seed: u64, results: R) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.into(),
            seed,
            warnings: Vec::new(),
            results,
        }
    }

    /// The same with these warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<Warning>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Indented JSON with a final newline. Keys stand in the order of the fields, so equal results give equal text.
    ///
    /// # Errors
    /// If a value in `results` cannot be written as JSON (a map with keys that are no strings).
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

/// A warning with an id that `explain` knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// `W` and three digits.
    pub code: String,
    /// What was seen and what it means.
    pub message: String,
    /// What to do, where that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[cfg(test)]
mod tests;
