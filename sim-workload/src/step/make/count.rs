//! How many operations a plan has, without writing it.

use super::super::overlap::Overlap;
use crate::job::{Job, Mode};
use crate::messages::{self, Overlap as Beside, Per};

/// Operations of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operations {
    /// Of a rank of the stage that has most, about.
    pub rank: u64,
    /// Of these, messages of gradients and parameters in buckets.
    pub buckets: u64,
}

/// How many operations [`plan`](super::plan) would write, by the messages of each stage and its units: no less than half, and no more
/// than three times as many as there are.
#[must_use]
pub fn operations(job: &Job<'_>, overlap: &Overlap) -> Operations {
    (0..job.sizes.pipeline).map(|stage| of_stage(job, overlap, stage)).max().unwrap_or_default()
}

fn of_stage(job: &Job<'_>, overlap: &Overlap, stage: u64) -> Operations {
    let sizes = job.sizes;
    let (mut rank, mut buckets) = (0u64, 0u64);
    for (message, count) in messages::of_stage(job, stage) {
        if message.per == Per::Step {
            buckets = buckets.saturating_add(count);
            continue;
        }
        let pieces = if message.overlap == Beside::SplitGemm { overlap.tensor.clamp(1, 64) } else { 1 };
        // Each with the kernels that it stands between, or with what receives it.
        rank = rank.saturating_add(count.saturating_mul(2 * pieces));
    }
    let held = sizes.schedule.holds(sizes.shape(), stage);
    let layers: u64 = held.iter().map(|s| sizes.layers_of_stage(job.model, *s)).map(|(d, e)| d + e).sum();
    let met = sizes.micros() / (held.len() as u64).max(1);
    // Two halves of a layer, there and back.
    let passes = if job.mode == Mode::Training { 2 } else { 1 };
    let kernels = (layers + 2).saturating_mul(2 * passes).saturating_mul(met);
    Operations { rank: rank.saturating_add(kernels).saturating_add(buckets), buckets }
}
