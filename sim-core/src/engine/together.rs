//! What goes together has one record and one event.
//!
//! An operation that sends to several switches' reductions at once puts its messages on one link, one after the other in the
//! order of their flows: one flow stands for all of them, if each is one segment over that link alone. A switch that multicasts
//! hands a segment to receive ends over a link each: the outputs need no flow. The link equations are those of every
//! segment; other segments that come to the link in the very instant come before or after all.
//!
//! A flow waits for its own last segment to leave, one that stands for several for the last of all. So they go together only
//! where a link is never taken for longer than a step: if each lane that sends on it holds at least as long as the slices take
//! that all of these lanes can send at once, all that is sent at `t` has left at `t` + that. The last slice of a chunk may be
//! shorter and come sooner; then its segments may change places with those of other lanes that wait for the link.

use super::Engine;
use super::lanes::end_of;
use super::state::{Fan, FlowState, MANY, Message, NONE, Segment};
use crate::program::Sink;
use crate::queue::Store;
use crate::units::{PsPerByte, Span, Time};

/// How lanes load the link on which what they send begins.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// How long it takes all that they can send at once, a slice each to every end of an operation.
    burst: Span,
    /// The least time between two sends of a lane.
    hold: Span,
    /// Other segments cross it, too.
    shared: bool,
}

impl Default for Load {
    fn default() -> Self {
        Self { burst: Span::ZERO, hold: Span::from_ps(u64::MAX), shared: false }
    }
}

fn entry(list: &mut Vec<(usize, Span)>, link: usize) -> &mut Span {
    let at = list.iter().position(|(known, _)| *known == link).unwrap_or_else(|| {
        list.push((link, Span::ZERO));
        list.len() - 1
    });
    &mut list[at].1
}

impl<S: Store> Engine<S> {
    /// Finds what goes together in a program whose flows, lanes, operations and junctions begin here.
    pub(super) fn put_together(&mut self, flows: usize, lanes: usize, ops: usize, junctions: usize) {
        if !self.flapping.is_empty() || self.net.is_some() || self.plain {
            return;
        }
        let mut uses = vec![0u8; self.senders.len()];
        for op in &self.ops[ops..] {
            for i in 0..op.sends {
                let end = end_of(op.send(), i, &self.send_ends) as usize;
                uses[end] = uses[end].saturating_add(1);
            }
        }
        let loads = if junctions < self.junctions.len() { self.loads(flows, lanes, junctions) } else { Vec::new() };
        for lane in lanes..self.lanes.len() {
            let layout = &self.layouts[self.lanes[lane].layout as usize];
            let chunk = layout.chunk.max(layout.last_chunk);
            for op in self.lanes[lane].ops.clone() {
                let bytes = chunk.saturating_mul(u64::from(self.ops[op as usize].span()));
                let slice = self.layouts[self.lanes[lane].layout as usize].slice_bytes(bytes);
                if !loads.is_empty() {
                    self.widen(op as usize, slice, &uses, &loads);
                }
            }
        }
        for junction in junctions..self.junctions.len() {
            self.find_fan(junction);
        }
    }

    /// Of each link, how a program loads it whose flows, lanes and junctions begin here. Where others may be loaded at any time,
    /// it is looked at alone.
    fn loads(&self, flows: usize, lanes: usize, junctions: usize) -> Vec<Load> {
        let shared = lanes > 0 && !self.limits.open;
        let mut loads = vec![Load { shared, ..Load::default() }; self.links.len()];
        for lane in &self.lanes[lanes..] {
            let layout = &self.layouts[lane.layout as usize];
            let chunk = layout.chunk.max(layout.last_chunk);
            let mut most: Vec<(usize, Span)> = Vec::new();
            for op in &self.ops[lane.ops.start as usize..lane.ops.end as usize] {
                let slice = layout.slice_bytes(chunk.saturating_mul(u64::from(op.span())));
                let hold = self.costs[op.cost as usize].hold(slice);
                let mut at_once: Vec<(usize, Span)> = Vec::new();
                for i in 0..op.sends {
                    for flow in self.senders[end_of(op.send(), i, &self.send_ends) as usize].flows.clone() {
                        let link = self.routes[self.flows[flow as usize].route as usize].index();
                        *entry(&mut at_once, link) += self.links[link].cost_of(slice, self.mtu);
                    }
                }
                for (link, cost) in at_once {
                    loads[link].hold = loads[link].hold.min(hold);
                    let most = entry(&mut most, link);
                    *most = (*most).max(cost);
                }
            }
            for (link, cost) in most {
                loads[link].burst += cost;
            }
        }
        // Clear-to-sends, what leaves junctions, and what has come over another link.
        let credits = self.flows[flows..].iter().filter(|flow| matches!(flow.sink, Sink::Credit(_)));
        let forked = self.junctions[junctions..]
            .iter()
            .flat_map(|j| &self.flows[j.outputs.start as usize..j.outputs.end as usize]);
        for flow in credits.chain(forked) {
            loads[self.routes[flow.route as usize].index()].shared = true;
        }
        for flow in &self.flows[flows..] {
            let route = &self.routes[flow.route as usize..][..usize::from(flow.hops)];
            route.iter().skip(1).for_each(|link| loads[link.index()].shared = true);
        }
        loads
    }

