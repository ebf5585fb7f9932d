//! Closed forms: what a call takes when nothing else is under way, and a step of such calls.
//!
//! One place for them all: [`search`](crate::search) bounds and ranks divisions of a job by [`step()`], the carrier
//! [`Coarse`](crate::step::coarse::Coarse) and calls that are too large to be played go by [`Way`]. How near they come to steps that are
//! played is in `docs/steps-accuracy.md`.

pub mod by_library;
pub mod call;
mod hidden;
mod on_fabric;
pub mod step;

pub use by_library::{ByLibrary, Library};
pub use call::{Cluster, Lies, Path, Way};
pub use step::{Estimate, Takes, Usual, step};
