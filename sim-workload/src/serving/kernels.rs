//! The kernels of a step on one rank of an instance.
//!
//! As [`crate::model::kernels`], with what serving has and training hasn't: the cache is read, and only the experts that are touched
//! are. MLA decodes in its absorbed form, in which queries meet the latent vectors themselves; prompts are expanded.

use sim_core::units::{Bytes, Span};

use super::{ACTIVATION, Batch, Instance, Launch};
use crate::compute::Number;
use crate::model::kernels::{Kernel, Pass, Work, gemm, memory};
use crate::model::{Attention, LayerKind};

/// Kernels, and the bytes that each reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Kernels(Vec<(Kernel, Bytes)>);

impl Kernels {
    /// Each with its bytes.
    #[must_use]
    pub fn all(&self) -> &[(Kernel, Bytes)] {
        &self.0
    }

    /// Bytes that all read and write.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.0.iter().map(|(_, bytes)| bytes.get()).fold(0, u64::saturating_add))
    }
}

/// Expected number of `experts` that are touched when `tokens` tokens choose `top_k` of them each, evenly.
#[must_use]
pub fn touched(experts: u64, top_k: u64, tokens: u64) -> u64 {
    let missed = (1.0 - top_k as f64 / experts.max(1) as f64).max(0.0).powf(tokens as f64);
    ((experts as f64 * (1.0 - missed)).ceil() as u64).clamp(u64::from(tokens > 0), experts)
}

