//! The cache of keys and values from one instance to another.
//!
//! Who needs what: a rank holds the heads (of MLA the latent vectors, whole) of the layers of its stage. Where the two sides are divided
//! differently, each rank of the receiving one fetches its heads and layers from the ranks that have them.
//!
//! Engines write the cache block by block, as pages of it lie apart in memory. The queue of a NIC that sends gets through one block in
//! `max(block/β, c)`, c being what software and NIC need for a message, and what is posted to it waits its turn, whoever posted it; a
//! NIC that receives is bound by its wire alone; all queues of a side together are bound by host memory where data go through it:
//!
//! `t = t₀ + max over NICs of max(bytes/(β·η), blocks sent·c)`, and not below `bytes/host`.
//!
//! A GPU's own link to its host bounds what one of them sends over several NICs. t₀: what both sides agree on before and after.

use std::collections::BTreeMap;

use sim_collectives::step_graph::Message;
use sim_core::ids::LinkId;
use sim_core::units::{Bytes, Rate, Span};

use crate::compute::Number;
use crate::model::{Attention, Model};

/// How an instance is divided that sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Tensor parallelism, at least one.
    pub tensor: u64,
    /// Stages, at least one.
    pub pipeline: u64,
}

impl Side {
    /// Ranks of it.
    #[must_use]
    pub const fn ranks(&self) -> u64 {
        self.tensor * self.pipeline
    }

    fn layers(&self, stage: u64, layers: u64) -> (u64, u64) {
        let (each, more) = (layers / self.pipeline, layers % self.pipeline);
        let from = stage * each + stage.min(more);
        (from, from + each + u64::from(stage < more))
    }
}

/// What one rank sends to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Rank of the sending side: stage · t + rank of its tensor group.
    pub from: u64,
    /// Rank of the receiving side.
    pub to: u64,
    /// First layer.
    pub first_layer: u64,
    /// Layers.
    pub layers: u64,
    /// Bytes of one layer.
    pub layer_bytes: Bytes,
}

impl Piece {
    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.layer_bytes * self.layers
    }
}

/// The pieces of the cache of `tokens` tokens, elements as `number`. Where several ranks have the same heads, receivers spread over
/// them.
#[must_use]
pub fn pieces(model: &Model, tokens: u64, number: Number, from: Side, to: Side) -> Vec<Piece> {
    let mut out = Vec::new();
    for stage in 0..to.pipeline {
        let (low, high) = to.layers(stage, model.layers);
        for source in 0..from.pipeline {
            let (first, end) = from.layers(source, model.layers);
            let (first, end) = (first.max(low), end.min(high));
            if first >= end {
                continue;
            }
            for rank in 0..to.tensor {
                for (sender, elements) in senders(model, rank, from.tensor, to.tensor) {
                    out.push(Piece {
                        from: source * from.tensor + sender,
                        to: stage * to.tensor + rank,
                        first_layer: first,
                        layers: end - first,
                        layer_bytes: number.bits().of(elements * tokens),
                    });
                }
            }
        }
    }
    out
}

/// From whom a rank of a tensor group gets its part of a layer, and how many elements of a token.
fn senders(model: &Model, rank: u64, from: u64, to: u64) -> Vec<(u64, u64)> {
    let (heads, width) = match model.attention {
        Attention::Latent { kv_rank, rope_dim, .. } => return vec![(rank % from, kv_rank + rope_dim)],
        Attention::Grouped { kv_heads, head_dim } => (kv_heads, 2 * head_dim),
    };
    let held = |rank: u64, of: u64| (rank * heads / of, ((rank + 1) * heads).div_ceil(of));
    let (low, high) = held(rank, to);
    let mut out = Vec::new();
    let mut head = low;
    while head < high {
        // All ranks that have this head; copies are next to each other.
        let with: Vec<u64> = (0..from).filter(|s| (held(*s, from).0..held(*s, from).1).contains(&head)).collect();
        let Some(&sender) = with.get((rank % with.len().max(1) as u64) as usize) else { break };
        let end = held(sender, from).1.min(high);
        out.push((sender, (end - head) * width));
        head = end;
    }
    out
}

