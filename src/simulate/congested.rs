//! What a run over packets showed of its transport: ports that were held, losses that should not be, controls at their limit.

use sim_core::ids::LinkId;
use sim_core::units::Span;

use super::transport::Sums;
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Loaded, Packets};

/// The share of a run beyond which a port that was held is told.
const HELD: f64 = 0.5;
/// The share of marked packets beyond which a rate control is at its limit.
const MARKED: f64 = 0.9;

/// What is worth knowing before the times are believed.
pub(super) fn findings(loaded: &Loaded, sums: &Sums) -> Vec<Diagnostic> {
    let Some(packets) = &loaded.packets else { return Vec::new() };
    let mut list = Vec::new();
    list.extend(beyond(packets, sums));
    list.extend(victims(loaded, sums).or_else(|| held(loaded, packets, sums)));
    list.extend(lost(sums));
    list.extend(at_the_limit(packets, sums));
    list.extend(too_coarse(packets, sums));
    list
}

/// A window of counts and samples that begins when all is over.
fn beyond(packets: &Packets, sums: &Sums) -> Option<Diagnostic> {
    let (from, ended) = (packets.observed.from, sums.longest);
    (ended > Span::ZERO && from >= ended).then(|| {
        let message = format!("nothing was observed: `observe.from` is {from}, and the end was at {ended}");
        Diagnostic::new(Code::NoEffect, message).help("depths of queues and samples are those of the window alone")
    })
}

/// What to do about a pause storm that is `root`, or any if that isn't known; `None` if no storm held its port.
fn storm(loaded: &Loaded, sums: &Sums, root: Option<&str>) -> Option<String> {
    let fabric = &loaded.fabric;
    let held = |link: &LinkId| sums.port(*link).is_some_and(|port| port.held > Span::ZERO);
    let storms = fabric.pause_storms().iter().filter(|(link, _)| held(link));
    let name = storms.map(|(link, _)| fabric.link_name(*link)).find(|name| root.is_none_or(|root| root == name))?;
    let after = if sums.paused() {
        ": `transport.pfc.nic_watchdog` ends it, `transport.pfc.watchdog` drops what waits for it"
    } else {
        ""
    };
    Some(format!("a pause storm holds {name}, and no rate control helps against that{after}"))
}

/// Flows that waited for congestion elsewhere.
fn victims(loaded: &Loaded, sums: &Sums) -> Option<Diagnostic> {
    let (first, all) = sums.victim()?;
    let flows = crate::diagnostic::counted(all, "flow");
    let root = first.root.as_ref().map_or_else(String::new, |root| format!("; the congestion began at {root}"));
    let message = format!(
        "{flows} held up by congestion that is not on the way: {} to {} for {:.0} % of its time{root}",
        first.from,
        first.to,
        (first.share * 100.0).min(100.0)
    );
    let usual = || "marks and a rate control keep queues short, classes keep apart".to_owned();
    let help = storm(loaded, sums, first.root.as_deref()).unwrap_or_else(usual);
    Some(Diagnostic::new(Code::PortHeld, message).help(help))
}

/// A port of a switch: a NIC's own is held by any incast.
fn held(loaded: &Loaded, packets: &Packets, sums: &Sums) -> Option<Diagnostic> {
    let fabric = &loaded.fabric;
    let of_switch = |link| fabric.device(fabric.link(link).from).kind.is_network_switch();
    let (link, share) = sums.held_longest(of_switch).filter(|(_, share)| *share > HELD)?;
    let what = if sums.paused() { "paused" } else { "without credits" };
    let message = format!("{} was {what} for {:.0} % of the time", fabric.link_name(link), share * 100.0);
    let usual = if packets.ways.iter().all(|way| !way.rate.facts().slows_down) {
        "what waits there goes nowhere, wherever it is bound for; marks and a rate control keep queues short"
    } else {
        "what waits there goes nowhere, wherever it is bound for; look at the port behind it with the deepest queue"
    };
    let help = storm(loaded, sums, None).unwrap_or_else(|| usual.to_owned());
    Some(Diagnostic::new(Code::PortHeld, message).help(help))
}

fn lost(sums: &Sums) -> Option<Diagnostic> {
    let t = sums.totals();
    let (headroom, watchdog) = (t.headroom_drops, t.watchdog_drops);
    if headroom + watchdog == 0 {
        return None;
    }
    let why = match (headroom, watchdog) {
        (0, n) => format!("{n} by the watchdog"),
        (n, 0) => format!("{n} for lack of headroom"),
        (n, m) => format!("{n} for lack of headroom, {m} by the watchdog"),
    };
    let message = format!("packets were dropped of traffic that is to be lossless: {why}");
    let help = if headroom > 0 { "leave `transport.pfc.headroom` out to have what the cables need" } else { "" };
    Some(Diagnostic::new(Code::Dropped, message).help(help))
}

fn at_the_limit(packets: &Packets, sums: &Sums) -> Option<Diagnostic> {
    let (marked, arrived) = sums.marked();
    let hears = packets.ways.iter().find(|way| way.rate.facts().hears_marks)?;
    if arrived == 0 || (marked as f64) < MARKED * arrived as f64 {
        return None;
    }
    let share = marked as f64 / arrived as f64 * 100.0;
    let message = format!(
        "{share:.0} % of the packets came back marked: `{}` can't slow these senders down enough",
        hears.rate_control_name
    );
    let help = "fewer flows to a port, marks that begin higher (`transport.ecn`), or a control that does not wait for marks: \
                swift, hpcc, receiver";
    Some(Diagnostic::new(Code::AtTheLimit, message).help(help))
}

/// Units of several packets that met what single ones may meet otherwise.
fn too_coarse(packets: &Packets, sums: &Sums) -> Option<Diagnostic> {
    let grain = packets.grain.filter(|grain| *grain > 1)?;
    let t = sums.totals();
    let drops = t.drops + t.headroom_drops + t.watchdog_drops;
    let counted = |n: u64, what: &str| (n > 0).then(|| crate::diagnostic::counted(n, what));
    let mut met: Vec<String> = [(t.marks, "mark"), (t.pauses, "pause"), (drops, "drop")]
        .into_iter()
        .filter_map(|(n, what)| counted(n, what))
        .collect();
    if t.credit_stall_us > 0.0 {
        met.push("ports without credit".to_owned());
    }
    if met.is_empty() {
        return None;
    }
    let message = format!("units of up to {grain} packets met back-pressure ({}): times may be off", met.join(", "));
    let help = "grain = 1 to be sure; docs/models.md has the errors of some cases";
    Some(Diagnostic::new(Code::CoarseUnits, message).help(help))
}
