//! Plans hold every message and every kernel.

use std::collections::BTreeMap;

use sim_core::units::Span;

use super::super::overlap::Overlap;
use super::super::plan::{Op, Plan, Stage, Stream, Work};
use super::{operations, plan, uneven};
use crate::compute::{Figures, Machine, Number};
use crate::experts::{Imbalance, Loads};
use crate::job::{Choices, Job};
use crate::messages::experts::goes_back;
use crate::messages::{self, Operation, Phase};
use crate::model::kernels::{Kernel, Pass};
use crate::model::{Model, Models};
use crate::parallel::split::Split;
use crate::parallel::{ContextKind, Group, SizesSpec, Zero};

fn machine() -> Machine {
    let figures = Figures::builtin();
    let device = figures.device("h100-sxm").unwrap();
    Machine::of(device, Number::Bf16, sim_core::units::Rate::gbyte(3350), figures)
}

fn model(name: &str) -> Model {
    Models::builtin().get(name).unwrap().model.clone()
}

/// Bytes of a stage's calls and sends, by name of the message.
fn bytes(plan: &Plan, stage: usize) -> BTreeMap<&'static str, u64> {
    let mut out = BTreeMap::new();
    for op in &plan.stages[stage].ops {
        let call = match op.work {
            Work::Call(call) => plan.calls[call as usize],
            Work::Send(channel) => plan.calls[plan.channels[channel as usize].call as usize],
            Work::Compute(_) | Work::Uneven(_) | Work::Receive(_) => continue,
        };
        *out.entry(call.name).or_insert(0) += call.bytes.get();
    }
    out
}

fn check(name: &str, spec: &SizesSpec, overlap: &Overlap) {
    check_with(name, spec, overlap, Choices::default());
}

fn check_with(name: &str, spec: &SizesSpec, overlap: &Overlap, choices: Choices) {
    let model = model(name);
    let sizes = spec.check(&model).unwrap();
    let job = Job { choices, ..Job::training(&model, &sizes) };
    let machine = machine();
    let plan = plan(&job, &machine, overlap);
    for stage in 0..sizes.pipeline {
        let mut told: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (message, count) in messages::of_stage(&job, stage) {
            *told.entry(message.name).or_insert(0) += message.bytes.get() * count;
        }
        assert_eq!(bytes(&plan, stage as usize), told, "{name} {sizes} stage {stage}");
        // Every wait is for something before it, and each stream's order is that of the operations.
        let of = &plan.stages[stage as usize];
        for (i, op) in of.ops.iter().enumerate() {
            for after in &of.after[op.after.start as usize..op.after.end as usize] {
                assert!((*after as usize) < i);
            }
        }
        assert!(of.order.iter().all(|list| list.is_sorted()));
    }
    let most = plan.stages.iter().map(|stage| stage.ops.len() as u64).max().unwrap();
    let counted = operations(&job, overlap).rank;
    assert!((most / 2..=most * 3).contains(&counted), "{name} {sizes}: {most} operations, {counted} by their count");
    // What is computed is what the law says for all micro batches, whatever the order.
    let work: Span = plan.stages.iter().map(compute).sum();
    let positions = (0..sizes.virtual_stages).flat_map(|c| (0..sizes.pipeline).map(move |s| (s, c)));
    let told: Span = positions.map(|(s, c)| machine.chunk(&job, s, c).total()).sum::<Span>() * sizes.micros();
    let update: Span = (0..sizes.pipeline).map(|s| optimizer(&plan.stages[s as usize])).sum();
    if overlap.tensor == 1 {
        assert_eq!(work - update, told, "{name} {sizes}");
    } else {
        // Parts of products take longer than the whole.
        assert!(work - update >= told, "{name} {sizes}");
    }
}

fn compute(stage: &Stage) -> Span {
    let span = |work: Work| if let Work::Compute(span) = work { span } else { Span::ZERO };
    stage.ops.iter().map(|op| span(op.work)).sum()
}

fn optimizer(stage: &Stage) -> Span {
    let own = stage.ops.iter().filter(|op| op.label.what == "optimizer");
    own.map(|op| if let Work::Compute(span) = op.work { span } else { Span::ZERO }).sum()
}

