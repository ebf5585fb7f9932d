//! The engine of fabricsim: units, events, links, packets, lanes and the recorder.
//!
//! This crate knows nothing of GPUs, ranks, collectives or TOML: it moves messages in segments over directed links,
//! some of which may carry [packets](net), and runs small programs ([lanes](program::Lane)) that send, receive and wait.

pub mod engine;
pub mod event;
pub mod feeders;
pub mod ids;
pub mod net;
pub mod network;
pub mod outage;
pub mod outcome;
pub mod program;
pub mod program_builder;
pub mod queue;
pub mod random;
pub mod rate_control;
pub mod recorder;
pub mod units;
