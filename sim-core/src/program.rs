//! What the engine plays: flows, connections, junctions and lanes, flat and without names.
//!
//! A *program* is a set of [`Lane`]s, small sequential programs that send and receive over *connections*. A connection
//! has send ends and receive ends, and a number of slots that bounds how far a sender runs ahead; its messages travel
//! over [`Flow`]s. Lanes are grouped in [`Kernel`]s: a kernel's iteration ends when all its lanes are done.
//!
//! Sizes are not written out: an [`Op`] names a chunk of a [`Layout`] and how the chunk's number changes from one
//! repetition to the next, so a ring over a thousand ranks is five operations.

use core::ops::Range;

use crate::ids::LinkId;
use crate::units::{Bytes, PsPerByte, Span};

/// A range of an arena of the [`Program`].
pub type Slice = Range<u32>;

/// Where the messages of a flow go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sink {
    /// A receive end: each message (or its last missing part) wakes the lane that waits there.
    Receiver(u32),
    /// A junction, segment by segment.
    Junction(u32),
    /// A credit for the send end: a clear-to-send.
    Credit(u32),
}

/// One queue pair: one path, one rate state, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Its links in order, a range of [`Program::routes`]; not empty.
    pub route: Slice,
    /// Where it ends.
    pub sink: Sink,
    /// Largest segment.
    pub segment: Bytes,
    /// How far apart its messages begin.
    pub spacing: Spacing,
    /// How queue pairs carry it where its links carry packets: 0 as [`NetPlan::flow`](crate::net::NetPlan::flow) says, `n`
    /// as the `n`th of [`NetPlan::others`](crate::net::NetPlan::others).
    pub way: u16,
}

/// How far apart the messages of a sender begin, where what drives it (posts a message, waits for its completion and looks for
/// the next) and not the wire sets the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spacing {
    /// Only messages of more bytes than this keep the next one waiting.
    pub above: Bytes,
    /// From the beginning of such a message to that of the next.
    pub time: Span,
    /// The same from the last message of an iteration to the first of the next iteration, on top.
    pub turn: Span,
}

impl Spacing {
    /// None.
    pub const NONE: Self = Self { above: Bytes::ZERO, time: Span::ZERO, turn: Span::ZERO };
}

/// How a slot comes back to the sender when the consuming operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Credit {
    /// A counter in memory: after this much time.
    After(Span),
    /// A message of `bytes` on flow `flow` (whose sink is [`Sink::Credit`]), posted `delay` after the operation's end.
    Message {
        /// Index of the flow in [`Program::flows`].
        flow: u32,
        /// Size of the clear-to-send.
        bytes: Bytes,
        /// Time from the end of the consuming operation to the posting.
        delay: Span,
    },
}

/// A connection: `senders` send ends and `receivers` receive ends share `slots` slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conn {
    /// Its send ends, a range of [`Program::senders`]; a message is complete when every one has sent its part.
    pub senders: Slice,
    /// Its receive ends, a range of [`Program::receivers`]; a slot is free when every one has consumed.
    pub receivers: Slice,
    /// How many messages the senders may be ahead of the receivers; rounded down to a power of two, at least 1.
    pub slots: u16,
    /// How a slot comes back.
    pub credit: Credit,
}

/// One sender of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Its flows, a range of [`Program::flows`]; empty where the sender only signals a lane of the same device.
    pub flows: Slice,
    /// Whether each message is split over all flows; otherwise they take turns.
    pub split: bool,
    /// Time between the operation and the first byte on the first link that overlaps with the lane's next operation.
    pub latency: Span,
    /// Receive end to signal directly (after `latency` and the operation's hold) where `flows` is empty.
    pub signals: Option<u32>,
}

/// Several flows meet segment by segment and leave as one on every output: reduction in a switch is a junction of
/// many inputs, multicast one of many outputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Junction {
    /// How many flows end here.
    pub inputs: u16,
    /// The flows that leave, a range of [`Program::flows`].
    pub outputs: Slice,
}

