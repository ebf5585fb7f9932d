//! The scenario's own timing parameters, and what links carry by them.

use std::collections::BTreeSet;

use sim_collectives::links;
use sim_collectives::timing::{Key, LinkKind, Parameter, Timing};
use sim_core::network::Network;
use sim_core::outcome::Outcome;
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

/// The links as [collectives find them](links::by_library), over packets where there are some.
pub(crate) fn library(fabric: &Fabric, timing: &Timing, packets: Option<&Packets>) -> Network {
    over_packets(links::by_library(fabric, timing), fabric, packets)
}

/// Lets the timing model know of the links that carried something, whose rates a collective's time rests on.
pub(crate) fn used_links(fabric: &Fabric, timing: &Timing, outcome: &Outcome) {
    let carried = fabric.links().iter().zip(&outcome.links).filter(|(_, counted)| counted.payload > 0);
    let classes: BTreeSet<LinkClass> = carried.map(|(link, _)| link.class).collect();
    for class in classes {
        let _ = timing.ask(LinkKind::of(class).share());
        if links::is_port(class) {
            let _ = timing.ask(Key::NetworkPortShare);
        }
    }
}
