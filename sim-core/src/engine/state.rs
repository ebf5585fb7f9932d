//! The records of the loop: flat, small, and indexed by the numbers in the events' words.

use std::collections::VecDeque;

use crate::network::{Forwarding, LinkModel, LinkSpec};
use crate::outage::Outage;
use crate::path_choice::AnyPathChoice;
use crate::program::{Credit, Sink, Slice};
use crate::rate_control::AnyRateControl;
use crate::recorder::{LinkCounters, WAIT_BUCKETS, wait_bucket};
use crate::units::{Bytes, PsPerByte, Span, Time};

/// "None" in the 32-bit fields of hot records.
pub(crate) const NONE: u32 = u32::MAX;
/// More than one, where one is told by its number.
pub(crate) const MANY: u32 = u32::MAX - 1;

/// One direction of a link: what crossing it needs, and what is counted there.
#[derive(Clone, Debug)]
pub(crate) struct LinkState {
    /// When the last segment that was accepted will have left.
    pub(crate) free: Time,
    pub(crate) cost: PsPerByte,
    pub(crate) latency: Span,
    /// Time to serialise what the near and the far device hold before they forward.
    pub(crate) near_hold: Span,
    pub(crate) far_hold: Span,
    pub(crate) overhead: u32,
    /// The link that feeds it; [`NONE`] before the first, [`MANY`] if several do or a flow begins on it.
    pub(crate) feeder: u32,
    pub(crate) queued: bool,
    /// Whether it is down at times; when, is in the engine's list of outages.
    pub(crate) flaps: bool,
    /// Whether one other link feeds it and nothing else does, in all programs that are loaded.
    pub(crate) series: bool,
    pub(crate) payload: u64,
    pub(crate) packets: u64,
    pub(crate) longest_wait: Span,
    /// Sum of waiting time times wire bytes.
    pub(crate) wait_bytes: u128,
    /// Segments by waiting time.
    pub(crate) waits: [u64; WAIT_BUCKETS],
}

impl LinkState {
    pub(crate) fn new(spec: &LinkSpec, mtu: Bytes) -> Self {
        let cost = spec.rate.ps_per_byte();
        let hold = |forwarding| match forwarding {
            Forwarding::CutThrough { header } => cost.cost(header),
            Forwarding::StoreAndForward => cost.cost(mtu + spec.packet_overhead),
            Forwarding::Relay => Span::from_ps(u64::MAX),
        };
        Self {
            free: Time::ZERO,
            cost,
            latency: spec.latency,
            near_hold: hold(spec.near),
            far_hold: hold(spec.far),
            overhead: spec.packet_overhead.get().min(1 << 16) as u32,
            feeder: NONE,
            queued: spec.model == LinkModel::Queued,
            flaps: spec.outage.is_some(),
            series: false,
            payload: 0,
            packets: 0,
            longest_wait: Span::ZERO,
            wait_bytes: 0,
            waits: [0; WAIT_BUCKETS],
        }
    }

    /// A segment crosses from `start` on, whose head came at `head_in` and whose tail comes at `tail`.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u32, packets: u32, start: Time, head_in: Time, tail: Time) -> Crossing {
        let wire = Bytes::new(u64::from(bytes) + u64::from(packets) * u64::from(self.overhead));
        let cost = self.cost.cost_of_segment(wire);
        let free = start + cost;
        self.free = free;
        let wait = start.since(head_in);
        self.payload += u64::from(bytes);
        self.packets += u64::from(packets);
        self.waits[wait_bucket(wait.as_ps())] += 1;
        if wait != Span::ZERO {
            self.longest_wait = self.longest_wait.max(wait);
            self.wait_bytes += u128::from(wait.as_ps()) * u128::from(wire.get());
        }
        Crossing {
            free,
            head: start + (cost.min(self.far_hold) + self.latency),
            tail: free.max(tail + cost.min(self.near_hold)) + self.latency,
        }
    }

    /// What was counted; the rest follows from it.
    pub(crate) fn counters(&self) -> LinkCounters {
        let wire = self.payload + self.packets * u64::from(self.overhead);
        LinkCounters {
            payload: self.payload,
            packets: self.packets,
            segments: self.waits.iter().sum(),
            busy: self.cost.cost(Bytes::new(wire)),
            longest_wait: self.longest_wait,
            wait_bytes: self.wait_bytes,
            held: Span::ZERO,
        }
    }
}