    /// Lets one flow stand for all that an operation sends on, where messages are of `most` bytes at most.
    fn widen(&mut self, op: usize, most: u64, uses: &[u8], loads: &[Load]) {
        let op = self.ops[op];
        if op.sends < 2 {
            return;
        }
        let sends = || (0..op.sends).map(|i| end_of(op.send(), i, &self.send_ends));
        let link = |flow: &FlowState| self.routes[flow.route as usize];
        let Some(first) = sends().next().map(|end| &self.senders[end as usize]) else { return };
        let (first, latency) = (first.flows.start, first.latency);
        let Some(state) = self.flows.get(first as usize) else { return };
        let load = &loads[link(state).index()];
        if load.shared || load.hold < load.burst {
            return;
        }
        let mut before = None;
        let mut ends = vec![u32::from(op.sends)];
        for end in sends() {
            let sender = &self.senders[end as usize];
            let Some(flow) = self.flows.get(sender.flows.start as usize) else { return };
            let Sink::Junction(junction) = flow.sink else { return };
            let alone = uses[end as usize] == 1 && sender.flows.len() == 1 && flow.hops == 1 && flow.spaced == NONE;
            let alike = link(flow) == link(&self.flows[first as usize]) && u64::from(flow.segment) >= most;
            if !alone || !alike || flow.wide != NONE || before >= Some(sender.flows.start) || sender.latency != latency
            {
                return;
            }
            before = Some(sender.flows.start);
            ends.push(junction);
        }
        self.flows[first as usize].wide = self.wide.len() as u32;
        self.wide.append(&mut ends);
        for i in 1..op.sends {
            let end = end_of(op.send(), i, &self.send_ends) as usize;
            // Nothing goes over it any more.
            self.flows[self.senders[end].flows.start as usize].wide = MANY;
            self.senders[end].flows = 0..0;
            self.senders[end].signals = NONE;
        }
    }

    /// Where all outputs of a junction are one link to a receive end that gets them in order, notes links and ends.
    fn find_fan(&mut self, junction: usize) {
        let outputs = self.junctions[junction].outputs.clone();
        let fan = |flow: u32| {
            let flow = &self.flows[flow as usize];
            let Sink::Receiver(receiver) = flow.sink else { return None };
            let plain = flow.hops == 1
                && flow.turns == 1
                && flow.spaced == NONE
                && !self.receivers[receiver as usize].unordered;
            plain.then(|| Fan { link: self.routes[flow.route as usize].0, receiver })
        };
        let Some(mut fans) = outputs.map(fan).collect::<Option<Vec<_>>>() else { return };
        self.junctions[junction].fan = self.fans.len() as u32;
        self.fans.append(&mut fans);
    }

    /// The junctions where a flow that stands for several ends.
    pub(super) fn ends_of_many(&self, wide: u32) -> &[u32] {
        let count = self.wide[wide as usize] as usize;
        &self.wide[wide as usize + 1..][..count]
    }

    /// The turn of a flow that stands for several: a segment for each junction.
    pub(super) fn source_of_many(&mut self, flow: u32, now: Time) {
        let state = &mut self.flows[flow as usize];
        let (order, wide, route) = (state.delivered, state.wide as usize, state.route);
        let bytes = state.current.bytes as u32;
        state.delivered = order.wrapping_add(1);
        let link = self.routes[route as usize];
        let packets = bytes.div_ceil(self.mtu.get() as u32);
        let count = self.wide[wide] as usize;
        self.engine.bytes_sent += u64::from(bytes) * count as u64;
        let mut free = self.links[link.index()].free;
        for i in 1..=count {
            let crossing = self.links[link.index()].pass(bytes, packets, now.max(free), now, now);
            free = crossing.free;
            let segment = Segment { tail: crossing.tail, bytes, packets, ends: 1, ..Segment::default() };
            self.enter_junction(self.wide[wide + i], order, &segment, crossing.head);
        }
        if self.next_message(flow) {
            self.book(flow, free);
        } else {
            let state = &mut self.flows[flow as usize];
            state.active = false;
            state.current = Message {
                end: now,
                bytes: free.as_ps(),
                pace: PsPerByte::FREE,
                first: false,
                large: false,
                fresh: false,
            };
            self.moving -= 1;
        }
    }

    /// A segment leaves a junction over one link to each receive end.
    pub(super) fn fan_out(&mut self, junction: u32, segment: &Segment, now: Time) {
        let state = &mut self.junctions[junction as usize];
        let (fan, count, message) = (state.fan as usize, state.outputs.len(), state.messages);
        state.messages = message.wrapping_add(u32::from(segment.ends));
        self.engine.bytes_forked += u64::from(segment.bytes) * count as u64;
        self.engine.bytes_delivered += u64::from(segment.bytes) * count as u64;
        for i in fan..fan + count {
            let Fan { link, receiver } = self.fans[i];
            let l = &mut self.links[link as usize];
            let crossing = l.pass(segment.bytes, segment.packets, now.max(l.free), now, segment.tail);
            if segment.ends > 0 {
                self.part_arrives(receiver, message, crossing.tail, now);
            }
        }
    }
}
