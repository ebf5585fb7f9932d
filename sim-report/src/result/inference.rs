//! Results of inference, and of long runs that fail.

use serde::{Deserialize, Serialize};

/// What one step of an instance takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferenceStep {
    /// `prefill` or `decode`.
    pub phase: String,
    /// Prompts, or sequences that get one more token.
    pub sequences: u64,
    /// Tokens of each prompt, or tokens in the cache of each sequence.
    pub tokens: u64,
    /// All of it.
    pub time_us: f64,
    /// Kernels.
    pub kernels_us: f64,
    /// Messages that nothing runs beside.
    pub messages_us: f64,
    /// Tokens of prompts, or new tokens, a second and GPU.
    pub tokens_per_s_per_gpu: f64,
    /// Millions of them for a dollar, with a GPU at the middle of its price; absent where no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtokens_per_usd: Option<f64>,
}

/// Instances that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferencePool {
    /// `serving`, `prefill` or `decode`.
    pub pool: String,
    /// How many.
    pub instances: u64,
    /// GPUs of each.
    pub gpus: u64,
    /// Sizes in words: `tp 8, pp 2`.
    pub sizes: String,
    /// Weights of the fullest GPU.
    pub weights_bytes: u64,
    /// Cache of one token on a GPU.
    pub cache_bytes_per_token: u64,
    /// Tokens that fit in the cache of an instance.
    pub cache_tokens: u64,
    /// The kinds of call of a decode step of the largest batch that was looked at: name, bytes, number, time of one.
    pub calls: Vec<InferenceCall>,
    /// Steps.
    pub steps: Vec<InferenceStep>,
}

/// Calls of one kind in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferenceCall {
    /// What it is.
    pub name: String,
    /// Ranks.
    pub ranks: u64,
    /// Its size.
    pub bytes: u64,
    /// How often.
    pub count: u64,
    /// The time of one.
    pub time_us: f64,
}

/// What a workload of inference is made of, known before it is played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferenceOutline {
    /// The name of the workload, else of the model.
    pub name: String,
    /// The model in words.
    pub model: String,
    /// Where the times of kernels come from.
    pub kernels: String,
    /// All GPUs.
    pub gpus: u64,
    /// Bytes of a GPU for weights and cache.
    pub memory_bytes: u64,
    /// Pools: one, or that for prompts and that for answers.
    pub pools: Vec<InferencePoolOutline>,
}

/// Instances that are alike, before anything is played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferencePoolOutline {
    /// `serving`, `prefill` or `decode`.
    pub pool: String,
    /// How many.
    pub instances: u64,
    /// GPUs of each.
    pub gpus: u64,
    /// Sizes in words: `tp 8, pp 2`.
    pub sizes: String,
    /// Weights of the fullest GPU.
    pub weights_bytes: u64,
    /// Cache of one token on a GPU.
    pub cache_bytes_per_token: u64,
    /// Tokens that fit in the cache of an instance.
    pub cache_tokens: u64,
    /// Kernels of the steps that a run shows.
    pub steps: Vec<KernelsOfStep>,
    /// Messages of the last of these steps: name, ranks, bytes, number.
    pub calls: Vec<CallOutline>,
}

/// The kernels of a step of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelsOfStep {
    /// `prefill` or `decode`.
    pub phase: String,
    /// Prompts, or sequences that get one more token.
    pub sequences: u64,
    /// Tokens of each prompt, or tokens in the cache of each sequence.
    pub tokens: u64,
    /// Their time.
    pub kernels_us: f64,
}

/// Calls of one kind in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallOutline {
    /// What it is.
    pub name: String,
    /// Ranks.
    pub ranks: u64,
    /// Its size.
    pub bytes: u64,
    /// How often.
    pub count: u64,
}

/// Quantiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Mean.
    pub mean_ms: f64,
    /// Half of all are not above it.
    pub p50_ms: f64,
    /// 90 % are not above it.
    pub p90_ms: f64,
    /// 99 % are not above it.
    pub p99_ms: f64,
}

