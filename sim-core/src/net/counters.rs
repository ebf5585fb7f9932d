//! What a network of packets counts.

use super::Net;
use super::flow_control::Scheme;
use crate::units::{Span, Time};

/// Of a port and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Wire bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Most wire bytes in the queue, without the packet in service.
    pub peak: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets dropped for lack of room, or by the watchdog.
    pub drops: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// How often it lacked a credit.
    pub waits: u64,
    /// How long it was held: paused, or without credit.
    pub held: Span,
    /// Sum of queued bytes over time, in byte·ns.
    pub byte_ns: u64,
    /// When that was last added to.
    touched: Time,
}

impl PortCounters {
    /// The queue was `depth` deep until `now`.
    #[inline]
    pub(super) fn depth(&mut self, depth: u64, now: Time) {
        // Whole nanoseconds are booked; the rest waits for the next time.
        let ns = now.since(self.touched).as_ps() / 1_000;
        self.byte_ns = self.byte_ns.saturating_add(depth.saturating_mul(ns));
        self.touched += Span::from_ps(ns * 1_000);
    }
}

/// Of the whole network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Hops of data packets.
    pub data_hops: u64,
    /// Hops of control packets.
    pub control_hops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Notices and echoed marks that senders took in.
    pub notices: u64,
    /// Pauses that nodes asked for.
    pub pauses: u64,
    /// Pauses that nodes ended.
    pub resumes: u64,
    /// Packets that carried credits.
    pub credit_packets: u64,
    /// Packets dropped for lack of room.
    pub drops: u64,
    /// Those of lossless classes: headroom was too small.
    pub headroom_drops: u64,
    /// Packets dropped by the watchdog.
    pub watchdog_drops: u64,
    /// Packets lost on the wire.
    pub lost: u64,
}

/// Of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowOutcome {
    /// The program that it is of, and its flow there, where an engine has opened it.
    pub program: u32,
    /// See `program`.
    pub flow: u32,
    /// When its last complete message arrived.
    pub delivered_at: Time,
    /// When the sender knew.
    pub acked_at: Time,
    /// Messages that arrived.
    pub messages: u64,
    /// Payload bytes that arrived, each counted once.
    pub payload: u64,
    /// Packets that arrived, copies included.
    pub arrived: u64,
    /// Packets that were marked when they arrived.
    pub marked: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Notices sent for it.
    pub notices: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// It gave up.
    pub failed: bool,
}

/// What a run of a network measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetOutcome {
    /// Per port and class: class is the inner index.
    pub ports: Vec<Vec<PortCounters>>,
    /// Per queue pair.
    pub flows: Vec<FlowOutcome>,
    /// Of all.
    pub totals: Totals,
    /// The most bytes that an input held at a node, of one class.
    pub input_peak: u64,
    /// The most bytes of an input's headroom that were used.
    pub headroom_peak: u64,
    /// Blocks of credit sent and not freed.
    pub outstanding_blocks: u64,
    /// Packets in the network.
    pub packets_left: usize,
    /// The most packets at once.
    pub packets_peak: usize,
    /// Ports (link and class) that wait for each other in a circle; empty without a deadlock.
    pub cycle: Vec<(u32, u8)>,
}

impl Net {
    /// What was measured until `now`.
    #[must_use]
    pub fn outcome(&mut self, now: Time) -> NetOutcome {
        self.close_holds(now);
        for at in 0..self.counters.len() {
            self.counters[at].depth(self.queues[at].bytes, now);
        }
        let mut totals = self.totals;
        let (mut input_peak, mut headroom_peak, mut outstanding_blocks) = (0, 0, 0);
        match &self.scheme {
            Scheme::Unlimited => {}
            Scheme::Shared(shared) => {
                (input_peak, headroom_peak) = shared.peaks();
                totals.pauses = shared.pauses;
                totals.resumes = shared.resumes;
            }
            Scheme::Credits(credits) => {
                input_peak = credits.peak();
                outstanding_blocks = credits.outstanding();
            }
        }
        NetOutcome {
            ports: self.counters.chunks(self.classes as usize).map(<[PortCounters]>::to_vec).collect(),
            flows: self.past.iter().copied().chain(self.qps.iter().map(|qp| qp.outcome)).collect(),
            totals,
            input_peak,
            headroom_peak,
            outstanding_blocks,
            packets_left: self.packets.live(),
            packets_peak: self.packets.peak(),
            cycle: self.stall.cycle.clone(),
        }
    }
}
