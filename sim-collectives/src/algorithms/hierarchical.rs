//! Hierarchical all-to-all, in two levels: inside the node first, then along the rails.
//!
//! With N nodes of g GPUs and m bytes from each rank to each: GPU p of a node hands GPU q, over NVLink, what it has for the
//! q-th GPUs of all nodes (N messages of m in one), and then the q-th GPUs of all nodes exchange among themselves what
//! their nodes have for each other (g·m each). A rank sends N − 1 large messages over the network in place of (N − 1)·g
//! small ones; its NIC still carries (N − 1)·g·m, its NVLink (g − 1)·N·m in place of (g − 1)·m.

use sim_core::program::Layout;

use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Own, Peers, Rail, Work};
use crate::nccl::Operation;

/// Nodes inside, rails outside.
#[derive(Debug)]
pub(super) struct Hierarchical;

/// One part of all messages on one channel.
struct Part<'a> {
    call: &'a Call,
    part: u64,
    parts: u64,
    channel: u32,
    layout: u32,
}

impl Part<'_> {
    fn nodes(&self) -> u32 {
        self.call.group.nodes().len() as u32
    }

    fn per_node(&self) -> u32 {
        self.call.group.nodes()[0].len() as u32
    }

    fn connect(&self, lanes: &mut dyn LaneSink, from: u32, to: u32, rail: Rail) -> u32 {
        lanes.connect(Peers::Pair { from, to, rail }, self.channel, self.call.p2p.slots)
    }

    /// The number of the block from one rank to another.
    fn block(&self, from: u32, to: u32) -> u64 {
        (u64::from(from) * u64::from(self.call.group.ranks()) + u64::from(to)) * self.parts + self.part
    }

    /// What `from` has for the GPUs at the place of `to` of all nodes.
    fn for_rail(&self, action: Action, work: Work, from: u32, place: u32) -> LaneOp {
        let apart = u64::from(self.per_node()) * self.parts;
        LaneOp { block: self.block(from, place), apart, ..LaneOp::new(action, work, 0).over(self.nodes()) }
    }

    /// What the ranks of `node` have for `to`.
    fn of_node(&self, action: Action, work: Work, node: u32, to: u32) -> LaneOp {
        let apart = u64::from(self.call.group.ranks()) * self.parts;
        let first = node * self.per_node();
        LaneOp { block: self.block(first, to), apart, ..LaneOp::new(action, work, 0).over(self.per_node()) }
    }

    fn write(&self, lanes: &mut dyn LaneSink) {
        let (nodes, per_node) = (self.nodes(), self.per_node());
        let width = |peers: u32| Work::PointToPoint { width: peers.clamp(1, self.call.p2p.batch.max(1)) as u16 };
        let (inside, outside) = (width(per_node - 1), width(nodes - 1));
        let rank = |node: u32, place: u32| node * per_node + place;
        // [node][place][distance − 1]: to the place or node so much further around.
        let near: Vec<Vec<Vec<u32>>> = (0..nodes)
            .map(|i| {
                let to = |p, d| rank(i, (p + d) % per_node);
                let from = |p| (1..per_node).map(move |d| (rank(i, p), to(p, d)));
                (0..per_node).map(|p| from(p).map(|(a, b)| self.connect(lanes, a, b, Rail::Own)).collect()).collect()
            })
            .collect();
        let far: Vec<Vec<Vec<u32>>> = (0..nodes)
            .map(|i| {
                let to = |p, d| rank((i + d) % nodes, p);
                let from = |p| (1..nodes).map(move |d| (rank(i, p), to(p, d)));
                let rail = |p| Rail::OfGpu(p);
                (0..per_node).map(|p| from(p).map(|(a, b)| self.connect(lanes, a, b, rail(p))).collect()).collect()
            })
            .collect();
        for i in 0..nodes {
            for p in 0..per_node {
                let me = rank(i, p);
                let mut lane = |ops: &[LaneOp]| lanes_lane(lanes, me, self, ops);
                for d in 1..per_node {
                    let q = (p + d) % per_node;
                    let out = End::of(near[i as usize][p as usize][(d - 1) as usize]);
                    lane(&[self.for_rail(Action::REDUCE_SEND, inside, me, q).send(out)]);
                }
                for d in 1..nodes {
                    let from = (i + nodes - d) % nodes;
                    let back = End::of(far[from as usize][p as usize][(d - 1) as usize]);
                    lane(&[self.of_node(Action::STORE, outside, from, me).recv(back)]);
                }
                // What goes out to a rail waits for all that came from the node.
                let barrier = lanes.barrier(1 + (per_node - 1) + (nodes - 1));
                let wait = |op: LaneOp| LaneOp { after: Some(barrier), ..op };
                let idle = wait(LaneOp { repeat: 0, ..LaneOp::new(Action::FORWARD, Work::Free, 0) });
                let mut lane = |ops: &[LaneOp]| lanes_lane(lanes, me, self, ops);
                let own = Action { adds: Own::Input, stores: false, keeps: true };
                let keep = self.for_rail(own, Work::Free, me, p);
                let mine = self.of_node(Action::KEPT.store(), Work::Free, i, me);
                lane(&[keep, wait(mine)]);
                for d in 1..per_node {
                    let from = (p + per_node - d) % per_node;
                    let back = End::of(near[i as usize][from as usize][(d - 1) as usize]);
                    let take = self.for_rail(Action::FORWARD.keep(), inside, rank(i, from), p).recv(back);
                    lane(&[take, idle.clone()]);
                }
                for d in 1..nodes {
                    let out = End::of(far[i as usize][p as usize][(d - 1) as usize]);
                    let to = rank((i + d) % nodes, p);
                    lane(&[wait(self.of_node(Action::KEPT, outside, i, to).send(out))]);
                }
            }
        }
    }
}

fn lanes_lane(lanes: &mut dyn LaneSink, rank: u32, part: &Part<'_>, ops: &[LaneOp]) {
    lanes.lane(rank, part.channel, part.layout, ops);
}

impl Algorithm for Hierarchical {
    fn name(&self) -> &'static str {
        "hierarchical"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        operation == Operation::AllToAll && call.group.is_regular()
    }

    fn cut(&self) -> Cut {
        Cut::Messages
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let (p2p, nodes) = (&call.p2p, call.group.nodes());
        let most = nodes.len().max(nodes[0].len()) as u64;
        let parts = u64::from(p2p.parts().max(1));
        for part in 0..parts {
            let bytes = p2p.message.saturating_sub(part * p2p.part).min(p2p.part);
            let slices = (bytes * most).div_ceil(p2p.step.max(1)).max(1) as u32;
            let layout = lanes.layout(Layout {
                total: bytes * most,
                chunk: bytes.max(1),
                last_chunk: bytes.max(1),
                chunks: most as u32,
                slices,
                min_slice: p2p.step.max(1),
            });
            let channel = p2p.channel(0, part as u32);
            Part { call, part, parts, channel, layout }.write(lanes);
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let nodes = call.group.nodes();
        let (n, g) = (nodes.len() as u64, nodes[0].len() as u64);
        let steps = u32::from(g > 1) + u32::from(n > 1);
        Some(ClosedForm { steps, bytes: ((g - 1) * n + (n - 1) * g) * call.p2p.message })
    }
}
