//! The times of a schedule: each stage does its slots in order, each as soon as what it needs is there.
//!
//! A forward needs the forward before it in its pipe; a backward the backward behind it, or in the last place its own forward.
//! What comes from another stage takes a transfer, which holds up neither end: it runs beside the work.

use sim_core::units::{Span, Time};

use super::{Cell, Schedule, Shape, Slot};

/// How long things take.
pub trait Times {
    /// A slot of a stage.
    fn slot(&self, stage: u64, slot: Slot) -> Span;
    /// From one stage to another.
    fn transfer(&self, from: u64, to: u64) -> Span;
}

/// Times by stage and chunk.
#[derive(Clone, Debug)]
pub struct ChunkTimes {
    /// Forward, gradient by inputs, gradient by weights, forward and backward at once: of stage s and chunk c at s·v + c.
    pub of: Vec<[Span; 4]>,
    /// Chunks v.
    pub chunks: u64,
    /// Between stages.
    pub transfer: Span,
}

impl ChunkTimes {
    /// The same in all stages: `times` are of all chunks of a stage together.
    #[must_use]
    pub fn equal(shape: Shape, chunks: u64, times: super::EqualTimes) -> Self {
        let part = |span: Span| Span::from_ps(span.as_ps() / shape.chunks);
        let all = [part(times.forward), part(times.data), part(times.weight), part(times.both)];
        Self { of: vec![all; (shape.stages * chunks) as usize], chunks, transfer: Span::ZERO }
    }

    fn at(&self, stage: u64, cell: Cell) -> [Span; 4] {
        self.of.get((stage * self.chunks + cell.chunk) as usize).copied().unwrap_or_default()
    }
}

impl Times for ChunkTimes {
    fn slot(&self, stage: u64, slot: Slot) -> Span {
        match slot {
            Slot::Forward(cell) => self.at(stage, cell)[0],
            Slot::Data(cell) => self.at(stage, cell)[1],
            Slot::Weight(cell) => self.at(stage, cell)[2],
            Slot::Backward(cell) => self.at(stage, cell)[1] + self.at(stage, cell)[2],
            Slot::Both { forward, .. } => self.at(stage, forward)[3],
        }
    }

    fn transfer(&self, _from: u64, _to: u64) -> Span {
        self.transfer
    }
}

/// When a slot ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// What it was.
    pub slot: Slot,
    /// Its start.
    pub start: Time,
    /// Its end.
    pub end: Time,
}

/// What all stages did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Each stage's slots in order.
    pub stages: Vec<Vec<Ran>>,
}

/// A list of slots in which something waits for ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stage {stage} waits for ever at its slot {at}, {slot:?}")]
pub struct Deadlock {
    /// The first stage that waits.
    pub stage: u64,
    /// The number of the slot.
    pub at: usize,
    /// The slot.
    pub slot: Slot,
}

fn sign(slot: Slot) -> char {
    let digit = |base: u8, n: u64| char::from(base + (n % 10) as u8);
    match slot {
        Slot::Forward(cell) => digit(b'0', cell.micro),
        Slot::Backward(cell) | Slot::Data(cell) => digit(b'a', cell.micro),
        Slot::Weight(_) => 'w',
        Slot::Both { .. } => '*',
    }
}

impl Timeline {
    /// The end of all work.
    #[must_use]
    pub fn end(&self) -> Time {
        self.stages.iter().filter_map(|s| s.last()).map(|r| r.end).max().unwrap_or_default()
    }

    /// What a step of this schedule takes: up to the end of all work; where stages [update by themselves](Schedule::validates_later), what the
    /// longest takes from its first work to its last.
    #[must_use]
    pub fn step(&self, schedule: &dyn Schedule) -> Span {
        if schedule.validates_later() {
            (0..self.stages.len()).map(|stage| self.work(stage) + self.idle_within(stage)).max().unwrap_or_default()
        } else {
            self.end().since(Time::ZERO)
        }
    }

    /// A picture: a line a stage, a character for each `cell` of time. A forward is the last digit of its micro batch, a backward a
    /// letter (`a` for micro batch 0), the gradient by weights `w`, both at once `*`, nothing `.`. At most 4096 characters a line.
    #[must_use]
    pub fn chart(&self, cell: Span) -> String {
        let cell = cell.as_ps().max(1);
        let columns = self.end().as_ps().div_ceil(cell).min(4096);
        let mut out = String::new();
        for ran in &self.stages {
            let mut next = ran.iter().peekable();
            for column in 0..columns {
                // What runs in the middle of the cell.
                let at = Time::from_ps(column * cell + cell / 2);
                while next.peek().is_some_and(|r| r.end <= at) {
                    next.next();
                }
                out.push(next.peek().filter(|r| r.start <= at).map_or('.', |r| sign(r.slot)));
            }
            out.push('\n');
        }
        out
    }

    /// The time in which `stage` worked.
    #[must_use]
    pub fn work(&self, stage: usize) -> Span {
        self.stages.get(stage).into_iter().flatten().map(|r| r.end.since(r.start)).sum()
    }

    /// The time in which `stage` did nothing, from the first start to the last end of all.
    #[must_use]
    pub fn idle(&self, stage: usize) -> Span {
        self.end().since(Time::ZERO) - self.work(stage)
    }

