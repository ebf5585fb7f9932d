//! The time of a step from closed forms: kernels as the compute model has them, messages at the rates of the links that their
//! groups cross, stages as their schedule plays them. No contention.
//!
//! A message of a group with n members takes `hops(n) · α + wire / rate`. `wire` is what a rank sends at least
//! ([`Message::wire_bytes`]). Within a scale-up domain `rate` is that of a GPU's scale-up links. A group on several domains, k
//! members in each, passes between them over the NICs of all k: `rate = min(scale-up, k · NIC)`, as rings and trees of collective
//! libraries do; of an all-to-all the n − k parts for other domains go over the rank's own NIC, beside the others; a send goes over one.
//! `hops` is ⌈log2 n⌉, twice that for an all-reduce.
//!
//! What runs beside kernels is hidden as far as there are kernels: gradients behind the backward pass of the last micro batch,
//! parameters behind the first forward pass, units of ZeRO-3, blocks of context and messages of cut products behind all kernels, what passes between stages behind
//! other micro batches. Tokens to experts are taken as exposed.

use std::collections::BTreeMap;

use sim_core::units::{Rate, Span, Time};

use crate::messages::{self, Message, Operation, Overlap as Beside, Phase};
use crate::parallel::{Group, Order, OrderFault, Ranks, Spread, Zero};
use crate::pipeline::play::{ChunkTimes, play};

use super::{Asked, Parts, Split};

/// The network as closed forms see it: rates of one GPU and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Between GPUs of a scale-up domain.
    pub scale_up: Rate,
    /// Between domains.
    pub scale_out: Rate,
    /// A hop within a domain.
    pub scale_up_latency: Span,
    /// A hop between domains.
    pub scale_out_latency: Span,
}

/// An estimated step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What it takes at least: the kernels of the stage with most, and what nothing can hide, at full rates.
    pub bound: Span,
    /// The step.
    pub time: Span,
    /// Kernels of the stage that ends last.
    pub compute: Span,
    /// Messages that are not hidden, by kind of group.
    pub exposed: BTreeMap<Group, Span>,
    /// Waiting for other stages.
    pub bubble: Span,
    /// The optimizer.
    pub optimizer: Span,
}

impl Estimate {
    /// The parts of the time, by name.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let fixed = [("compute", self.compute), ("bubble", self.bubble), ("optimizer", self.optimizer)];
        let fixed = fixed.into_iter().map(|(name, span)| (name.to_owned(), span.as_us()));
        fixed.chain(self.exposed.iter().map(|(group, span)| (group.name().to_owned(), span.as_us()))).collect()
    }
}

impl Cluster {
    /// The time of one message in a group that lies so; `alpha` says whether hops count.
    #[must_use]
    pub fn time(&self, message: &Message, spread: &Spread, alpha: bool) -> Span {
        let n = spread.ranks.max(1);
        let wire = message.wire_bytes(n);
        let out = spread.scales_out();
        let members = spread.most_in_domain.max(1);
        let many = |rate: Rate, k: u64| Rate::bytes_per_sec(rate.get().saturating_mul(k).max(1));
        let bytes = match message.operation {
            _ if !out => self.scale_up.time_for(wire),
            Operation::Send => self.scale_out.time_for(wire),
            Operation::AllToAll => {
                let part = |of: u64| sim_core::units::Bytes::new(message.bytes.get() / n * of);
                self.scale_out.time_for(part(n - members)).max(self.scale_up.time_for(part(members - 1)))
            }
            _ => many(self.scale_out, members).min(self.scale_up).time_for(wire),
        };
        if !alpha {
            return bytes;
        }
        let log = u64::from(n.next_power_of_two().trailing_zeros()).max(1);
        let hops = if message.operation == Operation::AllReduce { 2 * log } else { log };
        let hop = if out { self.scale_out_latency } else { self.scale_up_latency };
        bytes + hop * hops
    }
}

