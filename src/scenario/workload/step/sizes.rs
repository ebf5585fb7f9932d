//! Sizes of a parallelism and choices of a framework, from the keys that say them.

use sim_core::units::Bytes;
use sim_workload::experts::{Copies, Payload};
use sim_workload::job::{Choices, Job, Widths};
use sim_workload::messages::Buckets;
use sim_workload::model::activations::Recompute;
use sim_workload::model::{Adapters, Model};
use sim_workload::parallel::split::Split;
use sim_workload::parallel::{ContextKind, Order, SizeFault, Sizes, SizesSpec, Zero};
use sim_workload::pipeline::ScheduleFault;
use sim_workload::step::make::{Operations, operations};
use sim_workload::step::overlap::Overlap;

use super::super::collective::exclusive;
use super::Asked;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::scenario::tree::{Node, Value};

/// Reports keys that say one thing twice, or that one of two is missing.
pub(super) fn exclusive_keys(asked: &Asked<'_>, out: &mut Diagnostics) {
    let view = &asked.view;
    exclusive(view, "chunk_layers", &["split"], out);
    exclusive(view, "bucket_size", &["buckets"], out);
    exclusive(view, "grad_accumulation", &["global_batch"], out);
    exclusive(view, "fsdp", &["zero"], out);
    if !view.has("global_batch") && !view.has("grad_accumulation") {
        let fault = Diagnostic::new(Code::MissingKey, "`global_batch` is missing");
        let fault = fault.at(asked.item.place.clone(), "this workload.step lacks `global_batch`");
        out.push(
            fault.help("global_batch = 1024: sequences of a step; or grad_accumulation = 8: micro batches of a rank"),
        );
    }
}

/// The sizes that are asked for on `gpus` ranks.
pub(super) fn spec(asked: &Asked<'_>, gpus: u32, out: &mut Diagnostics) -> Option<SizesSpec> {
    let view = &asked.view;
    let gpus = u64::from(gpus);
    let (tensor, context, pipeline): (u64, u64, u64) = (view.integer("tp")?, view.integer("cp")?, view.integer("pp")?);
    let data: Option<u64> = view.integer("dp");
    let micro_batch: u64 = view.integer("micro_batch")?;
    let global_batch = match view.integer::<u64>("grad_accumulation") {
        Some(micros) => {
            let replica = tensor.saturating_mul(context).saturating_mul(pipeline);
            let data = data.unwrap_or_else(|| (gpus / replica).max(1));
            micros.saturating_mul(data).saturating_mul(micro_batch)
        }
        None => view.integer("global_batch")?,
    };
    if view.has("schedule") && pipeline == 1 && view.integer::<u64>("vp") == Some(1) {
        let fault =
            asked.fault(Code::NoEffect, "`schedule` has no effect", &["schedule"], "a single stage has no schedule");
        out.push(fault.help("pp = 2 or more"));
    }
    Some(SizesSpec {
        gpus,
        tensor,
        context,
        context_kind: match view.choice("cp_kind")? {
            "all-gather" => ContextKind::AllGather,
            "all-to-all" => ContextKind::AllToAll,
            "pytorch" => ContextKind::PyTorch,
            _ => ContextKind::Ring,
        },
        expert: view.integer("ep")?,
        expert_tensor: view.integer("etp")?,
        data,
        pipeline,
        virtual_stages: view.integer("vp")?,
        schedule: view.choice("schedule").map(str::to_owned),
        split: split(asked),
        sequence_parallel: view.has("sequence_parallel").then(|| view.boolean("sequence_parallel")),
        zero: zero(asked),
        shard: view.integer("shard"),
        recompute: match view.choice("recompute")? {
            "none" => Recompute::Nothing,
            "full" => Recompute::Full,
            _ => Recompute::Selective,
        },
        fused_attention: view.boolean("fused_attention"),
        micro_batch,
        global_batch,
        sequence: view.integer("sequence")?,
    })
}

fn split(asked: &Asked<'_>) -> Split {
    if asked.view.has("chunk_layers") {
        let number = |node: &Node| match node.value {
            Value::Integer(Some(n)) => u64::try_from(n).ok(),
            _ => None,
        };
        return Split::Given(asked.view.items("chunk_layers").iter().filter_map(number).collect());
    }
    match asked.view.choice("split") {
        Some("embedding") => Split::Counting { embedding: true, head: false },
        Some("head") => Split::Counting { embedding: false, head: true },
        Some("both") => Split::Counting { embedding: true, head: true },
        _ => Split::Even,
    }
}

