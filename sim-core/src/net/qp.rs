//! Queue pairs: their records, and which packet belongs to which message.
//!
//! Both ends share a record, since a simulation sees both. Packets are numbered through all messages; a message's last
//! packet may be short.

use std::collections::VecDeque;

use super::SpecError;
use super::packet::NONE;
use super::spec::{Control, FlowSpec, Paths, Recovery};
use super::{Net, Schedule};
use crate::rate_control::{AnyRateControl, RateControl as _};
use crate::units::{PsPerByte, Span, Time};

/// Whether a queue pair may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is to be sent.
    Idle,
    /// Its rate lets it go on at `armed`.
    Paced,
    /// In the ring of its port.
    Ready,
    /// Its window is full.
    Held,
    /// It has given up.
    Failed,
}

/// A message: packets `first..end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) first: u32,
    pub(super) end: u32,
    /// Payload of its last packet.
    pub(super) last: u32,
}

/// Messages that are not acknowledged, and what came out of order.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    pub(super) queue: VecDeque<Message>,
    /// How many of them the sender, and the receiver, is past.
    pub(super) sending: usize,
    pub(super) receiving: usize,
    /// Selective recovery: packets to send again, in order.
    pub(super) again: VecDeque<u32>,
    /// Selective recovery: which packets from `expected` on are there, a bit each.
    pub(super) seen: VecDeque<bool>,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub(super) struct Qp {
    /// Where its routes begin in the arena.
    pub(super) route: u32,
    pub(super) back: u32,
    pub(super) hops: u8,
    pub(super) back_hops: u8,
    pub(super) state: State,
    /// Its first port, and the next queue pair in that port's ring.
    pub(super) port: u32,
    pub(super) next: u32,
    /// Sender: the first packet that is not acknowledged, the next to send, one past the last ever sent, one past the last.
    pub(super) una: u32,
    pub(super) nxt: u32,
    pub(super) top: u32,
    pub(super) end: u32,
    /// Packets before it are there to be sent; what it is fed with, if it is, tells of more.
    pub(super) readable: u32,
    pub(super) fed: bool,
    /// What it receives is passed on packet by packet.
    pub(super) onward: bool,
    /// One past the last packet that was ever in order at the receiver.
    pub(super) taken: u32,
    /// Payload bytes that it sends, or has sent, without a grant, and that have not arrived.
    pub(super) unasked: u64,
    /// Payload bytes that it may still send so: once, before its receiver knows of it.
    pub(super) allowance: u64,
    /// Payload bytes that it has still to ask for.
    pub(super) to_ask: u64,
    /// One past the last packet of the message that is being sent, and wire bytes of that packet.
    pub(super) cut: u32,
    pub(super) cut_wire: u32,
    /// The most packets of that message that move as one.
    pub(super) unit: u8,
    /// The last packet: when it began to leave, and its wire bytes.
    pub(super) last_start: Time,
    pub(super) last_wire: u32,
    /// When the pending event for it is due.
    pub(super) armed: Time,
    /// From when on its window, or its rate, makes it wait; [`Time::MAX`] where neither does.
    pub(super) waits_from: Time,
    /// Payload that arrived for flows that it served earlier.
    pub(super) before: u64,
    pub(super) pace: PsPerByte,
    /// When the rate control's timer is due.
    pub(super) timer: Time,
    /// When something was acknowledged last, or the first packet since an idle time was sent.
    pub(super) progress: Time,
    pub(super) timing: bool,
    pub(super) tries: u16,
    /// Receiver: the next packet in order, one past the last whose absence would have been reported,
    /// and whether it was.
    pub(super) expected: u32,
    /// One past the last packet of the message that is being received; 0 if there is none.
    pub(super) due: u32,
    pub(super) seen_to: u32,
    pub(super) gap: bool,
    /// Packets since the last acknowledgement, and whether one of them was marked.
    pub(super) owed: u32,
    pub(super) owed_marked: u32,
    /// A packet has come whose sender waits for an acknowledgement.
    pub(super) waited_for: bool,
    /// Where units are played: when the tail of the last packet that was sent on to its end arrives there.
    pub(super) last_tail: Time,
    /// When a notice may be sent next.
    pub(super) notice_from: Time,
    /// The endpoint where it ends, and where its choices of a path stand.
    pub(super) end_node: u32,
    /// Its controller goes by acknowledgements.
    pub(super) hears_acks: bool,
    pub(super) flowlet: super::paths::Flowlet,
    pub(super) how: FlowSpec,
    pub(super) rate: AnyRateControl,
    pub(super) outcome: super::FlowOutcome,
}