impl Instance<'_> {
    fn product(&self, name: &'static str, m: u64, n: u64, k: u64, out: &mut Kernels) {
        self.product_of(gemm(name, m, n, k), self.numbers.weights, out);
    }

    /// A product with weights in `number`: activations are two bytes, or as narrow as the weights where these are multiplied so.
    fn product_of(&self, kernel: Kernel, number: Number, out: &mut Kernels) {
        let (m, n, k, groups) = match kernel.work {
            Work::Gemm { m, n, k } => (m, n, k, 1),
            Work::Grouped { groups, rows, n, k } => (rows, n, k, groups),
            _ => return,
        };
        if m == 0 {
            return;
        }
        let bytes = number.bits().of(groups * k * n).get() + number.bits().of(m * k).get() + ACTIVATION * m * n;
        out.0.push((kernel, Bytes::new(bytes)));
    }

    fn pass(name: &'static str, elements: u64, out: &mut Kernels) {
        if elements > 0 {
            out.0.push((memory(name, elements), Bytes::new(elements * ACTIVATION)));
        }
    }

    /// The kernels of a layer of a kind for `batch`, which is the rank's own share. The FFN of experts works on the tokens of all
    /// ranks that share them.
    #[must_use]
    pub fn layer_kernels(&self, kind: LayerKind, window: Option<u64>, batch: &Batch) -> Kernels {
        let mut out = Kernels::default();
        let (tokens, hidden) = (batch.tokens(), self.model.hidden);
        Self::pass("residual and norm of attention", 4 * tokens * hidden, &mut out);
        self.attention(window, batch, &mut out);
        Self::pass("residual and norm of FFN", 4 * tokens * hidden, &mut out);
        match kind {
            LayerKind::Dense => self.ffn(["FFN up", "FFN down"], self.model.ffn, tokens, &mut out),
            LayerKind::Experts => {
                let all = if batch.together > 0 { batch.together } else { tokens * self.shape.data };
                self.experts(tokens, all, &mut out);
            }
        }
        out
    }

    fn attention(&self, window: Option<u64>, batch: &Batch, out: &mut Kernels) {
        let (model, t) = (self.model, self.shape.tensor);
        let (tokens, prompt, decodes, h) = (batch.tokens(), batch.prompt_tokens(), batch.decodes, model.hidden);
        let heads = model.heads.div_ceil(t);
        let kv_heads = model.kv_heads().div_ceil(t);
        let (width_qk, width_v) = model.head_widths();
        // Elements of the cache of a token in a layer.
        let cached = model.cache_per_token_of_rank(1, t).get() / model.layers;
        match model.attention {
            Attention::Grouped { head_dim, .. } => {
                self.product("projection of QKV", tokens, (heads + 2 * kv_heads) * head_dim, h, out);
                Self::pass("rotation and cache", 2 * tokens * (heads + 2 * kv_heads) * head_dim, out);
            }
            Attention::Latent { query_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                match query_rank {
                    Some(rank) => {
                        self.product("compression of Q and KV", tokens, rank + kv_rank + rope_dim, h, out);
                        self.product("expansion of Q", tokens, heads * width_qk, rank, out);
                    }
                    None => {
                        let width = heads * width_qk + kv_rank + rope_dim;
                        self.product("projection of Q, compression of KV", tokens, width, h, out);
                    }
                }
                Self::pass("rotation and cache", 2 * tokens * ((heads + 1) * rope_dim + kv_rank), out);
                // Of prompts the latent vectors of what is in the cache are expanded too.
                let expanded = if prompt > 0 { prompt + batch.past(window) } else { 0 };
                self.product("expansion of KV", expanded, heads * (nope_dim + value_dim), kv_rank, out);
            }
        }
        let cache_bits = self.numbers.cache.bits();
        if prompt > 0 {
            let work = Work::Attention {
                heads,
                kv_heads,
                queries: prompt,
                twice_pairs: batch.twice_pairs(window),
                width_qk,
                width_v,
            };
            let own = prompt * (heads + kv_heads) * (width_qk + width_v) * ACTIVATION;
            let read = cache_bits.of(batch.past(window) * cached).get();
            out.0.push((Kernel { name: "attention of prompts", work }, Bytes::new(own + read)));
        }
        if decodes > 0 {
            let (pairs, name) = (batch.looked_at(window), "attention of decoding");
            let cache = pairs * cached;
            let (width_qk, width_v) = match model.attention {
                Attention::Grouped { .. } => (width_qk, width_v),
                Attention::Latent { kv_rank, rope_dim, .. } => (kv_rank + rope_dim, kv_rank),
            };
            if let Attention::Latent { kv_rank, nope_dim, value_dim, .. } = model.attention {
                for (name, n, k) in [("absorption of K", kv_rank, nope_dim), ("absorption of V", value_dim, kv_rank)] {
                    let kernel = Kernel { name, work: Work::Batched { count: heads, m: decodes, n, k } };
                    let bytes = kernel.bytes(Pass::Forward, ACTIVATION);
                    out.0.push((kernel, bytes));
                }
            }
            let work = Work::Cached { heads, queries: decodes, pairs, cache, width_qk, width_v };
            let own = decodes * heads * (width_qk + width_v) * ACTIVATION;
            out.0.push((Kernel { name, work }, Bytes::new(cache_bits.of(cache).get() + own)));
        }
        self.product("projection of O", tokens, h, heads * width_v, out);
    }

    fn ffn(&self, names: [&'static str; 2], width: u64, tokens: u64, out: &mut Kernels) {
        let (width, into) = (width.div_ceil(self.shape.tensor), self.model.ffn_matrices() - 1);
        self.product(names[0], tokens, into * width, self.model.hidden, out);
        Self::pass("activation", (into + 1) * tokens * width, out);
        self.product(names[1], tokens, self.model.hidden, width, out);
    }

    fn experts(&self, tokens: u64, all: u64, out: &mut Kernels) {
        let Some(experts) = self.model.experts else { return };
        let (shape, h) = (self.shape, self.model.hidden);
        self.product_of(gemm("router", tokens, experts.experts, h), Number::Bf16, out);
        if experts.shared > 0 {
            self.ffn(["shared experts up", "shared experts down"], experts.shared * experts.ffn, tokens, out);
        }
        let rows = self.uneven((all * experts.top_k).div_ceil(shape.expert));
        let groups = touched(experts.experts, experts.top_k, all).div_ceil(shape.expert);
        let (width, into) = (experts.ffn.div_ceil(shape.expert_tensor), self.model.ffn_matrices() - 1);
        Self::pass("permutation", 2 * rows * h, out);
        let up = Work::Grouped { groups, rows, n: into * width, k: h };
        self.product_of(Kernel { name: "experts up", work: up }, self.numbers.weights, out);
        Self::pass("activation of experts", (into + 1) * rows * width, out);
        let down = Work::Grouped { groups, rows, n: h, k: width };
        self.product_of(Kernel { name: "experts down", work: down }, self.numbers.weights, out);
        Self::pass("sum over experts", (experts.top_k + 1) * tokens * h, out);
    }

    /// A number of the mean rank on the rank whose experts have most. One that divides experts only has all of them.
    pub(crate) fn uneven(&self, mean: u64) -> u64 {
        if self.shape.expert == 1 {
            return mean;
        }
        u64::try_from((u128::from(mean) * u128::from(self.imbalance)).div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// The kernels before the first layer.
    #[must_use]
    pub fn first_kernels(&self, batch: &Batch) -> Kernels {
        let mut out = Kernels::default();
        Self::pass("embedding", 2 * batch.tokens() * self.model.hidden, &mut out);
        out
    }

    /// The kernels after the last layer: norm, head and sampling for each sequence that gets a token.
    #[must_use]
    pub fn last_kernels(&self, batch: &Batch) -> Kernels {
        let mut out = Kernels::default();
        let (ends, vocab) = (batch.ends(), self.model.vocab.div_ceil(self.shape.tensor));
        Self::pass("last norm", 2 * ends * self.model.hidden, &mut out);
        self.product_of(gemm("head", ends, vocab, self.model.hidden), Number::Bf16, &mut out);
        Self::pass("sampling", 2 * ends * vocab, &mut out);
        out
    }

    /// The time of kernels one after the other.
    #[must_use]
    pub fn time_of(&self, kernels: &Kernels, launch: Launch) -> Span {
        let (device, host) = match launch {
            Launch::Graph(between) => (between, Span::ZERO),
            Launch::Eager { device, host } => (device, host),
        };
        let each = |(kernel, bytes): &(Kernel, Bytes)| self.machine.roofline(kernel, *bytes) + device;
        let work: Span = kernels.0.iter().map(each).sum();
        work.max(host * kernels.0.len() as u64)
    }
}
