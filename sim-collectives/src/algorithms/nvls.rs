//! NVLS: all-reduce inside one NVLink domain whose switches reduce and multicast.
//!
//! Head h owns every h-th chunk of a loop of heads × chunk. Every rank stages its input where multicast can reach it;
//! head h reads chunk h reduced by the switch and stores the result to all; every rank copies it out. These are three
//! groups of warps that run at once, so a call takes (loops + 2) times the slowest of the three.
//!
//! Each GPU's link carries S(1 + 1/heads) per direction, not the ring's 2S(n−1)/n.

use super::Algorithm;
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Work};
use crate::nccl::Operation;

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
        let end = |connection: &u32| End { connection: *connection, side: place };
        let stage = LaneOp::new(Action::REDUCE_SEND, Work::Stage, 0).spread();
        let stage = self.reduce.iter().fold(stage, |op, c| op.send(end(c)));
        let unstage = LaneOp::new(Action::STORE, Work::Stage, 0).spread();
        let unstage = self.multicast.iter().fold(unstage, |op, c| op.recv(end(c)));
        lanes.lane(rank, work.channel, layout, &[stage]);
        lanes.lane(rank, work.channel, layout, &[unstage]);
    }
}

impl Algorithm for Nvls {
    fn name(&self) -> &'static str {
        "nvls"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        operation == Operation::AllReduce && call.group.nodes().len() == 1 && call.group.ranks() > 1
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let node = &call.group.nodes()[0];
        for work in &call.channels {
            let domain = Domain::connect(lanes, work, node);
            let layout = lanes.layout(work.equal_loops_of(domain.reduce.len() as u32));
            for (place, rank) in node.iter().enumerate() {
                domain.staging(lanes, work, layout, *rank, place as u32);
                if let (Some(reduce), Some(multicast)) = (domain.reduce.get(place), domain.multicast.get(place)) {
                    let head = LaneOp::new(Action::FORWARD, Work::Multimem, place as u32)
                        .recv(End::of(*reduce))
                        .send(End::of(*multicast));
                    lanes.lane(*rank, work.channel, layout, &[head]);
                }
            }
        }
    }
}
