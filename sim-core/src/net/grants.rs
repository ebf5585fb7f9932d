//! Admission by receivers: a queue pair asks for what it has to send, and the endpoint where it ends grants in turn, no more at
//! once than a budget. Asking and granting take control packets.

use std::collections::BTreeMap;

use super::packet::{Kind, NONE, Packet};
use super::qp::State;
use super::{Net, Schedule};
use crate::rate_control::{Grant, Grants, RateControl as _};
use crate::units::Time;

/// Receivers that grant, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct Granting {
    nodes: BTreeMap<u32, Grants>,
    given: Vec<Grant>,
}

impl Net {
    /// Whether a queue pair has to ask.
    #[inline]
    pub(super) fn has_to_ask(&self, qp: u32) -> bool {
        self.spec.grants.is_some() && self.qps[qp as usize].rate.facts().asks_for_grants
    }

    /// A queue pair asks for what was announced since it asked last, less what it may send unasked.
    #[inline]
    pub(super) fn ask_for(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        if self.qps[qp as usize].to_ask > 0 {
            self.ask_of_receiver(qp, now, s);
        }
    }

    fn ask_of_receiver(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        let bytes = core::mem::take(&mut state.to_ask);
        // What was granted and is not sent yet has been asked for by messages before.
        let unasked = bytes.min(state.allowance);
        state.allowance -= unasked;
        state.unasked += unasked;
        let mut left = bytes - unasked;
        while left > 0 {
            let part = u32::try_from(left).unwrap_or(u32::MAX);
            left -= u64::from(part);
            let state = &self.qps[qp as usize];
            let (at, hops, class, wire) = (state.route, state.hops, state.how.class, self.spec.control_size);
            let slot = self.packets.take(Packet {
                next: NONE,
                qp,
                psn: part,
                at,
                tail: now,
                sent: now,
                from: NONE,
                wire,
                kind: Kind::Ask,
                class,
                flags: 0,
                left: hops,
                marked: 0,
                packets: 1,
            });
            self.send_off(self.routes[at as usize], slot, now, s);
        }
    }

    fn with_receiver(
        &mut self,
        qp: u32,
        now: Time,
        s: &mut impl Schedule,
        what: impl FnOnce(&mut Grants, &mut Vec<Grant>),
    ) {
        let Some(spec) = self.spec.grants else { return };
        let node = self.qps[qp as usize].end_node;
        let granting = &mut self.granting;
        let grants = granting.nodes.entry(node).or_insert_with(|| Grants::new(spec.budget, spec.unit));
        let mut given = core::mem::take(&mut granting.given);
        what(grants, &mut given);
        for Grant { flow, bytes } in given.drain(..) {
            self.send_control(flow, Kind::Grant, u32::try_from(bytes).unwrap_or(u32::MAX), 0, now, now, s);
        }
        self.granting.given = given;
    }

    /// What a queue pair asks for is at its receiver.
    pub(super) fn asked_at(&mut self, qp: u32, bytes: u32, now: Time, s: &mut impl Schedule) {
        self.with_receiver(qp, now, s, |grants, given| grants.asked(qp, u64::from(bytes), given));
    }

    /// Payload has arrived for the first time by a queue pair that asks.
    pub(super) fn grant_arrived(&mut self, qp: u32, bytes: u32, now: Time, s: &mut impl Schedule) {
        // What was sent unasked was not granted.
        let state = &mut self.qps[qp as usize];
        let unasked = state.unasked.min(u64::from(bytes));
        state.unasked -= unasked;
        let bytes = u64::from(bytes) - unasked;
        if bytes > 0 {
            self.with_receiver(qp, now, s, |grants, given| grants.arrived(bytes, given));
        }
    }

    /// A queue pair has given up.
    pub(super) fn grant_gone(&mut self, qp: u32, now: Time, s: &mut impl Schedule) {
        let out = self.qps[qp as usize].rate.window();
        self.with_receiver(qp, now, s, |grants, given| grants.gone(qp, out, given));
    }

    /// A grant is at the sender.
    pub(super) fn granted(&mut self, qp: u32, bytes: u32, now: Time, s: &mut impl Schedule) {
        let state = &mut self.qps[qp as usize];
        state.rate.on_grant(now, u64::from(bytes));
        if state.state == State::Held {
            self.go_on(qp, now, s);
        }
    }
}
