//! The file of ranks: where each goes, and flags that put it there.

use std::fmt::Write as _;

use sim_report::table::time_text;
use sim_workload::model::activations::Recompute;
use sim_workload::parallel::split::Split;
use sim_workload::parallel::{Axis, ContextKind, Order, Ranks, Zero};

use super::Step;
use super::candidates::Candidate;
use crate::scenario::Loaded;

/// One line a rank, tabs between columns; hints in comments before.
pub(super) fn file(loaded: &Loaded, step: &Step, best: &Candidate) -> String {
    let (sizes, fabric, placement) = (&best.split.sizes, &loaded.fabric, &step.placement);
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "# fabricsim {}: {}", env!("CARGO_PKG_VERSION"), loaded.scenario.describe());
    let _ = writeln!(out, "# {sizes}, order {}", best.order);
    let _ = writeln!(out, "# {} a step, {}", time_text(best.time_us()), how(best));
    let _ = writeln!(out, "# Megatron-LM: {}{}", megatron(step, best), order_flag(&best.order));
    for remark in unlike_megatron(step, best) {
        let _ = writeln!(out, "# not in these flags: {remark}");
    }
    let _ = writeln!(out, "# SLURM: {}", slurm(step));
    out.push_str("rank\tnode\tlocal\tgpu\ttp\tcp\tep\tdp\tstage\n");
    let Ok(ranks) = Ranks::new(&best.order, sizes) else { return out };
    for rank in 0..ranks.len() {
        let (place, at) = (placement.place(rank), ranks.coordinates(rank));
        let gpu = usize::try_from(placement.gpu(rank)).ok().and_then(|gpu| fabric.gpus().get(gpu));
        let name = gpu.map_or("", |gpu| fabric.device(*gpu).name.as_str());
        let _ = writeln!(
            out,
            "{rank}\t{}\t{}\t{name}\t{}\t{}\t{}\t{}\t{}",
            place.node, place.local, at.tensor, at.context, at.expert, at.data, at.stage
        );
    }
    out
}

/// Megatron-LM's flags for the job; what its own defaults say is left out.
fn megatron(step: &Step, best: &Candidate) -> String {
    let sizes = &best.split.sizes;
    let mut flags = format!(
        "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --context-parallel-size {} --micro-batch-size {} --global-batch-size {} --seq-length {}",
        sizes.tensor, sizes.pipeline, sizes.context, sizes.micro_batch, sizes.global_batch, sizes.sequence
    );
    if sizes.virtual_stages > 1 {
        let _ = write!(flags, " --num-virtual-stages-per-pipeline-rank {}", sizes.virtual_stages);
    }
    if let Split::Counting { embedding, head } = best.split.spec.split {
        flags.push_str(if embedding { " --account-for-embedding-in-pipeline-split" } else { "" });
        flags.push_str(if head { " --account-for-loss-in-pipeline-split" } else { "" });
    }
    if sizes.context > 1 {
        let _ = write!(
            flags,
            " --cp-comm-type {}",
            match sizes.context_kind {
                ContextKind::Ring => "p2p",
                // PyTorch gathers, too.
                ContextKind::AllGather | ContextKind::PyTorch => "all_gather",
                ContextKind::AllToAll => "a2a",
            }
        );
    }
    if sizes.expert > 1 {
        let _ = write!(flags, " --expert-model-parallel-size {}", sizes.expert);
    }
    // Without the flag experts are divided as the rest is.
    if step.model.experts.is_some() && sizes.expert_tensor != sizes.tensor {
        let _ = write!(flags, " --expert-tensor-parallel-size {}", sizes.expert_tensor);
    }
    if sizes.sequence_parallel {
        flags.push_str(" --sequence-parallel");
    }
    flags.push_str(match sizes.zero {
        Zero::Replicated => "",
        Zero::Optimizer => " --use-distributed-optimizer",
        Zero::Gradients => " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads",
        Zero::Parameters => " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
    });
    if sizes.data * sizes.context > 1 {
        flags.push_str(if step.overlap.gradients { " --overlap-grad-reduce" } else { "" });
        let gathered = step.overlap.parameters && sizes.zero != Zero::Replicated;
        flags.push_str(if gathered { " --overlap-param-gather" } else { "" });
    }
    flags.push_str(match sizes.recompute {
        Recompute::Nothing => "",
        Recompute::Selective => " --recompute-granularity selective",
        Recompute::Full => " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    });
    flags
}

/// What of the job no flag says.
fn unlike_megatron(step: &Step, best: &Candidate) -> Vec<String> {
    let sizes = &best.split.sizes;
    let schedule = sizes.schedule.name();
    let mut out = Vec::new();
    if sizes.pipeline > 1 && !matches!(schedule, "1f1b" | "interleaved") {
        out.push(format!("the schedule `{schedule}`"));
    }
    if matches!(best.split.spec.split, Split::Given(_)) {
        out.push("the layers of each chunk: --pipeline-model-parallel-layout".to_owned());
    }
    if step.asked.shard.is_some() {
        out.push("copies of shards: --num-distributed-optimizer-instances".to_owned());
    }
    out
}

const fn how(best: &Candidate) -> &'static str {
    if best.played.is_some() { "simulated" } else { "estimated from closed forms" }
}

/// How Megatron-LM is told the order.
fn order_flag(order: &Order) -> String {
    let is = |axes: [Axis; 5]| order.axes() == axes.as_slice();
    use Axis::{Context, Data, Expert, Pipeline, Tensor};
    if is(Axis::ALL) {
        String::new()
    } else if is([Tensor, Context, Expert, Pipeline, Data]) {
        " --use-tp-pp-dp-mapping".to_owned()
    } else {
        format!(" (no flag for this order: initialize_model_parallel(order=\"{order}\"))")
    }
}

/// How SLURM puts ranks where the placement has them.
fn slurm(step: &Step) -> String {
    let placement = &step.placement;
    let per_node = placement.per_node;
    let mut out = match &placement.nodes {
        None if placement.segment.is_none() => format!("--ntasks-per-node={per_node} --distribution=block:block"),
        _ => format!(
            "--ntasks-per-node={per_node} --distribution=arbitrary, nodes in SLURM_HOSTFILE in the order of this file"
        ),
    };
    if let Some(locals) = &placement.locals {
        let list: Vec<String> = locals.iter().map(u64::to_string).collect();
        let _ = write!(out, "; CUDA_VISIBLE_DEVICES={}", list.join(","));
    }
    out
}
