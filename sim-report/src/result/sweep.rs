//! Results of `sweep`.

use serde::{Deserialize, Serialize};

/// What `sweep` answers; the rows themselves are in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepResults {
    /// Which sweep it is: a hash of grid, columns, scenario and version, and the number of points.
    pub sweep: String,
    /// The file of rows; absent where none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// `i/n`, where this is a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Points of the sweep, or of the shard.
    pub points: u64,
    /// Rows in the file.
    pub rows: u64,
    /// Rows that say why a point could not be played to its end.
    pub failed: u64,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The axes, the first slowest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<SweepAxis>,
}

/// An axis of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepAxis {
    /// Its columns, joined by ` + `.
    pub name: String,
    /// How many values it has.
    pub values: u64,
}
