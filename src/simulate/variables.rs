//! NCCL variables that can do nothing for the work of a scenario.

use std::collections::BTreeMap;

use sim_collectives::nccl::Knob;

use super::sweep;
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Loaded, TUNER_FILE, Workload};

impl Loaded {
    /// One warning for each variable that changes nothing for any of the scenario's collectives, with the reason.
    #[must_use]
    pub fn idle_variables(&self) -> Vec<Diagnostic> {
        let places = &self.scenario.software.env_places;
        let mut idle: Option<BTreeMap<Knob, String>> = None;
        for workload in &self.scenario.workloads {
            let Workload::Collective(collective) = workload else { continue };
            let Ok(machine) = self.machine(&collective.group) else { continue };
            let mut here: BTreeMap<Knob, String> = machine.notes().into_iter().collect();
            // What does nothing for one and something for another is not idle.
            if let Some(before) = idle {
                here.retain(|knob, _| before.contains_key(knob));
            }
            idle = Some(here);
        }
        let of = |(knob, why): (Knob, String)| {
            let (_, place) = places.iter().find(|(name, _)| Knob::from_name(name) == Some(knob))?;
            let finding = Diagnostic::new(Code::NoEffect, format!("`{}` has no effect here", knob.name()));
            Some(finding.at(place.clone(), why))
        };
        let mut all: Vec<Diagnostic> = idle.unwrap_or_default().into_iter().filter_map(of).collect();
        all.extend(self.idle_tuner());
        all
    }

    /// A warning of a tuner's file of which no line fits any call.
    fn idle_tuner(&self) -> Option<Diagnostic> {
        let software = &self.scenario.software;
        let tuner = software.tuner.as_ref().filter(|tuner| !tuner.is_empty())?;
        let place = software.env_places.get(TUNER_FILE)?;
        let mut calls = self.scenario.workloads.iter().filter_map(|workload| match workload {
            Workload::Collective(collective) => Some((collective, self.machine(&collective.group).ok()?)),
            Workload::Transfer(_) | Workload::Step(_) | Workload::Inference(_) | Workload::Failures(_) => None,
        });
        let fits = calls.any(|(collective, machine)| {
            let requests = sweep::requests(collective, machine.ranks());
            requests.iter().any(|r| tuner.tuned(&machine.comm, r.operation, r.bytes.get(), r.element).is_some())
        });
        let why =
            "no line is for a call's operation, size, nodes and ranks, with an algorithm and protocol that are offered";
        let finding = Diagnostic::new(Code::NoEffect, format!("`{TUNER_FILE}` has no effect here"));
        (!fits).then(|| finding.at(place.clone(), why).help("--explain says what is offered, and why others are not"))
    }
}