/// The messages of a stage, with how often they come and how long all of one kind take.
struct Sent {
    message: Message,
    count: u64,
    /// With hops, and without.
    each: (Span, Span),
}

/// The time of a step with these sizes and this order of ranks.
///
/// # Errors
/// If the order can't be.
pub fn estimate(asked: &Asked<'_>, split: &Split, order: &Order, cluster: &Cluster) -> Result<Estimate, OrderFault> {
    let sizes = &split.sizes;
    let job = asked.job(sizes);
    let ranks = Ranks::new(order, sizes)?;
    let (stages, chunks, micros) = (sizes.pipeline, sizes.virtual_stages, sizes.micros().max(1));
    let mut firsts = vec![None; stages as usize];
    for rank in 0..ranks.len() {
        let first = &mut firsts[ranks.coordinates(rank).stage as usize];
        *first = first.or(Some(rank));
    }
    let mut spreads: BTreeMap<(Group, u64), Spread> = BTreeMap::new();
    let mut of = Vec::new();
    let mut transfer = Span::ZERO;
    let mut all: Vec<(Vec<Sent>, Span)> = Vec::new();
    let mut bound = Span::ZERO;
    for stage in 0..stages {
        let rank = firsts[stage as usize].unwrap_or(0);
        let sent: Vec<Sent> = messages::of_stage(&job, stage)
            .into_iter()
            .map(|(message, count)| {
                let spread = *spreads
                    .entry((message.group, rank))
                    .or_insert_with(|| asked.placement.spread(&ranks.group(message.group, rank)));
                // A message between stages goes to one neighbour, which may be on the same domain or not.
                let spread = if message.operation == Operation::Send && message.group == Group::Pipeline {
                    next_stage(asked, &ranks, rank)
                } else {
                    spread
                };
                let each = (cluster.time(&message, &spread, true), cluster.time(&message, &spread, false));
                Sent { message, count, each }
            })
            .collect();
        let (mut forward, mut back, mut least) = (Span::ZERO, Span::ZERO, Span::ZERO);
        for one in sent.iter().filter(|one| shown(asked, &one.message)) {
            match one.message.phase {
                Phase::Forward => forward += one.each.0 * one.count,
                Phase::Recompute | Phase::Backward => back += one.each.0 * one.count,
                _ => continue,
            }
            least += one.each.1 * one.count;
        }
        for one in sent.iter().filter(|one| one.message.group == Group::Pipeline) {
            transfer = transfer.max(one.each.0);
        }
        let share = |span: Span| Span::from_ps(span.as_ps() / (micros * chunks));
        let mut kernels = Span::ZERO;
        for chunk in 0..chunks {
            let times = asked.machine.chunk(&job, stage, chunk);
            kernels += times.total() * micros;
            let (f, b) = (times.forward + share(forward), times.data + share(back));
            of.push([f, b, times.weight, f + b + times.weight]);
        }
        bound = bound.max(kernels + least);
        all.push((sent, kernels));
    }
    let times = ChunkTimes { of, chunks, transfer };
    // A schedule that waits for itself has no time; its bound stands for it.
    let timeline = play(sizes.schedule, sizes.shape(), &times).unwrap_or_default();
    let piped = timeline.end().since(Time::ZERO).max(bound);
    let last = (0..stages as usize).max_by_key(|stage| timeline.work(*stage)).unwrap_or(0);
    let (sent, kernels) = &all[last];
    let mut exposed: BTreeMap<Group, Span> = BTreeMap::new();
    let mut inside = Span::ZERO;
    for one in sent.iter().filter(|one| shown(asked, &one.message)) {
        if matches!(one.message.phase, Phase::Forward | Phase::Recompute | Phase::Backward) {
            let span = one.each.0 * one.count;
            inside += span;
            *exposed.entry(one.message.group).or_default() += span;
        }
    }
    // What has a micro batch's pass to hide behind.
    let pass = |at: usize| (0..chunks).map(|chunk| times.of[(last as u64 * chunks + chunk) as usize][at]).sum::<Span>();
    let (first_forward, last_back) = (pass(0), pass(1) + pass(2));
    let mut behind =
        [Behind::new(first_forward), Behind::new(last_back), Behind::new(*kernels), Behind::new(Span::ZERO)];
    for one in sent.iter().filter(|one| !shown(asked, &one.message) || after(one.message.phase)) {
        let at = match (one.message.phase, one.message.overlap) {
            _ if one.message.group == Group::Pipeline => continue,
            (_, Beside::PreviousUnit | Beside::Attention | Beside::SplitGemm) => 2,
            (Phase::FirstForward, _) if asked.overlap.parameters => 0,
            (Phase::LastBackward, _) if asked.overlap.gradients => 1,
            (Phase::Forward | Phase::Recompute | Phase::Backward, _) => continue,
            _ => 3,
        };
        behind[at].add(one.message.group, one.each.0 * one.count);
    }
    let mut rest = Span::ZERO;
    for hidden in &behind {
        for (group, span) in hidden.left() {
            rest += span;
            *exposed.entry(group).or_default() += span;
        }
    }
    let trained = messages::trained(&job, last as u64);
    let updated = if sizes.zero == Zero::Replicated {
        trained.total()
    } else {
        trained.dense.div_ceil(sizes.shard) + trained.experts.div_ceil(sizes.expert_data().max(1))
    };
    let optimizer = asked.machine.update(updated, &job.widths);
    let bubble = less(piped, *kernels + inside);
    let time = piped + rest + optimizer;
    exposed.retain(|_, span| *span > Span::ZERO);
    Ok(Estimate { bound, time, compute: *kernels, exposed, bubble, optimizer })
}

