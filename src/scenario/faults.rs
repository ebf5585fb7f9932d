//! What is broken: from `[[fault]]` to faults on the fabric.

use sim_core::units::Span;
use sim_topology::faults::{
    Acs, Dead, Degraded, Errors, FaultErrorKind, Flapping, Miscabled, NicMap, PauseStorm, Straggler,
};
use sim_topology::{Catalogue, DeviceId, Fabric, Fault, FaultKind};

use super::keys::FAULTS;
use super::transport::Packets;
use super::tree::{Entry, Node};
use super::view::View;
use super::workload::Workload;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};

/// The faults that a scenario lists, in order.
pub(super) fn faults(root: &View<'_>, out: &mut Diagnostics) -> Vec<Fault> {
    let views = root.items("fault").iter().filter_map(|item| Some((view(item)?, item)));
    views.filter_map(|((kind, view), item)| fault(kind, &view, item, out)).collect()
}

fn view(item: &Node) -> Option<(&'static str, View<'_>)> {
    let table = item.as_table()?;
    let named = table.get("kind").and_then(Node::as_text)?;
    let (kind, spec) = FAULTS.iter().find(|(name, _)| *name == named)?;
    Some((kind, View::new(table, spec)))
}

fn fault(kind: &str, view: &View<'_>, item: &Node, out: &mut Diagnostics) -> Option<Fault> {
    let kind = match kind {
        "degraded" => FaultKind::Degraded(degraded(view, item, out)?),
        "flapping" => FaultKind::Flapping(Flapping {
            down_for: view.time("down_for")?,
            every: view.time("every"),
            first: view.time("first")?,
            recovery: view.time("recovery")?,
        }),
        "straggler" => {
            FaultKind::Straggler(Straggler { slowdown: view.number("slowdown")?, delay: view.time("delay")? })
        }
        "dead" => FaultKind::Dead(Dead),
        "acs" => FaultKind::Acs(Acs),
        "pause-storm" => FaultKind::PauseStorm(PauseStorm { from: view.time("from")?, until: view.time("until") }),
        "miscabled" => FaultKind::Miscabled(Miscabled { swap: view.text("swap")?.to_owned() }),
        "nic_map" => {
            let entries = &view.node("nics")?.as_table()?.entries;
            let pair = |e: &Entry| Some((e.key.clone(), e.node.as_text()?.to_owned()));
            FaultKind::NicMap(NicMap { nics: entries.iter().filter_map(pair).collect() })
        }
        _ => return None,
    };
    // Not every kind has it.
    let pick = item.as_table().and_then(|t| t.get("pick")).and_then(|_| view.integer("pick"));
    Some(Fault { target: view.text("target")?.to_owned(), pick, kind })
}

fn degraded(view: &View<'_>, item: &Node, out: &mut Diagnostics) -> Option<Degraded> {
    let errors = match (view.number("bit_error_rate"), view.number("packet_loss")) {
        (Some(_), Some(_)) => {
            let place = view.node("packet_loss").map_or(&item.place, |n| &n.place);
            let fault = Diagnostic::new(Code::Exclusive, "`bit_error_rate` and `packet_loss` exclude each other");
            out.push(fault.at(place.clone(), "two ways to say how often data are damaged").help("keep one of them"));
            return None;
        }
        (Some(rate), None) => Some(Errors::BitErrorRate(rate)),
        (None, loss) => loss.map(Errors::PacketLoss),
    };
    let degraded = Degraded {
        rate: view.rate("rate"),
        factor: view.number("factor"),
        lanes: view.integer("lanes"),
        links: view.integer("links"),
        speed: view.integer("speed"),
        added_latency: view.time("added_latency").unwrap_or(Span::ZERO),
        errors,
    };
    if degraded == Degraded::default() {
        let fault = Diagnostic::new(Code::MissingKey, "a degraded link, but how?");
        let label = "neither a rate, nor a width, nor a latency, nor errors";
        out.push(
            fault.at(item.place.clone(), label).help("factor = 0.5, rate = \"25 GB/s\", added_latency = \"2 us\""),
        );
        return None;
    }
    Some(degraded)
}

/// The fabric with the faults laid upon it; `None` if one of them can't be.
pub(super) fn lay(
    root: &View<'_>,
    fabric: Fabric,
    faults: &[Fault],
    (seed, pxn): (u64, bool),
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) -> Option<Fabric> {
    if faults.is_empty() {
        return Some(fabric);
    }
    // Places are those of the list as written; where one of its members was faulty, nothing is laid.
    let items: Vec<&Node> = root.items("fault").iter().collect();
    if items.len() != faults.len() {
        return None;
    }
    let place = |number: usize, key: &str| -> Option<Place> {
        let item = items.get(number)?;
        let own = item.as_table().and_then(|t| t.get(key)).map(|n| &n.place);
        Some(own.unwrap_or(&item.place).clone())
    };
    match fabric.with_faults(faults, seed, pxn, catalogue) {
        Ok((fabric, warnings)) => {
            for warning in warnings {
                let fault = Diagnostic::new(Code::FaultOddity, warning.message);
                out.push(match place(warning.fault, warning.key) {
                    Some(place) => fault.at(place, warning.label),
                    None => fault.help(warning.label),
                });
            }
            Some(fabric)
        }
        Err(errors) => {
            for error in errors {
                let code = match error.kind {
                    FaultErrorKind::Unknown => Code::UnknownDevice,
                    FaultErrorKind::Range => Code::OutOfRange,
                    FaultErrorKind::Contradiction => Code::BadFault,
                    FaultErrorKind::Partition => Code::Partition,
                };
                let fault = Diagnostic::new(code, error.message);
                let fault = match place(error.fault, error.key) {
                    Some(place) => fault.at(place, error.label),
                    None => fault.help(error.label),
                };
                out.push(fault.maybe_help(error.help));
            }
            None
        }
    }
}

