//! CollNetDirect: every GPU near a NIC is a head that reduces its part of the node's data, the network's switches reduce
//! the heads' (SHARP), and every head hands its part to all GPUs of the node.
//!
//! Three steps whatever the number of nodes. With g GPUs a node, all of them heads, a GPU's NVLink carries 2(g − 1)/g·S in
//! each direction and its NIC S/g: 3α + (2g − 1)/g·S/β where all are alike.
//!
//! In all-gather and reduce-scatter every GPU is the head of its own part. It hands the part to the network, whose switches copy
//! it to the GPUs of equal place of all nodes, and these hand on what arrives to their node; or it gets its node's data for the
//! GPUs of its place, hands the sums to the network, and gets its own. A NIC carries S/g in one direction and S/n in the other,
//! a GPU's NVLink (g − 1)/g·S each.

use super::nvls::{PartsOverNetwork, window};
use super::{Algorithm, ClosedForm, Limit};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::{Operation, Protocol};
use crate::timing::Key;

/// In-network reduction among the heads of all nodes.
#[derive(Debug)]
pub(super) struct CollNetDirect;

/// Heads of a node: no more than its GPUs.
fn heads(call: &Call) -> u32 {
    let least = call.group.nodes().iter().map(Vec::len).min().unwrap_or(1) as u32;
    call.heads.clamp(1, least)
}

/// All-gather or reduce-scatter.
fn half(gathers: bool, call: &Call, lanes: &mut dyn LaneSink) {
    let nodes = call.group.nodes();
    let (count, g) = (nodes.len() as u32, nodes[0].len() as u32);
    for work in &call.channels {
        let layout = lanes.layout(work.parts_of(count * g));
        let window = window(work, count);
        let Some(networks) = PartsOverNetwork::connect(lanes, work, nodes, gathers) else { return };
        for (at, node) in nodes.iter().enumerate() {
            // Members begin with different peers.
            let peers = |place: u32| (1..g).map(move |d| (place + d) % g);
            let mut ends = vec![End::of(0); (g * g) as usize];
            for place in 0..g {
                for peer in peers(place) {
                    let (from, to) = (node[place as usize], node[peer as usize]);
                    let pair = Peers::Pair { from, to, rail: Rail::Own };
                    ends[(place * g + peer) as usize] = End::of(lanes.connect(pair, work.channel, work.slots));
                }
            }
            for (place, rank) in node.iter().enumerate() {
                let (at, place) = (at as u32, place as u32);
                let (own, first) = (at * g + place, (place + 1) % g);
                let send = |op: LaneOp| peers(place).fold(op, |op, p| op.send(ends[(place * g + p) as usize]));
                let recv = |op: LaneOp| peers(place).fold(op, |op, p| op.recv(ends[(p * g + place) as usize]));
                // For each node a row of parts, of which every peer hands out, or collects, its own.
                let wide = Work::Spread { width: (g - 1).max(1) as u16 };
                let rows = |action| LaneOp::new(action, wide, first).spread_in(g).times(count, g).together(window);
                let parts = (0..count).map(|part| (part * g + place, networks.end(part, place, at)));
                let mine = networks.own(at, place);
                let mut lane = |ops: &[LaneOp]| lanes.lane(*rank, work.channel, layout, ops);
                if gathers {
                    let pass = |(chunk, end)| send(LaneOp::new(Action::STORE, wide, chunk).together(window).recv(end));
                    lane(&[LaneOp::new(Action::REDUCE_SEND, Work::Tree, own).send(mine)]);
                    lane(&parts.map(pass).collect::<Vec<_>>());
                    if g > 1 {
                        lane(&[recv(rows(Action::STORE))]);
                    }
                } else {
                    let op = |chunk| LaneOp::new(Action::REDUCE_SEND, Work::Tree, chunk).together(window);
                    let pass = |(chunk, end)| recv(op(chunk)).send(end);
                    if g > 1 {
                        lane(&[send(rows(Action::REDUCE_SEND))]);
                    }
                    lane(&parts.map(pass).collect::<Vec<_>>());
                    lane(&[LaneOp::new(Action::STORE, Work::Tree, own).recv(mine)]);
                }
            }
        }
    }
}

