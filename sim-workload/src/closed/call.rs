//! The time of a call alone.
//!
//! Two laws of the same quantities: `n` members, at most `m` of them in one of `k` scale-up domains, and `S` bytes as
//! [`messages`](crate::messages) count them.
//!
//! [`Way::least`]: no algorithm takes less. A word's way between the members that are farthest apart (twice for an all-reduce), and what has to
//! pass the narrower of two places at the rate of its links; here `m` are the members in the smallest domain:
//!
//! | operation | over a GPU's own links, in its domain and of the NICs | over the NICs of a domain's members together |
//! |---|---|---|
//! | all-reduce | `S` where switches reduce, else `2S(n−1)/n` | `2S(k−1)/k` |
//! | all-gather, reduce-scatter | `S(n−1)/n` | `S(k−1)/k` |
//! | all-to-all | `S(m−1)/n` | `mS(n−m)/n` |
//! | send | `S` | `S` |
//!
//! [`Way::usual`]: as rings and trees of collective libraries do it, `hops · α + wire / rate`. `wire` is what a rank sends
//! ([`wire_bytes`]). Within a domain `rate` is that of a GPU's own links. A group on several domains passes between them over the
//! NICs of its members in one: `rate = min(own links, NICs)`; of an all-to-all the n − m parts for other domains go over the rank's own
//! NIC, beside the others; a send goes over one. `hops` is ⌈log2 n⌉, twice that for an all-reduce.
//!
//! Protocols, headers, and all that shares links come on top of both.

use sim_core::units::{Bytes, Rate, Span};

use crate::messages::{Operation, wire_bytes};
use crate::parallel::Spread;

/// Links on a way: the rate of the narrowest, one direction, and a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// One direction.
    pub rate: Rate,
    /// Of a hop.
    pub latency: Span,
}

/// How the members of a group lie on scale-up domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lies {
    /// All of them.
    pub members: u64,
    /// Domains.
    pub domains: u64,
    /// Members in the domain with fewest of them.
    pub fewest: u64,
    /// Members in the domain with most of them.
    pub most: u64,
}

impl From<Spread> for Lies {
    fn from(spread: Spread) -> Self {
        let Spread { ranks, domains, fewest_in_domain, most_in_domain, .. } = spread;
        Self { members: ranks, domains, fewest: fewest_in_domain, most: most_in_domain }
    }
}

/// A cluster as closed forms see it, by the links of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Between GPUs of a scale-up domain.
    pub scale_up: Path,
    /// Between domains, over the NIC of one GPU.
    pub scale_out: Path,
    /// Whether switches of a domain reduce.
    pub reduces: bool,
}

/// What of a group its calls depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// How it lies.
    pub lies: Lies,
    /// Between two of a domain; `None` where there are no two.
    pub near: Option<Path>,
    /// Between domains, at the rate of all NICs of the members of one; `None` if there is one domain.
    pub far: Option<Path>,
    /// Whether switches of a domain reduce.
    pub reduces: bool,
}

impl Cluster {
    /// The way of a group that lies so.
    #[must_use]
    pub fn way(&self, lies: impl Into<Lies>) -> Way {
        let lies = lies.into();
        let all = Rate::bytes_per_sec(self.scale_out.rate.get().saturating_mul(lies.most.max(1)));
        Way {
            lies,
            near: (lies.most > 1).then_some(self.scale_up),
            far: (lies.domains > 1).then_some(Path { rate: all, ..self.scale_out }),
            reduces: self.reduces,
        }
    }
}

fn bytes(n: u128) -> Bytes {
    Bytes::new(u64::try_from(n).unwrap_or(u64::MAX))
}

impl Way {
    /// The same without hops: what bytes alone take.
    #[must_use]
    pub fn without_hops(self) -> Self {
        let still = |path: Option<Path>| path.map(|path| Path { latency: Span::ZERO, ..path });
        Self { near: still(self.near), far: still(self.far), ..self }
    }

    /// What a call takes at least, by any algorithm; nothing if the group has one member.
    #[must_use]
    pub fn least(&self, operation: Operation, size: Bytes) -> Span {
        let Lies { members, domains, fewest, .. } = self.lies;
        let (n, m, k) = (u128::from(members), u128::from(fewest.max(1)), u128::from(domains.max(1)));
        let s = u128::from(size.get());
        if n < 2 {
            return Span::ZERO;
        }
        let (near, far, turns) = match operation {
            Operation::AllReduce if self.reduces => (s, 2 * s * (k - 1) / k, 2),
            Operation::AllReduce => (2 * s * (n - 1) / n, 2 * s * (k - 1) / k, 2),
            Operation::AllGather | Operation::ReduceScatter => (s * (n - 1) / n, s * (k - 1) / k, 1),
            Operation::AllToAll => (s * (m - 1) / n, m * s * (n - m) / n, 1),
            Operation::Send => (s, s, 1),
        };
        let takes = |path: Path, n: u128| path.rate.ps_per_byte().cost(bytes(n));
        // What a GPU needs comes over its own links and, where there are several domains, its part of the NICs.
        let of_nics = |far: Path| far.rate.get() / u64::try_from(m).unwrap_or(u64::MAX);
        let of_nics =
            if matches!(operation, Operation::AllToAll | Operation::Send) { 0 } else { self.far.map_or(0, of_nics) };
        let near_takes = self.near.map_or(Span::ZERO, |path| {
            takes(Path { rate: Rate::bytes_per_sec(path.rate.get().saturating_add(of_nics)), ..path }, near)
        });
        let far_takes = self.far.map_or(Span::ZERO, |path| takes(path, far));
        let latency = self.far.or(self.near).map_or(Span::ZERO, |path| path.latency);
        latency * turns + near_takes.max(far_takes)
    }

    /// What a call takes as rings and trees do it; nothing if the group has one member.
    #[must_use]
    pub fn usual(&self, operation: Operation, size: Bytes) -> Span {
        let Lies { members: n, most, .. } = self.lies;
        if n < 2 {
            return Span::ZERO;
        }
        let wire = wire_bytes(operation, size, n);
        let one = |far: Path| Rate::bytes_per_sec((far.rate.get() / most.max(1)).max(1));
        let takes = match (self.near, self.far) {
            (None, None) => Span::ZERO,
            (Some(near), None) => near.rate.time_for(wire),
            (_, Some(far)) if operation == Operation::Send => one(far).time_for(wire),
            (near, Some(far)) if operation == Operation::AllToAll => {
                let part = |of: u64| bytes(u128::from(size.get() / n) * u128::from(of));
                let inside = near.map_or(Span::ZERO, |near| near.rate.time_for(part(most.saturating_sub(1))));
                one(far).time_for(part(n.saturating_sub(most))).max(inside)
            }
            (near, Some(far)) => near.map_or(far.rate, |near| near.rate.min(far.rate)).time_for(wire),
        };
        let log = u64::from(n.next_power_of_two().trailing_zeros()).max(1);
        let hops = if operation == Operation::AllReduce { 2 * log } else { log };
        let hop = self.far.or(self.near).map_or(Span::ZERO, |path| path.latency);
        takes + hop * hops
    }
}
