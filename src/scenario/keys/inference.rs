//! The keys of `[[workload]]` with `kind = "inference"`, `"kv-transfer"` and `"failures"`.

use super::step::MODEL;
use super::tables::{CLASS_KEY, KIND_KEY, NAME_KEY, PATHS_KEY, QPS_KEY, RATE_CONTROL_KEY, RECOVERY_KEY};
use super::{KeySpec, Kind, TableSpec, key};

/// By which NIC a cache goes.
pub(crate) const NIC_CHOICES: &[&str] = &["affine", "pinned", "round-robin", "striped"];
/// Numbers of weights.
pub(crate) const WEIGHTS: &[&str] = &["bf16", "fp8", "fp4"];
/// When requests come.
pub(crate) const ARRIVALS: &[&str] = &["at-once", "even", "poisson", "gamma"];

const SIZE: Kind = Kind::Integer(1, 4096);
const TOKENS: Kind = Kind::Integer(1, 1 << 26);

const MODEL_KEY: KeySpec = key(
    "model",
    Kind::NamedOrTable("a model of the catalogue", "llama3-70b", &MODEL),
    "The model: by its name, or its dimensions in a table.",
)
.required();
const CACHE_KEY: KeySpec = KeySpec {
    default: Some("bf16"),
    ..key("cache", Kind::Choice(&["bf16", "fp8"]), "Numbers of cached keys and values.")
};
const NICS_KEY: KeySpec = KeySpec {
    default: Some("affine"),
    ..key(
        "nics",
        Kind::Choice(NIC_CHOICES),
        "By which NICs of its node a rank's cache goes: its own, one for all (`nic`), all in turn, or all in equal parts.",
    )
};
const NIC_KEY: KeySpec =
    KeySpec { default: Some("0"), ..key("nic", Kind::Integer(0, 1023), "nics = \"pinned\": which.") };
const NIC_SHARE_KEY: KeySpec = KeySpec {
    default: Some("1.0"),
    ..key(
        "nic_share",
        Kind::Number(0.01, 1.0),
        "Share of a NIC's rate at which software feeds it, for all that is posted to it: 0.77 and 0.92 measured (docs/inference.md).",
    )
};
const BLOCK_KEY: KeySpec = KeySpec {
    default: Some("1 MiB"),
    ..key("block", Kind::Size(false), "Bytes of a message, of which each takes `per_block` at least.")
};
const PER_BLOCK_KEY: KeySpec = KeySpec {
    default: Some("0 us"),
    ..key(
        "per_block",
        Kind::Time,
        "Least time of a block in the queue of the NIC that sends it, which is one for all that is posted to the NIC, in order of time, \
         whatever the number of queue pairs: 10.8 us by EFA with a thread for each NIC.",
    )
};
const BASE_KEY: KeySpec = KeySpec {
    default: Some("0 us"),
    ..key("base", Kind::Time, "What both sides agree on before a transfer: 0.4 ms measured with vLLM and Mooncake.")
};

const MAX_BATCH_KEY: KeySpec = KeySpec {
    default: Some("256"),
    ..key(
        "max_batch",
        Kind::Integer(1, 1 << 20),
        "Most requests of each group of `tp` ranks with requests of its own, of which an instance has attention_dp: the engines' \
         max_num_seqs, max_batch_size.",
    )
};

/// Sizes of an instance.
const SIZES: [KeySpec; 5] = [
    KeySpec {
        default: Some("1"),
        ..key("tp", SIZE, "Tensor parallelism: ranks that attention and dense layers are divided over.")
    },
    KeySpec { default: Some("1"), ..key("pp", SIZE, "Stages of a pipeline.") },
    KeySpec {
        default: Some("1"),
        ..key("attention_dp", SIZE, "Groups of `tp` ranks with requests of their own that share the experts.")
    },
    key(
        "ep",
        SIZE,
        "Ranks that experts are divided over. Without it, tp x attention_dp if attention_dp is above 1, else 1.",
    ),
    KeySpec { default: Some("1"), ..key("replicas", SIZE, "Instances: copies of the model.") },
];

