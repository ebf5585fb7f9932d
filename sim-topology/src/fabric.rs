//! A whole cluster: nodes joined by a network, built from a specification and then frozen.

mod build;
mod error;
mod frozen;
mod plan;
mod routing;
mod spec;
mod switches;

pub use error::BuildError;
pub use frozen::{Fabric, UnknownDevice};
pub use plan::FabricPlan;
pub use spec::{FabricKind, FabricSpec, NicOverride, PathChoice, TransportKind};

pub(crate) use switches::SwitchRoutes;

#[cfg(test)]
mod tests;