    /// The time in which `stage` did nothing between its own first start and last end.
    #[must_use]
    pub fn idle_within(&self, stage: usize) -> Span {
        let Some((first, last)) = self.stages.get(stage).and_then(|s| s.first().zip(s.last())) else {
            return Span::ZERO;
        };
        last.end.since(first.start) - self.work(stage)
    }
}

/// Where the forwards and gradients of cells are noted.
struct Board {
    /// Place in its pipe of stage s and chunk c, at s·chunks + c.
    places: Vec<usize>,
    /// For each place the stage, and the places before and behind it.
    stages: Vec<(u64, Option<usize>, Option<usize>)>,
    chunks: usize,
    micros: usize,
    forward: Vec<Option<Time>>,
    gradient: Vec<Option<Time>>,
}

impl Board {
    fn new(pipes: &[Vec<(u64, u64)>], shape: Shape) -> Self {
        let chunks = pipes.iter().flatten().map(|(_, c)| c + 1).max().unwrap_or(1) as usize;
        let mut places = vec![0; shape.stages as usize * chunks];
        let mut stages = Vec::new();
        for pipe in pipes {
            for (i, (stage, chunk)) in pipe.iter().enumerate() {
                let at = stages.len();
                places[*stage as usize * chunks + *chunk as usize] = at;
                stages.push((*stage, (i > 0).then(|| at - 1), (i + 1 < pipe.len()).then_some(at + 1)));
            }
        }
        let micros = shape.micros as usize;
        let cells = stages.len() * micros;
        Self { places, stages, chunks, micros, forward: vec![None; cells], gradient: vec![None; cells] }
    }

    fn place(&self, stage: u64, cell: Cell) -> usize {
        self.places[stage as usize * self.chunks + cell.chunk as usize]
    }

    fn at(&self, place: usize, cell: Cell) -> usize {
        place * self.micros + cell.micro as usize
    }

    /// When what `slot` of `stage` needs from elsewhere is there; `None` if that isn't known yet.
    fn ready(&self, stage: u64, slot: Slot, times: &impl Times) -> Option<Time> {
        let arrival = |done: Option<Time>, from: u64| {
            done.map(|t| if from == stage { t } else { t + times.transfer(from, stage) })
        };
        let mut ready = Time::ZERO;
        if let Some(cell) = slot.forward() {
            let place = self.place(stage, cell);
            if let Some(before) = self.stages[place].1 {
                ready = ready.max(arrival(self.forward[self.at(before, cell)], self.stages[before].0)?);
            }
        }
        if let Some(cell) = slot.gradient() {
            let place = self.place(stage, cell);
            ready = ready.max(self.forward[self.at(place, cell)]?);
            if let Some(behind) = self.stages[place].2 {
                ready = ready.max(arrival(self.gradient[self.at(behind, cell)], self.stages[behind].0)?);
            }
        }
        if let Slot::Weight(cell) = slot {
            ready = ready.max(self.gradient[self.at(self.place(stage, cell), cell)]?);
        }
        Some(ready)
    }

    /// Notes the end of a slot, and pushes the stages that may have waited for it.
    fn note(&mut self, stage: u64, slot: Slot, end: Time, woken: &mut Vec<u64>) {
        if let Some(cell) = slot.forward() {
            let place = self.place(stage, cell);
            let at = self.at(place, cell);
            self.forward[at] = Some(end);
            woken.extend(self.stages[place].2.map(|p| self.stages[p].0));
        }
        if let Some(cell) = slot.gradient() {
            let place = self.place(stage, cell);
            let at = self.at(place, cell);
            self.gradient[at] = Some(end);
            woken.extend(self.stages[place].1.map(|p| self.stages[p].0));
        }
    }
}

/// Plays `schedule`.
///
/// # Errors
/// If a stage waits for ever: a fault of the schedule.
pub fn play(schedule: &dyn Schedule, shape: Shape, times: &impl Times) -> Result<Timeline, Deadlock> {
    let slots: Vec<Vec<Slot>> = (0..shape.stages).map(|s| schedule.slots(shape, s)).collect();
    let mut board = Board::new(&schedule.pipes(shape), shape);
    let mut timeline = Timeline { stages: slots.iter().map(|s| Vec::with_capacity(s.len())).collect() };
    let mut woken: Vec<u64> = (0..shape.stages).rev().collect();
    while let Some(stage) = woken.pop() {
        let ran = &mut timeline.stages[stage as usize];
        while let Some(slot) = slots[stage as usize].get(ran.len()).copied() {
            let Some(ready) = board.ready(stage, slot, times) else { break };
            let start = ready.max(ran.last().map_or(Time::ZERO, |r| r.end));
            let end = start + times.slot(stage, slot);
            ran.push(Ran { slot, start, end });
            board.note(stage, slot, end, &mut woken);
        }
    }
    for (stage, (ran, slots)) in timeline.stages.iter().zip(&slots).enumerate() {
        if let Some(slot) = slots.get(ran.len()) {
            return Err(Deadlock { stage: stage as u64, at: ran.len(), slot: *slot });
        }
    }
    Ok(timeline)
}
