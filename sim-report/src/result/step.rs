//! Results of training steps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many rows [`StepResult::critical_path`] lists at most.
pub const MAX_PATH: usize = 1_000;

/// What a step is made of, known before it is played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepOutline {
    /// The name of the workload, else of the model.
    pub name: String,
    /// The model in words.
    pub model: String,
    /// The sizes in words.
    pub sizes: String,
    /// The order of ranks.
    pub order: String,
    /// Ranks.
    pub gpus: u64,
    /// Ranks of tensor, context, pipeline, data and expert parallelism by their short names, with chunks (`vp`).
    pub parallelism: BTreeMap<String, u64>,
    /// Micro batches of a step and data-parallel rank.
    pub micro_batches: u64,
    /// Tokens of a step.
    pub tokens: u64,
    /// Parameters of the model.
    pub parameters: u64,
    /// Parameters that work on a token; the same for a model without experts.
    pub active_parameters: u64,
    /// Parameters of the fullest rank.
    pub parameters_of_rank: u64,
    /// The memory of the fullest rank.
    pub memory: StepMemory,
    /// Messages of a rank of `messages_of_stage`, by kind of group and operation.
    pub messages: Vec<StepMessages>,
    /// The stage whose ranks send most.
    pub messages_of_stage: u64,
    /// Where the times of kernels come from.
    pub kernels: String,
    /// Whether these are the best that a GPU was seen to do: neither a share that was fitted (`efficiency`) nor measured kernels.
    #[serde(default)]
    pub best_kernels: bool,
    /// Work of a step that counts for MFU, TFLOP: causal attention, nothing recomputed.
    pub model_tflop: f64,
    /// Dense peak that MFU is of, TFLOP/s a GPU.
    pub peak_tflops: f64,
    /// The longest time of kernels of a stage in a step, as if nothing waited, without the optimizer.
    pub kernels_us: f64,
    /// Idle share of a step by the closed form of the schedule for equal stages without messages; absent for one stage, or where
    /// there is no such form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_bubble: Option<f64>,
}

/// The memory of the fullest rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMemory {
    /// Its stage.
    pub stage: u64,
    /// Parts by name, the largest first.
    pub parts: Vec<StepMemoryPart>,
    /// All parts.
    pub total_bytes: u64,
    /// What can be filled.
    pub limit_bytes: u64,
    /// The memory of the GPU.
    pub gpu_bytes: u64,
}

/// A part of a rank's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMemoryPart {
    /// What it is.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Messages of one rank in one kind of group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMessages {
    /// The kind of group: `tp`, `dp-cp`, `pp`, ...
    pub group: String,
    /// What its ranks do.
    pub operation: String,
    /// What they are, in words.
    pub names: String,
    /// Ranks of a group.
    pub ranks: u64,
    /// Groups of this kind.
    #[serde(default)]
    pub groups: u64,
    /// How many of them are on several scale-up domains.
    #[serde(default)]
    pub leaving: u64,
    /// Nodes that a group is on, of the one that is spread most.
    pub nodes: u64,
    /// Scale-up domains that it is on.
    pub domains: u64,
    /// Rails that it is on; 0 where the network has none.
    pub rails: u64,
    /// How often they come in a step.
    pub count: u64,
    /// Size of the largest.
    pub bytes: u64,
    /// What the rank sends of all of them in a step, at least.
    pub wire_bytes: u64,
    /// What they may run beside, in words.
    pub beside: String,
}

/// Where the time of a rank went. The parts add up to the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepParts {
    /// Forward and backward kernels, with what messages beside them slow them down.
    pub compute_us: f64,
    /// No kernel ran, and the next one waited for messages under way.
    pub exposed_comm_us: f64,
    /// The same by kind of message, by the short names of [`Exposed`](super::Exposed): `tp`, `cp`, `pp`, `dp`, `ep`, `etp`, `ends`, `all`.
    pub exposed_us: BTreeMap<String, f64>,
    /// Waiting for another stage.
    pub bubble_us: f64,
    /// The optimizer's kernels.
    pub optimizer_us: f64,
    /// Waiting for a member of a group that was late.
    pub straggler_wait_us: f64,
}

/// A rank and where its time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRank {
    /// The rank.
    pub rank: u32,
    /// Its GPU.
    pub device: String,
    /// Its stage.
    pub stage: u64,
    /// Its time.
    #[serde(flatten)]
    pub parts: StepParts,
}

/// A stage: the mean of its ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepStage {
    /// Its number.
    pub stage: u64,
    /// Its time.
    #[serde(flatten)]
    pub parts: StepParts,
}

