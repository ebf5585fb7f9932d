//! How many channels and threads a call gets, and which bytes go to which channel.

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::communicator::Communicator;
use super::knobs::Knob;
use super::protocol::Protocol;

const WARP: u32 = 32;
/// Threads of the largest block (`NCCL_MAX_NTHREADS`).
const MAX_THREADS: u32 = 640;
/// Least traffic that a channel is used for, bytes (`src/enqueue.cc`, `MinTrafficPerChannel`).
const MIN_TRAFFIC: u64 = 32 << 10;
/// Far above any buffer, and far enough below 2⁶⁴ for sums of cells.
const MAX_BYTES: u64 = 1 << 60;

/// Thread blocks of a call: one a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Most channels that the call may use.
    pub channels: u32,
    /// Threads of each channel's block.
    pub threads: u32,
}

/// Bytes per thread and channel below which fewer are used.
#[must_use]
pub fn threshold(algorithm: Algorithm, protocol: Protocol, ranks: u32) -> u64 {
    match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Ll) => 8 * u64::from(ranks),
        (_, Protocol::Ll | Protocol::Ll128) => 8,
        (Algorithm::CollNetDirect | Algorithm::CollNetChain, Protocol::Simple) => 512,
        (_, Protocol::Simple) => 64,
    }
}

/// Threads of a full block.
fn max_threads(comm: &Communicator, algorithm: Algorithm, protocol: Protocol) -> u32 {
    let knob = |knob| comm.knobs().number(knob).and_then(|n| u32::try_from(n).ok());
    let simple = match algorithm {
        Algorithm::Ring if comm.graphs().ring.total_intra() <= 12.0 => 256,
        Algorithm::Ring | Algorithm::Tree => 512,
        _ => MAX_THREADS,
    };
    match protocol {
        Protocol::Ll => knob(Knob::Nthreads).unwrap_or(512),
        Protocol::Ll128 => knob(Knob::Ll128Nthreads).unwrap_or(MAX_THREADS),
        Protocol::Simple => knob(Knob::Nthreads).unwrap_or(simple),
    }
}

/// Channels and threads for a call of `bytes` (the whole call, as in [`Communicator::predict_us`]).
#[must_use]
pub fn blocks(comm: &Communicator, algorithm: Algorithm, protocol: Protocol, bytes: u64) -> Blocks {
    let full = Blocks { channels: comm.channels(), threads: max_threads(comm, algorithm, protocol) };
    let least = threshold(algorithm, protocol, comm.ranks());
    match algorithm {
        Algorithm::Nvls | Algorithm::NvlsTree => Blocks { channels: comm.nvls().channels, threads: full.threads },
        Algorithm::CollNetDirect => {
            let heads = comm.graphs().collnet.map_or(1, |graph| graph.channels);
            Blocks { channels: collnet_channels(full, heads, least, bytes), threads: full.threads }
        }
        _ => reduce(full, algorithm, protocol, least, bytes),
    }
}

/// Fewer channels, then fewer threads, until each thread of each channel has `threshold` bytes.
pub(super) fn reduce(full: Blocks, algorithm: Algorithm, protocol: Protocol, threshold: u64, bytes: u64) -> Blocks {
    let Blocks { mut channels, mut threads } = full;
    let below = |channels: u32, threads: u32| bytes < u64::from(channels) * u64::from(threads) * threshold;
    while channels > 1 && below(channels, threads) {
        channels -= 1;
    }
    while threads.is_multiple_of(128) && below(channels, threads) {
        threads /= 2;
    }
    if algorithm == Algorithm::Ring && protocol == Protocol::Simple {
        threads += WARP;
    }
    let threads = match algorithm {
        Algorithm::Tree | Algorithm::Pat => MAX_THREADS,
        _ => threads.max(3 * WARP),
    };
    Blocks { channels, threads }
}

