//! Tensor parallelism: matrices in columns, then in rows (Megatron).
//!
//! Of T·h·w bytes each, in a layer: without sequence parallelism two all-reduces forward and two backward; with it two
//! all-gathers and two reduce-scatters either way, and two all-gathers more for the gradient by the weights, whose inputs were
//! kept in parts. Of MLA it is the latent vectors that are gathered, T·(q + kv + dr)·w. Full recomputation repeats the forward ones.
//! Of experts only what they share with all tokens is divided so; the matrices of an expert are divided over te ranks, which gather
//! and scatter the tokens that were sent to it.
//!
//! What is gathered may be in 8 bits ([`Widths::inputs`](crate::job::Widths::inputs)): inputs of products, and gradients of the results of
//! those that are divided by rows (Transformer Engine 1.13: `layernorm_linear.py`, `grad_output_preprocess` of `base.py`; torchao 0.10:
//! `float8_tensor_parallel.py`). Adapters need the input of their product in 16 bits, gathered whole (NeMo 2.1:
//! `return_layernorm_output_gathered`). Where weights are frozen, the scatter of a gradient by inputs has no gradient by weights beside it, and
//! is not cut (Transformer Engine's `ub_bulk_wgrad`; Megatron-core's `tp_comm_overlap_rs_dgrad` is off).

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::job::Job;
use crate::model::activations::Recompute;
use crate::model::{Adapters, Attention, LayerKind};
use crate::parallel::Group;
use sim_core::units::Bytes;

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    let share = job.sizes.share();
    let bytes = Bytes::new(share.tokens() * job.model.hidden * job.widths.activation);
    let (latent, projection) = match job.model.attention {
        Attention::Latent { query_rank: Some(q), kv_rank, rope_dim, .. } => {
            (Bytes::new(share.tokens() * (q + kv_rank + rope_dim) * job.widths.activation), "expansion of Q")
        }
        Attention::Latent { query_rank: None, .. } => (bytes, "projection of Q"),
        Attention::Grouped { .. } => (bytes, "projection of QKV"),
    };
    // What is gathered of the inputs of a product.
    let narrow = |bytes: Bytes| Bytes::new(bytes.get() / job.widths.activation.max(1) * job.widths.inputs);
    let kept = |first: &str| {
        let latent = matches!(job.model.attention, Attention::Latent { .. }) && first == projection;
        latent || first == "experts up"
    };
    let frozen = job.choices.adapters.is_some();
    let adapted = |first: &str| {
        let on = |a: Adapters| if first == projection { a.attention } else { first == "FFN up" && a.ffn };
        job.choices.adapters.is_some_and(on)
    };
    let mut pair = |name, per, [into, bytes]: [Bytes; 2], group, first, last| {
        let part = |operation, phase, count, place| {
            let whole = adapted(first) && operation == Operation::AllGather && place == Place::Before(first);
            // The gradient by the inputs is scattered beside that by the weights, if there is one.
            let alone = frozen && operation == Operation::ReduceScatter && place == Place::After(first);
            let cut = job.sizes.sequence_parallel && !whole && !alone;
            let overlap = if cut { Overlap::SplitGemm } else { Overlap::Nothing };
            let bytes = if place == Place::Before(first) || place == Place::After(first) { into } else { bytes };
            let bytes = if operation == Operation::AllGather && !whole && !kept(first) { narrow(bytes) } else { bytes };
            Message { name, operation, bytes, group, phase, per, count, place, overlap }
        };
        let again = job.sizes.recompute == Recompute::Full;
        let forward = [Some(Phase::Forward), again.then_some(Phase::Recompute)].into_iter().flatten();
        if job.sizes.sequence_parallel {
            for phase in forward {
                out.push(part(Operation::AllGather, phase, 1, Place::Before(first)));
                out.push(part(Operation::ReduceScatter, phase, 1, Place::After(last)));
            }
            out.push(part(Operation::AllGather, Phase::Backward, 1, Place::Before(last)));
            out.push(part(Operation::ReduceScatter, Phase::Backward, 1, Place::After(first)));
        } else {
            for phase in forward {
                out.push(part(Operation::AllReduce, phase, 1, Place::After(last)));
            }
            out.push(part(Operation::AllReduce, Phase::Backward, 1, Place::After(first)));
        }
    };
    let dense = Per::Layer(Some(LayerKind::Dense));
    let moe = Per::Layer(Some(LayerKind::Experts));
    pair("tp attention", Per::Layer(None), [latent, bytes], Group::Tensor, projection, "projection of O");
    pair("tp ffn", dense, [bytes; 2], Group::Tensor, "FFN up", "FFN down");
    if let Some(experts) = job.model.experts {
        if experts.shared > 0 {
            pair("tp shared experts", moe, [bytes; 2], Group::Tensor, "shared experts up", "shared experts down");
        }
        let rows = Bytes::new(job.model.expert_rows(&share) * job.model.hidden * job.widths.activation);
        pair("etp experts", moe, [rows; 2], Group::ExpertTensor, "experts up", "experts down");
    }
    if job.sizes.sequence_parallel {
        let mut again = |name, per, bytes, first| {
            out.push(Message {
                name,
                operation: Operation::AllGather,
                bytes: if kept(first) { bytes } else { narrow(bytes) },
                group: Group::Tensor,
                phase: Phase::Backward,
                per,
                count: 1,
                place: Place::BeforeWeights(first),
                overlap: Overlap::SplitGemm,
            });
        };
        again("tp attention, inputs again", Per::Layer(None), latent, projection);
        again("tp ffn, inputs again", dense, bytes, "FFN up");
        if job.model.experts.is_some_and(|e| e.shared > 0) {
            again("tp shared experts, inputs again", moe, bytes, "shared experts up");
        }
    }
}
