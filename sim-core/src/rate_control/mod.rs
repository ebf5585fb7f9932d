//! Rate control of a flow: how fast its source may send.
//!
//! A controller is a state machine that is handed the present instant and answers with a pause between segments; it
//! never asks for the time and never touches the engine, so a test can drive it with a hand-written list of marks.
//! To add one: a new file, a variant of [`AnyRateControl`] and its line in [`AnyRateControl::controller`].

mod fixed;
mod line_rate;

pub use fixed::Fixed;
pub use line_rate::LineRate;

use crate::units::{Bytes, PsPerByte, Span, Time};

/// What a controller may be told, and asked.
pub trait RateControl {
    /// `size` bytes of payload left the source.
    fn on_send(&mut self, _now: Time, _size: Bytes) {}

    /// `size` bytes were acknowledged after a round trip of `rtt`.
    fn on_ack(&mut self, _now: Time, _size: Bytes, _rtt: Span) {}

    /// A congestion notification (CNP, FECN/BECN or ECN echo) for `marked` packets arrived.
    fn on_mark(&mut self, _now: Time, _marked: u32) {}

    /// A timer that was asked for by [`next_timer`](Self::next_timer) is due.
    fn on_timer(&mut self, _now: Time) {}

    /// When the controller wants to be called next, if it does.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The cost of a byte at the present rate; [`PsPerByte::FREE`] does not limit.
    fn pace(&self) -> PsPerByte;

    /// Bytes that may be unacknowledged at once.
    fn window(&self) -> Bytes {
        Bytes::new(u64::MAX)
    }

    /// Internals for plots.
    fn metrics(&self) -> RateMetrics {
        RateMetrics { pace: self.pace(), ..RateMetrics::default() }
    }
}

/// The internals of a controller that a plot may want.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateMetrics {
    /// Cost of a byte at the present rate.
    pub pace: PsPerByte,
    /// DCQCN's α, where there is one: the estimate of the marked share, 0 to 1.
    pub alpha: Option<f64>,
    /// The rate aimed at, where it differs from the present one.
    pub target: Option<PsPerByte>,
}

/// The known controllers; dispatch is by match, without a box.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRateControl {
    /// Always at line rate.
    LineRate(LineRate),
    /// A fixed rate and window.
    Fixed(Fixed),
}

impl AnyRateControl {
    /// The controller within.
    #[inline]
    pub fn controller(&mut self) -> &mut dyn RateControl {
        match self {
            Self::LineRate(c) => c,
            Self::Fixed(c) => c,
        }
    }

    /// The cost of a byte at the present rate.
    #[inline]
    #[must_use]
    pub fn pace(&self) -> PsPerByte {
        match self {
            Self::LineRate(c) => c.pace(),
            Self::Fixed(c) => c.pace(),
        }
    }
}

impl Default for AnyRateControl {
    fn default() -> Self {
        Self::LineRate(LineRate)
    }
}
