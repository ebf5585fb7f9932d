//! Units of several packets: what one record, with one event where a packet has one, does at each place for its packets.
//!
//! A unit is a run of packets of one message that leave one after the other; packets keep their numbers, so it can be cut
//! anywhere: where credits last for some of them, where one is lost, where a buffer has no room for the rest. It is told
//! of at a node when its first packet is there, and at an endpoint with its tail.
//!
//! What a node does for a unit when its first packet comes, or begins to leave, is booked for all its packets, at the
//! instants that are theirs: pauses and credits go out when the packet comes or leaves that causes them. Room is taken when
//! the first packet comes and, but for the last packet's, given back when the first one leaves: both are (m − 1)/2 packets
//! early in the mean. A port that is held sends a unit that has begun to its end.

use super::flow_control::{Admit, Place, Scheme};
use super::packet::{CHOSEN, FREED, Kind, MARKED, NONE, Packet, THROUGH};
use super::port::Port;
use super::spec::{MarkAt, Marking};
use super::{Net, Schedule, marking, word};
use crate::event::Phase;
use crate::rate_control::RateControl as _;
use crate::units::{Bytes, Span, Time};

impl Packet {
    /// Wire bytes of a unit's last packet.
    #[inline]
    pub(super) fn last_wire(&self, full: u32) -> u32 {
        self.wire - (u32::from(self.packets) - 1) * full
    }

    /// How many of its packets were marked.
    #[inline]
    pub(super) fn marks(&self) -> u32 {
        if self.packets == 1 { u32::from(self.flags & MARKED != 0) } else { u32::from(self.marked) }
    }

    fn set_marks(&mut self, marks: u16) {
        self.marked = if self.packets == 1 { 0 } else { marks };
        self.flags = if marks == 0 { self.flags & !MARKED } else { self.flags | MARKED };
    }
}

impl Port {
    /// A unit is on its way out.
    #[inline]
    pub(super) fn carries_unit(&self, now: Time) -> bool {
        self.unit && self.done != Time::MAX && self.done > now
    }

    /// Something goes between two packets of the unit that is on its way out; when it has left. The rest of the unit is
    /// taken to be where it would have been, and what follows it comes as much later.
    pub(super) fn take_between(&mut self, cost: Span, now: Time) -> Time {
        let rest = self.done.since(now).as_ps() % self.full.as_ps().max(1);
        self.between = self.between.max(now + Span::from_ps(rest)) + cost;
        self.free += cost;
        self.between
    }
}

/// Packets that an endpoint's port takes at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) packets: u32,
    pub(super) wire: u32,
    /// When the last of them is there, and when it begins to leave.
    pub(super) tail: Time,
    pub(super) sent: Time,
}

impl Net {
    /// The next unit of a queue pair that is to send: packets, and wire bytes.
    pub(super) fn next_unit(&self, qp: u32) -> (u32, u32) {
        let state = &self.qps[qp as usize];
        let full = self.spec.full();
        let mut packets = u32::from(state.unit).min(self.grain()).min(state.cut.saturating_sub(state.nxt));
        if state.nxt < state.top {
            // What is sent again and what is new are counted apart.
            packets = packets.min(state.top - state.nxt);
        }
        let window = state.rate.window().min(state.how.window);
        if window != u64::MAX {
            let out = u64::from(state.nxt - state.una) * u64::from(self.spec.mtu);
            let room = window.saturating_sub(out).div_ceil(u64::from(self.spec.mtu));
            packets = packets.min(u32::try_from(room).unwrap_or(u32::MAX));
        }
        // A sender that has slowed down is heard of as often, packet by packet: a unit takes no longer at its pace than a whole one
        // at the line's. Where others wait, the port is what slows it down, and turns are of equal size.
        let (line, pace) =
            (self.ports[state.port as usize].full, state.pace.cost_of_segment(Bytes::new(u64::from(full))));
        if pace > line && state.next == NONE {
            let slowed = u64::from(state.unit) * line.as_ps() / pace.as_ps();
            packets = packets.min(u32::try_from(slowed).unwrap_or(u32::MAX));
        }
        if state.fed {
            packets = packets.min(self.told_upto(qp).saturating_sub(state.nxt));
        }
        let packets = packets.max(1);
        let last = if state.nxt + packets == state.cut { state.cut_wire } else { full };
        (packets, (packets - 1) * full + last)
    }

