//! Ports: arrivals, services, the lane of control packets, and the wire.

use super::flow_control::{Admit, Place};
use super::in_order::NO_LANE;
use super::packet::{FREED, Kind, List, MARKED, NONE, Packet, RESENT};
use super::spec::{Control, MarkAt, Marking, NetSpec};
use super::{Net, SERVICE, Schedule, marking, word};
use crate::event::Phase;
use crate::network::Forwarding;
use crate::units::{Bytes, PsPerByte, Span, Time};

/// The sending side of a link, and what is on its wire.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// The wire is taken until then.
    pub(super) free: Time,
    /// When the data packet in service has left; [`Time::MAX`] if there is none.
    pub(super) done: Time,
    /// When it arrives, if that has not been scheduled: it is when the packet has left.
    pub(super) lands: Time,
    /// Full packets of all ports of a lane arrive equally long after they have left; [`NO_LANE`]: in none.
    pub(super) lane: u8,
    pub(super) cost: PsPerByte,
    pub(super) latency: Span,
    /// What must have arrived before a node sends on, at this link's rate.
    pub(super) hold: Span,
    /// The cost of a full packet.
    pub(super) full: Span,
    /// Of the packet in service: the link it came over, its size and class.
    pub(super) from: u32,
    pub(super) wire: u32,
    pub(super) class: u8,
    /// A service is scheduled.
    pub(super) scheduled: bool,
    /// It belongs to an endpoint: queue pairs, not packets, wait at it.
    pub(super) endpoint: bool,
    /// Its link ends at an endpoint.
    pub(super) last: bool,
    /// What is on its wire may arrive in another order than it left: units are told of with their tails.
    pub(super) sorted: bool,
    /// The packet in service was part of a unit whose rest is in front of its queue.
    pub(super) part: bool,
    /// The packet in service is a unit of several.
    pub(super) unit: bool,
    pub(super) pipe: List,
    pub(super) twin: u32,
    pub(super) near: u32,
    pub(super) far: u32,
    /// Classes with something to send, and classes that are held.
    pub(super) ready: u16,
    pub(super) stopped: u16,
    /// Classes that the endpoint behind the link holds.
    pub(super) drained: u16,
    /// Classes whose packets are dropped until they are released.
    pub(super) given_up: u16,
    /// The class whose turn it is among equals.
    pub(super) turn: u8,
    /// Packets are lost on its wire.
    pub(super) loses: bool,
    /// Behind its link packets go on in the next class.
    pub(super) raises: bool,
    /// Packets until the next one is lost.
    pub(super) until_loss: u32,
    /// Wire bytes of control packets that went before all others.
    pub(super) control: u64,
    /// Where units are on the wire: until when it is taken by what has slipped in between their packets.
    pub(super) between: Time,
}

impl Port {
    pub(super) fn new(spec: &NetSpec, link: usize) -> Self {
        let port = &spec.ports[link];
        let cost = port.rate.ps_per_byte();
        let full = cost.cost(Bytes::new(u64::from(spec.mtu + spec.overhead)));
        let hold = match port.forwarding {
            Forwarding::CutThrough { header } => cost.cost(header),
            // One packet, however many move as one.
            Forwarding::StoreAndForward | Forwarding::Relay => full,
        };
        let last = spec.endpoints[port.far as usize];
        Self {
            free: Time::ZERO,
            done: Time::MAX,
            lands: Time::MAX,
            lane: NO_LANE,
            cost,
            latency: port.latency,
            hold,
            full,
            from: NONE,
            wire: 0,
            class: 0,
            scheduled: false,
            endpoint: spec.endpoints[port.near as usize],
            last,
            sorted: last && spec.grain > 1,
            part: false,
            unit: false,
            pipe: List::default(),
            twin: port.twin,
            near: port.near,
            far: port.far,
            ready: 0,
            stopped: 0,
            drained: 0,
            given_up: 0,
            turn: 0,
            loses: port.lose_every != 0 || port.lose_per_2_32 != 0,
            raises: spec.raises.contains(&(link as u32)),
            until_loss: port.lose_every,
            control: 0,
            between: Time::ZERO,
        }
    }

