//! Schedules of a pipeline: what each stage does in which order, one file a schedule.
//!
//! A schedule writes a list of [`Slot`]s for each stage; [`play()`] gives it times. Bubbles and activations in flight have closed
//! forms, to which tests hold the lists.

pub mod dualpipe;
pub mod gpipe;
pub mod interleaved;
pub mod law;
pub mod one_forward_one_backward;
pub mod play;
pub mod zero_bubble;

#[cfg(test)]
mod tests;

use core::fmt::Debug;

use sim_core::units::Span;

use crate::nearest::Nearest;

pub use play::{ChunkTimes, Deadlock, Timeline, Times, play};

/// The schedules by name. A new one is a file and a line here.
const SCHEDULES: &[&dyn Schedule] = &[
    &gpipe::GPipe,
    &one_forward_one_backward::OneForwardOneBackward,
    &interleaved::Interleaved,
    &zero_bubble::ZB_H1,
    &zero_bubble::ZB_H2,
    &dualpipe::DualPipe,
];

/// A micro batch in a chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The micro batch.
    pub micro: u64,
    /// The chunk.
    pub chunk: u64,
}

/// What a stage does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Forward.
    Forward(Cell),
    /// Both gradients.
    Backward(Cell),
    /// The gradient by the inputs alone.
    Data(Cell),
    /// The gradient by the weights alone.
    Weight(Cell),
    /// Forward of one and both gradients of another at once, each hiding the other's messages.
    Both {
        /// Forward.
        forward: Cell,
        /// Backward.
        backward: Cell,
    },
}

impl Slot {
    /// The cell whose forward pass this is.
    #[must_use]
    pub const fn forward(self) -> Option<Cell> {
        match self {
            Self::Forward(cell) | Self::Both { forward: cell, .. } => Some(cell),
            _ => None,
        }
    }

    /// The cell whose gradient by the inputs this makes.
    #[must_use]
    pub const fn gradient(self) -> Option<Cell> {
        match self {
            Self::Backward(cell) | Self::Data(cell) | Self::Both { backward: cell, .. } => Some(cell),
            _ => None,
        }
    }

    /// The cell whose activations are not needed any more.
    #[must_use]
    pub const fn frees(self) -> Option<Cell> {
        match self {
            Self::Backward(cell) | Self::Weight(cell) | Self::Both { backward: cell, .. } => Some(cell),
            _ => None,
        }
    }
}

/// Times of a stage for one micro batch, all chunks of it, equal in all stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualTimes {
    /// Forward F.
    pub forward: Span,
    /// Gradient by the inputs Bd.
    pub data: Span,
    /// Gradient by the weights W.
    pub weight: Span,
    /// Forward and backward at once (DualPipe).
    pub both: Span,
}

impl EqualTimes {
    /// All of it, F + Bd + W.
    #[must_use]
    pub fn work(&self) -> Span {
        self.forward + self.data + self.weight
    }
}

/// The shape of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Stages p.
    pub stages: u64,
    /// Chunks of a stage v.
    pub chunks: u64,
    /// Micro batches m.
    pub micros: u64,
}

/// An order of work.
pub trait Schedule: Debug + Sync {
    /// Its name in scenarios.
    fn name(&self) -> &'static str;

    /// Whether it can be run with so many stages, chunks and micro batches.
    ///
    /// # Errors
    /// The relation that does not hold, and what would do.
    fn can(&self, stages: u64, chunks: u64, micros: u64) -> Result<(), ScheduleFault> {
        let _ = (stages, micros);
        one_chunk(self.name(), chunks)
    }

    /// Whether a stage updates as soon as its own gradients are whole, and what all of them say is checked later, with a step taken back
    /// if need be: stages then go through steps one after the other, shifted, and none waits for the last.
    fn validates_later(&self) -> bool {
        false
    }