fn zero(asked: &Asked<'_>) -> Zero {
    if asked.view.boolean("fsdp") {
        return Zero::Parameters;
    }
    match asked.view.integer::<u8>("zero") {
        Some(1) => Zero::Optimizer,
        Some(2) => Zero::Gradients,
        Some(3) => Zero::Parameters,
        _ => Zero::Replicated,
    }
}

/// The order of ranks.
pub(super) fn order(asked: &Asked<'_>, out: &mut Diagnostics) -> Option<Order> {
    match asked.view.text_or_default("order").parse() {
        Ok(order) => Some(order),
        Err(fault) => {
            let fault = asked.fault(Code::BadSizes, fault.to_string(), &["order"], "not an order of ranks");
            out.push(fault.help("order = \"tp-cp-ep-dp-pp\": the first varies fastest from rank to rank"));
            None
        }
    }
}

/// What runs beside kernels.
pub(super) fn overlap(asked: &Asked<'_>, out: &mut Diagnostics) -> Option<Overlap> {
    let view = asked.view.table_or_empty("overlap");
    let tensor = view.integer("tensor")?;
    let alone = asked.view.integer::<u64>("tp") == Some(1);
    let whole = asked.view.has("sequence_parallel") && !asked.view.boolean("sequence_parallel");
    if tensor > 1 && (alone || whole) {
        let label = if alone { "there is no tensor parallelism" } else { "it needs sequence parallelism" };
        let fault = asked.fault(Code::NoEffect, "`overlap.tensor` has no effect", &["overlap.tensor"], label);
        out.push(fault.help("tp = 2 or more, and `sequence_parallel` left out"));
    }
    Some(Overlap {
        tensor,
        gradients: view.boolean("gradients"),
        parameters: view.boolean("parameters"),
        pipeline: view.boolean("pipeline"),
        context: view.boolean("context"),
        experts: view.boolean("experts"),
    })
}

/// Widths of numbers, and choices of a framework; what has no effect with these sizes is warned of.
pub(super) fn choices(asked: &Asked<'_>, sizes: &Sizes, model: &Model, out: &mut Diagnostics) -> (Widths, Choices) {
    let view = &asked.view;
    let (experts, overlap) = (view.table_or_empty("experts"), view.table_or_empty("overlap"));
    let payload = |key| if experts.choice(key) == Some("fp8") { Payload::FP8 } else { Payload::BF16 };
    let buckets = match (view.size("bucket_size"), view.choice("buckets")) {
        (Some(size), _) => Buckets::Bytes(size.get()),
        (None, Some("ddp")) => Buckets::DDP,
        (None, Some("deepspeed")) => Buckets::DEEPSPEED,
        (None, Some("whole")) => Buckets::Whole,
        (None, _) => Buckets::Megatron,
    };
    let adapters = view.table("lora").and_then(|lora| {
        let on = lora.choice("on")?;
        Some(Adapters { rank: lora.integer("rank")?, attention: on != "ffn", ffn: on != "attention" })
    });
    let sharded = sizes.zero == Zero::Parameters;
    let alone = sizes.zero != Zero::Replicated && sizes.data * sizes.context == 1;
    let idle = [
        ("experts", model.experts.is_none(), "the model has no experts"),
        ("buckets", sharded, "units of ZeRO-3 are layers"),
        ("bucket_size", sharded, "units of ZeRO-3 are layers"),
        ("reshard", !sharded, "it is of ZeRO-3"),
        ("accumulate", sizes.zero != Zero::Gradients, "it is of ZeRO-2"),
        (
            "gather",
            sizes.zero == Zero::Replicated,
            "parameters are gathered only if something is divided: zero = 1 to 3",
        ),
        ("inputs", !sizes.sequence_parallel, "only sequence parallelism gathers them"),
        ("cp_kind", sizes.context == 1, "there is no context parallelism"),
        ("scatter_gather", sizes.sequence_parallel, "with sequence parallelism each rank has a part in any case"),
        ("shard", sizes.zero == Zero::Replicated, "nothing is divided"),
        ("zero", alone, "dp · cp = 1: there is nobody to divide with"),
        ("fsdp", alone, "dp · cp = 1: there is nobody to divide with"),
    ];
    for (key, idle, why) in idle {
        if idle && view.has(key) {
            out.push(asked.fault(Code::NoEffect, format!("`{key}` has no effect"), &[key], why));
        }
    }
    for key in ["prefetch", "prefetch_backward"] {
        if !sharded && overlap.has(key) {
            let (path, why) = (format!("overlap.{key}"), "units of parameters are gathered with ZeRO-3 alone");
            out.push(asked.fault(Code::NoEffect, format!("`{path}` has no effect"), &[&path], why));
        }
    }
    let widths = Widths {
        gradient: if view.choice("gradient") == Some("bf16") { 2 } else { 4 },
        gather: if view.choice("gather") == Some("fp8") { 1 } else { 2 },
        inputs: if view.choice("inputs") == Some("fp8") { 1 } else { 2 },
        optimizer: view.integer("optimizer_bytes").unwrap_or(Widths::default().optimizer),
        logit: view.integer("logit_bytes").unwrap_or(Widths::default().logit),
        ..Widths::default()
    };
    let choices = Choices {
        buckets,
        scatter_gather: view.boolean("scatter_gather"),
        reshard: view.boolean("reshard"),
        prefetch: overlap.integer("prefetch").unwrap_or(1),
        prefetch_back: overlap.integer("prefetch_backward").unwrap_or(1),
        accumulate: view.boolean("accumulate"),
        adapters,
        copies: if experts.choice("copies") == Some("rank") { Copies::Rank } else { Copies::Every },
        dispatch: payload("dispatch"),
        combine: payload("combine"),
    };
    (widths, choices)
}

