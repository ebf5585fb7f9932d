//! TIMELY: a rate by the gradient of the round trip.
//!
//! Mittal et al.: TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015, algorithm 1. As published it has no
//! unique fixed point: flows keep the shares that they came with (Zhu et al.: ECN or Delay, CoNEXT 2016).

use std::sync::Arc;

use super::{Ack, Facts, Fraction, RateControl, RateMetrics, mbit};
use crate::units::{PsPerByte, Rate, Span, Time};

/// What flows of TIMELY share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelyParams {
    /// Below it the rate rises whatever the gradient. Default 50 µs (paper).
    pub low: Span,
    /// Above it the rate falls whatever the gradient. Default 500 µs (paper).
    pub high: Span,
    /// What the gradient is divided by: the least round trip. Default 20 µs (paper).
    pub min_rtt: Span,
    /// α, the gain of the mean of differences. Default 0.875 (the value of CoNEXT 2016).
    pub gain: Fraction,
    /// β of cuts. Default 0.8 (paper).
    pub multiplicative: Fraction,
    /// δ, the step of a rise. Default 10 Mb/s (paper).
    pub additive: Rate,
    /// Samples without a positive gradient until a rise is [`hyper_steps`](Self::hyper_steps) steps. Default 5 (paper).
    pub hyper_after: u32,
    /// N: the steps of such a rise. Default 5 (paper).
    pub hyper_steps: u64,
    /// Bytes between samples. Default 16 KiB (paper: 16 to 64 KiB).
    pub segment: u64,
    /// The least rate. Default 10 Mb/s (assumed).
    pub min: Rate,
}

impl Default for TimelyParams {
    fn default() -> Self {
        Self {
            low: Span::from_us(50),
            high: Span::from_us(500),
            min_rtt: Span::from_us(20),
            gain: Fraction::ratio(875, 1000),
            multiplicative: Fraction::ratio(8, 10),
            additive: mbit(10),
            hyper_after: 5,
            hyper_steps: 5,
            segment: 16 << 10,
            min: mbit(10),
        }
    }
}

/// A flow under TIMELY. It begins at line rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Timely {
    params: Arc<TimelyParams>,
    line: Rate,
    rate: Rate,
    /// The last sample; zero: none.
    last: Span,
    /// The mean difference of samples in ps.
    difference: i64,
    acked: u64,
    pace: PsPerByte,
    /// Samples in sequence without a positive gradient.
    calm: u32,
}

impl Timely {
    /// A flow whose link has the rate `line`.
    #[must_use]
    pub fn new(line: Rate, params: Arc<TimelyParams>) -> Self {
        let pace = line.ps_per_byte();
        Self { params, line, rate: line, last: Span::ZERO, difference: 0, acked: 0, pace, calm: 0 }
    }

    /// The same flow at another rate.
    #[must_use]
    pub fn at(mut self, rate: Rate) -> Self {
        self.set(rate);
        self
    }

    /// The present rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    fn set(&mut self, rate: Rate) {
        self.rate = rate.max(self.params.min).min(self.line);
        self.pace = self.rate.ps_per_byte();
    }

    /// Falls by `share` of β.
    fn fall(&mut self, share: Fraction) {
        self.calm = 0;
        let cut = self.params.multiplicative.times(share);
        self.set(Rate::bytes_per_sec(cut.rest().of(self.rate.get())));
    }

    fn rise(&mut self, steps: u64) {
        let more = self.params.additive.get().saturating_mul(steps);
        self.set(Rate::bytes_per_sec(self.rate.get().saturating_add(more)));
    }

    fn sample(&mut self, rtt: Span) {
        let signed = |span: Span| i64::try_from(span.as_ps()).unwrap_or(i64::MAX);
        let new = if self.last == Span::ZERO { 0 } else { signed(rtt) - signed(self.last) };
        self.last = rtt;
        let gain = i128::from(self.params.gain.min(Fraction::ONE).raw());
        let mean = i128::from(self.difference) * ((1 << 32) - gain) + i128::from(new) * gain;
        self.difference = i64::try_from(mean >> 32).unwrap_or(0);
        if rtt < self.params.low {
            self.calm = 0;
            self.rise(1);
        } else if rtt > self.params.high {
            self.fall(Fraction::ratio((rtt - self.params.high).as_ps(), rtt.as_ps()));
        } else if self.difference <= 0 {
            self.calm = self.calm.saturating_add(1);
            self.rise(if self.calm >= self.params.hyper_after { self.params.hyper_steps } else { 1 });
        } else {
            self.fall(Fraction::ratio(self.difference.unsigned_abs(), self.params.min_rtt.as_ps()));
        }
    }
}

impl RateControl for Timely {
    fn facts(&self) -> Facts {
        Facts::BY_ITSELF
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.acked += ack.bytes;
        if self.acked >= self.params.segment {
            self.acked %= self.params.segment.max(1);
            self.sample(ack.rtt);
        }
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        self.pace
    }

    fn metrics(&self) -> RateMetrics {
        RateMetrics { pace: self.pace, window: u64::MAX, ..RateMetrics::default() }
    }
}
