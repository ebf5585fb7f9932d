//! Pairwise all-to-all: every rank sends to, and receives from, every other as point-to-point messages.
//!
//! Messages go in NCCL's rounds (in round d rank r sends to r + d and receives from r − d; nodes are gone through in
//! triangular order), each cut in parts over channels. A channel works on up to eight pairs at once and begins the next
//! batch when all are done, so over several nodes a batch is one remote node.
//!
//! With relaying (PXN) a message for GPU g of another node goes over NVLink to the GPU whose NIC is on g's rail and
//! leaves there, so it never crosses rails in the fabric; without it, it leaves by the sender's own NIC.

use super::send_recv::{Exchange, exchange};
use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::LaneSink;
use crate::launch::Messages;
use crate::nccl::{Operation, p2p_rounds};

/// All-to-all as grouped sends and receives.
#[derive(Debug)]
pub(super) struct Pairwise;

/// The rounds of a rank, in which it meets every other once.
pub(super) fn rounds(call: &Call, rank: u32) -> Vec<Exchange> {
    let nodes = call.group.nodes();
    // Uneven nodes have no groups of equal size: their ranks go round as one.
    let even = nodes.iter().all(|n| n.len() == nodes[0].len());
    let (count, per_node) = if even { (nodes.len() as u32, nodes[0].len() as u32) } else { (1, call.group.ranks()) };
    p2p_rounds(count, per_node, rank)
        .iter()
        .enumerate()
        .map(|(round, (to, from))| Exchange { round: round as u32, to: Some(*to), from: Some(*from) })
        .collect()
}

impl Algorithm for Pairwise {
    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        use Operation::{AllToAll, AllToAllV, Combine, Dispatch};
        matches!(operation, AllToAll | AllToAllV | Dispatch | Combine)
    }

    fn cut(&self) -> Cut {
        Cut::Messages
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        exchange(lanes, call, |rank| rounds(call, rank));
    }

    fn messages(&self, call: &Call) -> Messages {
        let all = Messages::with_all(&call.group);
        Messages { local: 2 * all.local, remote: 2 * all.remote }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let n = call.group.ranks();
        let even = call.p2p.matrix.is_empty();
        // The rank itself is one of a batch.
        let bytes = u64::from(n - 1) * call.p2p.message;
        (even && call.p2p.batch >= n).then(|| ClosedForm { steps: u32::from(n > 1), bytes })
    }
}
