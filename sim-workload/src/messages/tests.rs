//! The table of messages: check values, closed forms over random configurations, conservation.

use proptest::prelude::*;
use sim_core::units::{Bytes, Rate};

use super::*;
use crate::experts::{Copies, Payload};
use crate::job::{Mode, Widths};
use crate::model::activations::Recompute;
use crate::model::{Adapters, Model, Models};
use crate::parallel::split::Split;
use crate::parallel::{ContextKind, Local, Sizes, SizesSpec, Zero};

fn model(name: &str) -> &'static Model {
    &Models::builtin().get(name).unwrap().model
}

fn llama_405b() -> SizesSpec {
    SizesSpec {
        gpus: 512,
        tensor: 8,
        context: 2,
        pipeline: 8,
        virtual_stages: 8,
        split: Split::Counting { embedding: true, head: true },
        global_batch: 1152,
        sequence: 8192,
        zero: Zero::Optimizer,
        ..SizesSpec::default()
    }
}

/// Bytes of all messages whose name begins so, times how often they come.
fn sum(list: &[(Message, u64)], name: &str, keep: impl Fn(&Message) -> bool) -> u64 {
    list.iter().filter(|(m, _)| m.name.starts_with(name) && keep(m)).map(|(m, n)| m.bytes.get() * n).sum()
}

fn count(list: &[(Message, u64)], name: &str, keep: impl Fn(&Message) -> bool) -> u64 {
    list.iter().filter(|(m, _)| m.name.starts_with(name) && keep(m)).map(|(_, n)| n).sum()
}

fn one<'a>(list: &'a [(Message, u64)], name: &str) -> &'a Message {
    &list.iter().find(|(m, _)| m.name == name).unwrap_or_else(|| panic!("no {name}")).0
}

const ANY: fn(&Message) -> bool = |_| true;

#[test]
fn messages_of_the_405b() {
    let m = model("llama3.1-405b");
    let sizes = llama_405b().check(m).unwrap();
    let job = Job::training(m, &sizes);
    let list = of_stage(&job, 3);
    // T = 4096: 134.2 MB an all-gather or reduce-scatter; 8 in a layer, 10 with the inputs gathered again.
    assert_eq!(one(&list, "tp ffn").bytes, Bytes::new(134_217_728));
    let each = 16 * sizes.micros();
    let again = count(&list, "tp", |m| m.name.ends_with("again"));
    assert_eq!(count(&list, "tp", ANY), 10 * each);
    assert_eq!(again, 2 * each);
    assert_eq!(one(&list, "pp activation").bytes, Bytes::new(16_777_216));
    assert_eq!(one(&list, "cp keys and values").bytes, Bytes::new(2_097_152));
    // Eight chunks of eight boundaries each way; the last chunk of the last stage sends nothing forward.
    assert_eq!(count(&list, "pp activation", ANY), 8 * sizes.micros());
    assert_eq!(count(&of_stage(&job, 7), "pp activation", ANY), 7 * sizes.micros());
    assert_eq!(count(&of_stage(&job, 0), "pp gradient", ANY), 7 * sizes.micros());
    // On average 6.34·10⁹ parameters a rank: 25.4 GB scattered in fp32, 12.7 in bf16; 6.3 GB gathered in fp8.
    let mean = |widths: Widths, name: &str| {
        let job = Job { widths, ..job.clone() };
        (0..8).map(|s| sum(&of_stage(&job, s), name, ANY)).sum::<u64>() as f64 / 8e9
    };
    let fp32 = Widths { gather: 1, ..Widths::default() };
    assert_eq!(format!("{:.1}", mean(fp32, "dp gradients")), "25.4");
    assert_eq!(format!("{:.1}", mean(Widths { gradient: 2, ..fp32 }, "dp gradients")), "12.7");
    assert_eq!(format!("{:.1}", mean(fp32, "dp parameters")), "6.3");
}

