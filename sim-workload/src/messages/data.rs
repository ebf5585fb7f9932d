//! Data parallelism: gradients reduced, in buckets, in the backward pass of the last micro batch.
//!
//! Plain: an all-reduce. ZeRO-1 (Megatron's distributed optimizer): a reduce-scatter, and an all-gather of the updated parameters,
//! which may run beside the first forward pass. ZeRO-2: the reduce-scatter once for each micro batch unless gradients
//! are summed first; copies of shards are reduced once a step in any case. Experts have peers of their own. With adapters only theirs are reduced. ZeRO-3: [`super::sharded`].

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::job::Job;
use crate::parallel::{Group, Local, Zero};

pub(super) fn write(job: &Job<'_>, stage: u64, out: &mut Vec<Message>) {
    if job.sizes.zero == Zero::Parameters {
        return;
    }
    let (trained, rounds) = (trained(job, stage), rounds(job, stage));
    group(
        job,
        (trained.dense, rounds),
        Group::Shard,
        Group::Replicas,
        ["dp gradients", "dp parameters", "dp replicas"],
        out,
    );
    let names = ["edp gradients", "edp parameters", "edp replicas"];
    group(job, (trained.experts, rounds), Group::ExpertData, Group::ExpertData, names, out);
}

/// Parameters with gradients on a rank.
pub(crate) fn trained(job: &Job<'_>, stage: u64) -> Local {
    let Some(adapters) = job.choices.adapters else { return Local::of_stage(job.model, job.sizes, stage) };
    let held = job.sizes.schedule.holds(job.sizes.shape(), stage).into_iter();
    let layers: u64 = held.map(|s| job.sizes.layers_of_stage(job.model, s)).map(|(d, e)| d + e).sum();
    Local { dense: layers * adapters.layer_parameters(job.model).div_ceil(job.sizes.tensor), experts: 0 }
}

/// How often gradients are reduced in a step: once, or once for each micro batch that a layer of `stage` meets.
pub(crate) fn rounds(job: &Job<'_>, stage: u64) -> u64 {
    if job.sizes.zero != Zero::Gradients || job.choices.accumulate {
        return 1;
    }
    let held = job.sizes.schedule.holds(job.sizes.shape(), stage).len() as u64;
    (job.sizes.micros() / held.max(1)).max(1)
}

fn group(
    job: &Job<'_>,
    (parameters, rounds): (u64, u64),
    shard: Group,
    replicas: Group,
    names: [&'static str; 3],
    out: &mut Vec<Message>,
) {
    let (sizes, widths) = (job.sizes, job.widths);
    let whole = match shard {
        Group::Shard => Group::DataContext,
        other => other,
    };
    let chunks = sizes.virtual_stages;
    let cut = |width| job.choices.buckets.cut(parameters, width, whole.size(sizes), chunks);
    let mut push = |name, operation, bytes, group, phase, per, count, place, overlap| {
        out.push(Message { name, operation, bytes: Bytes::new(bytes), group, phase, per, count, place, overlap });
    };
    for (size, count) in cut(widths.gradient) {
        let bytes = size * widths.gradient;
        if sizes.zero == Zero::Replicated {
            let (phase, overlap) = (Phase::LastBackward, Overlap::Backward);
            push(names[0], Operation::AllReduce, bytes, whole, phase, Per::Step, count, Place::Gradients, overlap);
            continue;
        }
        let each = sizes.zero == Zero::Gradients && !job.choices.accumulate;
        let phase = if each { Phase::Backward } else { Phase::LastBackward };
        let (scatter, times) = (Operation::ReduceScatter, count.saturating_mul(rounds));
        push(names[0], scatter, bytes, shard, phase, Per::Step, times, Place::Gradients, Overlap::Backward);
        if shard != replicas {
            let part = bytes.div_ceil(shard.size(sizes));
            let (reduce, phase) = (Operation::AllReduce, Phase::LastBackward);
            push(names[2], reduce, part, replicas, phase, Per::Step, count, Place::Gradients, Overlap::Backward);
        }
    }
    if sizes.zero != Zero::Replicated {
        for (size, count) in cut(widths.gather) {
            let (gather, phase, bytes) = (Operation::AllGather, Phase::FirstForward, size * widths.gather);
            push(names[1], gather, bytes, shard, phase, Per::Step, count, Place::Update, Overlap::Forward);
        }
    }
}
