//! fabricsim predicts what a GPU cluster's network will do.
//!
//! The library behind the `fabricsim` command line. A [`Scenario`] is read and checked from TOML, and becomes a fabric
//! and a schedule that the engine plays:
//!
//! ```
//! use fabricsim::scenario::{Input, Scenario};
//!
//! let text = "system = \"hgx-h100\"\nnodes = 2\n".to_owned();
//! let loaded = Scenario::load(&Input::Text { name: "two.toml".to_owned(), text }, &[])
//!     .map_err(|faults| fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain))?;
//! assert_eq!(loaded.scenario.gpus(), 16);
//! # Ok::<(), String>(())
//! ```

pub mod alpha_beta;
pub mod cli;
pub mod diagnostic;
pub mod explain;
pub mod fit;
pub mod scenario;
pub mod simulate;
pub mod sweep;

pub use scenario::Scenario;
pub use simulate::Report;

/// The Rust code of the README, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
