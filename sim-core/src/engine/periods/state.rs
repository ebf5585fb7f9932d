//! The state of an engine relative to the present: what decides all that comes, and nothing else.
//!
//! It is a sequence of numbers. Instants are told from the present on, and those that are past and can only be the
//! lesser of two are zero; counters that are only ever compared with each other (messages posted, arrived, consumed,
//! uses of a slot, segments of a flow) are told from one of them on. What a lane has behind it is left out: how far it
//! has come, in iterations, loops and repetitions, is compared by [`super::progress`].

use crate::engine::Engine;
use crate::engine::state::{ConnState, FlowState, MANY, Message, NONE, RecvState};
use crate::event::{Event, Phase, Word};
use crate::program::{Credit, Sink};
use crate::queue::Store;
use crate::random::mix;
use crate::units::{Span, Time};

/// Takes a sequence down, or compares it with one.
pub(super) enum Pass<'a> {
    Take(&'a mut Vec<u64>),
    Compare(core::slice::Iter<'a, u64>),
}

impl Pass<'_> {
    /// Whether all that was to be compared has been.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Take(_) => true,
            Self::Compare(rest) => rest.len() == 0,
        }
    }

    /// The next number; `None` if another was there.
    #[inline]
    fn see(&mut self, x: u64) -> Option<()> {
        match self {
            Self::Take(all) => {
                all.push(x);
                Some(())
            }
            Self::Compare(rest) => (rest.next() == Some(&x)).then_some(()),
        }
    }
}

fn flags_of(message: &Message) -> u64 {
    u64::from(message.first) << 2 | u64::from(message.large) << 1 | u64::from(message.fresh)
}

/// Two numbers in one.
#[inline]
const fn pair(a: u32, b: u32) -> u64 {
    (a as u64) << 32 | b as u64
}

/// An instant that matters only if it is yet to come.
#[inline]
fn ahead(at: Time, now: Time) -> u64 {
    at.since(now).as_ps()
}

/// An instant that matters wherever it is; "never" is kept.
#[inline]
fn exact(at: Time, now: Time) -> u64 {
    if at == Time::MAX { u64::MAX } else { at.as_ps().wrapping_sub(now.as_ps()) }
}

impl<S: Store> Engine<S> {
    /// Goes through the state but for pending events; `None` if `pass` compares and something differs.
    pub(super) fn walk(&self, pass: &mut Pass<'_>) -> Option<()> {
        let now = self.pending.now();
        pass.see(pair(self.live, self.moving))?;
        for lane in &self.lanes {
            let flags = u32::from(lane.done) << 1 | u32::from(lane.passed);
            pass.see(pair(lane.pc, flags))?;
            if !lane.done {
                pass.see(lane.slice)?;
            }
            pass.see(ahead(lane.busy_until, now))?;
            pass.see(exact(lane.wake, now))?;
        }
        for kernel in &self.kernels {
            pass.see(u64::from(kernel.running))?;
        }
        for program in &self.programs {
            pass.see(u64::from(program.running))?;
        }
        for barrier in &self.barriers {
            pass.see(u64::from(barrier.here))?;
            pass.see(if barrier.here > 0 { ahead(barrier.latest, now) } else { 0 })?;
        }
        for conn in &self.conns {
            self.walk_conn(conn, now, pass)?;
        }
        for receiver in &self.receivers {
            self.walk_receiver(receiver, now, pass)?;
        }
        for junction in &self.junctions {
            pass.see(junction.waiting.len() as u64)?;
            for meeting in junction.waiting.iter() {
                pass.see(u64::from(meeting.here) << 1 | u64::from(meeting.last))?;
                if meeting.here > 0 {
                    pass.see(pair(meeting.bytes, meeting.packets))?;
                    pass.see(exact(meeting.head, now))?;
                    pass.see(exact(meeting.tail, now))?;
                }
            }
        }
        for link in &self.links {
            pass.see(ahead(link.free, now))?;
        }
        for flow in &self.flows {
            self.walk_flow(flow, now, pass)?;
        }
        for spaced in &self.spaced {
            pass.see(ahead(spaced.next, now))?;
            pass.see(ahead(spaced.next_turn, now))?;
        }
        Some(())
    }

    fn walk_conn(&self, conn: &ConnState, now: Time, pass: &mut Pass<'_>) -> Option<()> {
        let reference = self.senders.get(conn.senders.start as usize).map_or(0, |s| s.posted);
        for s in conn.senders.clone() {
            let sender = &self.senders[s as usize];
            pass.see(pair(sender.posted.wrapping_sub(reference), sender.waiter))?;
            pass.see(u64::from(sender.fresh))?;
            let flows = sender.flows.len() as u32;
            if flows > 1 && !sender.split {
                pass.see(u64::from(sender.posted % flows))?;
            }
        }
        if matches!(conn.credit, Credit::Message { .. }) {
            pass.see(u64::from(conn.credited.wrapping_sub(reference)))?;
        }
        let shift = conn.slots.capacity().trailing_zeros();
        for i in 0..conn.slots.capacity() {
            let number = reference.wrapping_add(i);
            let slot = &self.slots.items[conn.slots.at(number)];
            pass.see(pair(slot.uses.wrapping_sub(number >> shift), slot.consumed))?;
            pass.see(ahead(slot.free_at, now))?;
        }
        Some(())
    }

