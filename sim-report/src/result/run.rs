//! Results of `bench` and `run`.

use serde::{Deserialize, Serialize};

use super::{
    BesideStep, BestResult, DesignResult, FaultResult, HealthyResult, InferenceResult, LongRunResult, ParameterResult,
    SeedsResult, SeriesResult, StepResult, TransportResult,
};

/// How many links [`RunResults::set_links`] lists at most.
pub const MAX_LINKS: usize = 10_000;

/// How many transfers [`RunResults::set_transfers`] lists at most.
pub const MAX_TRANSFERS: usize = 10_000;

/// What `bench` and `run` answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResults {
    /// One entry a timed collective.
    pub collectives: Vec<CollectiveResult>,
    /// All transfers in order up to [`MAX_TRANSFERS`], or the slowest of them.
    pub transfers: Vec<TransferResult>,
    /// Sums over all transfers, listed or not.
    pub transfer_totals: TransferTotals,
    /// How each size's algorithm was chosen, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explain: Vec<ExplainResult>,
    /// The best of all ways to run each size, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub best: Vec<BestResult>,
    /// Where the workload is a training step; of several the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepResult>,
    /// The steps after the first, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_steps: Vec<StepResult>,
    /// Where workloads are inference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inference: Vec<InferenceResult>,
    /// Where workloads are long runs that fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_runs: Vec<LongRunResult>,
    /// Transfers beside steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside_steps: Vec<BesideStep>,
    /// All links up to [`MAX_LINKS`], or the busiest of them, in order of name or of utilization.
    pub links: Vec<LinkResult>,
    /// Sums over all links, listed or not.
    pub link_totals: LinkTotals,
    /// How the packets of the network fared; absent where links are virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportResult>,
    /// Queues and rates over time, where that was asked for: at most 1,000 instants, 16 links and 16 queue pairs of a simulation, and
    /// 16 simulations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesResult>,
    /// The designs of the scenario side by side, where it has several; all else is of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub designs: Vec<DesignResult>,
    /// Times over several seeds, where that was asked for; all else is of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<SeedsResult>,
    /// The timing parameters that the times of collectives rest on, with their origins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterResult>,
    /// Which data of the collectives stop over in host memory, and why; absent where none do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through_host: Vec<String>,
    /// What is broken; absent for a healthy fabric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultResult>,
    /// The same work without the faults, where that was short enough to be played too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<HealthyResult>,
    /// What the event loop did.
    pub engine: EngineResult,
}

impl RunResults {
    /// Lists `links` (all if there are at most [`MAX_LINKS`], else the busiest, ties by name) and sums over all.
    pub fn set_links(&mut self, mut links: Vec<LinkResult>) {
        self.link_totals = LinkTotals {
            links: links.len() as u64,
            bytes: links.iter().map(|l| l.bytes).sum(),
            ecn_marked: links.iter().map(|l| l.ecn_marked).sum(),
            pfc_pause_us: links.iter().map(|l| l.pfc_pause_us).sum(),
            drops: links.iter().map(|l| l.drops).sum(),
        };
        if links.len() > MAX_LINKS {
            links.sort_by(|a, b| b.utilization.total_cmp(&a.utilization).then_with(|| a.link.cmp(&b.link)));
            links.truncate(MAX_LINKS);
        }
        self.links = links;
    }

    /// Lists `transfers` (all if there are at most [`MAX_TRANSFERS`], else those that took longest, ties in order) and
    /// sums over all.
    pub fn set_transfers(&mut self, mut transfers: Vec<TransferResult>) {
        self.transfer_totals = TransferTotals {
            transfers: transfers.len() as u64,
            bytes: transfers.iter().map(|t| t.bytes).sum(),
            longest_us: transfers.iter().map(|t| t.time_us).fold(0.0, f64::max),
        };
        if transfers.len() > MAX_TRANSFERS {
            transfers.sort_by(|a, b| b.time_us.total_cmp(&a.time_us));
            transfers.truncate(MAX_TRANSFERS);
        }
        self.transfers = transfers;
    }
}

/// Sums over all transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferTotals {
    /// Number of transfers.
    pub transfers: u64,
    /// Payload.
    pub bytes: u64,
    /// The longest time of one.
    pub longest_us: f64,
}

/// How the algorithm of one size was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainResult {
    /// The operation as nccl-tests spells it.
    pub op: String,
    /// Size as nccl-tests prints it.
    pub bytes: u64,
    /// The algorithm that runs.
    pub algorithm: String,
    /// The protocol that runs.
    pub protocol: String,
    /// Channels that carry data, of those of the communicator.
    pub channels: u32,
    /// Channels of the communicator for this algorithm.
    pub most_channels: u32,
    /// Threads of a channel's block.
    pub threads: u32,
    /// Bytes of a chunk, and the slices that it is cut in; absent for sends and receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// Slices of a chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// Where the channels come from, if not from the modelled search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels_from: Option<String>,
    /// All combinations, the one that NCCL predicts to be fastest first.
    pub candidates: Vec<CandidateResult>,
}

