//! A whole cluster: nodes joined by a network, built from a specification and then frozen.

mod blueprint;
mod build;
mod error;
mod frozen;
mod kinds;
mod places;
mod plan;
mod routing;
mod spec;
mod switches;
mod tiers;
mod variants;

pub use blueprint::SwitchPlace;
pub use error::BuildError;
pub use frozen::{Fabric, UnknownDevice};
pub use places::{LinkPlace, OneWay, Places};
pub use plan::{Cables, FabricPlan, Tier};
pub use spec::{DragonflySpec, FabricKind, FabricSpec, NicOverride, PathChoice, TransportKind};

pub(crate) use switches::SwitchRoutes;

#[cfg(test)]
mod tests;
