//! The source of a flow: messages wait here and leave in segments.
//!
//! A flow keeps one segment booked on its first link and books the next when that one has left. A port therefore
//! serves the flows that begin there round-robin, memory follows what is in flight, and traffic that only passes
//! through takes its turn by arrival.

use super::Engine;
use super::state::{Message, NONE, Segment};
use crate::event::{Phase, Word};
use crate::ids::FlowId;
use crate::queue::Store;
use crate::units::{Bytes, Span, Time};

impl<S: Store> Engine<S> {
    /// Gives `flow` a message.
    pub(super) fn post(&mut self, flow: u32, message: Message, now: Time) {
        let state = &mut self.flows[flow as usize];
        if state.messages.capacity() == 0 {
            state.messages = self.messages.take(u32::from(state.depth));
        } else if state.posted.wrapping_sub(state.sent) >= state.messages.capacity() {
            state.messages = self.messages.grow(state.messages, state.sent, state.posted);
        }
        self.messages.items[state.messages.at(state.posted)] = message;
        state.posted = state.posted.wrapping_add(1);
        if !state.active {
            if state.oldest == state.next {
                self.moving += 1;
            }
            state.active = true;
            let at = self.ready(flow, now);
            let link = self.routes[self.flows[flow as usize].route as usize];
            self.pending.push(at, Word::segment(Phase::Source, link, FlowId(flow), 0));
        }
    }

    /// When the next segment of the present message is there to be sent.
    fn ready(&self, flow: u32, now: Time) -> Time {
        let state = &self.flows[flow as usize];
        let message = &self.messages.items[state.messages.at(state.sent)];
        let after = message.bytes - state.offset - (message.bytes - state.offset).min(u64::from(state.segment));
        let lead = message.pace.cost(Bytes::new(after));
        Time::from_ps(message.end.as_ps().saturating_sub(lead.as_ps())).max(now)
    }

    /// The turn of `flow` to put a segment on its first link.
    #[inline]
    pub(super) fn source(&mut self, flow: u32, now: Time) {
        let number = self.new_segment(flow);
        let state = &mut self.flows[flow as usize];
        let message = self.messages.items[state.messages.at(state.sent)];
        let left = message.bytes - state.offset;
        let full = left >= u64::from(state.segment);
        let bytes = if full { state.segment } else { left as u32 };
        let packets = if full { state.full_packets } else { u64::from(bytes).div_ceil(self.mtu.get()) as u32 };
        let last = left == u64::from(bytes);
        self.segments.items[state.segments.at(number)] =
            Segment { tail: now, bytes, packets, hop: 0, last, done: false };
        self.engine.bytes_sent += u64::from(bytes);
        if last {
            state.sent = state.sent.wrapping_add(1);
            state.offset = 0;
        } else {
            state.offset += u64::from(bytes);
        }
        if state.rate != NONE {
            self.rates[state.rate as usize].controller().on_send(now, Bytes::new(u64::from(bytes)));
        }
        let link = self.routes[state.route as usize];
        if self.links[link.index()].queued {
            self.enqueue(link, flow, number, now);
        } else {
            // Idle flows give their rings back in `release`; decide before the segment can be released.
            let more = state.sent != state.posted;
            state.active = more;
            let free = self.cross(link, flow, number, now, now);
            if more {
                self.book(flow, free, now);
            }
        }
    }

    /// The segment on the first link has left (or will at `free`): books the next, if there is one.
    pub(super) fn next_turn(&mut self, flow: u32, free: Time, now: Time) {
        let state = &mut self.flows[flow as usize];
        if state.sent == state.posted {
            state.active = false;
            if state.oldest == state.next {
                let ring = core::mem::replace(&mut state.segments, super::state::Ring::EMPTY);
                self.segments.give(ring);
                self.moving -= 1;
            }
        } else {
            self.book(flow, free, now);
        }
    }

    fn book(&mut self, flow: u32, free: Time, now: Time) {
        let mut at = self.ready(flow, free);
        let state = &self.flows[flow as usize];
        if state.rate != NONE {
            let pace = self.rates[state.rate as usize].pace();
            at = at.max(now + pace.cost(Bytes::new(u64::from(state.segment))).max(Span::ZERO));
        }
        let link = self.routes[state.route as usize];
        self.pending.push(at, Word::segment(Phase::Source, link, FlowId(flow), 0));
    }
}
