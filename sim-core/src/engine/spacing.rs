//! Messages of a queue pair that begin apart: where what drives it, and not the wire, sets the pace.

use super::Engine;
use super::state::NONE;
use crate::program::Spacing;
use crate::queue::Store;
use crate::units::Time;

/// What keeps the messages of one flow apart.
#[derive(Clone, Debug)]
pub(crate) struct SpacedState {
    spacing: Spacing,
    /// When the next message may begin, of the same iteration and of the next.
    pub(crate) next: Time,
    pub(crate) next_turn: Time,
    /// The current message has not begun.
    pub(crate) waiting: bool,
}

impl SpacedState {
    /// Adds one to the list, if messages are kept apart at all, and returns its index.
    pub(crate) fn add(list: &mut Vec<Self>, spacing: Spacing) -> u32 {
        if spacing == Spacing::NONE {
            return NONE;
        }
        list.push(Self { spacing, next: Time::ZERO, next_turn: Time::ZERO, waiting: false });
        list.len() as u32 - 1
    }
}

impl<S: Store> Engine<S> {
    /// A flow has another current message.
    #[inline]
    pub(super) fn message_waits(&mut self, flow: u32) {
        let spaced = self.flows[flow as usize].spaced;
        if spaced != NONE {
            self.spaced[spaced as usize].waiting = true;
        }
    }

    /// When the flow's next segment may leave that is ready at `at`.
    #[inline]
    pub(super) fn apart(&self, flow: u32, at: Time) -> Time {
        let state = &self.flows[flow as usize];
        if state.spaced == NONE {
            return at;
        }
        let spaced = &self.spaced[state.spaced as usize];
        match (spaced.waiting, state.current.first) {
            (false, _) => at,
            (true, false) => at.max(spaced.next),
            (true, true) => at.max(spaced.next_turn),
        }
    }

    /// The first segment of the current message leaves, if it is that.
    #[inline]
    pub(super) fn message_begins(&mut self, flow: u32, now: Time) {
        let state = &self.flows[flow as usize];
        if state.spaced == NONE {
            return;
        }
        let spaced = &mut self.spaced[state.spaced as usize];
        if core::mem::replace(&mut spaced.waiting, false) {
            let large = state.current.bytes > spaced.spacing.above.get();
            spaced.next = if large { now + spaced.spacing.time } else { now };
            spaced.next_turn = spaced.next + spaced.spacing.turn;
        }
    }
}
