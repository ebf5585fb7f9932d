//! The kernels of a layer on one rank: matrix products, attention cores, passes over memory, each with its shape.
//!
//! A matrix product of (M×K)(K×N) costs 2MNK operations; its gradient by the input has the shape (M, K, N), that by the weights
//! (K, N, M). Attention over `pairs` pairs of query and key costs `2·heads·pairs·(dqk + dv)`; its backward pass twice as much,
//! for there are four products where there were two. Whoever recomputes the scores there counts five (see [`crate::compute`]).
//! Passes over memory are those of a fused implementation: a norm reads and writes the hidden state once, a residual reads
//! two and writes one, an activation reads g−1 widths and writes one.

use sim_core::units::Bytes;

use super::{Attention, LayerKind, Model};
use crate::units::Flops;

/// One of the passes of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// Forward.
    Forward,
    /// The gradient by the inputs.
    DataGradient,
    /// The gradient by the weights.
    WeightGradient,
}

impl Pass {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::DataGradient => "data-gradient",
            Self::WeightGradient => "weight-gradient",
        }
    }
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A product of an M×K matrix and a K×N one.
    Gemm {
        /// Rows of the result.
        m: u64,
        /// Columns of the result.
        n: u64,
        /// What is summed over.
        k: u64,
    },
    /// Products of one kind with different weights in one kernel: `rows` in all, divided over `groups`.
    Grouped {
        /// Different weights.
        groups: u64,
        /// Rows of all groups.
        rows: u64,
        /// Columns of the results.
        n: u64,
        /// What is summed over.
        k: u64,
    },
    /// The core of attention: scores, softmax, weighted sum.
    Attention {
        /// Heads on this rank.
        heads: u64,
        /// Key-value heads on this rank.
        kv_heads: u64,
        /// Tokens with a query.
        queries: u64,
        /// Twice the pairs of query and key of a head (twice, so that the causal half is whole).
        twice_pairs: u64,
        /// Width of query and key.
        width_qk: u64,
        /// Width of a value.
        width_v: u64,
    },
    /// Products of two activations each, one a head and sequence: the scores and the weighted sum when they are not fused.
    Batched {
        /// Products.
        count: u64,
        /// Rows of a result.
        m: u64,
        /// Columns of a result.
        n: u64,
        /// What is summed over.
        k: u64,
    },
    /// The core of attention over cached keys and values: each head of `queries` tokens against what is in the cache.
    Cached {
        /// Heads on this rank.
        heads: u64,
        /// Tokens with a query.
        queries: u64,
        /// Pairs of query and key of a head.
        pairs: u64,
        /// Elements of the cache that are read.
        cache: u64,
        /// Width of query and key.
        width_qk: u64,
        /// Width of a value.
        width_v: u64,
    },
    /// A pass over memory: elements read and written.
    Memory {
        /// Elements.
        elements: u64,
    },
}

/// A kernel of the forward pass, from which those of the backward pass follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kernel {
    /// What it is for.
    pub name: &'static str,
    /// What it does.
    pub work: Work,
}

/// What of a micro batch one rank works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Sequences b of the micro batch.
    pub sequences: u64,
    /// Tokens s of a sequence.
    pub length: u64,
    /// Ranks t that a layer's matrices are divided over.
    pub tensor: u64,
    /// Ranks c that the tokens are divided over.
    pub context: u64,
    /// Whether what is not divided by t is divided by tokens (sequence parallelism).
    pub sequence_parallel: bool,
    /// Ranks e that experts are divided over.
    pub expert: u64,
    /// Ranks te that an expert's matrices are divided over.
    pub expert_tensor: u64,
    /// Which pairs of attention are counted.
    pub mask: Mask,
    /// Whether the core of attention is one kernel (flash attention), or products with the scores in memory between them.
    pub fused: bool,
    /// Blocks of keys and values whose results are merged in fp32, one after the other (PyTorch's context parallelism); 0: the core does it.
    pub merged: u64,
}

