//! What users see: times to the first and between tokens, throughput, use of GPUs and of the cache.

use sim_core::units::Time;

use super::server::{Deployment, Run, Served};

/// Quantiles of a time, in milliseconds: the least value that so many do not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Mean.
    pub mean: f64,
    /// Half.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
}

impl Quantiles {
    /// Of values in any order; zeros if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (values.len() as f64 * share).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self { mean, p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

/// What a request may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// Time to the first token in milliseconds, at most.
    pub ttft_ms: f64,
    /// Time of each further token in milliseconds, at most.
    pub tpot_ms: f64,
}

impl Served {
    /// Time to the first token in milliseconds: waiting, prefill, transfer of the cache, and in two pools the first step there.
    #[must_use]
    pub fn ttft_ms(&self) -> f64 {
        self.first.since(self.request.at).as_us() / 1e3
    }

    /// Time of a token after the first in milliseconds, (all − first)/(tokens − 1); `None` of answers of one token.
    #[must_use]
    pub fn tpot_ms(&self) -> Option<f64> {
        let more = self.request.output.checked_sub(1).filter(|n| *n > 0)?;
        Some(self.last.since(self.first).as_us() / 1e3 / more as f64)
    }

    /// From arrival to last token, in milliseconds.
    #[must_use]
    pub fn all_ms(&self) -> f64 {
        self.last.since(self.request.at).as_us() / 1e3
    }

    /// Whether it was served in time.
    #[must_use]
    pub fn meets(&self, slo: Slo) -> bool {
        self.ttft_ms() <= slo.ttft_ms && self.tpot_ms().is_none_or(|t| t <= slo.tpot_ms)
    }
}

/// A run in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Requests that are counted: all but those that came first, while the instances filled up.
    pub requests: u64,
    /// Time to the first token.
    pub ttft: Quantiles,
    /// Time of a further token.
    pub tpot: Quantiles,
    /// Time from arrival to last token.
    pub all: Quantiles,
    /// Waiting before the prefill.
    pub waiting: Quantiles,
    /// From the end of a prefill to the arrival of its cache.
    pub transfer: Quantiles,
    /// Seconds from the first arrival to the last token, of all requests.
    pub seconds: f64,
    /// Tokens of answers a second.
    pub output_per_s: f64,
    /// Tokens of prompts a second.
    pub input_per_s: f64,
    /// GPUs.
    pub gpus: u64,
    /// Share of the time that instances work; of two pools that for prompts, then that for answers.
    pub busy: [f64; 2],
    /// Mean share of the cache that is reserved, and the most; of the pool that decodes.
    pub cache: (f64, f64),
    /// Sequences in a step that decodes, the mean.
    pub batch: f64,
}

impl Report {
    /// Of a run of `deployment`, in which the first `warm` requests are not counted in the quantiles.
    #[must_use]
    pub fn of(run: &Run, deployment: &Deployment<'_>, warm: u64) -> Self {
        let counted = run.served.get(warm as usize..).unwrap_or_default();
        let of = |f: &dyn Fn(&Served) -> Option<f64>| Quantiles::of(counted.iter().filter_map(f).collect());
        let ms = |from: Time, to: Time| Some(to.since(from).as_us() / 1e3);
        let begin = run.served.first().map_or(Time::ZERO, |s| s.request.at);
        let seconds = (run.end.since(begin).as_us() / 1e6).max(1e-12);
        let sum = |f: &dyn Fn(&Served) -> u64| run.served.iter().map(|s| u128::from(f(s))).sum::<u128>() as f64;
        let mut busy = [0.0; 2];
        let (mut cache, mut batch, mut at) = ((0.0, 0.0), 0.0, 0);
        for (number, pool) in deployment.pools().enumerate() {
            let did = run.did.get(at..at + pool.count.max(1) as usize).unwrap_or_default();
            at += did.len();
            let many = did.len().max(1) as f64;
            busy[number.min(1)] = did.iter().map(|d| d.busy.as_us()).sum::<f64>() / many / seconds / 1e6;
            let room = (pool.limits.cache.max(1)) as f64;
            let mean = did.iter().map(|d| d.cache_us as f64).sum::<f64>() / many / seconds / 1e6 / room;
            cache = (mean, did.iter().map(|d| d.most_cache).max().unwrap_or(0) as f64 / room);
            let steps: u64 = did.iter().map(|d| d.steps).sum();
            batch = did.iter().map(|d| d.decoded).sum::<u64>() as f64 / steps.max(1) as f64;
        }
        Self {
            requests: counted.len() as u64,
            ttft: of(&|s| Some(s.ttft_ms())),
            tpot: of(&Served::tpot_ms),
            all: of(&|s| Some(s.all_ms())),
            waiting: of(&|s| ms(s.request.at, s.begun)),
            transfer: of(&|s| ms(s.filled, s.landed)),
            seconds,
            output_per_s: sum(&|s| s.request.output) / seconds,
            input_per_s: sum(&|s| s.request.prompt) / seconds,
            gpus: deployment.gpus(),
            busy,
            cache,
            batch,
        }
    }

    /// Tokens of answers a second and GPU.
    #[must_use]
    pub fn output_per_gpu(&self) -> f64 {
        self.output_per_s / self.gpus.max(1) as f64
    }

    /// Millions of tokens of answers for a dollar when a GPU costs `usd` an hour.
    #[must_use]
    pub fn millions_per_usd(&self, usd: f64) -> f64 {
        self.output_per_gpu() * 3600.0 / usd / 1e6
    }
}

/// The share of requests after the first `warm` that are served in time.
#[must_use]
pub fn in_time(run: &Run, slo: Slo, warm: u64) -> f64 {
    let counted = run.served.get(warm as usize..).unwrap_or_default();
    counted.iter().filter(|s| s.meets(slo)).count() as f64 / counted.len().max(1) as f64
}
