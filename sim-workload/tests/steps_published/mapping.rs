//! A published row as a job. What the row does not state follows from rules for whole families, none for a row; which were used
//! stands beside each row in the pages.

use std::collections::BTreeSet;

use sim_workload::compute::Number;
use sim_workload::experts::Copies;
use sim_workload::job::{Choices, Job, Widths};
use sim_workload::messages::Buckets;
use sim_workload::model::activations::Recompute;
use sim_workload::model::{Adapters, Model, Models};
use sim_workload::parallel::split::Split;
use sim_workload::parallel::{ContextKind, Order, Placement, Ranks, Sizes, SizesSpec, Zero};
use sim_workload::step::overlap::Overlap;

use crate::cluster::{self, Cluster};
use crate::rows::Row;

/// The rules, by letter. A family's rule holds for all of its rows that don't state the thing.
pub(crate) const RULES: &[(char, &str)] = &[
    ('b', "one sequence a micro batch"),
    ('c', "MoE tokens go once to each rank that holds an expert of theirs (DeepEP, HybridEP), in 16 bits both ways"),
    ('d', "gradients and updated parameters are moved beside the backward and forward pass"),
    ('f', "parameters are gathered in 8 bits where products are in 8"),
    ('g', "gradients are reduced in 16 bits"),
    ('h', "the head is not tied, layers are spread so that embedding and head count as one each"),
    ('k', "adapters of rank 16 on attention"),
    ('l', "layers that don't divide evenly: as even as possible, the last chunks fewer"),
    ('n', "the network of the vendor's reference system, rail-optimised and not oversubscribed"),
    ('o', "Megatron's rank order, tp-cp-ep-dp-pp"),
    ('p', "16-bit products, or 8-bit ones as the round's reference code"),
    ('r', "nothing is recomputed beyond what flash attention does"),
    ('s', "operations are counted with the full square of attention, and the time follows from them"),
    ('t', "tensor-parallel messages are cut in four beside matrix products where tp > 1"),
    ('v', "as many chunks a stage as put one layer in each (of 126 layers two fewer)"),
    ('z', "states of the optimizer are divided over data-parallel ranks (ZeRO-1)"),
];

/// A row that can be played.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) row: Row,
    /// The published time, or what the published figure comes to.
    pub(crate) seconds: f64,
    pub(crate) model: Model,
    pub(crate) sizes: Sizes,
    pub(crate) widths: Widths,
    pub(crate) choices: Choices,
    pub(crate) overlap: Overlap,
    pub(crate) number: Number,
    /// Kernels run from recorded graphs.
    pub(crate) graph: bool,
    pub(crate) cluster: Cluster,
    pub(crate) placement: Placement,
    pub(crate) order: Order,
    pub(crate) ranks: Ranks,
    pub(crate) guesses: BTreeSet<char>,
    /// The published time is below what kernels alone take at the best rates: the row can't be as it is stated.
    pub(crate) contradicts: bool,
}

impl Case {
    pub(crate) fn job(&self) -> Job<'_> {
        Job { widths: self.widths, choices: self.choices, ..Job::training(&self.model, &self.sizes) }
    }

    /// Rows that one number is fitted to: a family's on one GPU, and of one software.
    pub(crate) fn group(&self) -> String {
        let (family, gpu) = (self.row.family, &self.row.gpu);
        let software = match family {
            "megascale" if self.row.tagged("megascale") => " megascale",
            "megascale" => " megatron",
            "megatron-bridge" if self.model.experts.is_some() => " experts",
            "torchtitan"
                if !self.row.tagged("compile") && self.row.model == "llama3.1-8b" && self.row.gpu == "h100-sxm" =>
            {
                " eager"
            }
            "mlperf-gpt3" if self.row.name.starts_with("v3.1") => " v3.1",
            "mlperf-gpt3" => " v4.1",
            _ => "",
        };
        let numbers = match self.row.number.as_deref() {
            Some("fp4" | "nvfp4") => " fp4",
            Some("fp8-rowwise") => " rowwise",
            _ => "",
        };
        format!("{family} {gpu}{software}{numbers}")
    }
}