pub(crate) static INFERENCE: TableSpec = TableSpec {
    name: "workload.inference",
    doc: "Inference of a transformer: the time of prefill and decode steps with their messages played over the fabric, and requests \
          through continuous batching. docs/inference.md explains what is modelled.",
    keys: &[
        KIND_KEY,
        NAME_KEY,
        MODEL_KEY,
        SIZES[0],
        SIZES[1],
        SIZES[2],
        SIZES[3],
        SIZES[4],
        key("precision", Kind::Choice(WEIGHTS), "Numbers of weights, and what products with them multiply.").default("bf16"),
        CACHE_KEY,
        key(
            "all_reduce",
            Kind::Choice(&["vllm", "tensorrt_llm", "nccl", "one_shot", "two_shot", "ring", "tree", "nvls", "symmetric"]),
            "How sums over tensor parallelism are done: `vllm`, `tensorrt_llm` by their rules of size, `nccl` by its own choice, or \
             an algorithm (docs/algorithms.md).",
        )
        .default("vllm"),
        key(
            "expert_kernel",
            Kind::Choice(&["low_latency", "deepep", "pairwise"]),
            "How tokens go to experts (docs/algorithms.md).",
        )
            .default("low_latency"),
        key(
            "expert_kernel_prefill",
            Kind::Choice(&["deepep", "low_latency", "pairwise"]),
            "The same in steps with prompts.",
        )
        .default("deepep"),
        key("dispatch", Kind::Choice(&["bf16", "fp8"]), "Numbers in which tokens go to experts.").default("fp8"),
        key(
            "imbalance",
            Kind::Number(1.0, 100.0),
            "Load of the rank whose experts have most, over the mean. Real routing has 1.1 to 1.5.",
        )
        .default("1.0"),
        key("two_batches", Kind::Boolean, "Two halves of a batch take turns: messages of one beside kernels of the other.")
            .default("false"),
        key("graphs", Kind::Boolean, "Steps that decode are captured in CUDA graphs.").default("true"),
        key("host", Kind::Time, "Time of the host for each kernel that is in no graph; bounds a step together.").default("0 us"),
        key("overhead", Kind::Time, "Of each step beside kernels and messages: scheduling, sampling.").default("0 us"),
        key("efficiency", Kind::Number(0.01, 10.0), "All rates of kernels times this.").default("1.0"),
        key("gpu", Kind::Named("a GPU with known rates", "h100-sxm"), "Take the rates of this GPU in place of the system's own."),
        key("memory", Kind::Number(0.1, 1.0), "Part of a GPU's memory for weights and cache.").default("0.9"),
        key("prompt", TOKENS, "Tokens of a prompt, the mean.").default("1024"),
        key("output", TOKENS, "Tokens of an answer, the mean.").default("256"),
        key("prompt_variation", Kind::Number(0.0, 10.0), "Standard deviation of prompts over their mean (log-normal).")
            .default("0.0"),
        key("output_variation", Kind::Number(0.0, 10.0), "The same of answers.").default("0.0"),
        key("batch", Kind::List(&Kind::Integer(1, 1 << 20)), "Sequences of the decode steps that are shown. Without it, those of 1, 8, 64 that there is cache for."),
        MAX_BATCH_KEY,
        key(
            "max_tokens",
            TOKENS,
            "Most tokens of a step of each group of `tp` ranks with requests of its own, as `max_batch`: the engines' \
             max_num_batched_tokens, max_num_tokens.",
        )
        .default("8192"),
        key(
            "order",
            Kind::Choice(&["chunked", "prefill-first"]),
            "Each step decodes all and fills up with parts of prompts; or whole prompts have steps of their own, first.",
        )
        .default("chunked"),
        key("requests", Kind::Integer(1, 10_000_000), "Requests that are served. Without it, steps only."),
        key("arrivals", Kind::Choice(ARRIVALS), "When they come.").default("poisson"),
        key("rate", Kind::Number(1e-6, 1e6), "Requests a second; all arrivals but at-once need it.").default("1.0"),
        key("variation", Kind::Number(0.01, 100.0), "gamma: standard deviation of distances over their mean.").default("2.0"),
        key("warm", Kind::Integer(0, 1_000_000), "Requests at the start that quantiles leave out.").default("0"),
        key("decode", Kind::Table(&DECODE), "Answers are made by instances of their own (prefill and decode disaggregated)."),
        key("slo", Kind::Table(&SLO), "What a request may take; asks for the goodput."),
        key(
            "usd_per_gpu_hour",
            Kind::Number(0.001, 10_000.0),
            "Price of a GPU, for tokens by the dollar. Without it, the range of rents that the catalogue has of the GPU, if it has one \
             (`catalog rental`).",
        ),
    ],
};

