//! Published check points, the law of ZeRO, and what is advised.

use super::*;
use crate::job::Choices;
use crate::model::{Adapters, Model, Models};
use crate::parallel::SizesSpec;
use crate::parallel::split::Split;

fn model(name: &str) -> &'static Model {
    &Models::builtin().get(name).unwrap().model
}

fn gib(bytes: Bytes) -> String {
    format!("{:.1}", bytes.get() as f64 / (1u64 << 30) as f64)
}

fn gpt3() -> SizesSpec {
    SizesSpec {
        gpus: 64,
        tensor: 8,
        pipeline: 8,
        virtual_stages: 3,
        sequence: 2048,
        global_batch: 64,
        sequence_parallel: Some(false),
        recompute: Recompute::Nothing,
        split: Split::Given(vec![4; 24]),
        ..SizesSpec::default()
    }
}

#[test]
fn gpt3_on_64_a100() {
    // Korthikanti et al., figure 1, as Calculon reads it: 45.6 GiB of weights, gradients and optimizer a GPU (of the layers: a stage
    // between the ends), 66.8 GiB of activations in the first stage, 12.4 GiB with sequence parallelism and selective recomputation.
    let m = model("gpt3-175b");
    let sizes = gpt3().check(m).unwrap();
    let job = Job::training(m, &sizes);
    let middle = of_stage(&job, 3, Bytes::ZERO);
    let states = middle.part("weights") + middle.part("gradients") + middle.part("optimizer");
    assert_eq!(gib(states), "45.6");
    assert_eq!(gib(of_stage(&job, 0, Bytes::ZERO).part("activations")), "66.8");
    let spec = SizesSpec { sequence_parallel: Some(true), recompute: Recompute::Selective, ..gpt3() };
    let sizes = spec.check(m).unwrap();
    let job = Job::training(m, &sizes);
    assert_eq!(gib(of_stage(&job, 0, Bytes::ZERO).part("activations")), "12.4");
    // It runs so on 80 GB; without recomputation it does not.
    let budget = Budget { buffers: Bytes::new(1_000_000_000), ..Budget::of(Bytes::new(80_000_000_000)) };
    assert!(check(&job, &budget).is_ok(), "{}", fullest(&job, budget.buffers));
}

#[test]
fn bytes_of_a_parameter() {
    let m = model("llama3.1-8b");
    let each = |zero, gradient| {
        let spec = SizesSpec { gpus: 16, zero, global_batch: 16, ..SizesSpec::default() };
        let sizes = spec.check(m).unwrap();
        let mut job = Job::training(m, &sizes);
        job.widths.gradient = gradient;
        let usage = of_stage(&job, 0, Bytes::ZERO);
        let sum = usage.part("weights") + usage.part("gradients") + usage.part("optimizer");
        sum.get() as f64 / m.parameters() as f64
    };
    for (zero, gradient, expected) in [
        (Zero::Replicated, 4, 18.0),
        (Zero::Optimizer, 4, 6.0 + 12.0 / 16.0),
        (Zero::Gradients, 4, 2.0 + 16.0 / 16.0),
        (Zero::Gradients, 2, 2.0 + 14.0 / 16.0),
        (Zero::Parameters, 4, 18.0 / 16.0),
    ] {
        assert!((each(zero, gradient) - expected).abs() < 1e-6, "{zero:?} {}", each(zero, gradient));
    }
}