/// How a lane's data are cut: `loops` of `chunks` chunks, each chunk in slices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Bytes in all.
    pub total: u64,
    /// Bytes of a chunk in every loop but the last.
    pub chunk: u64,
    /// Bytes of a chunk in the last loop.
    pub last_chunk: u64,
    /// Chunks in a loop.
    pub chunks: u32,
    /// Most slices of a chunk.
    pub slices: u32,
    /// Least bytes of a slice, unless the chunk ends.
    pub min_slice: u64,
}

impl Layout {
    /// All in one chunk and one slice.
    #[must_use]
    pub const fn whole(total: u64) -> Self {
        Self { total, chunk: total, last_chunk: total, chunks: 1, slices: 1, min_slice: 0 }
    }

    /// How often the operations are gone through.
    #[must_use]
    pub fn loops(&self) -> u32 {
        let per_loop = self.chunk.saturating_mul(u64::from(self.chunks));
        if per_loop == 0 { 0 } else { u32::try_from(self.total.div_ceil(per_loop)).unwrap_or(u32::MAX) }
    }

    /// Whether every loop is as the first: all are whole, and the last is cut like the others.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.last_chunk == self.chunk
            && self.total.is_multiple_of(self.chunk.saturating_mul(u64::from(self.chunks)).max(1))
    }

    /// Bytes of chunk `k` in loop `l`; 0 where the data have ended.
    #[must_use]
    #[inline]
    pub fn chunk_bytes(&self, l: u32, k: u32) -> u64 {
        let begin = u64::from(l) * self.chunk * u64::from(self.chunks);
        let last = begin + self.chunk * u64::from(self.chunks) >= self.total;
        let chunk = if last { self.last_chunk } else { self.chunk };
        self.total.saturating_sub(begin + u64::from(k) * chunk).min(chunk)
    }

    /// Bytes of the `span` chunks from chunk `k` on in loop `l`; after the last chunk comes the first.
    #[must_use]
    #[inline]
    pub fn span_bytes(&self, l: u32, k: u32, span: u32) -> u64 {
        if span == 1 {
            return self.chunk_bytes(l, k);
        }
        let begin = u64::from(l) * self.chunk * u64::from(self.chunks);
        let last = begin + self.chunk * u64::from(self.chunks) >= self.total;
        let chunk = if last { self.last_chunk } else { self.chunk };
        let upto = |k: u32| self.total.saturating_sub(begin).min(u64::from(k) * chunk);
        let to_end = span.min(self.chunks.saturating_sub(k));
        upto(k + to_end) - upto(k) + upto((span - to_end).min(k))
    }

    /// Bytes of a full slice of a chunk of `bytes`.
    #[must_use]
    #[inline]
    pub fn slice_bytes(&self, bytes: u64) -> u64 {
        if self.slices <= 1 {
            return bytes;
        }
        let even = if self.slices == 2 { bytes.div_ceil(2) } else { bytes.div_ceil(u64::from(self.slices)) };
        even.next_multiple_of(16).max(self.min_slice)
    }
}

/// What an operation costs the lane: `fixed + pass_per_byte · min(bytes, pass) + per_byte · max(0, bytes − pass)`, where what
/// is beyond the first pass counts as whole passes if `whole`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cost {
    /// Time that holds the lane whatever the size.
    pub fixed: Span,
    /// What the workers move in one pass.
    pub pass: Bytes,
    /// Time per byte within the first pass.
    pub pass_per_byte: PsPerByte,
    /// Time per byte beyond it.
    pub per_byte: PsPerByte,
    /// Whether every later pass takes as long as a full one, however little is left for it.
    pub whole: bool,
}

impl Cost {
    /// The same work done at `millionths` of a million of the time: 1,300,000 is 1.3 times as slow.
    #[must_use]
    pub const fn scaled(self, millionths: u64) -> Self {
        Self {
            fixed: self.fixed.scaled(millionths),
            pass: self.pass,
            pass_per_byte: self.pass_per_byte.scaled(millionths),
            per_byte: self.per_byte.scaled(millionths),
            whole: self.whole,
        }
    }

    /// Where each pass but the last is done while what the next takes is still on its way.
    #[must_use]
    pub const fn last_pass(self) -> Self {
        Self { per_byte: PsPerByte::FREE, whole: false, ..self }
    }

