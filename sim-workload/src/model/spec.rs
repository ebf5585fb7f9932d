//! The text form of a model, and its checks.

use serde::Deserialize;

use super::{Attention, ExpertLayer, Model, Norm, Window};

/// A model as it is written: TOML keys of the same names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSpec {
    /// What it is called.
    pub name: String,
    /// Transformer layers.
    pub layers: u64,
    /// The first of them without experts, in a model with experts.
    pub dense_layers: u64,
    /// Hidden width.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key-value heads; without it as many as query heads.
    pub kv_heads: Option<u64>,
    /// Width of a head; without it hidden width over heads.
    pub head_dim: Option<u64>,
    /// Rank of the compression of queries (MLA).
    pub query_rank: Option<u64>,
    /// Rank of the compression of keys and values; makes the attention MLA.
    pub kv_rank: Option<u64>,
    /// Width of a head's query and key without position (MLA).
    pub nope_dim: Option<u64>,
    /// Width of a head's query and key with rotary position (MLA).
    pub rope_dim: Option<u64>,
    /// Width of a head's value (MLA).
    pub value_dim: Option<u64>,
    /// Tokens that layers with a sliding window look back.
    pub window: Option<u64>,
    /// One layer in so many has the window; without it all.
    pub window_every: Option<u64>,
    /// Width of a dense FFN.
    pub ffn: u64,
    /// Whether the FFN is gated.
    pub gated: bool,
    /// Experts of a layer.
    pub experts: Option<u64>,
    /// Experts of a token.
    pub top_k: Option<u64>,
    /// Experts that every token goes to.
    pub shared_experts: u64,
    /// Width of an expert's FFN.
    pub expert_ffn: Option<u64>,
    /// Groups of experts.
    pub expert_groups: Option<u64>,
    /// Groups that a token may choose experts of.
    pub top_groups: Option<u64>,
    /// Vocabulary.
    pub vocab: u64,
    /// Whether the output head is the embedding.
    pub tied: bool,
    /// LayerNorm in place of RMSNorm.
    pub layer_norm: bool,
    /// Whether matrices have biases.
    pub biases: bool,
    /// Learned position embeddings.
    pub positions: u64,
    /// Layers of multi-token prediction.
    pub mtp_layers: u64,
}

/// What is wrong with the dimensions of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelFault {
    /// A dimension that must be there is missing or zero.
    #[error("`{key}` is missing or zero: {why}")]
    Missing {
        /// The key.
        key: &'static str,
        /// Why it is needed.
        why: &'static str,
    },
    /// A dimension beyond what the arithmetic is made for.
    #[error("`{key} = {value}` is absurd: at most {limit}")]
    Absurd {
        /// The key.
        key: &'static str,
        /// What was given.
        value: u64,
        /// The most.
        limit: u64,
    },
    /// More of one thing than of what holds it.
    #[error("`{small} <= {large}` does not hold: {small} = {value}, {large} = {bound}")]
    TooLarge {
        /// The key that is too large.
        small: &'static str,
        /// What was given.
        value: u64,
        /// The key that bounds it.
        large: &'static str,
        /// Its value.
        bound: u64,
    },
    /// A division with a rest.
    #[error("`{whole}` ({value}) must be a multiple of `{part}` ({divisor}); near: {part} = {near}")]
    NotDivisible {
        /// The key of what is divided.
        whole: &'static str,
        /// Its value.
        value: u64,
        /// The key of the divisor.
        part: &'static str,
        /// Its value.
        divisor: u64,
        /// Values of `part` that would do.
        near: crate::nearest::Nearest,
    },
    /// More parameters than can be counted.
    #[error("{billions} billion parameters in all: at most {limit} billion")]
    TooManyParameters {
        /// Billions of parameters.
        billions: u128,
        /// The most.
        limit: u128,
    },
    /// The text is not TOML, or has other keys.
    #[error("{0}")]
    Text(String),
}

/// Most parameters, 10¹⁶: times 18 bytes they still fit in 64 bits.
const MOST_PARAMETERS: u128 = 10_000_000_000_000_000;