    /// The pipes: each a list of (stage, chunk) in the order of the layers. One pipe over all stages, chunk after chunk, unless a
    /// schedule says otherwise.
    fn pipes(&self, shape: Shape) -> Vec<Vec<(u64, u64)>> {
        vec![(0..shape.chunks).flat_map(|c| (0..shape.stages).map(move |s| (s, c))).collect()]
    }

    /// What `stage` does, in order.
    fn slots(&self, shape: Shape, stage: u64) -> Vec<Slot>;

    /// The chunks of `stage` in order: the place of each in its pipe, which says its layers, and how many micro batches pass it.
    fn passes(&self, shape: Shape, stage: u64) -> Vec<Passes> {
        let slots = self.slots(shape, stage);
        let mut out: Vec<(u64, u64)> = Vec::new();
        for pipe in self.pipes(shape) {
            let here = pipe.iter().zip(0..).filter(|((of, _), _)| *of == stage);
            out.extend(here.map(|((_, chunk), place)| (*chunk, place)));
        }
        out.sort_unstable();
        let micros =
            |chunk: u64| slots.iter().filter_map(|slot| slot.forward()).filter(|cell| cell.chunk == chunk).count();
        out.into_iter().map(|(chunk, place)| Passes { place, micros: micros(chunk) as u64 }).collect()
    }

    /// The closed form of the idle time of a stage between its first and its last work, at equal stages and without messages;
    /// `None` where there is no such form for these times.
    fn bubble(&self, shape: Shape, times: EqualTimes) -> Option<Span>;

    /// Most chunks whose activations `stage` holds at once, if there are enough micro batches.
    fn in_flight(&self, shape: Shape, stage: u64) -> u64;

    /// The stages whose layers `stage` holds.
    fn holds(&self, shape: Shape, stage: u64) -> Vec<u64> {
        let _ = shape;
        vec![stage]
    }
}

/// What passes a chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// The chunk's place in its pipe: that of stage s, chunk c of a usual pipe of p stages is c·p + s.
    pub place: u64,
    /// Micro batches.
    pub micros: u64,
}

impl PartialEq for dyn Schedule {
    /// Schedules are told apart by their names.
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// A schedule that can't be run so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleFault {
    /// No schedule has that name.
    #[error("unknown pipeline schedule `{name}`; known: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names.
        known: String,
    },
    /// A relation that the schedule needs.
    #[error("`{rule}` does not hold, which the schedule `{schedule}` needs: {values}; near: {key} = {near}")]
    Rule {
        /// The schedule.
        schedule: &'static str,
        /// The relation.
        rule: &'static str,
        /// The values.
        values: String,
        /// The key that would be changed.
        key: &'static str,
        /// Values of it that would do.
        near: Nearest,
    },
}

/// The schedule called `name`.
///
/// # Errors
/// If there is none; with the names that are.
pub fn by_name(name: &str) -> Result<&'static dyn Schedule, ScheduleFault> {
    SCHEDULES.iter().copied().find(|s| s.name() == name).ok_or_else(|| ScheduleFault::Unknown {
        name: name.chars().take(40).collect(),
        known: all().map(|s| s.name()).collect::<Vec<_>>().join(", "),
    })
}

/// All schedules.
pub fn all() -> impl Iterator<Item = &'static dyn Schedule> {
    SCHEDULES.iter().copied()
}

/// Refuses more than one chunk.
fn one_chunk(schedule: &'static str, chunks: u64) -> Result<(), ScheduleFault> {
    if chunks == 1 {
        return Ok(());
    }
    let (rule, values, key, near) = ("vp = 1", format!("vp = {chunks}"), "vp", Nearest::to(chunks, [1]));
    Err(ScheduleFault::Rule { schedule, rule, values, key, near })
}

/// Most cells whose activations are held at once in the course of `slots`.
#[must_use]
pub fn most_held(slots: &[Slot]) -> u64 {
    let (mut held, mut most) = (0u64, 0);
    for slot in slots {
        held += u64::from(slot.forward().is_some());
        most = most.max(held);
        held = held.saturating_sub(u64::from(slot.frees().is_some()));
    }
    most
}
