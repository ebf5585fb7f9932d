//! The double binary tree: all-reduce up and down two complementary trees over the nodes, a chain inside each node.
//!
//! Half of the channels use tree 0 and half tree 1; every node is an inner node of at most one, so the load is even.
//! Latency is 2 × depth hops with depth = (ranks per node − 1) + log₂(nodes); the node with two children in another
//! node receives and sends two streams (Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan, Parallel Computing 35, 2009).

use super::{Algorithm, Limit};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::{Operation, Protocol, double_binary_tree};
use crate::timing::Key;

/// The double binary tree.
#[derive(Debug)]
pub(super) struct Tree;

/// The two connections between a child and its parent.
#[derive(Clone, Copy)]
struct Edge {
    up: u32,
    down: u32,
}

impl Algorithm for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        operation == Operation::AllReduce
    }

    fn limit(&self, protocol: Protocol) -> Option<Limit> {
        let (parameter, planned) = match protocol {
            Protocol::Ll => (Key::TreeLlRate, false),
            Protocol::Ll128 => (Key::TreeLl128Rate, false),
            Protocol::Simple => (Key::SimpleRate, true),
        };
        Some(Limit { parameter, planned, bus: false, words: "channel rate" })
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let group = &call.group;
        let trees = double_binary_tree(group.nodes().len() as u32);
        for work in &call.channels {
            let tree = &trees[usize::from(work.channel >= call.second_tree)];
            // Parent and children of every rank: the chain inside a node, the tree between the chains' heads.
            let mut parent = vec![None; group.ranks() as usize];
            let mut children = vec![Vec::new(); group.ranks() as usize];
            let chains: Vec<Vec<u32>> = group.nodes().iter().map(|node| group.chain(node, work.channel)).collect();
            let mut join = |lanes: &mut dyn LaneSink, child: u32, above: u32, rail| {
                let mut one = |from, to| lanes.connect(Peers::Pair { from, to, rail }, work.channel, work.slots);
                let edge = Edge { up: one(child, above), down: one(above, child) };
                parent[child as usize] = Some(edge);
                children[above as usize].push(edge);
            };
            for (node, chain) in tree.iter().zip(&chains) {
                if let Some(above) = node.parent {
                    join(lanes, chain[0], chains[above as usize][0], Rail::OfGpu(group.rail(work.channel)));
                }
                for pair in chain.windows(2) {
                    join(lanes, pair[1], pair[0], Rail::Own);
                }
            }
            let layout = lanes.layout(work.loops_of(1));
            for rank in 0..group.ranks() {
                let (above, below) = (parent[rank as usize], &children[rank as usize]);
                let op = |action| LaneOp::new(action, Work::Tree, 0);
                let reduce = below
                    .iter()
                    .fold(op(if above.is_none() { Action::REDUCE_STORE } else { Action::REDUCE_SEND }), |op, edge| {
                        op.recv(End::of(edge.up))
                    });
                let down = |op: LaneOp| below.iter().fold(op, |op, edge| op.send(End::of(edge.down)));
                match above {
                    // The root reduces and sends down at once.
                    None => lanes.lane(rank, work.channel, layout, &[down(reduce)]),
                    Some(edge) => {
                        lanes.lane(rank, work.channel, layout, &[reduce.send(End::of(edge.up))]);
                        let copy = down(op(Action::STORE).recv(End::of(edge.down)));
                        lanes.lane(rank, work.channel, layout, &[copy]);
                    }
                }
            }
        }
    }
}