/// Pieces of the critical path that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepPath {
    /// What they are.
    pub what: String,
    /// `compute`, or the kind of group of a message.
    pub kind: String,
    /// When in the step.
    pub phase: String,
    /// How many pieces.
    pub count: u64,
    /// Their time.
    pub time_us: f64,
    /// Their share of the step.
    pub share: f64,
}

/// A rank whose kernels take longer than those of its stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSlow {
    /// The rank.
    pub rank: u32,
    /// Its GPU.
    pub device: String,
    /// Its time of kernels over the median of its stage.
    pub factor: f64,
}

/// Waiting for ranks that came late to a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepLate {
    /// What they did before they came.
    pub what: String,
    /// How long the mean rank waited for that.
    pub time_us: f64,
    /// The rank that was waited for most.
    pub rank: u32,
    /// Its GPU.
    pub device: String,
    /// How long the mean rank waited for this one.
    pub of_rank_us: f64,
}

/// Tokens on their way to experts and back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepExperts {
    /// What takes them there, in words.
    pub kernel: String,
    /// Ranks that share the experts.
    pub ranks: u64,
    /// Scale-up domains that these are on.
    pub domains: u64,
    /// The load of the fullest rank over the mean of even loads; the mean of all draws.
    pub fullest: f64,
    /// The same of the draw in which it is largest.
    pub fullest_of_draws: f64,
    /// Draws of loads.
    pub draws: u64,
    /// What is dropped of all copies of tokens, 0..1.
    pub dropped: f64,
    /// By kind of message.
    pub messages: Vec<StepExchange>,
}

/// Messages of one kind to experts, or back; bytes and rates of the mean rank in the mean message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepExchange {
    /// What they are.
    pub what: String,
    /// How many there are in all groups.
    pub count: u64,
    /// From when the last rank has come to when the last has what it gets.
    pub time_us: f64,
    /// What makers of kernels count: also what stays on the rank or in its node.
    pub logical_bytes: f64,
    /// Over its NICs.
    pub network_bytes: f64,
    /// Over the scale-up network, as a relay of others, too.
    pub scale_up_bytes: f64,
    /// Logical bytes over the time.
    pub logical_gbyte_per_s: f64,
    /// Bytes over its NICs, over the time.
    pub network_gbyte_per_s: f64,
    /// Bytes over the scale-up network, over the time.
    pub scale_up_gbyte_per_s: f64,
}

/// What was simulated of the messages, and what was known already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepReuse {
    /// Messages and collectives of the step.
    pub calls: u64,
    /// Those of all jobs that run together and of the traffic beside them, where there are such; what follows is of all of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<u64>,
    /// Those that were simulated. What was not is known to the last picosecond.
    pub played: u64,
    /// Events that were played for them.
    pub events_played: u64,
    /// Events that were not, as they were known; below zero where finding out what is known took more than it saved.
    pub events_saved: i64,
    /// Why nothing was taken from before, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A step of training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Duration of the step; the median of several.
    pub time_us: f64,
    /// Where it went, of the mean rank.
    #[serde(flatten)]
    pub parts: StepParts,
    /// Tokens a second, of all GPUs.
    pub tokens_per_s: f64,
    /// Tokens a second and GPU.
    pub tokens_per_s_per_gpu: f64,
    /// TFLOP/s of a GPU that count for the model: causal attention, nothing recomputed.
    pub tflops_per_gpu: f64,
    /// The share of the dense peak that this is, 0..1.
    pub mfu: f64,
    /// The rank that waited longest.
    pub worst: StepRank,
    /// The stages, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StepStage>,
    /// The chain of work that the end of the step waited for, what is alike together, the longest first.
    pub critical_path: Vec<StepPath>,
    /// Ranks whose kernels take more than 1 % longer than those of their stage, the slowest first, up to 32 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_ranks: Vec<StepSlow>,
    /// What `straggler_wait_us` is made of, by what late ranks came with, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<StepLate>,
    /// Tokens on their way to experts, where ranks share these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<StepExperts>,
    /// The time of each step, where several were played.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps_us: Vec<f64>,
    /// What was simulated.
    pub reuse: StepReuse,
    /// The same step without the others and the transfers beside it; absent where there are none, or playing it again would take long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<StepAlone>,
    /// What the step is made of.
    pub outline: StepOutline,
}

/// A step without what runs beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepAlone {
    /// Its duration.
    pub time_us: f64,
    /// Where it went, of the mean rank.
    #[serde(flatten)]
    pub parts: StepParts,
}

/// Transfers beside steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BesideStep {
    /// The name of the workload.
    pub name: String,
    /// How often all of them had arrived by the end of the last step.
    pub times: u64,
    /// Bytes of all of them, once.
    pub bytes: u64,
    /// From their beginning to when all of them had arrived, the mean of these times; absent where they had not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// The same of the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<f64>,
}
