//! What a network of packets under an engine is told: the network, which of the engine's links it takes over, and what
//! queue pairs over them do.

use super::spec::{FlowSpec, NetSpec};
use crate::ids::LinkId;
use crate::rate_control::RateSpec;
use crate::units::Bytes;

/// A network of packets and its place in a larger one.
#[derive(Clone, Debug)]
pub struct NetPlan {
    /// The network; its ports are numbered from 0 in ascending order of the engine's links.
    pub spec: NetSpec,
    /// The engine's link of each port, ascending. All other links of the engine stay virtual.
    pub links: Vec<LinkId>,
    /// How queue pairs send and recover.
    pub flow: FlowSpec,
    /// The controller of a queue pair, made for the line rate of its first port.
    pub rate: RateSpec,
    /// What flows ask for that are carried otherwise, by [`Flow::way`](crate::program::Flow::way) from 1 on.
    pub others: Vec<(FlowSpec, RateSpec)>,
    /// What an endpoint may have read of a queue pair's messages and not sent; never less than two segments.
    pub fetch: Bytes,
    /// When an endpoint that can't pass on what it receives holds the port that feeds it; `None`: it never does.
    pub drain: Option<Drain>,
}

impl NetPlan {
    /// What an endpoint reads ahead (assumed).
    pub const FETCH: Bytes = Bytes::kib(256);
}

/// Room of an endpoint for what it has received and not passed on, in payload bytes before the link behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// From so many bytes on the port is held.
    pub xoff: Bytes,
    /// It goes on when no more than so many are left.
    pub xon: Bytes,
}