impl Algorithm for CollNetDirect {
    fn name(&self) -> &'static str {
        "collnet_direct"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        let nodes = call.group.nodes();
        let every = nodes.iter().all(|node| node.len() == nodes[0].len() && node.len() <= call.heads as usize);
        match operation {
            Operation::AllReduce => nodes.len() > 1,
            Operation::AllGather | Operation::ReduceScatter => nodes.len() > 1 && every,
            _ => false,
        }
    }

    fn limit(&self, _protocol: Protocol) -> Option<Limit> {
        Some(Limit { parameter: Key::SimpleRate, planned: true, bus: false, words: "channel rate" })
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        if operation != Operation::AllReduce {
            return half(operation == Operation::AllGather, call, lanes);
        }
        let heads = heads(call);
        for work in &call.channels {
            let layout = lanes.layout(work.equal_loops_of(heads));
            let networks: Vec<u32> = (0..heads as usize)
                .map(|head| {
                    let members: Vec<u32> = call.group.nodes().iter().map(|node| node[head]).collect();
                    let peers = Peers::Network { from: members.clone(), to: members };
                    lanes.connect(peers, work.channel, work.slots)
                })
                .collect();
            for (at, node) in call.group.nodes().iter().enumerate() {
                let mut connect = |from: u32, to: u32| {
                    let peers = if from == to {
                        Peers::Local { rank: from }
                    } else {
                        Peers::Pair { from, to, rail: Rail::Own }
                    };
                    End::of(lanes.connect(peers, work.channel, work.slots))
                };
                // Members begin with different heads, and heads with different members, so that they don't all wait for one.
                // Ports serve what begins there in the order of these connections. A head's own data stay in its memory.
                let members = node.len();
                let mut ends = vec![vec![(End::of(0), End::of(0)); members]; heads as usize];
                for place in 0..members {
                    for head in (1..=heads as usize).map(|d| (place + d) % heads as usize) {
                        ends[head][place].0 = connect(node[place], node[head]);
                    }
                }
                for head in 0..heads as usize {
                    for place in (1..=members).map(|d| (head + d) % members) {
                        ends[head][place].1 = connect(node[head], node[place]);
                    }
                }
                for (place, rank) in node.iter().enumerate() {
                    let first = (place as u32 + 1) % heads;
                    let around = || (0..heads).map(|i| ((first + i) % heads) as usize);
                    let wide = Work::Spread { width: heads as u16 };
                    let op = |action| LaneOp::new(action, wide, first).spread();
                    let scatter = around().fold(op(Action::REDUCE_SEND), |op, h| op.send(ends[h][place].0));
                    let gather = around().fold(op(Action::STORE), |op, h| op.recv(ends[h][place].1));
                    lanes.lane(*rank, work.channel, layout, &[scatter]);
                    lanes.lane(*rank, work.channel, layout, &[gather]);
                    if let (Some(network), Some(ends)) = (networks.get(place), ends.get(place)) {
                        let network = End { connection: *network, side: at as u32 };
                        let op = |work| LaneOp::new(Action::FORWARD, work, place as u32);
                        let up = ends.iter().fold(op(Work::Tree), |op, (to, _)| op.recv(*to)).send(network);
                        let members = (1..=ends.len()).map(|d| ends[(place + d) % ends.len()].1);
                        let down = members.fold(op(wide).recv(network), LaneOp::send);
                        lanes.lane(*rank, work.channel, layout, &[up]);
                        lanes.lane(*rank, work.channel, layout, &[down]);
                    }
                }
            }
        }
    }

    fn closed_form(&self, operation: Operation, call: &Call) -> Option<ClosedForm> {
        let nodes = call.group.nodes();
        let g = nodes[0].len() as u32;
        if operation != Operation::AllReduce {
            // Inside nodes parts overlap with those that come from the network.
            let part = call.channels.first()?.bytes;
            return (g == 1).then(|| ClosedForm { steps: 1, bytes: nodes.len() as u64 * part });
        }
        let all = heads(call) == g && nodes.iter().all(|node| node.len() as u32 == g);
        let part = call.channels.first()?.bytes.div_ceil(u64::from(g));
        all.then(|| ClosedForm { steps: if g > 1 { 3 } else { 1 }, bytes: u64::from(2 * g - 1) * part })
    }
}
