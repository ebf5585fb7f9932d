//! The operations, by the names that nccl-tests uses.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::algorithm::{UnknownName, fold};

/// A communication call over all ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Every rank ends with the reduction of all buffers.
    AllReduce,
    /// Every rank ends with the concatenation of all parts.
    AllGather,
    /// Every rank ends with its part of the reduction.
    ReduceScatter,
    /// The root's buffer goes to every rank.
    Broadcast,
    /// The root ends with the reduction.
    Reduce,
    /// Every rank sends a different part to every rank.
    #[serde(rename = "alltoall")]
    AllToAll,
    /// Every rank sends to its successor and receives from its predecessor.
    #[serde(rename = "sendrecv")]
    SendRecv,
    /// The root ends with the parts of all ranks.
    Gather,
    /// Every rank ends with its part of the root's buffer.
    Scatter,
    /// Every rank sends a part of any size to every rank.
    #[serde(rename = "alltoallv")]
    AllToAllV,
    /// Every rank sends its tokens to the ranks of their experts.
    Dispatch,
    /// Every rank gets its tokens back from the ranks of their experts, added up.
    Combine,
    /// No rank goes on before all have come.
    Barrier,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::Reduce,
        Self::AllToAll,
        Self::SendRecv,
        Self::Gather,
        Self::Scatter,
        Self::AllToAllV,
        Self::Dispatch,
        Self::Combine,
        Self::Barrier,
    ];

    /// Those that NCCL runs as a collective, that is with a choice of algorithm.
    pub const COLLECTIVES: [Self; 5] =
        [Self::AllReduce, Self::AllGather, Self::ReduceScatter, Self::Broadcast, Self::Reduce];

    /// The name as nccl-tests spells it: `all_reduce`, `alltoall`, `sendrecv`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllToAll => "alltoall",
            Self::SendRecv => "sendrecv",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllToAllV => "alltoallv",
            Self::Dispatch => "dispatch",
            Self::Combine => "combine",
            Self::Barrier => "barrier",
        }
    }

    /// Whether it is made of sends and receives, without a choice of algorithm.
    #[must_use]
    pub const fn is_point_to_point(self) -> bool {
        matches!(
            self,
            Self::AllToAll
                | Self::AllToAllV
                | Self::SendRecv
                | Self::Gather
                | Self::Scatter
                | Self::Dispatch
                | Self::Combine
        )
    }

    /// Whether values are combined on the way.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Bytes that cross a rank's links per byte of the per-rank count (`ncclFuncTrafficPerByte`,
    /// `src/include/device.h`): 2 for all-reduce, the number of ranks for all-gather and reduce-scatter, 1 otherwise.
    #[must_use]
    pub const fn traffic_per_byte(self, ranks: u32) -> u64 {
        match self {
            Self::AllReduce => 2,
            Self::AllGather | Self::ReduceScatter => ranks as u64,
            _ => 1,
        }
    }

    /// Bytes of the whole call per byte of the per-rank count: what the selection model calls the size.
    #[must_use]
    pub const fn bytes_per_count(self, ranks: u32) -> u64 {
        match self {
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::AllToAllV | Self::Gather | Self::Scatter => {
                ranks as u64
            }
            _ => 1,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = UnknownName;

    /// The name in any case, with or without `_` and `-`, and the program names of nccl-tests (`all_reduce_perf`).
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let folded = fold(s);
        let stem = folded.strip_prefix("nccl").unwrap_or(&folded);
        let stem = stem.strip_suffix("perf").unwrap_or(stem);
        let operation = match stem {
            "a2a" => Some(Self::AllToAll),
            "p2p" => Some(Self::SendRecv),
            "bcast" => Some(Self::Broadcast),
            "ar" => Some(Self::AllReduce),
            "ag" => Some(Self::AllGather),
            "rs" => Some(Self::ReduceScatter),
            _ => Self::ALL.into_iter().find(|op| fold(op.name()) == stem),
        };
        operation.ok_or_else(|| UnknownName {
            what: "operation",
            seen: s.to_owned(),
            expected: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_read() {
        for (text, want) in [
            ("allreduce", Operation::AllReduce),
            ("all-reduce", Operation::AllReduce),
            ("AllReduce", Operation::AllReduce),
            ("all_reduce_perf", Operation::AllReduce),
            ("all_to_all", Operation::AllToAll),
            ("alltoall_perf", Operation::AllToAll),
            ("ncclReduceScatter", Operation::ReduceScatter),
            ("send_recv", Operation::SendRecv),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        assert!("allreduced".parse::<Operation>().is_err());
        for operation in Operation::ALL {
            assert_eq!(operation.to_string().parse(), Ok(operation));
        }
    }
}
