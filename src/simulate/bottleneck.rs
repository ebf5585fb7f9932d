//! What bounds a piece of work, in words.

use std::collections::BTreeSet;

use sim_collectives::{Machine, Plan};
use sim_core::ids::LinkId;
use sim_core::net::FlowOutcome;
use sim_core::net::spec::Paths;
use sim_core::network::Network;
use sim_core::outcome::Outcome;
use sim_core::units::{Span, Time};
use sim_topology::{DeviceId, Fabric};

use super::causes::{self, Cause};
use super::links::{busiest, busiest_since};

/// Above this share of its time, a link or a channel is what bounds the work.
const BUSY: f64 = 0.5;

/// What bounds a collective: the busiest link or the rate at which the library's channels work, whichever is nearer to
/// its limit and above half of it; else latency.
pub(super) fn collective(
    machine: &Machine<'_>,
    (plan, network): (&Plan, &Network),
    outcome: &Outcome,
    (time_us, algbw, busbw): (f64, f64, f64),
    links: Option<&BTreeSet<LinkId>>,
) -> String {
    let channels = channel_share(machine, plan, algbw, busbw);
    let link = busiest(outcome, links).map(|(id, share)| (machine.fabric.link_name(id), share));
    let named = link.as_ref().map(|(name, share)| (name.as_str(), *share));
    let cause = causes::cause(machine.fabric, network.packets(), outcome, Time::ZERO, named);
    let full = [named.map(|(_, share)| share), channels.map(|(share, _)| share)];
    let all_below = |limit: f64| full.iter().flatten().all(|share| *share < limit);
    // Where other work shares the network, whose queue pairs those are isn't told.
    if links.is_none()
        && all_below(BUSY)
        && let Some(plan) = network.packets()
        && let Some(words) = causes::of_all(machine.fabric, plan, outcome, Span::from_ps((time_us * 1e6) as u64))
    {
        return words;
    }
    if let Some(Cause { share, words }) = &cause
        && *share > causes::MOST
        && all_below(causes::FULL)
    {
        return words.clone();
    }
    if let Some((id, share)) = busiest(outcome, links)
        && share > BUSY
        && channels.is_none_or(|(of_channels, _)| share > of_channels)
    {
        return format!("{} {:.0} %", machine.fabric.link_name(id), share * 100.0);
    }
    match channels {
        Some((share, what)) if share > BUSY => format!("{what} {:.0} %", share * 100.0),
        Some((share, what)) if share > BUSY / 2.0 => format!("latency and {what}"),
        // With large messages between pairs and no busy link, the channels they share are what is left.
        None if plan.call.p2p.message >= 1 << 20 => "channel rate".to_owned(),
        _ => cause.map_or_else(|| "latency".to_owned(), |cause| cause.words),
    }
}

/// What each channel moves as a share of what it can, and the name of that limit. `None` for calls whose messages share channels,
/// in another way at each size.
fn channel_share(machine: &Machine<'_>, plan: &Plan, algbw: f64, busbw: f64) -> Option<(f64, &'static str)> {
    if let Some(rate) = plan.message_rate(machine) {
        return Some(((algbw / f64::from(plan.channels.max(1)) / rate).min(1.0), "channel rate"));
    }
    let (limit, rate) = (plan.limit()?, plan.channel_rate(machine)?);
    let moved = if limit.bus { busbw } else { algbw };
    // The last slices are shorter, and may be a little faster than whole ones.
    Some(((moved / f64::from(plan.channels.max(1)) / rate).min(1.0), limit.words))
}

/// The messages that ended within the last tenth of the time.
#[derive(Debug, Default)]
pub(super) struct Last<'a> {
    /// The links of their routes.
    pub(super) links: BTreeSet<LinkId>,
    /// What their queue pairs measured, where packets are played.
    pub(super) flows: Vec<&'a FlowOutcome>,
}

