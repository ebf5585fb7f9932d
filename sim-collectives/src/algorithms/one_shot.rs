//! One-shot all-reduce inside one NVLink domain or host, as serving engines run it for small messages: every rank sends
//! all of its data to every other, and each reduces for itself.
//!
//! One step, (n − 1)·S through each port: α + (n − 1)·S/β.

use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// Everything to everyone.
#[derive(Debug)]
pub(super) struct OneShot;

/// Connections from every rank to every other; `to[a]` lists (b, connection) in the order a + 1, a + 2, … around, so
/// that no two ranks begin with the same receiver.
pub(super) fn full_mesh(lanes: &mut dyn LaneSink, ranks: u32, channel: u32, slots: u16) -> Vec<Vec<(u32, u32)>> {
    let others = |a: u32| (1..ranks).map(move |d| (a + d) % ranks);
    let connect = |lanes: &mut dyn LaneSink, from, to| {
        (to, lanes.connect(Peers::Pair { from, to, rail: Rail::Own }, channel, slots))
    };
    (0..ranks).map(|a| others(a).map(|b| connect(lanes, a, b)).collect()).collect()
}

/// The connections that arrive at `rank`, from rank + 1, rank + 2, … around.
pub(super) fn arriving(to: &[Vec<(u32, u32)>], rank: u32) -> impl Iterator<Item = End> + '_ {
    let n = to.len() as u32;
    (1..n).map(move |d| End::of(to[((rank + d) % n) as usize][(n - 1 - d) as usize].1))
}

impl Algorithm for OneShot {
    fn name(&self) -> &'static str {
        "one_shot"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        operation == Operation::AllReduce && call.group.nodes().len() == 1
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::DirectKernel)
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        for work in &call.channels {
            let to = full_mesh(lanes, call.group.ranks(), work.channel, work.slots);
            let layout = lanes.layout(work.loops_of(1));
            for rank in 0..call.group.ranks() {
                let op = |action| LaneOp::new(action, Work::Direct, 0);
                let out = to[rank as usize].iter().fold(op(Action::REDUCE_SEND), |op, (_, c)| op.send(End::of(*c)));
                let sum = LaneOp { work: Work::Free, ..op(Action::REDUCE_STORE) };
                let sum = arriving(&to, rank).fold(sum, LaneOp::recv);
                lanes.lane(rank, work.channel, layout, &[out, sum]);
            }
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let n = call.group.ranks();
        Some(ClosedForm { steps: u32::from(n > 1), bytes: u64::from(n - 1) * call.channels.first()?.bytes })
    }
}
