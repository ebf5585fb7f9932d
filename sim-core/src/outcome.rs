//! What a run measured, and why it stopped.

use serde::{Deserialize, Serialize};

use crate::engine::EngineCounters;
use crate::net::NetOutcome;
use crate::recorder::{LinkCounters, WAIT_BUCKETS};
use crate::units::{Span, Time};

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Everything was done.
    Finished,
    /// Nothing was left to happen, but lanes still wait: a deadlock.
    Deadlock,
    /// The limit of events was met.
    EventLimit,
    /// The limit of simulated time was met.
    TimeLimit,
    /// It was told to stop.
    Interrupted,
    /// A queue pair gave up after as many timeouts as it may have; which, says [`NetOutcome::flows`].
    GaveUp,
    /// Packets were to be sent, and none arrives any more, or none has for as long as the network of packets allows.
    NoProgress,
}

/// An invariant that did not hold: a fault of the engine or of a program it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvariantError {
    /// Bytes were lost or made.
    #[error("{sent} bytes were sent, but {delivered} were delivered and {in_flight} are in flight")]
    Conservation {
        /// Bytes sent, copies at junctions included.
        sent: u64,
        /// Bytes that reached a sink or a junction.
        delivered: u64,
        /// Bytes in flight.
        in_flight: u64,
    },
    /// A link was busy for longer than the run.
    #[error("link {link} was busy for {busy}, longer than the run")]
    OverCapacity {
        /// The link.
        link: u32,
        /// Its busy time.
        busy: Span,
    },
    /// Messages arrived that nobody took.
    #[error("{receivers} receive ends hold messages that no operation took")]
    Unmatched {
        /// How many ends.
        receivers: u32,
    },
}

/// A lane that waits in a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedLane {
    /// The lane.
    pub lane: u32,
    /// The receive end where it waits for a message.
    pub receiver: Option<u32>,
    /// The send end where it waits for a slot.
    pub sender: Option<u32>,
}

/// What came again exactly and was counted without being played; it is in all other counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// How often the run went on behind a number of periods.
    pub leaps: u64,
    /// Periods that were not played.
    pub periods: u64,
    /// Events in them.
    pub events: u64,
    /// Segment-hops in them.
    pub segment_hops: u64,
}

/// The result of a run, bounded in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it stopped.
    pub reason: StopReason,
    /// The instant of the last thing that happened.
    pub ended: Time,
    /// Counters per link, in order of number.
    pub links: Vec<LinkCounters>,
    /// Histogram of waiting times per link; see [`WAIT_BUCKETS`].
    pub waits: Vec<[u64; WAIT_BUCKETS]>,
    /// Counters of the engine.
    pub engine: EngineCounters,
    /// What of that was not played, because it came again exactly.
    pub repeated: Repeated,
    /// The most events that were pending at once.
    pub peak_pending: u64,
    /// A hash of the trajectory.
    pub fingerprint: u64,
    /// Invariants that did not hold; empty in a sound run.
    pub faults: Vec<InvariantError>,
    /// Lanes that wait, where the run ended in a deadlock (at most 16).
    pub blocked: Vec<BlockedLane>,
    /// What the network of packets measured, where there is one.
    pub net: Option<Box<NetOutcome>>,
}
