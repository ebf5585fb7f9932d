//! What a GPU holds, held against what it has.
//!
//! Per parameter: weights, gradients, and 12 bytes of Adam's states with fp32 main weights; with bf16 weights and fp32 gradients
//! 18 bytes, `6 + 12/d` with ZeRO-1, `2 + 16/d` with ZeRO-2 (`2 + 14/d` with 16-bit gradients), `18/d` with ZeRO-3 and the units
//! that are gathered (Megatron-LM training/theoretical_memory_usage.py; ZeRO-2 and 3 derived). d is the ranks that the states are
//! divided over; of experts their own peers. Activations: [`crate::model::activations`], of as many micro batches as the
//! schedule keeps in flight.

mod advice;

#[cfg(test)]
mod tests;

use core::fmt;

use sim_core::units::Bytes;

use crate::job::{Job, Mode};
use crate::messages;
use crate::model::LayerKind;
use crate::model::activations::Recompute;
use crate::parallel::{Local, Zero};
use crate::units::share_of;

pub use advice::{Advice, would_fit};

/// What a GPU has for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its memory.
    pub memory: Bytes,
    /// The part of it that can be filled, in millionths: fragments and the driver take the rest.
    pub usable: u64,
    /// Buffers of communicators and workspaces: 1 to 4 GB are normal.
    pub buffers: Bytes,
}

impl Budget {
    /// `memory` of which nine tenths can be filled, with 2 GB of buffers.
    #[must_use]
    pub const fn of(memory: Bytes) -> Self {
        Self { memory, usable: 900_000, buffers: Bytes::new(2_000_000_000) }
    }

    /// What can be filled.
    #[must_use]
    pub const fn limit(&self) -> Bytes {
        share_of(self.memory, self.usable)
    }
}

/// The memory of a rank, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The stage that the rank is in.
    pub stage: u64,
    /// Parts by name; none is zero.
    pub parts: Vec<(&'static str, Bytes)>,
}

impl Usage {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.parts.iter().map(|(_, bytes)| *bytes).sum()
    }

    /// The part called `name`.
    #[must_use]
    pub fn part(&self, name: &str) -> Bytes {
        self.parts.iter().filter(|(n, _)| *n == name).map(|(_, bytes)| *bytes).sum()
    }
}

/// A job that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rank of stage {} needs {needed}, and {limit} of a GPU's {memory} can be filled: {parts}{advice}", .usage.stage)]
pub struct TooLarge {
    /// The fullest rank.
    pub usage: Usage,
    /// Its total.
    pub needed: Bytes,
    /// What can be filled.
    pub limit: Bytes,
    /// The GPU's memory.
    pub memory: Bytes,
    /// The parts in words, largest first.
    pub parts: String,
    /// What would fit, in words; empty if that was not asked.
    pub advice: String,
}

