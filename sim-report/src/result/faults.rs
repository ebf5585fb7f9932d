//! What is broken in the fabric that a result belongs to.

use serde::{Deserialize, Serialize};

/// One fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultResult {
    /// `degraded`, `dead`, `flapping`, `straggler`, ...
    pub kind: String,
    /// What it befell, as written.
    pub target: String,
    /// What it did, in a few words.
    pub what: String,
    /// Links that it changed, each direction counted.
    pub links: u64,
    /// Devices that it changed.
    pub devices: u64,
}

/// The same work on the fabric without its faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HealthyResult {
    /// Time of each collective, in the order of `collectives`.
    pub collectives_us: Vec<f64>,
    /// Time of the longest transfer; 0 without transfers.
    pub longest_transfer_us: f64,
    /// Time of each step, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps_us: Vec<f64>,
}
