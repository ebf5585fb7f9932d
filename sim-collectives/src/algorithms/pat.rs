//! PAT: parallel aggregated trees, for all-gather and reduce-scatter with one GPU a node.
//!
//! All-gather goes over distances 1, 2, 4, …: at distance d rank r has the parts of r … r + d − 1, sends them to r − d
//! and gets those of r + d … from r + d. ⌈log₂ n⌉ steps for any n, and n − 1 parts through each port. A message holds as
//! many parts as fit a chunk; when one part fills it, each is a message of its own. Reduce-scatter is the same backwards,
//! with sums (Bruck et al.: Efficient algorithms for all-to-all communications, IEEE TPDS 8, 1997; NCCL
//! `src/device/all_gather.h` has the trees' order within a step, which bytes and steps don't depend on).

use super::{Algorithm, ClosedForm};
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Own, Peers, Rail, Work};
use crate::nccl::Operation;

/// Parallel aggregated trees.
#[derive(Debug)]
pub(super) struct Pat;

/// A step: its distance, and the parts that move in it.
fn steps(n: u32) -> impl DoubleEndedIterator<Item = (u32, u32)> {
    (0..n.next_power_of_two().ilog2()).map(move |s| (1 << s, (1 << s).min(n - (1 << s))))
}

/// Parts that fit one message.
fn aggregated(work: &ChannelWork) -> u32 {
    let fit = (work.chunk / work.bytes.max(1)).clamp(1, 1 << 30) as u32;
    1 << fit.ilog2()
}

impl Algorithm for Pat {
    fn name(&self) -> &'static str {
        "pat"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        matches!(operation, Operation::AllGather | Operation::ReduceScatter)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let n = call.group.ranks();
        for work in &call.channels {
            let most = aggregated(work);
            let layout = lanes.layout(work.parts_of(n));
            let gather = operation == Operation::AllGather;
            // Per step and rank: the connection on which its data leave.
            let out: Vec<Vec<u32>> = steps(n)
                .map(|(d, _)| {
                    let to = |rank| if gather { (rank + n - d) % n } else { (rank + d) % n };
                    let peers = |rank| Peers::Pair { from: rank, to: to(rank), rail: Rail::OfGpu(work.channel) };
                    (0..n).map(|rank| lanes.connect(peers(rank), work.channel, work.slots)).collect()
                })
                .collect();
            for rank in 0..n {
                let op = |action, chunk: u32| LaneOp::new(action, Work::Tree, chunk % n);
                let mut ops = Vec::new();
                // One message out and one in at a time, so that nobody waits for a slot that only it can free.
                let mut exchange = |s: usize, d: u32, parts: u32, last: bool| {
                    let from = if gather { (rank + d) % n } else { (rank + n - d) % n };
                    let (send, recv) = (End::of(out[s][rank as usize]), End::of(out[s][from as usize]));
                    for first in (0..parts).step_by(most as usize) {
                        let span = most.min(parts - first);
                        let (leaving, coming) = if gather { (first, first + d) } else { (first + d, first) };
                        let takes = match (gather, last) {
                            (true, _) => Action::STORE.keep(),
                            (false, false) => Action::KEPT.keep(),
                            (false, true) => Action::KEPT.store(),
                        };
                        ops.push(op(Action::KEPT, rank + leaving).over(span).send(send));
                        ops.push(op(takes, rank + coming).over(span).recv(recv));
                    }
                };
                let list: Vec<(usize, (u32, u32))> = steps(n).enumerate().collect();
                if gather {
                    list.iter().for_each(|(s, (d, parts))| exchange(*s, *d, *parts, false));
                } else {
                    list.iter().rev().for_each(|(s, (d, parts))| exchange(*s, *d, *parts, *s == 0));
                }
                let own = LaneOp { work: Work::Free, ..op(Action::REDUCE_STORE.keep(), rank) };
                let all = Action { adds: Own::Input, stores: false, keeps: true };
                let all = LaneOp { work: Work::Free, ..op(all, 0).over(n) };
                ops.insert(0, if gather || n == 1 { own } else { all });
                lanes.lane(rank, work.channel, layout, &ops);
            }
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        let (n, work) = (call.group.ranks(), call.channels.first()?);
        let whole = aggregated(work) >= n / 2;
        whole.then(|| ClosedForm { steps: steps(n).count() as u32, bytes: u64::from(n - 1) * work.bytes })
    }
}
