//! Operations as nccl-tests spells them, and its bandwidth arithmetic: algbw, busbw and the trimming of counts.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use sim_core::units::Bytes;

/// An operation that nccl-tests can time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Every rank ends with the reduction of all buffers.
    AllReduce,
    /// Every rank ends with the concatenation of all buffers.
    AllGather,
    /// Every rank ends with its part of the reduction.
    ReduceScatter,
    /// Every rank sends a different block to every rank.
    #[serde(rename = "alltoall")]
    AllToAll,
    /// All-to-all with unequal blocks.
    #[serde(rename = "alltoallv")]
    AllToAllV,
    /// One rank's buffer goes to all.
    Broadcast,
    /// All buffers are reduced to one rank.
    Reduce,
    /// All buffers are concatenated at one rank.
    Gather,
    /// One rank's buffer is split over all.
    Scatter,
    /// Every rank sends to its right neighbour.
    #[serde(rename = "sendrecv")]
    SendRecv,
    /// All-gather by recursive doubling with send and receive.
    #[serde(rename = "hypercube")]
    Hypercube,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 11] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::AllToAllV,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::SendRecv,
        Self::Hypercube,
    ];

    /// The name in scenarios, results and nccl-tests program names (without `_perf`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "alltoall",
            Self::AllToAllV => "alltoallv",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::SendRecv => "sendrecv",
            Self::Hypercube => "hypercube",
        }
    }

    /// busbw / algbw on `ranks` ranks: what turns the rate of the operation into a rate comparable with a link's.
    ///
    /// Zero on one rank for the operations that then move nothing.
    #[must_use]
    pub fn busbw_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::AllToAllV | Self::Gather | Self::Scatter => {
                (n - 1.0) / n
            }
            Self::Broadcast | Self::Reduce | Self::SendRecv | Self::Hypercube => 1.0,
        }
    }

    /// True where the size column is the sum of one block per rank, so that the per-rank count is size / ranks.
    #[must_use]
    pub const fn divides_size(self) -> bool {
        !matches!(self, Self::AllReduce | Self::Broadcast | Self::Reduce | Self::SendRecv)
    }

    /// algbw and busbw in GB/s of an operation of printed size `bytes` on `ranks` ranks that took `time_us` µs.
    /// Both are zero for a time of zero or less.
    ///
    /// ```
    /// # use sim_report::metrics::Operation;
    /// # use sim_core::units::Bytes;
    /// let (algbw, busbw) = Operation::AllReduce.bandwidths(Bytes::gib(1), 3972.58, 8);
    /// assert!((algbw - 270.288282).abs() < 1e-6 && (busbw - 473.004494).abs() < 1e-6);
    /// ```
    #[must_use]
    pub fn bandwidths(self, bytes: Bytes, time_us: f64, ranks: u32) -> (f64, f64) {
        if time_us.is_nan() || time_us <= 0.0 {
            return (0.0, 0.0);
        }
        let n = f64::from(ranks.max(1));
        let moved = match self {
            Self::Hypercube => bytes.get() as f64 * (n - 1.0) / n,
            _ => bytes.get() as f64,
        };
        let algbw = moved / time_us / 1e3;
        (algbw, algbw * self.busbw_factor(ranks))
    }

    /// What nccl-tests makes of a requested size: the per-rank element count and the size it prints.
    ///
    /// Counts of operations that divide the size are cut to multiples of 16 bytes (since the end of 2024), so the
    /// printed size can be smaller than asked, even zero. An element size of zero counts as one byte.
    #[must_use]
    pub fn trim(self, requested: Bytes, element_bytes: u64, ranks: u32) -> Trimmed {
        let element = element_bytes.max(1);
        let elements = requested.get() / element;
        if !self.divides_size() {
            return Trimmed { count: elements, bytes: Bytes::new(elements * element) };
        }
        let ranks = u64::from(ranks.max(1));
        let per_rank = elements / ranks;
        let count = per_rank - per_rank % (16 / element).max(1);
        Trimmed { count, bytes: Bytes::new(count * element * ranks) }
    }
}

