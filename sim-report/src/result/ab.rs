//! Results of the α-β calculator.

use serde::{Deserialize, Serialize};

/// What `ab` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AbResults {
    /// One entry a link, in the order given.
    pub links: Vec<AbLink>,
    /// Answers to "at which size is this rate reached?", of the first link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<AbReach>,
    /// One message, and the all-reduce of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<AbMessage>,
}

/// A link's curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbLink {
    /// The name it was given.
    pub name: String,
    /// The size α·β at which half the rate is achieved.
    pub half_bandwidth_bytes: f64,
    /// One row a size.
    pub rows: Vec<AbRow>,
}

/// A size on a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbRow {
    /// Size of the message.
    pub bytes: u64,
    /// α + bytes / β.
    pub time_us: f64,
    /// bytes / time, one direction.
    #[serde(rename = "achieved_GBps")]
    pub achieved: f64,
}

/// The smallest size that achieves a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbReach {
    /// The rate asked for, GB/s in one direction.
    #[serde(rename = "target_GBps")]
    pub target: f64,
    /// The size; absent where the link never gets there.
    pub bytes: Option<f64>,
}

/// A message over one hop, and as an all-reduce by three algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbMessage {
    /// Size of the message.
    pub bytes: u64,
    /// Time over one hop.
    pub one_hop_us: f64,
    /// Share of that time which does not depend on the size, 0..1.
    pub fixed_share: f64,
    /// All-reduce by a ring; absent without a number of ranks, as are the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_us: Option<f64>,
    /// All-reduce where every rank sends everything to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_shot_us: Option<f64>,
    /// All-reduce by a direct reduce-scatter and all-gather.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_shot_us: Option<f64>,
    /// Below this size one-shot beats two-shot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_shot_two_shot_bytes: Option<f64>,
    /// Below this size one-shot beats the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_shot_ring_bytes: Option<f64>,
}