impl fmt::Display for Usage {
    /// `activations 12 GiB, weights 3 GiB`: largest first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.parts.clone();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let words: Vec<String> = parts.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// The memory of a rank of `stage`.
#[must_use]
pub fn of_stage(job: &Job<'_>, stage: u64, buffers: Bytes) -> Usage {
    let mut parts = states(job, stage);
    match job.mode {
        Mode::Training => parts.extend(activations(job, stage)),
        Mode::Inference => parts.push(("cache", cache(job, stage))),
    }
    parts.push(("buffers", buffers));
    parts.retain(|(_, bytes)| *bytes > Bytes::ZERO);
    Usage { stage, parts }
}

/// The fullest rank of all stages.
#[must_use]
pub fn fullest(job: &Job<'_>, buffers: Bytes) -> Usage {
    let all = (0..job.sizes.pipeline).map(|stage| of_stage(job, stage, buffers));
    // The first of equals.
    all.reduce(|a, b| if b.total() > a.total() { b } else { a }).unwrap_or(Usage { stage: 0, parts: Vec::new() })
}

/// Whether the job fits.
///
/// # Errors
/// If it does not: the fullest rank by parts.
pub fn check(job: &Job<'_>, budget: &Budget) -> Result<Usage, Box<TooLarge>> {
    let usage = fullest(job, budget.buffers);
    let (needed, limit) = (usage.total(), budget.limit());
    if needed <= limit {
        return Ok(usage);
    }
    let parts = usage.to_string();
    Err(Box::new(TooLarge { usage, needed, limit, memory: budget.memory, parts, advice: String::new() }))
}

/// Weights, gradients, states of the optimizer, gathered units.
fn states(job: &Job<'_>, stage: u64) -> Vec<(&'static str, Bytes)> {
    let (sizes, widths) = (job.sizes, job.widths);
    let held = Local::of_stage(job.model, sizes, stage);
    let trained = match job.mode {
        Mode::Training => messages::trained(job, stage),
        Mode::Inference => Local::default(),
    };
    let adapters = match job.choices.adapters {
        Some(_) => trained,
        None => Local::default(),
    };
    let divided = |local: Local, width: u64, from: Zero| {
        let by = |n: u64| if sizes.zero >= from { n } else { 1 };
        let (dense, experts) = (by(sizes.shard), by(sizes.expert_data()));
        Bytes::new((local.dense * width).div_ceil(dense)) + Bytes::new((local.experts * width).div_ceil(experts))
    };
    let mut out = vec![
        ("weights", divided(held + adapters, widths.weight, Zero::Parameters)),
        ("gradients", divided(trained, widths.gradient, Zero::Gradients)),
        ("optimizer", divided(trained, widths.optimizer, Zero::Optimizer)),
    ];
    if sizes.zero == Zero::Parameters {
        // Those of a forward pass that are kept for the backward pass, or the one in use and those ahead of it.
        let units = units(job, stage);
        let ahead = match job.mode {
            Mode::Inference => job.choices.prefetch,
            Mode::Training => job.choices.prefetch.max(job.choices.prefetch_back),
        };
        let held = match job.choices.reshard || job.mode == Mode::Inference {
            true => usize::try_from(ahead.saturating_add(1)).unwrap_or(usize::MAX).min(units.len()),
            false => units.len(),
        };
        let largest = units.windows(held.max(1)).map(|window| window.iter().sum::<u64>()).max();
        out.push(("gathered units", Bytes::new(largest.unwrap_or(0) * widths.weight)));
    }
    out
}

/// Parameters of the units of a stage (the embedding, layers, the head with what joins predictions) in the order of their use.
fn units(job: &Job<'_>, stage: u64) -> Vec<u64> {
    let (model, sizes) = (job.model, job.sizes);
    let mut out = Vec::new();
    for held in sizes.schedule.holds(sizes.shape(), stage) {
        out.extend((held == 0).then(|| Local::of_embedding(model, sizes).total()));
        let layers = (0..sizes.virtual_stages).flat_map(|chunk| sizes.layers_of(held, chunk));
        let last = held + 1 == sizes.pipeline;
        let further = if last { model.mtp_layers } else { 0 };
        let kinds = layers.map(|layer| model.kind(layer));
        let kinds = kinds.chain((0..further).map(|_| model.kind(model.layers.saturating_sub(1))));
        out.extend(kinds.map(|kind| Local::of_layer(model, sizes, kind).total()));
        out.extend(last.then(|| Local::of_head(model, sizes).total() + Local::of_prediction(model, sizes).total()));
    }
    out
}

/// Keys and values of all tokens of a micro batch, in the layers of a stage.
fn cache(job: &Job<'_>, stage: u64) -> Bytes {
    let (dense, experts) = job.sizes.layers_of_stage(job.model, stage);
    let token = job.model.cache_per_token_of_rank(job.widths.activation, job.sizes.tensor).get();
    let layer = u128::from(token / job.model.layers) * u128::from(dense + experts);
    Bytes::new(u64::try_from(layer * u128::from(job.sizes.share().tokens())).unwrap_or(u64::MAX))
}

/// Activations in flight, embedding, logits, and the layer that is being recomputed.
fn activations(job: &Job<'_>, stage: u64) -> Vec<(&'static str, Bytes)> {
    let (model, sizes) = (job.model, job.sizes);
    let share = sizes.share();
    let in_flight = sizes.schedule.in_flight(sizes.shape(), stage);
    let held = sizes.schedule.holds(sizes.shape(), stage);
    let (mut dense, mut experts) = (0, 0);
    for part in &held {
        let (d, e) = sizes.layers_of_stage(model, *part);
        dense += d;
        experts += e;
    }
    let layer = |kind, recompute| model.layer_activations(kind, &share, recompute);
    let all = layer(LayerKind::Dense, sizes.recompute) * dense + layer(LayerKind::Experts, sizes.recompute) * experts;
    // Chunks in flight, each of a v-th of the stage's layers on average.
    let chunks = sizes.virtual_stages * held.len() as u64;
    let kept = u64::try_from((u128::from(all.get()) * u128::from(in_flight)).div_ceil(u128::from(chunks)));
    let mut out = vec![("activations", Bytes::new(kept.unwrap_or(u64::MAX)))];
    if sizes.recompute == Recompute::Full {
        let one = [(dense, LayerKind::Dense), (experts, LayerKind::Experts)]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(_, kind)| layer(kind, Recompute::Selective))
            .max();
        out.push(("layer being recomputed", one.unwrap_or_default()));
    }
    if held.contains(&0) {
        let micros = sizes.pipeline.min(sizes.micros());
        out.push(("embedding", model.embedding_activations(&share, micros)));
    }
    if held.contains(&(sizes.pipeline - 1)) {
        out.push(("logits", model.logit_activations(&share, job.widths.logit)));
    }
    out
}