#[test]
fn plans_hold_all_messages_and_all_kernels() {
    let base = SizesSpec { gpus: 64, global_batch: 64, sequence: 4096, zero: Zero::Optimizer, ..SizesSpec::default() };
    let all = Overlap::default();
    let none =
        Overlap { tensor: 1, gradients: false, parameters: false, pipeline: false, context: false, experts: false };
    let each = Choices { accumulate: false, ..Choices::default() };
    for overlap in [all, none, Overlap { tensor: 4, ..all }] {
        for shard in [None, Some(1), Some(8)] {
            let spec = SizesSpec { zero: Zero::Gradients, shard, ..base.clone() };
            check_with("llama3.1-8b", &SizesSpec { global_batch: 256, ..spec.clone() }, &overlap, each);
            let pipeline = SizesSpec { tensor: 2, pipeline: 4, ..spec.clone() };
            let split =
                SizesSpec { virtual_stages: 2, split: Split::Given(vec![1, 5, 5, 5, 5, 5, 5, 1]), ..pipeline.clone() };
            check_with("llama3.1-8b", &split, &overlap, each);
            for schedule in ["zb-h1", "dualpipe"] {
                let spec = SizesSpec { schedule: Some(schedule.to_owned()), ..pipeline.clone() };
                check_with("llama3.1-8b", &spec, &overlap, each);
            }
            check_with("qwen3-30b-a3b", &SizesSpec { expert: 8, ..spec.clone() }, &overlap, each);
            check("qwen3-30b-a3b", &SizesSpec { expert: 8, zero: Zero::Parameters, ..spec.clone() }, &overlap);
            check("llama3.1-8b", &SizesSpec { zero: Zero::Optimizer, ..spec }, &overlap);
        }
        check("llama3.1-8b", &SizesSpec { tensor: 8, ..base.clone() }, &overlap);
        for context_kind in [ContextKind::Ring, ContextKind::AllGather, ContextKind::AllToAll, ContextKind::PyTorch] {
            let spec = SizesSpec { tensor: 2, context: 4, context_kind, pipeline: 2, ..base.clone() };
            check("llama3.1-8b", &spec, &overlap);
        }
        check("llama3-70b", &SizesSpec { tensor: 4, pipeline: 4, virtual_stages: 5, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Parameters, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Parameters, shard: Some(8), ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Replicated, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Optimizer, shard: Some(8), ..base.clone() }, &overlap);
        check("qwen3-30b-a3b", &SizesSpec { tensor: 2, expert: 8, pipeline: 2, ..base.clone() }, &overlap);
        let split = Split::Given(vec![31, 30]);
        check("deepseek-v3", &SizesSpec { tensor: 2, expert: 16, pipeline: 2, split, ..base.clone() }, &overlap);
        for schedule in ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"] {
            let schedule = Some(schedule.to_owned());
            check("llama3.1-8b", &SizesSpec { tensor: 2, pipeline: 4, schedule, ..base.clone() }, &overlap);
        }
    }
}

/// The operations of a stage with a name, each with what it waits for.
fn named<'a>(stage: &'a Stage, what: &'static str) -> Vec<(&'a Op, Vec<&'a Op>)> {
    let of = stage.ops.iter().filter(move |op| op.label.what == what);
    let waits = |op: &Op| stage.after[op.after.start as usize..op.after.end as usize].iter();
    of.map(|op| (op, waits(op).map(|i| &stage.ops[*i as usize]).collect())).collect()
}

#[test]
fn copies_of_shards_are_reduced_unit_by_unit_behind_their_shards() {
    let model = model("llama3.1-8b");
    let spec = SizesSpec { gpus: 16, global_batch: 32, zero: Zero::Parameters, shard: Some(8), ..SizesSpec::default() };
    let sizes = spec.check(&model).unwrap();
    let plan = plan(&Job::training(&model, &sizes), &machine(), &Overlap::default());
    let stage = &plan.stages[0];
    let copies = named(stage, "hsdp layer");
    assert_eq!(copies.len(), 32);
    for (layer, (op, waits)) in (0..32).rev().zip(&copies) {
        assert_eq!((op.label.layer, op.label.micro), (Some(layer), Some(1)));
        let [scattered] = waits[..] else { panic!("{waits:?}") };
        assert_eq!((scattered.label.what, scattered.label.layer), ("fsdp layer", Some(layer)));
        assert_eq!(stage.streams[usize::from(scattered.stream)], Stream::Messages(Group::Shard, 1));
    }
    assert_eq!((named(stage, "hsdp head").len(), named(stage, "hsdp embedding").len()), (1, 1));
}

