//! Recursive halving and doubling: partners at distance n/2, n/4, … exchange halves of what is left and reduce; at 1, 2, …
//! they exchange what is done.
//!
//! ```text
//! reduce-scatter, all-gather  log₂ n steps, (n−1)/n of the data
//! all-reduce                  2 log₂ n steps, 2(n−1)/n of the data
//! ```
//!
//! Where n is no power of two, 2(n − p) ranks (p the power below) first pair up: the even one of a pair hands its data to
//! the odd one, which takes part for both and hands the result back. That is two more messages of all data (Thakur,
//! Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19, 2005).

use super::{Algorithm, ClosedForm};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Own, Peers, Rail, Work};
use crate::nccl::Operation;

/// Recursive halving, recursive doubling.
#[derive(Debug)]
pub(super) struct HalvingDoubling;

/// Who takes part, and for which blocks.
#[derive(Clone, Copy)]
struct Parts {
    n: u32,
    /// The power of two below: how many take part.
    p: u32,
}

impl Parts {
    fn of(n: u32) -> Self {
        Self { n, p: 1 << n.ilog2() }
    }

    /// Ranks that another takes part for.
    const fn folded(self) -> u32 {
        self.n - self.p
    }

    /// The first block of participant `j`; it has those up to the next one's first.
    const fn first(self, j: u32) -> u32 {
        if j < self.folded() { 2 * j } else { j + self.folded() }
    }

    /// The rank that participant `j` is.
    const fn rank(self, j: u32) -> u32 {
        if j < self.folded() { 2 * j + 1 } else { j + self.folded() }
    }

    /// The participant that `rank` is; `None` if another takes part for it.
    const fn participant(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.folded() {
            Some(rank - self.folded())
        } else if rank % 2 == 1 {
            Some(rank / 2)
        } else {
            None
        }
    }

    /// First block and number of blocks of the participants from `j` to `j + count − 1`.
    const fn blocks(self, j: u32, count: u32) -> (u32, u32) {
        (self.first(j), self.first(j + count) - self.first(j))
    }
}

impl Algorithm for HalvingDoubling {
    fn name(&self) -> &'static str {
        "halving_doubling"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        matches!(operation, Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        use Operation::{AllGather, AllReduce, ReduceScatter};
        let parts = Parts::of(call.group.ranks());
        let n = parts.n;
        let distances: Vec<u32> = (0..parts.p.ilog2()).map(|s| 1 << s).collect();
        for work in &call.channels {
            let layout = lanes.layout(if operation == AllReduce { work.loops_of(n) } else { work.parts_of(n) });
            let mut one = |from, to| lanes.connect(Peers::Pair { from, to, rail: Rail::Own }, work.channel, work.slots);
            // Per distance and participant: the connection to its partner; per pair: in and out of the odd one.
            let out: Vec<Vec<u32>> = distances
                .iter()
                .map(|d| (0..parts.p).map(|j| one(parts.rank(j), parts.rank(j ^ d))).collect())
                .collect();
            let pairs: Vec<(u32, u32)> =
                (0..parts.folded()).map(|j| (one(2 * j, 2 * j + 1), one(2 * j + 1, 2 * j))).collect();
            for rank in 0..n {
                let op = |action, (first, span): (u32, u32)| LaneOp::new(action, Work::Ring, first % n).over(span);
                let own = LaneOp { work: Work::Free, ..op(Action::REDUCE_STORE.keep(), (rank, 1)) };
                let input = Action { adds: Own::Input, stores: false, keeps: true };
                let all = LaneOp { work: Work::Free, ..op(input, (0, n)) };
                let mut ops = vec![if operation == AllGather || n == 1 { own } else { all }];
                // What a pair hands over before and after: everything, or the block of the even one.
                let (before, after) = match operation {
                    AllGather => ((rank & !1, 1), ((rank & !1) + 1, n - 1)),
                    ReduceScatter => ((0, n), (rank & !1, 1)),
                    _ => ((0, n), (0, n)),
                };
                let pair = pairs.get((rank / 2) as usize);
                let Some(j) = parts.participant(rank) else {
                    let Some((to, from)) = pair else { continue };
                    ops.push(op(Action::KEPT, before).send(End::of(*to)));
                    ops.push(op(Action::STORE, after).recv(End::of(*from)));
                    lanes.lane(rank, work.channel, layout, &ops);
                    continue;
                };
                if let Some((from, _)) = pair {
                    let takes = if operation == AllGather { Action::STORE.keep() } else { Action::KEPT.keep() };
                    ops.push(op(takes, before).recv(End::of(*from)));
                }
                if operation != AllGather {
                    for (s, d) in distances.iter().enumerate().rev() {
                        let (mine, theirs) = (j / d * d, (j ^ d) / d * d);
                        let (send, recv) = (End::of(out[s][j as usize]), End::of(out[s][(j ^ d) as usize]));
                        ops.push(op(Action::KEPT, parts.blocks(theirs, *d)).send(send));
                        let last = s == 0 && operation == AllReduce;
                        let takes = if last { Action::KEPT.keep().store() } else { Action::KEPT.keep() };
                        ops.push(op(takes, parts.blocks(mine, *d)).recv(recv));
                    }
                }
                if operation == ReduceScatter && n > 1 {
                    ops.push(LaneOp { work: Work::Free, ..op(Action::KEPT.store(), (rank, 1)) });
                }
                if operation != ReduceScatter {
                    for (s, d) in distances.iter().enumerate() {
                        let (mine, theirs) = (j / d * d, (j ^ d) / d * d);
                        let (send, recv) = (End::of(out[s][j as usize]), End::of(out[s][(j ^ d) as usize]));
                        ops.push(op(Action::KEPT, parts.blocks(mine, *d)).send(send));
                        ops.push(op(Action::STORE.keep(), parts.blocks(theirs, *d)).recv(recv));
                    }
                }
                if let Some((_, to)) = pair {
                    ops.push(op(Action::KEPT, after).send(End::of(*to)));
                }
                lanes.lane(rank, work.channel, layout, &ops);
            }
        }
    }

    fn closed_form(&self, operation: Operation, call: &Call) -> Option<ClosedForm> {
        let (n, bytes) = (call.group.ranks(), call.channels.first()?.bytes);
        let (steps, others) = (n.ilog2(), u64::from(n - 1));
        n.is_power_of_two().then(|| match operation {
            Operation::AllReduce => ClosedForm { steps: 2 * steps, bytes: 2 * others * bytes.div_ceil(u64::from(n)) },
            _ => ClosedForm { steps, bytes: others * bytes },
        })
    }
}
