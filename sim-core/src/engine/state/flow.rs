//! What the loop knows of a flow, its messages and its segments.

use super::Ring;
use crate::program::Sink;
use crate::units::{PsPerByte, Time};

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// When its tail arrives where its head is.
    pub(crate) tail: Time,
    /// Index of its path's first link.
    pub(crate) route: u32,
    pub(crate) bytes: u32,
    pub(crate) packets: u32,
    /// Index of its next link within the route.
    pub(crate) hop: u8,
    /// How many messages end with it: one at most, unless it fills a gap.
    pub(crate) ends: u16,
}

/// A message that waits at, or leaves, the source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message {
    /// When its last byte is there to be sent.
    pub(crate) end: Time,
    /// Bytes that have not left.
    pub(crate) bytes: u64,
    /// Time per byte at which the sender produces it.
    pub(crate) pace: PsPerByte,
    /// The first of its sender in an iteration.
    pub(crate) first: bool,
    /// Whether it, or what it is a part of, keeps the next one waiting.
    pub(crate) large: bool,
    /// None of it has left; only where messages are kept apart.
    pub(crate) fresh: bool,
}

/// One queue pair: two lines of a processor's cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct FlowState {
    /// The segment in flight, as long as there is only one and `segments` is empty.
    pub(crate) lone: Segment,
    /// The message that is leaving; nothing is where `active` is false.
    pub(crate) current: Message,
    pub(crate) route: u32,
    pub(crate) segment: u32,
    pub(crate) segments: Ring,
    pub(crate) next: u32,
    pub(crate) oldest: u32,
    /// Messages behind the current one, as numbers from `first` to `posted`.
    pub(crate) messages: Ring,
    pub(crate) first: u32,
    pub(crate) posted: u32,
    pub(crate) sink: Sink,
    /// Messages (at a junction, segments) whose end has arrived.
    pub(crate) delivered: u32,
    /// The queue pair at its end that takes what it carries on as packets; or [`NONE`](super::NONE), and it ends at its sink.
    pub(crate) qp: u32,
    /// Where it stands for several flows of one operation: where its number of ends begins in the engine's arena; or [`NONE`](super::NONE).
    pub(crate) wide: u32,
    /// This flow's turn among the flows of its sender, and their number (1 where messages are split).
    pub(crate) turn: u16,
    pub(crate) turns: u16,
    pub(crate) hops: u8,
    /// Whether a message is leaving.
    pub(crate) active: bool,
    /// Whether the source is held because all numbers of the window are in flight.
    pub(crate) full: bool,
    /// Index of what keeps its messages apart, or [`NONE`](super::NONE).
    pub(crate) spaced: u32,
}
