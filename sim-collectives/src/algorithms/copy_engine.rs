//! Copy engines: all-gather and all-to-all inside one NVLink domain as plain copies that the GPUs' copy engines make from
//! symmetric memory, without any thread of a kernel.
//!
//! Every rank copies its part (or one part for each) to every other: one step, (n − 1)·m through each port.

use super::one_shot::full_mesh;
use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// Copies by copy engines.
#[derive(Debug)]
pub(super) struct CopyEngine;

impl Algorithm for CopyEngine {
    fn name(&self) -> &'static str {
        "copy_engine"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        matches!(operation, Operation::AllGather | Operation::AllToAll) && call.group.nodes().len() == 1
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::CopyEngineKernel)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let n = call.group.ranks();
        // A block of an all-gather is named by its owner, one of an all-to-all by sender and receiver.
        let block = |from: u32, to: u32| {
            u64::from(from) * u64::from(n) + if operation == Operation::AllGather { 0 } else { u64::from(to) }
        };
        for work in &call.channels {
            let to = full_mesh(lanes, n, work.channel, work.slots);
            let layout = lanes.layout(work.loops_of(1));
            for rank in 0..n {
                let op = |action, kind, from, to| LaneOp { block: block(from, to), ..LaneOp::new(action, kind, 0) };
                let own = op(Action::REDUCE_STORE, Work::Free, rank, rank);
                // Copies go one after the other on a stream, arrivals are independent of them.
                let copies = to[rank as usize].iter().map(|(peer, connection)| {
                    op(Action::REDUCE_SEND, Work::Copy, rank, *peer).send(End::of(*connection))
                });
                let ops: Vec<LaneOp> = core::iter::once(own).chain(copies).collect();
                lanes.lane(rank, work.channel, layout, &ops);
                for from in (1..n).map(|d| (rank + d) % n) {
                    let connection = to[from as usize][((rank + n - from) % n - 1) as usize].1;
                    let arrival = op(Action::STORE, Work::Free, from, rank).recv(End::of(connection));
                    lanes.lane(rank, work.channel, layout, &[arrival]);
                }
            }
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let n = call.group.ranks();
        Some(ClosedForm { steps: u32::from(n > 1), bytes: u64::from(n - 1) * call.channels.first()?.bytes })
    }
}
