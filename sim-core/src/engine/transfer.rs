//! Segments on links: crossing a virtual link, waiting in a queued port, arriving at the end.

use super::Engine;
use super::state::NONE;
use crate::event::{Phase, SEGMENT_BITS, Word};
use crate::flow_control::Admission;
use crate::ids::{FlowId, LinkId};
use crate::program::Sink;
use crate::queue::Store;
use crate::recorder::wait_bucket;
use crate::units::{Bytes, Span, Time};

impl<S: Store> Engine<S> {
    /// A segment's head is at `link` (or, past the last link, at its junction).
    #[inline]
    pub(super) fn arrive(&mut self, link: LinkId, flow: u32, number: u32, now: Time) {
        let state = &self.flows[flow as usize];
        if self.segments.items[state.segments.at(number)].hop == state.hops {
            self.join(flow, number, now);
        } else if self.links[link.index()].queued {
            self.enqueue(link, flow, number, now);
        } else {
            self.cross(link, flow, number, now, now);
        }
    }

    /// Sends a segment over `link`. Its head came at `head_in`; `now` differs from that only on queued links, where the
    /// departure is decided later. Returns when the link is free again.
    ///
    /// `start = max(head_in, free)` · `free = start + cost` · `head_out = start + u_out + α` ·
    /// `tail_out = max(start + cost, tail_in + u_in) + α`.
    #[inline]
    pub(super) fn cross(&mut self, link: LinkId, flow: u32, number: u32, head_in: Time, now: Time) -> Time {
        let state = &self.flows[flow as usize];
        let segment = &mut self.segments.items[state.segments.at(number)];
        let l = &mut self.links[link.index()];
        let wire = Bytes::new(u64::from(segment.bytes) + u64::from(segment.packets) * u64::from(l.overhead));
        let cost = l.cost.cost(wire);
        let start = now.max(l.free);
        let free = start + cost;
        l.free = free;
        let head_out = start + cost.min(l.far_hold) + l.latency;
        let tail_out = free.max(segment.tail + cost.min(l.near_hold)) + l.latency;
        segment.tail = tail_out;
        segment.hop += 1;

        let wait = start.since(head_in);
        let counters = &mut self.counters[link.index()];
        counters.payload += u64::from(segment.bytes);
        counters.packets += u64::from(segment.packets);
        counters.segments += 1;
        counters.busy += cost;
        if wait != Span::ZERO {
            counters.longest_wait = counters.longest_wait.max(wait);
            counters.wait_bytes += u128::from(wait.as_ps()) * u128::from(wire.get());
        }
        self.waits[link.index()][wait_bucket(wait.as_ps())] += 1;
        self.engine.segment_hops += 1;

        if segment.hop < state.hops {
            let next = self.routes[state.route as usize + segment.hop as usize];
            self.pending.push(head_out, Word::segment(Phase::Arrival, next, FlowId(flow), number));
        } else if matches!(state.sink, Sink::Junction(_)) {
            self.pending.push(head_out, Word::segment(Phase::Arrival, link, FlowId(flow), number));
        } else if segment.last {
            self.pending.push(tail_out, Word::segment(Phase::Delivery, link, FlowId(flow), number));
        } else {
            // Nobody waits for the middle of a message, and its arrival is final: no event.
            self.engine.bytes_delivered += u64::from(segment.bytes);
            self.release(flow, number);
        }
        free
    }

    /// The record of a segment is no longer needed; rings go back when a flow is idle.
    #[inline]
    pub(super) fn release(&mut self, flow: u32, number: u32) {
        let state = &mut self.flows[flow as usize];
        let ring = state.segments;
        self.segments.items[ring.at(number)].done = true;
        while state.oldest != state.next && self.segments.items[ring.at(state.oldest)].done {
            state.oldest = state.oldest.wrapping_add(1);
        }
        if state.oldest == state.next && !state.active {
            self.segments.give(ring);
            state.segments = super::state::Ring::EMPTY;
            self.moving -= 1;
        }
    }

    /// A place for the next segment of `flow`; returns its number within the window.
    #[inline]
    pub(super) fn new_segment(&mut self, flow: u32) -> u32 {
        let state = &mut self.flows[flow as usize];
        if state.next.wrapping_sub(state.oldest) >= state.segments.capacity() {
            state.segments = self.segments.grow(state.segments, state.oldest, state.next);
        }
        let number = state.next & ((1 << SEGMENT_BITS) - 1);
        state.next = state.next.wrapping_add(1);
        number
    }

    /// The tail of a message's last segment is at the end of its flow.
    #[inline]
    pub(super) fn deliver(&mut self, flow: u32, number: u32, now: Time) {
        let state = &mut self.flows[flow as usize];
        let segment = &self.segments.items[state.segments.at(number)];
        self.engine.bytes_delivered += u64::from(segment.bytes);
        let message = state.delivered * u32::from(state.turns) + u32::from(state.turn);
        state.delivered += 1;
        let sink = state.sink;
        self.release(flow, number);
        match sink {
            Sink::Receiver(r) => self.part_arrived(r, message, now),
            Sink::Credit(s) => self.credit_arrived(s, now),
            Sink::Junction(_) => {}
        }
    }

    /// A segment's head is at a queued port.
    pub(super) fn enqueue(&mut self, link: LinkId, flow: u32, number: u32, now: Time) {
        let free = self.links[link.index()].free;
        let port = &mut self.ports[link.index()];
        port.queue.push_back((flow, number, now));
        if !port.scheduled && !port.blocked {
            port.scheduled = true;
            self.pending.push(free.max(now), Word::segment(Phase::Port, link, FlowId(0), 0));
        }
    }

    /// A queued port may send.
    pub(super) fn serve_port(&mut self, link: LinkId, now: Time) {
        let port = &mut self.ports[link.index()];
        port.scheduled = false;
        let Some(&(flow, number, head_in)) = port.queue.front() else { return };
        let state = &self.flows[flow as usize];
        let segment = self.segments.items[state.segments.at(number)];
        let overhead = u64::from(self.links[link.index()].overhead);
        let wire = Bytes::new(u64::from(segment.bytes) + u64::from(segment.packets) * overhead);
        let scheme = self.flow_control.scheme();
        if scheme.ask(link, wire, now) == Admission::Wait {
            self.ports[link.index()].blocked = true;
            return;
        }
        scheme.on_depart(link, wire, now);
        if segment.hop > 0 {
            let from = self.routes[state.route as usize + segment.hop as usize - 1];
            if let Some(signal) = scheme.on_release(from, wire, now) {
                self.ports[signal.port.index()].blocked = false;
            }
        }
        let port = &mut self.ports[link.index()];
        port.queue.pop_front();
        let more = !port.queue.is_empty();
        port.scheduled = more;
        let first = segment.hop == 0;
        let free = self.cross(link, flow, number, head_in, now);
        if more {
            self.pending.push(free, Word::segment(Phase::Port, link, FlowId(0), 0));
        }
        if first && self.flows[flow as usize].active {
            self.next_turn(flow, free, now);
        }
    }

    /// Gives a flow its rate controller.
    pub fn set_rate_control(&mut self, flow: u32, control: crate::rate_control::AnyRateControl) {
        let state = &mut self.flows[flow as usize];
        if state.rate == NONE {
            state.rate = self.rates.len() as u32;
            self.rates.push(control);
        } else {
            self.rates[state.rate as usize] = control;
        }
    }
}
