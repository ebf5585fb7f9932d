//! In-band telemetry: what a packet reads in the ports that it leaves, and takes back to its sender in the acknowledgement.
//!
//! Only packets of queue pairs whose controller asks for it carry it. Its bytes are not counted on the wire.

use super::Net;
use super::packet::Kind;
use crate::rate_control::{HopTelemetry, RateControl as _};
use crate::units::Time;

/// What is on its way, and what receivers have.
#[derive(Clone, Debug, Default)]
pub(super) struct Telemetry {
    /// Whether any queue pair asks for it.
    pub(super) on: bool,
    /// Of the packet in each place.
    packets: Vec<Vec<HopTelemetry>>,
    /// Of the newest packet that a queue pair has received.
    received: Vec<Vec<HopTelemetry>>,
}

impl Telemetry {
    fn of(&mut self, slot: u32) -> &mut Vec<HopTelemetry> {
        let slot = slot as usize;
        if self.packets.len() <= slot {
            self.packets.resize_with(slot + 1, Vec::new);
        }
        &mut self.packets[slot]
    }

    /// A packet sets out that has read nothing.
    pub(super) fn begin(&mut self, slot: u32) {
        if self.on {
            self.of(slot).clear();
        }
    }

    /// A unit is cut: its part has read what it has.
    pub(super) fn copy(&mut self, slot: u32, part: u32) {
        if self.on {
            let read = self.of(slot).clone();
            *self.of(part) = read;
        }
    }

    /// A data packet has arrived.
    pub(super) fn arrived(&mut self, slot: u32, qp: u32) {
        if self.received.len() <= qp as usize {
            self.received.resize_with(qp as usize + 1, Vec::new);
        }
        let read = core::mem::take(self.of(slot));
        let old = core::mem::replace(&mut self.received[qp as usize], read);
        *self.of(slot) = old;
    }

    /// An acknowledgement sets out.
    pub(super) fn answer(&mut self, slot: u32, qp: u32) {
        let newest = self.received.get(qp as usize).cloned().unwrap_or_default();
        *self.of(slot) = newest;
    }

    /// What an acknowledgement has brought.
    pub(super) fn take(&mut self, slot: u32) -> Vec<HopTelemetry> {
        core::mem::take(self.of(slot))
    }
}

impl Net {
    /// A packet that leaves a port reads it.
    #[cold]
    pub(super) fn read_port(&mut self, link: u32, at: usize, slot: u32, now: Time) {
        let packet = &self.packets[slot];
        if packet.kind != Kind::Data || !self.qps[packet.qp as usize].rate.facts().reads_telemetry {
            return;
        }
        let (queue, port) = (&self.queues[at], &self.ports[link as usize]);
        let sent = queue.tally.bytes + port.control;
        let rate = self.spec.ports[link as usize].rate;
        self.telemetry.of(slot).push(HopTelemetry { queue: queue.bytes, sent, at: now, rate });
    }
}
