//! Results of `place`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What `place` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaceResults {
    /// The model in words.
    pub model: String,
    /// Ranks.
    pub gpus: u64,
    /// Divisions that make up the ranks.
    pub looked_at: u64,
    /// Those of which a relation does not hold.
    pub impossible: u64,
    /// Those that do not fit into memory.
    pub too_large: u64,
    /// Divisions and orders of ranks that were estimated.
    pub estimated: u64,
    /// Those that were simulated.
    pub played: u64,
    /// Of those that were not simulated: those whose lower bound is above the best simulated time.
    pub ruled_out: u64,
    /// The best, those that were simulated first; up to 1,000.
    pub candidates: Vec<PlaceRow>,
    /// The best against the second: differences of parts of their times, the largest first.
    pub why: Vec<PlacePart>,
}

/// A division and an order of ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaceRow {
    /// Ranks of each kind of parallelism by their short names, with chunks (`vp`) and `micro_batch`.
    pub parallelism: BTreeMap<String, u64>,
    /// Keys beside these that differ from the scenario's, with their values: `recompute`, `zero`, `sequence_parallel`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<String, String>,
    /// The order of ranks.
    pub order: String,
    /// Memory of the fullest rank.
    pub memory_bytes: u64,
    /// What the step takes at least.
    pub bound_us: f64,
    /// From closed forms.
    pub estimate_us: f64,
    /// Simulated; absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// Tokens a second and GPU, of the simulated time, else of the estimate.
    pub tokens_per_s_per_gpu: f64,
    /// Where the time goes: of the simulation, else of the estimate.
    pub parts: Vec<PlacePart>,
}

/// A part of a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacePart {
    /// `compute`, `bubble`, `optimizer`, or a kind of group whose messages are exposed.
    pub name: String,
    /// Its time; of a difference negative where the best takes less.
    pub time_us: f64,
}