/// Which NIC a rank's cache goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NicChoice {
    /// That of its GPU.
    #[default]
    Affine,
    /// One for all ranks of a node.
    Pinned(u64),
    /// Pieces in turn over all NICs of the node.
    RoundRobin,
    /// Each piece over all NICs of the node in equal parts.
    Striped,
}

/// What carries the blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transport {
    /// Rate of a NIC, one direction.
    pub nic: Rate,
    /// Share of it that payload reaches, in millionths.
    pub share: u64,
    /// NICs of a node.
    pub nics: u64,
    /// Least time of a block in a NIC's queue.
    pub per_block: Span,
    /// Bytes of a block; larger pieces are cut.
    pub block: Bytes,
    /// Agreement before and after.
    pub base: Span,
    /// Rate of the link between a GPU and its host, which all NICs but its own are behind; without it not a bound.
    pub gpu: Option<Rate>,
    /// Rate of host memory, if the cache lies in or goes through it.
    pub host: Option<Rate>,
}

impl Transport {
    /// The parts of a piece, number `index` of its list, by NIC of the sending node, in bytes.
    #[must_use]
    pub fn parts(&self, index: u64, piece: &Piece, choice: NicChoice) -> Vec<(u64, Bytes)> {
        let (nics, bytes) = (self.nics.max(1), piece.bytes());
        match choice {
            NicChoice::Affine => vec![(piece.from % nics, bytes)],
            NicChoice::Pinned(nic) => vec![(nic % nics, bytes)],
            NicChoice::RoundRobin => vec![(index % nics, bytes)],
            NicChoice::Striped => {
                (0..nics).map(|n| (n, Bytes::new(bytes.get() / nics + u64::from(n < bytes.get() % nics)))).collect()
            }
        }
    }

    /// What payload gets of a NIC's wire.
    #[must_use]
    pub fn wire(&self) -> Rate {
        let wire = u128::from(self.nic.get()) * u128::from(self.share) / 1_000_000;
        Rate::bytes_per_sec(u64::try_from(wire).unwrap_or(u64::MAX))
    }

    /// The rate at which the queue of a NIC that sends is worked off.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let wire = self.wire();
        if self.per_block == Span::ZERO {
            return wire;
        }
        let ps = u128::from(self.per_block.as_ps());
        let blocks = u128::from(self.block.get().max(1)) * 1_000_000_000_000 / ps;
        Rate::bytes_per_sec(u64::try_from(blocks).unwrap_or(u64::MAX).min(wire.get()))
    }

    /// The same, where it is a bound beside the wire itself, which the engine knows.
    #[must_use]
    pub fn pace(&self) -> Option<Rate> {
        (self.per_block > Span::ZERO || self.share < 1_000_000).then(|| self.rate())
    }

    /// The time of all pieces when nothing else is sent. Each side's NICs are those of one node.
    #[must_use]
    pub fn time(&self, pieces: &[Piece], choice: NicChoice) -> Span {
        let mut out: BTreeMap<u64, u64> = BTreeMap::new();
        let mut into: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut sent, mut got): (BTreeMap<u64, u64>, BTreeMap<u64, u64>) = Default::default();
        let mut all = 0u64;
        for (index, piece) in pieces.iter().enumerate() {
            *sent.entry(piece.from).or_default() += piece.bytes().get();
            *got.entry(piece.to).or_default() += piece.bytes().get();
            for (nic, bytes) in self.parts(index as u64, piece, choice) {
                *out.entry(nic).or_default() += bytes.get();
                let at = if choice == NicChoice::Affine { piece.to % self.nics.max(1) } else { nic };
                *into.entry(at).or_default() += bytes.get();
                all += bytes.get();
            }
        }
        let fullest = |side: &BTreeMap<u64, u64>| Bytes::new(side.values().copied().max().unwrap_or(0));
        let over = self.rate().time_for(fullest(&out)).max(self.wire().time_for(fullest(&into)));
        let gpu = sent.values().chain(got.values()).copied().max().unwrap_or(0);
        let bound = |rate: Option<Rate>, bytes| rate.map_or(Span::ZERO, |rate| rate.time_for(Bytes::new(bytes)));
        self.base + over.max(bound(self.host, all)).max(bound(self.gpu, gpu))
    }

    /// The messages of all pieces for the engine: `route` gives the links from a rank of one side by a NIC of its node to a rank of
    /// the other, and the queue that it is posted to, if a NIC sends it. With `prefill` layers go one by one, each when it is made;
    /// without it each piece goes at once.
    ///
    /// # Errors
    /// What `route` says.
    pub fn messages<Q: Ord + Copy, E>(
        &self,
        pieces: &[Piece],
        choice: NicChoice,
        layers: u64,
        prefill: Option<Span>,
        mut route: impl FnMut(u64, u64, u64) -> Result<(Vec<LinkId>, Option<Q>), E>,
    ) -> Result<Vec<Message>, E> {
        let (mut out, mut posts) = (Vec::new(), Vec::new());
        for (index, piece) in pieces.iter().enumerate() {
            for (nic, bytes) in self.parts(index as u64, piece, choice) {
                let (links, queue) = route(piece.from, nic, piece.to)?;
                for (size, start) in by_layer(piece, bytes, layers, prefill) {
                    let mut message = Message::new(links.clone(), size, start);
                    message.launch = self.base;
                    let pace = self.pace().filter(|_| queue.is_some());
                    message.pace = pace;
                    let post = queue.zip(pace).map(|(queue, pace)| (queue, pace.time_for(size)));
                    posts.push((start, post));
                    out.push(message);
                }
            }
        }
        for (message, wait) in out.iter_mut().zip(waits(&posts)) {
            message.launch += wait;
        }
        Ok(out)
    }
}