    fn walk_receiver(&self, receiver: &RecvState, now: Time, pass: &mut Pass<'_>) -> Option<()> {
        let reference = match self.conns.get(receiver.conn as usize) {
            Some(conn) => self.senders.get(conn.senders.start as usize).map_or(0, |s| s.posted),
            None => 0,
        };
        pass.see(pair(receiver.arrived.wrapping_sub(reference), receiver.consumed.wrapping_sub(reference)))?;
        pass.see(u64::from(receiver.waiter))?;
        for i in 0..receiver.arrived.wrapping_sub(receiver.consumed) {
            let arrival = &self.arrivals.items[receiver.ring.at(receiver.consumed.wrapping_add(i))];
            pass.see(ahead(arrival.at, now))?;
        }
        if receiver.unordered {
            for i in 0..receiver.ring.capacity() {
                let arrival = &self.arrivals.items[receiver.ring.at(receiver.arrived.wrapping_add(i))];
                pass.see(u64::from(arrival.here))?;
                pass.see(if arrival.here > 0 { ahead(arrival.at, now) } else { 0 })?;
            }
        }
        Some(())
    }

    fn walk_flow(&self, flow: &FlowState, now: Time, pass: &mut Pass<'_>) -> Option<()> {
        // Another stands for it.
        if flow.wide == MANY {
            return Some(());
        }
        let behind = match flow.sink {
            Sink::Receiver(r) if self.receivers[r as usize].unordered => {
                let message = flow.delivered.wrapping_mul(u32::from(flow.turns)).wrapping_add(u32::from(flow.turn));
                message.wrapping_sub(self.receivers[r as usize].arrived)
            }
            Sink::Junction(j) => flow.delivered.wrapping_sub(self.junctions[j as usize].first),
            _ => 0,
        };
        let in_flight = flow.next.wrapping_sub(flow.oldest);
        let flags = u32::from(flow.active) << 1 | u32::from(flow.full);
        pass.see(pair(behind, in_flight << 2 | flags))?;
        if flow.wide != NONE {
            for junction in self.ends_of_many(flow.wide) {
                pass.see(u64::from(flow.delivered.wrapping_sub(self.junctions[*junction as usize].first)))?;
            }
        }
        for i in 0..in_flight {
            let segment = self.segment(flow, flow.oldest.wrapping_add(i));
            pass.see(exact(segment.tail, now))?;
            pass.see(pair(segment.route, segment.bytes))?;
            let flags = u32::from(segment.hop) << 16 | u32::from(segment.ends);
            pass.see(pair(segment.packets, flags))?;
        }
        if !flow.active {
            return Some(());
        }
        pass.see(ahead(flow.current.end, now))?;
        pass.see(flow.current.bytes)?;
        pass.see(flow.current.pace.raw())?;
        pass.see(flags_of(&flow.current))?;
        let behind = flow.posted.wrapping_sub(flow.first);
        pass.see(u64::from(behind))?;
        for i in 0..behind {
            let message = &self.messages.items[flow.messages.at(flow.first.wrapping_add(i))];
            pass.see(ahead(message.end, now))?;
            pass.see(message.bytes)?;
            pass.see(message.pace.raw())?;
            pass.see(flags_of(message))?;
        }
        Some(())
    }

    /// A pending event, told from now on, its segment told from the oldest of its flow on.
    #[inline]
    fn relative(&self, event: Event) -> Event {
        let now = self.pending.now();
        let word = event.word();
        let word = match word.phase() {
            Phase::Arrival => {
                let oldest = self.flows[word.flow_id().index()].oldest;
                Word::segment(word.phase(), word.link_id(), word.flow_id(), word.number().wrapping_sub(oldest))
            }
            _ => word,
        };
        Event::new(Time::ZERO + event.at().since(now), word)
    }

    /// All pending events, in order.
    pub(super) fn relative_events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.pending.iter().map(|e| self.relative(e)).collect();
        events.sort_unstable();
        events
    }

    /// A hash of the pending events in which their order does not count.
    pub(super) fn hash_of_pending(&self) -> u64 {
        let one = |event: Event| {
            let event = self.relative(event);
            mix(event.at().as_ps() ^ event.word().0.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        self.pending.iter().map(one).fold(0, u64::wrapping_add)
    }

    /// Puts everything that is yet to come off by `by`. Where it is that an instant is past, it does not matter where.
    pub(super) fn put_off(&mut self, by: Span) {
        let now = self.pending.now();
        let put_off = |at: &mut Time| {
            if *at > now && *at != Time::MAX {
                *at += by;
            }
        };
        self.lanes.iter_mut().for_each(|lane| put_off(&mut lane.wake));
        for slot in &mut self.slots.items {
            put_off(&mut slot.free_at);
        }
        for arrival in &mut self.arrivals.items {
            put_off(&mut arrival.at);
        }
        for link in &mut self.links {
            put_off(&mut link.free);
        }
        for junction in &mut self.junctions {
            for meeting in junction.waiting.iter_mut().filter(|meeting| meeting.here > 0) {
                meeting.head += by;
                meeting.tail += by;
            }
        }
        for barrier in &mut self.barriers {
            put_off(&mut barrier.latest);
        }
        for flow in &mut self.flows {
            if flow.segments.base == NONE {
                flow.lone.tail += by;
            } else {
                let mut number = flow.oldest;
                while number != flow.next {
                    self.segments.items[flow.segments.at(number)].tail += by;
                    number = number.wrapping_add(1);
                }
            }
            put_off(&mut flow.current.end);
            let mut number = flow.first;
            while number != flow.posted {
                put_off(&mut self.messages.items[flow.messages.at(number)].end);
                number = number.wrapping_add(1);
            }
        }
        for spaced in &mut self.spaced {
            put_off(&mut spaced.next);
            put_off(&mut spaced.next_turn);
        }
        self.latest += by;
        self.pending.put_off(by);
    }
}
