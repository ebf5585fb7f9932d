//! ZeRO-3 and FSDP: parameters in shards, a unit (a layer, the embedding, the head) gathered for its use.
//!
//! For each micro batch and unit: gathered forward, gathered again backward if it was let go, gradients reduced and
//! scattered. Where shards are held more than once (HSDP), those of a unit are reduced over their holders in the last micro batch, behind
//! its reduce-scatter (PyTorch torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, `foreach_reduce`, with gradients summed over micro
//! batches before: `set_requires_all_reduce`). Experts are in shards over their own peers.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place, ends};
use crate::job::Job;
use crate::model::LayerKind;
use crate::parallel::{Group, Local, Zero};

/// The unit that a forward pass begins with, and a backward pass ends with.
pub(crate) const EMBEDDING: &str = "fsdp embedding";
/// The unit that a forward pass ends with, and a backward pass begins with.
pub(crate) const HEAD: &str = "fsdp head";

pub(super) fn write(job: &Job<'_>, stage: u64, out: &mut Vec<Message>) {
    if job.sizes.zero != Zero::Parameters {
        return;
    }
    let (model, sizes) = (job.model, job.sizes);
    for kind in [LayerKind::Dense, LayerKind::Experts] {
        let local = Local::of_layer(model, sizes, kind);
        let per = Per::Layer(Some(kind));
        unit(job, local.dense, Group::Shard, per, ["fsdp layer", "hsdp layer"], out);
        if kind == LayerKind::Experts {
            unit(job, local.experts, Group::ExpertData, per, ["fsdp experts", "hsdp experts"], out);
        }
    }
    let (first, last) = ends(job, stage);
    if first {
        let names = [EMBEDDING, "hsdp embedding"];
        unit(job, Local::of_embedding(model, sizes).dense, Group::Shard, Per::Micro, names, out);
    }
    if last {
        unit(job, Local::of_head(model, sizes).dense, Group::Shard, Per::Micro, [HEAD, "hsdp head"], out);
        let join = Local::of_prediction(model, sizes).dense;
        unit(job, join, Group::Shard, Per::Micro, ["fsdp prediction", "hsdp prediction"], out);
    }
}

fn unit(
    job: &Job<'_>,
    parameters: u64,
    group: Group,
    per: Per,
    [name, of_copies]: [&'static str; 2],
    out: &mut Vec<Message>,
) {
    let mut push = |operation, bytes, phase, place, overlap| {
        out.push(Message { name, operation, bytes: Bytes::new(bytes), group, phase, per, count: 1, place, overlap });
    };
    let gathered = parameters * job.widths.gather;
    push(Operation::AllGather, gathered, Phase::Forward, Place::Unit, Overlap::PreviousUnit);
    if job.choices.reshard {
        push(Operation::AllGather, gathered, Phase::Backward, Place::Unit, Overlap::PreviousUnit);
    }
    let reduced = match (job.choices.adapters, per) {
        (None, _) => parameters,
        (Some(a), Per::Layer(_)) if group == Group::Shard => a.layer_parameters(job.model).div_ceil(job.sizes.tensor),
        (Some(_), _) => 0,
    };
    let bytes = reduced * job.widths.gradient;
    push(Operation::ReduceScatter, bytes, Phase::Backward, Place::Gradients, Overlap::Backward);
    if group == Group::Shard {
        out.push(Message {
            name: of_copies,
            operation: Operation::AllReduce,
            bytes: Bytes::new(reduced.div_ceil(job.sizes.shard) * job.widths.gradient),
            group: Group::Replicas,
            phase: Phase::LastBackward,
            per,
            count: 1,
            place: Place::Gradients,
            overlap: Overlap::Backward,
        });
    }
}
