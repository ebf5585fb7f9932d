//! The sizes and orders that there are to choose from.

use crate::memory::{Usage, fullest};
use crate::model::activations::Recompute;
use crate::nearest::divisors;
use crate::parallel::{Axis, Order, Ranks, Sizes, SizesSpec, Zero};

use super::Asked;

/// The most chunks of a stage that are tried.
const MOST_CHUNKS: u64 = 32;

/// A size that a search can vary. Data parallelism is what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Tensor parallelism.
    Tensor,
    /// Context parallelism.
    Context,
    /// Stages.
    Pipeline,
    /// Chunks of a stage.
    Virtual,
    /// Expert parallelism.
    Expert,
    /// Tensor parallelism of experts.
    ExpertTensor,
    /// Sequences of a micro batch.
    MicroBatch,
    /// Sequence parallelism beside tensor parallelism, or none.
    Sequence,
    /// What is divided over data-parallel ranks: at least what was asked for.
    Zero,
    /// Recomputation: what was asked for, or the least beyond it that fits.
    Recompute,
}

impl Dimension {
    /// All of them, by the names of scenarios.
    pub const ALL: [(&'static str, Self); 10] = [
        ("tp", Self::Tensor),
        ("cp", Self::Context),
        ("pp", Self::Pipeline),
        ("vp", Self::Virtual),
        ("ep", Self::Expert),
        ("etp", Self::ExpertTensor),
        ("micro_batch", Self::MicroBatch),
        ("sequence_parallel", Self::Sequence),
        ("zero", Self::Zero),
        ("recompute", Self::Recompute),
    ];
}

/// Sizes that hold every relation and fit.
#[derive(Clone, Debug)]
pub struct Split {
    /// As they would be asked for.
    pub spec: SizesSpec,
    /// Checked.
    pub sizes: Sizes,
    /// The memory of the fullest rank.
    pub usage: Usage,
}

/// What became of the sizes that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All products of divisors that make up the GPUs.
    pub looked_at: u64,
    /// Those of which a relation does not hold: with the model, the batch, the schedule.
    pub impossible: u64,
    /// Those that do not fit into memory.
    pub too_large: u64,
}

/// All sizes that make up the GPUs, hold every relation and fit, in the order of tp, cp, pp, vp, ep, etp, micro batch, sequence
/// parallelism and ZeRO's stage; and what became of the others. What is not in `vary` is as it was asked for. Of recomputation only the
/// least that fits is listed: more of it takes longer.
#[must_use]
pub fn splits(asked: &Asked<'_>, vary: &[Dimension]) -> (Vec<Split>, Counts) {
    let spec = asked.spec;
    let choose =
        |dimension: Dimension, own: u64, all: Vec<u64>| if vary.contains(&dimension) { all } else { vec![own] };
    let parts = divisors(spec.gpus);
    let of = |dimension, own| choose(dimension, own, parts.clone());
    let (mut out, mut counts) = (Vec::new(), Counts::default());
    let chunks = choose(Dimension::Virtual, spec.virtual_stages, (1..=MOST_CHUNKS).collect());
    for tensor in of(Dimension::Tensor, spec.tensor) {
        for context in of(Dimension::Context, spec.context) {
            for pipeline in of(Dimension::Pipeline, spec.pipeline) {
                let ranks = u128::from(tensor) * u128::from(context) * u128::from(pipeline);
                if !u128::from(spec.gpus).is_multiple_of(ranks) {
                    continue;
                }
                let data = Some(spec.gpus / ranks as u64);
                for &virtual_stages in &chunks {
                    // Chunks of what is one stage are no pipeline.
                    if pipeline == 1 && virtual_stages > 1 && vary.contains(&Dimension::Virtual) {
                        continue;
                    }
                    let schedule = schedule(spec, virtual_stages, vary);
                    let one = SizesSpec { tensor, context, pipeline, virtual_stages, data, schedule, ..spec.clone() };
                    for one in within(asked, &one, vary) {
                        counts.looked_at += 1;
                        look_at(asked, one, vary.contains(&Dimension::Recompute), &mut out, &mut counts);
                    }
                }
            }
        }
    }
    (out, counts)
}

