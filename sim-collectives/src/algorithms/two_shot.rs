//! Two-shot all-reduce, and the direct reduce-scatter and all-gather that it is made of, inside one NVLink domain or host.
//!
//! In the first step rank r gets part r of everyone and reduces it, in the second it sends the sum to everyone: two
//! steps, 2·(n − 1)/n·S through each port: 2α + 2(n − 1)/n·S/β.

use super::one_shot::{arriving, full_mesh};
use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// Reduce-scatter and all-gather, each in one step.
#[derive(Debug)]
pub(super) struct TwoShot;

impl Algorithm for TwoShot {
    fn name(&self) -> &'static str {
        "two_shot"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        use Operation::{AllGather, AllReduce, ReduceScatter};
        matches!(operation, AllReduce | AllGather | ReduceScatter) && call.group.nodes().len() == 1
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::DirectKernel)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let n = call.group.ranks();
        for work in &call.channels {
            let to = full_mesh(lanes, n, work.channel, work.slots);
            let layout = match operation {
                Operation::AllReduce => work.equal_loops_of(n),
                _ => work.parts_of(n),
            };
            let layout = lanes.layout(layout);
            for rank in 0..n {
                let others = (rank + 1) % n;
                let op = |action, work, chunk| LaneOp::new(action, work, chunk);
                let send = |op: LaneOp| to[rank as usize].iter().fold(op, |op, (_, c)| op.send(End::of(*c)));
                let recv = |op: LaneOp| arriving(&to, rank).fold(op, LaneOp::recv);
                let scatter = send(op(Action::REDUCE_SEND, Work::Direct, others).spread());
                let gather = recv(op(Action::STORE, Work::Free, others).spread());
                let ops = match operation {
                    _ if n == 1 => vec![op(Action::REDUCE_STORE, Work::Direct, 0)],
                    Operation::AllReduce => {
                        let sum = send(recv(op(Action::REDUCE_STORE, Work::Direct, rank)));
                        vec![scatter, sum, gather]
                    }
                    Operation::ReduceScatter => vec![scatter, recv(op(Action::REDUCE_STORE, Work::Free, rank))],
                    _ => vec![send(op(Action::REDUCE_STORE, Work::Direct, rank)), gather],
                };
                lanes.lane(rank, work.channel, layout, &ops);
            }
        }
    }

    fn closed_form(&self, operation: Operation, call: &Call) -> Option<ClosedForm> {
        let (n, bytes) = (call.group.ranks(), call.channels.first()?.bytes);
        if n == 1 {
            return Some(ClosedForm::messages(0, 0));
        }
        let others = u64::from(n - 1);
        Some(match operation {
            Operation::AllReduce => ClosedForm { steps: 2, bytes: 2 * others * bytes.div_ceil(u64::from(n)) },
            _ => ClosedForm { steps: 1, bytes: others * bytes },
        })
    }
}
