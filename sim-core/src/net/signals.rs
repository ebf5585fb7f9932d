//! What ports are told: pauses, ends of pauses, credits.

use std::collections::VecDeque;

use super::flow_control::{Scheme, Signal, Tell};
use super::spec::{FlowControlSpec, Storm};
use super::{EXPIRY, Net, PortCounters, SIGNAL, STORM, Schedule, word};
use crate::event::Phase;
use crate::units::{Bytes, Span, Time};

/// What is on its way to a port, in order.
#[derive(Clone, Debug)]
pub(super) struct Told {
    queue: VecDeque<(Time, u8, Tell)>,
    /// An event is set for the first credit.
    called: bool,
    /// Since when classes are held, in order of the expiries that are due.
    expiries: VecDeque<(Time, u8)>,
    /// Since when each class is held; [`Time::MAX`]: it is not.
    since: [Time; super::spec::MOST_CLASSES],
    /// Since when the far end asks for a pause of each class.
    asked: [Time; super::spec::MOST_CLASSES],
    /// Classes that a faulty device holds, and those that frames have paused.
    stormed: u16,
    paused: u16,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            called: false,
            expiries: VecDeque::new(),
            since: [Time::MAX; super::spec::MOST_CLASSES],
            asked: [Time::ZERO; super::spec::MOST_CLASSES],
            stormed: 0,
            paused: 0,
        }
    }
}

impl Told {
    /// Puts a signal between others that are known of ahead, for packets of units: those of a class arrive in the order in
    /// which they left. When it arrives, and whether it is the first.
    #[cold]
    fn put(&mut self, at: Time, class: u8, tell: Tell) -> (Time, bool) {
        let last = self.queue.iter().rev().find(|(_, other, _)| *other == class).map(|(last, ..)| *last);
        let at = last.map_or(at, |last| at.max(last));
        let place = self.queue.iter().rposition(|(other, ..)| *other <= at).map_or(0, |before| before + 1);
        self.queue.insert(place, (at, class, tell));
        (at, place == 0)
    }
}

impl Net {
    /// Sends a signal over the other direction's wire.
    pub(super) fn tell(&mut self, signal: Signal, now: Time, s: &mut impl Schedule) {
        self.tell_later(signal, Span::ZERO, now, s);
    }

    /// The same, if it is known now that it will be sent `later`. The wire is taken at once, which for a frame makes no
    /// difference.
    pub(super) fn tell_later(&mut self, signal: Signal, later: Span, now: Time, s: &mut impl Schedule) {
        let twin = self.ports[signal.port as usize].twin;
        let wire = &mut self.ports[twin as usize];
        let gone = if wire.carries_unit(now) {
            wire.take_between(wire.cost(signal.wire), now)
        } else {
            let start = now.max(wire.free);
            if signal.wire != 0 {
                wire.free = start + wire.cost(signal.wire);
            }
            start.max(wire.free)
        };
        let at = signal.acts_after.map_or_else(|| gone + (wire.latency + signal.extra), |after| now + after) + later;
        if !matches!(signal.tell, Tell::Credit(_)) {
            self.count_pause(&signal, now);
        }
        let told = &mut self.told[signal.port as usize];
        let early = told.queue.back().is_some_and(|(last, ..)| *last > at);
        let (at, first) = if early {
            told.put(at, signal.class, signal.tell)
        } else {
            told.queue.push_back((at, signal.class, signal.tell));
            (at, false)
        };
        if matches!(signal.tell, Tell::Credit(_)) {
            self.totals.credit_packets += 1;
            // A credit is looked at when it is needed; only a port that waits for one has to be called.
            // One that comes before what the port is called for calls it again.
            let waits = self.ports[signal.port as usize].stopped != 0;
            if waits && !told.called || first && told.called {
                // Credits that a port had no need of are not taken in before.
                let first = told.queue[0].0.max(now);
                told.called = true;
                s.at(first, word(Phase::Port, signal.port, SIGNAL));
            }
        } else {
            s.at(at, word(Phase::Port, signal.port, SIGNAL));
        }
    }