    /// Sets the tail of a unit that is to cross `link` so that what a packet is held for, added to it, is when its last packet has
    /// left as far as that depends on when it came: it is held itself, and a short one waits for the full one before it.
    #[cold]
    pub(super) fn draw_out(&mut self, slot: u32, link: u32) {
        let packet = self.packets[slot];
        let port = &self.ports[link as usize];
        let last = port.cost(packet.last_wire(self.spec.full()));
        let (held, held_full) = (last.min(port.hold), port.full.min(port.hold));
        let mut left = packet.tail + held;
        if packet.from != NONE {
            let gap = self.ports[packet.from as usize].cost(packet.last_wire(self.spec.full()));
            let before = packet.tail.as_ps().saturating_sub(gap.as_ps());
            left = left.max(Time::from_ps(before) + held_full + last);
        }
        self.packets[slot].tail = Time::from_ps(left.as_ps().saturating_sub(held_full.as_ps()));
    }

    /// An endpoint's port takes a unit of at most `most` bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn take_unit(&self, qp: u32, port: u32, most: u32, start: Time, now: Time) -> Run {
        let (mut packets, mut wire) = self.next_unit(qp);
        if wire > most {
            packets = most / self.spec.full();
            wire = packets * self.spec.full();
        }
        // An acknowledgement is for the last one.
        let sent = start + self.ports[port as usize].cost((packets - 1) * self.spec.full());
        Run { packets, wire, tail: if packets > 1 { self.tail_of_unit(qp, packets, now) } else { now }, sent }
    }

    /// A control packet goes between two packets of the unit in service.
    #[cold]
    pub(super) fn cross_between(&mut self, link: u32, slot: u32, now: Time, s: &mut impl Schedule) {
        let port = &mut self.ports[link as usize];
        let packet = &mut self.packets[slot];
        let cost = port.cost(packet.wire);
        let held = cost.min(port.hold);
        let gone = port.take_between(cost, now);
        packet.tail = gone.max(packet.tail + held) + port.latency;
        packet.at += 1;
        packet.left -= 1;
        packet.from = link;
        let start = Time::from_ps(gone.as_ps() - cost.as_ps());
        let mut at = start + (held + port.latency);
        if port.last {
            at = self.slip_in(link, slot);
        } else {
            port.pipe.push(slot, &mut self.packets);
        }
        s.at(at, word(Phase::Arrival, link, 0));
    }

    /// Puts a packet on the wire where it belongs by the instant at which it arrives.
    #[cold]
    pub(super) fn slip_in(&mut self, link: u32, slot: u32) -> Time {
        let packet = &mut self.packets[slot];
        if packet.kind == Kind::Data && packet.flags & CHOSEN == 0 {
            // What comes behind a unit that is slow to come doesn't overtake its last packet.
            let last = self.ports[link as usize].cost(packet.last_wire(self.spec.full()));
            let before = &mut self.qps[packet.qp as usize].last_tail;
            packet.tail = packet.tail.max(*before + last);
            *before = packet.tail;
        }
        self.put_on_wire(link, slot);
        self.packets[slot].tail
    }

    fn put_on_wire(&mut self, link: u32, slot: u32) {
        let (mut before, mut at) = (NONE, self.ports[link as usize].pipe.head);
        let tail = self.packets[slot].tail;
        let last = self.ports[link as usize].pipe.tail;
        if at == NONE || self.packets[last].tail <= tail {
            self.ports[link as usize].pipe.push(slot, &mut self.packets);
            return;
        }
        while self.packets[at].tail <= tail {
            (before, at) = (at, self.packets[at].next);
        }
        self.packets[slot].next = at;
        if before == NONE {
            self.ports[link as usize].pipe.head = slot;
        } else {
            self.packets[before].next = slot;
        }
    }

    /// The packets `from..to` of a unit, as a record of their own. The record of the whole stays as it is.
    fn part_of(&mut self, slot: u32, from: u32, to: u32) -> u32 {
        let full = self.spec.full();
        let whole = self.packets[slot];
        let all = u32::from(whole.packets);
        let behind = if to == all { 0 } else { (all - to - 1) * full + whole.last_wire(full) };
        let mut part = whole;
        part.psn += from;
        part.packets = (to - from) as u8;
        part.wire = whole.wire - from * full - behind;
        if whole.from != NONE {
            let later = self.ports[whole.from as usize].cost(behind);
            part.tail = Time::from_ps(whole.tail.as_ps().saturating_sub(later.as_ps()));
        }
        // Marks are spread evenly.
        let marks = whole.marks();
        part.set_marks((marks * to / all - marks * from / all) as u16);
        let part = self.packets.take(part);
        self.telemetry.copy(slot, part);
        part
    }

    /// Leaves of a unit in its place only the packets from `from` on, or up to it.
    fn keep(&mut self, slot: u32, from: u32, to: u32) {
        let part = self.part_of(slot, from, to);
        let next = self.packets[slot].next;
        self.packets[slot] = Packet { next, ..self.packets[part] };
        self.packets.give(part);
    }

    /// What is left of a unit has come over the wire of a link.
    fn arrived(&mut self, slot: u32, place: Place, now: Time, s: &mut impl Schedule) {
        let packet = &self.packets[slot];
        self.come(slot, (packet.kind, packet.left, packet.wire), place, now, s);
    }

    /// The wire may lose packets of a unit; what is left of it goes on in as many pieces as there are.
    #[cold]
    pub(super) fn lose_of_unit(&mut self, slot: u32, link: u32, place: Place, now: Time, s: &mut impl Schedule) {
        let packet = self.packets[slot];
        let (all, full) = (u32::from(packet.packets), self.spec.full());
        let lost = (0..all).fold(0u64, |lost, at| lost | u64::from(self.is_lost(link, place.class)) << at);
        if lost == 0 {
            self.arrived(slot, place, now, s);
            return;
        }
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < all {
            let to = (at..all).find(|packet| lost >> packet & 1 != 0).unwrap_or(all);
            if to > at {
                parts.push(self.part_of(slot, at, to));
            }
            if to < all && packet.flags & FREED == 0 {
                let wire = if to + 1 == all { packet.last_wire(full) } else { full };
                self.free_unseen(place, wire, now, s);
            }
            at = to + 1;
        }
        self.packets.give(slot);
        for part in parts {
            self.arrived(part, place, now, s);
        }
    }

    /// A unit asks for room at a node, packet by packet: the first that finds none is dropped, with those behind it.
    #[cold]
    pub(super) fn enter_unit(
        &mut self,
        slot: u32,
        (next, at): (u32, usize),
        place: Place,
        now: Time,
        s: &mut impl Schedule,
    ) {
        let packet = self.packets[slot];
        let (all, full) = (u32::from(packet.packets), self.spec.full());
        let depth = self.queues[at].bytes;
        let room = self.room(place);
        let gap = self.ports[place.from as usize].full.as_ps();
        // Where nothing waits, each packet leaves as the next one comes.
        let through = self.goes_through(next, at, place, now);
        let mut kept = 0;
        while kept < all {
            let wire = if kept + 1 == all { packet.last_wire(full) } else { full };
            if through
                && kept > 0
                && let Some(signal) = self.scheme.release(room, full)
            {
                self.tell_later(signal, Span::from_ps(gap * u64::from(kept)), now, s);
            }
            match self.scheme.admit(room, wire, self.depth_found(next, place, depth, kept)) {
                Admit::Keep(None) => {}
                Admit::Keep(Some(signal)) => {
                    self.tell_later(signal, Span::from_ps(gap * u64::from(kept)), now, s);
                }
                Admit::Drop { fault } => {
                    let dropped = u64::from(all - kept);
                    self.totals.drops += dropped;
                    self.counters[at].drops += dropped;
                    if fault {
                        self.totals.headroom_drops += dropped;
                        self.counters[at].headroom_drops += dropped;
                    }
                    break;
                }
            }
            kept += 1;
        }
        if kept == 0 {
            self.packets.give(slot);
            return;
        }
        if kept < all {
            self.keep(slot, 0, kept);
        }
        if through {
            self.packets[slot].flags |= THROUGH;
        }
        if self.inputs.waits(place, slot, &mut self.packets) {
            return;
        }
        if self.packets[slot].packets > 1 {
            self.join_unit(next, at, slot, place, now);
        } else {
            self.join(next, at, slot, place, full, now);
        }
        self.kick(next, now, s);
    }

    /// A unit that has room joins the queue of its next port.
    #[cold]
    pub(super) fn join_unit(&mut self, next: u32, at: usize, slot: u32, place: Place, now: Time) {
        let depth = self.queues[at].bytes;
        if let Marking::Red { at: MarkAt::Enqueue, .. } = self.spec.classes[place.class as usize].marking {
            self.mark_unit_that_comes(slot, next, place, depth);
        }
        // A unit's first packet leaves a port that sends as fast as the last one comes.
        let most = self.most_of_unit(slot, next, place);
        self.push(next, at, slot, place, (self.packets[slot].wire, most), now);
    }

    /// Whether a unit that comes to a port leaves it as it comes.
    fn goes_through(&self, next: u32, at: usize, place: Place, now: Time) -> bool {
        let port = &self.ports[next as usize];
        let idle = !port.scheduled && port.free <= now && port.ready == 0 && self.queues[at].packets == 0;
        let open = (port.stopped | port.drained) >> place.class & 1 == 0 && !self.inputs.block();
        idle && open && matches!(self.scheme, Scheme::Shared(_)) && port.full <= self.ports[place.from as usize].full
    }

    /// The depth that a unit's packet of this number finds, if nothing else comes meanwhile and the port sends all along. Other
    /// units are counted when their first packets come, so what comes meanwhile is in `depth`.
    fn depth_found(&self, next: u32, place: Place, depth: u64, number: u32) -> u64 {
        let port = &self.ports[next as usize];
        let full = u64::from(self.spec.full());
        let (gap, cost) = (self.ports[place.from as usize].full.as_ps(), port.full.as_ps().max(1));
        let held = (port.stopped | port.drained) >> place.class & 1 != 0;
        let sent = if held { 0 } else { (u128::from(full) * u128::from(gap.min(cost)) / u128::from(cost)) as u64 };
        depth + u64::from(number) * (full - sent)
    }

    /// What a unit adds to the largest depth of a queue.
    fn most_of_unit(&self, slot: u32, next: u32, place: Place) -> u32 {
        let packet = &self.packets[slot];
        let full = self.spec.full();
        (self.depth_found(next, place, 0, u32::from(packet.packets) - 1) as u32 + full).min(packet.wire)
    }

    /// Draws for each packet of a unit that comes to a queue.
    fn mark_unit_that_comes(&mut self, slot: u32, next: u32, place: Place, depth: u64) {
        let marking = self.spec.classes[place.class as usize].marking;
        let packet = &self.packets[slot];
        let unmarked = u32::from(packet.packets) - packet.marks();
        let mut marks = 0;
        for number in 0..unmarked {
            let depth = self.depth_found(next, place, depth, number);
            marks += u16::from(marking::marks(marking, depth, true, next, &mut self.draws));
        }
        self.book_marks(slot, next, place.class, marks);
    }

    /// Draws for each packet of a unit that begins to leave a queue. A packet leaves behind what the first one does: as much comes
    /// meanwhile as is sent.
    #[cold]
    pub(super) fn mark_unit_that_leaves(&mut self, slot: u32, link: u32, class: u8, at: usize, left: u64, now: Time) {
        let marking = self.spec.classes[class as usize].marking;
        let packet = self.packets[slot];
        let waited = match marking {
            Marking::Red { at: MarkAt::Dequeue, .. } => false,
            Marking::Root { .. } => core::mem::take(&mut self.queues[at].waited),
            Marking::Red { .. } | Marking::Off => return,
        };
        let gap = self.ports[packet.from as usize].full.as_ps().max(1);
        let coming = packet.tail.since(now).as_ps().div_ceil(gap);
        let here = u64::from(packet.packets - 1).saturating_sub(coming);
        let depth = left + here * u64::from(self.spec.full());
        let mut marks = 0;
        for _ in packet.marks()..u32::from(packet.packets) {
            marks += u16::from(marking::marks(marking, depth, !waited, link, &mut self.draws));
        }
        self.book_marks(slot, link, class, marks);
    }

    fn book_marks(&mut self, slot: u32, link: u32, class: u8, marks: u16) {
        let packet = &mut self.packets[slot];
        packet.set_marks(packet.marks() as u16 + marks);
        self.totals.marks += u64::from(marks);
        let at = self.queue_at(link, class);
        self.counters[at].marks += u64::from(marks);
    }

    /// How many bytes of a unit of `unit` bytes credits last for; for a packet they do.
    #[cold]
    pub(super) fn credited_of_unit(&mut self, link: u32, class: u8, unit: u32, now: Time) -> u32 {
        self.take_credits(link, now);
        let Scheme::Credits(credits) = &self.scheme else { return unit };
        unit.min(credits.room(link, class).max(1).saturating_mul(self.spec.full()))
    }

    /// Takes the packets in front of a unit that `most` bytes are enough for out of a queue; the rest stays where it is.
    #[cold]
    pub(super) fn dequeue_part(&mut self, link: u32, class: u8, at: usize, most: u32, now: Time) -> u32 {
        let head = self.inputs.peek(&self.queues[at]);
        let (all, packets) = (u32::from(self.packets[head].packets), most / self.spec.full());
        let front = self.part_of(head, 0, packets);
        self.keep(head, packets, all);
        let queue = &mut self.queues[at];
        queue.bytes -= u64::from(self.packets[front].wire);
        let left = queue.bytes;
        self.ports[link as usize].part = true;
        if packets > 1 {
            self.mark_unit_that_leaves(front, link, class, at, left, now);
        } else {
            self.mark_at_dequeue(front, link, class, at, left);
        }
        front
    }

    /// A unit begins to leave over `link`: the room of all packets but the last is given back, in the order in which they leave;
    /// at an endpoint, that of all. Returns the wire bytes whose room is given back at its end.
    #[cold]
    pub(super) fn free_unit(&mut self, slot: u32, link: u32, place: Place, now: Time, s: &mut impl Schedule) -> u32 {
        self.draw_out(slot, link);
        let full = self.spec.full();
        let at_start = self.scheme.frees_at_start();
        let packet = &mut self.packets[slot];
        let (all, last) = (u32::from(packet.packets), packet.last_wire(full));
        let port = &self.ports[link as usize];
        let (gap, begin, latency) = (port.full.as_ps(), port.free.max(now).since(now).as_ps(), port.latency);
        let (far, ends) = (Place { node: port.far, from: link, class: place.class }, port.last);
        let credits = self.scheme.counts_endpoints();
        if ends && credits {
            packet.flags |= FREED;
        }
        let through = packet.flags & THROUGH != 0;
        packet.flags &= !THROUGH;
        if through {
            if at_start && let Some(signal) = self.scheme.release(self.room(place), last) {
                let gone = begin + gap * u64::from(all - 1);
                self.tell_later(signal, Span::from_ps(gone), now, s);
            }
        } else if place.from != NONE {
            let place = self.room(place);
            for number in 0..all - u32::from(!at_start) {
                let wire = if number + 1 == all { last } else { full };
                if let Some(signal) = self.scheme.release(place, wire) {
                    let gone = begin + gap * u64::from(number + u32::from(!at_start));
                    self.tell_later(signal, Span::from_ps(gone), now, s);
                }
            }
        }
        if ends && credits {
            for number in 0..all {
                let wire = if number + 1 == all { last } else { full };
                let _ = self.scheme.admit(far, wire, 0);
                if let Some(signal) = self.scheme.release(far, wire) {
                    let there = Span::from_ps(begin + gap * u64::from(number + 1)) + latency;
                    self.tell_later(signal, there, now, s);
                }
            }
        }
        last
    }
}
