//! The sending end: whose turn it is at an endpoint's port, pacing and windows.

use super::packet::{CHOSEN, Kind, LAST, NONE, Packet, RESENT};
use super::qp::State;
use super::spec::Paths;
use super::unit::Run;
use super::{Net, RATE_TIMER, Schedule, word};
use crate::event::Phase;
use crate::rate_control::RateControl as _;
use crate::units::{Bytes, Span, Time};

impl Net {
    /// Decides how a queue pair goes on that is in no ring: ready, paced, held or idle.
    #[inline]
    pub(super) fn go_on(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        if self.settle(qp, now, s) {
            let port = self.qps[qp as usize].port;
            self.kick(port, now, s);
        }
    }

    /// The same, without calling the port; whether it became ready.
    #[inline]
    fn settle(&mut self, qp: u32, now: Time, s: &mut impl Schedule) -> bool {
        let full = u64::from(self.spec.mtu);
        let state = &mut self.qps[qp as usize];
        if state.state == State::Failed || state.state == State::Ready {
            return false;
        }
        state.count_wait(now);
        if state.nxt >= state.end && self.messages[qp as usize].again.is_empty() {
            state.state = State::Idle;
            state.armed = Time::MAX;
            return false;
        }
        // What is sent again is out already.
        let window = state.rate.window().min(state.how.window);
        if window != u64::MAX && self.messages[qp as usize].again.is_empty() {
            let out = u64::from(state.nxt - state.una) * full;
            let next = if state.nxt + 1 == state.cut { u64::from(state.cut_wire - self.spec.overhead) } else { full };
            if window == 0 && next > 0 || out > 0 && out >= window {
                state.state = State::Held;
                state.armed = Time::MAX;
                state.waits_from = now;
                return false;
            }
        }
        let mut from = state.last_start + state.pace.cost_of_segment(Bytes::new(u64::from(state.last_wire)));
        let mut fed = false;
        // What falls due while the last packet is still on the wire needs no event: the port asks when that has gone.
        let soon = now.max(self.ports[state.port as usize].free);
        if state.nxt >= state.readable && self.messages[qp as usize].again.is_empty() {
            let there = self.readable_from(qp, soon);
            let state = &mut self.qps[qp as usize];
            let Some(there) = there else {
                state.state = State::Idle;
                state.armed = Time::MAX;
                return false;
            };
            fed = there >= from;
            from = from.max(there);
        }
        let state = &mut self.qps[qp as usize];
        if from > soon {
            state.state = State::Paced;
            // Data that are not there yet are no fault of its rate.
            state.waits_from = if fed { Time::MAX } else { soon };
            if state.armed != from {
                state.armed = from;
                s.at(from, word(Phase::Source, state.port, qp));
            }
            return false;
        }
        state.state = State::Ready;
        state.armed = Time::MAX;
        state.next = NONE;
        let (port, class) = (state.port, state.how.class);
        let at = self.queue_at(port, class);
        let ring = &mut self.queues[at].list;
        let tail = ring.tail;
        let empty = ring.head == NONE;
        ring.tail = qp;
        if empty {
            ring.head = qp;
        } else {
            self.qps[tail as usize].next = qp;
        }
        self.ports[port as usize].ready |= 1 << class;
        true
    }

    /// The instant has come at which a paced queue pair may send.
    pub(super) fn eligible(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        if state.state != State::Paced || state.armed != now {
            return;
        }
        state.armed = Time::MAX;
        self.go_on(qp, now, s);
    }

    /// Wire bytes of the next packet of a queue pair.
    #[inline]
    pub(super) fn next_wire(&self, qp: u32) -> u32 {
        let state = &self.qps[qp as usize];
        if let Some(psn) = self.messages[qp as usize].again.front() {
            return self.wire_of(qp, *psn);
        }
        if state.unit > 1 { self.next_unit(qp).1 } else { self.next_wire_new(qp) }
    }

    /// Wire bytes of the next packet that was not sent before.
    #[inline]
    fn next_wire_new(&self, qp: u32) -> u32 {
        let state = &self.qps[qp as usize];
        if state.nxt + 1 == state.cut { state.cut_wire } else { self.spec.full() }
    }

