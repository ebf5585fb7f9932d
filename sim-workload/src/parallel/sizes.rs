//! Sizes of a parallelism: as they are asked for, and checked.

use core::fmt;

use crate::model::activations::Recompute;
use crate::model::kernels::{Mask, Share};
use crate::model::{LayerKind, Model};
use crate::pipeline::Schedule;

use super::split::Split;

/// How the tokens of a sequence are spread over ranks for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ContextKind {
    /// Blocks of keys and values go round in a ring.
    #[default]
    Ring,
    /// Keys and values are gathered before attention.
    AllGather,
    /// Heads for tokens: all-to-all before and after attention (Ulysses).
    AllToAll,
    /// PyTorch's `context_parallel` as torchtitan uses it: keys and values, repeated for all query heads, are gathered while attention works on a
    /// rank's own block; their gradients go round in fp32.
    PyTorch,
}

/// What is divided over data-parallel ranks beyond the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Zero {
    /// Nothing: plain data parallelism.
    #[default]
    Replicated,
    /// States of the optimizer (ZeRO-1, Megatron's distributed optimizer).
    Optimizer,
    /// And gradients (ZeRO-2).
    Gradients,
    /// And parameters (ZeRO-3, FSDP).
    Parameters,
}

/// Sizes as they are asked for. What is not said has the value of [`Default`].
#[derive(Clone, Debug, PartialEq)]
pub struct SizesSpec {
    /// All GPUs G.
    pub gpus: u64,
    /// Tensor parallelism t (`tp`).
    pub tensor: u64,
    /// Context parallelism c (`cp`).
    pub context: u64,
    /// How.
    pub context_kind: ContextKind,
    /// Expert parallelism e (`ep`).
    pub expert: u64,
    /// Tensor parallelism of experts te (`etp`).
    pub expert_tensor: u64,
    /// Data parallelism d (`dp`); without it what is left.
    pub data: Option<u64>,
    /// Stages of the pipeline p (`pp`).
    pub pipeline: u64,
    /// Chunks of a stage v (`vp`).
    pub virtual_stages: u64,
    /// The schedule by its name; without it `1f1b`, or `interleaved` if v > 1.
    pub schedule: Option<String>,
    /// How layers are divided over chunks.
    pub split: Split,
    /// Sequence parallelism; without it if t > 1.
    pub sequence_parallel: Option<bool>,
    /// What is divided over data-parallel ranks.
    pub zero: Zero,
    /// Ranks that it is divided over; without it all d·c. Fewer: copies of the shards on the others (HSDP).
    pub shard: Option<u64>,
    /// What is recomputed.
    pub recompute: Recompute,
    /// Whether the core of attention is one kernel (flash attention).
    pub fused_attention: bool,
    /// Sequences of a micro batch b (`micro_batch`).
    pub micro_batch: u64,
    /// Sequences of a step B (`global_batch`).
    pub global_batch: u64,
    /// Tokens of a sequence s (`sequence`).
    pub sequence: u64,
}

impl Default for SizesSpec {
    fn default() -> Self {
        Self {
            gpus: 1,
            tensor: 1,
            context: 1,
            context_kind: ContextKind::default(),
            expert: 1,
            expert_tensor: 1,
            data: None,
            pipeline: 1,
            virtual_stages: 1,
            schedule: None,
            split: Split::default(),
            sequence_parallel: None,
            zero: Zero::default(),
            shard: None,
            recompute: Recompute::default(),
            fused_attention: true,
            micro_batch: 1,
            global_batch: 1,
            sequence: 4096,
        }
    }
}

/// Checked sizes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sizes {
    /// All GPUs, t·c·p·d.
    pub gpus: u64,
    /// Tensor parallelism t.
    pub tensor: u64,
    /// Context parallelism c.
    pub context: u64,
    /// How.
    pub context_kind: ContextKind,
    /// Expert parallelism e.
    pub expert: u64,
    /// Tensor parallelism of experts te.
    pub expert_tensor: u64,
    /// Data parallelism d.
    pub data: u64,
    /// Stages p.
    pub pipeline: u64,
    /// Chunks of a stage v.
    pub virtual_stages: u64,
    /// The schedule.
    pub schedule: &'static dyn Schedule,
    /// Layers of each chunk; chunk `c` of stage `s` is number c·p + s.
    pub chunk_layers: Vec<u64>,
    /// Sequence parallelism.
    pub sequence_parallel: bool,
    /// What is divided over data-parallel ranks.
    pub zero: Zero,
    /// Ranks that it is divided over.
    pub shard: u64,
    /// What is recomputed.
    pub recompute: Recompute,
    /// Whether the core of attention is one kernel (flash attention).
    pub fused_attention: bool,
    /// Sequences of a micro batch b.
    pub micro_batch: u64,
    /// Sequences of a step B.
    pub global_batch: u64,
    /// Tokens of a sequence s.
    pub sequence: u64,
}

