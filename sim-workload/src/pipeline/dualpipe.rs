//! DualPipe (DeepSeek-V3 report, arXiv 2412.19437): micro batches enter from both ends.
//!
//! Stage i holds the layers of stages i and p − 1 − i, so parameters are there twice. The order follows the description of the eight
//! phases in the public repository deepseek-ai/DualPipe, here for cells: chunk 0 is the pipe from the first stage to the
//! last, with micro batches 0 to m/2 − 1, chunk 1 that from the last to the first, with the others.

use std::collections::VecDeque;

use sim_core::units::Span;

use super::{Cell, EqualTimes, Schedule, ScheduleFault, Shape, Slot, one_chunk};
use crate::nearest::Nearest;

/// Two pipes in opposite directions.
#[derive(Debug)]
pub struct DualPipe;

/// Writes the slots of a stage; a phase of the schedule is its own pipe (0) or the other (1).
struct Writer {
    /// Whether the stage is in the second half, whose own pipe begins at the last stage.
    second: bool,
    half: u64,
    forwards: [u64; 2],
    backwards: [u64; 2],
    deferred: VecDeque<Cell>,
    out: Vec<Slot>,
}

impl Writer {
    fn cell(&self, phase: usize, nth: u64) -> Cell {
        let chunk = u64::from((phase == 1) != self.second);
        Cell { micro: chunk * self.half + nth, chunk }
    }

    fn next_forward(&mut self, phase: usize) -> Cell {
        let cell = self.cell(phase, self.forwards[phase]);
        self.forwards[phase] += 1;
        cell
    }

    fn next_backward(&mut self, phase: usize) -> Cell {
        let cell = self.cell(phase, self.backwards[phase]);
        self.backwards[phase] += 1;
        cell
    }

    fn forward(&mut self, phase: usize) {
        let cell = self.next_forward(phase);
        self.out.push(Slot::Forward(cell));
    }

    fn backward(&mut self, phase: usize, defer: bool) {
        let cell = self.next_backward(phase);
        if defer {
            self.deferred.push_back(cell);
        }
        self.out.push(if defer { Slot::Data(cell) } else { Slot::Backward(cell) });
    }

    fn both(&mut self, forward: usize, backward: usize) {
        let slot = Slot::Both { forward: self.next_forward(forward), backward: self.next_backward(backward) };
        self.out.push(slot);
    }

    fn weight(&mut self) {
        if let Some(cell) = self.deferred.pop_front() {
            self.out.push(Slot::Weight(cell));
        }
    }
}

impl Schedule for DualPipe {
    fn name(&self) -> &'static str {
        "dualpipe"
    }

    fn can(&self, stages: u64, chunks: u64, micros: u64) -> Result<(), ScheduleFault> {
        let schedule = self.name();
        one_chunk(schedule, chunks)?;
        if !stages.is_multiple_of(2) {
            let near = Nearest::multiple(stages, 2);
            let values = format!("pp = {stages}");
            return Err(ScheduleFault::Rule { schedule, rule: "pp % 2 = 0", values, key: "pp", near });
        }
        if !micros.is_multiple_of(2) || micros < 2 * stages {
            let least = 2 * stages;
            let near = Nearest::to(
                micros,
                [least, micros / 2 * 2, micros.div_ceil(2) * 2].into_iter().filter(|m| *m >= least),
            );
            let values = format!("m = global_batch / (dp · micro_batch) = {micros}, pp = {stages}");
            return Err(ScheduleFault::Rule { schedule, rule: "m % 2 = 0 and m >= 2 · pp", values, key: "m", near });
        }
        Ok(())
    }

    fn pipes(&self, shape: Shape) -> Vec<Vec<(u64, u64)>> {
        vec![(0..shape.stages).map(|s| (s, 0)).collect(), (0..shape.stages).rev().map(|s| (s, 1)).collect()]
    }

    fn slots(&self, shape: Shape, stage: u64) -> Vec<Slot> {
        let (p, half) = (shape.stages, shape.micros / 2);
        // From the nearer end.
        let depth = stage.min(p - 1 - stage);
        let from_middle = p / 2 - 1 - depth;
        let middle = from_middle == 0;
        let mut w = Writer {
            second: stage >= p / 2,
            half,
            forwards: [0; 2],
            backwards: [0; 2],
            deferred: VecDeque::new(),
            out: Vec::new(),
        };
        for _ in 0..2 * from_middle {
            w.forward(0);
        }
        for _ in 0..=depth {
            w.forward(0);
            w.forward(1);
        }
        for _ in 0..from_middle {
            w.backward(1, true);
            w.weight();
            w.forward(1);
        }
        for i in 0..half - p + depth + 1 {
            if i == 0 && middle {
                // Its backward waits for its forward of the other pipe.
                w.forward(0);
                w.backward(1, false);
            } else {
                w.both(0, 1);
            }
            w.both(1, 0);
        }
        for _ in 0..from_middle {
            w.backward(1, false);
            w.both(1, 0);
        }
        let mut defer = false;
        for i in 0..=depth {
            defer |= i == depth.div_ceil(2) && !depth.is_multiple_of(2);
            w.backward(1, defer);
            defer |= i == depth / 2 && depth.is_multiple_of(2);
            w.backward(0, defer);
        }
        for _ in 0..from_middle {
            w.weight();
            w.backward(0, true);
        }
        while !w.deferred.is_empty() {
            w.weight();
        }
        w.out
    }

    /// (p/2 − 1)(FB + B − 3W) with the whole backward B = Bd + W, as the report has it: (p/2 − 1)(FB + Bd − 2W). It holds for
    /// F = Bd, W no longer and FB = F + B; where less of a pair is spent the stages in the middle, which do the first one in two parts,
    /// are slower than the others.
    fn bubble(&self, shape: Shape, times: EqualTimes) -> Option<Span> {
        if times.forward != times.data || times.weight > times.forward || times.both != times.work() {
            return None;
        }
        let round = times.both + times.data;
        Some((round - times.weight * 2) * (shape.stages / 2 - 1))
    }

    fn in_flight(&self, shape: Shape, _stage: u64) -> u64 {
        shape.stages + 1
    }

    fn holds(&self, shape: Shape, stage: u64) -> Vec<u64> {
        vec![stage, shape.stages - 1 - stage]
    }
}
