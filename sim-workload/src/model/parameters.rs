//! How many parameters a model has, part by part.
//!
//! Per layer: attention `h·a·d + 2·h·k·d + a·d·h` (MHA, GQA) or `q·(h + a·(dn+dr)) + kv·(h + a·(dn+dv)) + h·dr + a·dv·h + q + kv`
//! (MLA); a dense FFN `g·h·f`; experts `g·h·fm·E`, shared ones `g·h·fm·Es`, a router `h·E`; norms 2h (RMSNorm) or 4h
//! (LayerNorm). Embedding `V·h`, a head of as much if it is not tied, a last norm. Source: Megatron-LM
//! training/theoretical_memory_usage.py; the terms of MLA from the shapes in DeepSeek-V3's report.

use super::{Attention, LayerKind, Model, Norm};

/// Parameters of one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerParameters {
    /// Projections of attention.
    pub attention: u64,
    /// Of these those to the latent vectors of MLA, with their norms: whole on each rank of a tensor group.
    pub latent: u64,
    /// The dense FFN.
    pub ffn: u64,
    /// All routed experts.
    pub experts: u64,
    /// Routed experts of one token.
    pub active_experts: u64,
    /// Shared experts.
    pub shared: u64,
    /// The router.
    pub router: u64,
    /// Norms.
    pub norms: u64,
    /// Biases of the dense matrices.
    pub biases: u64,
    /// Of these those of matrices in rows, which each rank of a tensor group adds whole.
    pub row_biases: u64,
}

impl LayerParameters {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.dense() + self.experts
    }

    /// All but the routed experts.
    #[must_use]
    pub const fn dense(&self) -> u64 {
        self.attention + self.ffn + self.shared + self.router + self.norms + self.biases
    }

    /// Those on each rank of a tensor group of `tensor`, without routed experts: matrices are divided, norms, the router, biases of
    /// matrices in rows and what compresses for MLA are whole (Megatron-LM core/transformer/multi_latent_attention.py, `parallel_mode =
    /// "duplicated"`).
    #[must_use]
    pub const fn dense_of_rank(&self, tensor: u64) -> u64 {
        let whole = self.latent + self.row_biases + self.router + self.norms;
        (self.dense() - whole).div_ceil(tensor) + whole
    }

    /// Those that take part in the work on a token.
    #[must_use]
    pub const fn active(&self) -> u64 {
        self.dense() + self.active_experts
    }
}

impl Model {
    /// Parameters of the projections of attention in a layer.
    #[must_use]
    pub const fn attention_parameters(&self) -> u64 {
        let (h, a) = (self.hidden, self.heads);
        match self.attention {
            Attention::Grouped { kv_heads, head_dim } => 2 * h * a * head_dim + 2 * h * kv_heads * head_dim,
            Attention::Latent { query_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                let query = match query_rank {
                    Some(rank) => rank * (h + a * (nope_dim + rope_dim)) + rank,
                    None => h * a * (nope_dim + rope_dim),
                };
                query + kv_rank * (h + a * (nope_dim + value_dim)) + kv_rank + h * rope_dim + a * value_dim * h
            }
        }
    }

    /// Of these those that compress to the latent vectors of MLA, with their norms.
    #[must_use]
    pub const fn latent_parameters(&self) -> u64 {
        match self.attention {
            Attention::Grouped { .. } => 0,
            Attention::Latent { query_rank, kv_rank, rope_dim, .. } => {
                let query = match query_rank {
                    Some(rank) => rank * self.hidden + rank,
                    None => 0,
                };
                query + kv_rank * self.hidden + kv_rank + self.hidden * rope_dim
            }
        }
    }

