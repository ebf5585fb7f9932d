//! A GPU that is slower than its like: hot, clocked down, shared, or late.

use sim_core::units::Span;

use super::patient::Patient;
use super::target::{Item, gpus_of};
use super::{Effect, FaultError, Slowness};

/// A GPU that works more slowly or begins late.
///
/// Its part of every step of a collective takes `slowdown` times as long, and each of its calls starts `delay` later. What
/// the wire takes stays: a straggler is no slow link. In a collective all ranks wait for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// How many times as long its own work takes; 1 or more.
    pub slowdown: f64,
    /// How much later than the others it starts each call.
    pub delay: Span,
}

impl Effect for Straggler {
    fn name(&self) -> &'static str {
        "straggler"
    }

    fn rank(&self) -> u8 {
        7
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        if !self.slowdown.is_finite() || !(1.0..=1e6).contains(&self.slowdown) {
            let label = format!("{}; from 1 (as fast as its like) to 1000000", self.slowdown);
            return Err(FaultError::range("slowdown", "`slowdown` is out of range", label));
        }
        if self.slowdown == 1.0 && self.delay == Span::ZERO {
            patient.warn("target", "the fault has no effect", "neither `slowdown` above 1 nor `delay`");
        }
        let slowness = Slowness { millionths: (self.slowdown * 1e6).round() as u64, delay: self.delay };
        for gpu in gpus_of(items, patient.fabric())? {
            patient.slow(gpu, slowness);
        }
        let mut what = Vec::new();
        if self.slowdown > 1.0 {
            what.push(format!("its work takes {} x as long", self.slowdown));
        }
        if self.delay > Span::ZERO {
            what.push(format!("each call starts {} late", self.delay));
        }
        Ok(what.join(", "))
    }
}
