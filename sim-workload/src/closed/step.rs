//! The time of a step from closed forms: kernels as the compute model has them, messages as [`Way::usual`] or the [library](super::ByLibrary)
//! has them, stages as their schedule plays them. No contention.
//!
//! What runs beside kernels is hidden as far as there are kernels: gradients behind the backward pass of the last micro batch,
//! parameters behind the first forward pass, units of ZeRO-3 and all but one piece of messages of cut products behind kernels of the same
//! pass, blocks of context behind attention to the other blocks, what passes between stages behind other micro batches. Tokens to
//! experts are taken as exposed, unless the other half of a micro batch hides them. Kernels W beside messages H lose the part λ of the GPU that these take: together they last W + λ·H, or H where that
//! is more than W/(1 − λ).
//!
//! It is no bound: a schedule that does two micro batches at once may be faster ([`search::bound`](crate::search::bound()) is one).

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Span};

use super::hidden::{self, Sent, Work, less};
use super::{Cluster, Way};
use crate::compute::{LayerTimes, Machine, Slowdown};
use crate::experts::Kernels;
use crate::job::{Choices, Job};
use crate::messages::{self, Message, Operation, Overlap as Beside, Phase, sharded};
use crate::model::activations::Recompute;
use crate::parallel::{Group, Placement, Ranks, Spread, Zero};
use crate::pipeline::play::{ChunkTimes, play};
use crate::step::exchange::{self, Exchange};
use crate::step::overlap::Overlap;

/// An estimated step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
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
    /// The parts of the time, by name, in µs.
    #[must_use]
    pub fn parts(&self) -> Vec<(String, f64)> {
        let fixed = [("compute", self.compute), ("bubble", self.bubble), ("optimizer", self.optimizer)];
        let fixed = fixed.into_iter().map(|(name, span)| (name.to_owned(), span.as_us()));
        fixed.chain(self.exposed.iter().map(|(group, span)| (group.name().to_owned(), span.as_us()))).collect()
    }
}

/// What a message in a rank's group of a kind takes when it is alone.
pub trait Takes {
    /// An operation on so many bytes, as [`messages`] count them.
    fn takes(&self, group: Group, rank: u64, operation: Operation, bytes: Bytes) -> Span;
}

/// Messages as [`Way::usual`] has them.
#[derive(Clone, Copy, Debug)]
pub struct Usual<'a> {
    /// The ranks.
    pub ranks: &'a Ranks,
    /// Where they lie.
    pub placement: &'a Placement,
    /// The links of one GPU.
    pub cluster: &'a Cluster,
}

impl Takes for Usual<'_> {
    fn takes(&self, group: Group, rank: u64, operation: Operation, bytes: Bytes) -> Span {
        way(group, rank, self.ranks, self.placement, self.cluster).usual(operation, bytes)
    }
}

