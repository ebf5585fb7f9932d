//! Dispatch and combine with a relay at the destination, as DeepEP's kernels for training and prefill do them.
//!
//! A token crosses the network once per destination *node*, to the GPU there on the sender's rail, which hands it on over
//! NVLink to every rank that has one of its experts. A NIC carries (N − 1)·P_node tokens in place of the (N − 1)·g·P_rank of
//! messages to ranks, however many experts a token has in a node. Combine goes the same way back: the relay adds up what
//! its node has for a token, and one sum crosses the network.
//!
//! PXN, in contrast, relays at the *source*, and every rank's copy crosses the network.

use std::collections::BTreeMap;

use sim_core::program::Layout;

use super::{Algorithm, Cut};
use crate::call::{Call, ChannelWork};
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// One copy a node, handed on there.
#[derive(Debug)]
pub(super) struct DeepEp;

/// The layouts of one channel: what goes to each node, and what goes to each rank, in equally many chunks.
struct Channel<'a> {
    call: &'a Call,
    work: &'a ChannelWork,
    node: Vec<u32>,
    rank: Vec<u32>,
}

impl Channel<'_> {
    fn per_node(&self) -> u32 {
        self.call.group.nodes()[0].len() as u32
    }

    fn nodes(&self) -> u32 {
        self.call.group.nodes().len() as u32
    }

    /// The layout of what goes to the node of `rank`.
    fn of_node(&self, rank: u32) -> u32 {
        self.node[(rank / self.per_node()) as usize]
    }

    /// The layout of what goes to `rank`.
    fn of_rank(&self, rank: u32) -> u32 {
        self.rank[rank as usize]
    }

    fn connect(&self, lanes: &mut dyn LaneSink, from: u32, to: u32) -> End {
        let rail = Rail::OfGpu(from % self.per_node());
        End::of(lanes.connect(Peers::Pair { from, to, rail }, self.work.channel, self.work.slots))
    }

    fn local(&self, lanes: &mut dyn LaneSink, rank: u32) -> End {
        End::of(lanes.connect(Peers::Local { rank }, self.work.channel, self.work.slots))
    }

    /// The same rank of every other node, from the next on.
    fn rail(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let (g, n) = (self.per_node(), self.nodes());
        (1..n).map(move |d| (rank + d * g) % (n * g))
    }

    /// The other ranks of the node, from the next on.
    fn neighbours(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let g = self.per_node();
        (1..g).map(move |d| rank / g * g + (rank + d) % g)
    }

    /// The same by what goes to them: those that get as much are handed it by one lane.
    fn alike(&self, rank: u32) -> Vec<(u32, Vec<u32>)> {
        let mut out: Vec<(u32, Vec<u32>)> = Vec::new();
        for to in self.neighbours(rank) {
            let layout = self.of_rank(to);
            match out.iter_mut().find(|(of, _)| *of == layout) {
                Some((_, list)) => list.push(to),
                None => out.push((layout, vec![to])),
            }
        }
        if out.is_empty() {
            out.push((self.of_rank(rank), Vec::new()));
        }
        out
    }

    fn dispatch(&self, lanes: &mut dyn LaneSink, from: u32) {
        let op = |action, work| LaneOp { block: u64::from(from), ..LaneOp::new(action, work, 0) };
        let hand = |lanes: &mut dyn LaneSink, rank: u32, first: LaneOp, (layout, list): &(u32, Vec<u32>)| {
            let mut handing = first;
            for to in list {
                let end = self.connect(lanes, rank, *to);
                handing = handing.send(end);
                lanes.lane(*to, self.work.channel, *layout, &[op(Action::STORE, Work::Free).recv(end)]);
            }
            lanes.lane(rank, self.work.channel, *layout, &[handing]);
        };
        for relay in self.rail(from) {
            let end = self.connect(lanes, from, relay);
            let alike = self.alike(relay);
            let locals: Vec<End> = alike.iter().map(|_| self.local(lanes, relay)).collect();
            let out = op(Action::REDUCE_SEND, Work::Direct).send(end);
            lanes.lane(from, self.work.channel, self.of_node(relay), &[out]);
            let take = op(Action::FORWARD, Work::Free).recv(end);
            let take = locals.iter().fold(take, |take, local| take.send(*local));
            lanes.lane(relay, self.work.channel, self.of_node(relay), &[take]);
            for (i, (same, local)) in alike.iter().zip(locals).enumerate() {
                // The relay keeps its own part once.
                let action = if i == 0 { Action::STORE } else { Action::FORWARD };
                hand(lanes, relay, op(action, Work::Direct).recv(local), same);
            }
        }
        for (i, same) in self.alike(from).iter().enumerate() {
            let action = if i == 0 { Action::REDUCE_STORE } else { Action::REDUCE_SEND };
            hand(lanes, from, op(action, Work::Direct), same);
        }
    }

    fn combine(&self, lanes: &mut dyn LaneSink, to: u32) {
        let op = |action, work| LaneOp { block: u64::from(to), ..LaneOp::new(action, work, 0) };
        // The sum of a node's ranks at `rank`, handed to another of its lanes.
        let of_node = |lanes: &mut dyn LaneSink, rank: u32| {
            let local = self.local(lanes, rank);
            let mut sum = op(Action::REDUCE_SEND, Work::Direct).send(local);
            for from in self.neighbours(rank) {
                let end = self.connect(lanes, from, rank);
                sum = sum.recv(end);
                let out = op(Action::REDUCE_SEND, Work::Direct).send(end);
                lanes.lane(from, self.work.channel, self.of_rank(from), &[out]);
            }
            lanes.lane(rank, self.work.channel, self.of_rank(rank), &[sum]);
            local
        };
        let mut total = op(Action::STORE, Work::Direct).recv(of_node(lanes, to));
        for relay in self.rail(to) {
            let local = of_node(lanes, relay);
            let end = self.connect(lanes, relay, to);
            let forward = op(Action::FORWARD, Work::Free).recv(local).send(end);
            lanes.lane(relay, self.work.channel, self.of_node(relay), &[forward]);
            total = total.recv(end);
        }
        lanes.lane(to, self.work.channel, self.of_node(to), &[total]);
    }
}

