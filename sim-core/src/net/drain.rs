//! Endpoints that can't pass on what they receive hold the port that feeds them.
//!
//! This goes beside what keeps the buffers of nodes from overflowing, whatever that is: with pauses it stands for a pause frame
//! of the endpoint, with credits for credits that it keeps back. The frame takes the other direction's wire.

use super::spec::FlowControlSpec;
use super::{Net, Schedule, word};
use crate::event::Phase;
use crate::units::{Span, Time};

/// Numbers in a Port word's place of the flow: the class is added.
pub(super) const HOLD: u32 = 16;
pub(super) const GO: u32 = 32;

impl Net {
    /// The endpoint behind `link` asks its port to stop a class, or to go on.
    pub(crate) fn drain(&mut self, link: u32, class: u8, stop: bool, now: Time, s: &mut impl Schedule) {
        let (wire, acts_after, response) = match &self.spec.flow_control {
            FlowControlSpec::Shared(shared) => (shared.pause.wire, shared.pause.acts_after, shared.pause.response),
            FlowControlSpec::Credits(credits) => (credits.wire, None, credits.release),
            FlowControlSpec::Unlimited => (self.spec.control_size, None, Span::ZERO),
        };
        let twin = self.ports[link as usize].twin;
        let back = &mut self.ports[twin as usize];
        back.free = now.max(back.free) + back.cost(wire);
        let at = acts_after.map_or_else(|| back.free + (back.latency + response), |after| now + after);
        s.at(at, word(Phase::Port, link, u32::from(class) + if stop { HOLD } else { GO }));
    }

    /// What an endpoint asked for is at the port.
    pub(super) fn drained(&mut self, link: u32, asked: u32, now: Time, s: &mut impl Schedule) {
        let class = (asked % HOLD) as u8;
        let (port, bit) = (&mut self.ports[link as usize], 1u16 << class);
        if asked < GO {
            port.drained |= bit;
            self.held(link, class, now, s);
        } else {
            port.drained &= !bit;
            self.released(link, class, now);
            self.kick(link, now, s);
        }
    }
}