/// Work of a kind and what runs beside it.
struct Behind {
    work: Span,
    sent: BTreeMap<Group, Span>,
}

impl Behind {
    const fn new(work: Span) -> Self {
        Self { work, sent: BTreeMap::new() }
    }

    fn add(&mut self, group: Group, span: Span) {
        *self.sent.entry(group).or_default() += span;
    }

    /// What is not hidden, by kind of group, in proportion.
    fn left(&self) -> Vec<(Group, Span)> {
        let all: Span = self.sent.values().copied().sum();
        let over = less(all, self.work);
        let part = |span: Span| {
            let ps = u128::from(span.as_ps()) * u128::from(over.as_ps()) / u128::from(all.as_ps().max(1));
            Span::from_ps(ps as u64)
        };
        self.sent.iter().map(|(group, span)| (*group, part(*span))).filter(|(_, span)| *span > Span::ZERO).collect()
    }
}

const fn after(phase: Phase) -> bool {
    matches!(phase, Phase::LastBackward | Phase::Update | Phase::FirstForward)
}

/// Whether a message of a pass stands between kernels.
fn shown(asked: &Asked<'_>, message: &Message) -> bool {
    if message.group == Group::Pipeline || after(message.phase) {
        return false;
    }
    match message.overlap {
        Beside::Nothing | Beside::OtherTokens => true,
        Beside::SplitGemm => asked.overlap.tensor <= 1,
        Beside::Attention => !asked.overlap.context,
        Beside::OtherMicros | Beside::Backward | Beside::Forward | Beside::PreviousUnit => false,
    }
}

/// How a rank and its neighbour in the pipeline lie.
fn next_stage(asked: &Asked<'_>, ranks: &Ranks, rank: u64) -> Spread {
    let group = ranks.group(Group::Pipeline, rank);
    let at = group.iter().position(|other| *other == rank).unwrap_or(0);
    let next = group[(at + 1) % group.len()];
    asked.placement.spread(&[rank, next])
}

/// What of `span` is over `by`.
const fn less(span: Span, by: Span) -> Span {
    Span::from_ps(span.as_ps().saturating_sub(by.as_ps()))
}
