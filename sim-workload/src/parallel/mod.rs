//! How a model is divided over ranks, which ranks form which group, and where the ranks are.

mod check;
pub mod fault;
pub mod groups;
pub mod local;
pub mod order;
pub mod placement;
pub mod sizes;
pub mod split;

#[cfg(test)]
mod tests;

pub use fault::SizeFault;
pub use groups::{Group, Ranks};
pub use local::Local;
pub use order::{Axis, Order, OrderFault};
pub use placement::{Place, Placement, Spread};
pub use sizes::{ContextKind, Sizes, SizesSpec, Zero};
