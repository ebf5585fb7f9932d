//! The engine of fabricsim: units, events, links, transport, lanes and the recorder.
//!
//! This crate knows nothing of GPUs, ranks, collectives or TOML: it moves messages in segments over directed links and
//! runs small programs ([lanes](program::Lane)) that send, receive and wait.

pub mod engine;
pub mod event;
pub mod flow_control;
pub mod ids;
pub mod net;
pub mod network;
pub mod outage;
pub mod outcome;
pub mod path_choice;
pub mod program;
pub mod program_builder;
pub mod queue;
pub mod random;
pub mod rate_control;
pub mod recorder;
pub mod units;
