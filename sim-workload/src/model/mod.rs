//! A transformer decoder from its dimensions: [`Model`].
//!
//! Text form and checks: [`spec`]. Named models: [`catalogue`]. What follows from the dimensions: [`parameters`],
//! [`kernels`] (each matrix product and pass over memory), [`flops`], [`activations`], [`cache`].

pub mod activations;
pub mod adapters;
pub mod cache;
pub mod catalogue;
pub mod flops;
pub mod kernels;
pub mod parameters;
pub mod spec;

#[cfg(test)]
mod tests;

use core::fmt;

pub use adapters::Adapters;
pub use catalogue::Models;
pub use spec::{ModelFault, ModelSpec};

/// A checked transformer decoder. Widths are numbers of elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Model {
    /// What it is called.
    pub name: String,
    /// Transformer layers L, without those of multi-token prediction.
    pub layers: u64,
    /// The first of them that have a dense FFN where the others have experts; all of them in a dense model.
    pub dense_layers: u64,
    /// Hidden width h.
    pub hidden: u64,
    /// Query heads a.
    pub heads: u64,
    /// The kind of attention.
    pub attention: Attention,
    /// Layers that look back a limited number of tokens.
    pub window: Option<Window>,
    /// Width f of a dense FFN; 0 if no layer has one.
    pub ffn: u64,
    /// Whether the FFN is gated (SwiGLU): three matrices, not two.
    pub gated: bool,
    /// The experts of the layers that have them.
    pub experts: Option<ExpertLayer>,
    /// Vocabulary V, padded.
    pub vocab: u64,
    /// Whether the output head is the embedding.
    pub tied: bool,
    /// The kind of normalisation.
    pub norm: Norm,
    /// Whether matrices have biases.
    pub biases: bool,
    /// Learned position embeddings, in positions; 0 for rotary ones.
    pub positions: u64,
    /// Additional layers that predict further tokens (multi-token prediction).
    pub mtp_layers: u64,
}

/// What queries, keys and values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Query heads share key-value heads: MHA (as many as query heads), GQA, MQA (one).
    Grouped {
        /// Key-value heads k.
        kv_heads: u64,
        /// Width of a head dₕ.
        head_dim: u64,
    },
    /// Keys and values from a compressed latent vector (MLA).
    Latent {
        /// Rank of the queries' compression; without it they come straight from the hidden state.
        query_rank: Option<u64>,
        /// Rank of the keys' and values' compression.
        kv_rank: u64,
        /// Width of a head's query and key without position.
        nope_dim: u64,
        /// Width of a head's query and of the shared key with rotary position.
        rope_dim: u64,
        /// Width of a head's value.
        value_dim: u64,
    },
}

/// Sliding windows: one layer in `every` looks back `tokens` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How far back.
    pub tokens: u64,
    /// One layer in so many has the window.
    pub every: u64,
}

/// A layer of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertLayer {
    /// Experts E.
    pub experts: u64,
    /// Experts of a token K.
    pub top_k: u64,
    /// Experts that every token goes to.
    pub shared: u64,
    /// Width of an expert's FFN.
    pub ffn: u64,
    /// Groups of experts, and of how many of them a token may choose.
    pub groups: Option<(u64, u64)>,
}

/// Normalisation before attention and FFN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// A scale: h parameters.
    Rms,
    /// A scale and a shift: 2h parameters.
    Layer,
}

/// The kinds of layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    /// A dense FFN.
    Dense,
    /// Experts.
    Experts,
}

impl fmt::Display for Model {
    /// `llama3.1-405b: 126 layers of 16384, 128 heads on 8 of keys and values, FFN 53248, vocabulary 128256; 405.9 billion parameters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        write!(f, "{} layers of {}, {} heads", self.layers, self.hidden, self.heads)?;
        match self.attention {
            Attention::Grouped { kv_heads, .. } if kv_heads < self.heads => {
                write!(f, " on {kv_heads} of keys and values")?;
            }
            Attention::Grouped { .. } => {}
            Attention::Latent { kv_rank, .. } => write!(f, " on a latent vector of {kv_rank}")?,
        }
        if self.dense_layers > 0 {
            write!(f, ", FFN {}", self.ffn)?;
        }
        if let Some(e) = self.experts {
            write!(f, ", {} of {} experts of {} in {} layers", e.top_k, e.experts, e.ffn, self.expert_layers())?;
        }
        let billions = |n: u64| n as f64 / 1e9;
        write!(f, ", vocabulary {}; {:.1} billion parameters", self.vocab, billions(self.parameters()))?;
        if self.experts.is_some() {
            write!(f, ", {:.1} of a token", billions(self.active_parameters()))?;
        }
        Ok(())
    }
}

impl Model {
    /// The kind of layer number `index` (from 0).
    #[must_use]
    pub const fn kind(&self, index: u64) -> LayerKind {
        if index < self.dense_layers { LayerKind::Dense } else { LayerKind::Experts }
    }

    /// Whether layer number `index` has a sliding window, and of how many tokens.
    #[must_use]
    pub fn window_of(&self, index: u64) -> Option<u64> {
        self.window.filter(|w| index.is_multiple_of(w.every)).map(|w| w.tokens)
    }

    /// Layers of experts.
    #[must_use]
    pub const fn expert_layers(&self) -> u64 {
        self.layers - self.dense_layers
    }

    /// Matrices of an FFN: 3 if gated, else 2.
    #[must_use]
    pub const fn ffn_matrices(&self) -> u64 {
        if self.gated { 3 } else { 2 }
    }

    /// Key-value heads; of MLA, one for each query head.
    #[must_use]
    pub const fn kv_heads(&self) -> u64 {
        match self.attention {
            Attention::Grouped { kv_heads, .. } => kv_heads,
            Attention::Latent { .. } => self.heads,
        }
    }

    /// Width of a head's query and key, and of its value.
    #[must_use]
    pub const fn head_widths(&self) -> (u64, u64) {
        match self.attention {
            Attention::Grouped { head_dim, .. } => (head_dim, head_dim),
            Attention::Latent { nope_dim, rope_dim, value_dim, .. } => (nope_dim + rope_dim, value_dim),
        }
    }
}