/// CollNet gives up channels in ever smaller groups, halving the threshold on the way.
fn collnet_channels(full: Blocks, heads: u32, threshold: u64, bytes: u64) -> u32 {
    let (mut channels, mut threshold) = (full.channels, threshold);
    let mut group = 16;
    while group >= 1 {
        let below = |channels: u32, threshold: u64| {
            bytes < u64::from(channels) * u64::from(full.threads) * u64::from(heads) * threshold
        };
        while channels > group && below(channels, threshold) {
            if channels == group + group / 2 {
                threshold /= 2;
            }
            channels -= 1;
        }
        if !below(channels, threshold) {
            break;
        }
        group /= 2;
    }
    channels
}

/// The bytes of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPart {
    /// The channel.
    pub channel: u32,
    /// First byte within the (per-rank) buffer.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// How a call's data lies on its channels: in order, without gaps, the first, the middle ones and the last of different
/// size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSplit {
    /// The first channel.
    pub first_channel: u32,
    /// Channels used; 0 for an empty call.
    pub channels: u32,
    /// Bytes on the first.
    pub first: u64,
    /// Bytes on each between the first and the last.
    pub middle: u64,
    /// Bytes on the last, if there are two or more.
    pub last: u64,
}

impl ChannelSplit {
    /// Bytes on channel `i` of the used ones, 0 beyond.
    #[must_use]
    pub const fn bytes(&self, i: u32) -> u64 {
        if i >= self.channels {
            0
        } else if i == 0 {
            self.first
        } else if i + 1 == self.channels {
            self.last
        } else {
            self.middle
        }
    }

    /// The parts in order.
    pub fn parts(&self) -> impl Iterator<Item = ChannelPart> + use<> {
        let split = *self;
        (0..split.channels).scan(0, move |offset, i| {
            let part = ChannelPart { channel: split.first_channel + i, offset: *offset, bytes: split.bytes(i) };
            *offset += part.bytes;
            Some(part)
        })
    }

    /// The sum over channels.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts().map(|part| part.bytes).sum()
    }
}

/// Divides one lone call over at most `channels` channels (`src/enqueue.cc`, `scheduleCollTasksToPlan`).
///
/// `bytes` is the per-rank count in bytes, `element` the bytes of one element, `traffic_per_byte` from
/// [`super::Operation::traffic_per_byte`].
///
/// ```
/// use sim_collectives::nccl::{split, Protocol};
/// let parts = split(1 << 20, 4, 2, Protocol::Ll, 24);
/// assert_eq!((parts.channels, parts.first, parts.middle, parts.last), (24, 45_056, 45_056, 12_288));
/// ```
#[must_use]
pub fn split(bytes: u64, element: u64, traffic_per_byte: u64, protocol: Protocol, channels: u32) -> ChannelSplit {
    let traffic = traffic(bytes, traffic_per_byte, protocol);
    ChannelCursor::new(traffic, channels).place(bytes, element, traffic_per_byte, protocol)
}

fn traffic(bytes: u64, traffic_per_byte: u64, protocol: Protocol) -> u64 {
    bytes.saturating_mul(weight(traffic_per_byte, protocol)).max(MIN_TRAFFIC)
}

/// LL counts four times.
fn weight(traffic_per_byte: u64, protocol: Protocol) -> u64 {
    traffic_per_byte.max(1).saturating_mul(if protocol == Protocol::Ll { 4 } else { 1 })
}

const fn ceil16(n: u64) -> u64 {
    n.div_ceil(16).saturating_mul(16)
}

/// Places the calls of one group one after the other: each continues on the channel where the one before ended, so that
/// several small calls use different channels.
#[derive(Clone, Copy, Debug)]
pub struct ChannelCursor {
    channels: u64,
    per_channel: u64,
    channel: u64,
    on_channel: u64,
}

impl ChannelCursor {
    /// A cursor for calls of `traffic` bytes in all (the sum over calls of bytes × traffic per byte, × 4 for LL, at
    /// least 32 KiB each) over `channels` channels.
    #[must_use]
    pub fn new(traffic: u64, channels: u32) -> Self {
        let channels = u64::from(channels.max(1));
        let per_channel = ceil16(traffic.max(MIN_TRAFFIC).div_ceil(channels));
        Self { channels, per_channel, channel: 0, on_channel: 0 }
    }

