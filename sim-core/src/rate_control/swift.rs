//! Swift: a window that grows below a target of delay and falls above it; below one packet it becomes a pace.
//!
//! Kumar et al.: Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020, algorithm 1.

use std::sync::Arc;

use super::{Ack, Facts, Fraction, RateControl, RateMetrics};
use crate::units::{PsPerByte, Rate, Span, Time};

/// What flows of Swift share. The window is counted in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwiftParams {
    /// Payload bytes of a packet.
    pub mtu: u32,
    /// The target of the round trip before hops and flows are added. Default 25 µs (assumed).
    pub base_target: Span,
    /// ħ: added to the target for each hop. Default 2 µs (assumed).
    pub per_hop: Span,
    /// The most that the target grows by for a small window, so that many flows get a longer queue (`fs_range`). Default five
    /// times the base target (assumed). Zero: the target is one for all windows.
    pub flow_range: Span,
    /// Between these windows the target is scaled (`fs_min_cwnd`, `fs_max_cwnd`). Defaults 0.1 and 100 packets (paper).
    pub flow_windows: (Fraction, u32),
    /// `ai`: packets that the window grows by in a round trip. Default 1 (paper).
    pub additive: Fraction,
    /// β: the share of the excess delay that a cut takes. Default 0.8 (paper).
    pub multiplicative: Fraction,
    /// `max_mdf`: the largest cut. Default 0.5 (paper).
    pub largest_cut: Fraction,
    /// The least window, in packets. Default 0.001 (assumed).
    pub min: Fraction,
    /// The largest window, in packets.
    pub max: u32,
}

impl SwiftParams {
    /// The defaults for packets of `mtu` bytes and a window of at most `max` packets.
    #[must_use]
    pub const fn new(mtu: u32, max: u32) -> Self {
        Self {
            mtu,
            base_target: Span::from_us(25),
            per_hop: Span::from_us(2),
            flow_range: Span::from_us(125),
            flow_windows: (Fraction::ratio(1, 10), 100),
            additive: Fraction::ONE,
            multiplicative: Fraction::ratio(8, 10),
            largest_cut: Fraction::ratio(1, 2),
            min: Fraction::ratio(1, 1000),
            max,
        }
    }

    const fn most(&self) -> Fraction {
        Fraction::ratio(self.max as u64, 1)
    }
}

/// A flow under Swift. It begins with the largest window.
#[derive(Clone, Debug, PartialEq)]
pub struct Swift {
    params: Arc<SwiftParams>,
    line: Rate,
    /// The window in packets.
    window: Fraction,
    rtt: Span,
    cut: Time,
    pace: PsPerByte,
    hops: u8,
    resent: bool,
}

impl Swift {
    /// A flow over `hops` links, the first of the rate `line`.
    #[must_use]
    pub fn new(line: Rate, hops: u8, params: Arc<SwiftParams>) -> Self {
        let window = params.most().max(params.min);
        let pace = line.ps_per_byte();
        Self { line, window, rtt: params.base_target, cut: Time::ZERO, pace, hops, resent: false, params }
    }

    /// The window in packets.
    #[must_use]
    pub const fn packets(&self) -> Fraction {
        self.window
    }

    /// The target of the round trip at the present window.
    #[must_use]
    pub fn target(&self) -> Span {
        let params = &self.params;
        let base = params.base_target + params.per_hop * u64::from(self.hops);
        // 1/√w in 32.32: √(2³² · 2⁶⁴ / w) / 2¹⁶ for w in 32.32.
        let inverse_root = |w: Fraction| ((1u128 << 96) / u128::from(w.raw().max(1))).isqrt();
        let (low, high) = (params.flow_windows.0, Fraction::ratio(u64::from(params.flow_windows.1), 1));
        let (at_low, at_high, at) = (inverse_root(low), inverse_root(high), inverse_root(self.window));
        if params.flow_range == Span::ZERO || at_low <= at_high {
            return base;
        }
        let range = u128::from(params.flow_range.as_ps());
        let more = range * at.clamp(at_high, at_low).saturating_sub(at_high) / (at_low - at_high);
        base + Span::from_ps(u64::try_from(more).unwrap_or(u64::MAX))
    }

    fn set(&mut self, window: Fraction) {
        self.window = window.min(self.params.most()).max(self.params.min);
        self.pace = if self.window >= Fraction::ONE {
            self.line.ps_per_byte()
        } else {
            // One packet each rtt / window.
            let bytes = self.window.of(u64::from(self.params.mtu) << 20);
            let rate = ((u128::from(bytes) * 1_000_000_000_000) >> 20) / u128::from(self.rtt.as_ps().max(1));
            Rate::bytes_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)).min(self.line).ps_per_byte()
        };
    }

    /// Whether a round trip has passed since the last cut, as only then there may be another.
    fn may_cut(&mut self, now: Time) -> bool {
        let may = now.since(self.cut) >= self.rtt;
        if may {
            self.cut = now;
        }
        may
    }
}

impl RateControl for Swift {
    fn facts(&self) -> Facts {
        Facts::BY_ITSELF
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.rtt;
        self.resent = false;
        let (target, delay) = (self.target(), ack.rtt);
        if delay < target {
            let more = self.params.additive.of(u64::from(ack.packets) << 32);
            let more = if self.window >= Fraction::ONE {
                u128::from(more) * (1 << 32) / u128::from(self.window.raw())
            } else {
                u128::from(more)
            };
            self.set(self.window.plus(Fraction::saturated(more)));
        } else if self.may_cut(now) {
            let excess = Fraction::ratio((delay - target).as_ps(), delay.as_ps());
            let cut = self.params.multiplicative.times(excess).min(self.params.largest_cut);
            self.set(self.window.times(cut.rest()));
        }
    }

    fn on_loss(&mut self, now: Time, timeout: bool) {
        // A second timeout without an acknowledgement between means that nothing gets through.
        if timeout && self.resent {
            self.set(self.params.min);
        } else if self.may_cut(now) {
            self.set(self.window.times(self.params.largest_cut.rest()));
        }
        self.resent = timeout;
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        self.pace
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window.of(u64::from(self.params.mtu)).max(u64::from(self.params.mtu))
    }

    fn metrics(&self) -> RateMetrics {
        RateMetrics { pace: self.pace, window: self.window(), ..RateMetrics::default() }
    }
}
