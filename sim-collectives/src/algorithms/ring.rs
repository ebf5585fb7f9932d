//! Rings: every rank receives from the one before and sends to the one after.
//!
//! ```text
//! all-reduce      2(n−1) steps of S/n: n−1 that reduce, n−1 that copy
//! all-gather      n−1 steps of one rank's part
//! reduce-scatter  n−1 steps of one rank's part
//! broadcast       a chain from the root, n−1 hops, pipelined by chunks
//! reduce          a chain to the root
//! ```
//!
//! With one channel, one slice a chunk and no protocol cost an all-reduce of S bytes takes 2(n−1)(α + S/(nβ))
//! (Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19, 2005).

use super::Algorithm;
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::Operation;

/// The ring.
#[derive(Debug)]
pub(super) struct Ring;

impl Algorithm for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        use Operation::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        matches!(operation, AllReduce | AllGather | ReduceScatter | Broadcast | Reduce)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        for work in &call.channels {
            let ring = call.group.ring(work.channel);
            match operation {
                Operation::Broadcast | Operation::Reduce => chain(lanes, operation, work, &ring, call.root),
                _ => around(lanes, operation, work, &ring),
            }
        }
    }
}

/// The connection from each position of the ring to the next, leaving and entering nodes by the channel's rail.
fn connections(lanes: &mut dyn LaneSink, work: &ChannelWork, ring: &[u32], closed: bool) -> Vec<u32> {
    let n = ring.len();
    let links = if closed { n } else { n - 1 };
    (0..links)
        .map(|i| {
            let rail = Rail::OfGpu(work.channel);
            let peers = Peers::Pair { from: ring[i], to: ring[(i + 1) % n], rail };
            lanes.connect(peers, work.channel, work.slots)
        })
        .collect()
}

fn around(lanes: &mut dyn LaneSink, operation: Operation, work: &ChannelWork, ring: &[u32]) {
    let n = ring.len() as u32;
    if n == 1 {
        let layout = lanes.layout(work.loops_of(1));
        lanes.lane(ring[0], work.channel, layout, &[LaneOp::new(Action::REDUCE_STORE, Work::Ring, 0)]);
        return;
    }
    let next = connections(lanes, work, ring, true);
    // Chunks are named by their place in the ring for an all-reduce, and by their rank otherwise; a lane's stride
    // through the ring's places is constant only if names follow places.
    let layout = match operation {
        Operation::AllReduce => work.loops_of(n),
        _ => work.parts_of(n),
    };
    let layout = lanes.layout(layout);
    for i in 0..n {
        let send = End::of(next[i as usize]);
        let recv = End::of(next[((i + n - 1) % n) as usize]);
        let back = n - 1;
        let op = |action, chunk| LaneOp::new(action, Work::Ring, chunk % n);
        let ops = match operation {
            Operation::AllReduce => vec![
                op(Action::REDUCE_SEND, i + n - 1).send(send),
                op(Action::REDUCE_SEND, i + n - 2).recv(recv).send(send).times(n - 2, back),
                op(Action::REDUCE_STORE, i).recv(recv).send(send),
                op(Action::STORE, i + n - 1).recv(recv).send(send).times(n - 2, back),
                op(Action::STORE, i + 1).recv(recv),
            ],
            Operation::ReduceScatter => vec![
                op(Action::REDUCE_SEND, i + n - 1).send(send),
                op(Action::REDUCE_SEND, i + n - 2).recv(recv).send(send).times(n - 2, back),
                op(Action::REDUCE_STORE, i).recv(recv),
            ],
            _ => vec![
                op(Action::REDUCE_STORE, i).send(send),
                op(Action::STORE, i + n - 1).recv(recv).send(send).times(n - 2, back),
                op(Action::STORE, i + 1).recv(recv),
            ],
        };
        lanes.lane(ring[i as usize], work.channel, layout, &ops);
    }
}

fn chain(lanes: &mut dyn LaneSink, operation: Operation, work: &ChannelWork, ring: &[u32], root: u32) {
    let at = ring.iter().position(|r| *r == root).unwrap_or(0);
    let n = ring.len();
    // From the root around to the rank before it; a reduction goes the same way and ends at the root.
    let order: Vec<u32> = match operation {
        Operation::Broadcast => (0..n).map(|i| ring[(at + i) % n]).collect(),
        _ => (1..=n).map(|i| ring[(at + i) % n]).collect(),
    };
    let next = connections(lanes, work, &order, false);
    let layout = lanes.layout(work.loops_of(1));
    for (i, rank) in order.iter().enumerate() {
        let (first, last) = (i == 0, i + 1 == n);
        let action = match operation {
            Operation::Broadcast if first => Action::REDUCE_STORE,
            Operation::Broadcast => Action::STORE,
            _ if last => Action::REDUCE_STORE,
            _ => Action::REDUCE_SEND,
        };
        let mut op = LaneOp::new(action, Work::Ring, 0);
        if !first {
            op = op.recv(End::of(next[i - 1]));
        }
        if !last {
            op = op.send(End::of(next[i]));
        }
        lanes.lane(*rank, work.channel, layout, &[op]);
    }
}