    #[inline]
    pub(super) fn cost(&self, wire: u32) -> Span {
        self.cost.cost_of_segment(Bytes::new(u64::from(wire)))
    }
}

impl Net {
    /// A packet goes on the wire of `link` as soon as that is free; returns when it is free again.
    ///
    /// With `u = min(cost, hold)`: `start = max(now, free)`, `free = start + cost`, the head arrives at `start + u + α`, the
    /// tail at `max(free, tail_in + u) + α`. What goes to an endpoint arrives with its tail.
    ///
    /// The arrival of a packet that is `served` is scheduled when the port is done with it, if it comes after that: ports
    /// are done in order of time, and so are these arrivals, which need no sorting then.
    #[inline(always)]
    fn cross(&mut self, link: u32, slot: u32, served: bool, now: Time, s: &mut impl Schedule) -> Time {
        let port = &mut self.ports[link as usize];
        let packet = &mut self.packets[slot];
        let cost = port.cost(packet.wire);
        let held = cost.min(port.hold);
        let start = now.max(port.free);
        let free = start + cost;
        port.free = free;
        packet.tail = free.max(packet.tail + held) + port.latency;
        packet.at += 1;
        packet.left -= 1;
        packet.from = link;
        packet.next = NONE;
        let at = if port.last { packet.tail } else { start + (held + port.latency) };
        if port.sorted {
            let at = self.slip_in(link, slot);
            s.at(at, word(Phase::Arrival, link, 0));
            return free;
        }
        let deferred = served && port.lane != NO_LANE && at > free;
        if deferred {
            port.lands = at;
        }
        let tail = core::mem::replace(&mut port.pipe.tail, slot);
        if port.pipe.head == NONE {
            port.pipe.head = slot;
        } else {
            self.packets[tail].next = slot;
        }
        if !deferred {
            s.at(at, word(Phase::Arrival, link, 0));
        }
        free
    }

    /// A control packet is at a port: before all data, and never held.
    #[inline(always)]
    pub(super) fn express(&mut self, link: u32, slot: u32, now: Time, s: &mut impl Schedule) {
        self.totals.control_hops += 1;
        let port = &mut self.ports[link as usize];
        port.control += u64::from(self.packets[slot].wire);
        if port.carries_unit(now) {
            self.cross_between(link, slot, now, s);
        } else {
            self.cross(link, slot, false, now, s);
        }
    }

    /// A control packet sets out from an endpoint.
    #[inline]
    pub(super) fn send_off(&mut self, link: u32, slot: u32, now: Time, s: &mut impl Schedule) {
        let class = match self.spec.control {
            Control::Express => return self.express(link, slot, now, s),
            Control::Class(class) => class,
            Control::WithData => self.packets[slot].class,
        };
        self.packets[slot].class = class;
        let at = self.queue_at(link, class);
        self.queues[at].own.push(slot, &mut self.packets);
        self.ports[link as usize].ready |= 1 << class;
        self.kick(link, now, s);
    }

    /// An endpoint's port takes a control packet that waits as data do.
    fn next_control(&mut self, link: u32, class: u8, at: usize) -> u32 {
        let queue = &mut self.queues[at];
        let slot = queue.own.pop(&self.packets);
        if queue.own.head == NONE && queue.list.head == NONE {
            self.ports[link as usize].ready &= !(1 << class);
        }
        slot
    }

    /// A packet is at the end of `link`.
    #[inline]
    pub(super) fn arrive(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let port = &mut self.ports[link as usize];
        let slot = port.pipe.head;
        let packet = &self.packets[slot];
        port.pipe.head = packet.next;
        let (kind, left, class, wire, at) = (packet.kind, packet.left, packet.class, packet.wire, packet.at);
        if kind != Kind::Data && self.spec.control == Control::Express {
            if left == 0 {
                self.control_arrived(slot, now, s);
            } else {
                self.express(self.routes[at as usize], slot, now, s);
            }
            return;
        }
        let place = Place { node: port.far, from: link, class };
        if port.loses && kind == Kind::Data {
            if self.packets[slot].packets > 1 {
                self.lose_of_unit(slot, link, place, now, s);
                return;
            }
            if self.is_lost(link, class) {
                // Its room at the far end was taken when it left, and is free again.
                self.free_unseen(place, wire, now, s);
                self.packets.give(slot);
                return;
            }
        }
        self.come(slot, (kind, left, wire), place, now, s);
    }

