//! Where the time of each rank goes.

use std::collections::BTreeMap;

use sim_core::units::{Span, Time};

use super::super::outcome::Breakdown;
use super::super::plan::Label;
use crate::messages::Phase;
use crate::parallel::Group;

/// The books of all ranks.
#[derive(Debug)]
pub(super) struct Books {
    ranks: Vec<Breakdown>,
    /// The end of each rank's last kernel.
    idle: Vec<Time>,
    /// What ranks waited for late ones, by what the late one came with and who it was.
    late: BTreeMap<(&'static str, u32), Span>,
}

impl Books {
    pub(super) fn new(ranks: usize) -> Self {
        Self { ranks: vec![Breakdown::default(); ranks], idle: vec![Time::ZERO; ranks], late: BTreeMap::new() }
    }

    pub(super) fn idle_from(&self, rank: u32) -> Time {
        self.idle[rank as usize]
    }

    /// A kernel ran.
    pub(super) fn kernel(&mut self, rank: u32, from: Time, to: Time, label: Label) {
        let book = &mut self.ranks[rank as usize];
        let part = if label.phase == Phase::Update { &mut book.optimizer } else { &mut book.compute };
        *part += to.since(from);
        self.idle[rank as usize] = to;
    }

    /// A rank waited for a message under way.
    pub(super) fn exposes(&mut self, rank: u32, group: Group, span: Span) {
        if span > Span::ZERO {
            *self.ranks[rank as usize].exposed.entry(group).or_default() += span;
        }
    }

    /// A rank waited for others: another stage, or a member of a group, which came `late` from what it did last.
    pub(super) fn waits(&mut self, rank: u32, span: Span, stage: bool, late: Option<(&'static str, u32)>) {
        if let Some(late) = late.filter(|_| !stage && span > Span::ZERO) {
            *self.late.entry(late).or_default() += span;
        }
        let book = &mut self.ranks[rank as usize];
        *(if stage { &mut book.bubble } else { &mut book.straggler }) += span;
    }

    /// What late ranks were waited for with.
    pub(super) const fn late(&self) -> &BTreeMap<(&'static str, u32), Span> {
        &self.late
    }

    /// The time of a rank up to `now` is accounted for.
    pub(super) fn accounted(&mut self, rank: u32, now: Time) {
        self.idle[rank as usize] = now;
    }

    /// The books at the end of a step of several `stages` or one; `tails`: the call of a rank after its last kernel.
    pub(super) fn close(mut self, end: Time, ends: &[Time], tails: &[Option<Group>], stages: bool) -> Vec<Breakdown> {
        for (rank, book) in self.ranks.iter_mut().enumerate() {
            let idle = self.idle[rank];
            let done = ends[rank].max(idle);
            if let Some(group) = tails[rank] {
                *book.exposed.entry(group).or_default() += done.since(idle);
            } else {
                *(if stages { &mut book.bubble } else { &mut book.straggler }) += done.since(idle);
            }
            *(if stages { &mut book.bubble } else { &mut book.straggler }) += end.since(done);
            book.exposed.retain(|_, span| *span > Span::ZERO);
        }
        self.ranks
    }
}
