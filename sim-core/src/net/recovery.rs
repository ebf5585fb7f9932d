//! Recovery from losses: going back, sending again what is missing, timeouts.

use super::packet::NONE;
use super::qp::{Qp, State};
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
            let again = &mut self.messages[qp as usize].again;
            // After a timeout it may be there already.
            let at = again.partition_point(|other| *other < psn);
            if again.get(at) != Some(&psn) {
                again.insert(at, psn);
            }
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
            // The receiver begins the message again when its first packet comes, if it does not have all of it.
            if let Some(message) = messages.queue.iter().find(|message| message.end > to) {
                to = message.first;
                state.una = state.una.min(to);
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
            // Of all that was sent, what the receiver does not have at this instant. No blocks of selective acknowledgement are
            // modelled: the sender looks at the receiver's record, and so knows as much as if each of them had come at once.
            let (expected, top) = (state.expected, state.nxt);
            let messages = &mut self.messages[qp as usize];
            let seen =
                |psn: u32| psn < expected || messages.seen.get((psn - expected) as usize).copied().unwrap_or(false);
            messages.again = (una..top).filter(|psn| !seen(*psn)).collect();
            if messages.again.is_empty() && top > una {
                // It has all: the acknowledgement is late or lost, and a packet makes it answer again.
                messages.again.push_back(una);
            }
        } else {
            self.qps[qp as usize].gap = false;
            self.go_back(qp, una);
        }
        self.time(qp, now, s);
        self.after_loss(qp, now, s);
    }

    /// It gives up. If it is in its port's ring, its turn there is taken from it.
    fn fail(&mut self, qp: u32) {
        self.leave_ring(qp);
        self.qps[qp as usize].state = State::Failed;
        self.qps[qp as usize].outcome.failed = true;
        self.effects.push(Effect::Failed { qp });
    }

    /// What a queue pair was to send has come meanwhile: if it is in its port's ring with nothing to send again, and has
    /// nothing new or was there for what was to be sent `again`, it leaves the ring, and has to go on anew.
    #[inline]
    pub(super) fn reconsider(&mut self, qp: u32, again: bool) -> bool {
        let state = &self.qps[qp as usize];
        let stale = state.state == State::Ready
            && (again || state.nxt >= state.end.min(state.readable))
            && self.messages[qp as usize].again.is_empty();
        if stale {
            self.leave_ring(qp);
        }
        stale
    }

    /// A queue pair that is in its port's ring is there no longer.
    #[cold]
    fn leave_ring(&mut self, qp: u32) {
        let Qp { state: State::Ready, port, next: after, .. } = self.qps[qp as usize] else { return };
        self.qps[qp as usize].state = State::Idle;
        let class = self.qps[qp as usize].how.class;
        let at = self.queue_at(port, class);
        let (mut before, mut other) = (NONE, self.queues[at].list.head);
        while other != qp && other != NONE {
            (before, other) = (other, self.qps[other as usize].next);
        }
        let list = &mut self.queues[at].list;
        if list.tail == qp {
            list.tail = before;
        }
        if before == NONE {
            list.head = after;
        } else {
            self.qps[before as usize].next = after;
        }
        let queue = &self.queues[at];
        if queue.list.head == NONE && queue.own.head == NONE {
            self.ports[port as usize].ready &= !(1 << class);
        }
    }
}