    /// A packet has come over the wire of a link.
    #[inline(always)]
    pub(super) fn come(
        &mut self,
        slot: u32,
        (kind, left, wire): (Kind, u8, u32),
        place: Place,
        now: Time,
        s: &mut impl Schedule,
    ) {
        if left == 0 {
            if self.scheme.counts_endpoints() && self.packets[slot].flags & FREED == 0 {
                self.free_unseen(place, wire, now, s);
            }
            if kind == Kind::Data {
                self.data_arrived(slot, now, s);
            } else {
                self.control_arrived(slot, now, s);
            }
            return;
        }
        self.enter(slot, place, wire, now, s);
    }

    /// A packet that takes no room at a node gives back what it took in the port's view.
    pub(super) fn free_unseen(&mut self, place: Place, wire: u32, now: Time, s: &mut impl Schedule) {
        if self.scheme.counts_endpoints() {
            let _ = self.scheme.admit(place, wire, 0);
            if let Some(signal) = self.scheme.release(place, wire) {
                self.tell(signal, now, s);
            }
        }
    }

    /// Where the room is of a packet that is queued as of `place`: what came over a link that raises classes has it in the
    /// class in which it came.
    #[inline]
    pub(super) fn room(&self, place: Place) -> Place {
        if self.raising && self.ports[place.from as usize].raises {
            return Place { class: place.class - 1, ..place };
        }
        place
    }

    /// A data packet asks for room at a node.
    #[inline]
    fn enter(&mut self, slot: u32, mut place: Place, wire: u32, now: Time, s: &mut impl Schedule) {
        let room = place;
        if self.raising && self.ports[place.from as usize].raises {
            place.class += 1;
            self.packets[slot].class = place.class;
        }
        let next = self.next_link(slot, place.node, now);
        let at = self.queue_at(next, place.class);
        let depth = self.queues[at].bytes;
        if self.spec.watchdog.is_some() && self.ports[next as usize].given_up >> place.class & 1 != 0 {
            self.totals.watchdog_drops += u64::from(self.packets[slot].packets);
            self.counters[at].watchdog_drops += u64::from(self.packets[slot].packets);
            self.free_unseen(room, wire, now, s);
            self.packets.give(slot);
            return;
        }
        if self.packets[slot].packets > 1 {
            self.enter_unit(slot, (next, at), place, now, s);
            return;
        }
        match self.scheme.admit(room, wire, depth) {
            Admit::Keep(None) => {}
            Admit::Keep(Some(signal)) => self.tell(signal, now, s),
            Admit::Drop { fault } => {
                self.totals.drops += 1;
                self.totals.headroom_drops += u64::from(fault);
                self.counters[at].drops += 1;
                self.counters[at].headroom_drops += u64::from(fault);
                self.packets.give(slot);
                return;
            }
        }
        if self.inputs.waits(place, slot, &mut self.packets) {
            return;
        }
        self.join(next, at, slot, place, wire, now);
        self.kick(next, now, s);
    }

    /// A packet that has room joins the queue of its next port.
    #[inline(always)]
    pub(super) fn join(&mut self, next: u32, at: usize, slot: u32, place: Place, wire: u32, now: Time) {
        let depth = self.queues[at].bytes;
        if self.marks_early
            && let Marking::Red { at: MarkAt::Enqueue, .. } = self.spec.classes[place.class as usize].marking
        {
            self.mark(slot, next, place.class, depth, true);
        }
        self.push(next, at, slot, place, (wire, wire), now);
    }

    /// A packet joins a queue, of which it is `most` beyond what is there.
    #[inline(always)]
    pub(super) fn push(&mut self, next: u32, at: usize, slot: u32, place: Place, (wire, most): (u32, u32), now: Time) {
        let queue = &mut self.queues[at];
        let depth = queue.bytes;
        queue.tally.pass(depth, now, &mut self.histograms[at]);
        queue.bytes = depth + u64::from(wire);
        queue.tally.peak = queue.tally.peak.max(depth + u64::from(most));
        queue.packets += 1;
        self.inputs.push(queue, next, place, slot, &mut self.packets);
        self.ports[next as usize].ready |= 1 << place.class;
    }

