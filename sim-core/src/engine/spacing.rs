//! Messages of a sender that begin apart: where what drives it, and not the wire, sets the pace.
//!
//! Flows of one sender that take turns share a pace; where each message is cut over all of them, each flow has a part of every
//! message and so a pace of its own.

use super::Engine;
use super::state::NONE;
use crate::event::Word;
use crate::program::Spacing;
use crate::queue::Store;
use crate::units::Time;

/// What keeps the messages of one flow, or of flows that take turns, apart.
#[derive(Clone, Debug)]
pub(crate) struct SpacedState {
    spacing: Spacing,
    /// When the next message may begin, of the same iteration and of the next.
    pub(crate) next: Time,
    pub(crate) next_turn: Time,
}

impl SpacedState {
    /// Adds one to the list, if messages are kept apart at all, and returns its index.
    pub(crate) fn add(list: &mut Vec<Self>, spacing: Spacing) -> u32 {
        if spacing == Spacing::NONE {
            return NONE;
        }
        list.push(Self { spacing, next: Time::ZERO, next_turn: Time::ZERO });
        list.len() as u32 - 1
    }
}

impl<S: Store> Engine<S> {
    /// Whether a message of so many bytes, sent on these flows, keeps the next one waiting, and whether it may have to wait.
    #[inline]
    pub(super) fn kept_apart(&self, flow: u32, flows: usize, bytes: u64) -> (bool, bool) {
        let spaced = if flows == 0 { NONE } else { self.flows[flow as usize].spaced };
        if spaced == NONE {
            return (false, false);
        }
        (bytes > self.spaced[spaced as usize].spacing.above.get(), true)
    }

    /// When the flow's next segment may leave that is ready at `at`.
    #[inline]
    pub(super) fn apart(&self, flow: u32, at: Time) -> Time {
        let state = &self.flows[flow as usize];
        if state.spaced == NONE {
            return at;
        }
        let spaced = &self.spaced[state.spaced as usize];
        match (state.current.fresh, state.current.first) {
            (false, _) => at,
            (true, false) => at.max(spaced.next),
            (true, true) => at.max(spaced.next_turn),
        }
    }

    /// Whether the turn of a flow has come too early, since another message of its sender began in the meantime: then it is
    /// booked anew.
    pub(super) fn is_early(&mut self, now: Time, word: Word) -> bool {
        // A queue pair's turn is not a flow's.
        if self.net.is_some() && word.link_id().index() >= self.links.len() {
            return false;
        }
        let flow = word.flow_id().0;
        let at = self.apart(flow, now);
        let early = at > now && self.flows[flow as usize].active;
        if early {
            self.pending.push(at, word);
        }
        early
    }

    /// The first segment of the current message leaves, if it is that.
    #[inline]
    pub(super) fn message_begins(&mut self, flow: u32, now: Time) {
        let state = &mut self.flows[flow as usize];
        if !core::mem::replace(&mut state.current.fresh, false) {
            return;
        }
        let spaced = &mut self.spaced[state.spaced as usize];
        spaced.next = if state.current.large { now + spaced.spacing.time } else { now };
        spaced.next_turn = spaced.next + spaced.spacing.turn;
    }
}
