//! Segments on links: crossing them, and arriving at the end.

use super::regions::Mail;
use super::state::{FlowState, NONE, Ring, Segment};
use super::{Engine, outages};
use crate::event::{Phase, SEGMENT_BITS, Word};
use crate::ids::{FlowId, LinkId};
use crate::program::Sink;
use crate::queue::Store;
use crate::units::Time;

impl<S: Store> Engine<S> {
    /// A segment's head is at `link`.
    #[inline]
    pub(super) fn arrive(&mut self, link: LinkId, flow: u32, number: u32, now: Time) {
        let state = &self.flows[flow as usize];
        let segment = *self.segment(state, number);
        self.cross(link, flow, number, segment, now);
    }

    /// The record of a segment in flight.
    #[inline]
    pub(super) fn segment<'a>(&'a self, state: &'a FlowState, number: u32) -> &'a Segment {
        if state.segments.base == NONE { &state.lone } else { &self.segments.items[state.segments.at(number)] }
    }

    /// Sends a segment, whose head is there now, over `link`, and on over every link that follows and is fed by this one alone.
    /// A segment that is new has the number [`NONE`] and gets one when it must be remembered. Returns when `link` is free again.
    ///
    /// `start = max(head_in, free)` · `free = start + cost` · `head_out = start + u_out + α` ·
    /// `tail_out = max(start + cost, tail_in + u_in) + α`. Where the link is down at `start`, the start is the end of the outage.
    ///
    /// A link that only one other feeds sees segments in the order in which that one sends them, so they can cross it
    /// at once: no other segment can come between. It costs no event.
    #[inline]
    pub(super) fn cross(&mut self, link: LinkId, flow: u32, number: u32, segment: Segment, now: Time) -> Time {
        if self.flapping.is_empty() {
            self.cross_links::<false>(link, flow, number, segment, now)
        } else {
            self.cross_flapping(link, flow, number, segment, now)
        }
    }

    /// The same where links may be down; apart, so that networks without outages pay nothing per link.
    #[cold]
    #[inline(never)]
    fn cross_flapping(&mut self, link: LinkId, flow: u32, number: u32, segment: Segment, now: Time) -> Time {
        self.cross_links::<true>(link, flow, number, segment, now)
    }

    #[inline]
    fn cross_links<const OUTAGES: bool>(
        &mut self,
        mut link: LinkId,
        flow: u32,
        number: u32,
        mut segment: Segment,
        now: Time,
    ) -> Time {
        let state = &self.flows[flow as usize];
        let (hops, qp) = (state.hops, state.qp);
        let route = segment.route as usize;
        let mut head = now;
        let mut first_free = Time::ZERO;
        loop {
            let l = &mut self.links[link.index()];
            let mut start = head.max(l.free);
            if OUTAGES && l.flaps {
                start = outages::start(&mut self.flapping, link, start);
            }
            let crossing = l.pass(segment.bytes, segment.packets, start, head, segment.tail);
            head = crossing.head;
            segment.tail = crossing.tail;
            segment.hop += 1;
            if first_free == Time::ZERO {
                first_free = crossing.free;
            }
            if segment.hop == hops {
                break;
            }
            link = self.routes[route + segment.hop as usize];
            if !self.links[link.index()].series {
                break;
            }
        }
        if segment.hop < hops {
            let number = self.keep(flow, number, segment);
            self.pending.push(head, Word::segment(Phase::Arrival, link, FlowId(flow), number));
        } else if matches!(self.flows[flow as usize].sink, Sink::Junction(_)) {
            self.join(flow, number, segment, head);
        } else {
            // Its arrival is final, so whoever waits for it can be told now: no event.
            if number != NONE {
                self.release(flow, number);
            }
            if qp != NONE {
                self.reach_endpoint(qp, &segment, head, now);
                return first_free;
            }
            self.engine.bytes_delivered += u64::from(segment.bytes);
            // Nobody waits for the middle of a message.
            for _ in 0..segment.ends {
                self.deliver_message(flow, segment.tail, now);
            }
        }
        first_free
    }

    /// The record of a segment is no longer needed; rings go back when a flow is idle.
    #[inline]
    pub(super) fn release(&mut self, flow: u32, number: u32) {
        let state = &mut self.flows[flow as usize];
        let ring = state.segments;
        // Segments of a flow leave in order.
        debug_assert!((state.oldest ^ number) & ((1 << SEGMENT_BITS) - 1) == 0 || ring.base == NONE);
        state.oldest = if ring.base == NONE { state.next } else { state.oldest.wrapping_add(1) };
        if state.full {
            state.full = false;
            let link = self.routes[state.route as usize];
            self.pending.push(self.pending.now(), Word::segment(Phase::Source, link, FlowId(flow), 0));
        }
        if state.oldest == state.next {
            if ring.base != NONE {
                self.segments.give(ring);
                state.segments = Ring::EMPTY;
            }
            if !state.active {
                self.moving -= 1;
            }
        }
    }

    /// Remembers a segment under its number, or a new one under the next; returns the number.
    #[inline]
    pub(super) fn keep(&mut self, flow: u32, number: u32, segment: Segment) -> u32 {
        let state = &mut self.flows[flow as usize];
        if state.segments.base == NONE && (number != NONE || state.oldest == state.next) {
            state.lone = segment;
            if number != NONE {
                return number;
            }
            state.next = state.next.wrapping_add(1);
            return state.oldest & ((1 << SEGMENT_BITS) - 1);
        }
        let number = if number == NONE {
            let here = state.next.wrapping_sub(state.oldest);
            if state.segments.base == NONE {
                state.segments = self.segments.take(2);
                self.segments.items[state.segments.at(state.oldest)] = state.lone;
            } else if here >= state.segments.capacity() {
                state.segments = self.segments.grow(state.segments, state.oldest, state.next);
            }
            let number = state.next & ((1 << SEGMENT_BITS) - 1);
            state.next = state.next.wrapping_add(1);
            number
        } else {
            number
        };
        self.segments.items[state.segments.at(number)] = segment;
        number
    }

    /// Whether a region of its own is to hear of it later.
    #[inline]
    fn is_kept(&mut self, mail: Mail) -> bool {
        self.regions.as_deref_mut().is_some_and(|regions| regions.keep(mail))
    }

    /// The end of the flow's next message will be there at `at`.
    #[inline]
    pub(super) fn deliver_message(&mut self, flow: u32, at: Time, now: Time) {
        let state = &mut self.flows[flow as usize];
        let message = state.delivered.wrapping_mul(u32::from(state.turns)).wrapping_add(u32::from(state.turn));
        state.delivered = state.delivered.wrapping_add(1);
        match state.sink {
            Sink::Receiver(receiver) => {
                if !self.is_kept(Mail::Part { receiver, message, at }) {
                    self.part_arrives(receiver, message, at, now);
                }
            }
            Sink::Credit(sender) => {
                if !self.is_kept(Mail::Credit { sender, at }) {
                    self.credit_arrives(sender, at, now);
                }
            }
            Sink::Junction(_) => {}
        }
    }
}