/// Which pairs of query and key are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Those that a causal mask leaves: s²/2 of a sequence, less with a window.
    Causal,
    /// All s².
    Full,
}

impl Share {
    /// All of `sequences` of `length` tokens on one rank, causal.
    #[must_use]
    pub const fn whole(sequences: u64, length: u64) -> Self {
        Self {
            sequences,
            length,
            tensor: 1,
            context: 1,
            sequence_parallel: false,
            expert: 1,
            expert_tensor: 1,
            mask: Mask::Causal,
            fused: true,
            merged: 0,
        }
    }

    /// Tokens T = b·s/c.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        (self.sequences * self.length).div_ceil(self.context)
    }

    /// Tokens of the parts of a layer that tensor parallelism does not divide.
    #[must_use]
    pub const fn outer_tokens(&self) -> u64 {
        if self.sequence_parallel { self.tokens().div_ceil(self.tensor) } else { self.tokens() }
    }

    /// Twice the pairs of query and key of a head on this rank. A window of W < s tokens leaves s·W − W²/2.
    #[must_use]
    pub fn twice_pairs(&self, window: Option<u64>) -> u64 {
        let s = self.length;
        let sequence = match (self.mask, window) {
            (Mask::Full, _) => 2 * s * s,
            (Mask::Causal, Some(w)) if w < s => 2 * s * w - w * w,
            (Mask::Causal, _) => s * s,
        };
        (self.sequences * sequence).div_ceil(self.context)
    }
}

/// The kernel of a fused core of attention.
pub(crate) const FUSED: &str = "attention";
/// The first kernel of an unfused core of attention.
pub(crate) const SCORES: &str = "scores";
const SOFTMAX: &str = "softmax";
const DROPOUT: &str = "dropout of scores";
/// What merges blocks of keys and values.
const MERGE: &str = "merging of blocks";
/// The last kernel of an unfused core of attention.
pub(crate) const WEIGHTED: &str = "weighted sum";

pub(crate) const fn gemm(name: &'static str, m: u64, n: u64, k: u64) -> Kernel {
    Kernel { name, work: Work::Gemm { m, n, k } }
}

pub(crate) const fn memory(name: &'static str, elements: u64) -> Kernel {
    Kernel { name, work: Work::Memory { elements } }
}

impl Model {
    /// The kernels of the forward pass of layer number `index` on a rank with `share`.
    #[must_use]
    pub fn layer_kernels(&self, index: u64, share: &Share) -> Vec<Kernel> {
        self.kernels_of(self.kind(index), self.window_of(index), share)
    }

    /// The kernels of the forward pass of a layer of a kind.
    #[must_use]
    pub fn kernels_of(&self, kind: LayerKind, window: Option<u64>, share: &Share) -> Vec<Kernel> {
        let mut out = Vec::with_capacity(16);
        let outer = share.outer_tokens() * self.hidden;
        out.push(memory("norm of attention", 2 * outer));
        self.attention_kernels(share, window, &mut out);
        out.push(memory("residual of attention", 3 * outer));
        out.push(memory("norm of FFN", 2 * outer));
        match kind {
            LayerKind::Dense => self.ffn_kernels("FFN", self.ffn, share, &mut out),
            LayerKind::Experts => self.expert_kernels(share, &mut out),
        }
        out.push(memory("residual of FFN", 3 * outer));
        out
    }