/// Messages of gradients and parameters in buckets in a step: each is kept for all ranks of a stage.
const MOST_BUCKETS: u64 = 1_000_000;
/// Kernels and messages of a rank in a step: three times what sizes alone are held to, since their count may be as much too high.
const MOST_OPERATIONS: u64 = 60_000_000;

/// Refuses steps of more messages and kernels than can be gone through: buckets of few bytes, products cut in many pieces.
pub(super) fn countable(asked: &Asked<'_>, job: &Job<'_>, overlap: &Overlap, out: &mut Diagnostics) -> Option<()> {
    let Operations { rank, buckets } = operations(job, overlap);
    if buckets > MOST_BUCKETS {
        let label = format!("a rank has {buckets} messages of gradients and parameters in a step");
        let keys = ["bucket_size", "buckets", "accumulate"];
        let fault = asked.fault(Code::TooLarge, "too many messages of gradients", &keys, label);
        let least = match job.choices.buckets {
            Buckets::Bytes(bytes) => {
                let least = u128::from(bytes.max(1)) * u128::from(buckets) / u128::from(MOST_BUCKETS) + 1;
                let least = Bytes::new(u64::try_from(least).unwrap_or(u64::MAX / 2).next_multiple_of(1024));
                format!("bucket_size = \"{least}\" or more")
            }
            _ => "bucket_size = \"1 GiB\", or `accumulate` left out".to_owned(),
        };
        out.push(fault.help(format!("at most {MOST_BUCKETS}: {least}")));
        return None;
    }
    if rank > MOST_OPERATIONS {
        let label = format!("about {rank} kernels and messages of a rank");
        let keys = ["overlap.tensor", "global_batch", "grad_accumulation"];
        let fault = asked.fault(Code::TooLarge, "more messages and kernels than can be gone through", &keys, label);
        let help = "set `overlap.tensor` or `global_batch` lower, or `micro_batch` higher";
        out.push(fault.help(format!("at most {MOST_OPERATIONS}: {help}")));
        return None;
    }
    Some(())
}