/// How long each post waits until what was posted before to its queue has been worked off: of each its start, and its queue with the
/// time that it takes there. A queue is worked off in order of starts, then in the order of the list.
#[must_use]
pub fn waits<Q: Ord + Copy>(posts: &[(Span, Option<(Q, Span)>)]) -> Vec<Span> {
    let mut order: Vec<usize> = (0..posts.len()).collect();
    order.sort_by_key(|&at| posts[at].0);
    let mut free: BTreeMap<Q, Span> = BTreeMap::new();
    let mut out = vec![Span::ZERO; posts.len()];
    for at in order {
        let (start, Some((queue, work))) = posts[at] else { continue };
        let free = free.entry(queue).or_default();
        let begins = start.max(*free);
        out[at] = begins - start;
        *free = begins + work;
    }
    out
}

/// The parts of `bytes` of a piece, and when each starts: with `prefill` a part for each layer, when a prefill of that length has made
/// it, of `layers` layers of a model; else all at once.
#[must_use]
pub fn by_layer(piece: &Piece, bytes: Bytes, layers: u64, prefill: Option<Span>) -> Vec<(Bytes, Span)> {
    let Some(span) = prefill else { return vec![(bytes, Span::ZERO)] };
    let parts = piece.layers.max(1);
    let part = |part: u64| {
        let made = u128::from(piece.first_layer + part + 1) * u128::from(span.as_ps());
        let start = Span::from_ps(u64::try_from(made / u128::from(layers.max(1))).unwrap_or(u64::MAX));
        (Bytes::new(bytes.get() / parts + u64::from(part < bytes.get() % parts)), start)
    };
    (0..parts).map(part).collect()
}

/// What of a transfer with nothing else in its way is not hidden when each layer is sent as soon as it is made: what the transfer takes longer than the prefill
/// of all layers but the last, and the last layer at least.
#[must_use]
pub fn exposed(transfer: Span, prefill: Span, layers: u64) -> Span {
    let layers = layers.max(1);
    let beside = u128::from(prefill.as_ps()) * u128::from(layers - 1) / u128::from(layers);
    let beside = Span::from_ps(u64::try_from(beside).unwrap_or(u64::MAX));
    (transfer - beside).max(Span::from_ps(transfer.as_ps() / layers))
}
