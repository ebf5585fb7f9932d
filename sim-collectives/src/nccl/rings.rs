//! How a ring walks over the data of one channel (`src/device/all_reduce.h`, `src/device/prims_simple.h`).

use serde::{Deserialize, Serialize};

use super::chunks::Chunking;

/// The loops of a ring all-reduce over the data of one channel. All but the last handle `ranks` full chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingLoops {
    /// Loops; 0 without data.
    pub loops: u64,
    /// Bytes of a full chunk.
    pub chunk: u64,
    /// Bytes of a chunk of the last loop, a multiple of 16; its final chunks may be partly or wholly empty.
    pub last_chunk: u64,
    /// Bytes that the last loop covers.
    pub last_bytes: u64,
    /// Ranks of the ring.
    pub ranks: u32,
}

impl RingLoops {
    /// Transfers of one rank: 2 (ranks − 1) per loop.
    #[must_use]
    pub const fn transfers(&self) -> u64 {
        2 * (self.ranks as u64).saturating_sub(1) * self.loops
    }

    /// Bytes of chunk `i` of loop `l`, 0 where there is nothing left.
    #[must_use]
    pub const fn chunk_bytes(&self, l: u64, i: u32) -> u64 {
        if l + 1 < self.loops {
            return self.chunk;
        }
        if l >= self.loops {
            return 0;
        }
        let before = self.last_chunk.saturating_mul(i as u64);
        let left = self.last_bytes.saturating_sub(before);
        if left < self.last_chunk { left } else { self.last_chunk }
    }
}

/// The loops of a ring all-reduce of `bytes` on one channel: pieces of `ranks` × `chunk`, the last in chunks of
/// ceil16(rest / ranks).
#[must_use]
pub const fn ring_loops(bytes: u64, chunk: u64, ranks: u32) -> RingLoops {
    let chunk = if chunk == 0 { 1 } else { chunk };
    let n = if ranks == 0 { 1 } else { ranks as u64 };
    let piece = chunk.saturating_mul(n);
    let loops = bytes.div_ceil(piece);
    let last_bytes = if loops == 0 { 0 } else { bytes - (loops - 1) * piece };
    let even = last_bytes.div_ceil(n).div_ceil(16) * 16;
    let last_chunk = if even < chunk { even } else { chunk };
    RingLoops { loops, chunk, last_chunk, last_bytes, ranks: n as u32 }
}

/// The slices of a chunk that holds `bytes`: of max(half the chunk rounded up to 16 B, a 32nd of a full slice) until
/// the data ends. Every chunk sends all its slices, so the rest are empty; each takes its slots however full it is.
///
/// ```
/// use sim_collectives::nccl::{Chunking, slices_of_chunk};
/// let ring = Chunking { chunk: 2 << 20, slices: 2, slice: 1 << 20, min_slice: 32 << 10, slice_steps: 2, steps: 8 };
/// assert_eq!(slices_of_chunk(2 << 20, &ring), [1 << 20, 1 << 20]);
/// assert_eq!(slices_of_chunk(40_000, &ring), [32_768, 7_232]);
/// assert_eq!(slices_of_chunk(1_000, &ring), [1_000, 0]);
/// ```
#[must_use]
pub fn slices_of_chunk(bytes: u64, chunking: &Chunking) -> Vec<u64> {
    let slices = u64::from(chunking.slices.max(1));
    let even = bytes.div_ceil(slices).div_ceil(16) * 16;
    let slice = even.max(if slices > 1 { chunking.min_slice } else { 0 });
    (0..slices).map(|i| bytes.saturating_sub(i * slice).min(slice)).collect()
}
