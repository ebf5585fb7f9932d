//! The static choice: a flow keeps the path it was built with.

use super::PathChoice;
use crate::units::{Span, Time};

/// Takes the first path, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinned;

impl PathChoice for Pinned {
    fn choose(&mut self, _now: Time, _segment: u32, _backlogs: &[Span]) -> usize {
        0
    }
}
