//! What the ranks of each stage do: operations in streams.

use core::ops::Range;

use sim_core::units::{Bytes, Span};

use super::exchange::Exchange;
use crate::messages::{Operation, Phase};
use crate::parallel::Group;

/// What runs in order on a rank, beside its other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Kernels.
    Compute,
    /// Calls of a kind of group; a group may have several streams.
    Messages(Group, u8),
    /// Messages to another stage, by their channel.
    Send(u32),
    /// Messages from another stage, by their channel.
    Receive(u32),
}

/// A call that members of a group make together, or a message from one stage to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// What it is.
    pub name: &'static str,
    /// What ranks do.
    pub operation: Operation,
    /// Its size, as [`messages`](crate::messages) counts it.
    pub bytes: Bytes,
    /// Between whom.
    pub group: Group,
    /// How it takes tokens to experts, if that is not an even all-to-all: an index in [`Plan::exchanges`].
    pub exchange: Option<u32>,
}

impl Call {
    /// A call that is what its operation says.
    #[must_use]
    pub const fn new(name: &'static str, operation: Operation, bytes: Bytes, group: Group) -> Self {
        Self { name, operation, bytes, group, exchange: None }
    }
}

/// From one stage to another, first in first out; each rank sends to the rank of the other stage that is in its pipeline group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The stage that sends.
    pub from: u32,
    /// The stage that receives.
    pub to: u32,
    /// The message, an index in [`Plan::calls`].
    pub call: u32,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Computes for so long, if nothing slows it down.
    Compute(Span),
    /// Computes for as long as the rank's place in its group of experts says: an index in [`Plan::uneven`].
    Uneven(u32),
    /// Takes part in a call (index in [`Plan::calls`]) of its group; the n-th of a rank in a stream of a group meets the n-th of each
    /// other member.
    Call(u32),
    /// Sends on a channel (index in [`Plan::channels`]).
    Send(u32),
    /// Has received the next message of a channel.
    Receive(u32),
}

impl Work {
    /// Whether it is kernels.
    #[must_use]
    pub const fn is_kernel(&self) -> bool {
        matches!(self, Self::Compute(_) | Self::Uneven(_))
    }
}

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// In words.
    pub what: &'static str,
    /// When in the step.
    pub phase: Phase,
    /// The micro batch, if it is of one.
    pub micro: Option<u32>,
    /// The layer (counted from the first of the model), if it is of one.
    pub layer: Option<u32>,
}

/// An operation of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its stream, an index in [`Stage::streams`].
    pub stream: u16,
    /// What it does.
    pub work: Work,
    /// What it waits for beside the one before it in its stream: a range of [`Stage::after`].
    pub after: Range<u32>,
    /// What it is for.
    pub label: Label,
}

/// What each rank of a stage does.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Its operations; each stands after all that it waits for.
    pub ops: Vec<Op>,
    /// Operations (indices in [`ops`](Self::ops)) that others wait for.
    pub after: Vec<u32>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// The operations of each stream, in order.
    pub order: Vec<Vec<u32>>,
}

/// What all ranks do.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One for each stage.
    pub stages: Vec<Stage>,
    /// The different calls.
    pub calls: Vec<Call>,
    /// The channels between stages.
    pub channels: Vec<Channel>,
    /// No stage waits for the others at the end of a step: each begins the next one when it has done its own, so that a step takes what
    /// the longest stage takes from its first work to its last.
    pub shifted: bool,
    /// How calls take tokens to experts, where that is not an even all-to-all.
    pub exchanges: Vec<Exchange>,
    /// Kernels of experts that don't all get as many tokens: how long they take on each rank of a group of experts.
    pub uneven: Vec<Box<[Span]>>,
}
