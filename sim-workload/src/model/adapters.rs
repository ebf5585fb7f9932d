//! Low-rank adapters beside frozen matrices (LoRA).

use super::kernels::{Kernel, Share, Work};
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

    /// The kernels of the adapters of a layer, on a rank with `share`: passes over memory, for the products of so low a rank move more
    /// than they multiply. The way in reads a matrix's input; the way out writes what is added to its result, which is read and written.
    #[must_use]
    pub fn kernels(&self, model: &Model, share: &Share) -> Vec<Kernel> {
        let (tokens, h, t) = (share.tokens(), model.hidden, share.tensor);
        let mut out = Vec::new();
        let mut pass = |name, input: u64, result: u64| {
            out.push(Kernel { name, work: Work::Memory { elements: tokens * (input + 4 * result) } });
        };
        let (width_qk, width_v) = model.head_widths();
        if self.attention {
            let heads = model.heads.div_ceil(t);
            let kv = model.kv_heads().div_ceil(t) * (width_qk + width_v);
            pass("adapter of QKV", h, heads * width_qk + kv);
            pass("adapter of O", heads * width_v, h);
        }
        if self.ffn {
            let width = model.ffn.div_ceil(t);
            pass("adapter of FFN up", h, (model.ffn_matrices() - 1) * width);
            pass("adapter of FFN down", width, h);
        }
        out
    }

    /// Parameters of all adapters.
    #[must_use]
    pub const fn parameters(&self, model: &Model) -> u64 {
        model.layers * self.layer_parameters(model)
    }
}
