//! HPCC: a window set by what the ports on the way say of their queues and rates.
//!
//! Li et al.: HPCC: High Precision Congestion Control, SIGCOMM 2019, algorithm 1.

use std::sync::Arc;

use super::{Ack, Facts, Fraction, HopTelemetry, RateControl, RateMetrics, bytes_in, rate_of, sent_after};
use crate::units::{PsPerByte, Rate, Span, Time};

/// What flows of HPCC share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HpccParams {
    /// η, the utilisation aimed at. Default 0.95 (paper).
    pub utilisation: Fraction,
    /// `maxStage`: round trips of additive increase before a multiplicative one. Default 5 (paper).
    pub stages: u8,
    /// T, the unloaded round trip of the network.
    pub rtt: Span,
    /// `W_AI`, bytes added at each update. Default `W_init · (1 − η) / flows` for 100 flows at once (the paper's rule; the number
    /// is assumed).
    pub additive: u64,
    /// The least window, bytes. Default one packet.
    pub min: u64,
}

impl HpccParams {
    /// The defaults for links of the rate `line`, the unloaded round trip `rtt` and packets of `mtu` bytes.
    #[must_use]
    pub const fn new(line: Rate, rtt: Span, mtu: u64) -> Self {
        let utilisation = Fraction::ratio(95, 100);
        let additive = utilisation.rest().of(bytes_in(line, rtt)) / 100;
        Self { utilisation, stages: 5, rtt, additive: if additive > 0 { additive } else { 1 }, min: mtu }
    }
}

/// A flow under HPCC. It begins with a window of a bandwidth-delay product.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpcc {
    params: Arc<HpccParams>,
    line: Rate,
    window: u64,
    /// `W_c`: what the window is worked out from within a round trip.
    reference: u64,
    /// U: bytes under way at the fullest port, in bandwidth-delay products, as a running mean.
    under_way: Fraction,
    /// When the reference was set last.
    round: Time,
    pace: PsPerByte,
    /// What the last acknowledgement told.
    last: Box<[HopTelemetry]>,
    stage: u8,
}

impl Hpcc {
    /// A flow whose link has the rate `line`.
    #[must_use]
    pub fn new(line: Rate, params: Arc<HpccParams>) -> Self {
        let window = bytes_in(line, params.rtt).max(params.min).max(1);
        Self {
            line,
            window,
            reference: window,
            under_way: Fraction::ZERO,
            round: Time::ZERO,
            pace: line.ps_per_byte(),
            last: Box::default(),
            stage: 0,
            params,
        }
    }

    /// U, the bytes under way at the fullest port in bandwidth-delay products.
    #[must_use]
    pub const fn under_way(&self) -> Fraction {
        self.under_way
    }

    /// `MeasureInflight` of the paper.
    fn measure(&mut self, telemetry: &[HopTelemetry]) {
        let rtt = self.params.rtt.as_ps().max(1);
        let (mut most, mut span) = (0, 0);
        for (new, old) in telemetry.iter().zip(&self.last) {
            let passed = new.at.since(old.at).as_ps();
            let rate = u128::from(new.rate.get().max(1));
            if passed == 0 {
                continue;
            }
            let share = |bytes: u64, ps: u64| {
                let scaled = u128::from(bytes.min(1 << 50)) * 1_000_000_000_000;
                (scaled / rate) * (1 << 32) / u128::from(ps)
            };
            let used = share(new.queue.min(old.queue), rtt) + share(new.sent.saturating_sub(old.sent), passed);
            if used > most {
                (most, span) = (used, passed);
            }
        }
        if span > 0 {
            let gain = Fraction::ratio(span.min(rtt), rtt);
            self.under_way = self.under_way.toward(Fraction::saturated(most), gain);
        }
    }

    /// `ComputeWind` of the paper; `settle` at the first acknowledgement of each round trip.
    fn set_window(&mut self, settle: bool) {
        let params = &self.params;
        let multiplicative = self.under_way >= params.utilisation || self.stage >= params.stages;
        let base = if multiplicative && self.under_way > Fraction::ZERO {
            let ratio = u128::from(self.reference) * u128::from(params.utilisation.raw());
            u64::try_from(ratio / u128::from(self.under_way.raw())).unwrap_or(u64::MAX)
        } else {
            self.reference
        };
        let most = bytes_in(self.line, params.rtt).max(params.min).max(1);
        self.window = base.saturating_add(params.additive).min(most).max(params.min).max(1);
        if settle {
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
        self.pace = rate_of(self.window, params.rtt).min(self.line).ps_per_byte();
    }
}

impl RateControl for Hpcc {
    fn facts(&self) -> Facts {
        Facts { reads_telemetry: true, ..Facts::BY_ITSELF }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if ack.telemetry.is_empty() {
            return;
        }
        // Another path has other ports: nothing to compare with.
        if self.last.len() == ack.telemetry.len() {
            self.measure(ack.telemetry);
            let settle = sent_after(now, ack, self.round);
            self.set_window(settle);
            if settle {
                self.round = now;
            }
            self.last.copy_from_slice(ack.telemetry);
        } else {
            self.last = ack.telemetry.into();
        }
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        self.pace
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> RateMetrics {
        RateMetrics { pace: self.pace, window: self.window, ..RateMetrics::default() }
    }
}
