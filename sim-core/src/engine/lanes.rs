//! Lanes: small sequential programs that receive, work and send.
//!
//! A step begins when the lane is free, a slice waits at each of its receive ends and a slot is free at each of its send
//! ends. It holds the lane for its [`Cost`](crate::program::Cost); its output leaves at the end of the hold (in
//! segments, paced within it), and the slots of its input are given back then.

use super::Engine;
use super::Notice;
use super::state::{Ends, LaneState, Message, NONE};
use crate::event::{Phase, Word};
use crate::ids::LaneId;
use crate::program::{Credit, Layout};
use crate::queue::Store;
use crate::units::{PsPerByte, Time};

/// What keeps a lane from its next step.
enum Blocked {
    /// Until an end is served that has this lane as its waiter.
    OnEnd,
    /// Until an instant.
    Until(Time),
}

impl<S: Store> Engine<S> {
    /// Puts a lane at its beginning, free from `at`; the caller has scheduled it.
    pub(super) fn reset_lane(&mut self, id: u32, at: Time) {
        let lane = &mut self.lanes[id as usize];
        lane.pc = lane.ops.start;
        lane.repetition = 0;
        lane.turn = 0;
        lane.busy_until = at;
        lane.wake = at;
        lane.done = lane.loops == 0 || lane.ops.is_empty();
        if !lane.done {
            self.enter(id);
            if !self.spaced.is_empty() {
                self.refresh_ends(id);
            }
        }
    }

    /// The send ends of a lane have sent nothing in this iteration.
    fn refresh_ends(&mut self, id: u32) {
        for op in self.lanes[id as usize].ops.clone() {
            let send = self.ops[op as usize].send();
            for i in 0..send.count {
                self.senders[end_of(send, i, &self.send_ends) as usize].fresh = true;
            }
        }
    }

    /// Loads the chunk of the present operation's first repetition.
    fn enter(&mut self, id: u32) {
        let lane = &mut self.lanes[id as usize];
        let op = &self.ops[lane.pc as usize];
        lane.repetition = 0;
        lane.chunk = op.chunk;
        lane.passed = op.barrier == NONE;
        if op.repeat == 0 {
            lane.left = 0;
        } else {
            load_chunk(lane, &self.layouts[lane.layout as usize], op.span());
        }
    }

    /// Goes to the next repetition, operation or loop; false at the end of the program.
    #[inline]
    fn advance(&mut self, id: u32) -> bool {
        let lane = &mut self.lanes[id as usize];
        let op = &self.ops[lane.pc as usize];
        lane.repetition += 1;
        if lane.repetition < op.repeat {
            let layout = &self.layouts[lane.layout as usize];
            lane.chunk += op.stride_or_span;
            if lane.chunk >= layout.chunks {
                lane.chunk -= layout.chunks;
            }
            load_chunk(lane, layout, op.span());
            return true;
        }
        lane.pc += 1;
        if lane.pc == lane.ops.end {
            lane.pc = lane.ops.start;
            lane.turn += 1;
            if lane.turn == lane.loops {
                return false;
            }
        }
        self.enter(id);
        true
    }

    /// Runs a lane as far as it gets at `now`.
    pub(super) fn run_lane(&mut self, id: u32, now: Time) {
        // A wake that is still pending is void from here on.
        self.lanes[id as usize].wake = Time::MAX;
        loop {
            let lane = &self.lanes[id as usize];
            if lane.done {
                return self.end_lane(id);
            }
            let op = self.ops[lane.pc as usize];
            if !lane.passed && !self.reach_barrier(id, op.barrier) {
                return;
            }
            let lane = &self.lanes[id as usize];
            if lane.left == 0 {
                if !self.advance(id) {
                    self.lanes[id as usize].done = true;
                }
                continue;
            }
            match self.blocked(id, op.recv(), op.send(), now) {
                Some(Blocked::OnEnd) => return,
                Some(Blocked::Until(at)) => return self.wake(id, at),
                None => {}
            }
            let lane = &mut self.lanes[id as usize];
            let bytes = lane.left.min(lane.slice);
            lane.left -= bytes;
            let cost = self.costs[op.cost as usize];
            let end = now + cost.hold(bytes);
            lane.busy_until = end;
            let over = lane.left == 0;
            self.watch.due |= id == self.watch.lane;
            for i in 0..op.recvs {
                self.consume(end_of(op.recv(), i, &self.recv_ends), end, now);
            }
            let message = Message { end, bytes, pace: cost.per_byte, first: false, large: false, fresh: false };
            for i in 0..op.sends {
                self.send(end_of(op.send(), i, &self.send_ends), message, now);
            }
            if over && !self.advance(id) {
                self.lanes[id as usize].done = true;
            }
        }
    }