#[test]
fn tensor_parallel_inference_of_a_70b_synchronises_160_times() {
    let m = model("llama3-70b");
    let spec = SizesSpec { gpus: 4, tensor: 4, sequence: 8, sequence_parallel: Some(false), ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let job = Job { mode: Mode::Inference, ..Job::training(m, &sizes) };
    let list = of_stage(&job, 0);
    assert_eq!(count(&list, "tp", |m| m.operation == Operation::AllReduce), 160);
    // Batches of eight: 131 KB each.
    assert_eq!(one(&list, "tp ffn").bytes, Bytes::new(131_072));
    // A prefill of 4096 tokens: 64 MiB each.
    let prefill = SizesSpec { sequence: 4096, ..spec.clone() }.check(m).unwrap();
    let prefill = of_stage(&Job { sizes: &prefill, ..job.clone() }, 0);
    assert_eq!((one(&prefill, "tp ffn").bytes, count(&prefill, "tp", ANY)), (Bytes::mib(64), 160));
    // A pipeline of four sends three times what a token is: next to nothing beside that.
    let spec = SizesSpec { tensor: 1, pipeline: 4, sequence_parallel: None, ..spec };
    let sizes = spec.check(m).unwrap();
    let pipe = Job { mode: Mode::Inference, ..Job::training(m, &sizes) };
    let sent: u64 = (0..4).flat_map(|s| of_stage(&pipe, s)).map(|(m, n)| m.wire_bytes(4).get() * n).sum();
    let tensor: u64 = list.iter().map(|(m, n)| m.wire_bytes(4).get() * n).sum();
    assert_eq!(sent, 3 * 131_072);
    assert!(sent * 50 < tensor);
}

#[test]
fn gradients_of_a_70b() {
    let m = model("llama3-70b");
    let reduced = |n: u64| {
        let sizes = SizesSpec { gpus: n, global_batch: n, ..SizesSpec::default() }.check(m).unwrap();
        let mut job = Job::training(m, &sizes);
        job.widths.gradient = 2;
        let list = of_stage(&job, 0);
        let wire: u64 =
            list.iter().filter(|(m, _)| m.name == "dp gradients").map(|(m, k)| m.wire_bytes(n).get() * k).sum();
        (sum(&list, "dp gradients", ANY), wire)
    };
    let (size, _) = reduced(8);
    assert_eq!(size, 2 * m.parameters());
    // "140 GB": over PCIe 5 at 64 GB/s one pass is 2.2 s, a ring all-reduce of four 3.3 s and of eight 3.9 s.
    let secs = |bytes: u64, rate| format!("{:.2}", Rate::gbyte(rate).time_for(Bytes::new(bytes)).as_secs());
    assert_eq!(secs(140_000_000_000, 64), "2.19");
    let scale = |wire: u64| (wire as f64 * 140e9 / size as f64) as u64;
    assert_eq!(secs(scale(reduced(4).1), 64), "3.28");
    assert_eq!(secs(scale(reduced(8).1), 64), "3.83");
    assert_eq!(secs(scale(reduced(4).1), 450), "0.47");
}

#[test]
fn a_model_on_one_gpu_sends_nothing() {
    for name in ["llama3.1-8b", "qwen3-30b-a3b"] {
        let sizes = SizesSpec::default().check(model(name)).unwrap();
        assert!(of_stage(&Job::training(model(name), &sizes), 0).is_empty());
    }
}

#[test]
fn buckets_of_frameworks() {
    assert_eq!(Buckets::DDP.cut(20_000_000, 4, 8, 1), [(6_553_600, 3), (339_200, 1)]);
    assert_eq!(Buckets::Megatron.cut(100_000_000, 4, 8, 1), [(40_000_000, 2), (20_000_000, 1)]);
    assert_eq!(Buckets::Megatron.cut(1_000_000_000, 4, 256, 1), [(256_000_000, 3), (232_000_000, 1)]);
    assert_eq!(Buckets::Megatron.cut(100, 4, 8, 3), [(34, 2), (32, 1)]);
    assert_eq!(Buckets::DEEPSPEED.cut(400_000_000, 4, 8, 1), [(400_000_000, 1)]);
    assert_eq!(Buckets::Whole.cut(7, 4, 8, 1), [(7, 1)]);
    assert_eq!(Buckets::Bytes(0).cut(3, 4, 8, 1), [(1, 3)]);
    assert!(Buckets::Whole.cut(0, 4, 8, 1).is_empty());
}

#[test]
fn only_adapters_are_reduced() {
    let m = model("llama2-70b");
    let sizes = SizesSpec { gpus: 8, tensor: 2, global_batch: 4, ..SizesSpec::default() }.check(m).unwrap();
    let mut job = Job::training(m, &sizes);
    job.choices.adapters = Some(Adapters::on_attention(16));
    let list = of_stage(&job, 0);
    assert_eq!(sum(&list, "dp gradients", ANY), 4 * Adapters::on_attention(16).parameters(m) / 2);
}

#[test]
fn shards_held_twice_are_reduced_once_a_step() {
    let m = model("llama3.1-8b");
    let spec =
        SizesSpec { gpus: 32, zero: Zero::Parameters, shard: Some(8), global_batch: 128, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let job = Job::training(m, &sizes);
    let list = of_stage(&job, 0);
    // Four micro batches: everything gathered twice and scattered once in each.
    let p = m.parameters();
    assert_eq!(sum(&list, "fsdp", |m| m.operation == Operation::AllGather), 4 * 2 * 2 * p);
    assert_eq!(sum(&list, "fsdp", |m| m.operation == Operation::ReduceScatter), 4 * 4 * p);
    assert_eq!(sum(&list, "hsdp", ANY), 4 * p.div_ceil(8));
    assert_eq!(one(&list, "hsdp layer").group.size(&sizes), 4);
    let kept = Job { choices: crate::job::Choices { reshard: false, ..job.choices }, ..job.clone() };
    assert_eq!(sum(&of_stage(&kept, 0), "fsdp", |m| m.operation == Operation::AllGather), 4 * 2 * p);
}

#[test]
fn tied_embeddings_are_summed_over_the_ends() {
    let m = model("gpt3-175b");
    let spec = SizesSpec { gpus: 64, tensor: 8, pipeline: 8, global_batch: 8, sequence: 2048, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let job = Job::training(m, &sizes);
    for stage in 0..8 {
        let here = sum(&of_stage(&job, stage), "tied embedding", ANY);
        assert_eq!(here, if stage == 0 || stage == 7 { 4 * 51_200 * 12_288 / 8 } else { 0 });
    }
    assert_eq!(count(&of_stage(&job, 7), "loss", ANY), 3 * 8);
    assert_eq!(one(&of_stage(&job, 7), "loss").bytes, Bytes::new(4 * 2048));
    assert_eq!(count(&of_stage(&job, 0), "loss", ANY), 0);
    assert_eq!(count(&of_stage(&job, 5), "norm of gradients", ANY), 1);
}

#[test]
fn dispatch_and_combine() {
    let m = model("deepseek-v3");
    let spec = SizesSpec { gpus: 64, expert: 64, global_batch: 128, micro_batch: 1, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let mut job = Job::training(m, &sizes);
    job.choices.dispatch = Payload::FP8;
    let list = of_stage(&job, 0);
    assert_eq!(one(&list, "ep dispatch").bytes, Bytes::new(4096 * 8 * (7168 + 224)));
    assert_eq!(one(&list, "ep combine").bytes, Bytes::new(4096 * 8 * 7168 * 2));
    // 58 layers of experts and the prediction layer, two micro batches, four messages.
    assert_eq!(count(&list, "ep", ANY), 59 * 2 * 4);
    job.choices.copies = Copies::Rank;
    let fewer = one(&of_stage(&job, 0), "ep dispatch").bytes;
    // Four of eight groups, so 128 experts on 32 ranks to choose from: 32·(1 − C(124, 8)/C(128, 8)) = 7.359 ranks.
    assert!((fewer.get() as f64 / (4096.0 * 7392.0) - 7.359).abs() < 0.001);
    assert_eq!(one(&list, "ep combine").to_string(), "ep combine: all-to-all of 448 MiB over ep");
    // Experts of their own: nobody to reduce them with, the rest over 64.
    assert_eq!(count(&list, "edp", ANY), 0);
    assert_eq!(one(&list, "dp gradients").group.size(&sizes), 64);
}

#[test]
fn each_layer_of_multi_token_prediction_has_a_head() {
    let m = model("deepseek-v3");
    let spec = SizesSpec { gpus: 64, tensor: 2, expert: 32, global_batch: 128, ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let list = of_stage(&Job::training(m, &sizes), 0);
    // Four micro batches; the model's own head, and that of one layer ahead.
    assert_eq!(count(&list, "input of head", ANY), 2 * 2 * 4);
    assert_eq!((count(&list, "gradient of head", ANY), count(&list, "loss", ANY)), (2 * 4, 2 * 3 * 4));
    assert_eq!(count(&list, "gradient of embedding", ANY), 4);
}

#[test]
fn messages_name_kernels_that_there_are() {
    for (name, fused) in [("llama3-70b", true), ("deepseek-v3", true), ("qwen3-30b-a3b", true), ("gpt-22b", false)] {
        for kind in [ContextKind::Ring, ContextKind::AllGather, ContextKind::AllToAll, ContextKind::PyTorch] {
            let m = model(name);
            let moe = m.experts.is_some();
            let spec = SizesSpec {
                gpus: 8,
                tensor: 2,
                context: 2,
                context_kind: kind,
                expert: if moe { 4 } else { 1 },
                expert_tensor: if moe { 2 } else { 1 },
                fused_attention: fused,
                global_batch: 4,
                ..SizesSpec::default()
            };
            let sizes = spec.check(m).unwrap();
            let share = sizes.share();
            let mut kernels: Vec<&str> =
                (0..m.layers).flat_map(|i| m.layer_kernels(i, &share)).map(|k| k.name).collect();
            kernels.extend(m.embedding_kernels(&share).iter().chain(&m.head_kernels(&share)).map(|k| k.name));
            for (message, _) in of_stage(&Job::training(m, &sizes), 0) {
                if let Place::Before(kernel) | Place::BeforeWeights(kernel) | Place::After(kernel) = message.place {
                    assert!(kernels.contains(&kernel), "{name}: {message} at `{kernel}`");
                }
            }
        }
    }
}

#[test]
fn what_products_need_is_gathered_in_8_bits_and_nothing_else() {
    let m = model("llama3.1-405b");
    let sizes = llama_405b().check(m).unwrap();
    let of = |inputs: u64, adapters: Option<Adapters>| {
        let choices = crate::job::Choices { adapters, ..crate::job::Choices::default() };
        let widths = Widths { inputs, ..Widths::default() };
        of_stage(&Job { widths, choices, ..Job::training(m, &sizes) }, 3)
    };
    let gathers = |m: &Message| m.operation == Operation::AllGather;
    let (wide, narrow) = (of(2, None), of(1, None));
    assert_eq!(2 * sum(&narrow, "tp", gathers), sum(&wide, "tp", gathers));
    assert_eq!(sum(&narrow, "tp", |m| !gathers(m)), sum(&wide, "tp", |m| !gathers(m)));
    // An adapter needs the input of QKV in 16 bits, and whole; nothing is beside the scatter of a gradient by inputs where weights are frozen.
    let adapted = of(1, Some(Adapters::on_attention(16)));
    let at = |list: &[(Message, u64)], phase, place| {
        let (m, _) =
            list.iter().find(|(m, _)| m.group == Group::Tensor && m.phase == phase && m.place == place).unwrap();
        (m.bytes.get(), m.overlap)
    };
    let (qkv, up) = (Place::Before("projection of QKV"), Place::Before("FFN up"));
    assert_eq!(at(&adapted, Phase::Forward, qkv), (134_217_728, Overlap::Nothing));
    assert_eq!(at(&adapted, Phase::Forward, up), (67_108_864, Overlap::SplitGemm));
    assert_eq!(at(&narrow, Phase::Forward, qkv), (67_108_864, Overlap::SplitGemm));
    let scatter = Place::After("FFN up");
    assert_eq!(at(&adapted, Phase::Backward, scatter), (134_217_728, Overlap::Nothing));
    assert_eq!(at(&narrow, Phase::Backward, scatter), (134_217_728, Overlap::SplitGemm));
}

#[test]
fn dualpipe_sends_both_ways() {
    let m = model("gpt-22b");
    let spec =
        SizesSpec { gpus: 8, pipeline: 8, global_batch: 32, schedule: Some("dualpipe".into()), ..SizesSpec::default() };
    let sizes = spec.check(m).unwrap();
    let job = Job::training(m, &sizes);
    // Each stage between the ends passes on 16 micro batches one way and 16 the other; the first stage only its own.
    assert_eq!(count(&of_stage(&job, 3), "pp activation", ANY), 32);
    assert_eq!(count(&of_stage(&job, 0), "pp activation", ANY), 16);
    assert_eq!(count(&of_stage(&job, 0), "pp gradient", ANY), 16);
}

fn any_spec() -> impl Strategy<Value = SizesSpec> {
    let two = || prop_oneof![Just(1u64), Just(2), Just(4)];
    let kinds = prop_oneof![
        Just(ContextKind::Ring),
        Just(ContextKind::AllGather),
        Just(ContextKind::AllToAll),
        Just(ContextKind::PyTorch)
    ];
    let zero =
        prop_oneof![Just(Zero::Replicated), Just(Zero::Optimizer), Just(Zero::Gradients), Just(Zero::Parameters)];
    let again = prop_oneof![Just(Recompute::Nothing), Just(Recompute::Selective), Just(Recompute::Full)];
    ((two(), two(), two(), two(), two()), (1u64..3, 1u64..3), kinds, zero, again, any::<bool>()).prop_map(
        |((t, c, d, p, e), (v, b), context_kind, zero, recompute, sp)| SizesSpec {
            gpus: t * c * d * p,
            tensor: t,
            context: c,
            context_kind,
            expert: e,
            expert_tensor: 1,
            pipeline: p,
            virtual_stages: if p > 1 { v } else { 1 },
            zero,
            recompute,
            micro_batch: b,
            global_batch: d * b * p * 2,
            sequence_parallel: Some(sp && t > 1),
            ..SizesSpec::default()
        },
    )
}

fn checked(name: &str, spec: &SizesSpec) -> Option<Sizes> {
    let spec = SizesSpec { expert: if name.starts_with("llama") { 1 } else { spec.expert }, ..spec.clone() };
    spec.check(model(name)).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The table, row by row, written down again from the sizes alone.
    #[test]
    fn sums_are_the_closed_forms(spec in any_spec(), moe in any::<bool>(), stage in 0u64..4) {
        let name = if moe { "qwen3-30b-a3b" } else { "llama2-7b" };
        let Some(sizes) = checked(name, &spec) else { return Ok(()) };
        let (m, stage) = (model(name), stage % sizes.pipeline);
        let job = Job::training(m, &sizes);
        let list = of_stage(&job, stage);
        let (t, c, p) = (sizes.tensor, sizes.context, sizes.pipeline);
        let (micros, layers) = (sizes.micros(), m.layers / p);
        let tokens = sizes.micro_batch * sizes.sequence / c;
        let size = tokens * m.hidden * 2;
        let full = u64::from(spec.recompute == Recompute::Full);

        // Tensor parallelism: in a dense layer 2 + 2 all-reduces, or 4 + 4 parts and 2 gathered again; of a layer of experts half.
        let pairs = if moe { 1 } else { 2 };
        let expected = match (t > 1, sizes.sequence_parallel) {
            (false, _) => 0,
            (true, false) => layers * micros * size * pairs * (2 + full),
            (true, true) => layers * micros * size * pairs * (5 + 2 * full),
        };
        prop_assert_eq!(sum(&list, "tp", ANY), expected);

        // Context parallelism.
        let kv = 2 * tokens * m.kv_heads().div_ceil(t) * m.head_widths().0 * 2;
        let q = tokens * m.heads / t * m.head_widths().0 * 2;
        let each = match spec.context_kind {
            _ if c == 1 => 0,
            ContextKind::Ring => (c - 1) * kv * (3 + full),
            ContextKind::AllGather => c * kv * (3 + full),
            ContextKind::AllToAll => (2 * q + kv) * (2 + full),
            // All heads' keys and values; gradients in fp32.
            ContextKind::PyTorch => c * 2 * q * (2 + full) + c * 4 * q,
        };
        prop_assert_eq!(sum(&list, "cp", ANY), layers * micros * each);

        // Experts: four all-to-alls, two more when recomputed.
        let outer = if sizes.sequence_parallel { tokens / t } else { tokens };
        let expected = if moe && sizes.expert > 1 { layers * micros * outer * 8 * m.hidden * 2 * (4 + 2 * full) } else { 0 };
        prop_assert_eq!(sum(&list, "ep", ANY), expected);

        // Gradients: w_g·P_local once a step in the bucket's sum, or in each micro batch with ZeRO-3.
        let local = Local::of_stage(m, &sizes, stage);
        let group = sizes.data * c;
        let (dense, experts) = match sizes.zero {
            Zero::Parameters => ("fsdp", "fsdp experts"),
            _ => ("dp gradients", "edp gradients"),
        };
        let times = if sizes.zero == Zero::Parameters { micros } else { 1 };
        let reduced = |m: &Message| m.operation != Operation::AllGather;
        let of_experts = if sizes.expert_data() > 1 { sum(&list, experts, reduced) } else { 0 };
        prop_assert_eq!(of_experts, if sizes.expert_data() > 1 { 4 * local.experts * times } else { 0 });
        let of_dense = sum(&list, dense, |m| reduced(m) && m.group != Group::ExpertData);
        prop_assert_eq!(of_dense, if group > 1 { 4 * local.dense * times } else { 0 });
        let gathered = sum(&list, "", |m| m.operation == Operation::AllGather && matches!(m.group, Group::Shard | Group::ExpertData));
        let parts = [(local.dense, group), (local.experts, sizes.expert_data())];
        let once: u64 = parts.iter().filter(|(_, n)| *n > 1).map(|(p, _)| 2 * p).sum();
        prop_assert_eq!(gathered, match sizes.zero {
            Zero::Replicated => 0,
            Zero::Parameters => once * 2 * micros,
            _ => once,
        });

        // The pipeline: one each way for each boundary.
        if stage == 0 && p > 1 {
            let all: Vec<_> = (0..p).flat_map(|s| of_stage(&job, s)).collect();
            let boundaries = p * sizes.virtual_stages - 1;
            prop_assert_eq!(count(&all, "pp activation", ANY), boundaries * micros);
            prop_assert_eq!(sum(&all, "pp gradient", ANY), boundaries * micros * size / t);
        }
    }

    /// What all ranks hold and reduce is the model, with its prediction layers, each parameter as often as it has peers.
    #[test]
    fn parameters_are_conserved(spec in any_spec(), moe in any::<bool>()) {
        let name = if moe { "deepseek-v3" } else { "gpt3-175b" };
        // 61 layers: one more in the first stage.
        let p = spec.pipeline * spec.virtual_stages;
        let mut layers = vec![model(name).layers / p; p as usize];
        layers[0] += model(name).layers % p;
        let spec = SizesSpec { split: Split::Given(layers), ..spec };
        let Some(sizes) = checked(name, &SizesSpec { tensor: 1, gpus: spec.gpus / spec.tensor, sequence_parallel: None, ..spec }) else {
            return Ok(());
        };
        let m = model(name);
        let held: u64 = (0..sizes.pipeline)
            .map(|s| Local::of_stage(m, &sizes, s))
            .map(|l| l.dense + l.experts * sizes.expert)
            .sum();
        let twice = if m.tied && sizes.pipeline > 1 { m.vocab * m.hidden } else { 0 };
        prop_assert_eq!(held, m.parameters() + m.mtp_parameters() + twice);
    }

    /// An all-reduce passes as much as a reduce-scatter and an all-gather of as much; so sequence parallelism costs what it replaces.
    #[test]
    fn wire_bytes_of_an_all_reduce_are_those_of_its_halves(bytes in 1u64..1 << 50, n in 1u64..4096) {
        let message = |operation| Message {
            name: "", operation, bytes: Bytes::new(bytes * n), group: Group::All, phase: Phase::Forward, per: Per::Step, count: 1,
            place: Place::Unit, overlap: Overlap::Nothing,
        };
        let wire = |operation| message(operation).wire_bytes(n);
        prop_assert_eq!(wire(Operation::AllReduce), wire(Operation::ReduceScatter) + wire(Operation::AllGather));
        prop_assert_eq!(wire(Operation::AllToAll), Bytes::new(bytes * (n - 1)));
        prop_assert_eq!(wire(Operation::Send), Bytes::new(bytes * n));
    }

    #[test]
    fn buckets_add_up(parameters in 0u64..1 << 40, data in 1u64..4096, chunks in 1u64..9, size in 0u64..1 << 32) {
        for rule in [Buckets::Whole, Buckets::Megatron, Buckets::DEEPSPEED, Buckets::Bytes(size), Buckets::Parameters(size)] {
            let cut = rule.cut(parameters, 4, data, chunks);
            prop_assert_eq!(cut.iter().map(|(size, n)| size * n).sum::<u64>(), parameters);
        }
    }
}