impl ModelSpec {
    /// Reads one model from TOML.
    ///
    /// # Errors
    /// If the text is not TOML, or has a key that a model doesn't have.
    pub fn from_toml(text: &str) -> Result<Self, ModelFault> {
        toml::from_str(text).map_err(|e: toml::de::Error| ModelFault::Text(e.to_string()))
    }

    /// Checks the dimensions and makes a model of them.
    ///
    /// # Errors
    /// All faults at once.
    pub fn check(&self) -> Result<Model, Vec<ModelFault>> {
        let mut faults = Vec::new();
        self.check_presence(&mut faults);
        self.check_limits(&mut faults);
        self.check_relations(&mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let model = self.build();
        let total = model.parameters_wide();
        if total > MOST_PARAMETERS {
            let billion = 1_000_000_000;
            return Err(vec![ModelFault::TooManyParameters {
                billions: total / billion,
                limit: MOST_PARAMETERS / billion,
            }]);
        }
        Ok(model)
    }

    fn check_presence(&self, faults: &mut Vec<ModelFault>) {
        let mut need = |key, there: bool, why| {
            if !there {
                faults.push(ModelFault::Missing { key, why });
            }
        };
        need("layers", self.layers > 0, "a model has layers");
        need("hidden", self.hidden > 0, "a model has a hidden width");
        need("heads", self.heads > 0, "attention has heads");
        need("vocab", self.vocab > 0, "the embedding and the head need it");
        need("kv_heads", self.kv_heads != Some(0), "leave it out for as many as query heads");
        need("head_dim", self.head_dim != Some(0), "leave it out for hidden / heads");
        need("window", self.window != Some(0), "leave it out for attention without a window");
        need("window_every", self.window_every != Some(0), "1 for all layers");
        need(
            "window",
            self.window.is_some() || self.window_every.is_none(),
            "`window_every` says which layers have it",
        );
        match self.experts {
            None => {
                need("ffn", self.ffn > 0, "a model without experts has a dense FFN");
                let stray =
                    [self.expert_ffn, self.top_k, self.expert_groups, self.top_groups].iter().any(Option::is_some)
                        || self.dense_layers > 0
                        || self.shared_experts > 0;
                let why = "`expert_ffn`, `top_k`, `dense_layers`, `shared_experts`, `expert_groups` and `top_groups` are of models with experts";
                need("experts", !stray, why);
            }
            Some(experts) => {
                need("experts", experts > 0, "leave it out for a dense model");
                need("top_k", self.top_k.is_some_and(|k| k > 0), "a token goes to so many experts");
                need("expert_ffn", self.expert_ffn.is_some_and(|f| f > 0), "experts have a width");
                need("ffn", self.ffn > 0 || self.dense_layers == 0, "the dense layers have an FFN");
                let both = self.expert_groups.is_some() == self.top_groups.is_some();
                need("top_groups", both, "`expert_groups` and `top_groups` go together");
                need("expert_groups", self.expert_groups != Some(0), "leave it out for free routing");
                need("top_groups", self.top_groups != Some(0), "leave it out for free routing");
            }
        }
        if self.kv_rank.is_some() {
            need("kv_rank", self.kv_rank != Some(0), "MLA compresses keys and values");
            need("query_rank", self.query_rank != Some(0), "leave it out for queries that are not compressed");
            need("nope_dim", self.nope_dim.is_some_and(|d| d > 0), "MLA needs it");
            need("rope_dim", self.rope_dim.is_some(), "MLA needs it (0 for none)");
            need("value_dim", self.value_dim.is_some_and(|d| d > 0), "MLA needs it");
        } else {
            let stray = [self.query_rank, self.nope_dim, self.rope_dim, self.value_dim].iter().any(Option::is_some);
            need("kv_rank", !stray, "the other keys of MLA are there");
        }
    }

    fn check_limits(&self, faults: &mut Vec<ModelFault>) {
        let mut most = |key, value: u64, limit: u64| {
            if value > limit {
                faults.push(ModelFault::Absurd { key, value, limit });
            }
        };
        let width = 1 << 22;
        most("layers", self.layers, 1 << 14);
        most("hidden", self.hidden, width);
        most("heads", self.heads, 1 << 14);
        most("head_dim", self.head_dim.unwrap_or(0), 1 << 16);
        most("query_rank", self.query_rank.unwrap_or(0), width);
        most("kv_rank", self.kv_rank.unwrap_or(0), width);
        most("nope_dim", self.nope_dim.unwrap_or(0), 1 << 16);
        most("rope_dim", self.rope_dim.unwrap_or(0), 1 << 16);
        most("value_dim", self.value_dim.unwrap_or(0), 1 << 16);
        most("ffn", self.ffn, width);
        most("experts", self.experts.unwrap_or(0), 1 << 16);
        most("shared_experts", self.shared_experts, 1 << 8);
        most("expert_ffn", self.expert_ffn.unwrap_or(0), width);
        most("vocab", self.vocab, 1 << 28);
        most("positions", self.positions, 1 << 28);
        most("mtp_layers", self.mtp_layers, 64);
    }

    fn check_relations(&self, faults: &mut Vec<ModelFault>) {
        let mut within = |small, value: u64, large, bound: u64| {
            if value > bound {
                faults.push(ModelFault::TooLarge { small, value, large, bound });
            }
        };
        within("dense_layers", self.dense_layers, "layers", self.layers);
        within("kv_heads", self.kv_heads.unwrap_or(0), "heads", self.heads);
        let experts = self.experts.unwrap_or(u64::MAX);
        within("top_k", self.top_k.unwrap_or(0), "experts", experts);
        within("expert_groups", self.expert_groups.unwrap_or(0), "experts", experts);
        within("top_groups", self.top_groups.unwrap_or(0), "expert_groups", self.expert_groups.unwrap_or(u64::MAX));
        let mut divides = |whole, value: u64, part, divisor: u64| {
            if divisor > 0 && !value.is_multiple_of(divisor) {
                let near = crate::nearest::Nearest::divisor(divisor, value.min(1 << 40), |_| true);
                faults.push(ModelFault::NotDivisible { whole, value, part, divisor, near });
            }
        };
        divides("heads", self.heads, "kv_heads", self.kv_heads.unwrap_or(1));
        if self.head_dim.is_none() && self.kv_rank.is_none() {
            divides("hidden", self.hidden, "heads", self.heads);
        }
        if let (Some(experts), Some(groups)) = (self.experts, self.expert_groups) {
            divides("experts", experts, "expert_groups", groups);
        }
    }

    fn build(&self) -> Model {
        let attention = match self.kv_rank {
            Some(kv_rank) => Attention::Latent {
                query_rank: self.query_rank,
                kv_rank,
                nope_dim: self.nope_dim.unwrap_or(0),
                rope_dim: self.rope_dim.unwrap_or(0),
                value_dim: self.value_dim.unwrap_or(0),
            },
            None => Attention::Grouped {
                kv_heads: self.kv_heads.unwrap_or(self.heads),
                head_dim: self.head_dim.unwrap_or(self.hidden / self.heads),
            },
        };
        Model {
            name: self.name.clone(),
            layers: self.layers,
            dense_layers: if self.experts.is_some() { self.dense_layers } else { self.layers },
            hidden: self.hidden,
            heads: self.heads,
            attention,
            window: self.window.map(|tokens| Window { tokens, every: self.window_every.unwrap_or(1) }),
            ffn: self.ffn,
            gated: self.gated,
            experts: self.experts.map(|experts| ExpertLayer {
                experts,
                top_k: self.top_k.unwrap_or(1),
                shared: self.shared_experts,
                ffn: self.expert_ffn.unwrap_or(0),
                groups: self.expert_groups.zip(self.top_groups),
            }),
            vocab: self.vocab,
            tied: self.tied,
            norm: if self.layer_norm { Norm::Layer } else { Norm::Rms },
            biases: self.biases,
            positions: self.positions,
            mtp_layers: self.mtp_layers,
        }
    }
}