    /// Parameters of a layer of a kind.
    #[must_use]
    pub fn layer_parameters(&self, kind: LayerKind) -> LayerParameters {
        let (h, g) = (self.hidden, self.ffn_matrices());
        let mut out = LayerParameters {
            attention: self.attention_parameters(),
            latent: self.latent_parameters(),
            norms: match self.norm {
                Norm::Rms => 2 * h,
                Norm::Layer => 4 * h,
            },
            ..LayerParameters::default()
        };
        if self.biases {
            let qkv = match self.attention {
                Attention::Grouped { kv_heads, head_dim } => (self.heads + 2 * kv_heads) * head_dim,
                Attention::Latent { .. } => 0,
            };
            out.row_biases = 2 * h;
            out.biases = qkv + out.row_biases + (g - 1) * self.ffn;
        }
        match (kind, self.experts) {
            (LayerKind::Experts, Some(e)) => {
                out.experts = g * h * e.ffn * e.experts;
                out.active_experts = g * h * e.ffn * e.top_k;
                out.shared = g * h * e.ffn * e.shared;
                out.router = h * e.experts;
            }
            _ => out.ffn = g * h * self.ffn,
        }
        out
    }

    /// Parameters of the embedding, with learned positions.
    #[must_use]
    pub const fn embedding_parameters(&self) -> u64 {
        (self.vocab + self.positions) * self.hidden
    }

    /// Parameters of the output head: none of its own if it is tied.
    #[must_use]
    pub const fn head_parameters(&self) -> u64 {
        if self.tied { 0 } else { self.vocab * self.hidden }
    }

    /// Parameters of the norm before the head.
    #[must_use]
    pub const fn last_norm_parameters(&self) -> u64 {
        match self.norm {
            Norm::Rms => self.hidden,
            Norm::Layer => 2 * self.hidden,
        }
    }

    /// All parameters P, without layers of multi-token prediction.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.dense_layers * self.layer_parameters(LayerKind::Dense).total()
            + self.expert_layers() * self.layer_parameters(LayerKind::Experts).total()
            + self.outer_parameters()
    }

    /// Parameters that take part in the work on a token, embedding and head included.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        self.dense_layers * self.layer_parameters(LayerKind::Dense).active()
            + self.expert_layers() * self.layer_parameters(LayerKind::Experts).active()
            + self.outer_parameters()
    }

    /// Parameters of the layers of multi-token prediction: each a layer of the last kind, a projection of two hidden
    /// states to one, and two norms of its inputs; embedding and head are the model's own.
    #[must_use]
    pub fn mtp_parameters(&self) -> u64 {
        let layer = self.layer_parameters(self.kind(self.layers.saturating_sub(1))).total();
        self.mtp_layers * (layer + 2 * self.hidden * self.hidden + 2 * self.hidden + self.last_norm_parameters())
    }

    const fn outer_parameters(&self) -> u64 {
        self.embedding_parameters() + self.head_parameters() + self.last_norm_parameters()
    }

    /// All parameters in 128 bits, for the check that 64 suffice: an upper bound from the dimensions.
    pub(super) fn parameters_wide(&self) -> u128 {
        let wide = u128::from;
        let (h, a, g) = (wide(self.hidden), wide(self.heads), wide(self.ffn_matrices()));
        let attention = match self.attention {
            Attention::Grouped { kv_heads, head_dim } => 2 * h * wide(head_dim) * (a + wide(kv_heads)),
            Attention::Latent { query_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                let (n, r, v) = (wide(nope_dim), wide(rope_dim), wide(value_dim));
                let query = query_rank.map_or(h * a * (n + r), |q| wide(q) * (h + a * (n + r) + 1));
                query + wide(kv_rank) * (h + a * (n + v) + 1) + h * r + a * v * h
            }
        };
        let experts =
            self.experts.map_or(0, |e| g * h * wide(e.ffn) * wide(e.experts + e.shared) + h * wide(e.experts));
        let layer = 2 * attention + g * h * wide(self.ffn) + experts + 8 * h + g * wide(self.ffn);
        wide(self.layers + self.mtp_layers) * (layer + 2 * h * h)
            + h * (2 * wide(self.vocab) + wide(self.positions) + 4)
    }
}
