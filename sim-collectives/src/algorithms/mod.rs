//! The collective algorithms: each is one file that writes down lanes.
//!
//! To add one: a new file with a type that implements [`Algorithm`], its `mod` line, and its line in the register below.
//! It can then be forced by its name. What NCCL would choose by itself is another matter
//! ([`nccl::Algorithm`](crate::nccl::Algorithm)): an algorithm under one of NCCL's seven names runs when NCCL chooses it.

mod collnet_chain;
mod collnet_direct;
mod copy_engine;
mod deepep;
mod dissemination;
mod gather;
mod halving_doubling;
mod hierarchical;
mod low_latency;
mod nvls;
mod nvls_tree;
mod one_shot;
mod pairwise;
mod pat;
mod ring;
mod scatter;
mod send_recv;
pub mod serving;
mod symmetric;
mod tree;
mod two_shot;

use core::fmt;
use core::str::FromStr;

use crate::call::Call;
use crate::lanes::LaneSink;
use crate::launch::Messages;
use crate::nccl::{Operation, Protocol, UnknownName, fold};
use crate::timing::Key;

/// An algorithm.
pub trait Algorithm: Sync {
    /// Its name, as in results and as it is forced by.
    fn name(&self) -> &'static str;

    /// Whether it can do `operation` for this call's group.
    fn can(&self, operation: Operation, call: &Call) -> bool;

    /// What every rank does. Only called where [`can`](Self::can) says yes.
    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink);

    /// Who divides a call over channels and chunks, and launches it.
    fn cut(&self) -> Cut {
        Cut::Nccl
    }

    /// What bounds a channel, beside the links; `None` where no one rate does.
    fn limit(&self, _protocol: Protocol) -> Option<Limit> {
        None
    }

    /// Sends and receives of the busiest rank, for each of which the host has work to do; none where the call is a kernel
    /// of its own.
    fn messages(&self, _call: &Call) -> Messages {
        Messages::default()
    }

    /// The time of a call in one chunk (of a single channel) on ideal ports; `None` where that is no closed form.
    fn closed_form(&self, _operation: Operation, _call: &Call) -> Option<ClosedForm> {
        None
    }
}

/// Who divides a call over channels and chunks, and launches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// NCCL, as for its algorithm of this name, or if it has none as for a ring.
    Nccl,
    /// A kernel (or copies) that works on all of the data at once, without NCCL's channels or buffers; how long its start
    /// takes is this timing parameter.
    Whole(Key),
    /// NCCL's sends and receives.
    Messages,
}

/// The rate that a channel is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The timing parameter that holds it, GB/s of a channel.
    pub parameter: Key,
    /// Whether NVLink's share of the channel caps it.
    pub planned: bool,
    /// Whether a channel moves what busbw counts, or else what algbw does.
    pub bus: bool,
    /// What it is called.
    pub words: &'static str,
}

/// α·steps + bytes/β: the time on ports of rate β in each direction with latency α between any two ranks, a message being
/// sent on when all of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedForm {
    /// Messages one after the other.
    pub steps: u32,
    /// Bytes one after the other through the busiest port.
    pub bytes: u64,
}

impl ClosedForm {
    /// So many messages of so many bytes, one after the other.
    #[must_use]
    pub const fn messages(steps: u32, bytes: u64) -> Self {
        Self { steps, bytes: steps as u64 * bytes }
    }
}

macro_rules! register {
    ($($name:literal => $algorithm:expr,)+) => {
        /// All algorithms.
        pub const ALL: &[&dyn Algorithm] = &[$(&$algorithm),+];
        /// What may be forced by name: the algorithms in the same order, and the rules of serving engines.
        pub const NAMES: &[&str] = &[$($name,)+ serving::VLLM, serving::TENSORRT_LLM];
    };
}

register! {
    "ring" => ring::Ring,
    "tree" => tree::Tree,
    "nvls" => nvls::Nvls,
    "nvls_tree" => nvls_tree::NvlsTree,
    "pat" => pat::Pat,
    "collnet_direct" => collnet_direct::CollNetDirect,
    "collnet_chain" => collnet_chain::CollNetChain,
    "halving_doubling" => halving_doubling::HalvingDoubling,
    "one_shot" => one_shot::OneShot,
    "two_shot" => two_shot::TwoShot,
    "symmetric" => symmetric::Symmetric,
    "copy_engine" => copy_engine::CopyEngine,
    "dissemination" => dissemination::Dissemination,
    "pairwise" => pairwise::Pairwise,
    "hierarchical" => hierarchical::Hierarchical,
    "deepep" => deepep::DeepEp,
    "low_latency" => low_latency::LowLatency,
    "sendrecv" => send_recv::SendRecv,
    "gather" => gather::Gather,
    "scatter" => scatter::Scatter,
}

/// The algorithm of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Algorithm> {
    ALL.iter().copied().find(|a| a.name() == name)
}

/// A name that can be forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(&'static str);

impl Name {
    /// The name as results have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<crate::nccl::Algorithm> for Name {
    fn from(algorithm: crate::nccl::Algorithm) -> Self {
        Self(algorithm.name())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl FromStr for Name {
    type Err = UnknownName;

    /// In any case, with or without `_` and `-`.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let folded = fold(s);
        NAMES.iter().find(|name| fold(name) == folded).map(|name| Self(name)).ok_or_else(|| UnknownName {
            what: "algorithm",
            seen: s.to_owned(),
            expected: NAMES.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_has_the_algorithms_own_names() {
        let names: Vec<&str> = ALL.iter().map(|a| a.name()).collect();
        assert_eq!(names, NAMES[..names.len()]);
        for name in NAMES {
            assert_eq!(name.parse(), Ok(Name(name)));
        }
        assert_eq!("Halving-Doubling".parse(), Ok(Name("halving_doubling")));
        for algorithm in crate::nccl::Algorithm::ALL {
            assert!(by_name(algorithm.name()).is_some(), "{algorithm}");
        }
    }
}
