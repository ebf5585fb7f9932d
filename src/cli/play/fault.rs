//! What to say when a scenario can't be played, or stops early.

use sim_collectives::PlanError;
use sim_collectives::step_graph::ExecuteError;
use sim_core::outcome::StopReason;

use super::super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic};
use crate::simulate::RunError;

/// A run that could not be.
pub(in super::super) fn failure(error: &RunError) -> Failure {
    let message = error.to_string();
    match error {
        RunError::Machine(_) => Failure::of(Exit::Usage, Diagnostic::new(Code::Unsupported, message)),
        RunError::NotModelled(_) => {
            let fault = Diagnostic::new(Code::Unsupported, message);
            let known = "modelled: all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv";
            Failure::of(Exit::Usage, fault.help(known))
        }
        RunError::Unable { source: ExecuteError::Plan(PlanError::Route(_)), .. } => {
            Failure::of(Exit::Usage, Diagnostic::new(Code::NoPath, message))
        }
        RunError::Unable { source: ExecuteError::Plan(_), .. } => {
            let fault = Diagnostic::new(Code::Unsupported, message);
            Failure::of(Exit::Usage, fault.help("leave `algorithm` and `protocol` (NCCL_ALGO, NCCL_PROTO) out"))
        }
        RunError::Unable { source: ExecuteError::Load(_), .. } => {
            let fault = Diagnostic::new(Code::Limit, message);
            Failure::of(Exit::Stopped, fault.help("make the work smaller: fewer ranks, or fewer transfers at once"))
        }
        RunError::Unable { .. } | RunError::Invariant { .. } => Failure::internal(message),
    }
}

/// A run that stopped early, after its partial results have been shown.
pub(in super::super) fn stopped(reason: StopReason, at: &str) -> Failure {
    let (code, what) = match reason {
        StopReason::EventLimit => (Code::Limit, "the limit of events was reached"),
        StopReason::TimeLimit => (Code::Limit, "the limit of simulated time was reached"),
        StopReason::Deadlock => (Code::Deadlock, "nothing moves any more, and the work is not done: a deadlock"),
        StopReason::Interrupted => (Code::Interrupted, "interrupted"),
        StopReason::Finished => return Failure::internal("a finished run was taken for one that stopped"),
    };
    let exit = if super::by_user(reason) { Exit::Interrupted } else { Exit::Stopped };
    let fault = Diagnostic::new(code, what).note(format!("in {at}")).note("what was complete by then is shown");
    Failure::of(exit, fault)
}
