//! Pairwise all-to-all: every rank sends to, and receives from, every other as point-to-point messages.
//!
//! Messages go in NCCL's rounds (in round d rank r sends to r + d and receives from r − d; nodes are gone through in
//! triangular order), each cut in parts over channels. A channel works on up to eight pairs at once and begins the next
//! batch when all are done, so over several nodes a batch is one remote node.
//!
//! With relaying (PXN) a message for GPU g of another node goes over NVLink to the GPU whose NIC is on g's rail and
//! leaves there, so it never crosses rails in the fabric; without it, it leaves by the sender's own NIC.

use super::Algorithm;
use super::send_recv::{Exchange, exchange};
use crate::call::Call;
use crate::lanes::LaneSink;
use crate::nccl::{Operation, p2p_rounds};

/// All-to-all as grouped sends and receives.
#[derive(Debug)]
pub(super) struct Pairwise;

impl Algorithm for Pairwise {
    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        operation == Operation::AllToAll
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let nodes = call.group.nodes();
        // Uneven nodes have no groups of equal size: their ranks go round as one.
        let even = nodes.iter().all(|n| n.len() == nodes[0].len());
        let (count, per_node) =
            if even { (nodes.len() as u32, nodes[0].len() as u32) } else { (1, call.group.ranks()) };
        exchange(lanes, call, |rank| {
            let rounds = p2p_rounds(count, per_node, rank);
            rounds
                .iter()
                .enumerate()
                .map(|(round, (to, from))| Exchange { round: round as u32, to: Some(*to), from: Some(*from) })
                .collect()
        });
    }
}
