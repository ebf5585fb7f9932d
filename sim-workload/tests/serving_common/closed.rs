//! Messages of serving by closed forms, for tests: what questions and figures of papers are put to, and what holds with messages of a
//! given time. Commands play each call ([`Played`](sim_workload::serving::played::Played)).

#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Rate, Span};
use sim_workload::messages::Operation;
use sim_workload::parallel::Group;
use sim_workload::serving::messages::Messages;
use sim_workload::step::plan::Call;

/// Elements of activations are two bytes.
const ACTIVATION: u64 = 2;

/// A link of closed forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// From the start of a call to the end of its first byte's way: kernel, barrier, wire.
    pub(crate) latency: Span,
    /// Bytes per time, one direction, of a GPU.
    pub(crate) rate: Rate,
}

impl Link {
    fn time(&self, bytes: u128) -> Span {
        self.latency + self.rate.time_for(Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }
}

/// How a group reaches its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Members.
    pub(crate) ranks: u64,
    /// Members in a scale-up domain.
    pub(crate) together: u64,
    /// Inside a domain.
    pub(crate) inside: Link,
    /// From one to another.
    pub(crate) outside: Link,
}

/// Which all-reduce is taken inside a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Choice {
    /// The rule of vLLM; what it leaves to NCCL is a ring.
    #[default]
    Vllm,
    /// The rule of TensorRT-LLM, on Hopper.
    TensorRtLlm,
    /// A ring always.
    Ring,
    /// One shot always: each reads the buffers of all.
    OneShot,
    /// Two shots always: a reduce-scatter and an all-gather.
    TwoShot,
}

/// Closed forms, without contention: bounds of what the engine plays, and quick.
///
/// One shot `α + (n − 1)·S/β`; two shots `2α + 2·S·(n − 1)/n/β`; ring `2(n − 1)·α + 2·S·(n − 1)/n/β`. Over domains an all-reduce is a
/// reduce-scatter inside, a ring of each place over domains, and an all-gather inside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed {
    /// By group; calls of groups that are not there take no time.
    pub(crate) reach: BTreeMap<Group, Reach>,
    /// Which all-reduce.
    pub(crate) choice: Choice,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shots {
    One,
    Two,
    Ring,
}

impl Choice {
    fn taken(self, ranks: u64, bytes: u64) -> Shots {
        use sim_collectives::algorithms::serving::{TENSORRT_LLM, VLLM};
        let name = match self {
            Self::OneShot => return Shots::One,
            Self::TwoShot => return Shots::Two,
            Self::Ring => return Shots::Ring,
            Self::Vllm => VLLM,
            Self::TensorRtLlm => TENSORRT_LLM,
        };
        let group = sim_collectives::call::Group::regular(1, u32::try_from(ranks).unwrap_or(u32::MAX));
        let situation = sim_collectives::algorithms::serving::Situation {
            operation: sim_collectives::nccl::Operation::AllReduce,
            bytes,
            element: ACTIVATION,
            sm: 90,
            nvlink: true,
            group: &group,
        };
        let taken = name.parse().ok().and_then(|n| sim_collectives::algorithms::serving::resolve(n, &situation));
        match taken.map(sim_collectives::algorithms::Name::as_str) {
            Some("one_shot") => Shots::One,
            Some("two_shot") => Shots::Two,
            _ => Shots::Ring,
        }
    }
}

impl Messages for Closed {
    fn time(&self, call: &Call) -> Span {
        let Some(reach) = self.reach.get(&call.group) else { return Span::ZERO };
        let (n, s) = (u128::from(reach.ranks.max(1)), u128::from(call.bytes.get()));
        let g = u128::from(reach.together.clamp(1, reach.ranks.max(1)));
        if n == 1 {
            return Span::ZERO;
        }
        let (inside, outside, domains) = (reach.inside, reach.outside, n.div_ceil(g));
        let steps = |link: Link, steps: u128, bytes: u128| {
            link.latency * u64::try_from(steps).unwrap_or(u64::MAX) + Link { latency: Span::ZERO, ..link }.time(bytes)
        };
        match call.operation {
            Operation::AllReduce if domains == 1 => match self.choice.taken(reach.ranks, call.bytes.get()) {
                Shots::One => inside.time((n - 1) * s),
                Shots::Two => steps(inside, 2, 2 * s * (n - 1) / n),
                Shots::Ring => steps(inside, 2 * (n - 1), 2 * s * (n - 1) / n),
            },
            Operation::AllReduce => {
                let local = if g > 1 { steps(inside, 2, 2 * s * (g - 1) / g) } else { Span::ZERO };
                local + steps(outside, 2 * (domains - 1), 2 * s / g * (domains - 1) / domains)
            }
            Operation::AllGather | Operation::ReduceScatter => {
                let link = if domains > 1 { outside } else { inside };
                steps(link, 1, s * (n - 1) / n)
            }
            Operation::AllToAll => {
                let near = inside.time(s * (g - 1) / n);
                if domains > 1 { near.max(outside.time(s * (n - g) / n)) } else { near }
            }
            Operation::Send => (if domains > 1 || g == 1 { outside } else { inside }).time(s),
        }
    }
}