static DECODE: TableSpec = TableSpec {
    name: "workload.inference.decode",
    doc: "Instances that make answers, on the GPUs after those for prompts, and how caches get there.",
    keys: &[
        SIZES[0],
        SIZES[1],
        SIZES[2],
        SIZES[3],
        SIZES[4],
        MAX_BATCH_KEY,
        key("by_layer", Kind::Boolean, "Layers are sent as soon as they are made; else all after the prefill.")
            .default("true"),
        NICS_KEY,
        NIC_KEY,
        NIC_SHARE_KEY,
        BLOCK_KEY,
        PER_BLOCK_KEY,
        BASE_KEY,
    ],
};

static SLO: TableSpec = TableSpec {
    name: "workload.inference.slo",
    doc: "Limits of a request.",
    keys: &[
        key("ttft", Kind::Time, "To the first token.").required(),
        key("tpot", Kind::Time, "Of each further token.").required(),
        key("share", Kind::Number(0.01, 1.0), "The share of requests that must be within both.").default("0.9"),
    ],
};

pub(crate) static KV_TRANSFER: TableSpec = TableSpec {
    name: "workload.kv-transfer",
    doc: "The cache of prompts from the ranks that made it to those that decode: transfers in the sense of `results.transfers`.",
    keys: &[
        KIND_KEY,
        NAME_KEY,
        MODEL_KEY,
        CACHE_KEY,
        key("tokens", TOKENS, "Tokens of a prompt.").required(),
        key("requests", Kind::Integer(1, 4096), "Prompts at the same time.").default("1"),
        SIZES[0],
        SIZES[1],
        key("decode_tp", SIZE, "Tensor parallelism of the receivers. Without it, `tp`."),
        key("decode_pp", SIZE, "Stages of the receivers. Without it, `pp`."),
        key("from", Kind::Integer(0, 1 << 24), "The first GPU that sends.").default("0"),
        key(
            "to",
            Kind::Integer(0, 1 << 24),
            "The first GPU that receives. Without it, the first of the next node after the senders.",
        ),
        NICS_KEY,
        NIC_KEY,
        NIC_SHARE_KEY,
        BLOCK_KEY,
        PER_BLOCK_KEY,
        BASE_KEY,
        key("start", Kind::Time, "When transfers, or the prefill, start.").default("0 us"),
        key(
            "prefill",
            Kind::Time,
            "Layers are sent one by one, as a prefill of this length makes them. Without it, all at once.",
        ),
        key(
            "with_previous",
            Kind::Boolean,
            "Played at the same time as the transfers of the workload before it, and shares the links with them.",
        )
        .default("false"),
        CLASS_KEY,
        RATE_CONTROL_KEY,
        PATHS_KEY,
        RECOVERY_KEY,
        QPS_KEY,
    ],
};

pub(crate) static FAILURES: TableSpec = TableSpec {
    name: "workload.failures",
    doc: "What failures and checkpoints cost a long run: closed forms and a run with drawn failures. docs/inference.md has the formulas.",
    keys: &[
        KIND_KEY,
        NAME_KEY,
        key("gpus", Kind::Integer(1, 1 << 24), "GPUs of the run. Without it, all of the system."),
        key(
            "gpu_hours",
            Kind::Number(1.0, 1e9),
            "GPU-hours from one failure to the next: 50,600 in Llama 3's run of 54 days on 16,384 H100.",
        )
        .default("50600.0"),
        key("network_share", Kind::Number(0.0, 1.0), "Share of failures that the network causes.").default("0.084"),
        key("checkpoint", Kind::Size(false), "Bytes of a checkpoint, of all GPUs together."),
        key("storage", Kind::Rate, "Rate of the storage that takes it.").default("1000 GB/s"),
        key("pause", Kind::Time, "How long a checkpoint holds the run up. Without it, until all is written."),
        key("interval", Kind::Time, "Work between checkpoints, above zero. Without it, Daly's interval."),
        key("restart", Kind::Time, "From a failure until the run goes on.").default("600 s"),
        key(
            "days",
            Kind::Number(0.01, 100_000.0),
            "Days that are played; failures and checkpoints in them are bounded.",
        )
        .default("54.0"),
    ],
};
