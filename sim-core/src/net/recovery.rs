//! Recovery from losses: going back, sending again what is missing, timeouts.

use super::qp::State;
use super::spec::Recovery;
use super::{Effect, Net, Schedule, TIMEOUT, word};
use crate::event::Phase;
use crate::rate_control::RateControl as _;
use crate::units::Time;

impl Net {
    /// The receiver misses packet `psn`. All before has arrived, unless losses are mended one by one.
    pub(super) fn missing(&mut self, qp: u32, psn: u32, sent: Time, now: Time, s: &mut impl Schedule) {
        let recovery = self.qps[qp as usize].how.recovery;
        if recovery == Recovery::Selective {
            if psn < self.qps[qp as usize].una {
                return;
            }
            self.messages[qp as usize].again.push_back(psn);
            self.qps[qp as usize].rate.on_loss(now, false);
        } else {
            self.acknowledged(qp, psn, (0, &[]), sent, now, s);
            self.go_back(qp, psn);
            self.qps[qp as usize].rate.on_loss(now, false);
        }
        self.after_loss(qp, now, s);
    }

    /// The sender goes on from `psn`, or from the start of its message.
    fn go_back(&mut self, qp: u32, psn: u32) {
        let state = &mut self.qps[qp as usize];
        let messages = &mut self.messages[qp as usize];
        let mut to = psn.max(state.una);
        if state.how.recovery == Recovery::GoBack0 {
            // The receiver, too, begins the message again.
            if let Some(message) = messages.queue.iter().find(|message| message.end > to) {
                to = message.first;
                state.expected = state.expected.min(to);
                state.seen_to = state.expected;
                state.una = state.una.min(to);
                state.gap = false;
            }
        }
        state.nxt = to;
        self.find_message(qp);
    }

    fn after_loss(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        self.rate_changed(qp, now, s);
        if self.qps[qp as usize].state != State::Paced {
            self.go_on(qp, now, s);
        }
    }

    /// Packets are on their way: if no acknowledgement comes, the sender will know.
    #[inline]
    pub(super) fn time(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        if let Some(after) = state.how.timeout
            && !state.timing
        {
            state.timing = true;
            state.progress = state.progress.max(now);
            s.at(now + after, word(Phase::Timer, TIMEOUT, qp));
        }
    }

    /// A timeout may be due: it is, if nothing was acknowledged since.
    pub(super) fn timeout(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        let Some(after) = state.how.timeout else { return };
        state.timing = false;
        if state.una >= state.top || state.state == State::Failed {
            return;
        }
        let due = state.progress + after;
        if due > now {
            state.timing = true;
            s.at(due, word(Phase::Timer, TIMEOUT, qp));
            return;
        }
        state.outcome.timeouts += 1;
        state.tries = state.tries.saturating_add(1);
        if state.tries > u16::from(state.how.retries) {
            self.fail(qp);
            self.grant_gone(qp, now, s);
            return;
        }
        state.progress = now;
        state.rate.on_loss(now, true);
        let una = state.una;
        if state.how.recovery == Recovery::Selective {
            // Of all that was sent, what the receiver does not have, as its reports have told by now.
            let (expected, top) = (state.expected, state.nxt);
            let messages = &mut self.messages[qp as usize];
            let seen =
                |psn: u32| psn < expected || messages.seen.get((psn - expected) as usize).copied().unwrap_or(false);
            messages.again = (una..top).filter(|psn| !seen(*psn)).collect();
        } else {
            self.qps[qp as usize].gap = false;
            self.go_back(qp, una);
        }
        self.time(qp, now, s);
        self.after_loss(qp, now, s);
    }

    /// It gives up. If it is in its port's ring, its turn there is taken from it.
    fn fail(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        if state.state == State::Ready {
            let (port, class) = (state.port, state.how.class);
            let at = self.queue_at(port, class);
            let mut ring: Vec<u32> = Vec::new();
            let mut next = self.queues[at].list.head;
            while next != super::packet::NONE {
                ring.push(next);
                next = self.qps[next as usize].next;
            }
            ring.retain(|other| *other != qp);
            for (i, other) in ring.iter().enumerate() {
                self.qps[*other as usize].next = ring.get(i + 1).copied().unwrap_or(super::packet::NONE);
            }
            self.queues[at].list.head = ring.first().copied().unwrap_or(super::packet::NONE);
            self.queues[at].list.tail = ring.last().copied().unwrap_or(super::packet::NONE);
            if ring.is_empty() && self.queues[at].own.head == super::packet::NONE {
                self.ports[port as usize].ready &= !(1 << class);
            }
        }
        self.qps[qp as usize].state = State::Failed;
        self.qps[qp as usize].outcome.failed = true;
        self.effects.push(Effect::Failed { qp });
    }
}
