//! The receiving end, and what comes back from it: acknowledgements, reports of gaps, notices.

use super::packet::{Kind, LAST, MARKED, NONE, Packet};
use super::qp::State;
use super::spec::{Notice, Recovery};
use super::{Effect, NOTICE, Net, Schedule, word};
use crate::event::Phase;
use crate::rate_control::{Ack, HopTelemetry, RateControl as _};
use crate::units::Time;

impl Net {
    /// A data packet is at its endpoint, or a unit of several with its tail.
    #[inline]
    pub(super) fn data_arrived(&mut self, slot: u32, now: Time, s: &mut impl Schedule) {
        let Packet { qp, psn, flags, sent, wire, packets, .. } = self.packets[slot];
        let payload = wire - u32::from(packets) * self.spec.overhead;
        if self.telemetry.on {
            self.telemetry.arrived(slot, qp);
        }
        let mut marks = u32::from(flags & MARKED != 0);
        if packets > 1 {
            marks = self.packets[slot].marks();
        }
        self.packets.give(slot);
        if marks > 0 {
            self.notice(qp, now, s);
        }
        if packets > 1 && !self.comes_in_order(qp, psn) {
            self.unit_arrived(qp, (psn, u32::from(packets)), marks, flags, payload, sent, now, s);
            return;
        }
        self.run_arrived(qp, (psn, u32::from(packets)), marks, flags, payload, sent, now, s);
    }

    /// A unit has come of which some may be there, or before which some are missing: each of its packets on its own.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the fields of a packet")]
    fn unit_arrived(
        &mut self,
        qp: u32,
        (psn, packets): (u32, u32),
        marks: u32,
        flags: u8,
        payload: u32,
        sent: Time,
        now: Time,
        s: &mut impl Schedule,
    ) {
        for number in 0..packets {
            let last = number + 1 == packets;
            let payload = if last { payload - (packets - 1) * self.spec.mtu } else { self.spec.mtu };
            let flags = if last { flags } else { flags & !LAST };
            self.run_arrived(qp, (psn + number, 1), u32::from(number < marks), flags, payload, sent, now, s);
        }
    }

    /// Whether a unit that begins with `psn` is what the receiver waits for, and nothing of it is there.
    #[cold]
    fn comes_in_order(&self, qp: u32, psn: u32) -> bool {
        let state = &self.qps[qp as usize];
        psn == state.expected && psn >= state.taken && self.messages[qp as usize].seen.is_empty()
    }

