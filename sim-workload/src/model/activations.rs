//! Activations that a layer keeps for its backward pass.
//!
//! From Korthikanti et al. 2022 (arXiv 2205.05198), 16-bit elements, bytes of one layer on one rank, T = b·s/c tokens:
//!
//! | case | bytes |
//! |---|---|
//! | TP only | T·h·(10 + 24/t + 5·a·s/(h·t)) |
//! | TP + sequence parallelism | T·h·(34/t + 5·a·s/(h·t)) |
//! | scores recomputed, or never stored (flash attention) | without the term 5·a·s/(h·t) |
//! | full recomputation | 2·T·h, ÷t with sequence parallelism |
//!
//! The 24 and 34 are for f = 4h: generally 8 + 4·f/h and 18 + 4·f/h (Megatron-LM training/theoretical_memory_usage.py), and
//! with a gated FFN 6·f/h, for one more tensor of its width. In a layer of experts f is what a token meets: K·fm + Es·fm, and
//! the copies of the token that are sent to experts come on top, 2·K·h (derived).

use sim_core::units::Bytes;

use super::kernels::Share;
use super::{LayerKind, Model};

/// What is computed again in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Recompute {
    /// Nothing: the scores of attention are stored.
    Nothing,
    /// The core of attention, as flash attention does in any case.
    #[default]
    Selective,
    /// Each layer from its input.
    Full,
}

impl Model {
    /// Bytes that a layer keeps of one micro batch.
    #[must_use]
    pub fn layer_activations(&self, kind: LayerKind, share: &Share, recompute: Recompute) -> Bytes {
        let wide = u128::from;
        let (tokens, h, t) = (wide(share.tokens()), wide(self.hidden), wide(share.tensor));
        let divided = if share.sequence_parallel { t } else { 1 };
        let bytes = match recompute {
            Recompute::Full => (2 * tokens * h).div_ceil(divided),
            Recompute::Nothing | Recompute::Selective => {
                let per_width = if self.gated { 6 } else { 4 };
                let (width, copies) = match (kind, self.experts) {
                    (LayerKind::Experts, Some(e)) => ((e.top_k + e.shared) * e.ffn, 2 * e.top_k * self.hidden),
                    _ => (self.ffn, 0),
                };
                let outer = 10 * tokens * h;
                let inner = 8 * tokens * h + per_width * tokens * wide(width) + tokens * wide(copies);
                let scores = match recompute {
                    Recompute::Nothing => 5 * tokens * wide(self.heads) * wide(share.length),
                    _ => 0,
                };
                outer.div_ceil(divided) + (inner + scores).div_ceil(t)
            }
        };
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Bytes of the embedding's input and dropout mask in the first stage, of `micros` micro batches in flight: `8·T` for the
    /// tokens' numbers and `T·h` for the mask of each.
    #[must_use]
    pub fn embedding_activations(&self, share: &Share, micros: u64) -> Bytes {
        Bytes::new(8 * share.tokens() * micros) + Bytes::new(share.outer_tokens() * self.hidden * micros)
    }

    /// Bytes of the last stage's norm and logits, of `width` bytes: in fp32 `4·T·h·(1 + V/h)/t`.
    #[must_use]
    pub fn logit_activations(&self, share: &Share, width: u64) -> Bytes {
        Bytes::new((width * share.tokens() * (self.hidden + self.vocab)).div_ceil(share.tensor))
    }
}