impl Qp {
    /// What it has waited for its window or its rate until now is counted.
    #[inline]
    pub(super) fn count_wait(&mut self, now: Time) {
        let waited = Span::from_ps(now.as_ps().saturating_sub(self.waits_from.as_ps()));
        match self.state {
            State::Held => self.outcome.windowed += waited,
            State::Paced => self.outcome.paced += waited,
            State::Idle | State::Ready | State::Failed => return,
        }
        self.waits_from = Time::MAX;
    }
}

impl Net {
    /// A queue pair from the near end of `route` to its far end, with acknowledgements over `back`. Returns its number.
    ///
    /// # Errors
    /// If the routes do not join two endpoints, or there is no such class.
    pub fn open(&mut self, route: &[u32], back: &[u32], how: FlowSpec, rate: AnyRateControl) -> Result<u32, SpecError> {
        let joins = |route: &[u32]| {
            let ends = route.iter().map(|link| self.spec.ports.get(*link as usize)).collect::<Option<Vec<_>>>();
            ends.filter(|ports| !ports.is_empty() && ports.len() < 256).and_then(|ports| {
                let chained = ports
                    .windows(2)
                    .all(|pair| pair[0].far == pair[1].near && !self.spec.endpoints[pair[0].far as usize]);
                let (near, far) = (ports[0].near, ports[ports.len() - 1].far);
                let ends = self.spec.endpoints[near as usize] && self.spec.endpoints[far as usize];
                (chained && ends).then_some((near, far))
            })
        };
        let end_node = match (joins(route), joins(back)) {
            (Some((a, b)), Some((c, d))) if (a, b) == (d, c) => b,
            _ => return Err(SpecError::Route),
        };
        if !matches!(how.paths, Paths::Pinned | Paths::Flowlet { .. }) && how.recovery != Recovery::Selective {
            return Err(SpecError::Reorders);
        }
        if how.paths != Paths::Pinned {
            self.hops.toward(end_node, &self.spec);
            if self.hops.length(route[0], end_node, &self.spec) != route.len() {
                return Err(SpecError::Route);
            }
        }
        let control = match self.spec.control {
            Control::Express => 0,
            Control::Class(class) => class,
            Control::WithData => how.class,
        };
        let last = how.class.saturating_add(self.raised(route)).max(control.saturating_add(self.raised(back)));
        if last >= self.classes {
            return Err(SpecError::NoClass(last));
        }
        if self.spec.grants.is_none() && rate.facts().asks_for_grants {
            return Err(SpecError::NoGrants);
        }
        self.telemetry.on |= rate.facts().reads_telemetry;
        let at = self.routes.len() as u32;
        self.routes.extend_from_slice(route);
        self.routes.extend_from_slice(back);
        self.qps.push(Qp {
            route: at,
            back: at + route.len() as u32,
            hops: route.len() as u8,
            back_hops: back.len() as u8,
            state: State::Idle,
            port: route[0],
            next: NONE,
            una: 0,
            nxt: 0,
            top: 0,
            end: 0,
            readable: u32::MAX,
            fed: false,
            onward: false,
            taken: 0,
            unasked: 0,
            allowance: rate.window(),
            to_ask: 0,
            cut: 0,
            cut_wire: 0,
            unit: 1,
            last_start: Time::ZERO,
            last_wire: 0,
            armed: Time::MAX,
            waits_from: Time::MAX,
            before: 0,
            pace: rate.pace(),
            timer: Time::MAX,
            progress: Time::ZERO,
            timing: false,
            tries: 0,
            expected: 0,
            due: 0,
            seen_to: 0,
            gap: false,
            owed: 0,
            owed_marked: 0,
            waited_for: false,
            last_tail: Time::ZERO,
            notice_from: Time::ZERO,
            end_node,
            hears_acks: rate.facts().hears_acks,
            flowlet: super::paths::Flowlet::default(),
            how,
            rate,
            outcome: super::FlowOutcome { qp: self.qps.len() as u32, ..super::FlowOutcome::default() },
        });
        self.messages.push(Messages::default());
        self.lives.push(super::roots::Life::default());
        let qp = self.qps.len() as u32 - 1;
        self.watch(qp, self.ports[route[0] as usize].near, end_node);
        self.consider(qp);
        Ok(qp)
    }