/// What varies within ranks that are divided so.
fn within(asked: &Asked<'_>, spec: &SizesSpec, vary: &[Dimension]) -> Vec<SizesSpec> {
    let varies = |dimension: Dimension| vary.contains(&dimension);
    let of = |dimension, own: u64, whole: u64| if varies(dimension) { divisors(whole) } else { vec![own] };
    let experts = asked.model.experts.map_or(1, |experts| experts.experts);
    let width = asked.model.experts.map_or(1, |experts| experts.ffn);
    // Ranks of a stage hold the experts' parts.
    let ranks = spec.gpus / spec.pipeline.max(1);
    let parts: Vec<u64> = divisors(ranks).into_iter().filter(|n| width.is_multiple_of(*n)).collect();
    let parts = if varies(Dimension::ExpertTensor) { parts } else { vec![spec.expert_tensor] };
    let sequence = if varies(Dimension::Sequence) && spec.tensor > 1 {
        vec![Some(true), Some(false)]
    } else {
        vec![spec.sequence_parallel]
    };
    let zero: Vec<Zero> = [Zero::Replicated, Zero::Optimizer, Zero::Gradients, Zero::Parameters]
        .into_iter()
        .filter(|zero| if varies(Dimension::Zero) { *zero >= spec.zero } else { *zero == spec.zero })
        .collect();
    let mut out = Vec::new();
    for expert in of(Dimension::Expert, spec.expert, experts) {
        for &expert_tensor in &parts {
            for micro_batch in of(Dimension::MicroBatch, spec.micro_batch, spec.global_batch) {
                for &sequence_parallel in &sequence {
                    for &zero in &zero {
                        let one =
                            SizesSpec { expert, expert_tensor, micro_batch, sequence_parallel, zero, ..spec.clone() };
                        out.push(one);
                    }
                }
            }
        }
    }
    out
}

/// The schedule for so many chunks: where chunks vary, one forward one backward is interleaved with several.
fn schedule(spec: &SizesSpec, chunks: u64, vary: &[Dimension]) -> Option<String> {
    let own = spec.schedule.as_deref();
    match own {
        Some("1f1b" | "interleaved") if vary.contains(&Dimension::Virtual) => {
            Some(if chunks > 1 { "interleaved" } else { "1f1b" }.to_owned())
        }
        own => own.map(str::to_owned),
    }
}

/// Lists sizes that hold and fit, with more recomputation than was asked for if they may have it and need it.
fn look_at(asked: &Asked<'_>, spec: SizesSpec, recompute: bool, out: &mut Vec<Split>, counts: &mut Counts) {
    let all = [Recompute::Nothing, Recompute::Selective, Recompute::Full];
    let own = spec.recompute;
    for level in all.into_iter().filter(|level| *level == own || (recompute && *level as u8 > own as u8)) {
        let spec = SizesSpec { recompute: level, ..spec.clone() };
        let Ok(sizes) = spec.check(asked.model) else {
            counts.impossible += 1;
            return;
        };
        let usage = fullest(&asked.job(&sizes), asked.budget.buffers);
        if usage.total() <= asked.budget.limit() {
            out.push(Split { spec, sizes, usage });
            return;
        }
    }
    counts.too_large += 1;
}

/// The orders of ranks that differ for these sizes and can be, Megatron's default first. Axes of one rank change nothing and come
/// last.
#[must_use]
pub fn orders(sizes: &Sizes) -> Vec<Order> {
    let more = |axis: &Axis| match axis {
        Axis::Tensor => sizes.tensor.max(sizes.expert_tensor) > 1,
        Axis::Context => sizes.context > 1,
        Axis::Expert => sizes.expert > 1,
        Axis::Data => sizes.data > 1 || (sizes.expert * sizes.expert_tensor > 1 && sizes.expert_data() > 1),
        Axis::Pipeline => sizes.pipeline > 1,
    };
    let active: Vec<Axis> = Axis::ALL.into_iter().filter(more).collect();
    let mut all = Vec::new();
    permute(&mut active.clone(), 0, &mut all);
    // In the order of the default's axes: lexicographic by their numbers, so that the default comes first.
    all.sort_unstable();
    let text = |axes: &[Axis]| {
        let rest = Axis::ALL.into_iter().filter(|axis| !axes.contains(axis));
        if axes == active.as_slice() {
            return Axis::ALL.map(Axis::name).join("-");
        }
        axes.iter().copied().chain(rest).map(Axis::name).collect::<Vec<_>>().join("-")
    };
    let orders = all.iter().filter_map(|axes| text(axes).parse::<Order>().ok());
    orders.filter(|order| Ranks::new(order, sizes).is_ok()).collect()
}

fn permute(axes: &mut Vec<Axis>, from: usize, out: &mut Vec<Vec<Axis>>) {
    if from >= axes.len() {
        out.push(axes.clone());
        return;
    }
    for at in from..axes.len() {
        axes.swap(from, at);
        permute(axes, from + 1, out);
        axes.swap(from, at);
    }
}
