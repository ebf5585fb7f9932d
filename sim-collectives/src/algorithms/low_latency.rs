//! Low-latency dispatch and combine, as expert-parallel decoding uses them: every rank writes each token straight to the
//! rank of each of its experts, all at once, without relays.
//!
//! A token goes out once per expert, T·K/n of them to every rank: α + (n − 1)·m/β with m = T·K/n tokens. Where ranks get unequal parts,
//! each has lanes of its own.

use super::one_shot::{arriving, full_mesh};
use super::{Algorithm, ClosedForm, Cut};
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// Everyone to everyone, tokens as they are.
#[derive(Debug)]
pub(super) struct LowLatency;

impl Algorithm for LowLatency {
    fn name(&self) -> &'static str {
        "low_latency"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        matches!(operation, Operation::Dispatch | Operation::Combine)
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::DirectKernel)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let n = call.group.ranks();
        for work in call.channels.iter().take(1) {
            if call.routed.is_uneven() {
                uneven(operation, call, work, lanes);
                continue;
            }
            let to = full_mesh(lanes, n, work.channel, work.slots);
            let bytes = call.routed.to_experts.first().copied().unwrap_or(0);
            let work = &ChannelWork { bytes, ..work.clone() };
            let layout = lanes.layout(work.parts_of(n));
            for rank in 0..n {
                let others = (rank + 1) % n;
                let send = |op: LaneOp| to[rank as usize].iter().fold(op, |op, (_, c)| op.send(End::of(*c)));
                let recv = |op: LaneOp| arriving(&to, rank).fold(op, LaneOp::recv);
                let op = |action, work, chunk| LaneOp::new(action, work, chunk);
                let ops = if n == 1 {
                    vec![op(Action::REDUCE_STORE, Work::Direct, 0)]
                } else if operation == Operation::Dispatch {
                    // A block is named by whose tokens it holds.
                    let out = send(op(Action::REDUCE_STORE, Work::Direct, rank));
                    vec![out, recv(op(Action::STORE, Work::Free, others).spread())]
                } else {
                    let out = send(op(Action::REDUCE_SEND, Work::Direct, others).spread());
                    vec![out, recv(op(Action::REDUCE_STORE, Work::Free, rank))]
                };
                // What sends never waits for what receives: other warps of the kernel do that.
                for op in &ops {
                    lanes.lane(rank, work.channel, layout, core::slice::from_ref(op));
                }
            }
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let n = call.group.ranks();
        let bytes = call.routed.to_experts.first().filter(|_| !call.routed.is_uneven())?;
        Some(ClosedForm { steps: u32::from(n > 1), bytes: u64::from(n - 1) * bytes })
    }
}

/// The same where ranks get unequal parts: a lane for each that sends to another.
fn uneven(operation: Operation, call: &Call, work: &ChannelWork, lanes: &mut dyn LaneSink) {
    let (n, to) = (call.group.ranks(), &call.routed.to_experts);
    for rank in 0..n {
        let op = |action, kind| LaneOp { block: u64::from(rank), ..LaneOp::new(action, kind, 0) };
        let connect = |lanes: &mut dyn LaneSink, from, to| {
            End::of(lanes.connect(Peers::Pair { from, to, rail: Rail::Own }, work.channel, work.slots))
        };
        let own = lanes.layout(work.once(to[rank as usize]));
        let others = (1..n).map(|d| (rank + d) % n);
        if operation == Operation::Dispatch {
            lanes.lane(rank, work.channel, own, &[op(Action::REDUCE_STORE, Work::Direct)]);
            for other in others {
                let end = connect(lanes, rank, other);
                let layout = lanes.layout(work.once(to[other as usize]));
                lanes.lane(rank, work.channel, layout, &[op(Action::REDUCE_SEND, Work::Direct).send(end)]);
                lanes.lane(other, work.channel, layout, &[op(Action::STORE, Work::Free).recv(end)]);
            }
            continue;
        }
        let mut sum = op(Action::REDUCE_STORE, Work::Free);
        for other in others {
            let end = connect(lanes, other, rank);
            let layout = lanes.layout(work.once(to[other as usize]));
            lanes.lane(other, work.channel, layout, &[op(Action::REDUCE_SEND, Work::Direct).send(end)]);
            sum = sum.recv(end);
        }
        lanes.lane(rank, work.channel, own, &[sum]);
    }
}
