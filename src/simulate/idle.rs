//! Faults that the work of a scenario never meets.

use std::collections::BTreeSet;

use sim_core::units::Span;
use sim_topology::DeviceId;
use sim_topology::faults::AppliedFault;

use super::Report;
use super::transfers::starter;
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Loaded, Workload};

/// One warning for each fault that no work met; `well` is the run without the faults, if there was one. Nothing is said of
/// a run that stopped early.
pub(super) fn findings(loaded: &Loaded, ill: &Report, well: Option<&Report>) -> Vec<Diagnostic> {
    if ill.stopped.is_some() || loaded.fabric.faults().is_empty() {
        return Vec::new();
    }
    // Whether the messages of a step waited for the end of an outage is not counted.
    let steps = loaded.scenario.workloads.iter().any(|w| matches!(w, Workload::Step(_)));
    let users = users(loaded);
    let mut list = Vec::new();
    for (number, fault) in loaded.fabric.faults().iter().enumerate() {
        if steps && fault.kind == "flapping" {
            continue;
        }
        let Some(why) = why(loaded, fault, &users, ill, well) else { continue };
        let finding = Diagnostic::new(Code::FaultOddity, "the fault has no effect on this work");
        list.push(match loaded.scenario.fault_places.get(number) {
            Some(place) => finding.at(place.clone(), why),
            None => finding.help(format!("{} {}: {why}", fault.kind, fault.target)),
        });
    }
    list
}

/// Why the fault has none; `None` if it has some, or if that isn't known.
fn why(
    loaded: &Loaded,
    fault: &AppliedFault,
    users: &BTreeSet<DeviceId>,
    ill: &Report,
    well: Option<&Report>,
) -> Option<&'static str> {
    let carried = |report: &Report| fault.links.iter().any(|l| report.carried[l.index()].payload > 0);
    match fault.kind {
        // Two faults on one link leave it to the later to list.
        "degraded" | "flapping" if fault.links.is_empty() => None,
        "degraded" if !carried(ill) => Some("no message crosses it"),
        "flapping" if !carried(ill) => Some("no message crosses it"),
        "flapping" if fault.links.iter().all(|l| ill.carried[l.index()].held == Span::ZERO) => {
            Some("no message has to wait for the end of an outage")
        }
        "dead" if !fault.links.is_empty() && well.is_some_and(|well| !carried(well)) => {
            Some("no message would cross it if it worked")
        }
        "straggler" if !fault.devices.iter().any(|gpu| users.contains(gpu)) => Some("it begins nothing here"),
        "miscabled" => {
            let at = |id: DeviceId| {
                loaded.fabric.links().iter().zip(&ill.carried).filter(move |(l, _)| l.from == id || l.to == id)
            };
            let idle = fault.devices.iter().all(|&id| at(id).all(|(_, c)| c.payload == 0));
            idle.then_some("no message crosses these cables")
        }
        "nic_map" | "acs" if well.is_some_and(|well| well.carried == ill.carried) => {
            Some("every byte goes where it would without it")
        }
        _ => None,
    }
}

/// The GPUs whose own pace or start bears on the work.
fn users(loaded: &Loaded) -> BTreeSet<DeviceId> {
    let fabric = &loaded.fabric;
    let mut users = BTreeSet::new();
    for workload in &loaded.scenario.workloads {
        match workload {
            Workload::Collective(c) if c.group.is_empty() => users.extend(fabric.gpus()),
            Workload::Collective(c) => users.extend(c.group.iter().filter_map(|&r| fabric.gpus().get(r as usize))),
            Workload::Step(step) => users.extend(step.gpus.iter().filter_map(|&r| fabric.gpus().get(r as usize))),
            Workload::Inference(work) => users.extend(work.gpus().filter_map(|r| fabric.gpus().get(r as usize))),
            Workload::Failures(_) => {}
            Workload::Transfer(list) => users.extend(list.traffic.iter().map(|t| starter(fabric, &t))),
        }
    }
    users
}
