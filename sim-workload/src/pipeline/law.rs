//! Steps without playing them.

use sim_core::units::Span;

/// `m·max(t) + Σ of the others`: the step of unequal stages, t the time of one micro batch in each (forward and backward).
///
/// Exact for GPipe if forward and backward stand in the same proportion in all stages, and without messages. 1F1B is at most
/// as long: forwards that a stage is ahead with hide a part of its wait for the first gradient.
#[must_use]
pub fn unequal_stages(micros: u64, stages: &[Span]) -> Span {
    let slowest = stages.iter().copied().max().unwrap_or_default();
    slowest * micros + (stages.iter().copied().sum::<Span>() - slowest)
}

/// `(m + (p − 1)/v)·τ`: the step of equal stages, τ the time of one micro batch in a stage, messages included.
#[must_use]
pub fn equal_stages(micros: u64, stages: u64, chunks: u64, stage: Span) -> Span {
    stage * micros + Span::from_ps((stage * (stages - 1)).as_ps() / chunks.max(1))
}