/// The time of a step of a job on ranks that lie so, whose messages take what `alone` says, and of GPUs the part that `slowdown` says.
#[must_use]
pub fn step(
    job: &Job<'_>,
    machine: &Machine,
    (overlap, slowdown): (&Overlap, Slowdown),
    (ranks, placement): (&Ranks, &Placement),
    alone: &dyn Takes,
) -> Estimate {
    let sizes = job.sizes;
    let stages = sizes.pipeline;
    let chunks = sizes.schedule.passes(sizes.shape(), 0).len() as u64;
    let mut firsts = vec![None; stages as usize];
    for rank in 0..ranks.len() {
        let first = &mut firsts[ranks.coordinates(rank).stage as usize];
        *first = first.or(Some(rank));
    }
    // Relays carry a token to a node once, whichever of its experts are there.
    let exchanges = exchange::of_job(job);
    let exchange = exchanges.first().filter(|_| matches!(job.choices.kernels, Kernels::Normal { .. }));
    let mut of = Vec::new();
    let mut transfer = Span::ZERO;
    let mut all: Vec<(Vec<Sent>, LayerTimes)> = Vec::new();
    let mut fullest = Span::ZERO;
    for stage in 0..stages {
        let rank = firsts[stage as usize].unwrap_or(0);
        let mut spreads: BTreeMap<Group, Spread> = BTreeMap::new();
        let sent: Vec<Sent> = messages::of_stage(job, stage)
            .into_iter()
            .map(|(message, count)| {
                let spread = || placement.spread(&neighbours(message.group, rank, ranks));
                let spread = *spreads.entry(message.group).or_insert_with(spread);
                let of = |bytes: Bytes| {
                    let relayed = exchange.filter(|_| message.group == Group::Expert);
                    let bytes = relayed.map_or(bytes, |exchange| as_all_to_all(exchange, bytes, &spread));
                    alone.takes(message.group, rank, message.operation, bytes)
                };
                let takes = if spread.over_nics_alone() { slowdown.scale_out } else { slowdown.scale_up };
                let (usual, shown) = if shown(overlap, &job.choices, &message) {
                    let usual = of(message.bytes);
                    (usual, usual)
                } else if message.overlap == Beside::SplitGemm {
                    // Of a message in pieces the first comes before the first piece of the product, or the last after the last.
                    let piece = of(Bytes::new(message.bytes.get().div_ceil(overlap.tensor)));
                    (piece * overlap.tensor, piece)
                } else {
                    (of(message.bytes), Span::ZERO)
                };
                Sent { message, count, usual, shown, takes }
            })
            .collect();
        let sent = if job.choices.two_batches { in_turn(sent, job, machine, stage) } else { sent };
        let (mut forward, mut back) = (Span::ZERO, Span::ZERO);
        for one in sent.iter().filter(|one| !after(one.message.phase)) {
            let way = if one.message.phase == Phase::Forward { &mut forward } else { &mut back };
            *way += one.shown * one.count;
        }
        for one in sent.iter().filter(|one| one.message.group == Group::Pipeline) {
            transfer = transfer.max(one.usual);
        }
        let passes = sizes.schedule.passes(sizes.shape(), stage);
        let all_passes = passes.iter().map(|chunk| chunk.micros).sum::<u64>().max(1);
        let share = |span: Span| Span::from_ps(span.as_ps() / all_passes);
        let mut kernels = LayerTimes::default();
        for chunk in passes {
            let times = machine.chunk(job, chunk.place % stages, chunk.place / stages);
            kernels = kernels + times * chunk.micros;
            let (f, b) = (times.forward + share(forward), times.data + share(back));
            of.push([f, b, times.weight, f + b + times.weight]);
        }
        fullest = fullest.max(kernels.total());
        all.push((sent, kernels));
    }
    let times = ChunkTimes { of, chunks, transfer };
    // A schedule that waits for itself has no time; its fullest stage stands for it.
    let timeline = play(sizes.schedule, sizes.shape(), &times).unwrap_or_default();
    let piped = timeline.step(sizes.schedule).max(fullest);
    let last = (0..stages as usize).max_by_key(|stage| timeline.work(*stage)).unwrap_or(0);
    let (sent, kernels) = &all[last];
    let mut exposed: BTreeMap<Group, Span> = BTreeMap::new();
    let mut inside = Span::ZERO;
    for one in sent.iter().filter(|one| !after(one.message.phase)) {
        let span = one.shown * one.count;
        inside += span;
        *exposed.entry(one.message.group).or_default() += span;
    }
    // What has a micro batch's pass to hide behind.
    let pass = |at: usize| (0..chunks).map(|chunk| times.of[(last as u64 * chunks + chunk) as usize][at]).sum::<Span>();
    let work = Work {
        first_forward: pass(0),
        last_back: pass(1) + pass(2),
        forward: kernels.forward,
        back: kernels.data + kernels.weight,
        attention: attention(job, machine, last as u64),
    };
    let beside = hidden::beside(sent, &work, overlap);
    let rest: Span = beside.exposed.values().copied().sum();
    for (group, span) in beside.exposed {
        *exposed.entry(group).or_default() += span;
    }
    let stretched = beside.stretched;
    let trained = messages::trained(job, last as u64);
    let updated = if sizes.zero == Zero::Replicated {
        trained.total()
    } else {
        trained.dense.div_ceil(sizes.shard) + trained.experts.div_ceil(sizes.expert_data().max(1))
    };
    let optimizer = machine.update(updated, &job.widths);
    let bubble = less(piped, kernels.total() + inside);
    let time = piped + rest + stretched + optimizer;
    exposed.retain(|_, span| *span > Span::ZERO);
    Estimate { time, compute: kernels.total() + stretched, exposed, bubble, optimizer }
}

/// The size of an all-to-all that puts as much on a rank's NIC, or within a domain on its links, as relays do.
fn as_all_to_all(exchange: &Exchange, bytes: Bytes, spread: &Spread) -> Bytes {
    let sent = exchange.sent(bytes, spread.ranks as u32, spread.domains as u32);
    let (n, others) = (spread.ranks as f64, spread.ranks.saturating_sub(spread.most_in_domain));
    let size = if others > 0 { sent.network * n / others as f64 } else { sent.scale_up * n / (n - 1.0).max(1.0) };
    Bytes::new(size.round() as u64)
}