#[test]
fn gathered_units_come_on_top() {
    let m = model("llama3-70b");
    let spec = SizesSpec { gpus: 64, zero: Zero::Parameters, global_batch: 64, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let job = Job::training(m, &sizes);
    let gathered = |choices: Choices| {
        let job = Job { choices, ..job.clone() };
        of_stage(&job, 0, Bytes::ZERO).part("gathered units").get()
    };
    let (layer, head) = (m.layer_parameters(LayerKind::Dense).total(), m.head_parameters() + m.last_norm_parameters());
    assert!(head > layer);
    // The head of 1,051 million, and layers of 856 million.
    for prefetch in [0, 1, 5] {
        let choices = Choices { prefetch, prefetch_back: prefetch, ..job.choices };
        assert_eq!(gathered(choices), 2 * (head + prefetch * layer));
        // Those of the pass that has more of them.
        assert_eq!(gathered(Choices { prefetch: 0, ..choices }), 2 * (head + prefetch * layer));
        assert_eq!(gathered(Choices { prefetch_back: 0, ..choices }), 2 * (head + prefetch * layer));
    }
    // All of them: ahead, or because none is let go.
    assert_eq!(gathered(Choices { prefetch: 100, ..job.choices }), 2 * m.parameters());
    assert_eq!(gathered(Choices { reshard: false, ..job.choices }), 2 * m.parameters());
}

#[test]
fn sixteen_times_the_shards_save_what_torchtitan_measured() {
    // torchtitan's Llama-3.1-8B under FSDP, all else equal: 82.4 GiB at the peak on 8 H100, 67.0 on 128.
    let m = model("llama3.1-8b");
    let total = |gpus| {
        let spec = SizesSpec {
            gpus,
            zero: Zero::Parameters,
            micro_batch: 2,
            global_batch: 2 * gpus,
            sequence: 8192,
            ..SizesSpec::default()
        };
        let sizes = spec.check(m).unwrap();
        fullest(&Job::training(m, &sizes), Bytes::ZERO).total().get() as f64 / (1u64 << 30) as f64
    };
    let saved = total(8) - total(128);
    assert!((saved / (82.4 - 67.0) - 1.0).abs() < 0.05, "{saved}");
}

#[test]
fn experts_are_divided_over_their_own_peers() {
    let m = model("qwen3-235b-a22b");
    let spec = SizesSpec {
        gpus: 64,
        pipeline: 2,
        expert: 32,
        zero: Zero::Optimizer,
        global_batch: 64,
        ..SizesSpec::default()
    };
    let sizes = spec.check(m).unwrap();
    let local = Local::of_stage(m, &sizes, 0);
    // Nobody else has the same experts, so nothing of them is divided; the rest is, over 32.
    let usage = of_stage(&Job::training(m, &sizes), 0, Bytes::ZERO);
    assert_eq!(usage.part("optimizer").get(), local.experts * 12 + (local.dense * 12).div_ceil(32));
}

#[test]
fn frozen_matrices_have_weights_alone() {
    let m = model("llama2-70b");
    let spec = SizesSpec { gpus: 8, tensor: 4, sequence: 8192, global_batch: 8, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let mut job = Job::training(m, &sizes);
    job.choices.adapters = Some(Adapters::on_attention(16));
    let usage = of_stage(&job, 0, Bytes::ZERO);
    assert!(usage.part("optimizer") < Bytes::mib(200));
    assert!(usage.part("weights") > Bytes::new(34_000_000_000));
}

#[test]
fn inference_holds_weights_and_cache() {
    let m = model("llama3-70b");
    let spec = SizesSpec {
        gpus: 8,
        tensor: 4,
        pipeline: 2,
        micro_batch: 16,
        global_batch: 16,
        sequence: 8192,
        ..SizesSpec::default()
    };
    let sizes = spec.check(m).unwrap();
    let job = Job { mode: Mode::Inference, ..Job::training(m, &sizes) };
    let usage = of_stage(&job, 0, Bytes::ZERO);
    // 327,680 B a token over four ranks and two stages.
    assert_eq!(usage.part("cache").get(), 327_680 / 8 * 16 * 8192);
    assert_eq!(usage.part("weights").get(), Local::of_stage(m, &sizes, 0).total() * 2);
    assert_eq!(usage.parts.len(), 2);
}

#[test]
fn the_schedule_decides_what_is_in_flight() {
    let m = model("gpt-22b");
    let activations = |schedule: &str, stage| {
        let spec = SizesSpec {
            gpus: 8,
            pipeline: 8,
            global_batch: 32,
            schedule: Some(schedule.to_owned()),
            ..SizesSpec::default()
        };
        let sizes = spec.check(m).unwrap();
        of_stage(&Job::training(m, &sizes), stage, Bytes::ZERO).part("activations").get()
    };
    let one = activations("1f1b", 7);
    assert_eq!(activations("1f1b", 0), 8 * one);
    assert_eq!(activations("gpipe", 3), 32 * one);
    assert_eq!(activations("zb-h1", 3), 8 * one);
    assert_eq!(activations("zb-h2", 3), 15 * one);
    assert_eq!(activations("dualpipe", 3), 9 * one);
    // Parameters twice in DualPipe.
    let weights = |schedule: &str| {
        let spec = SizesSpec {
            gpus: 8,
            pipeline: 8,
            global_batch: 32,
            schedule: Some(schedule.into()),
            ..SizesSpec::default()
        };
        let sizes = spec.check(m).unwrap();
        of_stage(&Job::training(m, &sizes), 3, Bytes::ZERO).part("weights").get()
    };
    assert_eq!(weights("dualpipe"), 2 * weights("1f1b"));
}

#[test]
fn what_does_not_fit_is_told_with_what_would() {
    let m = model("llama3-70b");
    let spec =
        SizesSpec { gpus: 64, tensor: 2, micro_batch: 2, global_batch: 64, sequence: 8192, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let job = Job::training(m, &sizes);
    let budget = Budget::of(Bytes::new(80_000_000_000));
    let (error, advice) = would_fit(m, &spec, &job, &budget).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("a rank of stage 0 needs ") && text.contains("optimizer"), "{text}");
    assert!(advice.iter().all(|a| a.usage.total() <= budget.limit()));
    assert!(error.excess() > Bytes::ZERO);
    // One change alone: 32 ranks for a layer. Of two each is needed: either alone does not fit.
    let changes: Vec<&str> = advice.iter().map(|a| a.change.as_str()).collect();
    assert_eq!(changes[0], "tp = 32", "{text}");
    assert!(changes.contains(&"zero = 1, tp = 16") && changes.contains(&"tp = 16, pp = 2"), "{text}");
    for a in advice.iter().filter(|a| a.change.contains(',')) {
        let sizes = a.spec.check(m).unwrap();
        assert!(check(&Job { sizes: &sizes, ..job.clone() }, &budget).is_ok(), "{}", a.change);
    }
    let sizes = SizesSpec { tensor: 16, ..spec.clone() }.check(m).unwrap();
    assert!(check(&Job::training(m, &sizes), &budget).is_err());
    // Too small for any.
    let (error, advice) = would_fit(m, &spec, &job, &Budget::of(Bytes::new(1_000_000_000))).unwrap_err();
    assert!(advice.is_empty() && error.to_string().ends_with("no change of one or two sizes would make it fit"));
}