    fn attention_kernels(&self, share: &Share, window: Option<u64>, out: &mut Vec<Kernel>) {
        let (tokens, h, t) = (share.tokens(), self.hidden, share.tensor);
        let heads = self.heads.div_ceil(t);
        let (width_qk, width_v) = self.head_widths();
        // Fewer key-value heads than ranks: each rank holds one.
        let kv_heads = self.kv_heads().div_ceil(t);
        match self.attention {
            Attention::Grouped { head_dim, .. } => {
                out.push(gemm("projection of QKV", tokens, (heads + 2 * kv_heads) * head_dim, h));
                out.push(memory("rotation", 2 * tokens * (heads + kv_heads) * head_dim));
            }
            Attention::Latent { query_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                // The projections to the latent vectors are whole on each rank of a tensor group.
                let down = share.outer_tokens();
                match query_rank {
                    Some(rank) => {
                        out.push(gemm("compression of Q", down, rank, h));
                        out.push(gemm("expansion of Q", tokens, heads * width_qk, rank));
                    }
                    None => out.push(gemm("projection of Q", tokens, heads * width_qk, h)),
                }
                out.push(gemm("compression of KV", down, kv_rank + rope_dim, h));
                out.push(gemm("expansion of KV", tokens, heads * (nope_dim + value_dim), kv_rank));
                out.push(memory("rotation", 2 * tokens * (heads + 1) * rope_dim));
            }
        }
        if share.fused {
            out.push(Kernel {
                name: FUSED,
                work: Work::Attention {
                    heads,
                    kv_heads,
                    queries: tokens,
                    twice_pairs: share.twice_pairs(window),
                    width_qk,
                    width_v,
                },
            });
        } else {
            self.unfused_core(share, heads, out);
        }
        if share.merged > 0 {
            // Of each further block, for an element of the result: 38 bytes to put it in fp32 and merge it by its sum of exponentials; backward 46 to add
            // gradients in fp32 and put those of keys and values together (torch 2.6, `_SDPAMerger` and `_templated_ring_attention_backward`).
            out.push(memory(MERGE, 19 * share.merged * tokens * heads * width_v));
        }
        out.push(gemm("projection of O", tokens, h, heads * width_v));
    }

    /// The core of attention with the scores in memory: all pairs, whatever the mask; softmax reads and writes them, and dropout
    /// does once more, with a mask of a byte.
    fn unfused_core(&self, share: &Share, heads: u64, out: &mut Vec<Kernel>) {
        let (width_qk, width_v) = self.head_widths();
        let (count, m, n) = (heads * share.sequences, share.length.div_ceil(share.context), share.length);
        let scores = count * m * n;
        out.push(Kernel { name: SCORES, work: Work::Batched { count, m, n, k: width_qk } });
        out.push(memory(SOFTMAX, 2 * scores));
        out.push(memory(DROPOUT, 2 * scores + scores / 2));
        out.push(Kernel { name: WEIGHTED, work: Work::Batched { count, m, n: width_v, k: n } });
    }

    fn ffn_kernels(&self, what: &'static str, width: u64, share: &Share, out: &mut Vec<Kernel>) {
        let (tokens, width) = (share.tokens(), width.div_ceil(share.tensor));
        let (up, down) = match what {
            "FFN" => ("FFN up", "FFN down"),
            _ => ("shared experts up", "shared experts down"),
        };
        let into = self.ffn_matrices() - 1;
        out.push(gemm(up, tokens, into * width, self.hidden));
        out.push(memory("activation", (into + 1) * tokens * width));
        out.push(gemm(down, tokens, self.hidden, width));
    }

    fn expert_kernels(&self, share: &Share, out: &mut Vec<Kernel>) {
        let Some(experts) = self.experts else { return };
        out.push(gemm("router", share.outer_tokens(), experts.experts, self.hidden));
        if experts.shared > 0 {
            self.ffn_kernels("shared", experts.shared * experts.ffn, share, out);
        }
        let rows = self.expert_rows(share);
        let groups = (experts.experts / share.expert).max(1);
        let (width, into) = (experts.ffn.div_ceil(share.expert_tensor), self.ffn_matrices() - 1);
        out.push(memory("permutation", 2 * rows * self.hidden));
        out.push(Kernel { name: "experts up", work: Work::Grouped { groups, rows, n: into * width, k: self.hidden } });
        out.push(memory("activation of experts", (into + 1) * rows * width));
        out.push(Kernel { name: "experts down", work: Work::Grouped { groups, rows, n: self.hidden, k: width } });
        out.push(memory("sum over experts", (experts.top_k + 1) * share.outer_tokens() * self.hidden));
    }

