//! Why nothing new arrives any more, and who gave up, in words.

use sim_core::net::NetOutcome;
use sim_core::net::spec::Recovery;
use sim_core::units::{Span, Time};

use crate::scenario::Loaded;

/// What a run that ended without progress at `ended` waits for, to be added to where it ended; empty if nothing is known.
pub(super) fn why(loaded: &Loaded, net: &NetOutcome, ended: Time) -> String {
    let Some(packets) = &loaded.packets else { return String::new() };
    let fabric = &loaded.fabric;
    let after = ended.since(Time::ZERO);
    let storms = fabric.pause_storms().iter();
    let mut on = storms.filter(|(_, s)| s.from <= after && s.until.is_none_or(|until| until > after));
    if let Some((link, _)) = on.next() {
        let more = match on.count() {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        return format!(": a pause storm holds {}{more}", fabric.link_name(*link));
    }
    let totals = &net.totals;
    let gone = totals.drops + totals.watchdog_drops + totals.lost;
    if gone > 0 && packets.ways.iter().any(|way| way.flow.recovery == Recovery::None) {
        return format!(": {} dropped or lost, and none is sent again: recovery is none", packets_of(gone));
    }
    let again: u64 = net.flows.iter().map(|flow| flow.resent).sum();
    let word = match packets.ways.first().map_or(Recovery::None, |way| way.flow.recovery) {
        Recovery::None => "none",
        Recovery::GoBackN => "go-back-n",
        Recovery::GoBack0 => "go-back-0",
        Recovery::Selective => "selective",
    };
    let held = net.ports.iter().enumerate().flat_map(|(port, classes)| classes.iter().map(move |c| (port, c.held)));
    let longest = held.rev().max_by_key(|(_, held)| *held).filter(|(_, held)| *held > Span::ZERO);
    match (again, longest) {
        (0, Some((port, held))) => {
            let links = fabric.places().map(|places| places.links).unwrap_or_default();
            let name = links.get(port).map_or_else(String::new, |place| fabric.link_name(place.link));
            format!(": {name} was held for {held}")
        }
        (0, None) => String::new(),
        (again, _) => format!(": {} sent again in vain, recovery is {word}", packets_of(again)),
    }
}

/// The first queue pair that gave up, by its NICs, to be added to where the run ended; empty if none did.
pub(super) fn who(loaded: &Loaded, net: &NetOutcome) -> String {
    let fabric = &loaded.fabric;
    let links = fabric.places().map(|places| places.links).unwrap_or_default();
    let link = |port: Option<&u32>| Some(fabric.link(links.get(*port? as usize)?.link));
    let name = |id| fabric.device(id).name.as_str();
    let first = net.flows.iter().find(|flow| flow.failed);
    let ends = first.and_then(|flow| {
        let route = net.routes.get(flow.qp as usize)?;
        Some((flow, name(link(route.first())?.from), name(link(route.last())?.to)))
    });
    ends.map_or_else(String::new, |(flow, from, to)| {
        let timeouts = crate::diagnostic::counted(flow.timeouts, "timeout");
        format!(": {from} to {to} heard nothing after all its retries ({timeouts})")
    })
}

fn packets_of(count: u64) -> String {
    if count == 1 { "1 packet was".to_owned() } else { format!("{count} packets were") }
}