    /// Books what a node has asked of a port, and how often it had to ask again.
    fn count_pause(&mut self, signal: &Signal, now: Time) {
        let at = self.queue_at(signal.port, signal.class);
        let asked = &mut self.told[signal.port as usize].asked[usize::from(signal.class)];
        if signal.tell == Tell::Pause {
            *asked = now;
            self.counters[at].asked += 1;
            return;
        }
        let lasted = now.since(*asked);
        let mut counters = self.counters[at];
        self.book_pause(signal.port, lasted, &mut counters);
        self.counters[at] = counters;
    }

    fn book_pause(&self, link: u32, lasted: Span, counters: &mut PortCounters) {
        counters.asked_for += lasted;
        if let FlowControlSpec::Shared(shared) = &self.spec.flow_control
            && shared.pause.quanta > 0
        {
            // A quantum is 512 bit times; a frame follows at half of what the last one asked for.
            let quantum = self.ports[link as usize].cost.cost(Bytes::new(64)).as_ps();
            let half = (quantum * u64::from(shared.pause.quanta) / 2).max(1);
            counters.refreshes += lasted.as_ps() / half;
        }
    }

    /// Takes in credits that have arrived; whether the packet may go now. If not, the port will be called.
    pub(super) fn catch_up(&mut self, link: u32, class: u8, wire: u32, now: Time, s: &mut impl Schedule) -> bool {
        self.take_credits(link, now);
        if self.scheme.may_send(link, class, wire) {
            return true;
        }
        let told = &mut self.told[link as usize];
        if let Some((at, ..)) = told.queue.front()
            && !told.called
        {
            told.called = true;
            s.at(*at, word(Phase::Port, link, SIGNAL));
        }
        false
    }

    /// Takes in the credits that have arrived; the classes that they are for are held no longer.
    pub(super) fn take_credits(&mut self, link: u32, now: Time) {
        let Scheme::Credits(credits) = &mut self.scheme else { return };
        let told = &mut self.told[link as usize];
        let mut heard = 0u16;
        while let Some((at, class, Tell::Credit(limit))) = told.queue.front().copied()
            && at <= now
        {
            credits.advertised(link, class, limit);
            heard |= 1 << class;
            told.queue.pop_front();
        }
        let port = &mut self.ports[link as usize];
        let opened = port.stopped & heard & !self.told[link as usize].stormed;
        port.stopped &= !opened;
        for class in (0..self.classes).filter(|class| opened >> class & 1 != 0) {
            self.released(link, class, now);
        }
    }

    /// A signal is at a port.
    pub(super) fn signalled(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let told = &mut self.told[link as usize];
        if let Scheme::Credits(_) = self.scheme {
            told.called = false;
            self.take_credits(link, now);
            self.kick(link, now, s);
            // Whoever is still held by another class's lack waits for the next one.
            let told = &mut self.told[link as usize];
            if self.ports[link as usize].stopped != 0
                && !told.called
                && let Some((at, ..)) = told.queue.front()
            {
                told.called = true;
                s.at(*at, word(Phase::Port, link, SIGNAL));
            }
            return;
        }
        let Some((_, class, tell)) = told.queue.pop_front() else { return };
        let bit = 1 << class;
        let port = &mut self.ports[link as usize];
        told.paused = if tell == Tell::Pause { told.paused | bit } else { told.paused & !bit };
        if told.stormed & bit != 0 {
            return;
        }
        if tell == Tell::Pause {
            if port.stopped & bit == 0 {
                port.stopped |= bit;
                let at = self.queue_at(link, class);
                self.counters[at].pauses += 1;
                self.held(link, class, now, s);
            }
        } else if port.stopped & bit != 0 || port.given_up & bit != 0 {
            port.stopped &= !bit;
            self.released(link, class, now);
            self.kick(link, now, s);
        }
    }

    /// A class at a port is held from now on.
    pub(super) fn held(&mut self, link: u32, class: u8, now: Time, s: &mut impl Schedule) {
        let at = self.queue_at(link, class);
        self.queues[at].waited = true;
        let told = &mut self.told[link as usize];
        if told.since[class as usize] != Time::MAX {
            return;
        }
        told.since[class as usize] = now;
        if let Some(after) = self.spec.watchdog {
            told.expiries.push_back((now, class));
            s.at(now + after, word(Phase::Port, link, EXPIRY));
        }
        self.is_held_back();
        self.call_stall_check(now, s);
    }

