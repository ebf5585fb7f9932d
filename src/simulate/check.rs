//! What a run would refuse, found without running.

use sim_collectives::step_graph;
use sim_collectives::step_graph::ExecuteError;
use sim_core::engine::{Engine, Limits};
use sim_core::network::Network;
use sim_core::program::Program;
use sim_core::units::Time;

use super::sweep::requests;
use super::{RunError, inference, step, transfers};
use crate::diagnostic::{Diagnostics, Place};
use crate::scenario::{Collective, Loaded, Traffic, Transfer, Transfers, Workload};

/// Transfers that stand for all that are alike.
const ALIKE: usize = 1_000;

impl Loaded {
    /// What [`run`](Self::run) would refuse: a communicator that cannot be, an operation without an algorithm, a
    /// combination that is not offered, devices without a way between them, what packets can't carry. One finding a workload, at
    /// the key that asks for it.
    #[must_use]
    pub fn refused(&self) -> Diagnostics {
        let mut out = Diagnostics { sources: self.diagnostics.sources.clone(), list: Vec::new() };
        for workload in &self.scenario.workloads {
            let (refused, place): (Result<(), RunError>, Option<&Place>) = match workload {
                Workload::Collective(collective) => (self.plan_all(collective), collective.place.as_ref()),
                Workload::Transfer(transfers) => (self.route_all(transfers), transfers.place.as_ref()),
                Workload::Step(step) => (step::refused(self, step), Some(&step.place)),
                Workload::Inference(one) => (inference::refused(self, one), Some(&one.place)),
                Workload::Failures(_) => continue,
            };
            if let Err(error) = refused {
                let finding = error.diagnostic(&self.forced());
                out.push(match place {
                    Some(place) => finding.at(place.clone(), "asked for here"),
                    None => finding,
                });
            }
        }
        out
    }

    fn plan_all(&self, collective: &Collective) -> Result<(), RunError> {
        let machine = self.machine(&collective.group)?;
        let network = self.packets.as_ref().map(|_| self.library_network());
        // What packets can carry is a matter of the algorithm, whatever the size. Sends and receives are single messages.
        let mut seen: Vec<&'static str> = vec!["sendrecv", "pairwise", "gather", "scatter"];
        for request in requests(collective, machine.ranks()) {
            let what = format!("{} of {}", request.operation, request.bytes);
            let plan = machine.plan(&request).map_err(|error| RunError::unable(&*what)(error.into()))?;
            if let Some(network) = network.as_ref().filter(|_| !seen.contains(&plan.algorithm)) {
                seen.push(plan.algorithm);
                let program = plan.program(&machine, 1).map_err(|error| RunError::unable(&*what)(error.into()))?;
                self.carried(network, program).map_err(RunError::unable(what))?;
            }
        }
        Ok(())
    }

    fn route_all(&self, workload: &Transfers) -> Result<(), RunError> {
        let what = workload.name.clone().map_or_else(|| "transfers".to_owned(), |name| format!("transfers `{name}`"));
        // All of one pattern go alike over a network without faults, which is connected.
        let alike = matches!(workload.traffic, Traffic::Pairs { .. }) && self.fabric.faults().is_empty();
        let list: Vec<Transfer> = workload.traffic.iter().take(if alike { ALIKE } else { usize::MAX }).collect();
        let made = transfers::messages(self, &what, &list)?;
        if self.packets.is_none() {
            return Ok(());
        }
        let program = step_graph::transfers(&made.messages, self.fabric.mtu());
        self.carried(&self.network(), program).map_err(RunError::unable(what))
    }

    /// Whether a network of packets carries a program.
    fn carried(&self, network: &Network, program: Program) -> Result<(), ExecuteError> {
        let mut engine: Engine = Engine::new(network, self.fabric.mtu(), Limits::default());
        if let Some(plan) = network.packets() {
            engine.set_net(plan.clone())?;
        }
        engine.load(program, Time::ZERO)?;
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
