//! Why a scenario can't be played.

use sim_collectives::step_graph::ExecuteError;
use sim_collectives::{MachineError, PlanError};
use sim_core::engine::LoadError;

use crate::diagnostic::{Code, Diagnostic};

/// Why a scenario can't be played.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such communicator.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// An operation of a log that is not modelled.
    #[error("`{0}` is not modelled yet")]
    NotModelled(String),
    /// An operation can't be run.
    #[error("{what}: {source}")]
    Unable {
        /// The operation and its size, or the transfers.
        what: String,
        /// Why.
        source: ExecuteError,
    },
    /// Inference can't be served so.
    #[error("{what}: {why}")]
    Inference {
        /// The workload.
        what: String,
        /// Why.
        why: String,
    },
    /// A step can't be played.
    #[error("{what}: {why}")]
    Step {
        /// The step.
        what: String,
        /// Why.
        why: String,
    },
    /// The books of the engine don't balance, which is a fault of the program.
    #[error("{what}: {faults}")]
    Invariant {
        /// What was played.
        what: String,
        /// The invariants that do not hold.
        faults: String,
    },
}

impl RunError {
    pub(super) fn unable(what: impl Into<String>) -> impl FnOnce(ExecuteError) -> Self {
        let what = what.into();
        move |source| Self::Unable { what, source }
    }

    /// Whether the cause is what was asked for, rather than the size of it or a fault of the program.
    #[must_use]
    pub fn is_request(&self) -> bool {
        match self {
            Self::Machine(_) | Self::NotModelled(_) | Self::Step { .. } => true,
            Self::Unable { source, .. } => {
                matches!(
                    source,
                    ExecuteError::Plan(PlanError::NoCandidate(_) | PlanError::Unable { .. } | PlanError::Route(_))
                )
            }
            Self::Inference { .. } => true,
            Self::Invariant { .. } => false,
        }
    }

    /// The finding about a run that could not be; `forced` names what restricts the library's choice.
    #[must_use]
    pub fn diagnostic(&self, forced: &[&str]) -> Diagnostic {
        let fault = |code| Diagnostic::new(code, self.to_string());
        match self {
            Self::Machine(_) | Self::NotModelled(_) | Self::Inference { .. } | Self::Step { .. } => {
                fault(Code::Unsupported)
            }
            Self::Unable { source: ExecuteError::Plan(PlanError::Route(_)), .. } => fault(Code::NoPath),
            Self::Unable { source: ExecuteError::Plan(_), .. } if forced.is_empty() => fault(Code::Unsupported),
            Self::Unable { source: ExecuteError::Plan(_), .. } => {
                fault(Code::Unsupported).help(format!("leave {} out, or set another", forced.join(" and ")))
            }
            Self::Unable {
                source:
                    ExecuteError::Load(
                        LoadError::Junction { .. } | LoadError::TwoNetworks { .. } | LoadError::QueuePair { .. },
                    )
                    | ExecuteError::Packets(_),
                ..
            } => fault(Code::NotOverPackets).help("transport.model = \"virtual\""),
            Self::Unable { source: ExecuteError::Load(_), .. } => {
                fault(Code::Limit).help("make the work smaller: fewer ranks, or fewer transfers at once")
            }
            Self::Unable { .. } | Self::Invariant { .. } => fault(Code::Internal),
        }
    }
}
