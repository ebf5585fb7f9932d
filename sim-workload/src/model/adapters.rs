//! Low-rank adapters beside frozen matrices (LoRA).

use super::{Attention, Model};

/// Which matrices have an adapter, and of which rank.
///
/// The adapter of an m×n matrix has `rank·(m + n)` parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapters {
    /// The rank r.
    pub rank: u64,
    /// On the fused projection of queries, keys and values, and on that of the output.
    pub attention: bool,
    /// On the matrices of the FFN.
    pub ffn: bool,
}

impl Adapters {
    /// On attention alone, as in MLPerf's fine-tuning of Llama-2-70B.
    #[must_use]
    pub const fn on_attention(rank: u64) -> Self {
        Self { rank, attention: true, ffn: false }
    }

    /// Parameters of the adapters of a layer. Experts have none.
    #[must_use]
    pub const fn layer_parameters(&self, model: &Model) -> u64 {
        let h = model.hidden;
        let mut widths = 0;
        if self.attention {
            widths += match model.attention {
                Attention::Grouped { kv_heads, head_dim } => {
                    let out = model.heads * head_dim;
                    (h + out + 2 * kv_heads * head_dim) + (out + h)
                }
                Attention::Latent { query_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                    let query = match query_rank {
                        Some(rank) => (h + rank) + (rank + model.heads * (nope_dim + rope_dim)),
                        None => h + model.heads * (nope_dim + rope_dim),
                    };
                    let kv = (h + kv_rank + rope_dim) + (kv_rank + model.heads * (nope_dim + value_dim));
                    query + kv + (model.heads * value_dim + h)
                }
            };
        }
        if self.ffn {
            widths += (h + (model.ffn_matrices() - 1) * model.ffn) + (model.ffn + h);
        }
        self.rank * widths
    }

    /// Parameters of all adapters.
    #[must_use]
    pub const fn parameters(&self, model: &Model) -> u64 {
        model.layers * self.layer_parameters(model)
    }
}
