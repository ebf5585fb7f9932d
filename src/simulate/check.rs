//! What a run would refuse, found without running.

use sim_collectives::PlanError;
use sim_collectives::step_graph::ExecuteError;
use sim_core::engine::LoadError;

use super::RunError;
use super::sweep::requests;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::scenario::{Collective, Loaded, Workload};

impl Loaded {
    /// What [`run`](Self::run) would refuse: a communicator that cannot be, an operation without an algorithm, a
    /// combination that is not offered. One finding a collective, at the key that asks for it.
    #[must_use]
    pub fn refused(&self) -> Diagnostics {
        let mut out = Diagnostics { sources: self.diagnostics.sources.clone(), list: Vec::new() };
        for workload in &self.scenario.workloads {
            if let Workload::Collective(collective) = workload
                && let Err(error) = self.plan_all(collective)
            {
                let finding = error.diagnostic(&self.forced());
                out.push(match &collective.place {
                    Some(place) => finding.at(place.clone(), "asked for here"),
                    None => finding,
                });
            }
        }
        out
    }

    fn plan_all(&self, collective: &Collective) -> Result<(), RunError> {
        let machine = self.machine(&collective.group)?;
        for request in requests(collective, machine.ranks()) {
            let what = format!("{} of {}", request.operation, request.bytes);
            machine.plan(&request).map_err(|error| RunError::unable(what)(error.into()))?;
        }
        Ok(())
    }

    /// The names of all that restricts what may be chosen.
    #[must_use]
    pub fn forced(&self) -> Vec<&'static str> {
        let any = |is: fn(&Collective) -> bool| {
            let of = |w: &Workload| matches!(w, Workload::Collective(collective) if is(collective));
            self.scenario.workloads.iter().any(of)
        };
        let knobs = &self.scenario.software.knobs;
        let all = [
            ("`algorithm`", any(|c| c.algorithm.is_some())),
            ("`protocol`", any(|c| c.protocol.is_some())),
            ("NCCL_ALGO", knobs.algorithms().is_some()),
            ("NCCL_PROTO", knobs.protocols().is_some()),
        ];
        all.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
    }
}

impl RunError {
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