    /// What keeps the lane from a step, having left its name where it waits.
    #[inline]
    fn blocked(&mut self, id: u32, recv: Ends, send: Ends, now: Time) -> Option<Blocked> {
        let mut until = self.lanes[id as usize].busy_until;
        for i in 0..recv.count {
            let receiver = &mut self.receivers[end_of(recv, i, &self.recv_ends) as usize];
            if receiver.arrived == receiver.consumed {
                receiver.waiter = id;
                return Some(Blocked::OnEnd);
            }
            until = until.max(self.arrivals.items[receiver.ring.at(receiver.consumed)].at);
        }
        for i in 0..send.count {
            let sender = &mut self.senders[end_of(send, i, &self.send_ends) as usize];
            let ring = self.conns[sender.conn as usize].slots;
            let slot = &self.slots.items[ring.at(sender.posted)];
            if slot.uses < sender.posted >> (ring.mask + 1).trailing_zeros() {
                sender.waiter = id;
                return Some(Blocked::OnEnd);
            }
            until = until.max(slot.free_at);
        }
        (until > now).then_some(Blocked::Until(until))
    }

    /// Makes sure that the lane is woken at `at` or before.
    #[inline]
    pub(super) fn wake(&mut self, id: u32, at: Time) {
        let lane = &mut self.lanes[id as usize];
        if at < lane.wake {
            lane.wake = at;
            self.pending.push(at, Word::lane(Phase::Lane, LaneId(id)));
        }
    }

    /// When something that a lane waited for will be there is known: it goes on when all is, unless it waits for more.
    #[inline]
    fn arouse(&mut self, id: u32, now: Time) {
        let op = &self.ops[self.lanes[id as usize].pc as usize];
        match self.blocked(id, op.recv(), op.send(), now) {
            Some(Blocked::OnEnd) => {}
            Some(Blocked::Until(at)) => self.wake(id, at),
            None => self.wake(id, now),
        }
    }

    /// A lane takes the next message of a receive end in an operation that ends at `end`.
    #[inline]
    fn consume(&mut self, receiver: u32, end: Time, now: Time) {
        let state = &mut self.receivers[receiver as usize];
        let message = state.consumed;
        state.consumed = message.wrapping_add(1);
        let conn = &self.conns[state.conn as usize];
        let slot = &mut self.slots.items[conn.slots.at(message)];
        slot.consumed += 1;
        if slot.consumed < conn.receivers {
            slot.free_at = slot.free_at.max(end);
            return;
        }
        slot.consumed = 0;
        let last = slot.free_at.max(end);
        match conn.credit {
            Credit::After(delay) => {
                slot.uses += 1;
                slot.free_at = last + delay;
                for s in conn.senders.clone() {
                    let waiter = core::mem::replace(&mut self.senders[s as usize].waiter, NONE);
                    if waiter != NONE {
                        self.arouse(waiter, now);
                    }
                }
            }
            Credit::Message { flow, bytes, delay } => {
                slot.free_at = Time::ZERO;
                let message = Message {
                    end: last + delay,
                    bytes: bytes.get(),
                    pace: PsPerByte::FREE,
                    first: false,
                    large: false,
                    fresh: false,
                };
                self.post(flow, message, now);
            }
        }
    }

    /// A clear-to-send will be at a send end at `at`.
    pub(super) fn credit_arrives(&mut self, sender: u32, at: Time, now: Time) {
        let conn = &mut self.conns[self.senders[sender as usize].conn as usize];
        let slot = &mut self.slots.items[conn.slots.at(conn.credited)];
        conn.credited = conn.credited.wrapping_add(1);
        slot.uses += 1;
        slot.free_at = at;
        let waiter = core::mem::replace(&mut self.senders[sender as usize].waiter, NONE);
        if waiter != NONE {
            self.arouse(waiter, now);
        }
    }

