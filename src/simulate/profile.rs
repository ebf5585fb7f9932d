//! The scenario's own timing parameters, and what links carry by them.

use sim_collectives::timing::{LinkKind, Parameter, Timing};
use sim_core::network::Network;
use sim_core::units::Rate;
use sim_report::result::ParameterResult;
use sim_topology::Fabric;

use crate::scenario::Profile;

/// Puts a scenario's parameters, which have been checked, in place of the built-in ones.
pub(crate) fn apply(profile: &Profile, timing: &mut Timing) {
    for (name, p) in profile {
        let set = timing.set(name, p.value, p.origin, &p.source);
        if let Some(spread) = p.spread {
            timing.set_spread(name, spread);
        }
        debug_assert!(set.is_ok(), "{name} = {} was checked when the scenario was loaded", p.value);
    }
}

/// The parameters that predictions asked for, as results have them.
pub(crate) fn asked(timing: &Timing) -> Vec<ParameterResult> {
    let result = |p: &Parameter| ParameterResult {
        name: p.name.clone(),
        value: p.value,
        origin: p.origin.name().to_owned(),
        source: p.source.clone(),
    };
    timing.read().into_iter().map(result).collect()
}

/// The links as collectives find them: of the network's, the library's messages fill `network.port_share`.
pub(crate) fn library(fabric: &Fabric, timing: &Timing) -> Network {
    let filled = timing.ask("network.port_share");
    let own = |kind: LinkKind| timing.value(kind.parameter()).unwrap_or(1.0);
    network(fabric, |kind| own(kind) * if kind == LinkKind::Network { filled } else { 1.0 })
}

/// The links as the engine takes them, each with the share of its data rate that `share` says.
pub(crate) fn network(fabric: &Fabric, share: impl Fn(LinkKind) -> f64) -> Network {
    let whole = fabric.network();
    if LinkKind::ALL.iter().all(|kind| share(*kind) == 1.0) {
        return whole;
    }
    let links = whole.links().iter().zip(fabric.links()).map(|(spec, link)| {
        let share = share(LinkKind::of(link.class));
        let rate = if share == 1.0 { spec.rate } else { Rate::from_gbyte_f64(spec.rate.as_gbyte() * share) };
        sim_core::network::LinkSpec { rate, ..*spec }
    });
    Network::new(links.collect())
}
