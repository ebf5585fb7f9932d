//! The sizes and orders that there are to choose from.

use crate::memory::{Usage, fullest};
use crate::nearest::divisors;
use crate::parallel::{Axis, Order, Ranks, Sizes, SizesSpec};

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
    /// Sequences of a micro batch.
    MicroBatch,
}

impl Dimension {
    /// All of them, by the names of scenarios.
    pub const ALL: [(&'static str, Self); 6] = [
        ("tp", Self::Tensor),
        ("cp", Self::Context),
        ("pp", Self::Pipeline),
        ("vp", Self::Virtual),
        ("ep", Self::Expert),
        ("micro_batch", Self::MicroBatch),
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

/// All sizes that make up the GPUs, hold every relation and fit, in the order of tp, cp, pp, vp, ep and micro batch; and what
/// became of the others. What is not in `vary` is as it was asked for.
#[must_use]
pub fn splits(asked: &Asked<'_>, vary: &[Dimension]) -> (Vec<Split>, Counts) {
    let spec = asked.spec;
    let choose =
        |dimension: Dimension, own: u64, all: Vec<u64>| if vary.contains(&dimension) { all } else { vec![own] };
    let parts = divisors(spec.gpus);
    let of = |dimension, own| choose(dimension, own, parts.clone());
    let experts = asked.model.experts.map_or(1, |experts| experts.experts);
    let expert = choose(Dimension::Expert, spec.expert, divisors(experts));
    let micro = choose(Dimension::MicroBatch, spec.micro_batch, divisors(spec.global_batch));
    let chunks = choose(Dimension::Virtual, spec.virtual_stages, (1..=MOST_CHUNKS).collect());
    let (mut out, mut counts) = (Vec::new(), Counts::default());
    for tensor in of(Dimension::Tensor, spec.tensor) {
        for context in of(Dimension::Context, spec.context) {
            for pipeline in of(Dimension::Pipeline, spec.pipeline) {
                let ranks = u128::from(tensor) * u128::from(context) * u128::from(pipeline);
                if !u128::from(spec.gpus).is_multiple_of(ranks) {
                    continue;
                }
                let data = spec.gpus / ranks as u64;
                for &virtual_stages in &chunks {
                    // Chunks of what is one stage are no pipeline.
                    if pipeline == 1 && virtual_stages > 1 && vary.contains(&Dimension::Virtual) {
                        continue;
                    }
                    for &expert in &expert {
                        for &micro_batch in &micro {
                            counts.looked_at += 1;
                            let one = SizesSpec {
                                tensor,
                                context,
                                pipeline,
                                virtual_stages,
                                expert,
                                micro_batch,
                                data: Some(data),
                                schedule: schedule(spec, virtual_stages, vary),
                                ..spec.clone()
                            };
                            look_at(asked, one, &mut out, &mut counts);
                        }
                    }
                }
            }
        }
    }
    (out, counts)
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

fn look_at(asked: &Asked<'_>, spec: SizesSpec, out: &mut Vec<Split>, counts: &mut Counts) {
    let Ok(sizes) = spec.check(asked.model) else {
        counts.impossible += 1;
        return;
    };
    let usage = fullest(&asked.job(&sizes), asked.budget.buffers);
    if usage.total() > asked.budget.limit() {
        counts.too_large += 1;
        return;
    }
    out.push(Split { spec, sizes, usage });
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
