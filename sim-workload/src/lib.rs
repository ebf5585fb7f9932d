//! What a training or inference step computes and communicates.
//!
//! Layers, each a type of its own that can be made, printed and tested alone:
//!
//! * [`model`]: a transformer from its dimensions; parameters, FLOPs, activations.
//! * [`parallel`]: how a model is divided over ranks; which ranks form which group, and where they are.
//! * [`memory`]: what a GPU holds, held against what it has.
//! * [`messages`]: every message of a step with its size, group, number, cause and what it may overlap with.
//! * [`pipeline`]: the order of work in each stage of a pipeline, and the time it takes.
//! * [`compute`]: the time of kernels on a GPU.
//! * [`experts`]: tokens to experts.
//! * [`step`]: what ranks do in which order, and the time it takes over a network.
//! * [`closed`]: the time of calls and steps by closed forms.
//! * [`serving`]: instances that serve requests: steps, continuous batching, caches that move, goodput.
//! * [`failures`]: what failures and checkpoints cost a long run.
//! * [`search`]: the best sizes and orders of ranks.
//! * [`job`]: a model, sizes, widths of numbers and choices of a framework together.
//!
//! Formulas, units and sources: `docs/workloads.md`.

// Closed forms that unit tests share with others name this crate as these do.
#[cfg(test)]
extern crate self as sim_workload;

pub mod closed;
pub mod compute;
pub mod experts;
pub mod failures;
pub mod job;
pub mod memory;
pub mod messages;
pub mod model;
pub mod nearest;
pub mod parallel;
pub mod pipeline;
pub mod search;
pub mod serving;
pub mod step;
pub mod units;