    /// Packets of one message from `psn` on, one after the other, are at their endpoint.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the fields of a packet")]
    fn run_arrived(
        &mut self,
        qp: u32,
        (psn, packets): (u32, u32),
        marks: u32,
        flags: u8,
        payload: u32,
        sent: Time,
        now: Time,
        s: &mut impl Schedule,
    ) {
        let messages = &mut self.messages[qp as usize];
        let state = &mut self.qps[qp as usize];
        state.outcome.marked += u64::from(marks);
        state.outcome.arrived += u64::from(packets);
        state.waited_for |= flags & LAST != 0;
        if psn < state.expected
            && state.how.recovery == Recovery::GoBack0
            && messages.queue.get(messages.receiving).is_some_and(|message| message.first == psn)
        {
            // The sender begins the message again. What it does not know to be complete stays so.
            state.expected = psn;
            state.seen_to = psn;
        }
        let expected = state.expected;
        let (mut complete, mut fresh) = (0u16, false);
        if psn == expected && psn + packets < state.due && psn >= state.taken && messages.seen.is_empty() {
            // Nothing is missing, and its message goes on.
            state.gap = false;
            state.expected = psn + packets;
            state.seen_to = state.seen_to.max(state.expected);
            state.taken = state.expected;
            fresh = true;
            state.outcome.payload += u64::from(payload);
            if state.onward {
                self.effects.push(Effect::Taken { qp, bytes: payload, ends: 0 });
            }
        } else if psn == expected {
            state.gap = false;
            state.expected += packets;
            if !messages.seen.is_empty() {
                messages.seen.pop_front();
                while messages.seen.front().copied().unwrap_or(false) {
                    messages.seen.pop_front();
                    state.expected += 1;
                }
            }
            state.seen_to = state.seen_to.max(state.expected);
            while let Some(message) = messages.queue.get(messages.receiving)
                && message.end <= state.expected
            {
                messages.receiving += 1;
                complete += 1;
                state.outcome.delivered_at = now;
                state.outcome.messages += 1;
                self.effects.push(Effect::Delivered { qp, at: now });
            }
            state.due = messages.queue.get(messages.receiving).map_or(0, |message| message.end);
            self.expecting -= u32::from(complete > 0 && messages.receiving == messages.queue.len());
            // Where a message begins again, what came before has been counted.
            if psn >= state.taken {
                fresh = true;
                self.observer.progress = now;
                state.outcome.payload += u64::from(payload);
                if state.onward {
                    self.effects.push(Effect::Taken { qp, bytes: payload, ends: complete });
                }
            } else {
                state.outcome.duplicates += 1;
            }
            state.taken = state.taken.max(state.expected);
        } else if psn > expected {
            if state.how.recovery == Recovery::Selective {
                let ahead = (psn - expected) as usize;
                if messages.seen.len() <= ahead {
                    messages.seen.resize(ahead + 1, false);
                }
                if core::mem::replace(&mut messages.seen[ahead], true) {
                    state.outcome.duplicates += 1;
                } else {
                    fresh = true;
                    self.observer.progress = now;
                    state.outcome.payload += u64::from(payload);
                    if state.onward {
                        self.effects.push(Effect::Taken { qp, bytes: payload, ends: 0 });
                    }
                }
                // All that was sent long enough before this one must be there.
                let upto = (psn + 1).saturating_sub(state.how.reorder);
                let from = state.seen_to.max(expected);
                state.seen_to = state.seen_to.max(upto);
                for missing in from..upto {
                    if !self.messages[qp as usize].seen[(missing - expected) as usize] {
                        self.send_control(qp, Kind::Nak, missing, 0, sent, now, s);
                    }
                }
            } else if !state.gap && state.how.recovery != Recovery::None {
                state.gap = true;
                self.send_control(qp, Kind::Nak, expected, 0, sent, now, s);
            }
            if fresh && self.has_to_ask(qp) {
                self.grant_arrived(qp, payload, now, s);
            }
            return;
        } else {
            state.outcome.duplicates += 1;
        }
        if fresh && self.has_to_ask(qp) {
            self.grant_arrived(qp, payload, now, s);
        }
        let state = &mut self.qps[qp as usize];
        // A packet that fills a gap stands for those that waited behind it.
        state.owed += (state.expected - expected).max(1);
        state.owed_marked += marks;
        if state.owed >= state.how.ack_every || state.waited_for || complete > 0 || psn < expected {
            let marked = u16::try_from(state.owed_marked).unwrap_or(u16::MAX);
            let upto = state.expected;
            state.owed = 0;
            state.owed_marked = 0;
            state.waited_for = false;
            self.send_control(qp, Kind::Ack, upto, marked, sent, now, s);
        }
    }

    /// A marked packet came: a notice, unless the last one was too short a time ago.
    fn notice(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        let Notice::Packet { interval, delay } = state.how.notice else { return };
        if now < state.notice_from {
            return;
        }
        state.notice_from = now + interval;
        if delay.as_ps() == 0 {
            self.send_control(qp, Kind::Notice, 0, 0, now, now, s);
        } else {
            s.at(now + delay, word(Phase::Timer, NOTICE, qp));
        }
    }