/// Requests that were served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedResult {
    /// Requests that are counted.
    pub requests: u64,
    /// Requests a second that came; absent where all came at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// From arrival to first token.
    pub ttft: Quantiles,
    /// Time of a further token.
    pub tpot: Quantiles,
    /// From arrival to last token.
    pub all: Quantiles,
    /// Waiting before the prefill.
    pub waiting: Quantiles,
    /// From the end of the prefill to the arrival of the cache; two pools only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Quantiles>,
    /// From the first arrival to the last token, seconds.
    pub seconds: f64,
    /// Tokens of answers a second.
    pub output_tokens_per_s: f64,
    /// The same of a GPU.
    pub output_tokens_per_s_per_gpu: f64,
    /// Tokens of prompts a second.
    pub input_tokens_per_s: f64,
    /// Share of the time that instances worked, pool by pool.
    pub busy: Vec<f64>,
    /// Mean and largest share of the decoding pool's cache that was reserved.
    pub cache: (f64, f64),
    /// Mean number of sequences in a step of the decoding pool.
    pub batch: f64,
    /// Share of requests within the limits, where there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time: Option<f64>,
    /// Millions of tokens of answers for a dollar, where the price of a GPU is known: at the middle of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_mtokens_per_usd: Option<f64>,
    /// The same at its most and at its least, where these differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_mtokens_per_usd_range: Option<(f64, f64)>,
}

/// The highest rate at which enough requests are within the limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoodputResult {
    /// Requests a second; zero if none does.
    pub rate: f64,
    /// Of a GPU.
    pub rate_per_gpu: f64,
    /// Whether all rates that were tried do.
    pub unbounded: bool,
    /// Limits: first token and further tokens in milliseconds, and the share that must be within.
    pub limits: (f64, f64, f64),
    /// Rates that were tried with as many requests as the last ones, and those that fewer showed to be too fast, with the share within the limits.
    pub tried: Vec<(f64, f64)>,
    /// Requests with which the rate held.
    pub requests: u64,
}

/// What a GPU costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuPriceResult {
    /// The least, US dollars an hour.
    pub min_usd_per_hour: f64,
    /// The most.
    pub max_usd_per_hour: f64,
    /// Where it is from, in words.
    pub source: String,
}

/// A workload of inference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferenceResult {
    /// The name of the workload, else of the model.
    pub name: String,
    /// The model in words.
    pub model: String,
    /// Where the times of kernels come from.
    pub kernels: String,
    /// All GPUs.
    pub gpus: u64,
    /// What a GPU costs, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<GpuPriceResult>,
    /// Pools: one, or that for prompts and that for answers.
    pub pools: Vec<InferencePool>,
    /// Requests, where any are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<ServedResult>,
    /// Goodput, where limits are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodputResult>,
    /// Calls of different sizes that were played over the fabric.
    pub calls_played: u64,
}

/// A long run that fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LongRunResult {
    /// The name of the workload.
    pub name: String,
    /// GPUs.
    pub gpus: u64,
    /// Hours between failures.
    pub hours_between: f64,
    /// Seconds that a checkpoint holds the run up.
    pub pause_s: f64,
    /// Seconds of work between checkpoints.
    pub interval_s: f64,
    /// Young's interval, seconds.
    pub young_s: f64,
    /// Daly's interval, seconds.
    pub daly_s: f64,
    /// Seconds from a failure until the run goes on.
    pub restart_s: f64,
    /// Share of the time that is work which lasts, by Daly's closed form.
    pub effective: f64,
    /// The same of the run that was played.
    pub effective_played: f64,
    /// Days that were played.
    pub days: f64,
    /// Failures in them.
    pub failures: u64,
    /// Failures that the network would cause of these, the expected number.
    pub network_failures: f64,
    /// Days that failures lost.
    pub lost_days: f64,
    /// Days of standing still for checkpoints.
    pub paused_days: f64,
    /// Days from failures until the run went on.
    pub restarting_days: f64,
}
