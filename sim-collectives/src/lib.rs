//! Collective algorithms as NCCL runs them: who sends what to whom on which channel, and in what order.
//!
//! A [`StepGraph`](step_graph::StepGraph) is what every workload produces; a collective in it becomes [`lanes`] when it
//! starts, and these become a program of the engine ([`lower`]). [`check`] proves of every algorithm that each rank
//! ends with every contribution exactly once.

mod aggregation;
pub mod algorithms;
pub mod bench;
pub mod call;
pub mod check;
pub mod experts;
pub mod ideal;
pub mod lanes;
pub mod launch;
pub mod links;
pub mod lower;
pub mod machine;
mod mesh;
pub mod nccl;
pub mod plan;
pub mod spread;
pub mod step_graph;
pub mod timing;

pub use machine::{Machine, MachineError, Software};
pub use plan::{Plan, PlanError, Request};
