//! The check values of the formulas' sources, and the published sizes of the models.

use sim_core::units::Bytes;

use super::activations::Recompute;
use super::flops::{Counted, utilisation};
use super::kernels::{Pass, Share};
use super::{Adapters, LayerKind, Model, ModelFault, ModelSpec, Models};
use crate::units::FlopRate;

fn model(name: &str) -> &'static Model {
    &Models::builtin().get(name).unwrap().model
}

/// `value` to the digits that `shown` has after its point.
fn rounds_to(value: f64, shown: &str) {
    let digits = shown.split_once('.').map_or(0, |(_, tail)| tail.len());
    assert_eq!(format!("{value:.digits$}"), shown);
}

#[test]
fn parameters_of_the_reference() {
    for (name, total, active) in [
        ("llama3.1-405b", "405.85", "405.85"),
        ("qwen3-235b-a22b", "235.09", "22.19"),
        ("qwen3-30b-a3b", "30.53", "3.35"),
        ("deepseek-v3", "671.03", "37.55"),
    ] {
        rounds_to(model(name).parameters() as f64 / 1e9, total);
        rounds_to(model(name).active_parameters() as f64 / 1e9, active);
    }
}

#[test]
fn published_sizes_agree_or_the_row_says_why_not() {
    for row in Models::builtin().iter() {
        let total = row.total.agrees(row.model.parameters());
        let active = row.active.is_none_or(|a| a.agrees(row.model.active_parameters()));
        let found = (row.model.parameters() as f64 / 1e9, row.model.active_parameters() as f64 / 1e9);
        assert_eq!(total && active, row.deviation.is_none(), "{}: {found:?}", row.model.name);
        assert!(["published", "secondary", "recalled"].contains(&row.standing.as_str()), "{}", row.model.name);
    }
}

#[test]
fn parameters_to_the_last_one() {
    // As llm-foundry prints them.
    for (name, parameters) in [
        ("mpt-1b", 1_315_950_592),
        ("mpt-3b", 2_651_837_440),
        ("mpt-7b", 6_658_859_008),
        ("mpt-13b", 12_853_954_560),
        ("mpt-30b", 29_975_214_080),
        ("mpt-70b", 64_862_437_376),
    ] {
        assert_eq!(model(name).parameters(), parameters, "{name}");
    }
}

#[test]
fn multi_token_prediction_of_deepseek_v3() {
    // The published checkpoint is 685 billion with the prediction module's own copies of embedding and head.
    let m = model("deepseek-v3");
    let copies = m.embedding_parameters() + m.head_parameters();
    rounds_to((m.parameters() + m.mtp_parameters() + copies) as f64 / 1e9, "684");
}

#[test]
fn flops_of_a_sample_of_llama_405b() {
    let m = model("llama3.1-405b");
    rounds_to(m.training_flops(1, 8192, Counted::MODEL).as_tera(), "20676");
    // MLPerf's constant is 21,508: 0.002 % more.
    rounds_to(m.training_flops(1, 8192, Counted::FULL).as_tera(), "21507");
}

#[test]
fn flops_of_a_token_as_megatron_bridge_counts_them() {
    // TFLOP/s over tokens/s of docs/performance-summary.md, GFLOP per token, both rounded there to three or four digits.
    // DeepSeek-V3 is counted with its prediction layer from release 26.02 on, without it in 25.11.
    let without = Counted { mtp: false, ..Counted::MODEL };
    for (name, length, counted, published) in [
        ("llama3.1-8b", 8192, Counted::MODEL, 51.47),
        ("llama3-70b", 8192, Counted::MODEL, 449.2),
        ("llama3.1-405b", 8192, Counted::MODEL, 2524.0),
        ("deepseek-v3", 4096, Counted::MODEL, 259.9),
        ("deepseek-v3", 4096, without, 249.4),
        ("qwen3-30b-a3b", 4096, Counted::MODEL, 23.01),
        ("qwen3-235b-a22b", 4096, Counted::MODEL, 148.0),
    ] {
        let ours = model(name).training_flops(1, length, counted).get() as f64 / length as f64 / 1e9;
        assert!((ours / published - 1.0).abs() < 0.005, "{name}: {ours:.2}, published {published}");
    }
}

#[test]
fn megatrons_formula_is_the_sum_of_the_kernels() {
    // 24h² + 4sh a token and layer, forward three times and once more recomputed; the head not recomputed.
    for name in ["gpt3-175b", "gpt-22b", "gpt-530b", "gpt-1t"] {
        let (m, batch, length) = (model(name), 3, 2048);
        let sum = m.training_flops(batch, length, Counted::FULL) + m.recomputed_flops(batch, length, Counted::FULL);
        assert_eq!(m.megatron_2021_flops(batch, length), sum, "{name}");
    }
}