    /// The time an operation on `bytes` holds its lane.
    #[must_use]
    #[inline]
    pub fn hold(&self, bytes: u64) -> Span {
        let first = bytes.min(self.pass.get());
        let rest = bytes - first;
        let rest = if self.whole && rest > 0 { rest.next_multiple_of(self.pass.get().max(1)) } else { rest };
        self.fixed + self.pass_per_byte.cost(Bytes::new(first)) + self.per_byte.cost(Bytes::new(rest))
    }
}

/// One operation of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// How often in a loop.
    pub repeat: u32,
    /// The chunk of the first repetition.
    pub chunk: u32,
    /// What is added to the chunk's number (modulo [`Layout::chunks`]) from one repetition to the next.
    pub stride: u32,
    /// How many chunks, from that one on and after the layout's last from its first, it takes as one message; at least 1, and no
    /// more than 1 where it repeats.
    pub span: u32,
    /// A barrier (index in [`Program::barriers`]) that is waited for before the first repetition.
    pub barrier: Option<u32>,
}

/// The kinds of operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Waits for a slice at every receive end and a slot at every send end, works, frees and sends. With both lists
    /// it is a receive-reduce-send or a receive-copy-send; with neither a local copy or compute.
    Step {
        /// Receive ends, a range of [`Program::recv_ends`].
        recv: Slice,
        /// Send ends, a range of [`Program::send_ends`].
        send: Slice,
        /// Index in [`Program::costs`].
        cost: u32,
    },
}

/// A sequential program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Its operations, a range of [`Program::ops`], gone through once per loop of the layout.
    pub ops: Slice,
    /// Index in [`Program::layouts`].
    pub layout: u32,
    /// The kernel it belongs to, an index in [`Program::kernels`].
    pub kernel: u32,
}

/// Lanes that begin and end together: one thread block grid of one device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Time from the start of an iteration to the start of its lanes (launch).
    pub launch: Span,
    /// The start of the first iteration, after the program's.
    pub start: Span,
}

/// Everything of one collective, transfer list or step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    /// Arena of routes.
    pub routes: Vec<LinkId>,
    /// The flows; their order is their order among simultaneous events.
    pub flows: Vec<Flow>,
    /// The connections.
    pub conns: Vec<Conn>,
    /// Send ends.
    pub senders: Vec<Sender>,
    /// Receive ends: how many parts make a message there.
    pub receivers: Vec<u16>,
    /// Junctions.
    pub junctions: Vec<Junction>,
    /// Arena of the receive ends named by operations: indices in [`Program::receivers`].
    pub recv_ends: Vec<u32>,
    /// Arena of the send ends named by operations: indices in [`Program::senders`].
    pub send_ends: Vec<u32>,
    /// Costs.
    pub costs: Vec<Cost>,
    /// Layouts.
    pub layouts: Vec<Layout>,
    /// Arena of operations.
    pub ops: Vec<Op>,
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// Barriers: the lanes of each, a range of [`Program::lanes`].
    pub barriers: Vec<Slice>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// How often every kernel runs, back to back, each on its own (a kernel does not wait for the others).
    pub iterations: u32,
    /// The least time between two starts of a kernel (the host's launch rate).
    pub launch_floor: Span,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_data_once() {
        let layout = Layout {
            total: 44_739_243,
            chunk: 2 << 20,
            last_chunk: 1_398_112,
            chunks: 8,
            slices: 2,
            min_slice: 32_768,
        };
        assert_eq!(layout.loops(), 3);
        let sum: u64 = (0..3).flat_map(|l| (0..8).map(move |k| (l, k))).map(|(l, k)| layout.chunk_bytes(l, k)).sum();
        assert_eq!(sum, layout.total);
        for (l, k, span) in [(0, 0, 8), (0, 3, 2), (2, 6, 2), (2, 7, 5)] {
            let apart: u64 = (k..k + span).map(|k| layout.chunk_bytes(l, k % 8)).sum();
            assert_eq!(layout.span_bytes(l, k, span), apart);
        }
        assert_eq!(layout.slice_bytes(2 << 20), 1 << 20);
        assert_eq!(layout.slice_bytes(40_000), 32_768);
    }
}
