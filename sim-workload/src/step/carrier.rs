//! Who carries messages between ranks.

use sim_core::outcome::StopReason;
use sim_core::units::Time;

/// A call of a communicator that all its members have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Start {
    /// The communicator, an index in the list that the carrier was made with.
    pub communicator: u32,
    /// The call, an index in [`Plan::calls`](super::plan::Plan::calls).
    pub call: u32,
    /// What its ends are told with.
    pub token: u32,
}

/// A member has done its part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// When.
    pub at: Time,
    /// The token of the call.
    pub token: u32,
    /// The member, an index in the communicator's list of ranks.
    pub member: u32,
}

/// Why a call can't be carried.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// What the communicator would run is not possible on this cluster.
    #[error("{what}: {why}")]
    Impossible {
        /// The call and its group.
        what: String,
        /// The reason.
        why: String,
    },
    /// The network can't go on with the call.
    #[error("{what} does not end: {why}")]
    Endless {
        /// The call and its group.
        what: String,
        /// The reason.
        why: String,
    },
    /// The network stopped before the call had ended: a limit, a deadlock, an interrupt.
    #[error("{what} does not end: {}", why(*.reason))]
    Stopped {
        /// The call and its group.
        what: String,
        /// What it stopped at.
        reason: StopReason,
    },
}

const fn why(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Finished => "nothing is left to do",
        StopReason::Deadlock => "nothing moves any more",
        StopReason::EventLimit => "the limit of events is met",
        StopReason::TimeLimit => "the limit of simulated time is met",
        StopReason::Interrupted => "it was interrupted",
        StopReason::GaveUp => "a sender gave up",
        StopReason::NoProgress => "nothing new arrives any more",
    }
}

/// Carries calls. Instants that it is told don't go backwards, neither between starts nor between what is asked.
pub trait Carrier {
    /// Starts calls at `at`, in this order. It is not before any earlier start, nor before what [`next`](Self::next) told or, if it
    /// told nothing, was asked for.
    ///
    /// # Errors
    /// If a call can't be carried.
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError>;

    /// The instant of the next end, if it is not after `until`: the instant at which the caller will start something next,
    /// unless ends come before, or [`Time::MAX`]. What happens later is not looked at, so that it need not be taken back.
    ///
    /// # Errors
    /// If the network stops before all calls have ended.
    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError>;

    /// Takes all ends at the instant that [`next`](Self::next) told, by token and member.
    fn take(&mut self, out: &mut Vec<End>);
}