/// A link that is down at times.
#[derive(Clone, Debug)]
pub(crate) struct Flapping {
    pub(crate) link: u32,
    pub(crate) outage: Outage,
    /// Time in which it was down and a segment was there to be sent.
    pub(crate) held: Span,
}

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
    /// The last of its message.
    pub(crate) last: bool,
    pub(crate) done: bool,
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

/// A power-of-two ring in an arena; empty when `base` is [`NONE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) base: u32,
    pub(crate) mask: u32,
}

impl Ring {
    pub(crate) const EMPTY: Self = Self { base: NONE, mask: 0 };

    #[inline]
    pub(crate) const fn at(self, number: u32) -> usize {
        self.base as usize + (number & self.mask) as usize
    }

    #[inline]
    pub(crate) const fn capacity(self) -> u32 {
        if self.base == NONE { 0 } else { self.mask + 1 }
    }
}

/// An arena of rings, with a free list per size (last in, first out).
#[derive(Debug, Default)]
pub(crate) struct Rings<T> {
    pub(crate) items: Vec<T>,
    free: Vec<Vec<u32>>,
}

impl<T: Copy + Default> Rings<T> {
    /// A ring of at least `capacity` items.
    pub(crate) fn take(&mut self, capacity: u32) -> Ring {
        let capacity = capacity.max(1).next_power_of_two();
        let class = capacity.trailing_zeros() as usize;
        let reused = self.free.get_mut(class).and_then(Vec::pop);
        let base = reused.unwrap_or_else(|| {
            let base = self.items.len() as u32;
            self.items.resize(self.items.len() + capacity as usize, T::default());
            base
        });
        Ring { base, mask: capacity - 1 }
    }

    /// Gives a ring back.
    pub(crate) fn give(&mut self, ring: Ring) {
        if ring.base == NONE {
            return;
        }
        let class = ring.capacity().trailing_zeros() as usize;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(ring.base);
    }

    /// A ring of twice the size with the items `oldest..next` of `ring`, which is given back.
    pub(crate) fn grow(&mut self, ring: Ring, oldest: u32, next: u32) -> Ring {
        let larger = self.take((ring.capacity() * 2).max(2));
        let mut i = oldest;
        while i != next {
            self.items[larger.at(i)] = self.items[ring.at(i)];
            i = i.wrapping_add(1);
        }
        self.give(ring);
        larger
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.free.clear();
    }
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
    /// Index of what manages it at run time, or [`NONE`]: at line rate on one path.
    pub(crate) managed: u32,
    /// Where it stands for several flows of one operation: where its number of ends begins in the engine's arena; or [`NONE`].
    pub(crate) wide: u32,
    /// This flow's turn among the flows of its sender, and their number (1 where messages are split).
    pub(crate) turn: u16,
    pub(crate) turns: u16,
    pub(crate) hops: u8,
    /// Whether a message is leaving.
    pub(crate) active: bool,
    /// Whether the next segment is booked when the one in the first, queued port departs.
    pub(crate) waits: bool,
    /// Whether the source is held because all numbers of the window are in flight.
    pub(crate) full: bool,
    /// Index of what keeps its messages apart, or [`NONE`].
    pub(crate) spaced: u32,
}

/// A sender's end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct SendState {
    pub(crate) conn: u32,
    pub(crate) flows: Slice,
    pub(crate) split: bool,
    pub(crate) latency: Span,
    pub(crate) signals: u32,
    pub(crate) posted: u32,
    pub(crate) waiter: u32,
    /// It has sent nothing in this iteration.
    pub(crate) fresh: bool,
}

/// A place for each message that can be under way to a receive end. Those of all receive ends of a connection lie side by
/// side, since a message comes to all at about the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) base: u32,
    pub(crate) mask: u16,
    pub(crate) shift: u16,
}

