//! What is measured on every link, bounded in memory: counters, extremes and a histogram of waiting times.
//!
//! Queue depth on a virtual link is arithmetic: a segment that must wait `w` finds `w / (ps per byte)` wire bytes before
//! it. Times are recorded in the loop and turned into bytes at the end, since a division per hop would be paid on
//! every hop.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, PsPerByte, Span};

/// Number of buckets of a waiting-time histogram: bucket 0 is "no wait", bucket b counts waits of 2^(b+9) ps up to
/// twice that (about 1 ns in bucket 1, above 1 ms in the last).
pub const WAIT_BUCKETS: usize = 22;

/// Counters of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Payload bytes sent.
    pub payload: u64,
    /// Packets sent.
    pub packets: u64,
    /// Segments sent.
    pub segments: u64,
    /// Time spent serialising.
    pub busy: Span,
    /// The longest time that a segment waited before its first byte went out.
    pub longest_wait: Span,
    /// Sum over segments of waiting time times wire bytes, in ps · B; divided by the run's length it is the mean queue
    /// in bytes (Little's law).
    pub wait_bytes: u128,
    /// Time in which the link was down and a segment was there to be sent.
    pub held: Span,
}

impl LinkCounters {
    /// Wire bytes sent, headers included.
    #[must_use]
    pub fn wire_bytes(&self, packet_overhead: Bytes) -> Bytes {
        Bytes::new(self.payload + self.packets * packet_overhead.get())
    }

    /// The deepest queue, in wire bytes before the segment that waited longest.
    #[must_use]
    pub fn peak_queue(&self, cost: PsPerByte) -> Bytes {
        if self.longest_wait == Span::ZERO { Bytes::ZERO } else { cost.bytes_in(self.longest_wait) }
    }

    /// Share of `span` in which the link was serialising, 0 to 1.
    #[must_use]
    pub fn utilization(&self, span: Span) -> f64 {
        if span == Span::ZERO { 0.0 } else { self.busy.as_ps() as f64 / span.as_ps() as f64 }
    }

    /// Mean bytes waiting over `span`.
    #[must_use]
    pub fn mean_queue_bytes(&self, span: Span) -> f64 {
        if span == Span::ZERO { 0.0 } else { self.wait_bytes as f64 / span.as_ps() as f64 }
    }
}

/// The bucket of a waiting time.
#[inline]
pub(crate) fn wait_bucket(wait: u64) -> usize {
    let bits = 64 - wait.leading_zeros() as usize;
    bits.saturating_sub(9).min(WAIT_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_by_powers_of_two() {
        assert_eq!(wait_bucket(0), 0);
        assert_eq!(wait_bucket(511), 0);
        assert_eq!(wait_bucket(512), 1);
        assert_eq!(wait_bucket(1024), 2);
        assert_eq!(wait_bucket(u64::MAX), WAIT_BUCKETS - 1);
    }

    #[test]
    fn queue_depth_is_wait_times_rate() {
        let counters = LinkCounters { longest_wait: Span::from_us(2), ..LinkCounters::default() };
        assert_eq!(counters.peak_queue(crate::units::Rate::gbyte(50).ps_per_byte()), Bytes::new(100_000));
    }
}
