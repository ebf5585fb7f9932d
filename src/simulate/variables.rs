//! NCCL variables that can do nothing for the work of a scenario.

use std::collections::BTreeMap;

use sim_collectives::nccl::Knob;

use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Loaded, Workload};

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
        idle.unwrap_or_default().into_iter().filter_map(of).collect()
    }
}
