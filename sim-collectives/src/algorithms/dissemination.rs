//! Dissemination barrier: in round k every rank tells the one 2ᵏ further on, and waits for the one 2ᵏ before.
//!
//! ⌈log₂ n⌉ rounds of a flag (Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, Int. J. Parallel
//! Programming 17, 1988).

use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Own, Peers, Rail, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// Everyone hears of everyone.
#[derive(Debug)]
pub(super) struct Dissemination;

impl Algorithm for Dissemination {
    fn name(&self) -> &'static str {
        "dissemination"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        operation == Operation::Barrier
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::DirectKernel)
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let n = call.group.ranks();
        let rounds = n.next_power_of_two().ilog2();
        for work in call.channels.iter().take(1) {
            let layout = lanes.layout(work.loops_of(1));
            let next: Vec<Vec<u32>> = (0..rounds)
                .map(|k| {
                    let peers = |from| Peers::Pair { from, to: (from + (1 << k)) % n, rail: Rail::Own };
                    (0..n).map(|rank| lanes.connect(peers(rank), work.channel, work.slots)).collect()
                })
                .collect();
            for rank in 0..n {
                let own = Action { adds: Own::Input, stores: true, keeps: true };
                let mut ops = vec![LaneOp::new(own, Work::Free, 0)];
                for k in 0..rounds {
                    let from = (rank + n - (1 << k)) % n;
                    let out = End::of(next[k as usize][rank as usize]);
                    let back = End::of(next[k as usize][from as usize]);
                    ops.push(LaneOp::new(Action::KEPT, Work::Direct, 0).send(out));
                    ops.push(LaneOp::new(Action::KEPT.keep().store(), Work::Free, 0).recv(back));
                }
                lanes.lane(rank, work.channel, layout, &ops);
            }
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let rounds = call.group.ranks().next_power_of_two().ilog2();
        Some(ClosedForm::messages(rounds, call.channels.first()?.bytes))
    }
}
