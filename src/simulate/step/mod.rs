//! Training steps: what they are made of, and playing them.

mod outline;

use super::{RunError, Sum, World};
use crate::scenario::Step;

/// Plays a step; false if it stopped early.
pub(super) fn play(_world: &mut World<'_>, step: &Step, _sum: &mut Sum) -> Result<bool, RunError> {
    Err(RunError::NotModelled(format!("step {}", step.title())))
}