impl fmt::Display for Sizes {
    /// `512 GPUs: tp 8 · cp 2 · pp 8 · dp 4, interleaved over 8 chunks, 288 micro batches of 1 × 8192 tokens`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (t, c, p, d) = (self.tensor, self.context, self.pipeline, self.data);
        write!(f, "{} GPUs: tp {t} · cp {c} · pp {p} · dp {d}", self.gpus)?;
        if self.expert * self.expert_tensor > 1 {
            write!(f, ", ep {} · etp {} · edp {}", self.expert, self.expert_tensor, self.expert_data())?;
        }
        if p > 1 {
            write!(f, ", {}", self.schedule.name())?;
        }
        if self.virtual_stages > 1 {
            write!(f, " over {} chunks", self.virtual_stages)?;
        }
        let micros = match self.micros() {
            1 => "1 micro batch".to_owned(),
            n => format!("{n} micro batches"),
        };
        write!(f, ", {micros} of {} × {} tokens", self.micro_batch, self.sequence)
    }
}

impl Sizes {
    /// Micro batches m of a step and data-parallel rank.
    #[must_use]
    pub const fn micros(&self) -> u64 {
        self.global_batch / (self.data * self.micro_batch)
    }

    /// The same with half as many sequences in a micro batch.
    #[must_use]
    pub fn halved(&self) -> Self {
        Self { micro_batch: (self.micro_batch / 2).max(1), ..self.clone() }
    }

    /// Ranks of a stage, t·c·d.
    #[must_use]
    pub const fn stage_ranks(&self) -> u64 {
        self.tensor * self.context * self.data
    }

    /// Ranks that have the same part of an expert, t·c·d/(e·te).
    #[must_use]
    pub const fn expert_data(&self) -> u64 {
        self.stage_ranks() / (self.expert * self.expert_tensor)
    }

    /// What of a micro batch a rank works on.
    #[must_use]
    pub const fn share(&self) -> Share {
        Share {
            sequences: self.micro_batch,
            length: self.sequence,
            tensor: self.tensor,
            context: self.context,
            sequence_parallel: self.sequence_parallel,
            expert: self.expert,
            expert_tensor: self.expert_tensor,
            mask: Mask::Causal,
            fused: self.fused_attention,
            merged: match self.context_kind {
                ContextKind::PyTorch => self.context - 1,
                ContextKind::Ring | ContextKind::AllGather | ContextKind::AllToAll => 0,
            },
        }
    }

    /// The layers of chunk `chunk` of stage `stage` as numbers from the first.
    #[must_use]
    pub fn layers_of(&self, stage: u64, chunk: u64) -> core::ops::Range<u64> {
        let at = usize::try_from(chunk * self.pipeline + stage).unwrap_or(usize::MAX);
        let start = self.chunk_layers.iter().take(at).sum();
        start..start + self.chunk_layers.get(at).copied().unwrap_or(0)
    }

    /// Dense layers and layers of experts in all chunks of `stage`; in the last stage with those of multi-token prediction, which
    /// are as the model's last layer.
    #[must_use]
    pub fn layers_of_stage(&self, model: &Model, stage: u64) -> (u64, u64) {
        let chunks = (0..self.virtual_stages).flat_map(|chunk| self.layers_of(stage, chunk));
        let last = model.layers.saturating_sub(1);
        let further = if stage + 1 == self.pipeline { model.mtp_layers } else { 0 };
        let mut out = (0, 0);
        for layer in chunks.chain((0..further).map(|_| last)) {
            match model.kind(layer) {
                LayerKind::Dense => out.0 += 1,
                LayerKind::Experts => out.1 += 1,
            }
        }
        out
    }
}
