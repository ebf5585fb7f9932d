//! Sends and receives: grouped point-to-point messages, and the shift by one rank that nccl-tests calls `sendrecv`.

use std::collections::BTreeMap;

use sim_core::program::Layout;

use super::{Algorithm, ClosedForm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Peers, Rail, Work};
use crate::launch::Messages;
use crate::nccl::Operation;

/// Every rank sends to the next and receives from the one before.
#[derive(Debug)]
pub(super) struct SendRecv;

impl Algorithm for SendRecv {
    fn name(&self) -> &'static str {
        "sendrecv"
    }

    fn can(&self, operation: Operation, _call: &Call) -> bool {
        operation == Operation::SendRecv
    }

    fn cut(&self) -> Cut {
        Cut::Messages
    }

    /// Both ends of a shift by one.
    fn messages(&self, call: &Call) -> Messages {
        let fewest = call.group.nodes().iter().map(Vec::len).min().unwrap_or(1);
        match (call.group.nodes().len(), fewest) {
            (1, _) => Messages { local: 2, remote: 0 },
            (_, 1) => Messages { local: 0, remote: 2 },
            _ => Messages { local: 1, remote: 1 },
        }
    }

    fn closed_form(&self, _operation: Operation, call: &Call) -> Option<ClosedForm> {
        Some(ClosedForm::messages(u32::from(call.group.ranks() > 1), call.p2p.message))
    }

    fn write(&self, _operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let n = call.group.ranks();
        exchange(lanes, call, |rank| {
            vec![Exchange { round: 1, to: Some((rank + 1) % n), from: Some((rank + n - 1) % n) }]
        });
    }
}

/// Bytes to which messages of different sizes are rounded up.
const GRAIN: u64 = 16;

/// A round of a grouped call: whom a rank sends to and receives from.
pub(super) struct Exchange {
    pub(super) round: u32,
    pub(super) to: Option<u32>,
    pub(super) from: Option<u32>,
}

/// Writes the lanes of grouped sends and receives. `rounds` gives the rounds of a rank in order; a send in one rank's
/// round matches a receive in the peer's round of the same number.
pub(super) fn exchange(lanes: &mut dyn LaneSink, call: &Call, rounds: impl Fn(u32) -> Vec<Exchange>) {
    let (p2p, n) = (&call.p2p, call.group.ranks());
    let parts = p2p.parts();
    let whole = Layout {
        total: p2p.message,
        chunk: p2p.part.max(1),
        last_chunk: p2p.part.max(1),
        chunks: parts.max(1),
        slices: p2p.part.div_ceil(p2p.step.max(1)).max(1) as u32,
        min_slice: p2p.step.max(1),
    };
    // Messages of different sizes are of so many grains each, of which the largest part holds `grains`.
    let grains = p2p.part.div_ceil(GRAIN).max(1);
    let of_grains =
        Layout { total: grains * GRAIN, chunk: GRAIN, last_chunk: GRAIN, chunks: grains as u32, ..whole.clone() };
    let even = p2p.matrix.is_empty();
    let layout = lanes.layout(if even { whole } else { of_grains });
    let plan: Vec<Vec<Exchange>> = (0..n).map(&rounds).collect();
    // One connection per (sender, receiver, part), numbered by sender.
    let mut first: Vec<Vec<(u32, u32)>> = vec![Vec::new(); plan.len()];
    for (from, exchanges) in plan.iter().enumerate() {
        let from = from as u32;
        for (exchange, to) in exchanges.iter().filter_map(|e| Some((e, e.to?))).filter(|(_, to)| *to != from) {
            let rail = if p2p.relay { Rail::OfGpu(call.group.place(to)) } else { Rail::Own };
            for part in 0..parts {
                let channel = p2p.channel(exchange.round, part);
                let index = lanes.connect(Peers::Pair { from, to, rail }, channel, p2p.slots);
                if part == 0 {
                    first[from as usize].push((to, index));
                }
            }
        }
        first[from as usize].sort_unstable();
    }
    let connection = |from: u32, to: u32, part: u32| {
        let list = &first[from as usize];
        let at = list.binary_search_by_key(&to, |(to, _)| *to);
        End::of(at.map_or(0, |at| list[at].1) + part)
    };
    for (rank, exchanges) in plan.iter().enumerate() {
        let rank = rank as u32;
        let pair = |from: u32, to: u32| u64::from(from) * u64::from(n) + u64::from(to);
        let message = |op: LaneOp, from: u32, to: u32, part: u32| {
            let block = pair(from, to) * u64::from(parts);
            if even {
                return LaneOp { block, chunk: part, ..op };
            }
            let span = p2p.part_of(from, to, part, n).div_ceil(GRAIN) as u32;
            let block = (block + u64::from(part)) * grains;
            LaneOp { block, repeat: u32::from(span > 0), span: span.max(1), ..op }
        };
        let mut channels: BTreeMap<u32, Vec<(&Exchange, u32)>> = BTreeMap::new();
        for exchange in exchanges {
            for part in 0..parts {
                channels.entry(p2p.channel(exchange.round, part)).or_default().push((exchange, part));
            }
        }
        for (channel, works) in channels {
            let batches: Vec<_> = works.chunks(p2p.batch as usize).collect();
            let width = batches[0].len();
            let barrier = (batches.len() > 1).then(|| lanes.barrier(2 * width as u32));
            for slot in 0..width {
                let (mut sends, mut recvs) = (Vec::new(), Vec::new());
                for (i, batch) in batches.iter().enumerate() {
                    let after = barrier.filter(|_| i > 0);
                    let idle = LaneOp { repeat: 0, after, ..LaneOp::new(Action::FORWARD, Work::Free, 0) };
                    let (mut send, mut recv) = (idle.clone(), idle);
                    if let Some((exchange, part)) = batch.get(slot) {
                        let op = |action, from, to| {
                            let work = Work::PointToPoint { width: batch.len() as u16 };
                            message(LaneOp { after, ..LaneOp::new(action, work, 0) }, from, to, *part)
                        };
                        if let Some(to) = exchange.to {
                            send = if to == rank {
                                op(Action::REDUCE_STORE, rank, to)
                            } else {
                                op(Action::REDUCE_SEND, rank, to).send(connection(rank, to, *part))
                            };
                        }
                        if let Some(from) = exchange.from.filter(|from| *from != rank) {
                            recv = op(Action::STORE, from, rank).recv(connection(from, rank, *part));
                        }
                    }
                    sends.push(send);
                    recvs.push(recv);
                }
                lanes.lane(rank, channel, layout, &sends);
                lanes.lane(rank, channel, layout, &recvs);
            }
        }
    }
}
