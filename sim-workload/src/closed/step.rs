//! The time of a step from closed forms: kernels as the compute model has them, messages as [`Way::usual`] has them, stages as their
//! schedule plays them. No contention.
//!
//! What runs beside kernels is hidden as far as there are kernels: gradients behind the backward pass of the last micro batch,
//! parameters behind the first forward pass, units of ZeRO-3, blocks of context and all but one piece of messages of cut products behind all
//! kernels, what passes between stages behind other micro batches. Tokens to experts are taken as exposed.
//!
//! It is no bound: a schedule that does two micro batches at once may be faster ([`search::bound`](crate::search::bound()) is one).

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Span};

use super::{Cluster, Way};
use crate::compute::Machine;
use crate::job::{Choices, Job};
use crate::messages::{self, Message, Operation, Overlap as Beside, Phase};
use crate::parallel::{Group, Placement, Ranks, Zero};
use crate::pipeline::play::{ChunkTimes, play};
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

/// A message of a stage, how often it comes, and how long one takes.
struct Sent {
    message: Message,
    count: u64,
    usual: Span,
    /// What of it stands between kernels of a pass.
    shown: Span,
}

/// The time of a step of a job on ranks that lie so.
#[must_use]
pub fn step(
    job: &Job<'_>,
    machine: &Machine,
    overlap: &Overlap,
    ranks: &Ranks,
    placement: &Placement,
    cluster: &Cluster,
) -> Estimate {
    let sizes = job.sizes;
    let stages = sizes.pipeline;
    let chunks = sizes.schedule.passes(sizes.shape(), 0).len() as u64;
    let mut firsts = vec![None; stages as usize];
    for rank in 0..ranks.len() {
        let first = &mut firsts[ranks.coordinates(rank).stage as usize];
        *first = first.or(Some(rank));
    }
    let mut ways: BTreeMap<(Group, u64), Way> = BTreeMap::new();
    let mut of = Vec::new();
    let mut transfer = Span::ZERO;
    let mut all: Vec<(Vec<Sent>, Span)> = Vec::new();
    let mut fullest = Span::ZERO;
    for stage in 0..stages {
        let rank = firsts[stage as usize].unwrap_or(0);
        let sent: Vec<Sent> = messages::of_stage(job, stage)
            .into_iter()
            .map(|(message, count)| {
                let key = (message.group, rank);
                let way = *ways.entry(key).or_insert_with(|| way(message.group, rank, ranks, placement, cluster));
                let of = |bytes: Bytes| way.usual(message.operation, bytes);
                let usual = of(message.bytes);
                let shown = if shown(overlap, &job.choices, &message) {
                    usual
                } else if message.overlap == Beside::SplitGemm {
                    // Of a message in pieces the first comes before the first piece of the product, or the last after the last.
                    of(Bytes::new(message.bytes.get().div_ceil(overlap.tensor))).min(usual)
                } else {
                    Span::ZERO
                };
                Sent { message, count, usual, shown }
            })
            .collect();
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
        let mut kernels = Span::ZERO;
        for chunk in passes {
            let times = machine.chunk(job, chunk.place % stages, chunk.place / stages);
            kernels += times.total() * chunk.micros;
            let (f, b) = (times.forward + share(forward), times.data + share(back));
            of.push([f, b, times.weight, f + b + times.weight]);
        }
        fullest = fullest.max(kernels);
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
    let (first_forward, last_back) = (pass(0), pass(1) + pass(2));
    let mut behind =
        [Behind::new(first_forward), Behind::new(last_back), Behind::new(*kernels), Behind::new(Span::ZERO)];
    for one in &sent[..] {
        let at = match (one.message.phase, one.message.overlap) {
            _ if one.message.group == Group::Pipeline => continue,
            _ if one.usual == one.shown => continue,
            (_, Beside::PreviousUnit | Beside::Attention | Beside::SplitGemm) => 2,
            (Phase::FirstForward, _) if overlap.parameters => 0,
            (Phase::LastBackward, _) if overlap.gradients => 1,
            (Phase::Forward | Phase::Recompute | Phase::Backward, _) => continue,
            _ => 3,
        };
        behind[at].add(one.message.group, less(one.usual, one.shown) * one.count);
    }
    let mut rest = Span::ZERO;
    for hidden in &behind {
        for (group, span) in hidden.left() {
            rest += span;
            *exposed.entry(group).or_default() += span;
        }
    }
    let trained = messages::trained(job, last as u64);
    let updated = if sizes.zero == Zero::Replicated {
        trained.total()
    } else {
        trained.dense.div_ceil(sizes.shard) + trained.experts.div_ceil(sizes.expert_data().max(1))
    };
    let optimizer = machine.update(updated, &job.widths);
    let bubble = less(piped, *kernels + inside);
    let time = piped + rest + optimizer;
    exposed.retain(|_, span| *span > Span::ZERO);
    Estimate { time, compute: *kernels, exposed, bubble, optimizer }
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
fn shown(overlap: &Overlap, choices: &Choices, message: &Message) -> bool {
    if message.group == Group::Pipeline || after(message.phase) {
        return false;
    }
    match message.overlap {
        Beside::Nothing | Beside::OtherTokens => true,
        Beside::SplitGemm => overlap.tensor <= 1,
        Beside::Attention => !overlap.context,
        Beside::PreviousUnit if message.phase == Phase::Backward => choices.prefetch_back == 0 && gathers(message),
        Beside::PreviousUnit => choices.prefetch == 0 && gathers(message),
        Beside::OtherMicros | Beside::Backward | Beside::Forward => false,
    }
}

/// Whether a message gathers.
fn gathers(message: &Message) -> bool {
    message.operation == Operation::AllGather
}

/// The way of a rank's group of a kind; of a pipeline that to the next stage.
#[must_use]
pub fn way(group: Group, rank: u64, ranks: &Ranks, placement: &Placement, cluster: &Cluster) -> Way {
    let members = ranks.group(group, rank);
    if group != Group::Pipeline {
        return cluster.way(placement.spread(&members));
    }
    // A message between stages goes to one neighbour, which may be on the same domain or not.
    let at = members.iter().position(|other| *other == rank).unwrap_or(0);
    cluster.way(placement.spread(&[rank, members[(at + 1) % members.len()]]))
}

/// What of `span` is over `by`.
const fn less(span: Span, by: Span) -> Span {
    Span::from_ps(span.as_ps().saturating_sub(by.as_ps()))
}
