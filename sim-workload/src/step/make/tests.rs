//! Plans hold every message and every kernel.

use std::collections::BTreeMap;

use sim_core::units::Span;

use super::super::overlap::Overlap;
use super::super::plan::{Plan, Work};
use super::plan;
use crate::compute::{Figures, Machine, Number};
use crate::job::Job;
use crate::messages;
use crate::model::{Model, Models};
use crate::parallel::{SizesSpec, Zero};

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
            Work::Compute(_) | Work::Receive(_) => continue,
        };
        *out.entry(call.name).or_insert(0) += call.bytes.get();
    }
    out
}

fn check(name: &str, spec: &SizesSpec, overlap: &Overlap) {
    let model = model(name);
    let sizes = spec.check(&model).unwrap();
    let job = Job::training(&model, &sizes);
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

fn compute(stage: &super::super::plan::Stage) -> Span {
    let span = |work: Work| if let Work::Compute(span) = work { span } else { Span::ZERO };
    stage.ops.iter().map(|op| span(op.work)).sum()
}

fn optimizer(stage: &super::super::plan::Stage) -> Span {
    let own = stage.ops.iter().filter(|op| op.label.what == "optimizer");
    own.map(|op| if let Work::Compute(span) = op.work { span } else { Span::ZERO }).sum()
}

#[test]
fn plans_hold_all_messages_and_all_kernels() {
    let base = SizesSpec { gpus: 64, global_batch: 64, sequence: 4096, zero: Zero::Optimizer, ..SizesSpec::default() };
    let all = Overlap::default();
    let none = Overlap {
        tensor: 1,
        gradients: false,
        parameters: false,
        pipeline: false,
        context: false,
        experts: false,
        prefetch: 0,
    };
    for overlap in [all, none, Overlap { tensor: 4, ..all }] {
        check("llama3.1-8b", &SizesSpec { tensor: 8, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { tensor: 2, context: 4, pipeline: 2, ..base.clone() }, &overlap);
        check("llama3-70b", &SizesSpec { tensor: 4, pipeline: 4, virtual_stages: 5, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Parameters, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Parameters, shard: Some(8), ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Replicated, ..base.clone() }, &overlap);
        check("llama3.1-8b", &SizesSpec { zero: Zero::Optimizer, shard: Some(8), ..base.clone() }, &overlap);
        check("qwen3-30b-a3b", &SizesSpec { tensor: 2, expert: 8, pipeline: 2, ..base.clone() }, &overlap);
        for schedule in ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"] {
            let schedule = Some(schedule.to_owned());
            check("llama3.1-8b", &SizesSpec { tensor: 2, pipeline: 4, schedule, ..base.clone() }, &overlap);
        }
    }
}
