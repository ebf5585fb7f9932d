//! ZB-H1 and ZB-H2 (Qi et al. 2023, arXiv 2401.10241): the gradient by the weights fills the bubbles.
//!
//! Stage i is k(p − 1 − i) forwards ahead and defers the gradients by the weights of k·i micro batches, k = 1 in H1 and 2 in H2: each
//! stage then holds as much, k(p − 1) + 1 micro batches.
//!
//! H2 has no bubble only if no stage waits for the others before its update (section 4 of the paper): the norm of gradients and the overflow
//! flag go from stage to stage, each updates with what has come so far, and the whole is checked in the next step's first forward passes,
//! with the update taken back if it was wrong. Steps then follow one another stage by stage; a step takes what each stage takes
//! from its first work to its last.

use sim_core::units::Span;

use super::{Cell, EqualTimes, Schedule, Shape, Slot};

/// A schedule of this kind.
#[derive(Debug)]
pub struct ZeroBubble {
    name: &'static str,
    depth: u64,
}

/// The memory of 1F1B, and a third of its bubble if F = Bd = W.
pub const ZB_H1: ZeroBubble = ZeroBubble { name: "zb-h1", depth: 1 };
/// Twice the memory of 1F1B, and no bubble if F = Bd = W.
pub const ZB_H2: ZeroBubble = ZeroBubble { name: "zb-h2", depth: 2 };

impl Schedule for ZeroBubble {
    fn name(&self) -> &'static str {
        self.name
    }

    fn slots(&self, shape: Shape, stage: u64) -> Vec<Slot> {
        let cell = |micro| Cell { micro, chunk: 0 };
        let micros = shape.micros;
        let warm = (self.depth * (shape.stages - 1 - stage)).min(micros);
        let lag = (self.depth * stage).min(micros);
        let mut out: Vec<Slot> = (0..warm).map(|i| Slot::Forward(cell(i))).collect();
        for i in 0..micros {
            if i + warm < micros {
                out.push(Slot::Forward(cell(i + warm)));
            }
            out.push(Slot::Data(cell(i)));
            if i >= lag {
                out.push(Slot::Weight(cell(i - lag)));
            }
        }
        out.extend((micros - lag..micros).map(|i| Slot::Weight(cell(i))));
        out
    }

    fn validates_later(&self) -> bool {
        self.depth > 1
    }

    /// H1: (p − 1)(F + Bd − min(F, Bd, W)), in the paper (p − 1)(F + Bd − W): a W longer than F or Bd fills no more. H2: none between a stage's first and last work, if F = Bd = W.
    fn bubble(&self, shape: Shape, times: EqualTimes) -> Option<Span> {
        match self.depth {
            1 => {
                let filled = times.weight.min(times.forward).min(times.data);
                Some((times.forward + times.data - filled) * (shape.stages - 1))
            }
            _ => (times.forward == times.data && times.data == times.weight).then_some(Span::ZERO),
        }
    }

    fn in_flight(&self, shape: Shape, _stage: u64) -> u64 {
        (self.depth * (shape.stages - 1) + 1).min(shape.micros)
    }
}
