//! The cache of keys and values in inference.

use sim_core::units::Bytes;

use super::{Attention, Model};

impl Model {
    /// Bytes of cache of one token over all layers, elements of `width` bytes: `2·L·k·d·w`, of MLA `L·(kv + dr)·w`.
    ///
    /// Sliding windows bound how many tokens stay, not what a token takes.
    #[must_use]
    pub const fn cache_per_token(&self, width: u64) -> Bytes {
        Bytes::new(self.layers * self.layer_cache(self.kv_heads()) * width)
    }

    /// The same on one of `tensor` ranks. GQA is divided by as many as there are key-value heads, beyond that heads are
    /// held more than once; the latent vector of MLA is held by each.
    #[must_use]
    pub const fn cache_per_token_of_rank(&self, width: u64, tensor: u64) -> Bytes {
        Bytes::new(self.layers * self.layer_cache(self.kv_heads().div_ceil(tensor)) * width)
    }

    const fn layer_cache(&self, kv_heads: u64) -> u64 {
        match self.attention {
            Attention::Grouped { head_dim, .. } => 2 * kv_heads * head_dim,
            Attention::Latent { kv_rank, rope_dim, .. } => kv_rank + rope_dim,
        }
    }
}
