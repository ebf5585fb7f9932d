//! The serialisable results: one envelope around what a verb found, with a unit in every field name.
//!
//! Field names are a contract with scripts. Numbers are numbers; what is absent is left out, and minor versions of
//! the schema only add fields.

mod ab;
mod best;
mod compare;
mod exposed;
mod faults;
mod fit;
mod inference;
mod observed;
mod path;
mod place;
mod run;
mod seeds;
mod step;
mod sweep;
mod topo;
mod transport;

use serde::{Deserialize, Serialize};

pub use ab::{AbLink, AbMessage, AbReach, AbResults, AbRow};
pub use best::{BestResult, TriedResult};
pub use compare::{CompareLog, CompareResults, CompareRow};
pub use exposed::Exposed;
pub use faults::{FaultResult, HealthyResult};
pub use fit::{FitCorrelation, FitHeldOut, FitLeftOut, FitLog, FitParameter, FitResults, ParameterResult};
pub use inference::{
    CallOutline, GoodputResult, GpuPriceResult, InferenceCall, InferenceOutline, InferencePool, InferencePoolOutline,
    InferenceResult, InferenceStep, KernelsOfStep, LongRunResult, Quantiles, ServedResult,
};
pub use observed::{FlowRow, FlowSeries, LinkSeries, PortRow, SeriesResult};
pub use path::{PathHop, PathResults};
pub use place::{PlacePart, PlaceResults, PlaceRow};
pub use run::{
    CandidateResult, CollectiveResult, EngineResult, ExplainResult, FastForwarded, LinkClassResult, LinkResult,
    LinkTotals, MAX_LINKS, MAX_TRANSFERS, RunResults, TransferResult, TransferTotals,
};
pub use seeds::{DesignResult, DiffResults, SeedsResult, Spread};
pub use step::{
    BesideStep, MAX_PATH, StepAlone, StepExchange, StepExperts, StepLate, StepMemory, StepMemoryPart, StepMessages,
    StepOutline, StepParts, StepPath, StepRank, StepResult, StepReuse, StepSlow, StepStage,
};
pub use sweep::{SweepAxis, SweepResults};
pub use topo::{BillItem, PairCounts, TopoResults};
pub use transport::{ClassResult, GrainResult, TransportParameter, TransportResult, TransportTotals, VictimResult};

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
    /// The catalogue rows of the user's own that the answer rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogue_overrides: Vec<CatalogueOverride>,
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
            catalogue_overrides: Vec::new(),
            results,
        }
    }

    /// The same with these warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<Warning>) -> Self {
        self.warnings = warnings;
        self
    }

    /// The same with these catalogue rows.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Vec<CatalogueOverride>) -> Self {
        self.catalogue_overrides = overrides;
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

/// A catalogue row that is not built in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueOverride {
    /// The kind of row: `gpu`, `switch`, ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is new, rather than a built-in row that was changed.
    pub added: bool,
    /// The row that gave what it does not state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The figures that it states.
    pub figures: Vec<OverriddenFigure>,
}

/// A figure of a row that is not built in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverriddenFigure {
    /// The figure's name without its unit.
    pub name: String,
    /// Its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The value before, as text; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value now, as text.
    pub to: String,
}

#[cfg(test)]
mod tests;
