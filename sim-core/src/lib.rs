//! The engine of fabricsim: units, events, links, transport, lanes and the recorder.
//!
//! This crate knows nothing of GPUs, ranks, collectives or TOML: it moves messages in segments over directed links and
//! runs small programs ([`lane`]s) that send, receive and wait.

pub mod ids;
pub mod network;
pub mod units;
