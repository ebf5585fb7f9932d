//! Kernels beside messages: communication takes processors and memory, so what runs beside it is slower.

use sim_core::units::Span;

/// The part of a GPU that messages take while they are under way, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowdown {
    /// Over NVLink or another scale-up network, and of groups that go over both.
    pub scale_up: u64,
    /// Over NICs alone.
    pub scale_out: u64,
}

impl Slowdown {
    /// No loss.
    pub const NONE: Self = Self { scale_up: 0, scale_out: 0 };
}

/// How long `work` takes when messages that take `lost` millionths of the GPU run for `beside` from its start on.
///
/// Piecewise: in that time the work goes on at 1 − lost, after it at full speed. Rounded up.
#[must_use]
pub fn beside(work: Span, lost: u64, beside: Span) -> Span {
    let lost = lost.min(999_999);
    let rest = u128::from(1_000_000 - lost);
    let (work_ps, beside_ps) = (u128::from(work.as_ps()), u128::from(beside.as_ps()));
    // What gets done while messages run.
    let done = beside_ps * rest / 1_000_000;
    let ps = if work_ps <= done { (work_ps * 1_000_000).div_ceil(rest) } else { work_ps - done + beside_ps };
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}
