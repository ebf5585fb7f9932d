//! Results of a path query.

use serde::{Deserialize, Serialize};

/// What `path` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResults {
    /// The links in order.
    pub hops: Vec<PathHop>,
    /// Sum of the hops' latencies.
    pub latency_ns: f64,
    /// Rate of the slowest hop, one direction.
    #[serde(rename = "bandwidth_GBps")]
    pub bandwidth: f64,
}

/// One link of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathHop {
    /// Device at the near end.
    pub from: String,
    /// Device at the far end.
    pub to: String,
    /// Class of the link (`nvlink`, `pcie`, `network` …).
    pub class: String,
    /// Latency α.
    pub latency_ns: f64,
    /// Rate β, one direction.
    #[serde(rename = "bandwidth_GBps")]
    pub bandwidth: f64,
}
