//! Ports: arrivals, services, the lane of control packets, and the wire.

use super::flow_control::{Admit, Place};
use super::packet::{Kind, List, MARKED, NONE};
use super::spec::{MarkAt, Marking, NetSpec};
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
    /// Packets until the next one is lost.
    pub(super) until_loss: u32,
}

impl Port {
    pub(super) fn new(spec: &NetSpec, link: usize) -> Self {
        let port = &spec.ports[link];
        let cost = port.rate.ps_per_byte();
        let hold = match port.forwarding {
            Forwarding::CutThrough { header } => cost.cost(header),
            Forwarding::StoreAndForward | Forwarding::Relay => Span::from_ps(u64::MAX),
        };
        Self {
            free: Time::ZERO,
            done: Time::MAX,
            cost,
            latency: port.latency,
            hold,
            full: cost.cost(Bytes::new(u64::from(spec.mtu + spec.overhead))),
            from: NONE,
            wire: 0,
            class: 0,
            scheduled: false,
            endpoint: spec.endpoints[port.near as usize],
            last: spec.endpoints[port.far as usize],
            pipe: List::default(),
            twin: port.twin,
            near: port.near,
            far: port.far,
            ready: 0,
            stopped: 0,
            drained: 0,
            given_up: 0,
            turn: 0,
            until_loss: port.lose_every,
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
    #[inline]
    fn cross(&mut self, link: u32, slot: u32, now: Time, s: &mut impl Schedule) -> Time {
        let port = &mut self.ports[link as usize];
        let packet = &mut self.packets[slot];
        let cost = port.cost(packet.wire);
        let held = cost.min(port.hold);
        let start = now.max(port.free);
        port.free = start + cost;
        let free = port.free;
        packet.tail = free.max(packet.tail + held) + port.latency;
        packet.at += 1;
        packet.left -= 1;
        packet.from = link;
        let at = if port.last { packet.tail } else { start + (held + port.latency) };
        port.pipe.push(slot, &mut self.packets);
        s.at(at, word(Phase::Arrival, link, 0));
        free
    }

    /// A control packet is at a port: before all data, and never held.
    #[inline]
    pub(super) fn express(&mut self, link: u32, slot: u32, now: Time, s: &mut impl Schedule) {
        self.totals.control_hops += 1;
        self.cross(link, slot, now, s);
    }

    /// A packet is at the end of `link`.
    #[inline]
    pub(super) fn arrive(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let port = &mut self.ports[link as usize];
        let slot = port.pipe.pop(&self.packets);
        let far = port.far;
        let packet = &self.packets[slot];
        let (kind, left, class, wire, at) = (packet.kind, packet.left, packet.class, packet.wire, packet.at);
        if kind != Kind::Data {
            if left == 0 {
                self.control_arrived(slot, now, s);
            } else {
                self.express(self.routes[at as usize], slot, now, s);
            }
            return;
        }
        if port.until_loss != 0 {
            port.until_loss -= 1;
            if port.until_loss == 0 {
                port.until_loss = self.spec.ports[link as usize].lose_every;
                self.totals.lost += 1;
                // Its room at the far end was taken when it left, and is free again.
                self.free_unseen(Place { node: far, from: link, class }, wire, now, s);
                self.packets.give(slot);
                return;
            }
        }
        let place = Place { node: far, from: link, class };
        if left == 0 {
            if self.scheme.counts_endpoints() {
                self.free_unseen(place, wire, now, s);
            }
            self.data_arrived(slot, now, s);
            return;
        }
        let next = self.next_link(slot, far, now);
        self.enqueue(next, slot, place, wire, now, s);
    }

    /// A packet that takes no room at a node gives back what it took in the port's view.
    fn free_unseen(&mut self, place: Place, wire: u32, now: Time, s: &mut impl Schedule) {
        if self.scheme.counts_endpoints() {
            let _ = self.scheme.admit(place, wire, 0);
            if let Some(signal) = self.scheme.release(place, wire) {
                self.tell(signal, now, s);
            }
        }
    }

    /// A data packet asks for room at a node, and joins the queue of its next port.
    #[inline]
    fn enqueue(&mut self, next: u32, slot: u32, place: Place, wire: u32, now: Time, s: &mut impl Schedule) {
        let at = self.queue_at(next, place.class);
        let depth = self.queues[at].bytes;
        if self.ports[next as usize].given_up >> place.class & 1 != 0 {
            self.totals.watchdog_drops += 1;
            self.counters[at].drops += 1;
            self.free_unseen(place, wire, now, s);
            self.packets.give(slot);
            return;
        }
        match self.scheme.admit(place, wire, depth) {
            Admit::Keep(None) => {}
            Admit::Keep(Some(signal)) => self.tell(signal, now, s),
            Admit::Drop { fault } => {
                self.totals.drops += 1;
                self.totals.headroom_drops += u64::from(fault);
                self.counters[at].drops += 1;
                self.packets.give(slot);
                return;
            }
        }
        if let Marking::Red { at: MarkAt::Enqueue, .. } = self.spec.classes[place.class as usize].marking {
            self.mark(slot, next, place.class, depth, true);
        }
        let counters = &mut self.counters[at];
        counters.depth(depth, now);
        counters.peak = counters.peak.max(depth + u64::from(wire));
        let queue = &mut self.queues[at];
        queue.bytes = depth + u64::from(wire);
        queue.packets += 1;
        self.inputs.push(queue, next, place, slot, &mut self.packets);
        self.ports[next as usize].ready |= 1 << place.class;
        self.kick(next, now, s);
    }

    fn mark(&mut self, slot: u32, link: u32, class: u8, depth: u64, credited: bool) {
        let marking = self.spec.classes[class as usize].marking;
        if marking::marks(marking, depth, credited, link, &mut self.draws) {
            let packet = &mut self.packets[slot];
            if packet.flags & MARKED == 0 {
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

    #[inline]
    fn serve(&mut self, link: u32, now: Time, s: &mut impl Schedule) {
        let port = &mut self.ports[link as usize];
        // What has left is released first.
        if port.done <= now {
            port.done = Time::MAX;
            if port.from != NONE {
                let place = Place { node: port.near, from: port.from, class: port.class };
                let wire = port.wire;
                if let Some(signal) = self.scheme.release(place, wire) {
                    self.tell(signal, now, s);
                }
            }
        }
        let port = &self.ports[link as usize];
        let may = port.ready & !(port.stopped | port.drained);
        // A service that was called for meanwhile will find what there is.
        if may == 0 || port.scheduled {
            return;
        }
        if port.free > now + port.full {
            let free = port.free;
            self.ports[link as usize].scheduled = true;
            s.at(free, word(Phase::Port, link, SERVICE));
            return;
        }
        let endpoint = port.endpoint;
        let Some(class) = self.choose_class(link, may) else { return };
        let at = self.queue_at(link, class);
        let head = if endpoint {
            self.next_wire(self.queues[at].list.head)
        } else {
            self.packets[self.inputs.peek(&self.queues[at])].wire
        };
        if !self.scheme.may_send(link, class, head) && !self.catch_up(link, class, head, now, s) {
            self.ports[link as usize].stopped |= 1 << class;
            self.counters[at].waits += 1;
            self.held(link, class, now, s);
            // Another class may still go.
            self.serve(link, now, s);
            return;
        }
        let slot = if endpoint { self.next_packet(link, class, now, s) } else { self.dequeue(link, class, now) };
        let packet = &self.packets[slot];
        let (mut from, wire) = (packet.from, packet.wire);
        self.scheme.depart(link, class, wire);
        if from != NONE && self.scheme.frees_at_start() {
            let place = Place { node: self.ports[link as usize].near, from, class };
            if let Some(signal) = self.scheme.release(place, wire) {
                self.tell(signal, now, s);
            }
            from = NONE;
        }
        let free = self.cross(link, slot, now, s);
        let port = &mut self.ports[link as usize];
        port.from = from;
        port.wire = wire;
        port.class = class;
        port.done = free;
        port.scheduled = true;
        s.at(free, word(Phase::Port, link, SERVICE));
        let counters = &mut self.counters[at];
        counters.bytes += u64::from(wire);
        counters.packets += 1;
        self.totals.data_hops += 1;
    }

    /// Takes the packet whose turn it is out of a queue.
    #[inline]
    pub(super) fn dequeue(&mut self, link: u32, class: u8, now: Time) -> u32 {
        let at = self.queue_at(link, class);
        let queue = &mut self.queues[at];
        let depth = queue.bytes;
        let slot = self.inputs.pop(queue, &self.packets);
        queue.bytes -= u64::from(self.packets[slot].wire);
        queue.packets -= 1;
        let left = queue.bytes;
        if queue.packets == 0 {
            queue.deficit = 0;
            self.ports[link as usize].ready &= !(1 << class);
        }
        self.counters[at].depth(depth, now);
        match self.spec.classes[class as usize].marking {
            Marking::Red { at: MarkAt::Dequeue, .. } => self.mark(slot, link, class, left, true),
            Marking::Root { .. } => {
                let credited = !core::mem::take(&mut self.queues[at].waited);
                self.mark(slot, link, class, left, credited);
            }
            Marking::Red { .. } | Marking::Off => {}
        }
        slot
    }
}