/// What bounds transfers, of which the first began at `began`: the busiest link if it is full; else what held the last ones back
/// for most of their time; else the link if it was busy for more than half of the time, or what held packets back in all, or
/// latency. The run takes as long as the `last` ones: over packets only links on their way count, where their paths are known.
pub(super) fn transfers(fabric: &Fabric, network: &Network, outcome: &Outcome, began: Time, last: &Last<'_>) -> String {
    let known = network.packets().filter(|plan| {
        let others = plan.others.iter().map(|(flow, _)| flow);
        core::iter::once(&plan.flow).chain(others).all(|flow| flow.paths == Paths::Pinned)
    });
    let among = known.map(|_| &last.links).filter(|links| !links.is_empty());
    let link = busiest_since(outcome, began, among).map(|(id, share)| (fabric.link_name(id), share));
    let named = link.as_ref().map(|(name, share)| (name.as_str(), *share));
    let busy = |limit: f64| {
        let (name, share) = named.filter(|(_, share)| *share > limit)?;
        Some(format!("{name} {:.0} %", share * 100.0))
    };
    let held = || causes::of_last(fabric, network.packets()?, outcome, &last.flows);
    let in_all = || causes::cause(fabric, network.packets(), outcome, began, named).map(|cause| cause.words);
    let found = busy(causes::FULL).or_else(held).or_else(|| busy(BUSY)).or_else(in_all);
    found.unwrap_or_else(|| "latency".to_owned())
}

/// The same for the first line: `node0.nic3->leaf3, busy 98 % of the time`, with what is wrong with the link.
pub(super) fn sentence(fabric: &Fabric, packets: bool, bottleneck: &str) -> String {
    match bottleneck.strip_suffix(" %").and_then(|b| b.rsplit_once(' ')) {
        Some((link, percent)) => {
            let ill = fabric.ailing_links().find(|(id, _)| fabric.link_name(*id) == link);
            let what = |(id, what): (LinkId, &str)| {
                let lossy = packets.then(|| fabric.ailment_over_packets(id)).flatten();
                format!(" ({})", lossy.unwrap_or_else(|| what.to_owned()))
            };
            let ill = ill.map_or_else(String::new, what);
            format!("{link}{ill}, busy {percent} % of the time")
        }
        None => bottleneck.to_owned(),
    }
}

/// Names the link that outages held longest; empty if none did.
pub(super) fn held(fabric: &Fabric, outcome: &Outcome) -> String {
    let longest = outcome.links.iter().enumerate().rev().max_by_key(|(_, link)| link.held);
    match longest.filter(|(_, link)| link.held > Span::ZERO) {
        Some((i, link)) => {
            format!(" {} was down for {} of the time that it was needed.", fabric.link_name(LinkId::new(i)), link.held)
        }
        None => String::new(),
    }
}

/// Names a straggler among the devices that start transfers; empty if none of them starts late.
pub(super) fn late(fabric: &Fabric, starters: impl Iterator<Item = DeviceId>) -> String {
    let mut slow: Vec<(DeviceId, Span)> =
        starters.filter_map(|id| Some((id, fabric.slowness_of(id)?.delay))).filter(|(_, d)| *d > Span::ZERO).collect();
    slow.sort_unstable();
    slow.dedup();
    match slow.as_slice() {
        [] => String::new(),
        [(id, delay)] => format!(" {} starts {delay} late.", fabric.device(*id).name),
        [(id, delay), rest @ ..] => {
            format!(" {} starts {delay} late, and {} more are late.", fabric.device(*id).name, rest.len())
        }
    }
}

/// Names the stragglers among the ranks of a collective.
pub(super) fn stragglers(machine: &Machine<'_>) -> Option<String> {
    let slow: Vec<&str> = machine
        .gpus
        .iter()
        .filter(|gpu| machine.fabric.slowness_of(**gpu).is_some())
        .map(|gpu| machine.fabric.device(*gpu).name.as_str())
        .collect();
    match slow.as_slice() {
        [] => None,
        [one] => Some(format!("the straggler {one}")),
        [first, rest @ ..] => Some(format!("the stragglers {first} and {} more", rest.len())),
    }
}
