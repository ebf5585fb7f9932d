//! NVLS: all-reduce inside one NVLink domain whose switches reduce and multicast, and between several with the network's
//! switches reducing what the heads hand them (SHARP).
//!
//! Head h owns every h-th chunk of a loop of heads × chunk. Every rank stages its input where multicast can reach it;
//! head h reads chunk h reduced by the switch and stores the result to all; every rank copies it out. These are three
//! groups of warps that run at once, so a call takes (loops + 2) times the slowest of the three.
//!
//! Each GPU's link carries S(1 + 1/heads) per direction, not the ring's 2S(n−1)/n. Between nodes a NIC carries S/heads in each
//! direction, however many nodes there are.
//!
//! All-gather and reduce-scatter are the halves of that: every rank multicasts its part and all copy it out, or all stage
//! their input and every rank reads its part reduced. A link carries S in the direction of the whole and S/n in the other.
//!
//! Between nodes every rank is the head of its own part. In an all-gather it hands that to the network, whose switches copy it
//! to the heads of equal place of all nodes, itself included; each head multicasts the parts that so arrive. In a
//! reduce-scatter the heads of equal place hand the switches, one after the other, their node's sums for each of them. A NIC
//! carries S/g in one direction and S/n in the other, g ranks a node; an NVLink S in one and S/g in the other.

use super::{Algorithm, Limit};
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Work};
use crate::nccl::{Operation, Protocol};
use crate::timing::Key;

/// Most heads of a domain.
pub(super) const MAX_HEADS: usize = 32;

/// The switch's reduction and multicast inside one domain.
#[derive(Debug)]
pub(super) struct Nvls;

/// The connections of one domain on one channel: per head, the reduction towards it and the multicast from it.
pub(super) struct Domain {
    pub(super) reduce: Vec<u32>,
    pub(super) multicast: Vec<u32>,
}

impl Domain {
    pub(super) fn connect(lanes: &mut dyn LaneSink, work: &ChannelWork, node: &[u32]) -> Self {
        let heads = node.iter().take(MAX_HEADS);
        let (reduce, multicast) = heads
            .map(|head| {
                let all = node.to_vec();
                let reduce = Peers::Reduce { from: all.clone(), to: *head };
                let multicast = Peers::Multicast { from: *head, to: all };
                (lanes.connect(reduce, work.channel, work.slots), lanes.connect(multicast, work.channel, work.slots))
            })
            .unzip();
        Self { reduce, multicast }
    }

    /// The lanes that copy the input of the rank at `place` to where the switch reads it, and the result out.
    pub(super) fn staging(&self, lanes: &mut dyn LaneSink, work: &ChannelWork, layout: u32, rank: u32, place: u32) {
        let end = |connection: &u32| End { connection: *connection, side: place };
        let op = |action| LaneOp::new(action, Work::Stage, 0).spread();
        let stage = self.reduce.iter().fold(op(Action::REDUCE_SEND), |op, c| op.send(end(c)));
        lanes.lane(rank, work.channel, layout, &[stage]);
        let unstage = self.multicast.iter().fold(op(Action::STORE), |op, c| op.recv(end(c)));
        lanes.lane(rank, work.channel, layout, &[unstage]);
    }

    /// The staging of the rank at `place` in an all-gather or reduce-scatter: for each of `nodes` nodes a row of parts, one of
    /// every head.
    fn of_parts(&self, gathers: bool, place: u32, (nodes, heads): (u32, u32)) -> LaneOp {
        let end = |connection: &u32| End { connection: *connection, side: place };
        let op = |action| LaneOp::new(action, Work::Stage, 0).spread_in(heads).times(nodes, heads);
        if gathers {
            self.multicast.iter().fold(op(Action::STORE), |op, c| op.recv(end(c)))
        } else {
            self.reduce.iter().fold(op(Action::REDUCE_SEND), |op, c| op.send(end(c)))
        }
    }
}

/// All-gather or reduce-scatter. Every rank is the head of its part; between nodes parts go by the NICs of their heads, and
/// the network's switches copy them to the heads of equal place, or reduce what these have for one of them.
fn half(gathers: bool, call: &Call, lanes: &mut dyn LaneSink) {
    let nodes = call.group.nodes();
    let (count, heads) = (nodes.len() as u32, nodes[0].len() as u32);
    for work in &call.channels {
        let layout = lanes.layout(work.parts_of(count * heads));
        let window = window(work, count);
        let networks = PartsOverNetwork::connect(lanes, work, nodes, gathers);
        for (at, node) in nodes.iter().enumerate() {
            let domain = Domain::connect(lanes, work, node);
            for (place, rank) in node.iter().enumerate() {
                let (own, place) = (at as u32 * heads + place as u32, place as u32);
                let mut lane = |ops: &[LaneOp]| lanes.lane(*rank, work.channel, layout, ops);
                // Of each node's parts, one of every head.
                let stage = domain.of_parts(gathers, place, (count, heads)).together(window);
                let head = if gathers { domain.multicast[place as usize] } else { domain.reduce[place as usize] };
                let between = |action, chunk| LaneOp::new(action, Work::MultimemTree, chunk).together(window);
                let Some(networks) = &networks else {
                    let op = |action| LaneOp::new(action, Work::Multimem, own);
                    let head = if gathers {
                        op(Action::REDUCE_SEND).send(End::of(head))
                    } else {
                        op(Action::STORE).recv(End::of(head))
                    };
                    lane(&[stage]);
                    lane(&[head]);
                    continue;
                };
                lane(&[stage]);
                let parts = (0..count).map(|part| (part * heads + place, networks.end(part, place, at as u32)));
                if gathers {
                    let pass = |(chunk, end)| between(Action::FORWARD, chunk).recv(end).send(End::of(head));
                    lane(&[between(Action::REDUCE_SEND, own).send(networks.own(at as u32, place)).together(1)]);
                    lane(&parts.map(pass).collect::<Vec<_>>());
                } else {
                    let pass = |(chunk, end)| between(Action::FORWARD, chunk).recv(End::of(head)).send(end);
                    lane(&parts.map(pass).collect::<Vec<_>>());
                    lane(&[between(Action::STORE, own).recv(networks.own(at as u32, place)).together(1)]);
                }
            }
        }
    }
}

