//! Adaptive choice per segment: the path whose link, where the paths part, is free first; the first of equals.

use super::PathChoice;
use crate::units::{Span, Time};

/// Takes the path with the least backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastBacklog;

impl PathChoice for LeastBacklog {
    fn choose(&mut self, _now: Time, _segment: u32, backlogs: &[Span]) -> usize {
        backlogs.iter().enumerate().min_by_key(|(_, backlog)| **backlog).map_or(0, |(i, _)| i)
    }

    fn reorders(&self) -> bool {
        true
    }
}
