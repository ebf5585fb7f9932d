//! Context parallelism: a sequence over ranks.
//!
//! Ring: c − 1 sends of a block of keys and values, 2·T·(k/t)·d·w, forward; backward one of them, c − 2 with its gradient, and one of the gradient alone
//! (Transformer Engine 1.13, pytorch/attention.py, `AttnFuncWithCPAndKVP2P`). All-gather:
//! c times that gathered, forward and again backward, and the gradients scattered. All-to-all (Ulysses): queries, keys and values
//! in, T·(a + 2k)/t·d·w, the result out, T·(a/t)·d·w; backward the same the other way.
//!
//! PyTorch (torch/distributed/tensor/experimental/_attention.py of 2.6: `_AllGatherRotater` forward and backward, `_AllToAllRotater` for gradients,
//! `convert_to_f32`; torchtitan 0.1, models/llama: `repeat_kv` before attention): all heads' keys and values, 2·T·(a/t)·d·w, gathered once while attention
//! works on the own block, forward and again backward; their gradients, in fp32, c − 1 sends beside the blocks that follow and one more home.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::job::Job;
use crate::model::activations::Recompute;
use crate::model::kernels::{FUSED, SCORES, WEIGHTED};
use crate::parallel::{ContextKind, Group};

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    let (model, sizes, w) = (job.model, job.sizes, job.widths.activation);
    let (tokens, c) = (sizes.share().tokens(), sizes.context);
    let (width_qk, width_v) = model.head_widths();
    let heads = model.heads.div_ceil(sizes.tensor);
    let kv = model.kv_heads().div_ceil(sizes.tensor) * (width_qk + width_v);
    let block = Bytes::new(tokens * kv * w);
    let mut push = |name, operation, bytes, phase, count, place, overlap| {
        let per = Per::Layer(None);
        out.push(Message { name, operation, bytes, group: Group::Context, phase, per, count, place, overlap });
    };
    let again = sizes.recompute == Recompute::Full;
    let forward = [Some(Phase::Forward), again.then_some(Phase::Recompute)].into_iter().flatten();
    let (first, last) = if sizes.fused_attention { (FUSED, FUSED) } else { (SCORES, WEIGHTED) };
    match sizes.context_kind {
        ContextKind::Ring => {
            let hop = Operation::Send;
            for phase in forward {
                push("cp keys and values", hop, block, phase, c - 1, Place::Before(first), Overlap::Attention);
            }
            let (back, place) = (Phase::Backward, Place::After(last));
            push("cp keys and values", hop, block, back, 1, Place::Before(first), Overlap::Attention);
            if c > 2 {
                let both = block * 2;
                push("cp keys, values and gradients", hop, both, back, c - 2, place, Overlap::Attention);
            }
            push("cp gradients of keys and values", hop, block, back, 1, place, Overlap::Attention);
        }
        ContextKind::AllGather => {
            let gather = Operation::AllGather;
            for phase in forward.chain([Phase::Backward]) {
                push("cp keys and values", gather, block * c, phase, 1, Place::Before(first), Overlap::Nothing);
            }
            let (scatter, place) = (Operation::ReduceScatter, Place::After(last));
            push("cp gradients of keys and values", scatter, block * c, Phase::Backward, 1, place, Overlap::Nothing);
        }
        ContextKind::PyTorch => {
            let repeated = tokens * heads * (width_qk + width_v);
            let (gather, all) = (Operation::AllGather, Bytes::new(repeated * w) * c);
            for phase in forward.chain([Phase::Backward]) {
                push("cp keys and values", gather, all, phase, 1, Place::Before(first), Overlap::Attention);
            }
            let (hop, sums, back, place) =
                (Operation::Send, Bytes::new(repeated * 4), Phase::Backward, Place::After(last));
            push("cp gradients of keys and values", hop, sums, back, c - 1, place, Overlap::Attention);
            push("cp gradients on their way home", hop, sums, back, 1, place, Overlap::Nothing);
        }
        ContextKind::AllToAll => {
            let exchange = Operation::AllToAll;
            let inputs = Bytes::new(tokens * (heads * width_qk + kv) * w);
            let result = Bytes::new(tokens * heads * width_v * w);
            for phase in forward {
                push("cp heads for tokens", exchange, inputs, phase, 1, Place::Before(first), Overlap::Nothing);
                push("cp tokens for heads", exchange, result, phase, 1, Place::After(last), Overlap::Nothing);
            }
            let back = Phase::Backward;
            push("cp heads for tokens", exchange, result, back, 1, Place::Before(first), Overlap::Nothing);
            push("cp tokens for heads", exchange, inputs, back, 1, Place::After(last), Overlap::Nothing);
        }
    }
}
