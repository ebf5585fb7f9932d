//! The scenario's own timing parameters, and what links carry by them.

use std::collections::BTreeSet;

use sim_collectives::timing::{Key, LinkKind, Parameter, Timing};
use sim_core::network::Network;
use sim_core::outcome::Outcome;
use sim_core::units::Rate;
use sim_report::result::ParameterResult;
use sim_topology::{Fabric, LinkClass};

use super::transport::over_packets;
use crate::scenario::{Packets, Profile};

/// Puts a scenario's parameters, which have been checked, in place of the built-in ones.
pub(crate) fn apply(profile: &Profile, timing: &mut Timing) {
    for (key, p) in &profile.values {
        let set = timing.set(*key, p.value, p.origin, &p.source);
        if let Some(spread) = p.spread {
            timing.set_spread(*key, spread);
        }
        debug_assert!(set.is_ok(), "{key} = {} was checked when the scenario was loaded", p.value);
    }
    for (class, sigma) in &profile.forms {
        timing.set_form(class.clone(), *sigma);
    }
}

/// The parameters that predictions asked for, as results have them.
pub(crate) fn asked(timing: &Timing) -> Vec<ParameterResult> {
    let result = |p: &Parameter| ParameterResult {
        name: p.name().to_owned(),
        value: p.value,
        origin: p.origin.name().to_owned(),
        source: p.source.clone(),
    };
    timing.read().into_iter().map(result).collect()
}

/// The links as collectives find them: of a NIC's port, the library's messages fill `network.port_share`. Between switches they fill what
/// links carry.
pub(crate) fn library(fabric: &Fabric, timing: &Timing, packets: Option<&Packets>) -> Network {
    let filled = timing.parameter(Key::NetworkPortShare).value;
    let own = |class| timing.parameter(LinkKind::of(class).share()).value;
    let network = network(fabric, |class| own(class) * if is_port(class) { filled } else { 1.0 });
    over_packets(network, fabric, packets)
}

/// Whether links of this class join a NIC's port to the network.
fn is_port(class: LinkClass) -> bool {
    class == LinkClass::Network
}

/// Lets the timing model know of the links that carried something, whose rates a collective's time rests on.
pub(crate) fn used_links(fabric: &Fabric, timing: &Timing, outcome: &Outcome) {
    let carried = fabric.links().iter().zip(&outcome.links).filter(|(_, counted)| counted.payload > 0);
    let classes: BTreeSet<LinkClass> = carried.map(|(link, _)| link.class).collect();
    for class in classes {
        let _ = timing.ask(LinkKind::of(class).share());
        if is_port(class) {
            let _ = timing.ask(Key::NetworkPortShare);
        }
    }
}

/// The links as the engine takes them, each with the share of its data rate that `share` says.
pub(crate) fn network(fabric: &Fabric, share: impl Fn(LinkClass) -> f64) -> Network {
    let whole = fabric.network();
    if fabric.links().iter().all(|link| share(link.class) == 1.0) {
        return whole;
    }
    let links = whole.links().iter().zip(fabric.links()).map(|(spec, link)| {
        let share = share(link.class);
        let rate = if share == 1.0 { spec.rate } else { Rate::from_gbyte_f64(spec.rate.as_gbyte() * share) };
        sim_core::network::LinkSpec { rate, ..*spec }
    });
    Network::new(links.collect())
}