    /// A lane sends a message in an operation that ends at the message's end.
    #[inline]
    fn send(&mut self, sender: u32, message: Message, now: Time) {
        let state = &mut self.senders[sender as usize];
        let turn = state.posted;
        state.posted = turn.wrapping_add(1);
        let bytes = message.bytes;
        let first = core::mem::replace(&mut state.fresh, false);
        let (flows, end, signals) = (state.flows.clone(), message.end + state.latency, state.signals);
        let split = state.split;
        let (large, fresh) = self.kept_apart(flows.start, flows.len(), bytes);
        let message = Message { end, first, large, fresh, ..message };
        match flows.len() as u32 {
            0 => {
                self.signal(signals, message.end, now);
            }
            1 => self.post(flows.start, message, now),
            n if split => {
                // The library rounds the parts up to 128 B, so the last may be short or empty.
                let part = bytes.div_ceil(u64::from(n)).next_multiple_of(128);
                let mut left = bytes;
                for flow in flows {
                    let size = part.min(left);
                    left -= size;
                    self.post(flow, Message { bytes: size, pace: message.pace.times(u64::from(n)), ..message }, now);
                }
            }
            n => self.post(flows.start + turn % n, message, now),
        }
    }

    /// A lane of the same device is told at `at` that a slice is there: the message needs no link.
    fn signal(&mut self, receiver: u32, at: Time, now: Time) {
        if receiver != NONE {
            let message = self.receivers[receiver as usize].arrived;
            self.part_arrives(receiver, message, at, now);
        }
    }

    /// A part of `message` will be at a receive end at `at`; when that is known of the last part, the lane that waits is told.
    #[inline]
    pub(super) fn part_arrives(&mut self, receiver: u32, message: u32, at: Time, now: Time) {
        let state = &mut self.receivers[receiver as usize];
        let ring = state.ring;
        let arrival = &mut self.arrivals.items[ring.at(message)];
        arrival.at = arrival.at.max(at);
        if state.unordered {
            arrival.here += 1;
            let mut complete = false;
            while self.arrivals.items[ring.at(state.arrived)].here >= state.parts {
                self.arrivals.items[ring.at(state.arrived)].here = 0;
                state.arrived = state.arrived.wrapping_add(1);
                complete = true;
            }
            if !complete {
                return;
            }
        } else {
            state.arrived = state.arrived.wrapping_add(1);
        }
        let waiter = core::mem::replace(&mut state.waiter, NONE);
        if waiter != NONE {
            self.arouse(waiter, now);
        }
    }

    /// A lane is at a barrier. True when it may go on at once; the others are woken.
    fn reach_barrier(&mut self, id: u32, barrier: u32) -> bool {
        let busy_until = self.lanes[id as usize].busy_until;
        let state = &mut self.barriers[barrier as usize];
        state.here += 1;
        state.latest = state.latest.max(busy_until);
        if (state.here as usize) < state.lanes.len() {
            return false;
        }
        let at = core::mem::replace(&mut state.latest, Time::ZERO);
        state.here = 0;
        for lane in state.lanes.clone() {
            self.lanes[lane as usize].passed = true;
            self.lanes[lane as usize].busy_until = at;
            if lane != id {
                self.wake(lane, at.max(self.pending.now()));
            }
        }
        true
    }

    fn end_lane(&mut self, id: u32) {
        if id == self.watch.lane {
            self.watch_another();
        }
        let (kernel, busy_until) = (self.lanes[id as usize].kernel, self.lanes[id as usize].busy_until);
        let state = &mut self.kernels[kernel as usize];
        state.end = state.end.max(busy_until);
        state.running -= 1;
        if state.running == 0 {
            self.end_kernel(kernel);
        }
    }

    /// A kernel's lanes are all done: its next iteration, or its end.
    pub(super) fn end_kernel(&mut self, index: u32) {
        let kernel = &mut self.kernels[index as usize];
        let program = &mut self.programs[kernel.program as usize];
        let number = kernel.program;
        let notice = Notice::Kernel {
            program: number,
            kernel: index - program.kernels.start,
            iteration: kernel.iteration,
            started: kernel.started,
            ended: kernel.end,
        };
        kernel.iteration += 1;
        let again = kernel.iteration < program.iterations;
        let at = kernel.end.max(kernel.started + program.floor);
        if !again {
            program.end = program.end.max(kernel.end);
            program.running -= 1;
        }
        let (over, ended) = (program.running == 0, program.end);
        self.hear(notice);
        if again {
            self.start_kernel(index, at);
        } else if over {
            self.notices.push(Notice::Program { program: number, ended });
            self.live -= 1;
        }
    }
}

/// The `i`-th of an operation's ends.
#[inline]
pub(super) fn end_of(ends: Ends, i: u16, arena: &[u32]) -> u32 {
    if ends.count == 1 { ends.at } else { arena[ends.at as usize + i as usize] }
}

#[inline]
fn load_chunk(lane: &mut LaneState, layout: &Layout, span: u32) {
    lane.left = layout.span_bytes(lane.turn, lane.chunk, span);
    lane.slice = layout.slice_bytes(lane.left);
}