/// How many nodes' parts a loop of the kernel takes at once: as many as its chunk holds.
pub(super) fn window(work: &ChannelWork, nodes: u32) -> u32 {
    (work.chunk / work.bytes.max(1)).clamp(1, u64::from(nodes.max(1))) as u32
}

/// What carries the parts of an all-gather or reduce-scatter between nodes: for each part one connection, from its head to
/// the heads of equal place on all nodes, or from these to it.
pub(super) struct PartsOverNetwork {
    /// By place of the head, then by node of the part.
    connections: Vec<u32>,
    nodes: u32,
}

impl PartsOverNetwork {
    /// `None` on one node.
    pub(super) fn connect(
        lanes: &mut dyn LaneSink,
        work: &ChannelWork,
        nodes: &[Vec<u32>],
        gathers: bool,
    ) -> Option<Self> {
        let heads = nodes[0].len();
        // What a connection may be ahead is that of all parts of a place together.
        let slots = (work.slots / nodes.len().min(usize::from(u16::MAX)) as u16).max(1);
        let mut connections = Vec::with_capacity(heads * nodes.len());
        for place in 0..heads {
            let members: Vec<u32> = nodes.iter().map(|node| node[place]).collect();
            for owner in members.iter().filter(|_| members.len() > 1) {
                let (from, to) = (vec![*owner], members.clone());
                let (from, to) = if gathers { (from, to) } else { (to, from) };
                connections.push(lanes.connect(Peers::Network { from, to }, work.channel, slots));
            }
        }
        (nodes.len() > 1).then_some(Self { connections, nodes: nodes.len() as u32 })
    }

    fn of(&self, part: u32, place: u32) -> u32 {
        self.connections[(place * self.nodes + part) as usize]
    }

    /// Where the head at `place` of `node` takes part in the part of node `part`, as one of many.
    pub(super) fn end(&self, part: u32, place: u32, node: u32) -> End {
        End { connection: self.of(part, place), side: node }
    }

    /// Where it sends, or gets, its own part.
    pub(super) fn own(&self, node: u32, place: u32) -> End {
        End::of(self.of(node, place))
    }
}

impl Algorithm for Nvls {
    fn name(&self) -> &'static str {
        "nvls"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        let nodes = call.group.nodes();
        let even = nodes.iter().all(|node| node.len() == nodes[0].len());
        match operation {
            Operation::AllReduce => even && nodes[0].len() > 1,
            // Every rank is the head of its part, with a NIC where there are several nodes.
            Operation::AllGather | Operation::ReduceScatter => {
                let heads = if nodes.len() > 1 { call.heads as usize } else { MAX_HEADS };
                even && (2..=heads.min(MAX_HEADS)).contains(&nodes[0].len())
            }
            _ => false,
        }
    }

    fn limit(&self, _protocol: Protocol) -> Option<Limit> {
        Some(Limit { parameter: Key::NvlsRate, planned: false, bus: false, words: "NVLS loop" })
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        if operation != Operation::AllReduce {
            return half(operation == Operation::AllGather, call, lanes);
        }
        let nodes = call.group.nodes();
        for work in &call.channels {
            let heads = nodes[0].len().min(MAX_HEADS);
            let layout = lanes.layout(work.equal_loops_of(heads as u32));
            // Per head, what joins the nodes.
            let networks: Vec<u32> = (0..if nodes.len() > 1 { heads } else { 0 })
                .map(|head| {
                    let members: Vec<u32> = nodes.iter().map(|node| node[head]).collect();
                    let peers = Peers::Network { from: members.clone(), to: members };
                    lanes.connect(peers, work.channel, work.slots)
                })
                .collect();
            for (at, node) in nodes.iter().enumerate() {
                let domain = Domain::connect(lanes, work, node);
                for (place, rank) in node.iter().enumerate() {
                    domain.staging(lanes, work, layout, *rank, place as u32);
                    let (Some(reduce), Some(multicast)) = (domain.reduce.get(place), domain.multicast.get(place))
                    else {
                        continue;
                    };
                    let op = |work| LaneOp::new(Action::FORWARD, work, place as u32);
                    if let Some(network) = networks.get(place) {
                        let network = End { connection: *network, side: at as u32 };
                        let up = op(Work::MultimemTree).recv(End::of(*reduce)).send(network);
                        let down = op(Work::MultimemTree).recv(network).send(End::of(*multicast));
                        lanes.lane(*rank, work.channel, layout, &[up]);
                        lanes.lane(*rank, work.channel, layout, &[down]);
                    } else {
                        let head = op(Work::Multimem).recv(End::of(*reduce)).send(End::of(*multicast));
                        lanes.lane(*rank, work.channel, layout, &[head]);
                    }
                }
            }
        }
    }
}