    /// A class at a port is held no longer, unless it is for another reason.
    pub(super) fn released(&mut self, link: u32, class: u8, now: Time) {
        let (at, port) = (self.queue_at(link, class), &mut self.ports[link as usize]);
        let since = &mut self.told[link as usize].since[class as usize];
        if (port.stopped | port.drained) >> class & 1 != 0 {
            return;
        }
        port.given_up &= !(1 << class);
        if *since != Time::MAX {
            self.counters[at].held += now.since(*since);
            *since = Time::MAX;
        }
    }

    /// How long a class of a port has been held until `now`.
    pub(super) fn held_until(&self, link: u32, class: u8, now: Time) -> Span {
        let held = self.counters[self.queue_at(link, class)].held;
        let since = self.told[link as usize].since[class as usize];
        if since == Time::MAX { held } else { held + now.since(since) }
    }

    /// Adds what is asked of a port and goes on.
    pub(super) fn asked_until(&self, link: u32, class: u8, now: Time, counters: &mut PortCounters) {
        if self.scheme.is_asking(link, class) {
            let asked = self.told[link as usize].asked[usize::from(class)];
            self.book_pause(link, now.since(asked), counters);
        }
    }

    /// A class was held for as long as the watchdog lets it: it drops what it has until it is released.
    pub(super) fn expired(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let told = &mut self.told[link as usize];
        let Some((since, class)) = told.expiries.pop_front() else { return };
        let port = &mut self.ports[link as usize];
        if (port.stopped | port.drained) >> class & 1 == 0 || told.since[class as usize] != since || port.endpoint {
            return;
        }
        port.given_up |= 1 << class;
        let at = self.queue_at(link, class);
        while self.queues[at].packets > 0 {
            let slot = self.dequeue(link, class, at, u32::MAX, now);
            let (from, wire) = (self.packets[slot].from, self.packets[slot].wire);
            self.totals.watchdog_drops += u64::from(self.packets[slot].packets);
            self.counters[at].watchdog_drops += u64::from(self.packets[slot].packets);
            self.packets.give(slot);
            let place = super::flow_control::Place { node: self.ports[link as usize].near, from, class };
            if let Some(signal) = self.scheme.release(self.room(place), wire) {
                self.tell(signal, now, s);
            }
            if self.inputs.block() {
                self.advance(place, now, s);
            }
        }
    }

    /// Holds a class of a port for ever, as a faulty device at its far end would.
    pub fn storm(&mut self, link: u32, class: u8, now: Time, s: &mut impl Schedule) {
        self.begin_storm(Storm { port: link, class, from: now, until: Time::MAX }, now, s);
    }

    /// A faulty device has begun to hold a port; nothing has happened since.
    pub(super) fn begin_storm(&mut self, storm: Storm, now: Time, s: &mut impl Schedule) {
        let (link, class) = (storm.port, storm.class);
        let at = self.queue_at(link, class);
        let stopped = self.ports[link as usize].stopped >> class & 1 != 0;
        self.counters[at].pauses += u64::from(!stopped);
        if storm.until <= now {
            // It is over, and nobody has met it.
            if !stopped {
                self.counters[at].held += storm.until.since(storm.from);
            }
            return;
        }
        self.told[link as usize].stormed |= 1 << class;
        self.ports[link as usize].stopped |= 1 << class;
        self.held(link, class, now, s);
        let told = &mut self.told[link as usize];
        if told.since[usize::from(class)] == now {
            told.since[usize::from(class)] = storm.from;
            if let Some(expiry) = told.expiries.back_mut() {
                expiry.0 = storm.from;
            }
        }
        if storm.until < Time::MAX {
            s.at(storm.until, word(Phase::Timer, STORM, self.queue_at(link, class) as u32));
        }
    }

    /// A faulty device lets go of a port.
    pub(super) fn end_storm(&mut self, queue: u32, now: Time, s: &mut impl Schedule) {
        let classes = u32::from(self.classes);
        let (link, class) = (queue / classes, (queue % classes) as u8);
        let bit = 1 << class;
        let told = &mut self.told[link as usize];
        told.stormed &= !bit;
        if told.paused & bit != 0 {
            return;
        }
        let port = &mut self.ports[link as usize];
        port.stopped &= !bit;
        self.released(link, class, now);
        self.kick(link, now, s);
    }
}
