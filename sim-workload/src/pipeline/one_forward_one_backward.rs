//! 1F1B (PipeDream-Flush; Narayanan et al. 2021, arXiv 2104.04473): one forward, one backward, so that no stage holds more than
//! p micro batches.

use sim_core::units::Span;

use super::{Cell, EqualTimes, Schedule, Shape, Slot};

/// One forward, one backward, after p − 1 − i forwards in stage i.
#[derive(Debug)]
pub struct OneForwardOneBackward;

impl Schedule for OneForwardOneBackward {
    fn name(&self) -> &'static str {
        "1f1b"
    }

    fn slots(&self, shape: Shape, stage: u64) -> Vec<Slot> {
        let cell = |micro| Cell { micro, chunk: 0 };
        let warm = (shape.stages - 1 - stage).min(shape.micros);
        let mut out: Vec<Slot> = (0..warm).map(|i| Slot::Forward(cell(i))).collect();
        for i in 0..shape.micros {
            if i + warm < shape.micros {
                out.push(Slot::Forward(cell(i + warm)));
            }
            out.push(Slot::Backward(cell(i)));
        }
        out
    }

    /// (p − 1)(F + Bd + W).
    fn bubble(&self, shape: Shape, times: EqualTimes) -> Option<Span> {
        Some(times.work() * (shape.stages - 1))
    }

    fn in_flight(&self, shape: Shape, stage: u64) -> u64 {
        (shape.stages - stage).min(shape.micros)
    }
}