    /// Places the next call. A size above 2⁶⁰ bytes counts as 2⁶⁰.
    pub fn place(&mut self, bytes: u64, element: u64, traffic_per_byte: u64, protocol: Protocol) -> ChannelSplit {
        if bytes == 0 {
            return ChannelSplit { first_channel: self.channel as u32, ..ChannelSplit::default() };
        }
        let element = element.max(1);
        let bytes = bytes.min(MAX_BYTES);
        let weight = weight(traffic_per_byte, protocol);
        // A cell holds whole elements.
        let cell = ceil16(MIN_TRAFFIC.div_ceil(weight)).max(element) / element * element;
        let cell_traffic = cell.saturating_mul(weight);
        let cells = bytes.div_ceil(cell);
        let mut per_channel = cells.min(self.per_channel.div_ceil(cell_traffic));
        let mut low = if self.channel + 1 >= self.channels {
            cells
        } else {
            cells.min(self.per_channel.saturating_sub(self.on_channel).div_ceil(cell_traffic))
        };
        let rest = cells - low;
        let mut middle = rest / per_channel;
        let mut high = rest % per_channel;
        let used = u64::from(low != 0) + middle + u64::from(high != 0);
        if self.channels < self.channel + used {
            // More than there are: spread what is left evenly over the rest.
            middle = self.channels.saturating_sub(self.channel + 2);
            per_channel = rest / (middle + 1);
            high = per_channel + rest % (middle + 1);
        }
        if high == 0 && middle != 0 {
            high = per_channel;
            middle -= 1;
        }
        if low == 0 {
            // Nothing fits on this channel any more: begin on the next.
            self.channel += 1;
            self.on_channel = 0;
            if middle == 0 {
                (low, high) = (high, 0);
            } else {
                low = per_channel;
                middle -= 1;
            }
        }
        let excess = cells * cell - bytes;
        let (mut first, mut last) = (low * cell, high * cell);
        if high != 0 {
            last -= excess;
        } else {
            first -= excess;
        }
        let split = ChannelSplit {
            first_channel: self.channel as u32,
            channels: (1 + middle + u64::from(high != 0)) as u32,
            first,
            middle: if middle == 0 { 0 } else { per_channel * cell },
            last,
        };
        self.advance(&split, weight);
        split
    }

    fn advance(&mut self, split: &ChannelSplit, weight: u64) {
        let traffic = |bytes: u64| bytes.saturating_mul(weight);
        if split.channels > 1 {
            self.channel += u64::from(split.channels - 1);
            self.on_channel = traffic(split.last);
        } else {
            self.on_channel = self.on_channel.saturating_add(traffic(split.first));
        }
        if self.on_channel >= self.per_channel && self.channel + 1 < self.channels {
            self.channel += 1;
            self.on_channel = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_calls_of_a_group_use_different_channels() {
        let mut cursor = ChannelCursor::new(8 * MIN_TRAFFIC, 8);
        let channels: Vec<u32> = (0..8).map(|_| cursor.place(16 << 10, 4, 2, Protocol::Simple).first_channel).collect();
        assert_eq!(channels, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn an_absurd_size_does_not_overflow() {
        for protocol in Protocol::ALL {
            for (element, traffic) in [(1, 1), (8, u64::MAX), (u64::MAX, 2)] {
                let split = split(u64::MAX, element, traffic, protocol, 64);
                assert!(split.channels <= 64);
            }
        }
    }

    #[test]
    fn an_empty_call_uses_no_channel() {
        assert_eq!(split(0, 4, 2, Protocol::Simple, 24).channels, 0);
        assert_eq!(split(0, 4, 2, Protocol::Simple, 24).total(), 0);
    }

    #[test]
    fn the_channel_index_stays_within_the_count() {
        let mut cursor = ChannelCursor::new(MIN_TRAFFIC, 4);
        for _ in 0..20 {
            let split = cursor.place(1 << 20, 4, 2, Protocol::Simple);
            assert!(split.first_channel + split.channels <= 4, "{split:?}");
            assert_eq!(split.total(), 1 << 20);
        }
    }
}