/// A fault of sizes at the key that it is about, with the relation and the nearest values that would do.
pub(super) fn fault(asked: &Asked<'_>, fault: &SizeFault, model: &Model, spec: &SizesSpec) -> Diagnostic {
    let relation = |rule: &str| format!("`{rule}` does not hold");
    match fault {
        SizeFault::Zero { key } => asked.fault(Code::BadSizes, fault.to_string(), &[key], "zero"),
        SizeFault::Absurd { key, limit, value } => {
            let keys: Vec<&str> = key.split(" · ").collect();
            asked.fault(Code::BadSizes, format!("`{key} = {value}` is absurd"), &keys, format!("at most {limit}"))
        }
        SizeFault::Product { tensor, context, pipeline, data, product, gpus, choices } => {
            let label = format!("{tensor} · {context} · {pipeline} · {data} = {product}, and there are {gpus} ranks");
            let keys = ["dp", "pp", "cp", "tp", "ranks"];
            let fault = asked.fault(Code::BadSizes, relation("tp · cp · pp · dp = ranks"), &keys, label);
            let choices: Vec<String> = choices.iter().map(|c| c.replace("gpus = ", "ranks = ")).collect();
            fault.help(format!("it would with {}", choices.join(" or ")))
        }
        SizeFault::Rule { rule, values, key, near } => {
            let keys: Vec<&str> = key.split(" · ").collect();
            let found = asked.fault(Code::BadSizes, relation(rule), &keys, values.clone());
            let found = match near.values() {
                [] => found.help(format!("no value of {key} would do")),
                _ => found.help(format!("near: {key} = {near}")),
            };
            found.maybe_help(rule.starts_with("layers %").then(|| counting(model, spec)).flatten())
        }
        SizeFault::Experts { experts, ranks, near } => {
            let label = format!("experts = {experts}, ep = {ranks}");
            asked.fault(Code::BadSizes, relation("experts % ep = 0"), &["ep"], label).help(format!("near: ep = {near}"))
        }
        SizeFault::Needs { what, needs, hint } => {
            let keys: &[&str] = match *what {
                "expert parallelism" => &["ep", "etp"],
                "sequence parallelism" | "`ep > 1` with `tp > 1`" => &["sequence_parallel"],
                "`shard`" => &["shard"],
                "the order of a node's GPUs" => &["placement.locals"],
                "the list of nodes" => &["placement.nodes"],
                _ => &[],
            };
            asked.fault(Code::BadSizes, format!("{what} needs {needs}"), keys, "asked for here").help(hint.clone())
        }
        SizeFault::Operations { micros, layers, each, all, most, most_of_all, fits } => {
            let keys = ["grad_accumulation", "global_batch"];
            let label = format!(
                "{micros} micro batches of {layers} layers a stage are about {each} kernels and messages a rank, {all} in all"
            );
            let found = asked.fault(Code::BadSizes, "the step is too large to be gone through", &keys, label);
            let found = found.note(format!("at most {most} a rank, and {most_of_all} in all"));
            if *fits == 0 {
                return found.help("fewer ranks, or fewer layers a stage");
            }
            let batch = fits.saturating_mul(replicas(spec)).saturating_mul(spec.micro_batch);
            found.help(format!(
                "{fits} micro batches would do, which is global_batch = {batch}; or a larger `micro_batch`"
            ))
        }
        SizeFault::Schedule(ScheduleFault::Unknown { .. }) => {
            asked.fault(Code::BadSizes, fault.to_string(), &["schedule"], "not known")
        }
        SizeFault::Schedule(ScheduleFault::Rule { schedule, rule, values, key, near }) => {
            let message = format!("{}, which the schedule `{schedule}` needs", relation(rule));
            if *key != "m" {
                let found = asked.fault(Code::BadSizes, message, &[key, "schedule"], values.clone());
                return found.help(format!("near: {key} = {near}"));
            }
            // Micro batches are no key: the batch that makes so many.
            let found = asked.fault(Code::BadSizes, message, &["grad_accumulation", "global_batch"], values.clone());
            let batch = |m: &u64| m.saturating_mul(replicas(spec)).saturating_mul(spec.micro_batch).to_string();
            let batches: Vec<String> = near.values().iter().map(batch).collect();
            found.help(format!("near: m = {near}, which is global_batch = {}", batches.join(" or ")))
        }
        SizeFault::Layers { .. } => {
            asked.fault(Code::BadSizes, fault.to_string(), &["chunk_layers"], "layers chunk by chunk")
        }
    }
}

/// Data-parallel ranks.
fn replicas(spec: &SizesSpec) -> u64 {
    let model = spec.tensor.saturating_mul(spec.context).saturating_mul(spec.pipeline);
    spec.data.unwrap_or_else(|| spec.gpus / model.max(1)).max(1)
}

/// The `split` that would make layers even, if there is one.
fn counting(model: &Model, spec: &SizesSpec) -> Option<String> {
    let chunks = spec.pipeline.saturating_mul(spec.virtual_stages).max(1);
    let fits = |further: u64| (model.layers + further).is_multiple_of(chunks);
    let word = if fits(2) {
        "both"
    } else {
        return fits(1).then(|| "split = \"head\" or \"embedding\" would do, too".to_owned());
    };
    Some(format!("split = \"{word}\" would do, too: embedding and head in place of a layer each"))
}