/// Reports storms of pauses where nothing is paused.
pub(super) fn bear_on_packets(root: &View<'_>, packets: Option<&Packets>, out: &mut Diagnostics) {
    let heeded = packets.is_some_and(|p| matches!(p.flow_control_name, "pfc" | "credits"));
    let storms = root.items("fault").iter().filter(|item| view(item).is_some_and(|(kind, _)| kind == "pause-storm"));
    for item in storms.filter(|_| !heeded) {
        out.push(match packets {
            None => Diagnostic::new(Code::NotOverPackets, "a pause storm needs a network whose packets are played")
                .at(item.place.clone(), "links are virtual here, and know no pauses")
                .help("[transport] model = \"packets\""),
            Some(packets) => {
                let label = format!("flow_control is `{}`: nobody pauses anybody", packets.flow_control_name);
                Diagnostic::new(Code::NoEffect, "a pause storm has no effect")
                    .at(item.place.clone(), label)
                    .help("[transport] flow_control = \"pfc\"")
            }
        });
    }
}

/// Reports work on GPUs that are dead, and stragglers that hold nobody.
pub(super) fn bear_on_work(root: &View<'_>, fabric: &Fabric, workloads: &[Workload], out: &mut Diagnostics) {
    if fabric.faults().is_empty() {
        return;
    }
    let place = |number: usize| root.items("workload").get(number).map(|item| item.place.clone());
    for (number, workload) in workloads.iter().enumerate() {
        let mut used: Vec<DeviceId> = match workload {
            Workload::Collective(collective) if collective.group.is_empty() => fabric.gpus().to_vec(),
            Workload::Collective(collective) => {
                collective.group.iter().filter_map(|&rank| fabric.gpus().get(rank as usize).copied()).collect()
            }
            Workload::Transfer(transfers) => transfers.traffic.iter().flat_map(|t| [t.src, t.dst]).collect(),
            Workload::Inference(work) => {
                work.gpus().filter_map(|gpu| fabric.gpus().get(gpu as usize).copied()).collect()
            }
            Workload::Failures(_) => Vec::new(),
            Workload::Step(step) => {
                step.gpus.iter().filter_map(|&gpu| fabric.gpus().get(gpu as usize).copied()).collect()
            }
        };
        used.retain(|&id| !fabric.device(id).alive);
        used.sort_unstable();
        used.dedup();
        let Some(first) = used.first() else { continue };
        let name = &fabric.device(*first).name;
        let more = if used.len() > 1 { format!(" and {} more", used.len() - 1) } else { String::new() };
        let fault =
            Diagnostic::new(Code::DeadDevice, format!("{name}{more} would have to work, and is dead by a fault"));
        let rank = fabric.rank_of(*first).map_or_else(String::new, |rank| format!(" (rank {rank})"));
        // A workload that a verb made up has neither a place that anyone wrote, nor keys.
        let place = place(number).filter(|place| out.sources.name(place.source) != "bench");
        let help = if place.is_some() {
            "leave it out: `group` lists the ranks of a collective, `list` the transfers; or take the fault out"
        } else {
            "take the fault out, or use `run` with a scenario whose collective has a `group` without it"
        };
        out.push(match place {
            Some(place) => fault.at(place, format!("this work uses {name}{rank}")).help(help),
            None => fault.help(help),
        });
    }
    idle_stragglers(root, fabric, workloads, out);
}

/// Warns of stragglers that take part in no collective.
fn idle_stragglers(root: &View<'_>, fabric: &Fabric, workloads: &[Workload], out: &mut Diagnostics) {
    if workloads.is_empty() {
        return;
    }
    let groups: Vec<&[u32]> = workloads
        .iter()
        .filter_map(|w| match w {
            Workload::Collective(collective) => Some(collective.group.as_slice()),
            Workload::Step(step) => Some(step.gpus.as_slice()),
            Workload::Transfer(_) | Workload::Inference(_) | Workload::Failures(_) => None,
        })
        .collect();
    // An empty group is all ranks.
    let works = |rank: u32| groups.iter().any(|group| group.is_empty() || group.contains(&rank));
    for (item, fault) in root.items("fault").iter().zip(fabric.faults()) {
        let slow = fault.devices.iter().filter_map(|&id| fabric.rank_of(id));
        if fault.kind != "straggler" || slow.into_iter().any(works) {
            continue;
        }
        let Some((_, keys)) = view(item) else { continue };
        let place = if groups.is_empty() {
            // A delay holds transfers too.
            let Some(slowdown) = keys.node("slowdown") else { continue };
            slowdown.place.clone()
        } else if workloads.iter().any(|w| matches!(w, Workload::Transfer(_))) && keys.node("delay").is_some() {
            continue;
        } else {
            item.place.clone()
        };
        let (message, label) = if groups.is_empty() {
            ("`slowdown` has no effect on transfers", "it slows the work of GPUs in collectives, and there is none")
        } else {
            ("a straggler has no effect: it takes no part in a collective", "in none of their groups")
        };
        let fault = Diagnostic::new(Code::NoEffect, message).at(place, label);
        out.push(fault.help("`delay` makes the transfers that a GPU starts late"));
    }
}
