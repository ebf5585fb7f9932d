//! The keys of `[[workload]]` with `kind = "step"`.

use super::experts::EXPERTS;
use super::tables::{COUNT, KIND_KEY, NAME_KEY};
use super::{Kind, TableSpec, key};

/// How the tokens of a sequence are spread for attention.
pub(crate) const CONTEXTS: &[&str] = &["ring", "all-gather", "all-to-all", "pytorch"];
/// The schedules of pipelines.
pub(crate) const SCHEDULES: &[&str] = &["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "dualpipe"];
/// What takes the place of a layer when layers are dealt to chunks.
pub(crate) const SPLITS: &[&str] = &["even", "embedding", "head", "both"];
/// What is computed again.
pub(crate) const RECOMPUTES: &[&str] = &["none", "selective", "full"];
/// Rules of frameworks for the size of a message of gradients.
pub(crate) const BUCKETS: &[&str] = &["megatron", "ddp", "deepspeed", "whole"];
pub(super) const NUMBERS: &[&str] = &["bf16", "fp8"];

const SIZE: Kind = Kind::Integer(1, 1 << 22);

pub(crate) static STEP: TableSpec = TableSpec {
    name: "workload.step",
    doc: "A training step of a transformer: kernels and messages of all ranks, played over the fabric. docs/steps.md explains the keys \
          and what comes out; docs/workloads.md has the formulas.",
    keys: &[
        KIND_KEY,
        NAME_KEY,
        key(
            "model",
            Kind::NamedOrTable("a model of the catalogue", "llama3.1-405b", &MODEL),
            "The model: by its name, or its dimensions in a table.",
        )
        .required(),
        key("ranks", COUNT, "Use the first so many GPUs. Without it, all."),
        key(
            "with_previous",
            Kind::Boolean,
            "Another job: it begins together with the step of the workload before it, on other GPUs, and shares the network with it.",
        )
        .default("false"),
        key("tp", SIZE, "Tensor parallelism: ranks that a layer's matrices are divided over.").default("1"),
        key("cp", SIZE, "Context parallelism: ranks that a sequence is divided over.").default("1"),
        key(
            "cp_kind",
            Kind::Choice(CONTEXTS),
            "How: blocks of keys and values go round in a ring; or they are gathered before attention; or heads are exchanged for \
             tokens before and after it (Ulysses); or PyTorch's `context_parallel` as torchtitan uses it: keys and values of all query heads are gathered \
             beside the first block, their gradients go round in fp32.",
        )
        .default("ring"),
        key("pp", SIZE, "Stages of the pipeline.").default("1"),
        key("vp", SIZE, "Chunks of a stage (virtual pipeline).").default("1"),
        key(
            "schedule",
            Kind::Choice(SCHEDULES),
            "The order of work in the stages. Without it, 1f1b, or interleaved if `vp` is above 1.",
        ),
        key(
            "split",
            Kind::Choice(SPLITS),
            "How layers are dealt to the chunks: evenly, where the embedding, the head or both take the place of a layer \
             (126 = 8 x 16 - 2).",
        )
        .default("even"),
        key(
            "chunk_layers",
            Kind::List(&Kind::Integer(0, 1 << 14)),
            "Layers of each chunk in the order of the model: chunk c of stage s is number c x pp + s. Excludes `split`.",
        ),
        key("dp", SIZE, "Data parallelism. Without it, what is left of the ranks."),
        key("ep", SIZE, "Expert parallelism: ranks that experts are divided over, out of tp x cp x dp.").default("1"),
        key("etp", SIZE, "Tensor parallelism of experts.").default("1"),
        key(
            "zero",
            Kind::Integer(0, 3),
            "What is divided over data-parallel ranks: 0 nothing, 1 states of the optimizer (Megatron's distributed optimizer), 2 \
             gradients too, 3 parameters too.",
        )
        .default("0"),
        key("fsdp", Kind::Boolean, "The same as `zero = 3`. Excludes `zero`.").default("false"),
        key(
            "shard",
            SIZE,
            "Ranks that it is divided over; the others have copies of the shards (HSDP). Without it, all dp x cp.",
        ),
        key(
            "sequence_parallel",
            Kind::Boolean,
            "What tensor parallelism does not divide is divided by tokens. Without it, if `tp` is above 1.",
        ),
        key("recompute", Kind::Choice(RECOMPUTES), "What is computed again in the backward pass: the core of attention, or layers.")
            .default("selective"),
        key("fused_attention", Kind::Boolean, "The core of attention is one kernel (flash attention).").default("true"),
        key("micro_batch", SIZE, "Sequences of a micro batch.").default("1"),
        key("global_batch", Kind::Integer(1, 1 << 32), "Sequences of a step. This or `grad_accumulation` is due."),
        key(
            "grad_accumulation",
            SIZE,
            "Micro batches of a step and data-parallel rank, in place of `global_batch`.",
        ),
        key("sequence", Kind::Integer(1, 1 << 28), "Tokens of a sequence.").default("4096"),
        key(
            "order",
            Kind::Named("dimensions, the fastest first,", "tp-cp-ep-dp-pp"),
            "The order of ranks, as Megatron's `--use-tp-pp-dp-mapping` and its kind set it.",
        )
        .default("tp-cp-ep-dp-pp"),
        key("precision", Kind::Choice(&["bf16", "fp8", "fp4"]), "The numbers that products with weights multiply.").default("bf16"),
        key("gradient", Kind::Choice(&["fp32", "bf16"]), "The numbers in which gradients are kept and reduced.")
            .default("fp32"),
        key("gather", Kind::Choice(NUMBERS), "The numbers in which parameters are gathered.").default("bf16"),
        key(
            "inputs",
            Kind::Choice(NUMBERS),
            "With sequence parallelism: the numbers in which tensor groups gather inputs of products and gradients of results. Transformer Engine puts \
             them in 8 bits before, if products are in 8.",
        )
        .default("bf16"),
        key(
            "optimizer_bytes",
            Kind::Integer(0, 64),
            "Bytes of the optimizer's states of a parameter: 12 for Adam with fp32 main weights.",
        )
        .default("12"),
        key(
            "logit_bytes",
            Kind::Integer(1, 64),
            "Bytes of a logit while the loss is worked out: 4 where that is fused, up to 10 where copies are there at once.",
        )
        .default("4"),
        key(
            "buckets",
            Kind::Choice(BUCKETS),
            "How gradients are cut into messages: as Megatron, PyTorch DDP or DeepSpeed do by default, or not at all. Not in ZeRO-3, \
             whose units are layers.",
        )
        .default("megatron"),
        key("bucket_size", Kind::Size(false), "Bytes of gradients in a message, in place of `buckets`."),
        key(
            "scatter_gather",
            Kind::Boolean,
            "Without sequence parallelism, each rank of a tensor group sends a part of what passes to the next stage.",
        )
        .default("true"),
        key("reshard", Kind::Boolean, "ZeRO-3: parameters are let go after the forward pass, and gathered again.")
            .default("true"),
        key("accumulate", Kind::Boolean, "ZeRO-2: gradients are summed over the micro batches before they are reduced.")
            .default("true"),
        key("lora", Kind::Table(&LORA), "Only low-rank adapters are trained."),
        key("experts", Kind::Table(&EXPERTS), "What is sent to experts, by which kernels, and how uneven it is."),
        key("overlap", Kind::Table(&OVERLAP), "Which messages run beside kernels."),
        key("compute", Kind::Table(&COMPUTE), "How long kernels take."),
        key("jitter", Kind::Table(&JITTER), "GPUs that are not equal, and kernels that don't always take as long."),
        key("slow_ranks", Kind::Tables(&SLOW_RANK), "Ranks that are slower than the others, or begin later."),
        key("placement", Kind::Table(&PLACEMENT), "Which GPU each rank takes."),
        key("memory", Kind::Table(&MEMORY), "What can be filled of a GPU's memory."),
        key("memory_check", Kind::Boolean, "A step that does not fit into memory is refused; false: only warned of.")
            .default("true"),
        key(
            "reuse",
            Kind::Boolean,
            "A message whose network is as one already simulated found it is not simulated again; the times are the same.",
        )
        .default("true"),
        key("steps", Kind::Integer(1, 1000), "Steps that are played one after the other, each with its own jitter.")
            .default("1"),
    ],
};

pub(super) static MODEL: TableSpec = TableSpec {
    name: "workload.step.model",
    doc: "A model that is not in the catalogue, by its dimensions.",
    keys: &[
        key("name", Kind::Text, "What it is called in results."),
        key("layers", Kind::Integer(1, 1 << 14), "Transformer layers.").required(),
        key("hidden", Kind::Integer(1, 1 << 22), "Hidden width.").required(),
        key("heads", Kind::Integer(1, 1 << 14), "Query heads.").required(),
        key("vocab", Kind::Integer(1, 1 << 28), "Vocabulary, padded.").required(),
        key("kv_heads", Kind::Integer(1, 1 << 14), "Key-value heads. Without it, as many as query heads."),
        key("head_dim", Kind::Integer(1, 1 << 16), "Width of a head. Without it, hidden / heads."),
        key("ffn", Kind::Integer(0, 1 << 22), "Width of a dense FFN.").default("0"),
        key("gated", Kind::Boolean, "The FFN is gated (SwiGLU): three matrices in place of two.").default("false"),
        key("tied", Kind::Boolean, "The output head is the embedding.").default("false"),
        key("biases", Kind::Boolean, "Matrices have biases.").default("false"),
        key("layer_norm", Kind::Boolean, "LayerNorm in place of RMSNorm.").default("false"),
        key("positions", Kind::Integer(0, 1 << 28), "Learned position embeddings.").default("0"),
        key("window", Kind::Integer(1, 1 << 28), "Tokens that layers with a sliding window look back."),
        key("window_every", Kind::Integer(1, 1 << 14), "One layer in so many has the window. Without it, all."),
        key("query_rank", Kind::Integer(1, 1 << 22), "MLA: rank of the compression of queries."),
        key(
            "kv_rank",
            Kind::Integer(1, 1 << 22),
            "MLA: rank of the compression of keys and values; makes the attention MLA.",
        ),
        key("nope_dim", Kind::Integer(1, 1 << 16), "MLA: width of a head's query and key without position."),
        key("rope_dim", Kind::Integer(0, 1 << 16), "MLA: width of a head's query and key with rotary position."),
        key("value_dim", Kind::Integer(1, 1 << 16), "MLA: width of a head's value."),
        key("experts", Kind::Integer(1, 1 << 16), "Experts of a layer."),
        key("top_k", Kind::Integer(1, 1 << 16), "Experts of a token."),
        key("expert_ffn", Kind::Integer(1, 1 << 22), "Width of an expert's FFN."),
        key("shared_experts", Kind::Integer(0, 1 << 8), "Experts that every token goes to.").default("0"),
        key("dense_layers", Kind::Integer(0, 1 << 14), "The first layers that have no experts.").default("0"),
        key("expert_groups", Kind::Integer(1, 1 << 16), "Groups of experts."),
        key("top_groups", Kind::Integer(1, 1 << 16), "Groups that a token may choose experts of."),
        key("mtp_layers", Kind::Integer(0, 64), "Layers of multi-token prediction.").default("0"),
    ],
};

static LORA: TableSpec = TableSpec {
    name: "workload.step.lora",
    doc: "Low-rank adapters beside frozen matrices.",
    keys: &[
        key("rank", Kind::Integer(1, 1 << 16), "The rank.").required(),
        key("on", Kind::Choice(&["attention", "ffn", "all"]), "The matrices that have one.").default("attention"),
    ],
};

static OVERLAP: TableSpec = TableSpec {
    name: "workload.step.overlap",
    doc: "Which messages run beside kernels; what does not stands between them.",
    keys: &[
        key(
            "tensor",
            Kind::Integer(1, 64),
            "Pieces in which a tensor-parallel message and the matrix product next to it are cut; 1: not at all. Needs sequence \
             parallelism.",
        )
        .default("1"),
        key("gradients", Kind::Boolean, "Gradients are reduced in the last backward pass; else after it.").default("true"),
        key("parameters", Kind::Boolean, "Parameters are gathered in the first forward pass; else after the update.")
            .default("true"),
        key("pipeline", Kind::Boolean, "What passes between stages holds up neither end; else both wait for it.")
            .default("true"),
        key("context", Kind::Boolean, "Keys and values are sent on while attention works on the block before.")
            .default("true"),
        key("experts", Kind::Boolean, "Tokens go to experts while shared experts work.").default("true"),
        key(
            "two_batches",
            Kind::Boolean,
            "Each micro batch is worked on in two halves that take turns: kernels of one while messages of the other are under way. An even \
             `micro_batch`.",
        )
        .default("false"),
        key("prefetch", Kind::Integer(0, 64), "ZeRO-3: units of parameters that are gathered ahead of the one in use.")
            .default("1"),
        key(
            "prefetch_backward",
            Kind::Integer(0, 64),
            "The same in the backward pass: 0 as PyTorch FSDP's `BACKWARD_POST`, which gathers a unit when gradients of the one before are done.",
        )
        .default("1"),
    ],
};

static COMPUTE: TableSpec = TableSpec {
    name: "workload.step.compute",
    doc: "How long kernels take. Without it, as the best rates of the system's GPU say (`sim-workload/data/compute.toml`).",
    keys: &[
        key(
            "efficiency",
            Kind::Number(0.01, 10.0),
            "All rates of kernels times this: the one number to fit to a measured step.",
        )
        .default("1.0"),
        key(
            "law",
            Kind::Choice(&["tiles", "calculon"]),
            "Shares of the peak (of `precision`) that matrix products reach: by the tiles that a product is cut in, or Calculon's by its \
             operations.",
        )
        .default("tiles"),
        key(
            "profile",
            Kind::Named("a path", "kernels.toml"),
            "Measured times of kernels that take the law's place, relative to this file.",
        ),
        key(
            "gpu",
            Kind::Named("a GPU with known rates", "h100-sxm"),
            "Take the rates of this GPU in place of the system's own.",
        ),
        key(
            "launch",
            Kind::Time,
            "Between two kernels. Without it, 2 us, or 0 by Calculon's law, whose shares have it in them; 0 for captured graphs.",
        ),
        key(
            "scale_up_loss",
            Kind::Number(0.0, 0.9),
            "The part of a GPU that kernels lose beside messages of groups with several ranks in a scale-up domain. \
             Without it, 0.15.",
        ),
        key(
            "scale_out_loss",
            Kind::Number(0.0, 0.9),
            "The same beside messages that go over NICs alone. Without it, 0.02.",
        ),
    ],
};

static JITTER: TableSpec = TableSpec {
    name: "workload.step.jitter",
    doc: "Random laws of kernels and GPUs, each with its own stream of the scenario's seed.",
    keys: &[
        key("kernel_sigma", Kind::Number(0.0, 1.0), "Standard deviation of the logarithm of a kernel's time.")
            .default("0.0"),
        key("gpu_sigma", Kind::Number(0.0, 1.0), "Standard deviation of the logarithm of a GPU's lasting factor.")
            .default("0.0"),
        key("straggler_share", Kind::Number(0.0, 1.0), "Share of GPUs that are slow for good.").default("0.0"),
        key("straggler_slowdown", Kind::Number(0.0, 100.0), "How much longer they take: 0.1 for a tenth.")
            .default("0.1"),
    ],
};

pub(crate) static SLOW_RANK: TableSpec = TableSpec {
    name: "workload.step.slow_ranks",
    doc: "A rank that is slower, or begins later.",
    keys: &[
        key("rank", Kind::Integer(0, 1 << 22), "The rank.").required(),
        key("factor", Kind::Number(0.01, 1000.0), "Its kernels take so many times as long.").default("1.0"),
        key("delay", Kind::Time, "It begins each step so much later.").default("0 us"),
    ],
};

static PLACEMENT: TableSpec = TableSpec {
    name: "workload.step.placement",
    doc: "Which GPU each rank takes. Without it, rank i takes GPU i, node by node.",
    keys: &[
        key(
            "segment",
            SIZE,
            "Consecutive ranks that are put in one scale-up domain, of whole nodes; the rest of it stays idle. MLPerf puts 64 in an \
             NVL72.",
        ),
        key(
            "locals",
            Kind::List(&Kind::Integer(0, 1023)),
            "The GPU of a node that each of its ranks takes: [0, 4, 2, 6, 1, 5, 3, 7].",
        ),
        key(
            "nodes",
            Kind::List(&Kind::Integer(0, 1_000_000)),
            "The node that each run of ranks takes, in their order, in place of 0, 1, 2 ...",
        ),
    ],
};

static MEMORY: TableSpec = TableSpec {
    name: "workload.step.memory",
    doc: "What can be filled of a GPU's memory.",
    keys: &[
        key("usable", Kind::Number(0.1, 1.0), "The part that can be filled; fragments and the driver take the rest.")
            .default("0.9"),
        key("buffers", Kind::Size(true), "Buffers of communicators and workspaces.").default("2 GB"),
        key("size", Kind::Size(false), "The memory of a GPU, in place of its own."),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_has_its_word() {
        let names: Vec<&str> = sim_workload::pipeline::all().map(|s| s.name()).collect();
        assert_eq!(names, SCHEDULES);
    }
}
