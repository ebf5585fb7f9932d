//! Fetching what events that come soon will need.
//!
//! In a large run the records are not in the processor's caches, and an event waits for one after the other. When the queue
//! finds out which events come next, their records are read here, one kind after the other, so that fetches run side by
//! side. Nothing depends on what is read.

use super::Engine;
use super::state::{Ends, NONE};
use crate::event::{Phase, Word};
use crate::program::{Credit, Sink};
use crate::queue::Store;

/// Flows from which on their records are more than a core's caches hold.
pub(super) const LARGE: usize = 1 << 13;

/// Ends of an operation beyond which they are not fetched.
const MOST_ENDS: u16 = 32;

impl<S: Store> Engine<S> {
    /// Reads what events that come soon will need.
    #[inline(never)]
    pub(super) fn fetch_soon(&mut self) {
        let mut soon = core::mem::take(self.pending.soon());
        if self.flows.len() >= LARGE {
            let first = soon.iter().fold(0, |sum, word| sum ^ self.fetch_subject(*word));
            let second = soon.iter().fold(0, |sum, word| sum ^ self.fetch_places(*word));
            let third = soon.iter().fold(0, |sum, word| sum ^ self.fetch_ends(*word));
            let fourth = soon.iter().fold(0, |sum, word| sum ^ self.fetch_behind(*word));
            core::hint::black_box(first ^ second ^ third ^ fourth);
        }
        soon.clear();
        *self.pending.soon() = soon;
    }

    /// The lane, junction or flow that the event is about.
    #[inline]
    fn fetch_subject(&self, word: Word) -> u32 {
        match word.phase() {
            Phase::Lane => self.lanes.get(word.lane_id().index()).map_or(0, |l| l.pc ^ l.left as u32),
            Phase::Meeting => self.junctions[word.lane_id().index()].first,
            Phase::Source | Phase::Arrival => {
                let flow = &self.flows[word.flow_id().index()];
                flow.lone.bytes ^ flow.posted ^ u32::from(flow.hops)
            }
            _ => 0,
        }
    }

    /// Where it takes place: the link and what is at the end of the flow, the operation, what leaves the junction.
    #[inline]
    fn fetch_places(&self, word: Word) -> u32 {
        match word.phase() {
            Phase::Lane => {
                let lane = self.lanes.get(word.lane_id().index());
                lane.and_then(|l| self.ops.get(l.pc as usize)).map_or(0, |op| op.cost)
            }
            Phase::Meeting => {
                let junction = &self.junctions[word.lane_id().index()];
                if junction.fan != NONE {
                    return self.fans[junction.fan as usize].receiver;
                }
                let outputs = junction.outputs.clone();
                outputs.fold(0, |sum, f| sum ^ self.flows[f as usize].route ^ self.flows[f as usize].delivered)
            }
            Phase::Source | Phase::Arrival => {
                let link = &self.links[word.link_id().index()];
                let flow = &self.flows[word.flow_id().index()];
                if flow.wide != NONE {
                    let ends = self.ends_of_many(flow.wide).iter();
                    return ends.fold(0, |sum, j| sum ^ self.junctions[*j as usize].first);
                }
                let end = match flow.sink {
                    Sink::Receiver(r) => self.receivers[r as usize].waiter,
                    Sink::Junction(j) => self.junctions[j as usize].first,
                    Sink::Credit(s) => self.senders[s as usize].waiter,
                };
                end ^ link.overhead ^ link.payload as u32 ^ (link.waits[0] ^ link.waits[12]) as u32
            }
            _ => 0,
        }
    }

    /// The ends of an operation, the links and receivers behind a junction.
    #[inline]
    fn fetch_ends(&self, word: Word) -> u32 {
        match word.phase() {
            Phase::Lane => self.each_end(word, |recv| self.receivers[recv].consumed, |send| self.senders[send].posted),
            Phase::Meeting => {
                let junction = &self.junctions[word.lane_id().index()];
                let outputs = junction.outputs.clone();
                if junction.fan != NONE {
                    let fans = &self.fans[junction.fan as usize..][..outputs.len()];
                    return fans.iter().fold(0, |sum, f| {
                        let (receiver, link) = (&self.receivers[f.receiver as usize], &self.links[f.link as usize]);
                        sum ^ receiver.waiter ^ link.overhead ^ link.waits[0] as u32
                    });
                }
                outputs.fold(0, |sum, f| {
                    let flow = &self.flows[f as usize];
                    let link = &self.links[self.routes[flow.route as usize].index()];
                    let end = match flow.sink {
                        Sink::Receiver(r) => self.receivers[r as usize].waiter,
                        _ => 0,
                    };
                    sum ^ end ^ link.overhead ^ link.payload as u32 ^ (link.waits[0] ^ link.waits[12]) as u32
                })
            }
            _ => 0,
        }
    }

    /// The connections, slots and flows behind the ends of an operation.
    #[inline]
    fn fetch_behind(&self, word: Word) -> u32 {
        if word.phase() != Phase::Lane {
            return 0;
        }
        let recv = |recv: usize| {
            let receiver = &self.receivers[recv];
            let arrival = &self.arrivals.items[receiver.ring.at(receiver.consumed)];
            let conn = &self.conns[receiver.conn as usize];
            let back = match conn.credit {
                Credit::Message { flow, .. } => self.flow_at(flow as usize),
                Credit::After(_) => 0,
            };
            back ^ arrival.at.as_ps() as u32 ^ self.slots.items[conn.slots.at(receiver.consumed)].consumed
        };
        let send = |send: usize| {
            let sender = &self.senders[send];
            let conn = &self.conns[sender.conn as usize];
            let flow = if sender.flows.is_empty() { 0 } else { self.flow_at(sender.flows.start as usize) };
            flow ^ self.slots.items[conn.slots.at(sender.posted)].uses
        };
        self.each_end(word, recv, send)
    }

    /// Something of each line of a flow's record.
    #[inline]
    fn flow_at(&self, flow: usize) -> u32 {
        self.flows.get(flow).map_or(0, |f| f.lone.bytes ^ f.posted ^ u32::from(f.hops))
    }

    /// Something of each end of the present operation of a lane.
    #[inline]
    fn each_end(&self, word: Word, recv: impl Fn(usize) -> u32, send: impl Fn(usize) -> u32) -> u32 {
        let lane = self.lanes.get(word.lane_id().index());
        let Some(op) = lane.and_then(|l| self.ops.get(l.pc as usize)) else { return 0 };
        let each = |ends: Ends, arena: &[u32], of: &dyn Fn(usize) -> u32| match ends.count {
            0 => 0,
            1 => of(ends.at as usize),
            n if n > MOST_ENDS => 0,
            n => arena[ends.at as usize..][..usize::from(n)].iter().fold(0, |sum, end| sum ^ of(*end as usize)),
        };
        each(op.recv(), &self.recv_ends, &recv) ^ each(op.send(), &self.send_ends, &send)
    }
}
