//! What nccl-tests counts and prints (its `src/*.cu` and `doc/PERFORMANCE.md`).

use serde::{Deserialize, Serialize};

use super::operation::Operation;

/// busbw over algbw: 2(n − 1)/n for all-reduce, (n − 1)/n for the operations over parts, 1 otherwise.
#[must_use]
pub fn bus_factor(operation: Operation, ranks: u32) -> f64 {
    let n = f64::from(ranks.max(1));
    match operation {
        Operation::AllReduce => 2.0 * (n - 1.0) / n,
        Operation::AllGather
        | Operation::ReduceScatter
        | Operation::AllToAll
        | Operation::AllToAllV
        | Operation::Gather
        | Operation::Scatter => (n - 1.0) / n,
        Operation::Broadcast
        | Operation::Reduce
        | Operation::SendRecv
        | Operation::Dispatch
        | Operation::Combine
        | Operation::Barrier => 1.0,
    }
}

/// algbw, GB/s: the printed size over the time of one operation.
#[must_use]
pub fn algorithm_bandwidth(bytes: u64, time_us: f64) -> f64 {
    bytes as f64 / (time_us * 1000.0)
}

/// busbw, GB/s.
#[must_use]
pub fn bus_bandwidth(operation: Operation, ranks: u32, bytes: u64, time_us: f64) -> f64 {
    algorithm_bandwidth(bytes, time_us) * bus_factor(operation, ranks)
}

/// What a size that was asked for becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCount {
    /// Elements per rank (per peer, for the operations over parts).
    pub count: u64,
    /// The size that is printed, bytes.
    pub bytes: u64,
}

/// The count of a row of nccl-tests: where a buffer is divided among ranks, the share is trimmed to a multiple of 16
/// bytes (since late 2024), so the printed size can be smaller than asked, even 0.
#[must_use]
pub const fn test_count(operation: Operation, bytes: u64, element: u64, ranks: u32) -> TestCount {
    let element = if element == 0 { 1 } else { element };
    let ranks = if ranks == 0 { 1 } else { ranks as u64 };
    let elements = bytes / element;
    if operation.bytes_per_count(2) == 1 {
        return TestCount { count: elements, bytes: elements * element };
    }
    let grain = if element >= 16 { 1 } else { 16 / element };
    let count = elements / ranks / grain * grain;
    TestCount { count, bytes: count * element * ranks }
}
