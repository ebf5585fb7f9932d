//! What a step came to.

use std::collections::BTreeMap;

use sim_core::units::{Span, Time};

use super::plan::{Label, Stream};
use crate::parallel::Group;

/// Where the time of a rank went. The parts add up to the step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Forward and backward kernels, with what messages beside them slow them down.
    pub compute: Span,
    /// The optimizer's kernels.
    pub optimizer: Span,
    /// No kernel ran, and the next one waited for a message that was under way, by its kind of group.
    pub exposed: BTreeMap<Group, Span>,
    /// The next kernel waited for another stage that had not sent yet, or there was no more work for this stage.
    pub bubble: Span,
    /// The next kernel waited for a call that another member had not come to yet.
    pub straggler: Span,
}

impl Breakdown {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Span {
        self.compute + self.optimizer + self.bubble + self.straggler + self.exposed.values().copied().sum()
    }

    /// All exposed messages.
    #[must_use]
    pub fn communication(&self) -> Span {
        self.exposed.values().copied().sum()
    }
}

/// What a piece of the critical path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PieceKind {
    /// Kernels.
    Compute,
    /// A message of a kind of group.
    Message(Group),
}

/// A piece of the chain of work that the end of the step waited for; each begins where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The rank.
    pub rank: u32,
    /// What it is.
    pub kind: PieceKind,
    /// What for.
    pub label: Label,
    /// From when.
    pub from: Time,
    /// To when.
    pub to: Time,
}

/// An operation that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The rank.
    pub rank: u32,
    /// Its stream.
    pub stream: Stream,
    /// What for.
    pub label: Label,
    /// From when: of a message from when all members had come to it.
    pub from: Time,
    /// To when.
    pub to: Time,
}

/// What a step came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The time of the step.
    pub end: Time,
    /// When each rank had done its last operation.
    pub ends: Vec<Time>,
    /// Where each rank's time went, up to the step's end.
    pub ranks: Vec<Breakdown>,
    /// The critical path, in order of time, without gaps.
    pub path: Vec<Piece>,
    /// What the ranks that were asked for did, in order of ends.
    pub ran: Vec<Ran>,
    /// Operations that were played.
    pub operations: u64,
}