/// Messages of which kernels of the other half of a micro batch hide as much as they can.
fn in_turn(mut sent: Vec<Sent>, job: &Job<'_>, machine: &Machine, stage: u64) -> Vec<Sent> {
    let sizes = job.sizes;
    let mut kernels = LayerTimes::default();
    for of in sizes.schedule.passes(sizes.shape(), stage) {
        kernels = kernels + machine.chunk(job, of.place % sizes.pipeline, of.place / sizes.pipeline) * of.micros;
    }
    for forward in [true, false] {
        let of = |one: &Sent| !after(one.message.phase) && (one.message.phase == Phase::Forward) == forward;
        let work = if forward { kernels.forward } else { kernels.data + kernels.weight };
        let all: Span = sent.iter().filter(|one| of(one)).map(|one| one.shown * one.count).sum();
        let left = u128::from(less(all, work).as_ps());
        for one in sent.iter_mut().filter(|one| of(one)) {
            let shown = u128::from(one.shown.as_ps()) * left / u128::from(all.as_ps().max(1));
            one.shown = Span::from_ps(shown as u64);
        }
    }
    sent
}

/// Attention of a stage's layers over a step, forward and backward, of all blocks but one.
fn attention(job: &Job<'_>, machine: &Machine, stage: u64) -> [Span; 2] {
    let (model, sizes) = (job.model, job.sizes);
    let share = sizes.share();
    let mut all = LayerTimes::default();
    for of in sizes.schedule.passes(sizes.shape(), stage) {
        for layer in sizes.layers_of(of.place % sizes.pipeline, of.place / sizes.pipeline) {
            let cores: Vec<_> = model.layer_kernels(layer, &share).into_iter().filter(|k| k.is_core()).collect();
            all = all + machine.kernels(&cores, job.widths.activation) * of.micros;
        }
    }
    let again = if sizes.recompute == Recompute::Full { all.forward } else { Span::ZERO };
    [all.forward, all.data + all.weight + again]
        .map(|span| Span::from_ps(span.as_ps() / sizes.context) * (sizes.context - 1))
}

/// Whether a message is of no pass.
pub(super) const fn after(phase: Phase) -> bool {
    matches!(phase, Phase::LastBackward | Phase::Update | Phase::FirstForward)
}

/// Whether a message of a pass stands between kernels.
fn shown(overlap: &Overlap, choices: &Choices, message: &Message) -> bool {
    if message.group == Group::Pipeline || after(message.phase) {
        return false;
    }
    match message.overlap {
        Beside::Nothing | Beside::OtherTokens => true,
        // There is no unit before that its gather could come beside.
        Beside::PreviousUnit if gathers(message) && message.name == first_unit(message.phase) => true,
        Beside::SplitGemm => overlap.tensor <= 1,
        Beside::Attention => !overlap.context,
        Beside::PreviousUnit if message.phase == Phase::Backward => choices.prefetch_back == 0 && gathers(message),
        Beside::PreviousUnit => choices.prefetch == 0 && gathers(message),
        Beside::OtherMicros | Beside::Backward | Beside::Forward => false,
    }
}

/// The unit that a pass begins with.
const fn first_unit(phase: Phase) -> &'static str {
    if matches!(phase, Phase::Forward) { sharded::EMBEDDING } else { sharded::HEAD }
}

/// Whether a message gathers.
fn gathers(message: &Message) -> bool {
    message.operation == Operation::AllGather
}

/// The members of a rank's group of a kind; of a pipeline the rank and the next stage's: a message goes to one neighbour, which may be in the same
/// domain or not.
pub(super) fn neighbours(group: Group, rank: u64, ranks: &Ranks) -> Vec<u64> {
    let members = ranks.group(group, rank);
    if group != Group::Pipeline {
        return members;
    }
    let at = members.iter().position(|other| *other == rank).unwrap_or(0);
    vec![rank, members[(at + 1) % members.len()]]
}

/// The way of a rank's group of a kind; of a pipeline that to the next stage.
#[must_use]
pub fn way(group: Group, rank: u64, ranks: &Ranks, placement: &Placement, cluster: &Cluster) -> Way {
    cluster.way(placement.spread(&neighbours(group, rank, ranks)))
}
