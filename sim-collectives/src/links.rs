//! The links of a fabric as transfers and collectives find them: with the shares of their rates that the timing model says.

use sim_core::network::{LinkSpec, Network};
use sim_core::units::Rate;
use sim_topology::{Fabric, LinkClass};

use crate::timing::{Key, LinkKind, Timing};

/// The links as transfers find them: each with the share of its data rate that its kind has.
#[must_use]
pub fn filled(fabric: &Fabric, timing: &Timing) -> Network {
    network(fabric, |class| timing.parameter(LinkKind::of(class).share()).value)
}

/// The links as collectives find them: of a NIC's port, the library's messages fill `network.port_share`. Between switches they fill what
/// links carry.
#[must_use]
pub fn by_library(fabric: &Fabric, timing: &Timing) -> Network {
    let port = timing.parameter(Key::NetworkPortShare).value;
    let own = |class| timing.parameter(LinkKind::of(class).share()).value;
    network(fabric, |class| own(class) * if is_port(class) { port } else { 1.0 })
}

/// Whether links of this class join a NIC's port to the network.
#[must_use]
pub fn is_port(class: LinkClass) -> bool {
    class == LinkClass::Network
}

fn network(fabric: &Fabric, share: impl Fn(LinkClass) -> f64) -> Network {
    let whole = fabric.network();
    if fabric.links().iter().all(|link| share(link.class) == 1.0) {
        return whole;
    }
    let links = whole.links().iter().zip(fabric.links()).map(|(spec, link)| {
        let share = share(link.class);
        let rate = if share == 1.0 { spec.rate } else { Rate::from_gbyte_f64(spec.rate.as_gbyte() * share) };
        LinkSpec { rate, ..*spec }
    });
    Network::new(links.collect())
}
