//! NVLSTree: the switches reduce and multicast inside each node, and a double binary tree per head joins the nodes.
//!
//! Head h of every node reads its chunk reduced by the switch, the heads of equal index reduce up and send down one of
//! two trees over the nodes (by the channel's parity), and each head stores the result to its node. A NIC sends S/heads
//! per tree edge of its node in each direction: S/heads on two nodes, twice that on the busiest node of a larger tree.

use super::nvls::Domain;
use super::{Algorithm, Limit};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::{Operation, Protocol, double_binary_tree};
use crate::timing::Key;

/// The switch's reduction inside nodes, trees between them.
#[derive(Debug)]
pub(super) struct NvlsTree;

impl Algorithm for NvlsTree {
    fn name(&self) -> &'static str {
        "nvls_tree"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        let nodes = call.group.nodes();
        operation == Operation::AllReduce
            && nodes.len() > 1
            && nodes[0].len() > 1
            && nodes.iter().all(|n| n.len() == nodes[0].len())
    }

    fn limit(&self, _protocol: Protocol) -> Option<Limit> {
        Some(Limit { parameter: Key::NvlsTreeRate, planned: false, bus: false, words: "NVLS loop" })
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let nodes = call.group.nodes();
        let trees = double_binary_tree(nodes.len() as u32);
        for work in &call.channels {
            let tree = &trees[work.channel as usize % 2];
            let domains: Vec<Domain> = nodes.iter().map(|node| Domain::connect(lanes, work, node)).collect();
            let heads = domains[0].reduce.len();
            let layout = lanes.layout(work.equal_loops_of(heads as u32));
            // Per head: the connections of each node to its parent, as (up, down).
            let edges: Vec<Vec<Option<(u32, u32)>>> = (0..heads)
                .map(|head| {
                    tree.iter()
                        .enumerate()
                        .map(|(node, place)| {
                            let above = place.parent? as usize;
                            let rail = Rail::OfGpu(head as u32);
                            let mut one = |a: usize, b: usize| {
                                let peers = Peers::Pair { from: nodes[a][head], to: nodes[b][head], rail };
                                lanes.connect(peers, work.channel, work.slots)
                            };
                            Some((one(node, above), one(above, node)))
                        })
                        .collect()
                })
                .collect();
            for (node, (domain, ranks)) in domains.iter().zip(nodes).enumerate() {
                for (place, rank) in ranks.iter().enumerate() {
                    domain.staging(lanes, work, layout, *rank, place as u32);
                    let Some(edges) = edges.get(place) else { continue };
                    let children = || tree[node].children.iter().flatten().filter_map(|child| edges[*child as usize]);
                    let op = || LaneOp::new(Action::FORWARD, Work::MultimemTree, place as u32);
                    let (reduce, multicast) = (End::of(domain.reduce[place]), End::of(domain.multicast[place]));
                    let up = children().fold(op().recv(reduce), |op, (up, _)| op.recv(End::of(up)));
                    let down = |op: LaneOp| children().fold(op.send(multicast), |op, (_, down)| op.send(End::of(down)));
                    match edges[node] {
                        None => lanes.lane(*rank, work.channel, layout, &[down(up)]),
                        Some((to_parent, from_parent)) => {
                            lanes.lane(*rank, work.channel, layout, &[up.send(End::of(to_parent))]);
                            lanes.lane(*rank, work.channel, layout, &[down(op().recv(End::of(from_parent)))]);
                        }
                    }
                }
            }
        }
    }
}
