//! Cutting a program in regions: what shares links, memory, or a moment of work belongs together.

use super::{Region, Regions};
use crate::engine::state::{Ends, NONE, OpState};
use crate::engine::{Engine, lanes::end_of};
use crate::program::{Credit, Layout, Sink, Slice};
use crate::queue::{Pending, Store};
use crate::units::{Bytes, Span};

/// Most regions, and most of them that are wires: small ones are put together.
const MOST: usize = 1 << 14;
const MOST_WIRES: usize = 32;

/// Sets that are joined, with the least member as the name of each.
struct Sets(Vec<u32>);

impl Sets {
    fn new(members: usize) -> Self {
        Self((0..members as u32).collect())
    }

    fn name(&mut self, mut of: u32) -> u32 {
        while self.0[of as usize] != of {
            let above = self.0[of as usize];
            self.0[of as usize] = self.0[above as usize];
            of = above;
        }
        of
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.name(a), self.name(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// What is joined: lanes, then connections, junctions and links.
struct Members {
    conns: u32,
    junctions: u32,
    links: u32,
    all: usize,
}

impl<S: Store> Engine<S> {
    /// The regions of all that is loaded, with empty queues; `None` if it can't be cut.
    pub(super) fn cut(&self) -> Option<Regions<S>> {
        let conns = self.lanes.len();
        let junctions = conns + self.conns.len();
        let links = junctions + self.junctions.len();
        let all = links + self.links.len();
        let members = Members { conns: conns as u32, junctions: junctions as u32, links: links as u32, all };
        let mut sets = self.joined(&members);
        let lookahead = self.lookahead()?;

        // Regions of lanes in the order of their first lane, wires in that of their first link.
        let mut region = vec![NONE; all];
        let mut lanes = 0u32;
        for lane in 0..self.lanes.len() as u32 {
            let name = sets.name(lane) as usize;
            if region[name] == NONE {
                region[name] = lanes;
                lanes += 1;
            }
        }
        let mut wires = 0u32;
        let mut of_wires = vec![NONE; all];
        for flow in self.far_flows() {
            let name = sets.name(members.links + self.first_link(flow)) as usize;
            // Wires that a region of lanes uses too.
            if region[name] != NONE {
                return None;
            }
            if of_wires[name] == NONE {
                of_wires[name] = wires;
                wires += 1;
            }
        }
        if lanes < 2 || wires == 0 || lanes as usize > MOST {
            return None;
        }
        let grouped = (wires as usize).min(MOST_WIRES);
        let mut of = |member: u32| {
            let name = sets.name(member) as usize;
            match (region[name], of_wires[name]) {
                (NONE, NONE) => 0,
                (NONE, wire) => (wire as usize * grouped / wires as usize) as u16,
                (lane, _) => (grouped + lane as usize) as u16,
            }
        };
        let of_lane: Vec<u16> = (0..members.conns).map(&mut of).collect();
        let of_junction: Vec<u16> = (members.junctions..members.links).map(&mut of).collect();
        let of_link: Vec<u16> = (members.links..members.all as u32).map(&mut of).collect();
        let (mut of_receiver, mut of_sender) = (vec![0; self.receivers.len()], vec![0; self.senders.len()]);
        for (lane, region) in self.lanes.iter().zip(&of_lane) {
            for op in &self.ops[lane.ops.start as usize..lane.ops.end as usize] {
                each(op.recv(), &self.recv_ends, |end| of_receiver[end as usize] = *region);
                each(op.send(), &self.send_ends, |end| of_sender[end as usize] = *region);
            }
        }
        let now = self.pending.now();
        let list = (0..grouped + lanes as usize)
            .map(|_| Region { pending: Pending::starting_at(now), mail: Vec::new() })
            .collect();
        let wires = grouped as u16;
        Some(Regions {
            of_link,
            of_junction,
            of_receiver,
            of_sender,
            of_lane,
            list,
            wires,
            current: 0,
            lookahead,
            end: now,
        })
    }

    /// Whether a connection cuts: its slots come back by a message, and no send end reaches memory directly.
    fn is_far(&self, conn: usize) -> bool {
        let conn = &self.conns[conn];
        matches!(conn.credit, Credit::Message { .. })
            && conn.senders.clone().all(|s| {
                let flows = self.senders[s as usize].flows.clone();
                // What meets others on its way is no message between two lanes.
                let meets = |f: u32| matches!(self.flows[f as usize].sink, Sink::Junction(_));
                !flows.is_empty() && !flows.into_iter().any(meets)
            })
    }

    /// The flows of connections that cut.
    fn far_flows(&self) -> impl Iterator<Item = u32> + '_ {
        let far = (0..self.conns.len()).filter(|c| self.is_far(*c)).map(|c| &self.conns[c]);
        far.flat_map(|conn| {
            let back = match conn.credit {
                Credit::Message { flow, .. } => Some(flow),
                Credit::After(_) => None,
            };
            conn.senders.clone().flat_map(|s| self.senders[s as usize].flows.clone()).chain(back)
        })
    }

    fn first_link(&self, flow: u32) -> u32 {
        self.routes[self.flows[flow as usize].route as usize].0
    }

    fn joined(&self, members: &Members) -> Sets {
        let mut sets = Sets::new(members.all);
        let far: Vec<bool> = (0..self.conns.len()).map(|c| self.is_far(c)).collect();
        let link = |flow: u32| members.links + self.first_link(flow);
        for (i, flow) in self.flows.iter().enumerate() {
            let route = &self.routes[flow.route as usize..][..usize::from(flow.hops)];
            for pair in route.windows(2) {
                sets.join(members.links + pair[0].0, members.links + pair[1].0);
            }
            match flow.sink {
                Sink::Junction(j) => sets.join(link(i as u32), members.junctions + j),
                Sink::Receiver(r) => {
                    let conn = self.receivers[r as usize].conn;
                    if conn != NONE && !far[conn as usize] {
                        sets.join(link(i as u32), members.conns + conn);
                    }
                }
                Sink::Credit(s) => {
                    let conn = self.senders[s as usize].conn;
                    if conn != NONE && !far[conn as usize] {
                        sets.join(link(i as u32), members.conns + conn);
                    }
                }
            }
        }
        for (i, junction) in self.junctions.iter().enumerate() {
            for flow in junction.outputs.clone() {
                sets.join(link(flow), members.junctions + i as u32);
            }
        }
        for (i, conn) in self.conns.iter().enumerate().filter(|(i, _)| !far[*i]) {
            for flow in conn.senders.clone().flat_map(|s| self.senders[s as usize].flows.clone()) {
                sets.join(link(flow), members.conns + i as u32);
            }
        }
        // Lanes at one side of a connection that cuts share its slots there.
        let mut sides = vec![[NONE; 2]; self.conns.len()];
        for (i, lane) in self.lanes.iter().enumerate() {
            for op in &self.ops[lane.ops.start as usize..lane.ops.end as usize] {
                let mut joins = |conn: u32, side: usize| {
                    if conn == NONE {
                        return;
                    }
                    if !far[conn as usize] {
                        return sets.join(i as u32, members.conns + conn);
                    }
                    let first = &mut sides[conn as usize][side];
                    if *first == NONE {
                        *first = i as u32;
                    }
                    sets.join(i as u32, *first);
                };
                each(op.recv(), &self.recv_ends, |end| joins(self.receivers[end as usize].conn, 0));
                each(op.send(), &self.send_ends, |end| joins(self.senders[end as usize].conn, 1));
            }
        }
        let kernels = self.kernels.iter().map(|k| &self.kernel_lanes[k.lanes.start as usize..k.lanes.end as usize]);
        for lanes in kernels {
            lanes.windows(2).for_each(|pair| sets.join(pair[0], pair[1]));
        }
        for barrier in &self.barriers {
            let Slice { start, end } = barrier.lanes;
            (start + 1..end).for_each(|lane| sets.join(lane - 1, lane));
        }
        sets
    }

    /// The least time from a step to when what it sends into wires may leave; `None` if there is none, or where a message
    /// may arrive in the instant in which that is settled.
    fn lookahead(&self) -> Option<Span> {
        let arrives_later = |flow: u32| {
            let state = &self.flows[flow as usize];
            let last = self.routes[state.route as usize + usize::from(state.hops) - 1];
            self.links[last.index()].latency > Span::ZERO
        };
        if !self.far_flows().all(arrives_later) {
            return None;
        }
        let mut least = Span::from_ps(u64::MAX);
        for lane in &self.lanes {
            let layout = &self.layouts[lane.layout as usize];
            for op in &self.ops[lane.ops.start as usize..lane.ops.end as usize] {
                let slices = slices(layout, op.span());
                each(op.recv(), &self.recv_ends, |end| {
                    let conn = self.receivers[end as usize].conn;
                    if conn != NONE
                        && self.is_far(conn as usize)
                        && let Credit::Message { delay, .. } = self.conns[conn as usize].credit
                    {
                        for bytes in slices {
                            least = least.min(self.costs[op.cost as usize].hold(bytes) + delay);
                        }
                    }
                });
                each(op.send(), &self.send_ends, |end| {
                    let conn = self.senders[end as usize].conn;
                    if conn != NONE && self.is_far(conn as usize) {
                        for bytes in slices {
                            least = least.min(self.leaves_after(op, end, bytes));
                        }
                    }
                });
            }
        }
        (least > Span::ZERO).then_some(least)
    }

    /// The least time from a step to the first byte that it sends on a send end. A message is made at its pace, so that
    /// its first segment can be there before the operation ends.
    fn leaves_after(&self, op: &OpState, sender: u32, bytes: u64) -> Span {
        let (sender, cost) = (&self.senders[sender as usize], &self.costs[op.cost as usize]);
        let flows = sender.flows.len() as u64;
        let (part, pace) = if sender.split && flows > 1 {
            (bytes.div_ceil(flows).next_multiple_of(128), cost.per_byte.times(flows))
        } else {
            (bytes, cost.per_byte)
        };
        let segments = sender.flows.clone().map(|f| u64::from(self.flows[f as usize].segment));
        let behind = part.saturating_sub(segments.min().unwrap_or(0));
        let end = cost.hold(bytes) + sender.latency;
        // Parts of sizes between are rounded up, and times are to the picosecond.
        let rounded =
            if behind > 0 { pace.cost(Bytes::new(behind + 128 * flows)) + Span::from_ps(8) } else { Span::ZERO };
        Span::from_ps(end.as_ps().saturating_sub(rounded.as_ps()))
    }
}

/// The sizes of slices between which all are: a whole one and the last of a chunk; where loops differ, nothing is known but
/// that they are not negative.
fn slices(layout: &Layout, span: u32) -> [u64; 2] {
    let chunk = layout.chunk.max(layout.last_chunk).saturating_mul(u64::from(span));
    let whole = layout.slice_bytes(chunk);
    if span != 1 || whole == 0 || !layout.is_uniform() {
        return [whole, 0];
    }
    [whole, chunk - (chunk - 1) / whole * whole]
}

fn each(ends: Ends, arena: &[u32], mut of: impl FnMut(u32)) {
    (0..ends.count).for_each(|i| of(end_of(ends, i, arena)));
}
