//! Admission by the receiver: a source sends what it was granted, and a receiver grants no more than its link can take.
//!
//! Gangidi et al.: RDMA over Ethernet for Distributed AI Training at Meta Scale, SIGCOMM 2024, run so without DCQCN. The budget
//! and the round-robin order are choices made here.

use std::collections::VecDeque;

use super::{Ack, Facts, RateControl, bytes_in};
use crate::units::{PsPerByte, Rate, Span, Time};

/// The source's end: what was granted and is not acknowledged may be under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    window: u64,
}

impl Receiver {
    /// A source that may send `unasked` payload bytes before the first grant.
    #[must_use]
    pub const fn new(unasked: u64) -> Self {
        Self { window: unasked }
    }
}

impl RateControl for Receiver {
    fn facts(&self) -> Facts {
        Facts { asks_for_grants: true, ..Facts::BY_ITSELF }
    }

    fn on_grant(&mut self, _now: Time, bytes: u64) {
        self.window = self.window.saturating_add(bytes);
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.window = self.window.saturating_sub(ack.bytes);
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        PsPerByte::FREE
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window
    }
}

/// That a flow may send `bytes` more of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The flow's number.
    pub flow: u32,
    /// Payload bytes.
    pub bytes: u64,
}

/// The receiver's end, one per endpoint: grants in turn, with at most a budget granted and not arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    budget: u64,
    unit: u64,
    /// Granted and not arrived.
    out: u64,
    /// Flows with something to send, in turn.
    asking: VecDeque<Grant>,
}

impl Grants {
    /// At most `budget` bytes granted at once, `unit` bytes to each flow in turn. Neither is taken below 1.
    #[must_use]
    pub fn new(budget: u64, unit: u64) -> Self {
        let unit = unit.max(1);
        Self { budget: budget.max(unit), unit, out: 0, asking: VecDeque::new() }
    }

    /// The default budget, 1.5 bandwidth-delay products (assumed), in units of a packet of `mtu` bytes.
    #[must_use]
    pub fn of(line: Rate, rtt: Span, mtu: u64) -> Self {
        let product = bytes_in(line, rtt);
        Self::new(product.saturating_add(product / 2), mtu)
    }

    /// Granted bytes that have not arrived.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.out
    }

    /// A flow says that it has `bytes` more to send.
    pub fn asked(&mut self, flow: u32, bytes: u64, grants: &mut Vec<Grant>) {
        match self.asking.iter_mut().find(|asking| asking.flow == flow) {
            Some(asking) => asking.bytes = asking.bytes.saturating_add(bytes),
            None if bytes > 0 => self.asking.push_back(Grant { flow, bytes }),
            None => {}
        }
        self.give(grants);
    }

    /// `bytes` that were granted have arrived for the first time.
    pub fn arrived(&mut self, bytes: u64, grants: &mut Vec<Grant>) {
        self.out = self.out.saturating_sub(bytes);
        self.give(grants);
    }

    /// A flow has ended with `bytes` granted that won't come, and asks no more.
    pub fn gone(&mut self, flow: u32, bytes: u64, grants: &mut Vec<Grant>) {
        self.asking.retain(|asking| asking.flow != flow);
        self.arrived(bytes, grants);
    }

    fn give(&mut self, grants: &mut Vec<Grant>) {
        while let Some(first) = self.asking.front() {
            let bytes = first.bytes.min(self.unit);
            if self.out.saturating_add(bytes) > self.budget {
                return;
            }
            let Some(mut first) = self.asking.pop_front() else { return };
            self.out += bytes;
            grants.push(Grant { flow: first.flow, bytes });
            first.bytes -= bytes;
            if first.bytes > 0 {
                self.asking.push_back(first);
            }
        }
    }
}
