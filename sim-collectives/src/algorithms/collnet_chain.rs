//! CollNetChain: a chain of GPUs inside each node, reduction in the network's switches between the chains' heads (SHARP).
//!
//! Every channel's chain begins at another GPU. Data are reduced up the chain to its head, the switches reduce the heads'
//! and hand the sum to every head, and it goes down the chains: 2(g − 1) + 1 steps for g GPUs a node, and S through a NIC
//! in each direction, however many nodes there are.

use super::{Algorithm, ClosedForm, Limit};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::{Operation, Protocol};
use crate::timing::Key;

/// In-network reduction at the head of a chain.
#[derive(Debug)]
pub(super) struct CollNetChain;

impl Algorithm for CollNetChain {
    fn name(&self) -> &'static str {
        "collnet_chain"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        operation == Operation::AllReduce && call.group.nodes().len() > 1
    }

    fn limit(&self, _protocol: Protocol) -> Option<Limit> {
        Some(Limit { parameter: Key::SimpleRate, planned: true, bus: false, words: "channel rate" })
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        for work in &call.channels {
            let chain = |node: &Vec<u32>| call.group.chain(node, work.channel);
            let chains: Vec<Vec<u32>> = call.group.nodes().iter().map(chain).collect();
            let members: Vec<u32> = chains.iter().map(|chain| chain[0]).collect();
            let peers = Peers::Network { from: members.clone(), to: members };
            let network = lanes.connect(peers, work.channel, work.slots);
            let layout = lanes.layout(work.loops_of(1));
            for (node, chain) in chains.iter().enumerate() {
                let network = End { connection: network, side: node as u32 };
                let mut one = |from, to| {
                    let peers = Peers::Pair { from, to, rail: Rail::Own };
                    End::of(lanes.connect(peers, work.channel, work.slots))
                };
                // To the one before, and back.
                let links: Vec<(End, End)> =
                    chain.windows(2).map(|pair| (one(pair[1], pair[0]), one(pair[0], pair[1]))).collect();
                for (i, rank) in chain.iter().enumerate() {
                    let op = |action| LaneOp::new(action, Work::Tree, 0);
                    let (up, down) = if i == 0 { (network, network) } else { links[i - 1] };
                    let (mut reduce, mut copy) = (op(Action::REDUCE_SEND).send(up), op(Action::STORE).recv(down));
                    if let Some((from, to)) = links.get(i) {
                        (reduce, copy) = (reduce.recv(*from), copy.send(*to));
                    }
                    lanes.lane(*rank, work.channel, layout, &[reduce]);
                    lanes.lane(*rank, work.channel, layout, &[copy]);
                }
            }
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let longest = call.group.nodes().iter().map(Vec::len).max()? as u32;
        Some(ClosedForm::messages(2 * (longest - 1) + 1, call.channels.first()?.bytes))
    }
}
