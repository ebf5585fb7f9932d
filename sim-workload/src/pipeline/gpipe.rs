//! GPipe (Huang et al. 2019, arXiv 1811.06965): all forward, then all backward.

use sim_core::units::Span;

use super::{Cell, EqualTimes, Schedule, Shape, Slot};

/// All forward, then all backward, last micro batch first.
#[derive(Debug)]
pub struct GPipe;

impl Schedule for GPipe {
    fn name(&self) -> &'static str {
        "gpipe"
    }

    fn slots(&self, shape: Shape, _stage: u64) -> Vec<Slot> {
        let cell = |micro| Cell { micro, chunk: 0 };
        let forward = (0..shape.micros).map(|i| Slot::Forward(cell(i)));
        forward.chain((0..shape.micros).rev().map(|i| Slot::Backward(cell(i)))).collect()
    }

    /// (p − 1)(F + Bd + W): the last stage waits for p − 1 forwards, the first for p − 1 backwards.
    fn bubble(&self, shape: Shape, times: EqualTimes) -> Option<Span> {
        Some(times.work() * (shape.stages - 1))
    }

    fn in_flight(&self, shape: Shape, _stage: u64) -> u64 {
        shape.micros
    }
}
