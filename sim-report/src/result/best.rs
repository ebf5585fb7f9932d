//! The best of all ways to run a call, beside what is chosen.

use serde::{Deserialize, Serialize};

/// The best of all that were tried at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestResult {
    /// The operation as nccl-tests spells it.
    pub op: String,
    /// Size as nccl-tests prints it.
    pub bytes: u64,
    /// What NCCL would run.
    pub nccl: TriedResult,
    /// The fastest; NCCL's where nothing is faster by more than half a percent.
    pub best: TriedResult,
    /// The share of NCCL's time that the best saves, 0 to 1.
    pub saved: f64,
    /// All that ended within NCCL's time and some, the fastest first.
    pub tried: Vec<TriedResult>,
    /// How many were given up, as they take longer than that.
    pub slower: u32,
}

/// One way to run a call, and the time it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedResult {
    /// Algorithm.
    pub algorithm: String,
    /// Protocol.
    pub protocol: String,
    /// Channels that carry data.
    pub channels: u32,
    /// The most channels that it was told to take; absent where NCCL's own number was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_channels: Option<u32>,
    /// Simulated time.
    pub time_us: f64,
    /// Bus bandwidth, GB/s.
    #[serde(rename = "busbw_GBps")]
    pub busbw: f64,
}