    /// Copies of tokens that a rank's experts work on when all experts get as many: T·K·te/t.
    #[must_use]
    pub fn expert_rows(&self, share: &Share) -> u64 {
        let copies = self.experts.map_or(0, |e| e.top_k) * share.tokens();
        (copies * share.expert_tensor).div_ceil(share.tensor)
    }

    /// The kernels before the first layer.
    #[must_use]
    pub fn embedding_kernels(&self, share: &Share) -> Vec<Kernel> {
        vec![memory("embedding", 2 * share.tokens() * self.hidden)]
    }

    /// The kernels after the last layer: norm, head, loss over V/t logits of a token.
    #[must_use]
    pub fn head_kernels(&self, share: &Share) -> Vec<Kernel> {
        let (tokens, vocab) = (share.tokens(), self.vocab.div_ceil(share.tensor));
        vec![
            memory("last norm", 2 * share.outer_tokens() * self.hidden),
            gemm("head", tokens, vocab, self.hidden),
            memory("loss", 2 * tokens * vocab),
        ]
    }
}

impl Model {
    /// The kernels of one layer of multi-token prediction: two norms and a projection of two hidden states to one, a layer as the
    /// last, and the head once more.
    #[must_use]
    pub fn prediction_kernels(&self, share: &Share) -> Vec<Kernel> {
        let outer = share.outer_tokens() * self.hidden;
        let width = self.hidden.div_ceil(share.tensor);
        let mut out = vec![
            memory("norms of prediction", 4 * outer),
            gemm("projection of prediction", share.tokens(), width, 2 * self.hidden),
        ];
        out.extend(self.layer_kernels(self.layers.saturating_sub(1), share));
        out.extend(self.head_kernels(share));
        out
    }
}

impl Kernel {
    /// Operations of a pass.
    #[must_use]
    pub fn flops(&self, pass: Pass) -> Flops {
        let wide = u128::from;
        Flops::new(match (self.work, pass) {
            (Work::Gemm { m, n, k }, _) => 2 * wide(m) * wide(n) * wide(k),
            (Work::Grouped { rows, n, k, .. }, _) => 2 * wide(rows) * wide(n) * wide(k),
            (Work::Batched { count, m, n, k }, Pass::Forward) => 2 * wide(count) * wide(m) * wide(n) * wide(k),
            (Work::Batched { count, m, n, k }, Pass::DataGradient) => 4 * wide(count) * wide(m) * wide(n) * wide(k),
            (Work::Attention { heads, twice_pairs, width_qk, width_v, .. }, Pass::Forward) => {
                wide(heads) * wide(twice_pairs) * wide(width_qk + width_v)
            }
            (Work::Attention { heads, twice_pairs, width_qk, width_v, .. }, Pass::DataGradient) => {
                2 * wide(heads) * wide(twice_pairs) * wide(width_qk + width_v)
            }
            (Work::Cached { heads, pairs, width_qk, width_v, .. }, Pass::Forward) => {
                2 * wide(heads) * wide(pairs) * wide(width_qk + width_v)
            }
            (Work::Attention { .. } | Work::Batched { .. }, Pass::WeightGradient)
            | (Work::Cached { .. } | Work::Memory { .. }, _) => 0,
        })
    }

    /// Bytes read and written in a pass, elements of `width` bytes, each operand once.
    #[must_use]
    pub fn bytes(&self, pass: Pass, width: u64) -> Bytes {
        let elements = match (self.work, pass) {
            (Work::Gemm { m, n, k }, _) => m * k + k * n + m * n,
            (Work::Grouped { groups, rows, n, k }, _) => rows * k + groups * k * n + rows * n,
            (Work::Batched { count, m, n, k }, Pass::Forward) => count * (m * k + k * n + m * n),
            (Work::Batched { count, m, n, k }, Pass::DataGradient) => 2 * count * (m * k + k * n + m * n),
            (Work::Attention { heads, kv_heads, queries, width_qk, width_v, .. }, Pass::Forward) => {
                queries * (heads + kv_heads) * (width_qk + width_v)
            }
            // Reads what the forward pass read and wrote, and the gradient of the result; writes three gradients.
            (Work::Attention { heads, kv_heads, queries, width_qk, width_v, .. }, Pass::DataGradient) => {
                queries * (2 * (heads + kv_heads) * (width_qk + width_v) + heads * width_v)
            }
            (Work::Cached { heads, queries, cache, width_qk, width_v, .. }, Pass::Forward) => {
                cache + queries * heads * (width_qk + width_v)
            }
            (Work::Memory { elements }, Pass::Forward) => elements,
            (Work::Memory { elements }, Pass::DataGradient) => self.back(elements),
            (Work::Attention { .. } | Work::Batched { .. } | Work::Memory { .. }, Pass::WeightGradient)
            | (Work::Cached { .. }, _) => 0,
        };
        Bytes::new(elements * width)
    }

