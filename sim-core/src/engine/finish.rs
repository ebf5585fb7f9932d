//! The end of a run: what was measured, and whether the books balance.

use super::{Engine, EngineCounters};
use crate::net::NetOutcome;
use crate::outcome::{BlockedLane, InvariantError, Outcome, StopReason};
use crate::queue::Store;
use crate::recorder::LinkCounters;
use crate::units::Time;

impl<S: Store> Engine<S> {
    /// Closes the run that stopped for `reason`.
    #[must_use]
    pub fn finish(mut self, reason: StopReason) -> Outcome {
        let net = self.net_outcome().map(Box::new);
        let ended = self.programs.iter().map(|p| p.end).max().unwrap_or(Time::ZERO).max(self.latest);
        let mut links: Vec<_> = self.links.iter().map(super::state::LinkState::counters).collect();
        for flapping in &self.flapping {
            links[flapping.link as usize].held = flapping.held;
        }
        let in_net = self.count_packets(net.as_deref(), &mut links);
        // What nobody waited for, such as the last clear-to-send, may be lost for good.
        let lost = |net: &NetOutcome| net.totals.lost + net.totals.drops + net.totals.watchdog_drops > 0;
        let gone = reason == StopReason::Finished && in_net != 0 && net.as_deref().is_some_and(lost);
        let reason = if gone { StopReason::NoProgress } else { reason };
        let hops = links.iter().map(|l| l.segments).sum();
        let faults = self.check(reason, ended, &links, in_net);
        let blocked = if reason == StopReason::Deadlock { self.blocked_lanes() } else { Vec::new() };
        Outcome {
            reason,
            ended,
            links,
            waits: self.links.iter().map(|l| l.waits).collect(),
            engine: EngineCounters { segment_hops: hops, ..self.engine },
            repeated: self.watch.repeated,
            peak_pending: self.pending.peak().max(self.peak_apart) as u64,
            fingerprint: self.fingerprint(),
            faults,
            blocked,
            net,
        }
    }

    fn blocked_lanes(&self) -> Vec<BlockedLane> {
        let waits = |id: u32| {
            let on_recv = self.receivers.iter().position(|r| r.waiter == id).map(|r| r as u32);
            let on_send = self.senders.iter().position(|s| s.waiter == id).map(|s| s as u32);
            BlockedLane { lane: id, receiver: on_recv, sender: on_send }
        };
        (0..self.lanes.len() as u32).filter(|id| !self.lanes[*id as usize].done).take(16).map(waits).collect()
    }

    /// The invariants: bytes are conserved, no link is busy longer than its time, every receive is matched.
    fn check(&self, reason: StopReason, ended: Time, counters: &[LinkCounters], in_net: u64) -> Vec<InvariantError> {
        let mut faults = Vec::new();
        let in_flight: u64 = self
            .flows
            .iter()
            .map(|f| {
                let mut bytes = 0;
                let mut number = f.oldest;
                while number != f.next {
                    let segment = self.segment(f, number);
                    bytes += u64::from(segment.bytes);
                    number = number.wrapping_add(1);
                }
                bytes
            })
            .sum();
        let in_flight = in_flight + in_net;
        let made = self.engine.bytes_sent + self.engine.bytes_forked;
        let ends = self.engine.bytes_delivered + self.engine.bytes_joined + in_flight;
        // What has stopped by itself has nothing under way.
        if made != ends || reason == StopReason::Finished && in_net != 0 {
            faults.push(InvariantError::Conservation { sent: made, delivered: ends - in_flight, in_flight });
        }
        for (i, (link, counters)) in self.links.iter().zip(counters).enumerate() {
            let end = ended.max(link.free);
            if counters.busy > end.since(Time::ZERO) {
                faults.push(InvariantError::OverCapacity { link: i as u32, busy: counters.busy });
            }
        }
        if reason == StopReason::Finished {
            let unmatched = self.receivers.iter().filter(|r| r.arrived != r.consumed).count();
            if unmatched > 0 {
                faults.push(InvariantError::Unmatched { receivers: unmatched as u32 });
            }
        }
        faults
    }
}