/// One combination of algorithm and protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateResult {
    /// Algorithm.
    pub algorithm: String,
    /// Protocol.
    pub protocol: String,
    /// The time that NCCL's own selection model predicts (not the simulated one), if it is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<f64>,
    /// The simulated time, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_us: Option<f64>,
    /// Channels that carry data, where it was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Why it is not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is the one that runs.
    pub chosen: bool,
}

/// A collective at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveResult {
    /// The operation as nccl-tests spells it.
    pub op: String,
    /// Size as nccl-tests prints it.
    pub bytes: u64,
    /// Algorithm (`ring`, `tree`, `nvls` …).
    pub algorithm: String,
    /// Protocol (`LL`, `LL128`, `Simple`).
    pub protocol: String,
    /// Channels in use.
    pub channels: u32,
    /// Time of one operation, mean over the ranks.
    pub time_us: f64,
    /// bytes / time.
    #[serde(rename = "algbw_GBps")]
    pub algbw: f64,
    /// algbw times the operation's bus factor.
    #[serde(rename = "busbw_GBps")]
    pub busbw: f64,
    /// What bounds it, in words, with the link's name.
    pub bottleneck: String,
    /// Lower end of the time's 90 % interval, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_us: Option<f64>,
    /// Upper end of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_us: Option<f64>,
    /// Type and operator of the elements, where a run has several: `float sum`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A transfer between two devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// Sending device.
    pub src: String,
    /// Receiving device.
    pub dst: String,
    /// Payload.
    pub bytes: u64,
    /// When the first byte was ready.
    pub start_us: f64,
    /// From then to the arrival of the last byte.
    pub time_us: f64,
    /// Payload over time.
    #[serde(rename = "GBps")]
    pub rate: f64,
    /// From the start until the sender knew that all had arrived, where packets were played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_us: Option<f64>,
    /// Packets sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted: Option<u64>,
    /// Packets that arrived marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<u64>,
    /// The name of its workload, where several were played at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
}

/// One direction of a link over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// `from→to`.
    pub link: String,
    /// Class (`nvlink`, `pcie`, `network` …).
    pub class: String,
    /// Payload bytes carried.
    pub bytes: u64,
    /// Busy time over the run's time, 0..1.
    pub utilization: f64,
    /// Deepest queue; absent where messages were taken from what was known, and no queue was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_queue_bytes: Option<u64>,
    /// Packets marked.
    pub ecn_marked: u64,
    /// Time that it was paused.
    pub pfc_pause_us: f64,
    /// Packets dropped.
    pub drops: u64,
    /// The queue's mean over the run's time, where packets were played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_queue_bytes: Option<f64>,
    /// How often it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_pauses: Option<u64>,
    /// Time that it lacked credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_stall_us: Option<f64>,
    /// The depth that the queue was below for 99 % of the time, to a power of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_queue_bytes: Option<u64>,
    /// Pauses that its far end asked it for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_sent: Option<u64>,
    /// How long these lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_sent_us: Option<f64>,
    /// Most bytes of it in the buffer at its far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_peak_bytes: Option<u64>,
    /// Most of these that lay in headroom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom_peak_bytes: Option<u64>,
    /// Notices of congestion (CNP, BECN) that set out here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cnps: Option<u64>,
    /// Packets that had been sent before, each time that one left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted: Option<u64>,
    /// Time in ns at a depth below 64 B, below 128 B, and so on by octaves, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_histogram_ns: Option<Vec<u64>>,
    /// Its classes of packets one by one, where there are several; the most urgent need not come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<LinkClassResult>,
}

/// What a link did for one class of packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkClassResult {
    /// The class's name.
    pub class: String,
    /// The lane, from 0 on, where a class has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u8>,
    /// Wire bytes sent of packets that have queued.
    pub wire_bytes: u64,
    /// Those packets.
    pub packets: u64,
    /// Deepest queue, wire bytes.
    pub peak_queue_bytes: u64,
    /// Packets marked.
    pub ecn_marked: u64,
    /// Packets dropped.
    pub drops: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// Time that it was paused, or lacked credits.
    pub held_us: f64,
}

/// Sums over all links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTotals {
    /// Number of links (directions).
    pub links: u64,
    /// Payload bytes carried, counted on every link they cross.
    pub bytes: u64,
    /// Packets marked.
    pub ecn_marked: u64,
    /// Time paused, summed.
    pub pfc_pause_us: f64,
    /// Packets dropped.
    pub drops: u64,
}

/// What the event loop did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineResult {
    /// Events handled.
    pub events: u64,
    /// Physical links traversed by segments, however they were batched.
    pub segment_hops: u64,
    /// What of these was not played, because it came again exactly.
    #[serde(default)]
    pub fast_forwarded: FastForwarded,
    /// Wall-clock time of the event loop alone: the only field that differs from run to run.
    pub wall_s: f64,
    /// Most events that were pending at once.
    #[serde(default)]
    pub peak_pending: u64,
    /// Simulated time at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_us: Option<f64>,
    /// Why it stopped (`finished`, `deadlock`, `event_limit` …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Rolling hash of the trajectory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// Periods of a pipeline that came again exactly and were counted instead of played. They are in all other figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastForwarded {
    /// Periods.
    pub periods: u64,
    /// Events in them.
    pub events: u64,
    /// Segment-hops in them.
    pub segment_hops: u64,
}