#[test]
fn backward_is_twice_forward_and_of_frozen_matrices_once() {
    let m = model("llama2-70b");
    let forward = m.forward_flops(2, 8192, Counted::MODEL).get();
    assert_eq!(m.training_flops(2, 8192, Counted::MODEL).get(), 3 * forward);
    let share = Share::whole(2, 8192);
    let core: u128 = (0..m.layers)
        .flat_map(|i| m.layer_kernels(i, &share))
        .filter(|k| k.name == "attention")
        .map(|k| k.flops(Pass::Forward).get())
        .sum();
    let frozen = Counted { frozen: true, ..Counted::MODEL };
    assert_eq!(m.training_flops(2, 8192, frozen).get(), 2 * forward + core);
}

#[test]
fn a_rank_does_its_part_of_the_work() {
    let m = model("llama3.1-405b");
    let flops = |share: &Share| {
        m.layer_kernels(0, share).iter().map(|k| k.flops(Pass::Forward).get()).sum::<u128>()
            + m.head_kernels(share).iter().map(|k| k.flops(Pass::Forward).get()).sum::<u128>()
    };
    let whole = flops(&Share::whole(1, 8192));
    for (tensor, context) in [(8, 1), (8, 2), (1, 4), (4, 8)] {
        let part = flops(&Share { tensor, context, ..Share::whole(1, 8192) });
        assert_eq!(part * u128::from(tensor * context), whole);
    }
    // Eight key-value heads over 16 ranks: held twice, so the work is a little more than a part.
    let more = flops(&Share { tensor: 16, ..Share::whole(1, 8192) }) * 16;
    assert!(more > whole && (more as f64) < whole as f64 * 1.02);
}

#[test]
fn experts_of_all_ranks_do_the_work_of_all_copies() {
    let m = model("qwen3-235b-a22b");
    let rows =
        |tensor, expert_tensor| m.expert_rows(&Share { tensor, expert: 8, expert_tensor, ..Share::whole(1, 4096) });
    assert_eq!(rows(1, 1), 4096 * 8);
    // Four ranks with a quarter of the width of each expert: all copies of all four.
    assert_eq!(rows(4, 4), 4096 * 8);
    assert_eq!(rows(4, 1), 4096 * 2);
}

#[test]
fn activations_of_gpt3_on_64_a100() {
    // Korthikanti et al.: t = 8, p = 8, three virtual stages, s = 2048, b = 1: 66.8 GiB, and 12.4 GiB with sequence
    // parallelism and selective recomputation, of the first stage.
    let m = model("gpt3-175b");
    let in_flight = |bytes: Bytes| bytes.get() as f64 * 96.0 * (1.0 + 7.0 / 24.0) / (1u64 << 30) as f64;
    let share = Share { tensor: 8, ..Share::whole(1, 2048) };
    rounds_to(in_flight(m.layer_activations(LayerKind::Dense, &share, Recompute::Nothing)), "66.8");
    let share = Share { sequence_parallel: true, ..share };
    rounds_to(in_flight(m.layer_activations(LayerKind::Dense, &share, Recompute::Selective)), "12.4");
    let (t, h) = (2048, 12288);
    assert_eq!(m.layer_activations(LayerKind::Dense, &share, Recompute::Full), Bytes::new(2 * t * h / 8));
    assert_eq!(m.layer_activations(LayerKind::Dense, &share, Recompute::Selective), Bytes::new(34 * t * h / 8));
}

#[test]
fn caches_of_keys_and_values() {
    assert_eq!(model("llama3-70b").cache_per_token(2), Bytes::new(327_680));
    assert_eq!(model("qwen3-8b").cache_per_token(2), Bytes::new(147_456));
    assert_eq!(model("deepseek-v3").cache_per_token(2), Bytes::new(70_272));
    // 32,768 tokens of Qwen3-8B: 4.50 GiB.
    assert_eq!(model("qwen3-8b").cache_per_token(2) * 32_768, Bytes::new(4_831_838_208));
    assert_eq!(model("qwen3-8b").cache_per_token(2) * 32_768, Bytes::mib(4608));
    // GQA divides by its eight key-value heads at most, MLA not at all.
    assert_eq!(model("llama3-70b").cache_per_token_of_rank(2, 8), Bytes::new(40_960));
    assert_eq!(model("llama3-70b").cache_per_token_of_rank(2, 16), Bytes::new(40_960));
    assert_eq!(model("deepseek-v3").cache_per_token_of_rank(2, 8), Bytes::new(70_272));
}

