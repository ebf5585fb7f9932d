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

use super::{Algorithm, ClosedForm, Limit};
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::{Operation, Protocol};
use crate::timing::Key;

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
        match operation {
            Operation::Broadcast | Operation::Reduce => {
                for work in &call.channels {
                    chain(lanes, operation, work, call);
                }
            }
            _ => around(lanes, operation, call),
        }
    }

    fn limit(&self, protocol: Protocol) -> Option<Limit> {
        let (parameter, planned) = match protocol {
            Protocol::Ll => (Key::RingLlRate, false),
            Protocol::Ll128 => (Key::RingLl128Rate, false),
            Protocol::Simple => (Key::SimpleRate, true),
        };
        Some(Limit { parameter, planned, bus: true, words: "channel rate" })
    }

    fn closed_form(&self, operation: Operation, call: &Call) -> Option<ClosedForm> {
        let (n, bytes) = (call.group.ranks(), call.channels.first()?.bytes);
        Some(match operation {
            Operation::AllReduce if n > 1 => ClosedForm::messages(2 * (n - 1), bytes.div_ceil(u64::from(n))),
            _ => ClosedForm::messages(n - 1, bytes),
        })
    }
}

/// A channel's closed ring.
struct Channel<'a> {
    work: &'a ChannelWork,
    layout: u32,
    order: Vec<u32>,
    /// The place of each rank.
    place: Vec<u32>,
    /// The connection from each place to the next.
    next: Vec<u32>,
}

/// All channels' rings, written rank by rank, so that what a rank uses lies together.
fn around(lanes: &mut dyn LaneSink, operation: Operation, call: &Call) {
    let n = call.group.ranks();
    // Chunks are named by places in the ring, so that a lane goes through them with one stride.
    let mut channels: Vec<Channel<'_>> = call
        .channels
        .iter()
        .map(|work| {
            let order = call.group.ring(work.channel);
            let mut place = vec![0; n as usize];
            for (i, rank) in order.iter().enumerate() {
                place[*rank as usize] = i as u32;
            }
            let layout = match operation {
                Operation::AllReduce => work.loops_of(n),
                _ => work.parts_of(n),
            };
            Channel { work, layout: lanes.layout(layout), order, place, next: vec![0; n as usize] }
        })
        .collect();
    for rank in 0..n {
        for channel in &mut channels {
            if n > 1 {
                let place = channel.place[rank as usize];
                let to = channel.order[((place + 1) % n) as usize];
                let peers = Peers::Pair { from: rank, to, rail: rail(call, channel.work) };
                channel.next[place as usize] = lanes.connect(peers, channel.work.channel, channel.work.slots);
            }
        }
    }
    for rank in 0..n {
        for channel in &channels {
            let i = channel.place[rank as usize];
            let send = End::of(channel.next[i as usize]);
            let recv = End::of(channel.next[((i + n - 1) % n) as usize]);
            let back = n.saturating_sub(1);
            let op = |action, chunk| LaneOp::new(action, Work::Ring, chunk % n);
            let ops = match operation {
                _ if n == 1 => vec![op(Action::REDUCE_STORE, 0)],
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
            lanes.lane(rank, channel.work.channel, channel.layout, &ops);
        }
    }
}

/// The NICs of a ring between nodes: those that the channel came in by, or where it swaps them those of the last GPU.
fn rail(call: &Call, work: &ChannelWork) -> Rail {
    if call.group.swaps_nics(work.channel) { Rail::Own } else { Rail::OfGpu(call.group.rail(work.channel)) }
}

fn chain(lanes: &mut dyn LaneSink, operation: Operation, work: &ChannelWork, call: &Call) {
    let (ring, root) = (call.group.ring(work.channel), call.root);
    let at = ring.iter().position(|r| *r == root).unwrap_or(0);
    let n = ring.len();
    // From the root around to the rank before it; a reduction goes the same way and ends at the root.
    let order: Vec<u32> = match operation {
        Operation::Broadcast => (0..n).map(|i| ring[(at + i) % n]).collect(),
        _ => (1..=n).map(|i| ring[(at + i) % n]).collect(),
    };
    let next: Vec<u32> = order
        .windows(2)
        .map(|pair| {
            let peers = Peers::Pair { from: pair[0], to: pair[1], rail: rail(call, work) };
            lanes.connect(peers, work.channel, work.slots)
        })
        .collect();
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