/// `bytes` in `chunks` equal chunks, one a loop.
const fn even(bytes: u64, chunks: u64) -> Layout {
    let chunk = if bytes == 0 { 1 } else { bytes.div_ceil(chunks) };
    Layout { total: chunk * chunks, chunk, last_chunk: chunk, chunks: 1, slices: 1, min_slice: 0 }
}

impl Algorithm for DeepEp {
    fn name(&self) -> &'static str {
        "deepep"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        matches!(operation, Operation::Dispatch | Operation::Combine) && call.group.is_regular()
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::DirectKernel)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let channels = call.channels.len().max(1) as u64;
        for work in &call.channels {
            let most = call.routed.to_node.iter().chain(&call.routed.to_rank).copied().max().unwrap_or(0);
            let chunks = most.div_ceil(channels).div_ceil(work.chunk.max(1)).max(1);
            // One layout for all that get as much.
            let mut known: BTreeMap<u64, u32> = BTreeMap::new();
            let mut layouts = |lanes: &mut dyn LaneSink, list: &[u64]| -> Vec<u32> {
                let mut of = |bytes: &u64| {
                    let bytes = bytes.div_ceil(channels);
                    *known.entry(bytes).or_insert_with(|| lanes.layout(even(bytes, chunks)))
                };
                list.iter().map(&mut of).collect()
            };
            let node = layouts(lanes, &call.routed.to_node);
            let rank = layouts(lanes, &call.routed.to_rank);
            let channel = Channel { call, work, node, rank };
            for r in 0..call.group.ranks() {
                match operation {
                    Operation::Dispatch => channel.dispatch(lanes, r),
                    _ => channel.combine(lanes, r),
                }
            }
        }
    }
}
