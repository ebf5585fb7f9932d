//! Nothing that passes the checks makes any layer panic, however large.

use proptest::prelude::*;
use sim_core::units::{Bytes, Rate};
use sim_workload::compute::{Figures, Machine, Number};
use sim_workload::job::{Job, Mode};
use sim_workload::memory::{self, Budget};
use sim_workload::messages;
use sim_workload::model::activations::Recompute;
use sim_workload::model::flops::Counted;
use sim_workload::model::{Adapters, ModelSpec};
use sim_workload::parallel::{ContextKind, SizesSpec, Zero};

/// Powers of two up to `most`, small numbers, and what is next to them.
fn size(most: u32) -> impl Strategy<Value = u64> {
    prop_oneof![3 => (0..=most).prop_map(|p| 1u64 << p), 1 => 1u64..6, 1 => (1..=most).prop_map(|p| (1u64 << p) - 1)]
}

fn any_model() -> impl Strategy<Value = ModelSpec> {
    let widths = (size(14), size(22), size(14), size(16), size(22), size(28));
    let experts = (size(16), size(16), size(22), any::<bool>());
    let kinds = (any::<bool>(), any::<bool>(), size(22), 0u64..65);
    (widths, experts, kinds).prop_map(
        |((layers, hidden, heads, dim, ffn, vocab), (e, k, fm, moe), (mla, flag, rank, mtp))| {
            let some = |on: bool, value: u64| on.then_some(value);
            ModelSpec {
                layers,
                hidden,
                heads,
                kv_heads: some(!mla, 1),
                head_dim: some(!mla, dim),
                kv_rank: some(mla, rank),
                query_rank: some(mla && flag, rank),
                nope_dim: some(mla, dim),
                rope_dim: some(mla, dim),
                value_dim: some(mla, dim),
                ffn,
                gated: flag,
                experts: some(moe, e),
                top_k: some(moe, k.min(e)),
                expert_ffn: some(moe, fm),
                shared_experts: u64::from(flag && moe),
                vocab,
                tied: flag,
                layer_norm: flag,
                biases: flag && !mla,
                mtp_layers: mtp,
                ..ModelSpec::default()
            }
        },
    )
}

fn any_sizes() -> impl Strategy<Value = SizesSpec> {
    let ranks = (size(10), size(8), size(8), size(6), size(3), size(10), size(3));
    let batch = (size(28), size(28), size(10));
    let kinds = (0u8..3, 0u8..4, 0u8..3, any::<bool>(), 0usize..6);
    (ranks, batch, kinds).prop_map(|((t, c, d, p, v, e, te), (b, s, m), (kind, zero, again, fused, schedule))| {
        SizesSpec {
            gpus: t * c * d * p,
            tensor: t,
            context: c,
            context_kind: [ContextKind::Ring, ContextKind::AllGather, ContextKind::AllToAll][kind as usize],
            expert: e,
            expert_tensor: te,
            pipeline: p,
            virtual_stages: if schedule == 2 { v } else { 1 },
            schedule: Some(["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "dualpipe"][schedule].to_owned()),
            zero: [Zero::Replicated, Zero::Optimizer, Zero::Gradients, Zero::Parameters][zero as usize],
            recompute: [Recompute::Nothing, Recompute::Selective, Recompute::Full][again as usize],
            fused_attention: fused,
            micro_batch: b,
            global_batch: (b * d).saturating_mul(m * p),
            sequence: s,
            ..SizesSpec::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn checked_sizes_can_be_worked_with(model in any_model(), spec in any_sizes(), small in any::<bool>()) {
        let spec = if small {
            // More of these fit the model.
            SizesSpec { gpus: 4, tensor: 1, context: 2, expert: 1, expert_tensor: 1, pipeline: 2, virtual_stages: 1, global_batch: spec.micro_batch * 4, ..spec }
        } else {
            spec
        };
        let Ok(model) = model.check() else { return Ok(()) };
        let Ok(sizes) = spec.check(&model) else { return Ok(()) };
        let figures = Figures::builtin();
        let machine = Machine::of(figures.device("h100-sxm").unwrap(), Number::Fp8, Rate::gbyte(3350), figures);
        for (mode, adapters) in [(Mode::Training, None), (Mode::Training, Some(Adapters::on_attention(16))), (Mode::Inference, None)] {
            let mut job = Job::training(&model, &sizes);
            job.mode = mode;
            job.choices.adapters = adapters;
            for stage in [0, sizes.pipeline - 1] {
                for (message, times) in messages::of_stage(&job, stage) {
                    prop_assert!(times > 0 && message.bytes > Bytes::ZERO);
                    let _ = message.wire_bytes(message.group.size(&sizes));
                }
            }
            if model.layers <= 64 {
                let _ = memory::would_fit(&model, &spec, &job, &Budget::of(Bytes::gib(80)));
                let _ = machine.chunk(&job, 0, 0);
            }
        }
        let _ = model.training_flops(sizes.micro_batch, sizes.sequence, Counted::FULL);
        let _ = model.cache_per_token_of_rank(2, sizes.tensor);
    }
}
