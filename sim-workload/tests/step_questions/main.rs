//! Questions that researchers and planners ask about steps, put to steps that are played call by call over the fabric.
//!
//! Each test has the configuration that its question states, and what is known of the answer: published, or derived where the test
//! says how. `docs/asking-about-steps.md` shows how to ask from the command line.

#[path = "../serving_common/closed.rs"]
mod closed;
mod cluster;
mod experts;
mod links;
mod placement;
mod scaling;
mod serving;