    /// An endpoint's port takes a packet, or a unit of at most `most` bytes, of the queue pair whose turn it is.
    #[inline(always)]
    pub(super) fn next_packet(&mut self, port: u32, class: u8, most: u32, now: Time, s: &mut impl Schedule) -> u32 {
        let at = self.queue_at(port, class);
        let qp = self.queues[at].list.head;
        let next = self.qps[qp as usize].next;
        self.queues[at].list.head = next;
        if next == NONE {
            self.ports[port as usize].ready &= !(1 << class);
        }
        let start = now.max(self.ports[port as usize].free);
        let again = self.messages[qp as usize].again.pop_front();
        let Run { packets, wire, tail, sent } = match again {
            None if self.qps[qp as usize].unit > 1 => self.take_unit(qp, port, most, start, now),
            Some(psn) => Run { packets: 1, wire: self.wire_of(qp, psn), tail: now, sent: start },
            None => Run { packets: 1, wire: self.next_wire_new(qp), tail: now, sent: start },
        };
        let state = &mut self.qps[qp as usize];
        state.state = State::Idle;
        let (psn, resent) = match again {
            Some(psn) => (psn, true),
            None => {
                state.nxt += packets;
                (state.nxt - packets, state.nxt <= state.top)
            }
        };
        state.top = state.top.max(state.nxt);
        state.last_start = start;
        state.last_wire = wire;
        state.outcome.resent += u64::from(resent) * u64::from(packets);
        if state.how.jitter != 0 {
            // The gap comes after the packet's time at its rate, and after its time on the wire.
            let (line, wire) = (self.ports[port as usize].cost(wire), Bytes::new(u64::from(wire)));
            let slower = line.as_ps().saturating_sub(state.pace.cost_of_segment(wire).as_ps());
            let share = (u64::from(self.draws.gap(port)) * u64::from(state.how.jitter)) >> 32;
            let gap = (u128::from(line.as_ps()) * u128::from(share)) >> 32;
            state.last_start = start + Span::from_ps(slower + gap as u64);
        }
        let (route, hops, cut, fed) = (state.route, state.hops, state.cut, state.fed);
        state.rate.on_send(start, wire);
        let crossed = state.nxt >= cut && cut < state.end;
        if crossed {
            self.find_message(qp);
        }
        let state = &self.qps[qp as usize];
        let chosen = state.how.paths != Paths::Pinned;
        let window = state.rate.window().min(state.how.window);
        let last = window != u64::MAX && u64::from(state.nxt - state.una) * u64::from(self.spec.mtu) >= window;
        let flags = if resent { RESENT } else { 0 } | if chosen { CHOSEN } else { 0 } | if last { LAST } else { 0 };
        let packet = self.packets.take(Packet {
            next: NONE,
            qp,
            psn,
            at: route,
            tail,
            sent,
            from: NONE,
            wire,
            kind: Kind::Data,
            class,
            flags,
            left: hops,
            marked: 0,
            packets: packets as u8,
        });
        self.telemetry.begin(packet);
        if self.qps[qp as usize].how.timeout.is_some() {
            self.time(qp, start, s);
        }
        if fed && !resent {
            self.feed_sent(qp, wire - packets * self.spec.overhead);
        }
        self.settle_after(qp, start, wire, now, s);
        self.arm_rate_timer(qp, now, s);
        packet
    }

    /// After a packet: what becomes due before the wire is free again goes to the end of the ring at once.
    #[inline]
    fn settle_after(&mut self, qp: u32, start: Time, wire: u32, now: Time, s: &mut impl Schedule) {
        let port = self.qps[qp as usize].port as usize;
        let free = self.ports[port].free;
        self.ports[port].free = start + self.ports[port].cost(wire);
        self.settle(qp, now, s);
        self.ports[port].free = free;
    }

    /// A rate may have changed.
    pub(super) fn rate_changed(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        self.arm_rate_timer(qp, now, s);
        let state = &mut self.qps[qp as usize];
        let pace = state.rate.pace();
        if pace == state.pace {
            return;
        }
        state.pace = pace;
        if state.state == State::Paced && state.how.retime {
            self.go_on(qp, now, s);
        }
    }

    /// Sees to it that the controller is called when it wants to be.
    #[inline]
    fn arm_rate_timer(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        let due = state.rate.next_timer();
        if due < state.timer {
            state.timer = due.max(now);
            s.at(state.timer, word(Phase::Timer, RATE_TIMER, qp));
        }
    }

    /// The timer of a rate control is due.
    pub(super) fn rate_timer(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        if state.timer != now {
            return;
        }
        state.timer = Time::MAX;
        if state.una >= state.end || state.state == State::Failed {
            return;
        }
        if state.rate.next_timer() <= now {
            state.rate.on_timer(now);
        }
        self.rate_changed(qp, now, s);
    }
}