impl Places {
    pub(crate) const EMPTY: Self = Self { base: NONE, mask: 0, shift: 0 };

    #[inline]
    pub(crate) const fn at(self, number: u32) -> usize {
        self.base as usize + ((number as usize & self.mask as usize) << self.shift)
    }

    #[inline]
    pub(crate) const fn capacity(self) -> u32 {
        if self.base == NONE { 0 } else { self.mask as u32 + 1 }
    }
}

/// A receiver's end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct RecvState {
    pub(crate) conn: u32,
    /// Messages whose arrival is known, and those that were taken.
    pub(crate) arrived: u32,
    pub(crate) consumed: u32,
    pub(crate) waiter: u32,
    /// Parts of a message that must arrive; 1 with a single flow means that arrivals are in order.
    pub(crate) parts: u16,
    /// Whether arrivals of different messages can overtake each other.
    pub(crate) unordered: bool,
    pub(crate) ring: Places,
}

/// A message on its way to a receive end, as far as it is known when it will be there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// When the last of the known parts is there.
    pub(crate) at: Time,
    /// Parts that are known of, where a message has several.
    pub(crate) here: u16,
}

/// A slot of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// When it is free for the next use, once `uses` says that it was given back.
    pub(crate) free_at: Time,
    /// How often it was given back.
    pub(crate) uses: u32,
    /// How many receivers have consumed the present message.
    pub(crate) consumed: u32,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnState {
    pub(crate) senders: Slice,
    pub(crate) receivers: u32,
    pub(crate) slots: Ring,
    pub(crate) credit: Credit,
    pub(crate) credited: u32,
}

/// A junction: the segments that are not complete yet.
#[derive(Clone, Debug)]
pub(crate) struct JunctionState {
    pub(crate) inputs: u16,
    pub(crate) outputs: Slice,
    pub(crate) first: u32,
    /// Where all outputs are one link to a receive end: the first index of them in the arena of [`Fan`]; or [`NONE`].
    pub(crate) fan: u32,
    /// Messages that have left over a fan.
    pub(crate) messages: u32,
    pub(crate) waiting: VecDeque<Meeting>,
}

/// An output of a junction that is one link to a receive end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fan {
    pub(crate) link: u32,
    pub(crate) receiver: u32,
}

/// When a segment that crosses a link is where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// When the link is free again.
    pub(crate) free: Time,
    /// When head and tail are at the far end.
    pub(crate) head: Time,
    pub(crate) tail: Time,
}

/// A segment at a junction, as far as it is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meeting {
    /// Inputs whose part is on its way to the junction with nothing before it.
    pub(crate) here: u16,
    pub(crate) last: bool,
    pub(crate) bytes: u32,
    pub(crate) packets: u32,
    /// The latest arrival of a head and of a tail.
    pub(crate) head: Time,
    pub(crate) tail: Time,
}

/// Up to a few ends of an operation: one is kept in place, several are a range of an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The end, or the first index in the arena.
    pub(crate) at: u32,
    pub(crate) count: u16,
}

/// An operation: see [`crate::program::Op`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpState {
    pub(crate) recv: u32,
    pub(crate) send: u32,
    pub(crate) recvs: u16,
    pub(crate) sends: u16,
    /// Waited for before the first repetition; [`NONE`] without one.
    pub(crate) barrier: u32,
    pub(crate) cost: u32,
    pub(crate) repeat: u32,
    pub(crate) chunk: u32,
    /// The stride of an operation that repeats, the span of one that does not.
    pub(crate) stride_or_span: u32,
}

impl OpState {
    /// Chunks of one repetition.
    pub(crate) const fn span(&self) -> u32 {
        if self.repeat > 1 { 1 } else { self.stride_or_span }
    }

    pub(crate) const fn recv(&self) -> Ends {
        Ends { at: self.recv, count: self.recvs }
    }

    pub(crate) const fn send(&self) -> Ends {
        Ends { at: self.send, count: self.sends }
    }
}

