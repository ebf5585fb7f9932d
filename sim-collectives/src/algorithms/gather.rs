//! Gather: everyone sends its part to the root, as grouped sends and receives. α + (n − 1)·m/β at the root's port.

use super::pairwise::rounds;
use super::send_recv::{Exchange, exchange};
use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::LaneSink;
use crate::launch::Messages;
use crate::nccl::Operation;

/// All parts to the root.
#[derive(Debug)]
pub(super) struct Gather;

impl Algorithm for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        operation == Operation::Gather
    }

    fn cut(&self) -> Cut {
        Cut::Messages
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        exchange(lanes, call, |rank| {
            let mine = |e: Exchange| Exchange {
                to: e.to.filter(|to| *to == call.root),
                from: e.from.filter(|_| rank == call.root),
                ..e
            };
            rounds(call, rank).into_iter().map(mine).filter(|e| e.to.is_some() || e.from.is_some()).collect()
        });
    }

    /// The root receives from everyone.
    fn messages(&self, call: &Call) -> Messages {
        Messages::with_all(&call.group)
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let n = call.group.ranks();
        Some(ClosedForm { steps: u32::from(n > 1), bytes: u64::from(n - 1) * call.p2p.message })
    }
}