#[test]
fn without_sums_gradients_are_reduced_in_each_micro_batch_and_copies_once() {
    let model = model("llama3.1-8b");
    let spec = SizesSpec { gpus: 16, global_batch: 64, zero: Zero::Gradients, shard: Some(8), ..SizesSpec::default() };
    let sizes = spec.check(&model).unwrap();
    let choices = Choices { accumulate: false, ..Choices::default() };
    let job = Job { choices, ..Job::training(&model, &sizes) };
    for gradients in [true, false] {
        let plan = plan(&job, &machine(), &Overlap { gradients, ..Overlap::default() });
        let stage = &plan.stages[0];
        let (reduced, copies) = (named(stage, "dp gradients").len(), named(stage, "dp replicas").len());
        assert_eq!(reduced, 4 * copies);
        // Those of the first micro batches hold up what follows, if nothing is to run beside them.
        let held = stage.ops.iter().filter(|op| matches!(op.work, Work::Compute(_))).filter(|op| {
            let mut waits = stage.after[op.after.start as usize..op.after.end as usize].iter();
            op.label.what != "optimizer" && waits.any(|i| stage.ops[*i as usize].label.what == "dp gradients")
        });
        assert_eq!(held.count(), if gradients { 0 } else { 3 });
    }
}

#[test]
fn sends_that_nothing_may_run_beside_hold_up_the_next_slot() {
    let model = model("llama3.1-8b");
    let spec = SizesSpec { gpus: 16, tensor: 4, pipeline: 4, global_batch: 8, ..SizesSpec::default() };
    let sizes = spec.check(&model).unwrap();
    let job = Job::training(&model, &sizes);
    for pipeline in [true, false] {
        let plan = plan(&job, &machine(), &Overlap { pipeline, ..Overlap::default() });
        for stage in &plan.stages {
            let kernel = |op: &Op| matches!(op.work, Work::Compute(_));
            let waits = |op: &Op, i: u32| stage.after[op.after.start as usize..op.after.end as usize].contains(&i);
            for (i, op) in stage.ops.iter().enumerate() {
                let next = stage.ops[i..].iter().find(|op| kernel(op) && op.label.phase != Phase::Update);
                let Some(next) = next.filter(|_| matches!(op.work, Work::Send(_))) else { continue };
                assert_eq!(waits(next, i as u32), !pipeline, "{op:?} {next:?}");
            }
        }
    }
}

#[test]
fn a_gather_waits_for_the_unit_that_makes_room_however_many_are_ahead() {
    let model = model("llama3.1-8b");
    let spec = SizesSpec { gpus: 16, global_batch: 64, zero: Zero::Parameters, ..SizesSpec::default() };
    let sizes = spec.check(&model).unwrap();
    for (prefetch, back) in [(0, 0), (1, 1), (31, 31), (40, 40), (64, 64), (1, 0), (4, 2)] {
        let choices = Choices { prefetch, prefetch_back: back, ..Choices::default() };
        let plan = plan(&Job { choices, ..Job::training(&model, &sizes) }, &machine(), &Overlap::default());
        let stage = &plan.stages[0];
        let gathers =
            stage.ops.iter().filter(|op| stage.streams[usize::from(op.stream)] == Stream::Messages(Group::Shard, 0));
        let gathers: Vec<&Op> = gathers.collect();
        // 34 units, there and back, in four micro batches.
        assert_eq!(gathers.len(), 34 * 2 * 4);
        for (at, op) in gathers.iter().enumerate() {
            let waits = &stage.after[op.after.start as usize..op.after.end as usize];
            let ahead = if op.label.phase == Phase::Backward { back } else { prefetch };
            let freed = (at as u64).checked_sub(ahead + 1).map(|at| gathers[at as usize]);
            let expected = freed.map(|of| (of.label.micro, of.label.phase, of.label.layer));
            let label = waits.first().map(|i| &stage.ops[*i as usize].label);
            assert_eq!(label.map(|l| (l.micro, l.phase, l.layer)), expected, "{prefetch} {back} {at}");
        }
    }
}

