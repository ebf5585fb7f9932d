//! Path choice at run time: which of a flow's paths a segment takes.
//!
//! Static choices (ECMP by a hash of the queue pair, a subnet manager's tables) are made when the flow is built and give
//! it one path. A choice at run time (adaptive, spray, flowlet) is made here, per segment, from the backlogs of the
//! candidates' first links where they part. To add one: a new file, a variant of [`AnyPathChoice`] and its line in
//! [`AnyPathChoice::choose`].

mod least_backlog;
mod pinned;

pub use least_backlog::LeastBacklog;
pub use pinned::Pinned;

use crate::units::{Span, Time};

/// Chooses among the paths of a flow.
pub trait PathChoice {
    /// The index of the path for a segment that leaves at `now`. `backlogs` holds, per path, the time until the link
    /// on which the paths part is free; it is never empty.
    fn choose(&mut self, now: Time, segment: u32, backlogs: &[Span]) -> usize;

    /// Whether segments may arrive out of order.
    fn reorders(&self) -> bool {
        false
    }
}

/// The known choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyPathChoice {
    /// Every segment takes the flow's first path.
    Pinned(Pinned),
    /// Every segment takes the path that is free first.
    LeastBacklog(LeastBacklog),
}

impl AnyPathChoice {
    /// See [`PathChoice::choose`].
    pub fn choose(&mut self, now: Time, segment: u32, backlogs: &[Span]) -> usize {
        match self {
            Self::Pinned(c) => c.choose(now, segment, backlogs),
            Self::LeastBacklog(c) => c.choose(now, segment, backlogs),
        }
    }
}

impl Default for AnyPathChoice {
    fn default() -> Self {
        Self::Pinned(Pinned)
    }
}