/// Element count and size of a row after nccl-tests' trimming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Elements in the per-rank argument (the "count" column).
    pub count: u64,
    /// The printed size in bytes.
    pub bytes: Bytes,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No such operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown operation `{text}`; expected one of all_reduce, all_gather, reduce_scatter, alltoall, alltoallv, broadcast, reduce, gather, scatter, sendrecv, hypercube"
)]
pub struct UnknownOperation {
    /// What was given, shortened.
    pub text: String,
    /// The most similar known name.
    pub hint: Option<&'static str>,
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    /// Accepts nccl-tests' spelling, other common ones (`AllReduce`, `all-reduce`, `a2a`), and program names
    /// (`all_reduce_perf_mpi`), in any case.
    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let mut key: String = text.trim().to_ascii_lowercase().chars().filter(|c| !"_- ".contains(*c)).collect();
        for suffix in ["mpi", "perf"] {
            if let Some(stem) = key.strip_suffix(suffix) {
                key.truncate(stem.len());
            }
        }
        Ok(match key.as_str() {
            "allreduce" | "ar" => Self::AllReduce,
            "allgather" | "ag" => Self::AllGather,
            "reducescatter" | "rs" => Self::ReduceScatter,
            "alltoall" | "all2all" | "a2a" => Self::AllToAll,
            "alltoallv" | "all2allv" | "a2av" => Self::AllToAllV,
            "broadcast" | "bcast" => Self::Broadcast,
            "reduce" => Self::Reduce,
            "gather" => Self::Gather,
            "scatter" => Self::Scatter,
            "sendrecv" | "p2p" => Self::SendRecv,
            "hypercube" => Self::Hypercube,
            _ => {
                let hint = Self::ALL
                    .iter()
                    .map(|op| (strsim::damerau_levenshtein(&key, &op.name().replace('_', "")), op.name()))
                    .min()
                    .filter(|(distance, _)| *distance <= 3)
                    .map(|(_, name)| name);
                let text = text.chars().take(40).collect();
                return Err(UnknownOperation { text, hint });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_as_nccl_tests_prints_them() {
        for (op, ranks, bytes, time, algbw, busbw) in [
            (Operation::AllReduce, 8, 1 << 30, 3972.58, 270.288282, 473.004494),
            (Operation::AllGather, 16, 1 << 30, 3000.0, 357.913941, 335.54432),
            (Operation::AllToAll, 16, 1 << 28, 5500.0, 48.806447, 45.756044),
            (Operation::SendRecv, 2, 1 << 27, 2800.0, 47.934903, 47.934903),
            (Operation::Broadcast, 8, 1 << 27, 400.0, 335.54432, 335.54432),
        ] {
            let (a, b) = op.bandwidths(Bytes::new(bytes), time, ranks);
            assert!((a / algbw - 1.0).abs() < 1e-6, "{op} algbw {a}");
            assert!((b / busbw - 1.0).abs() < 1e-6, "{op} busbw {b}");
        }
        assert_eq!(Operation::AllReduce.bandwidths(Bytes::new(8), 0.0, 8), (0.0, 0.0));
    }

    #[test]
    fn counts_are_cut_to_sixteen_bytes() {
        for op in [Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll, Operation::Scatter] {
            for (asked, element, ranks, count, printed) in [
                (8, 4, 8, 0, 0),
                (1024, 4, 6, 40, 960),
                (1 << 20, 2, 24, 21_840, 1_048_320),
                (1 << 25, 4, 16, 524_288, 1 << 25),
            ] {
                let trimmed = op.trim(Bytes::new(asked), element, ranks);
                assert_eq!(trimmed, Trimmed { count, bytes: Bytes::new(printed) }, "{op} {asked}");
            }
        }
        assert_eq!(Operation::AllReduce.trim(Bytes::new(53_687_091), 2, 8).bytes, Bytes::new(53_687_090));
    }

    #[test]
    fn spellings() {
        for op in Operation::ALL {
            assert_eq!(op.name().parse(), Ok(op));
            assert_eq!(format!("{}_perf", op.name()).parse(), Ok(op));
            assert_eq!(serde_json::to_value(op).unwrap(), op.name());
        }
        for text in ["AllReduce", "all-reduce", "ALL_REDUCE_PERF_MPI"] {
            assert_eq!(text.parse(), Ok(Operation::AllReduce));
        }
        assert_eq!("all_redcue".parse::<Operation>().unwrap_err().hint, Some("all_reduce"));
        assert_eq!("xyzzyxyzzy".parse::<Operation>().unwrap_err().hint, None);
    }
}