    /// A control packet leaves the receiving end of a queue pair.
    #[expect(clippy::too_many_arguments, reason = "the fields of a packet")]
    pub(super) fn send_control(
        &mut self,
        qp: u32,
        kind: Kind,
        psn: u32,
        marked: u16,
        sent: Time,
        now: Time,
        s: &mut impl Schedule,
    ) {
        let state = &mut self.qps[qp as usize];
        let (at, left, class) = (state.back, state.back_hops, state.how.class);
        if kind == Kind::Notice {
            state.outcome.notices += 1;
            let first = self.routes[at as usize] as usize * usize::from(self.classes);
            self.counters[first + usize::from(class)].notices += 1;
        }
        let wire = self.spec.control_size;
        let packet = Packet {
            next: NONE,
            qp,
            psn,
            at,
            tail: now,
            sent,
            from: NONE,
            wire,
            kind,
            class,
            flags: 0,
            left,
            marked,
            packets: 1,
        };
        let slot = self.packets.take(packet);
        if self.telemetry.on && kind == Kind::Ack {
            self.telemetry.answer(slot, qp);
        }
        self.send_off(self.routes[at as usize], slot, now, s);
    }

    /// A control packet is at the sending end.
    pub(super) fn control_arrived(&mut self, slot: u32, now: Time, s: &mut impl Schedule) {
        let Packet { qp, psn, kind, marked, sent, .. } = self.packets[slot];
        self.packets.give(slot);
        match kind {
            Kind::Ack => {
                if self.telemetry.on {
                    let read = self.telemetry.take(slot);
                    self.acknowledged(qp, psn, (marked, &read), sent, now, s);
                } else {
                    self.acknowledged(qp, psn, (marked, &[]), sent, now, s);
                }
            }
            Kind::Nak => self.missing(qp, psn, sent, now, s),
            Kind::Notice => {
                self.totals.notices += 1;
                if self.qps[qp as usize].una < self.qps[qp as usize].end {
                    self.qps[qp as usize].rate.on_notice(now);
                    self.rate_changed(qp, now, s);
                }
            }
            Kind::Ask => self.asked_at(qp, psn, now, s),
            Kind::Grant => self.granted(qp, psn, now, s),
            Kind::Data => {}
        }
    }

    /// All before `psn` has arrived; so many packets were marked, and the newest has read so much in ports.
    pub(super) fn acknowledged(
        &mut self,
        qp: u32,
        psn: u32,
        (marked, telemetry): (u16, &[HopTelemetry]),
        sent: Time,
        now: Time,
        s: &mut impl Schedule,
    ) {
        let state = &mut self.qps[qp as usize];
        let messages = &mut self.messages[qp as usize];
        let news = psn > state.una;
        let (mut again, mut raised) = (false, false);
        if news {
            let packets = psn - state.una;
            state.una = psn;
            state.progress = now;
            state.tries = 0;
            // What was to be sent again has come.
            if state.nxt < psn {
                state.nxt = psn;
                raised = true;
            }
            let mut bytes = u64::from(packets) * u64::from(self.spec.mtu);
            while let Some(message) = messages.queue.front()
                && message.end <= psn
            {
                bytes -= u64::from(self.spec.mtu - message.last);
                messages.queue.pop_front();
                messages.sending = messages.sending.saturating_sub(1);
                messages.receiving -= 1;
                state.outcome.acked_at = now;
                self.effects.push(Effect::Acknowledged { qp, at: now });
            }
            while messages.again.front().is_some_and(|again| *again < psn) {
                messages.again.pop_front();
                again = true;
            }
            let ack = Ack { bytes, packets, marked: u32::from(marked), rtt: now.since(sent), telemetry };
            state.rate.on_ack(now, &ack);
        }
        let stale = (again || raised) && self.reconsider(qp, again);
        let state = &mut self.qps[qp as usize];
        if state.una >= state.end {
            state.rate.stop(now);
            if news {
                self.busy -= 1;
                self.life_ends(qp, now);
                if self.busy == 0 {
                    self.forget_control();
                }
            }
            return;
        }
        let echoed = marked > 0 && state.how.notice == Notice::Echo;
        if echoed {
            self.totals.notices += 1;
            state.rate.on_notice(now);
        }
        if self.qps[qp as usize].nxt >= self.qps[qp as usize].cut {
            self.find_message(qp);
        }
        // What was sent since the last one may have raised the rate.
        let state = &self.qps[qp as usize];
        if echoed || state.hears_acks || !news || state.rate.pace() != state.pace {
            self.rate_changed(qp, now, s);
        }
        if stale || self.qps[qp as usize].state == State::Held {
            self.go_on(qp, now, s);
        }
    }
}