    /// A packet that came over an input has left or was dropped: the next of the input's line joins a queue.
    #[cold]
    pub(super) fn advance(&mut self, place: Place, now: Time, s: &mut impl Schedule) {
        while let Some(slot) = self.inputs.next_in_line(place, &self.packets) {
            let next = self.next_link(slot, place.node, now);
            let (at, wire) = (self.queue_at(next, place.class), self.packets[slot].wire);
            if self.ports[next as usize].given_up >> place.class & 1 == 0 {
                if self.packets[slot].packets > 1 {
                    self.join_unit(next, at, slot, place, now);
                } else {
                    self.join(next, at, slot, place, wire, now);
                }
                self.kick(next, now, s);
                return;
            }
            self.totals.watchdog_drops += u64::from(self.packets[slot].packets);
            self.counters[at].watchdog_drops += u64::from(self.packets[slot].packets);
            self.packets.give(slot);
            if let Some(signal) = self.scheme.release(self.room(place), wire) {
                self.tell(signal, now, s);
            }
        }
    }

    #[inline(never)]
    fn mark(&mut self, slot: u32, link: u32, class: u8, depth: u64, credited: bool) {
        let marking = self.spec.classes[class as usize].marking;
        if marking::marks(marking, depth, credited, link, &mut self.draws) {
            let packet = &mut self.packets[slot];
            if packet.flags & MARKED == 0 && packet.kind == Kind::Data {
                packet.flags |= MARKED;
                self.totals.marks += 1;
                let at = self.queue_at(link, class);
                self.counters[at].marks += 1;
            }
        }
    }

    /// Something may have come that the port can send.
    #[inline]
    pub(super) fn kick(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let port = &mut self.ports[link as usize];
        if port.scheduled {
            return;
        }
        if port.free <= now {
            self.serve(link, now, s);
        } else {
            port.scheduled = true;
            s.at(port.free, word(Phase::Port, link, SERVICE));
        }
    }

    /// The service of a port is due.
    #[inline]
    pub(super) fn service(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        self.ports[link as usize].scheduled = false;
        self.serve(link, now, s);
    }

    /// The packet in service has left: what it took is released.
    #[inline]
    fn gone(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let port = &mut self.ports[link as usize];
        port.done = Time::MAX;
        if port.lands != Time::MAX {
            let lands = core::mem::replace(&mut port.lands, Time::MAX);
            s.in_order(port.lane, lands, word(Phase::Arrival, link, 0));
        }
        if port.from == NONE {
            return;
        }
        let place = Place { node: port.near, from: port.from, class: port.class };
        let wire = port.wire;
        let room = self.room(place);
        if !self.scheme.frees_at_start()
            && let Some(signal) = self.scheme.release(room, wire)
        {
            self.tell(signal, now, s);
        }
        // The rest of a unit is still the first of its line.
        if self.inputs.block() && !core::mem::take(&mut self.ports[link as usize].part) {
            self.advance(place, now, s);
        }
    }

