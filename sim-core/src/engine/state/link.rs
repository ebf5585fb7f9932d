//! What the loop knows of a link.

use super::NONE;
use crate::network::{Forwarding, LinkSpec};
use crate::outage::Outage;
use crate::recorder::{LinkCounters, WAIT_BUCKETS, wait_bucket};
use crate::units::{Bytes, PsPerByte, Span, Time};

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
            flaps: spec.outage.is_some(),
            series: false,
            payload: 0,
            packets: 0,
            longest_wait: Span::ZERO,
            wait_bytes: 0,
            waits: [0; WAIT_BUCKETS],
        }
    }

    /// How long a message of `bytes` takes it.
    pub(crate) fn cost_of(&self, bytes: u64, mtu: Bytes) -> Span {
        let overhead = bytes.div_ceil(mtu.get()).saturating_mul(u64::from(self.overhead));
        self.cost.cost(Bytes::new(bytes.saturating_add(overhead)))
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

/// When a segment that crosses a link is where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// When the link is free again.
    pub(crate) free: Time,
    /// When head and tail are at the far end.
    pub(crate) head: Time,
    pub(crate) tail: Time,
}
