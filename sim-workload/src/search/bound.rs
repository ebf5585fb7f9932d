//! What a step takes at least, whatever algorithm a library chooses and however messages are hidden.
//!
//! Kernels of a rank follow one another, so the stage with most of them bounds the step. To them comes what they must wait for: the
//! messages between kernels of one forward pass (and of the pass that recomputes it) in a layer. Backward, a gradient by the weights
//! may be worked out meanwhile, so nothing is counted; nor is the last message of a slot, behind which another micro batch may go
//! on, what is cut in pieces, tokens to experts, blocks of context, messages between stages, gradients and parameters.
//!
//! A message takes at least what its bytes need at full rate of *all* links of a GPU, and of all NICs of a scale-up domain: every
//! rank of an all-reduce of S has to learn S bytes (with sums in switches no more), every rank of a gather or exchange S·(n − 1)/n, and a
//! domain with k of n ranks S, S·(n − k)/n and k·S·(n − k)/n. No latency, no headers, no contention.
//!
//! Drawn jitter may make single kernels faster than the law says; over a step's kernels its mean is none, so the bound is one of the mean.

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Rate, Span};
use sim_topology::{DeviceKind, Fabric};

use super::{Asked, Split};
use crate::messages::{self, Message, Operation, Overlap, Phase};
use crate::parallel::{Order, OrderFault, Ranks, Spread};
use crate::pipeline::{Passes, Slot};

/// The most that gets out of a GPU and out of a scale-up domain, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// All links of a GPU.
    pub gpu: Rate,
    /// All NICs of a scale-up domain.
    pub domain: Rate,
}

impl Reach {
    /// The most of any GPU and any domain of a fabric, over links that work.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Self {
        let mut gpus = vec![[0u64; 2]; fabric.devices().len()];
        let mut domains: BTreeMap<Option<u32>, [u64; 2]> = BTreeMap::new();
        for link in fabric.links().iter().filter(|link| link.alive) {
            for (way, device) in [link.from, link.to].into_iter().enumerate() {
                let add = |sum: &mut u64| *sum = sum.saturating_add(link.rate.get());
                if fabric.device(device).kind == DeviceKind::Gpu {
                    add(&mut gpus[device.index()][way]);
                }
                if fabric.device(device).kind == DeviceKind::Nic && link.class.is_network() {
                    add(&mut domains.entry(fabric.domain_of(device)).or_default()[way]);
                }
            }
        }
        let most = |all: &mut dyn Iterator<Item = &[u64; 2]>| all.flatten().copied().max().filter(|most| *most > 0);
        let rate = |most: Option<u64>| Rate::bytes_per_sec(most.unwrap_or(u64::MAX));
        Self { gpu: rate(most(&mut gpus.iter())), domain: rate(most(&mut domains.values())) }
    }

    /// What a message between ranks that lie so takes at least.
    #[must_use]
    pub fn least(&self, message: &Message, spread: &Spread) -> Span {
        let s = u128::from(message.bytes.get());
        let (n, k) = (u128::from(spread.ranks.max(1)), u128::from(spread.most_in_domain.max(1)));
        let (own, out) = match message.operation {
            Operation::AllReduce => (s, s),
            Operation::AllGather | Operation::ReduceScatter => (s * (n - 1) / n, s * n.saturating_sub(k) / n),
            Operation::AllToAll => (s * (n - 1) / n, k * s * n.saturating_sub(k) / n),
            // Either way of a pair, or one of them: what one rank sends.
            Operation::Send => (s, s),
        };
        let bytes = |n: u128| Bytes::new(u64::try_from(n).unwrap_or(u64::MAX));
        let inside = self.gpu.time_for(bytes(own));
        if spread.scales_out() { inside.max(self.domain.time_for(bytes(out))) } else { inside }
    }
}

/// What a step with these sizes and this order of ranks takes at least.
///
/// # Errors
/// If the order can't be.
pub fn bound(asked: &Asked<'_>, split: &Split, order: &Order, reach: &Reach) -> Result<Span, OrderFault> {
    let sizes = &split.sizes;
    let job = asked.job(sizes);
    let ranks = Ranks::new(order, sizes)?;
    let mut firsts: BTreeMap<u64, u64> = BTreeMap::new();
    for rank in 0..ranks.len() {
        firsts.entry(ranks.coordinates(rank).stage).or_insert(rank);
    }
    let mut most = Span::ZERO;
    for (stage, rank) in firsts {
        let passes = sizes.schedule.passes(sizes.shape(), stage);
        let chunk = |of: &Passes| {
            asked.machine.chunk(&job, of.place % sizes.pipeline, of.place / sizes.pipeline).total() * of.micros
        };
        let kernels: Span = passes.iter().map(chunk).sum();
        let slots_forward: u64 = passes.iter().map(|of| of.micros).sum();
        // Where a schedule does two slots at once, or two halves of one, each hides behind the other.
        let slots = sizes.schedule.slots(sizes.shape(), stage);
        let alone = !job.choices.two_batches && !slots.iter().any(|slot| matches!(slot, Slot::Both { .. }));
        let mut waits = Span::ZERO;
        if alone {
            let mut longest = Span::ZERO;
            for (message, count) in messages::of_stage(&job, stage) {
                if !waited_for(asked, &message) {
                    continue;
                }
                let each = reach.least(&message, &asked.placement.spread(&ranks.group(message.group, rank)));
                waits += each * count;
                longest = longest.max(each * message.count);
            }
            waits = Span::from_ps(waits.as_ps().saturating_sub((longest * slots_forward).as_ps()));
        }
        most = most.max(kernels + waits);
    }
    Ok(most)
}

/// Whether kernels of the same pass wait for a message, and nothing else can be done meanwhile.
fn waited_for(asked: &Asked<'_>, message: &Message) -> bool {
    let between = matches!(message.phase, Phase::Forward | Phase::Recompute);
    between
        && message.operation != Operation::Send
        && match message.overlap {
            Overlap::Nothing => true,
            Overlap::SplitGemm => asked.overlap.tensor <= 1,
            _ => false,
        }
}
