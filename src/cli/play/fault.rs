//! What to say when a scenario can't be played, or stops early.

use sim_core::outcome::StopReason;

use super::super::bench;
use super::super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::scenario::Loaded;
use crate::simulate::RunError;

/// A run that could not be. What `check` finds, too, is shown at its place.
pub(in super::super) fn failure(error: &RunError, loaded: Option<&Loaded>) -> Failure {
    let forced = loaded.map(Loaded::forced).unwrap_or_default();
    let fault = error.diagnostic(&forced);
    match fault.code {
        Code::Internal => Failure::internal(error),
        Code::Limit => Failure::of(Exit::Stopped, fault),
        _ => match loaded.map(Loaded::refused) {
            // A place in what the user wrote, that is.
            Some(refused) if refused.list.iter().any(|d| d.message == fault.message && written(&refused, d)) => {
                Failure::usage(refused)
            }
            _ => Failure::of(Exit::Usage, fault),
        },
    }
}

fn written(all: &Diagnostics, finding: &Diagnostic) -> bool {
    finding.place.as_ref().is_some_and(|place| all.sources.name(place.source) != bench::ORIGIN)
}

/// A run that stopped early, after its partial results have been shown.
/// `limited` says whether the user set a limit of simulated time.
pub(in super::super) fn stopped(reason: StopReason, at: &str, limited: bool) -> Failure {
    let (code, what) = match reason {
        StopReason::EventLimit => (Code::Limit, "the limit of events was reached"),
        StopReason::TimeLimit if limited => (Code::Limit, "the limit of simulated time was reached"),
        StopReason::TimeLimit => (Code::Limit, "the end of simulated time was reached: 2^64 ps, about 213 days"),
        StopReason::Deadlock => (Code::Deadlock, "nothing moves any more, and the work is not done: a deadlock"),
        StopReason::Interrupted => (Code::Interrupted, "interrupted"),
        StopReason::GaveUp => (Code::GaveUp, "a queue pair gave up: none of its packets arrives"),
        StopReason::NoProgress => (Code::NoProgress, "there is something to send, and nothing new arrives any more"),
        StopReason::Finished => return Failure::internal("a finished run was taken for one that stopped"),
    };
    let exit = if super::by_user(reason) { Exit::Interrupted } else { Exit::Stopped };
    let fault = Diagnostic::new(code, what).note(format!("in {at}")).note("what was complete by then is shown");
    let endless = matches!(reason, StopReason::TimeLimit) && !limited;
    let fault =
        fault.help(if endless { "look for a rate that is too low, or a size or start that is too large" } else { "" });
    Failure::of(exit, fault)
}