#[test]
fn adapters_of_llama_2_70b() {
    // Rank 16 on the projections of attention: 44.6 million.
    let adapters = Adapters::on_attention(16);
    rounds_to(adapters.parameters(model("llama2-70b")) as f64 / 1e6, "44.6");
}

#[test]
fn utilisation_of_an_mlperf_run() {
    // Llama-3.1-405B on 512 H100 in fp8, 1152 samples in 55.13 s (MLPerf v5.0): 85 % of the bf16 peak by the causal count.
    let flops = model("llama3.1-405b").training_flops(1152, 8192, Counted::MODEL);
    let share = utilisation(flops, 55.1342, 512, FlopRate::from_tera(989.4));
    rounds_to(share, "0.853");
}

#[test]
fn faults_name_the_inequality_and_what_would_do() {
    let spec = |text: &str| ModelSpec::from_toml(text).unwrap().check();
    let base = "layers = 2\nhidden = 512\nheads = 8\nffn = 2048\nvocab = 1000\n";
    assert!(spec(base).is_ok());
    let faults = spec(&base.replace("heads = 8", "heads = 7")).unwrap_err();
    assert_eq!(faults[0].to_string(), "`hidden` (512) must be a multiple of `heads` (7); near: heads = 2, 4, 8 or 16");
    let faults = spec(&format!("{base}experts = 8\ntop_k = 9\nexpert_ffn = 64\n")).unwrap_err();
    assert_eq!(faults[0].to_string(), "`top_k <= experts` does not hold: top_k = 9, experts = 8");
    let faults = spec(&base.replace("layers = 2", "layers = 0").replace("512", "99999999999")).unwrap_err();
    assert_eq!(faults.len(), 3, "{faults:?}");
    let wide = base.replace("512", "4194304").replace("2048", "4194304").replace("layers = 2", "layers = 16384");
    assert!(matches!(spec(&wide).unwrap_err()[0], ModelFault::TooManyParameters { .. }));
    // What is of experts or of windows has no effect in a model without them.
    for key in ["shared_experts = 1", "expert_groups = 4", "top_groups = 2", "top_k = 2", "expert_ffn = 8"] {
        let faults = spec(&format!("{base}{key}\n")).unwrap_err();
        assert!(faults[0].to_string().contains("models with experts"), "{key}: {faults:?}");
    }
    assert!(spec(&format!("{base}window_every = 2\n")).unwrap_err()[0].to_string().contains("`window`"));
    assert!(spec(&format!("{base}window_every = 2\nwindow = 64\n")).is_ok());
    assert!(ModelSpec::from_toml("layer = 2").unwrap_err().to_string().contains("unknown field"));
}

#[test]
fn models_in_words() {
    assert_eq!(
        model("llama3.1-405b").to_string(),
        "llama3.1-405b: 126 layers of 16384, 128 heads on 8 of keys and values, FFN 53248, vocabulary 128256; 405.9 billion parameters"
    );
    assert_eq!(
        model("deepseek-v3").to_string(),
        "deepseek-v3: 61 layers of 7168, 128 heads on a latent vector of 512, FFN 18432, 8 of 256 experts of 2048 in 58 layers, \
         vocabulary 129280; 671.0 billion parameters, 37.6 of a token"
    );
}

#[test]
fn names_are_suggested() {
    let error = Models::builtin().get("Llama3-405B").unwrap_err().to_string();
    assert!(error.contains("did you mean `llama3"), "{error}");
    assert!(Models::builtin().get("zzz").unwrap_err().to_string().contains("known: llama3.1-8b"));
    assert!(Models::builtin().get("DeepSeek-R1").is_ok());
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_dimensions_make_it_panic(
            dims in prop::collection::vec(prop_oneof![0u64..9, Just(1 << 14), Just(1 << 22), any::<u64>()], 13),
            moe in any::<bool>(), mla in any::<bool>(),
        ) {
            let some = |on: bool, at: usize| on.then_some(dims[at]);
            let spec = ModelSpec {
                layers: dims[0], hidden: dims[1], heads: dims[2], kv_heads: some(!mla, 3), head_dim: some(!mla, 4),
                ffn: dims[5], vocab: dims[6], experts: some(moe, 7), top_k: some(moe, 8), expert_ffn: some(moe, 9),
                kv_rank: some(mla, 10), nope_dim: some(mla, 11), rope_dim: some(mla, 12), value_dim: some(mla, 11),
                biases: mla, gated: true, ..ModelSpec::default()
            };
            if let Ok(m) = spec.check() {
                prop_assert!(u128::from(m.parameters()) <= m.parameters_wide());
                prop_assert!(m.active_parameters() <= m.parameters());
            }
        }
    }
}