    /// Elements that the backward pass of a pass over memory reads and writes, for `elements` of the forward one: a norm reads its
    /// input beside the gradient (3 for 2), a gated activation both its inputs (5 for 3). Others move as much.
    fn back(&self, elements: u64) -> u64 {
        match self.name {
            "norm of attention" | "norm of FFN" | "last norm" | "norms of prediction" => elements * 3 / 2,
            "activation" | "activation of experts" => elements * 5 / 3,
            MERGE => elements * 46 / 38,
            _ => elements,
        }
    }

    /// Whether a product of weights stays in 16 bits where others are in fewer: the head and the router (Megatron-LM: not made of
    /// Transformer Engine's layers; torchtitan leaves the head out by its filter).
    #[must_use]
    pub fn is_wide(&self) -> bool {
        matches!(self.name, "head" | "router")
    }

    /// Elements of a product of weights that have to be put in narrow numbers for a pass. Forward the input, unless a norm makes it,
    /// which writes it so at once; for both gradients the gradient of the result, once.
    #[must_use]
    pub fn narrowed(&self, pass: Pass) -> u64 {
        let (Work::Gemm { m, n, k } | Work::Grouped { rows: m, n, k, .. }) = self.work else { return 0 };
        let after_norm = matches!(
            self.name,
            "projection of QKV"
                | "projection of Q"
                | "compression of Q"
                | "compression of KV"
                | "compression of Q and KV"
                | "projection of Q, compression of KV"
                | "FFN up"
                | "shared experts up"
        );
        match pass {
            _ if self.is_wide() => 0,
            Pass::Forward if after_norm => 0,
            Pass::Forward => m * k,
            Pass::DataGradient => m * n,
            Pass::WeightGradient => 0,
        }
    }

    /// Parameters of the kernel.
    #[must_use]
    pub const fn weights(&self) -> u64 {
        match self.work {
            Work::Gemm { n, k, .. } => n * k,
            Work::Grouped { groups, n, k, .. } => groups * n * k,
            _ => 0,
        }
    }

    /// Whether the kernel has weights, and so a gradient by them.
    #[must_use]
    pub const fn has_weights(&self) -> bool {
        matches!(self.work, Work::Gemm { .. } | Work::Grouped { .. })
    }

    /// Whether the kernel is a part of an unfused core of attention, which selective recomputation works out again.
    #[must_use]
    pub fn is_core(&self) -> bool {
        [SCORES, SOFTMAX, DROPOUT, WEIGHTED].contains(&self.name)
    }

    /// The matrix product of a pass as (M, N, K); of grouped and batched ones with the rows of all. `None` for other work.
    #[must_use]
    pub const fn shape(&self, pass: Pass) -> Option<(u64, u64, u64)> {
        let (m, n, k) = match self.work {
            Work::Gemm { m, n, k } => (m, n, k),
            Work::Grouped { rows, n, k, .. } => (rows, n, k),
            Work::Batched { count, m, n, k } => (count * m, n, k),
            Work::Attention { .. } | Work::Cached { .. } | Work::Memory { .. } => return None,
        };
        Some(match pass {
            Pass::Forward => (m, n, k),
            Pass::DataGradient => (m, k, n),
            Pass::WeightGradient => (k, n, m),
        })
    }
}