/// What rank `place` of a group of experts computes in a stage.
fn of_place(plan: &Plan, stage: usize, place: usize) -> Span {
    let span = |work: Work| match work {
        Work::Compute(span) => span,
        Work::Uneven(list) => plan.uneven[list as usize][place],
        _ => Span::ZERO,
    };
    plan.stages[stage].ops.iter().map(|op| span(op.work)).sum()
}

#[test]
fn ranks_whose_experts_are_wanted_more_work_longer() {
    let model = model("qwen3-30b-a3b");
    let spec = SizesSpec {
        gpus: 16,
        expert: 8,
        tensor: 2,
        global_batch: 16,
        recompute: crate::model::activations::Recompute::Full,
        ..SizesSpec::default()
    };
    let sizes = spec.check(&model).unwrap();
    let (machine, overlap) = (machine(), Overlap::default());
    let even = plan(&Job::training(&model, &sizes), &machine, &overlap);
    assert!(even.uneven.is_empty() && even.exchanges.is_empty());
    let loads = |factor| Loads::hot(128, 8, 0, factor);
    let with = |imbalance: &Imbalance| {
        plan(&Job { imbalance: Some(imbalance), ..Job::training(&model, &sizes) }, &machine, &overlap)
    };
    // As much for all is the same, to the picosecond.
    let same = with(&Imbalance::new(&[loads(1.0)], None, false, 1));
    let total = compute(&even.stages[0]);
    assert!((0..8).all(|place| of_place(&same, 0, place) == total));
    // What the law says of as many rows, forward, recomputed and backward, of all layers.
    let hot = with(&Imbalance::new(&[loads(1.5)], None, false, 1));
    let share = sizes.share();
    let kernels = model.layer_kernels(0, &share);
    let of = |factor: f64| -> Span {
        let time = |kernel: &Kernel| {
            let scaled = uneven::loaded(kernel, factor).unwrap();
            let time = |pass| machine.kernel(&scaled, pass, 2);
            time(Pass::Forward) * 2 + time(Pass::DataGradient) + time(Pass::WeightGradient)
        };
        kernels.iter().filter(|k| uneven::by_load(k)).map(time).sum()
    };
    assert_eq!(kernels.iter().filter(|k| uneven::by_load(k)).count(), 3);
    let layers = 48 * sizes.micros();
    let (rest, most) = (of((8.0 - 1.5) / 7.0), of(1.5));
    assert!(most.as_us() > 1.2 * of(1.0).as_us());
    assert_eq!(of_place(&hot, 0, 0) - of_place(&hot, 0, 3), (most - rest) * layers);
    assert_eq!(of_place(&hot, 0, 0), total + (most - of(1.0)) * layers);
    // All messages are there, and those of experts say how they go.
    let bytes_of = |plan: &Plan| bytes(plan, 0);
    assert_eq!(bytes_of(&hot), bytes_of(&even));
    for call in &hot.calls {
        let expected = (call.group == Group::Expert).then(|| u32::from(goes_back(call.name)));
        assert_eq!(call.exchange, expected, "{}", call.name);
    }
    assert_eq!(hot.exchanges.len(), 2);
}

#[test]
fn a_micro_batch_has_the_same_draw_in_a_layer_both_ways() {
    let model = model("qwen3-30b-a3b");
    let spec = SizesSpec { gpus: 8, expert: 8, global_batch: 32, ..SizesSpec::default() };
    let sizes = spec.check(&model).unwrap();
    let loads: Vec<Loads> = (0..4).map(|hot| Loads::hot(128, 8, hot, 1.4)).collect();
    let imbalance = Imbalance::new(&loads, None, false, 9);
    let job = Job { imbalance: Some(&imbalance), ..Job::training(&model, &sizes) };
    let plan = plan(&job, &machine(), &Overlap::default());
    let mut draws: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for op in &plan.stages[0].ops {
        let Work::Call(call) = op.work else { continue };
        let Some(exchange) = plan.calls[call as usize].exchange else { continue };
        draws.entry((op.label.micro.unwrap(), op.label.layer.unwrap())).or_default().push(exchange / 2);
    }
    assert_eq!(draws.len(), 4 * 48);
    let mut count = [0; 4];
    for ((micro, layer), of) in draws {
        let draw = imbalance.of(micro.into(), layer.into());
        assert_eq!(of, vec![draw as u32; 4]);
        count[draw] += 1;
    }
    assert!(count.iter().all(|n| *n > 24), "{count:?}");
    // Four kinds of message with four draws, three of them of equal size: no more is simulated.
    assert_eq!(plan.calls.iter().filter(|c| c.group == Group::Expert).count(), 16);
}

