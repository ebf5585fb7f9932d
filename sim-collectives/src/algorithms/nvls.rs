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
//! All-gather and reduce-scatter inside one domain are the halves of that: every rank multicasts its part and all copy it out,
//! or all stage their input and every rank reads its part reduced. A link carries S in the direction of the whole and S/n in
//! the other.

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

    /// The lanes that stage the input of the rank at `place` and copy the result out.
    pub(super) fn staging(&self, lanes: &mut dyn LaneSink, work: &ChannelWork, layout: u32, rank: u32, place: u32) {
        self.stage(lanes, work, layout, rank, place);
        self.unstage(lanes, work, layout, rank, place);
    }

    /// The lane that copies the input to where the switch reads it.
    fn stage(&self, lanes: &mut dyn LaneSink, work: &ChannelWork, layout: u32, rank: u32, place: u32) {
        let end = |connection: &u32| End { connection: *connection, side: place };
        let op = LaneOp::new(Action::REDUCE_SEND, Work::Stage, 0).spread();
        lanes.lane(rank, work.channel, layout, &[self.reduce.iter().fold(op, |op, c| op.send(end(c)))]);
    }

    /// The lane that copies out what the switch has written.
    fn unstage(&self, lanes: &mut dyn LaneSink, work: &ChannelWork, layout: u32, rank: u32, place: u32) {
        let end = |connection: &u32| End { connection: *connection, side: place };
        let op = LaneOp::new(Action::STORE, Work::Stage, 0).spread();
        lanes.lane(rank, work.channel, layout, &[self.multicast.iter().fold(op, |op, c| op.recv(end(c)))]);
    }
}

/// All-gather or reduce-scatter inside one domain.
fn half(gathers: bool, call: &Call, lanes: &mut dyn LaneSink) {
    let node = &call.group.nodes()[0];
    for work in &call.channels {
        let domain = Domain::connect(lanes, work, node);
        let layout = lanes.layout(work.parts_of(node.len() as u32));
        for (place, rank) in node.iter().enumerate() {
            let op = |action| LaneOp::new(action, Work::Multimem, place as u32);
            let head = if gathers {
                domain.unstage(lanes, work, layout, *rank, place as u32);
                op(Action::REDUCE_SEND).send(End::of(domain.multicast[place]))
            } else {
                domain.stage(lanes, work, layout, *rank, place as u32);
                op(Action::STORE).recv(End::of(domain.reduce[place]))
            };
            lanes.lane(*rank, work.channel, layout, &[head]);
        }
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
            // Every rank is the head of its part.
            Operation::AllGather | Operation::ReduceScatter => {
                nodes.len() == 1 && (2..=MAX_HEADS).contains(&nodes[0].len())
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
                    let members = nodes.iter().map(|node| node[head]).collect();
                    lanes.connect(Peers::Network { members }, work.channel, work.slots)
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