/// The job of a row.
///
/// # Errors
/// Why it can't be written.
pub(crate) fn case(row: &Row) -> Result<Case, String> {
    let mut guesses = BTreeSet::new();
    let mut guess = |rule: char| {
        guesses.insert(rule);
    };
    if row.tagged("sizes do not multiply") {
        return Err("the printed sizes do not multiply to the number of GPUs".to_owned());
    }
    let cluster = cluster::of(row)?;
    let Some(tensor) = row.tp else { return Err("no parallelism is stated".to_owned()) };
    let mut model = Models::builtin().get(&row.model).map_err(|e| e.to_string())?.model.clone();
    if row.tagged("no-mtp") {
        model.mtp_layers = 0;
    }
    let megatron = !matches!(row.family, "torchtitan" | "llm-foundry-fsdp");
    let pipeline = row.pp.unwrap_or(1);
    let virtual_stages = row.vp.unwrap_or_else(|| {
        if pipeline > 1 && row.family == "llama3" {
            guess('v');
            (model.layers + 2) / pipeline
        } else {
            1
        }
    });
    let context = row.cp.unwrap_or(1);
    let micro_batch = match (row.mbs, row.local_batch) {
        (Some(mbs), _) => mbs,
        (None, Some(local)) if pipeline == 1 => local,
        (None, Some(_)) => 1,
        (None, None) => {
            guess('b');
            1
        }
    };
    let recompute = match row.recompute.as_deref() {
        Some("full") => Recompute::Full,
        Some("selective" | "none") => Recompute::Selective,
        _ => {
            guess('r');
            Recompute::Selective
        }
    };
    let unfused = matches!(row.family, "megatron-sc21" | "megatron-seqsel");
    let zero = match row.family {
        "torchtitan" | "llm-foundry-fsdp" => Zero::Parameters,
        _ if row.fsdp.is_some() => Zero::Parameters,
        "megatron-sc21" | "megatron-seqsel" => Zero::Replicated,
        "llama3" => Zero::Gradients,
        _ => {
            guess('z');
            Zero::Optimizer
        }
    };
    if row.network.is_none() && row.gpus > cluster.domain {
        guess('n');
    }
    let order: Order = match &row.order {
        Some(order) => order.parse().map_err(|e| format!("{e}"))?,
        None => {
            if megatron && pipeline > 1 {
                guess('o');
            }
            Order::default()
        }
    };
    let parts = pipeline * virtual_stages;
    let split = if model.layers.is_multiple_of(parts) {
        Split::Even
    } else if (model.layers + 2).is_multiple_of(parts) {
        guess('h');
        Split::Counting { embedding: true, head: true }
    } else {
        guess('l');
        let (each, more) = (model.layers / parts, model.layers % parts);
        Split::Given((0..parts).map(|i| each + u64::from(i < more)).collect())
    };
    let spec = SizesSpec {
        gpus: row.gpus,
        tensor,
        context,
        context_kind: match row.family {
            "llama3" => ContextKind::AllGather,
            "torchtitan" => ContextKind::PyTorch,
            _ => ContextKind::Ring,
        },
        expert: row.ep.unwrap_or(1),
        data: row.dp,
        pipeline,
        virtual_stages,
        schedule: row.schedule.clone(),
        split,
        sequence_parallel: unfused.then_some(recompute != Recompute::Full && tensor > 1),
        zero,
        recompute,
        fused_attention: !unfused,
        micro_batch,
        global_batch: row.gbs.unwrap_or(15360),
        sequence: row.seq,
        ..SizesSpec::default()
    };
    let sizes =
        spec.check(&model).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let number = match row.number.as_deref() {
        Some("bf16" | "fp16") => Number::Bf16,
        Some("fp8" | "fp8-tensorwise" | "fp8-rowwise" | "mxfp8") => Number::Fp8,
        Some("fp4" | "nvfp4") => Number::Fp4,
        _ => {
            guess('p');
            Number::Fp8
        }
    };
    let gather = match row.fp8_gather {
        Some(eight) => 2 - u64::from(eight),
        None if row.tagged("fp8-gather") => 1,
        None if row.family == "megatron-bridge" && number == Number::Fp8 => {
            guess('f');
            1
        }
        None => 2,
    };
    // What a tensor group gathers is put in 8 bits before: Transformer Engine with fp8, torchtitan with scales by tensor.
    let inputs = match row.number.as_deref() {
        Some("fp8-rowwise") => 2,
        _ if number == Number::Bf16 => 2,
        _ => 1,
    };
    let gradient = match row.family {
        "torchtitan" | "llama3" | "megascale" => 4,
        _ => {
            guess('g');
            2
        }
    };
    let adapters = row.tagged("lora").then(|| {
        guess('k');
        Adapters::on_attention(16)
    });
    if model.experts.is_some() {
        guess('c');
    }
    let cut = match row.tp_overlap {
        Some(cut) => cut,
        None if row.tagged("async-tp") => true,
        None if row.family == "megatron-bridge" && tensor > 1 => {
            guess('t');
            true
        }
        None => false,
    };
    let beside = |stated: Option<bool>, guess: &mut dyn FnMut(char)| match stated {
        Some(beside) => beside,
        None if matches!(row.family, "megatron-sc21" | "megatron-seqsel") => false,
        None if row.family == "megascale" && !row.tagged("megascale") => false,
        None => {
            guess('d');
            true
        }
    };
    let gradients = beside(row.grad_overlap, &mut guess);
    let parameters = beside(row.param_overlap, &mut guess);
    let overlap =
        Overlap { tensor: if cut { 4 } else { 1 }, gradients, parameters, pipeline: !unfused, ..Overlap::default() };
    let widths = Widths { gradient, gather, inputs, ..Widths::default() };
    let choices = Choices {
        adapters,
        // Composer's default (composer/trainer/dist_strategy.py of 0.16), and what PyTorch says of it.
        prefetch_back: u64::from(row.family != "llm-foundry-fsdp"),
        copies: if model.experts.is_some() { Copies::Rank } else { Copies::Every },
        buckets: match row.bucket_mb {
            Some(mb) if pipeline == 1 => Buckets::Bytes(mb << 20),
            _ => Buckets::Megatron,
        },
        ..Choices::default()
    };
    let seconds = match (row.seconds, &row.figure) {
        (Some(seconds), _) => seconds,
        (None, Some(figure)) => {
            let value: f64 = figure.split(' ').next().and_then(|v| v.parse().ok()).ok_or("no figure")?;
            if row.family == "deepseek-v3" {
                value * 3600.0 / 1e12 * (spec.global_batch * row.seq) as f64 / row.gpus as f64
            } else {
                guess('s');
                let counted = sim_workload::model::flops::Counted::FULL;
                let flops = model.training_flops(1, row.seq, counted).get() as f64;
                flops * spec.global_batch as f64 / (value * 1e12 * row.gpus as f64)
            }
        }
        (None, None) => return Err("neither time nor rate".to_owned()),
    };
    let placement = Placement {
        per_node: row.node,
        nodes_per_domain: cluster.domain.div_ceil(row.node).min(row.gpus.div_ceil(row.node)),
        segment: segment(row, &sizes),
        locals: None,
        nodes: None,
    };
    placement.check(row.gpus).map_err(|f| f.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let ranks = Ranks::new(&order, &sizes).map_err(|e| e.to_string())?;
    Ok(Case {
        row: row.clone(),
        seconds,
        model,
        sizes,
        widths,
        choices,
        overlap,
        number,
        graph: row.graph.unwrap_or(false),
        cluster,
        placement,
        order,
        ranks,
        guesses,
        contradicts: false,
    })
}

/// GPUs of an NVL72 that a job takes: 64 if it has more than a rack of them and 72 do not divide them.
fn segment(row: &Row, sizes: &Sizes) -> Option<u64> {
    if !row.gpu.starts_with("gb") || row.gpus <= 72 {
        return None;
    }
    let stated = row.segment.map(|trays| trays * row.node);
    stated.or_else(|| (!sizes.gpus.is_multiple_of(72)).then_some(64))
}