/// Kernels follow one another on a rank, so none of a layer comes before the first that waits for the layer's parameters.
#[test]
fn both_halves_wait_for_the_parameters_of_a_unit() {
    for (name, expert, tensor) in [("llama3.1-8b", 1, 8), ("qwen3-30b-a3b", 8, 1)] {
        let model = model(name);
        let spec = SizesSpec { gpus: 16, global_batch: 32, micro_batch: 2, expert, tensor, ..SizesSpec::default() };
        let sizes = SizesSpec { zero: Zero::Parameters, ..spec }.check(&model).unwrap();
        let mut job = Job::training(&model, &sizes);
        for two_batches in [false, true] {
            job.choices.two_batches = two_batches;
            let plan = plan(&job, &machine(), &Overlap::default());
            let stage = &plan.stages[0];
            let mut gathers = 0;
            for (number, gather) in stage.ops.iter().enumerate().filter(|(_, op)| op.label.what == "fsdp layer") {
                let Work::Call(call) = gather.work else { continue };
                if plan.calls[call as usize].operation != Operation::AllGather {
                    continue;
                }
                gathers += 1;
                let computes = || {
                    stage.ops.iter().enumerate().filter(|(_, op)| matches!(op.work, Work::Compute(_) | Work::Uneven(_)))
                };
                let of = |op: &Op| (op.label.layer, op.label.micro, op.label.phase);
                let first = computes().find(|(_, op)| of(op) == of(gather)).unwrap().0;
                let waits =
                    |op: &Op| stage.after[op.after.start as usize..op.after.end as usize].contains(&(number as u32));
                let waiting = computes().find(|(_, op)| waits(op)).unwrap().0;
                assert!(waiting <= first, "{name}, {two_batches}: {:?} {waiting} {first}", gather.label);
            }
            assert_eq!(gathers, 2 * model.layers * sizes.micros());
        }
    }
}

#[test]
fn halves_of_a_micro_batch_take_turns() {
    let model = model("qwen3-30b-a3b");
    let base = SizesSpec { gpus: 64, global_batch: 128, micro_batch: 2, zero: Zero::Optimizer, ..SizesSpec::default() };
    for spec in [
        SizesSpec { expert: 8, ..base.clone() },
        SizesSpec { expert: 8, tensor: 2, pipeline: 2, ..base.clone() },
        SizesSpec { expert: 8, pipeline: 4, schedule: Some("zb-h1".to_owned()), ..base.clone() },
        SizesSpec { expert: 8, zero: Zero::Parameters, ..base.clone() },
    ] {
        let sizes = spec.check(&model).unwrap();
        let mut job = Job::training(&model, &sizes);
        let whole = plan(&job, &machine(), &Overlap::default());
        job.choices.two_batches = true;
        let halves = plan(&job, &machine(), &Overlap::default());
        for stage in 0..sizes.pipeline as usize {
            // As many bytes in twice as many messages of tokens; those of parameters and stages stay.
            let (a, b) = (bytes(&whole, stage), bytes(&halves, stage));
            assert_eq!(a, b, "{sizes}");
            let mut told: BTreeMap<&'static str, u64> = BTreeMap::new();
            for (message, count) in messages::of_stage(&job, stage as u64) {
                *told.entry(message.name).or_insert(0) += message.bytes.get() * count;
            }
            assert_eq!(b, told, "{sizes}");
            let count = |plan: &Plan, name| {
                let of = |op: &&super::super::plan::Op| matches!(op.work, Work::Call(call) if plan.calls[call as usize].name == name);
                plan.stages[stage].ops.iter().filter(of).count()
            };
            assert_eq!(count(&halves, "ep dispatch"), 2 * count(&whole, "ep dispatch"));
            let of = &halves.stages[stage];
            for (i, op) in of.ops.iter().enumerate() {
                assert!(
                    of.after[op.after.start as usize..op.after.end as usize].iter().all(|after| (*after as usize) < i)
                );
            }
        }
    }
}
