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
    /// The next kernel waited for a call that another member had not come to yet, or the rank itself began late.
    pub straggler: Span,
}

impl Breakdown {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Span {
        self.compute + self.optimizer + self.bubble + self.straggler + self.exposed.values().copied().sum()
    }

    /// Takes out what a rank waited before its first work and after its last beyond what the step takes.
    pub(super) fn shorten(&mut self, mut by: Span) {
        let exposed = self.exposed.entry(Group::Pipeline).or_default();
        for part in [&mut self.bubble, exposed, &mut self.straggler] {
            let cut = by.min(*part);
            (*part, by) = (*part - cut, by - cut);
        }
        self.exposed.retain(|_, span| *span > Span::ZERO);
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
    /// A rank began late.
    Late,
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

impl Piece {
    /// What of it is later than `begin`, reckoned from there.
    pub(super) fn later_than(self, begin: Span) -> Option<Self> {
        let from = |at: Time| Time::from_ps(at.as_ps().saturating_sub(begin.as_ps()));
        Some(Self { from: from(self.from), to: from(self.to), ..self }).filter(|piece| piece.to > piece.from)
    }
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
    /// The time of the step; where steps are [shifted](super::plan::Plan::shifted), what the longest stage takes.
    pub end: Time,
    /// When each rank had done its last operation, from when the first began.
    pub ends: Vec<Time>,
    /// Where each rank's time went, up to the step's end.
    pub ranks: Vec<Breakdown>,
    /// The critical path, in order of time, without gaps.
    pub path: Vec<Piece>,
    /// What the ranks that were asked for did, in order of ends.
    pub ran: Vec<Ran>,
    /// Operations that were played.
    pub operations: u64,
    /// What ranks waited for late ones, all together: by what the late one came with, and who it was.
    pub late: Vec<((&'static str, u32), Span)>,
    /// Of each call of the plan how often it was made, and the sum of its times from the last member's coming to the last one's end.
    pub made: Vec<(u64, Span)>,
}
