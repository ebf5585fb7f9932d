//! Every message of a step: what, how large, between whom, how often, when, and what it may run beside.
//!
//! One file a parallelism; a new one is a file and a line in `WRITERS`. The size of a message is that of the buffer that a user
//! would pass: of an all-reduce the whole buffer, of an all-gather the gathered result, of a reduce-scatter a rank's input, of
//! an all-to-all what a rank sends, to itself included, of a send what is sent. What passes over wires: [`Message::wire_bytes`].

pub mod buckets;
mod context;
mod data;
pub mod experts;
mod optimizer;
mod pipeline;
pub(crate) mod sharded;
mod tensor;
mod tied;
mod vocabulary;

#[cfg(test)]
mod tests;

use core::fmt;

use sim_core::units::Bytes;

use crate::job::{Choices, Job};
use crate::model::LayerKind;
use crate::parallel::Group;

pub use buckets::Buckets;
pub(crate) use data::{rounds, trained};

/// Who writes messages.
const WRITERS: &[fn(&Job<'_>, u64, &mut Vec<Message>)] = &[
    tensor::write,
    context::write,
    pipeline::write,
    experts::write,
    vocabulary::write,
    data::write,
    sharded::write,
    tied::write,
    optimizer::write,
];

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// All end with the sum.
    AllReduce,
    /// All end with all parts.
    AllGather,
    /// Each ends with its part of the sum.
    ReduceScatter,
    /// Each sends a part to each.
    AllToAll,
    /// One sends to one.
    Send,
}

/// When in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// In the forward pass of each micro batch.
    Forward,
    /// In the repeated forward pass of full recomputation.
    Recompute,
    /// In the backward pass of each micro batch.
    Backward,
    /// In the backward pass of the last micro batch.
    LastBackward,
    /// After all backward passes.
    Update,
    /// Before or in the forward pass of the first micro batch.
    FirstForward,
}

/// What there is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Per {
    /// Each layer of a kind (any without it), each micro batch; once in the phases that are there once a step.
    Layer(Option<LayerKind>),
    /// Each place of a pipe that has a next (forward) or a previous one (backward), each micro batch.
    Boundary,
    /// The same where it arrives.
    Arrival,
    /// Each layer of multi-token prediction, each micro batch.
    Prediction,
    /// Each micro batch, or once likewise.
    Micro,
    /// Each step.
    Step,
}

/// What a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The kernel of that name needs it.
    Before(&'static str),
    /// The gradient by the weights of the kernel of that name needs it; that by the inputs does not.
    BeforeWeights(&'static str),
    /// The kernel of that name makes it.
    After(&'static str),
    /// The last kernel of a chunk makes it, the first of the next needs it.
    Chunk,
    /// The last gradient of its bucket makes it.
    Gradients,
    /// The unit's first kernel needs it.
    Unit,
    /// The optimizer's update makes it.
    Update,
}

/// What a message may run beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overlap {
    /// Nothing: it stands in the critical path.
    Nothing,
    /// The matrix product next to it, if that is cut in pieces.
    SplitGemm,
    /// The attention to the block before.
    Attention,
    /// Shared experts, or the other half of a micro batch.
    OtherTokens,
    /// Other micro batches, while the pipeline is full.
    OtherMicros,
    /// The backward pass of layers before it.
    Backward,
    /// The forward pass of layers before it.
    Forward,
    /// The unit before, if gathered one ahead.
    PreviousUnit,
}

/// A message of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub name: &'static str,
    /// What ranks do.
    pub operation: Operation,
    /// Its size.
    pub bytes: Bytes,
    /// Between whom.
    pub group: Group,
    /// When.
    pub phase: Phase,
    /// What there are `count` of.
    pub per: Per,
    /// How many.
    pub count: u64,
    /// What it waits for.
    pub place: Place,
    /// What it may run beside.
    pub overlap: Overlap,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::Send => "send",
        })
    }
}

impl fmt::Display for Message {
    /// `ep dispatch: all-to-all of 462 MiB over ep`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} over {}", self.name, self.operation, self.bytes, self.group.name())
    }
}

impl Message {
    /// Bytes that a rank of a group of `n` sends at least: [`wire_bytes`].
    #[must_use]
    pub const fn wire_bytes(&self, n: u64) -> Bytes {
        wire_bytes(self.operation, self.bytes, n)
    }
}