    fn serve(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        if self.ports[link as usize].done <= now {
            self.gone(link, now, s);
        }
        let port = &mut self.ports[link as usize];
        let may = port.ready & !(port.stopped | port.drained);
        // A service that was called for meanwhile will find what there is.
        if may == 0 || port.scheduled {
            return;
        }
        if port.free > now + port.full {
            port.scheduled = true;
            s.at(port.free, word(Phase::Port, link, SERVICE));
            return;
        }
        let (endpoint, near) = (port.endpoint, port.near);
        let (class, charged) = if may & (may - 1) == 0 {
            (may.trailing_zeros() as u8, 0)
        } else if let Some(chosen) = self.choose_class(link, may) {
            chosen
        } else {
            return;
        };
        let at = self.queue_at(link, class);
        let mut most = u32::MAX;
        if self.scheme.counts_endpoints() {
            most = self.is_credited(link, class, at, now, s);
            if most == 0 {
                self.queues[at].deficit += charged;
                // Another class may still go.
                self.serve(link, now, s);
                return;
            }
            // A unit of which only a part may go has had only that part of its turn.
            self.queues[at].deficit += charged.saturating_sub(most);
        }
        let slot = if !endpoint {
            self.dequeue(link, class, at, most, now)
        } else if self.queues[at].own.head == NONE {
            self.next_packet(link, class, most, now, s)
        } else {
            self.next_control(link, class, at)
        };
        let packet = &self.packets[slot];
        let (from, wire, packets) = (packet.from, packet.wire, packet.packets);
        if packet.kind != Kind::Data || packet.flags & RESENT != 0 {
            self.count_rare(at, slot);
        }
        let mut held = wire;
        if packets > 1 {
            held = self.free_unit(slot, link, Place { node: near, from, class }, now, s);
        } else if from != NONE && self.scheme.frees_at_start() {
            let room = self.room(Place { node: near, from, class });
            if let Some(signal) = self.scheme.release(room, wire) {
                self.tell(signal, now, s);
            }
        }
        if self.telemetry.on {
            self.read_port(link, at, slot, now);
        }
        let tally = &mut self.queues[at].tally;
        tally.bytes += u64::from(wire);
        tally.packets += u64::from(packets);
        let free = self.cross(link, slot, true, now, s);
        let port = &mut self.ports[link as usize];
        port.from = from;
        port.wire = held;
        port.unit = packets > 1;
        port.class = class;
        port.done = free;
        port.scheduled = true;
        s.at(free, word(Phase::Port, link, SERVICE));
    }

    /// A packet, or unit, that is no new data leaves.
    #[cold]
    fn count_rare(&mut self, at: usize, slot: u32) {
        let Packet { kind, wire, packets, .. } = self.packets[slot];
        if kind == Kind::Data {
            self.counters[at].resent += u64::from(packets);
            return;
        }
        self.control_queued += 1;
        self.counters[at].queued_control += 1;
        self.counters[at].queued_control_bytes += u64::from(wire);
    }

    /// How many bytes of the packet, or unit, in front of a class may leave for the buffer behind the port: these are taken to
    /// leave. None, if not one packet may.
    fn is_credited(&mut self, link: u32, class: u8, at: usize, now: Time, s: &mut impl Schedule) -> u32 {
        let unit = self.head_wire(link, class);
        let wire = unit.min(self.spec.full());
        if self.scheme.may_send(link, class, wire) || self.catch_up(link, class, wire, now, s) {
            let wire = if unit > wire { self.credited_of_unit(link, class, unit, now) } else { wire };
            self.scheme.depart(link, class, wire);
            return wire;
        }
        self.ports[link as usize].stopped |= 1 << class;
        self.counters[at].waits += 1;
        self.held(link, class, now, s);
        0
    }

    #[inline(always)]
    pub(super) fn dequeue(&mut self, link: u32, class: u8, at: usize, most: u32, now: Time) -> u32 {
        let queue = &mut self.queues[at];
        queue.tally.pass(queue.bytes, now, &mut self.histograms[at]);
        if most != u32::MAX && self.packets[self.inputs.peek(queue)].wire > most {
            return self.dequeue_part(link, class, at, most, now);
        }
        let slot = self.inputs.pop(queue, &self.packets);
        let packet = &self.packets[slot];
        let unit = packet.packets > 1;
        queue.bytes -= u64::from(packet.wire);
        queue.packets -= 1;
        let left = queue.bytes;
        if queue.packets == 0 {
            queue.deficit = 0;
            self.ports[link as usize].ready &= !(1 << class);
        }
        if unit {
            self.mark_unit_that_leaves(slot, link, class, at, left, now);
        } else {
            self.mark_at_dequeue(slot, link, class, at, left);
        }
        slot
    }

    /// A packet leaves `left` bytes behind.
    #[inline(always)]
    pub(super) fn mark_at_dequeue(&mut self, slot: u32, link: u32, class: u8, at: usize, left: u64) {
        match self.spec.classes[class as usize].marking {
            Marking::Red { at: MarkAt::Dequeue, kmin, .. } if left > u64::from(kmin) => {
                self.mark(slot, link, class, left, true);
            }
            Marking::Root { .. } => {
                let credited = !core::mem::take(&mut self.queues[at].waited);
                self.mark(slot, link, class, left, credited);
            }
            Marking::Red { .. } | Marking::Off => {}
        }
    }
}