    /// By how many classes links of a route raise what crosses them.
    fn raised(&self, route: &[u32]) -> u8 {
        if !self.raising {
            return 0;
        }
        route.iter().filter(|link| self.ports[**link as usize].raises).count().min(255) as u8
    }

    /// The class in which packets of a queue pair cross the last link of its route.
    pub(crate) fn last_class(&self, qp: u32) -> u8 {
        let state = &self.qps[qp as usize];
        state.how.class + self.raised(&self.routes[state.route as usize..][..usize::from(state.hops)])
    }

    /// The links of a route with the class in which a queue pair's packets wait for each.
    pub(super) fn with_classes<'a>(&'a self, route: &'a [u32], mut class: u8) -> impl Iterator<Item = (u32, u8)> + 'a {
        route.iter().map(move |link| {
            let own = class;
            class += u8::from(self.raising && self.ports[*link as usize].raises);
            (*link, own)
        })
    }

    /// A message of `bytes` of payload; an empty one takes one packet without payload.
    pub fn post(&mut self, qp: u32, bytes: u64, now: Time, s: &mut impl Schedule) {
        self.announce(qp, bytes, now);
        self.ask_for(qp, now, s);
        if self.qps[qp as usize].state == State::Idle {
            self.go_on(qp, now, s);
        }
    }

    /// The next message is of `bytes`.
    pub(super) fn announce(&mut self, qp: u32, bytes: u64, now: Time) {
        if self.has_to_ask(qp) {
            self.qps[qp as usize].to_ask += bytes;
        }
        let mtu = u64::from(self.spec.mtu);
        let state = &mut self.qps[qp as usize];
        let packets = bytes.div_ceil(mtu).max(1);
        let last = (bytes - (packets - 1) * mtu) as u32;
        let first = state.end;
        self.consider_message(qp, u32::try_from(packets).unwrap_or(u32::MAX));
        let state = &mut self.qps[qp as usize];
        state.end = first.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX));
        let end = state.end;
        let messages = &self.messages[qp as usize];
        if messages.receiving == messages.queue.len() {
            self.expecting += 1;
            state.due = end;
        }
        self.messages[qp as usize].queue.push_back(Message { first, end, last });
        if first == state.una {
            self.busy += 1;
            state.progress = now;
            state.rate.start(now);
            state.pace = state.rate.pace();
            self.observer.progress = self.observer.progress.max(now);
            self.life_begins(qp, now);
        }
        if self.qps[qp as usize].nxt >= self.qps[qp as usize].cut {
            self.find_message(qp);
        }
    }

    /// Finds the message of the next packet to send.
    pub(super) fn find_message(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        let messages = &mut self.messages[qp as usize];
        messages.sending = messages.queue.partition_point(|message| message.end <= state.nxt);
        if let Some(message) = messages.queue.get(messages.sending) {
            state.cut = message.end;
            state.cut_wire = message.last + self.spec.overhead;
            if self.spec.grain > 1 {
                let share = (message.end - message.first) / self.spec.least_units.max(1);
                self.qps[qp as usize].unit = share.clamp(1, self.grain()) as u8;
            }
        } else {
            state.cut = state.end;
        }
    }

    /// Wire bytes of packet `psn`, which is not acknowledged.
    pub(super) fn wire_of(&self, qp: u32, psn: u32) -> u32 {
        let messages = &self.messages[qp as usize].queue;
        let at = messages.partition_point(|message| message.end <= psn);
        let payload = messages.get(at).filter(|m| m.end == psn + 1).map_or(self.spec.mtu, |m| m.last);
        payload + self.spec.overhead
    }
}
