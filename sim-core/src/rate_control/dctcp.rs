//! DCTCP: a window that falls by half the share of its packets that were marked.
//!
//! Alizadeh et al.: Data Center TCP (DCTCP), SIGCOMM 2010. There is no slow start: a flow begins with its initial window.

use std::sync::Arc;

use super::{Ack, Facts, Fraction, RateControl, RateMetrics, bytes_in, sent_after};
use crate::units::{PsPerByte, Rate, Span, Time};

/// What flows of DCTCP share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpParams {
    /// g, the gain of the marked share α. Default 1/16 (paper).
    pub gain: Fraction,
    /// Payload bytes that the window grows by in a round trip without marks. Default one packet (paper).
    pub step: u64,
    /// The window at the start, bytes. Default a bandwidth-delay product (assumed: adapters begin at line rate).
    pub initial: u64,
    /// The least window, bytes. Default one packet.
    pub min: u64,
    /// The largest window, bytes. Default four times the initial one (assumed).
    pub max: u64,
}

impl DctcpParams {
    /// The defaults for links of the rate `line`, the unloaded round trip `rtt` and packets of `mtu` bytes.
    #[must_use]
    pub const fn new(line: Rate, rtt: Span, mtu: u64) -> Self {
        let product = bytes_in(line, rtt);
        let initial = if product > mtu { product } else { mtu };
        Self { gain: Fraction::ratio(1, 16), step: mtu, initial, min: mtu, max: initial.saturating_mul(4) }
    }
}

/// A flow under DCTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    params: Arc<DctcpParams>,
    window: u64,
    alpha: Fraction,
    /// When the present round trip began: it ends with the acknowledgement of a packet sent since.
    round: Time,
    packets: u32,
    marked: u32,
}

impl Dctcp {
    /// A flow with the initial window; α is 0.
    #[must_use]
    pub fn new(params: Arc<DctcpParams>) -> Self {
        Self { window: params.initial, alpha: Fraction::ZERO, round: Time::MAX, packets: 0, marked: 0, params }
    }

    /// The marked share α.
    #[must_use]
    pub const fn alpha(&self) -> Fraction {
        self.alpha
    }

    fn set(&mut self, window: u64) {
        self.window = window.min(self.params.max).max(self.params.min);
    }
}

impl RateControl for Dctcp {
    fn facts(&self) -> Facts {
        Facts { hears_acks: true, ..Facts::BY_MARKS }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.packets = self.packets.saturating_add(ack.packets);
        self.marked = self.marked.saturating_add(ack.marked);
        if self.round == Time::MAX {
            self.round = now;
        }
        if self.packets == 0 || !sent_after(now, ack, self.round) {
            return;
        }
        let share = Fraction::ratio(u64::from(self.marked), u64::from(self.packets)).min(Fraction::ONE);
        self.alpha = self.alpha.toward(share, self.params.gain);
        if self.marked > 0 {
            self.set(self.window.saturating_sub(self.alpha.of(self.window) / 2));
        } else {
            self.set(self.window.saturating_add(self.params.step));
        }
        (self.round, self.packets, self.marked) = (now, 0, 0);
    }

    fn on_loss(&mut self, _now: Time, timeout: bool) {
        self.set(if timeout { self.params.min } else { self.window / 2 });
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        PsPerByte::FREE
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> RateMetrics {
        RateMetrics { window: self.window, alpha: Some(self.alpha.as_f64()), ..RateMetrics::default() }
    }
}
