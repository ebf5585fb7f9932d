//! Operations of a step.
//!
//! Conventions differ, so times should be compared, not TFLOP/s: Megatron-Bridge counts the causal half of attention; MLPerf's
//! constant for Llama-3.1-405B (21,508 TFLOP for a sample of 8192 tokens) counts the full square; Megatron's formula of 2021
//! (Narayanan et al., arXiv 2104.04473) counts the recomputed forward pass too.

use super::Model;
use super::kernels::{Kernel, Mask, Pass, Share};
use crate::units::Flops;

/// What is counted as work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which pairs of attention.
    pub mask: Mask,
    /// Whether the layers of multi-token prediction count.
    pub mtp: bool,
    /// Whether matrices are frozen, and have no gradient (LoRA). The adapters' own work, below 1 %, is not counted.
    pub frozen: bool,
}

impl Counted {
    /// Causal attention, everything trained, with multi-token prediction.
    pub const MODEL: Self = Self { mask: Mask::Causal, mtp: true, frozen: false };
    /// As MLPerf counts: the full square of attention.
    pub const FULL: Self = Self { mask: Mask::Full, mtp: true, frozen: false };
}

impl Model {
    /// Operations of the forward pass on `sequences` of `length` tokens.
    #[must_use]
    pub fn forward_flops(&self, sequences: u64, length: u64, counted: Counted) -> Flops {
        self.pass_flops(sequences, length, counted, Pass::Forward)
    }

    /// Operations of forward and backward pass on `sequences` of `length` tokens: three times the forward pass; of frozen
    /// matrices twice.
    #[must_use]
    pub fn training_flops(&self, sequences: u64, length: u64, counted: Counted) -> Flops {
        let weights = if counted.frozen {
            Flops::ZERO
        } else {
            self.pass_flops(sequences, length, counted, Pass::WeightGradient)
        };
        self.pass_flops(sequences, length, counted, Pass::Forward)
            + self.pass_flops(sequences, length, counted, Pass::DataGradient)
            + weights
    }

    /// Operations of one more forward pass over the layers: what full recomputation adds.
    #[must_use]
    pub fn recomputed_flops(&self, sequences: u64, length: u64, counted: Counted) -> Flops {
        self.layers_flops(&Share { mask: counted.mask, ..Share::whole(sequences, length) }, Pass::Forward)
    }

    fn pass_flops(&self, sequences: u64, length: u64, counted: Counted, pass: Pass) -> Flops {
        let share = Share { mask: counted.mask, ..Share::whole(sequences, length) };
        let sum = |kernels: Vec<Kernel>| kernels.iter().map(|k| k.flops(pass)).sum::<Flops>();
        let mut total = self.layers_flops(&share, pass) + sum(self.head_kernels(&share));
        if counted.mtp && self.mtp_layers > 0 {
            total += sum(self.prediction_kernels(&share)) * self.mtp_layers;
        }
        total
    }

    /// The sum over the layers; layers that are alike are counted once.
    fn layers_flops(&self, share: &Share, pass: Pass) -> Flops {
        let mut total = Flops::ZERO;
        for (dense, range) in [(true, 0..self.dense_layers), (false, self.dense_layers..self.layers)] {
            let windowed = |limit: u64| self.window.map_or(0, |w| limit.div_ceil(w.every));
            let with = windowed(range.end) - windowed(range.start);
            let without = range.end - range.start - with;
            let kind = if dense { super::LayerKind::Dense } else { super::LayerKind::Experts };
            for (count, window) in [(with, self.window.map(|w| w.tokens)), (without, None)] {
                if count > 0 {
                    total += self.layer_flops_of(kind, window, share, pass) * count;
                }
            }
        }
        total
    }

    fn layer_flops_of(&self, kind: super::LayerKind, window: Option<u64>, share: &Share, pass: Pass) -> Flops {
        self.kernels_of(kind, window, share).iter().map(|k| k.flops(pass)).sum()
    }

    /// Megatron's formula of 2021 for GPT models: `96·B·s·L·h²·(1 + s/(6h) + V/(16·L·h))`, which has the full square of
    /// attention and, in its 96, the recomputed forward pass.
    #[must_use]
    pub fn megatron_2021_flops(&self, sequences: u64, length: u64) -> Flops {
        let wide = u128::from;
        let (b, s, l, h, v) = (wide(sequences), wide(length), wide(self.layers), wide(self.hidden), wide(self.vocab));
        Flops::new(b * s * (96 * l * h * h + 16 * l * h * s + 6 * h * v))
    }
}

/// Model FLOPs utilisation: the share of `peak` (of one GPU) that `model` operations of all GPUs need in `seconds`.
#[must_use]
pub fn utilisation(model: Flops, seconds: f64, gpus: u64, peak: crate::units::FlopRate) -> f64 {
    model.get() as f64 / (seconds * gpus as f64 * peak.get() as f64)
}
