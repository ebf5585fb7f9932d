//! The source of a flow: messages wait here and leave in segments.
//!
//! A flow keeps one segment booked on its first link and books the next when that one has left. A port therefore
//! serves the flows that begin there round-robin, memory follows what is in flight, and traffic that only passes
//! through takes its turn by arrival.

use super::Engine;
use super::state::{FlowState, Message, NONE, Ring, Segment};
use crate::event::{Phase, SEGMENT_BITS, Word};
use crate::ids::FlowId;
use crate::queue::Store;
use crate::units::{Bytes, PsPerByte, Time};

/// Segments of one flow that can be told apart in flight.
const WINDOW: u32 = 1 << SEGMENT_BITS;

impl<S: Store> Engine<S> {
    /// Gives `flow` a message.
    pub(super) fn post(&mut self, flow: u32, message: Message, now: Time) {
        let state = &mut self.flows[flow as usize];
        if state.active {
            if state.posted.wrapping_sub(state.first) >= state.messages.capacity() {
                state.messages = self.messages.grow(state.messages, state.first, state.posted);
            }
            self.messages.items[state.messages.at(state.posted)] = message;
            state.posted = state.posted.wrapping_add(1);
            return;
        }
        if state.oldest == state.next {
            self.moving += 1;
        }
        // Where the last segment is booked in this very instant (or the wires are played ahead), the message was behind it.
        let Message { end: booked, bytes: free, .. } = state.current;
        let from = if booked >= now { now.max(Time::from_ps(free)) } else { now };
        state.active = true;
        state.current = message;
        let at = ready(state, from);
        let link = self.routes[state.route as usize];
        let at = self.apart(flow, at);
        let word = Word::segment(Phase::Source, link, FlowId(flow), 0);
        match self.regions.as_deref_mut().and_then(|regions| regions.queue_of_wires(at, word)) {
            Some(wires) => wires.push(at, word),
            None => self.pending.push(at, word),
        }
    }

    /// The turn of `flow` to put a segment on its first link.
    #[inline]
    pub(super) fn source(&mut self, flow: u32, now: Time) {
        let state = &mut self.flows[flow as usize];
        if state.wide != NONE {
            return self.source_of_many(flow, now);
        }
        if state.next.wrapping_sub(state.oldest) >= WINDOW {
            state.full = true;
            return;
        }
        let bytes = state.current.bytes.min(u64::from(state.segment)) as u32;
        let qp = state.qp;
        let left = state.current.bytes;
        if qp != NONE && !self.endpoint_takes(qp, bytes, left, now) {
            return;
        }
        self.message_begins(flow, now);
        let state = &mut self.flows[flow as usize];
        state.current.bytes -= u64::from(bytes);
        let last = state.current.bytes == 0;
        let packets = bytes.div_ceil(self.mtu.get() as u32);
        let segment = Segment { tail: now, route: state.route, bytes, packets, hop: 0, ends: u16::from(last) };
        let hops = state.hops;
        self.engine.bytes_sent += u64::from(bytes);
        let more = !last || self.next_message(flow);
        // Idle flows give their rings back in `release`; decide before the segment can be released.
        self.flows[flow as usize].active = more;
        let free = if hops == 0 {
            self.reach_endpoint(qp, &segment, now, now);
            now
        } else {
            self.cross(self.routes[segment.route as usize], flow, NONE, segment, now)
        };
        if more {
            self.book(flow, free);
        } else {
            let state = &mut self.flows[flow as usize];
            // An idle flow keeps when its last segment was booked, and until when the link is taken by it.
            state.current = Message {
                end: now,
                bytes: free.as_ps(),
                pace: PsPerByte::FREE,
                first: false,
                large: false,
                fresh: false,
            };
            // All of it may have crossed a lone link already, and left no trace.
            if state.oldest == state.next {
                self.moving -= 1;
            }
        }
    }

    /// Makes the message behind the present one the current one; false if there is none.
    #[inline]
    pub(super) fn next_message(&mut self, flow: u32) -> bool {
        let state = &mut self.flows[flow as usize];
        if state.first == state.posted {
            return false;
        }
        state.current = self.messages.items[state.messages.at(state.first)];
        state.first = state.first.wrapping_add(1);
        if state.first == state.posted {
            self.messages.give(core::mem::replace(&mut state.messages, Ring::EMPTY));
        }
        true
    }

    pub(super) fn book(&mut self, flow: u32, free: Time) {
        let state = &self.flows[flow as usize];
        let at = self.apart(flow, ready(state, free));
        let link = self.routes[state.route as usize];
        self.pending.push(at, Word::segment(Phase::Source, link, FlowId(flow), 0));
    }
}

/// When the next segment of the current message is there to be sent, at `now` or later.
#[inline]
fn ready(state: &FlowState, now: Time) -> Time {
    let message = &state.current;
    let after = message.bytes.saturating_sub(u64::from(state.segment));
    if after == 0 {
        return message.end.max(now);
    }
    let lead = message.pace.cost(Bytes::new(after));
    Time::from_ps(message.end.as_ps().saturating_sub(lead.as_ps())).max(now)
}
