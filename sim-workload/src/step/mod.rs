//! A step: what ranks do in which order, and the time it takes over a network.
//!
//! * [`plan`]: for each stage the operations of its ranks in streams (computation, and one for each kind of group), with what each
//!   waits for.
//! * [`make`]: such a plan from a job.
//! * [`play`]: every rank goes through its streams.
//! * [`overlap`]: which messages run beside kernels.
//! * [`outcome`]: the time, where it went, and the chain of work that the end waited for.
//! * [`carrier`]: who carries messages: what is started takes its time beside all else that is under way.
//! * [`exchange`]: calls that take tokens to experts by other ways than an even all-to-all.
//! * [`calls`]: what calls are on a cluster; [`islands`], [`whole`], [`coarse`]: carriers of them.

pub mod calls;
pub mod carrier;
pub mod coarse;
pub mod exchange;
pub mod islands;
pub mod make;
pub mod outcome;
pub mod overlap;
pub mod plan;
pub mod play;
pub mod whole;
