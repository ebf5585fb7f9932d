//! Parameters on one rank.
//!
//! Matrices of attention, dense FFNs and shared experts, embedding and head are divided over t; routed experts over e·te; norms,
//! routers, the biases of row-parallel matrices and what compresses for MLA are held whole. Of the fullest rank, in the first stage (Megatron-LM
//! training/theoretical_memory_usage.py): `[(Pa·L + FFN)/p + V·h]/t + Lm·g·h·fm·E/(p·e·te) + (norms + router)·L/p`.

use super::Sizes;
use crate::model::{LayerKind, Model};
use crate::pipeline::Shape;

/// Parameters on one rank: those that all its data-parallel peers hold, and those of experts, which have other peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// All but routed experts.
    pub dense: u64,
    /// Routed experts.
    pub experts: u64,
}

impl Local {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.dense + self.experts
    }

    /// Of a layer of a kind.
    #[must_use]
    pub fn of_layer(model: &Model, sizes: &Sizes, kind: LayerKind) -> Self {
        let layer = model.layer_parameters(kind);
        Self {
            dense: layer.dense_of_rank(sizes.tensor),
            experts: layer.experts.div_ceil(sizes.expert * sizes.expert_tensor),
        }
    }

    /// Of the embedding, in the first stage.
    #[must_use]
    pub fn of_embedding(model: &Model, sizes: &Sizes) -> Self {
        Self { dense: model.embedding_parameters().div_ceil(sizes.tensor), experts: 0 }
    }

    /// Of the last norm and the head, in the last stage; a tied head is there once more if there are several stages.
    #[must_use]
    pub fn of_head(model: &Model, sizes: &Sizes) -> Self {
        let head = match (model.tied, sizes.pipeline) {
            (false, _) => model.head_parameters(),
            (true, 1) => 0,
            (true, _) => model.vocab * model.hidden,
        };
        Self { dense: head.div_ceil(sizes.tensor) + model.last_norm_parameters(), experts: 0 }
    }

    /// Of what multi-token prediction has beside its layers, in the last stage: projections and norms.
    #[must_use]
    pub const fn of_prediction(model: &Model, sizes: &Sizes) -> Self {
        let join = (2 * model.hidden * model.hidden).div_ceil(sizes.tensor);
        let norms = 2 * model.hidden + model.last_norm_parameters();
        Self { dense: (join + norms) * model.mtp_layers, experts: 0 }
    }

    /// Of a rank of `stage`: its layers, and embedding or head, of all stages that the schedule lets it hold.
    #[must_use]
    pub fn of_stage(model: &Model, sizes: &Sizes, stage: u64) -> Self {
        let mut out = Self::default();
        for held in sizes.schedule.holds(sizes.shape(), stage) {
            let (dense, experts) = sizes.layers_of_stage(model, held);
            out = out
                + Self::of_layer(model, sizes, LayerKind::Dense) * dense
                + Self::of_layer(model, sizes, LayerKind::Experts) * experts;
            if held == 0 {
                out = out + Self::of_embedding(model, sizes);
            }
            if held + 1 == sizes.pipeline {
                out = out + Self::of_head(model, sizes) + Self::of_prediction(model, sizes);
            }
        }
        out
    }
}

impl core::ops::Add for Local {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self { dense: self.dense + rhs.dense, experts: self.experts + rhs.experts }
    }
}

impl core::ops::Mul<u64> for Local {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self { dense: self.dense * rhs, experts: self.experts * rhs }
    }
}

impl Sizes {
    /// The shape of the pipeline.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape { stages: self.pipeline, chunks: self.virtual_stages, micros: self.micros() }
    }
}