/// Where a lane stands.
#[derive(Clone, Debug)]
pub(crate) struct LaneState {
    /// Bytes of the present chunk that are left, and the size of its slices.
    pub(crate) left: u64,
    pub(crate) slice: u64,
    pub(crate) busy_until: Time,
    /// When the next event for this lane is due; [`Time::MAX`] if none is.
    pub(crate) wake: Time,
    pub(crate) ops: Slice,
    pub(crate) layout: u32,
    pub(crate) kernel: u32,
    pub(crate) loops: u32,
    pub(crate) pc: u32,
    pub(crate) repetition: u32,
    pub(crate) chunk: u32,
    pub(crate) turn: u32,
    pub(crate) done: bool,
    /// The barrier of the present operation is behind it.
    pub(crate) passed: bool,
}

/// Lanes of a barrier that have come.
#[derive(Clone, Debug)]
pub(crate) struct BarrierState {
    pub(crate) lanes: Slice,
    pub(crate) here: u32,
    pub(crate) latest: Time,
}

/// Where a kernel stands.
#[derive(Clone, Debug)]
pub(crate) struct KernelState {
    /// Its lanes, a range of `Engine::kernel_lanes`.
    pub(crate) lanes: Slice,
    pub(crate) launch: Span,
    pub(crate) program: u32,
    /// Lanes that run.
    pub(crate) running: u32,
    pub(crate) iteration: u32,
    pub(crate) started: Time,
    pub(crate) end: Time,
}

/// Where a program stands.
#[derive(Clone, Debug)]
pub(crate) struct ProgramState {
    pub(crate) kernels: Slice,
    pub(crate) running: u32,
    pub(crate) iterations: u32,
    pub(crate) floor: Span,
    pub(crate) end: Time,
}

/// A queued port: segments that wait, as (flow, number, when the head came).
#[derive(Clone, Debug, Default)]
pub(crate) struct Port {
    pub(crate) queue: VecDeque<(u32, u32, Time)>,
    pub(crate) scheduled: bool,
    pub(crate) blocked: bool,
    /// Signals of the flow control under way to it, in order: when they arrive, and their value.
    pub(crate) signals: VecDeque<(Time, u64)>,
}

/// What a flow has beside the common state, where its rate or its path is decided at run time.
#[derive(Clone, Debug)]
pub(crate) struct ManagedState {
    pub(crate) rate: AnyRateControl,
    pub(crate) choice: AnyPathChoice,
    /// Where the equal paths begin in the arena of routes, and the index of the first link at which they differ.
    pub(crate) paths: Vec<u32>,
    pub(crate) parting: u32,
    /// Bytes sent and not delivered.
    pub(crate) outstanding: u64,
    /// When the segments under way were sent, in order.
    pub(crate) sent: VecDeque<Time>,
    /// Bytes delivered in all, and at how many each posted message is complete.
    pub(crate) delivered: u64,
    pub(crate) posted: u64,
    pub(crate) ends: VecDeque<u64>,
    /// The source waits for the window to open.
    pub(crate) held: bool,
    /// When the controller's next timer is due; [`Time::MAX`] if none is set.
    pub(crate) timer: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_reused_last_in_first_out_and_keep_their_items() {
        let mut rings = Rings::<u32>::default();
        let a = rings.take(3);
        assert_eq!(a.capacity(), 4);
        for i in 6..9 {
            rings.items[a.at(i)] = i;
        }
        let b = rings.grow(a, 6, 9);
        assert_eq!((6..9).map(|i| rings.items[b.at(i)]).collect::<Vec<_>>(), [6, 7, 8]);
        assert_eq!(rings.take(4).base, a.base);
    }

    #[test]
    fn records_stay_small() {
        assert_eq!(size_of::<LinkState>(), 272);
        assert_eq!(size_of::<Segment>(), 24);
        assert_eq!(size_of::<FlowState>(), 128);
        assert_eq!(size_of::<OpState>(), 32);
        assert_eq!(size_of::<LaneState>(), 72);
        assert_eq!(size_of::<RecvState>(), 28);
        assert_eq!(size_of::<SendState>(), 40);
        assert_eq!(size_of::<ConnState>(), 48);
    }
}
