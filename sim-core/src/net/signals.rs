//! What ports are told: pauses, ends of pauses, credits.

use std::collections::VecDeque;

use super::flow_control::{Scheme, Signal, Tell};
use super::{EXPIRY, Net, SIGNAL, Schedule, word};
use crate::event::Phase;
use crate::units::Time;

/// What is on its way to a port, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    queue: VecDeque<(Time, u8, Tell)>,
    /// An event is set for the first credit.
    called: bool,
    /// Since when classes are held, in order of the expiries that are due.
    expiries: VecDeque<(Time, u8)>,
    /// Since when each class is held.
    since: [Time; super::spec::MOST_CLASSES],
}

impl Net {
    /// Sends a signal over the other direction's wire.
    pub(super) fn tell(&mut self, signal: Signal, now: Time, s: &mut impl Schedule) {
        let twin = self.ports[signal.port as usize].twin;
        let wire = &mut self.ports[twin as usize];
        let start = now.max(wire.free);
        if signal.wire != 0 {
            wire.free = start + wire.cost(signal.wire);
        }
        let at =
            signal.acts_after.map_or_else(|| start.max(wire.free) + (wire.latency + signal.extra), |after| now + after);
        let told = &mut self.told[signal.port as usize];
        // Frames of one wire arrive in the order in which they left.
        let at = told.queue.back().map_or(at, |(last, ..)| at.max(*last));
        told.queue.push_back((at, signal.class, signal.tell));
        if matches!(signal.tell, Tell::Credit(_)) {
            self.totals.credit_packets += 1;
            // A credit is looked at when it is needed; only a port that waits for one has to be called.
            if self.ports[signal.port as usize].stopped != 0 && !told.called {
                let first = told.queue[0].0;
                told.called = true;
                s.at(first, word(Phase::Port, signal.port, SIGNAL));
            }
        } else {
            s.at(at, word(Phase::Port, signal.port, SIGNAL));
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
    fn take_credits(&mut self, link: u32, now: Time) {
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
        let opened = port.stopped & heard;
        port.stopped &= !heard;
        let opened = opened & !port.drained;
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
        if tell == Tell::Pause {
            if port.stopped & bit == 0 {
                port.stopped |= bit;
                let at = self.queue_at(link, class);
                self.counters[at].pauses += 1;
                self.held(link, class, now, s);
            }
        } else if port.stopped & bit != 0 || port.given_up & bit != 0 {
            port.stopped &= !bit;
            port.given_up &= !bit;
            self.released(link, class, now);
            self.kick(link, now, s);
        }
    }

    /// A class at a port is held from now on.
    pub(super) fn held(&mut self, link: u32, class: u8, now: Time, s: &mut impl Schedule) {
        let at = self.queue_at(link, class);
        self.queues[at].waited = true;
        let told = &mut self.told[link as usize];
        told.since[class as usize] = now;
        if let Some(after) = self.spec.watchdog {
            told.expiries.push_back((now, class));
            s.at(now + after, word(Phase::Port, link, EXPIRY));
        }
        self.call_stall_check(now, s);
    }

    pub(super) fn released(&mut self, link: u32, class: u8, now: Time) {
        let at = self.queue_at(link, class);
        let since = self.told[link as usize].since[class as usize];
        self.counters[at].held += now.since(since);
    }

    /// A class was held for as long as the watchdog lets it: it drops what it has until it is released.
    pub(super) fn expired(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let told = &mut self.told[link as usize];
        let Some((since, class)) = told.expiries.pop_front() else { return };
        let port = &mut self.ports[link as usize];
        if port.stopped >> class & 1 == 0 || told.since[class as usize] != since || port.endpoint {
            return;
        }
        port.given_up |= 1 << class;
        let at = self.queue_at(link, class);
        while self.queues[at].packets > 0 {
            let slot = self.dequeue(link, class, now);
            let (from, wire) = (self.packets[slot].from, self.packets[slot].wire);
            self.totals.watchdog_drops += 1;
            self.counters[at].drops += 1;
            self.packets.give(slot);
            let place = super::flow_control::Place { node: self.ports[link as usize].near, from, class };
            if let Some(signal) = self.scheme.release(place, wire) {
                self.tell(signal, now, s);
            }
        }
    }

    /// Holds a class of a port for ever, as a faulty device at its far end would.
    pub fn storm(&mut self, link: u32, class: u8, now: Time, s: &mut impl Schedule) {
        if self.ports[link as usize].stopped >> class & 1 == 0 {
            self.ports[link as usize].stopped |= 1 << class;
            self.held(link, class, now, s);
        }
    }

    /// Books what is held at the end of a run.
    pub(super) fn close_holds(&mut self, now: Time) {
        for link in 0..self.ports.len() as u32 {
            for class in 0..self.classes {
                let port = &self.ports[link as usize];
                if (port.stopped | port.drained) >> class & 1 != 0 {
                    self.released(link, class, now);
                    self.told[link as usize].since[class as usize] = now;
                }
            }
        }
    }
}
