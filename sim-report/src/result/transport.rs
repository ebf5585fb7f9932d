//! Results of networks of packets.

use serde::{Deserialize, Serialize};

use super::FlowRow;

/// What a run says of its transport, where packets were played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransportResult {
    /// The preset that it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// `packets`.
    pub model: String,
    /// What keeps buffers from overflowing: `pfc`, `drop`, `credits`, `none`.
    pub flow_control: String,
    /// How senders slow down.
    pub rate_control: String,
    /// Units of several packets, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grain: Option<GrainResult>,
    /// All values in force.
    pub parameters: Vec<TransportParameter>,
    /// Sums over all simulations.
    pub totals: TransportTotals,
    /// Classes of packets, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// Ports where congestion began, up to 32 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// Flows that were held up by congestion that is not on their way, the longest held first, up to 32 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<VictimResult>,
    /// How many there were.
    #[serde(default)]
    pub victims_total: u64,
    /// The queue pairs that took longest from their first byte to the last one's arrival, up to 32 of them; all are in the file
    /// flows.csv of `--out`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest_flows: Vec<FlowRow>,
    /// How many queue pairs there were, counted once for each flow that they served.
    #[serde(default)]
    pub flows_total: u64,
    /// Ports that wait for each other in a circle, where the run ended so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlock: Vec<String>,
}

/// Units of several packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrainResult {
    /// The most packets that moved as one; where it was left to the simulator, until something was in the way.
    pub packets: u32,
    /// Why.
    pub why: String,
}

/// A class of packets, summed over links and simulations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its name.
    pub class: String,
    /// Classes of a higher priority go first.
    pub priority: u8,
    /// Share among classes of one priority.
    pub weight: u16,
    /// Whether it is held rather than dropped.
    pub lossless: bool,
    /// Lanes.
    pub lanes: u8,
    /// Hops of packets that queued.
    pub hops: u64,
    /// Their wire bytes, counted on every link.
    pub wire_bytes: u64,
    /// The deepest queue.
    pub peak_queue_bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Pauses of ports.
    pub pauses: u64,
    /// Time that ports were paused, or lacked credits, summed.
    pub held_us: f64,
}

/// A flow that was held up by congestion elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VictimResult {
    /// The NIC that sent.
    pub from: String,
    /// The NIC that received.
    pub to: String,
    /// Time that ports of its route were held while it had something on its way.
    pub held_us: f64,
    /// That over the time that it had something on its way.
    pub share: f64,
    /// The port where the congestion began, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

/// A value in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportParameter {
    /// Its key under `[transport]`, `ecn.kmin`.
    pub name: String,
    /// The value with its unit.
    pub value: String,
    /// Who says so: `scenario`, `preset roce-400g`, `default`.
    pub origin: String,
    /// How well that is founded, for values of built-in presets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// Where the value of a built-in preset comes from, by the catalogue's ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// Sums over a network of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransportTotals {
    /// Hops of data packets.
    pub data_hops: u64,
    /// Hops of acknowledgements, notices and the like.
    pub control_hops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Notices (CNP, BECN) and echoed marks that senders took in.
    pub notices: u64,
    /// Pauses that switches asked for.
    pub pauses: u64,
    /// Time that ports were held by pauses, summed.
    pub pause_us: f64,
    /// Time that ports lacked credits, summed.
    pub credit_stall_us: f64,
    /// Packets dropped for lack of room, of traffic that may be dropped.
    pub drops: u64,
    /// Packets dropped of traffic that may not: headroom was too small.
    pub headroom_drops: u64,
    /// Packets dropped by the watchdog.
    pub watchdog_drops: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Timeouts of senders.
    pub timeouts: u64,
    /// The most bytes that an input of a switch held.
    pub ingress_peak_bytes: u64,
    /// The most bytes of an input's headroom that were used.
    pub headroom_peak_bytes: u64,
}

impl TransportTotals {
    /// Adds another simulation's.
    pub fn add(&mut self, other: &Self) {
        self.data_hops += other.data_hops;
        self.control_hops += other.control_hops;
        self.marks += other.marks;
        self.notices += other.notices;
        self.pauses += other.pauses;
        self.pause_us += other.pause_us;
        self.credit_stall_us += other.credit_stall_us;
        self.drops += other.drops;
        self.headroom_drops += other.headroom_drops;
        self.watchdog_drops += other.watchdog_drops;
        self.lost += other.lost;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.ingress_peak_bytes = self.ingress_peak_bytes.max(other.ingress_peak_bytes);
        self.headroom_peak_bytes = self.headroom_peak_bytes.max(other.headroom_peak_bytes);
    }
}