/// Bytes that a rank of a group of `n` sends at least: 2S(n−1)/n for an all-reduce, S(n−1)/n for gather, scatter and
/// all-to-all, S for a send. Rounded up.
#[must_use]
pub const fn wire_bytes(operation: Operation, size: Bytes, n: u64) -> Bytes {
    let s = size.get() as u128;
    let n = if n == 0 { 1 } else { n } as u128;
    let bytes = match operation {
        Operation::AllReduce => (2 * s * (n - 1)).div_ceil(n),
        Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => (s * (n - 1)).div_ceil(n),
        Operation::Send => s,
    };
    Bytes::new(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
}

/// The messages of a rank of `stage`, each with how often it comes in a step.
#[must_use]
pub fn of_stage(job: &Job<'_>, stage: u64) -> Vec<(Message, u64)> {
    let written = |job: &Job<'_>| {
        let mut out = Vec::new();
        for write in WRITERS {
            write(job, stage, &mut out);
        }
        out
    };
    let mut all = written(job);
    // Halves of a micro batch have messages of their own, as many again, of half as many tokens.
    let turns = if job.choices.two_batches {
        let (half, choices) = (job.sizes.halved(), Choices { two_batches: false, ..job.choices });
        all.retain(|m| !of_tokens(m));
        all.extend(written(&Job { sizes: &half, choices, ..job.clone() }).into_iter().filter(of_tokens));
        2
    } else {
        1
    };
    let training = job.mode == crate::job::Mode::Training;
    all.into_iter()
        .filter(|m| training || m.phase == Phase::Forward)
        .filter(|m| m.group.size(job.sizes) > 1 && m.bytes > Bytes::ZERO)
        .map(|m| (m, times(job, stage, &m) * if of_tokens(&m) { turns } else { 1 }))
        .filter(|(_, times)| *times > 0)
        .collect()
}

/// Whether a message stands between kernels of a micro batch.
const fn of_tokens(message: &Message) -> bool {
    matches!(message.place, Place::Before(_) | Place::BeforeWeights(_) | Place::After(_))
}

/// How often a message comes in a step.
fn times(job: &Job<'_>, stage: u64, message: &Message) -> u64 {
    let micros = job.sizes.micros();
    let held = || job.sizes.schedule.holds(job.sizes.shape(), stage);
    // Of two stages' layers each meets half of the micro batches; some messages are of one micro batch only.
    let once = matches!(message.phase, Phase::LastBackward | Phase::Update | Phase::FirstForward);
    let met = |of: u64| if once { 1 } else { micros / of };
    let each = match message.per {
        Per::Step => 1,
        Per::Micro => met(held().len() as u64),
        Per::Prediction => job.model.mtp_layers * met(held().len() as u64),
        Per::Layer(kind) => {
            let layers = held().into_iter().map(|s| job.sizes.layers_of_stage(job.model, s));
            let layers: u64 = layers
                .map(|(dense, experts)| match kind {
                    None => dense + experts,
                    Some(LayerKind::Dense) => dense,
                    Some(LayerKind::Experts) => experts,
                })
                .sum();
            layers * met(held().len() as u64)
        }
        Per::Boundary | Per::Arrival => {
            let pipes = job.sizes.schedule.pipes(job.sizes.shape());
            let each = met(pipes.len() as u64);
            // The place that sends nothing that way, or gets nothing.
            let last = (message.phase != Phase::Backward) == (message.per == Per::Boundary);
            let here = |pipe: &Vec<(u64, u64)>| {
                let without = if last { pipe.len() - 1 } else { 0 };
                pipe.iter().enumerate().filter(|(i, (s, _))| *s == stage && *i != without).count() as u64
            };
            pipes.iter().map(here).sum::<u64>() * each
        }
    };
    message.count.saturating_mul(each)
}

/// Whether `stage` has the first layers, and whether the last.
fn ends(job: &Job<'_>, stage: u64) -> (bool, bool) {
    let held = job.sizes.schedule.holds(job.sizes.shape(), stage);
    (held.contains(&0), held.contains(&(job.sizes.pipeline - 1)))
}
