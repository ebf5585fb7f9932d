//! The typed data of each kind of catalogue row.

use serde::{Deserialize, Deserializer};
use sim_core::units::{Bytes, Rate, Span};

use crate::fabric::TransportKind;
use crate::node::NodeSpec;

fn gbyte<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
    f64::deserialize(d).map(Rate::from_gbyte_f64)
}

pub(super) fn gbyte_opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
    Option::<f64>::deserialize(d).map(|v| v.map(Rate::from_gbyte_f64))
}

pub(super) fn gbit<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
    f64::deserialize(d).map(|v| Rate::from_gbyte_f64(v / 8.0))
}

fn ns_opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Span>, D::Error> {
    Option::<f64>::deserialize(d).map(|v| v.map(|v| Span::from_us_f64(v / 1e3)))
}

pub(super) fn ns<'de, D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
    f64::deserialize(d).map(|v| Span::from_us_f64(v / 1e3))
}

pub(super) fn us<'de, D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
    f64::deserialize(d).map(Span::from_us_f64)
}

pub(super) fn us_opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Span>, D::Error> {
    Option::<f64>::deserialize(d).map(|v| v.map(Span::from_us_f64))
}

pub(super) fn gbit_opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
    Option::<f64>::deserialize(d).map(|v| v.map(|v| Rate::from_gbyte_f64(v / 8.0)))
}

fn bytes_opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Bytes>, D::Error> {
    Option::<u64>::deserialize(d).map(|v| v.map(Bytes::new))
}

fn bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
    u64::deserialize(d).map(Bytes::new)
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// The maker: `NVIDIA`, `AMD`.
    pub vendor: Option<String>,
    /// The architecture's name: `Hopper`.
    pub architecture: String,
    /// The form of the board: `SXM5`, `PCIe`, `OAM`.
    pub form: Option<String>,
    /// Compute capability times ten, as NCCL counts it: 90 for Hopper. 0 for what is not NVIDIA's.
    #[serde(default)]
    pub sm: u32,
    /// The target name of an AMD GPU: `gfx942`.
    pub gcn: Option<String>,
    /// The kind of memory: `HBM3`.
    pub memory_type: Option<String>,
    /// Memory in vendor gigabytes.
    pub memory_gb: f64,
    /// Peak rate of the memory interface (reads and writes together).
    #[serde(rename = "memory_GBps", deserialize_with = "gbyte")]
    pub memory_rate: Rate,
    /// Dense TF32 matrix rate in TFLOP/s.
    pub tf32_tflops: Option<f64>,
    /// Dense BF16 matrix rate in TFLOP/s.
    pub bf16_tflops: Option<f64>,
    /// Dense 16-bit matrix rate in TFLOP/s.
    pub fp16_tflops: Option<f64>,
    /// Dense 8-bit floating-point rate in TFLOP/s.
    pub fp8_tflops: Option<f64>,
    /// Dense 4-bit floating-point rate in TFLOP/s.
    pub fp4_tflops: Option<f64>,
    /// NVLink generation, if it has NVLinks.
    pub nvlink_gen: Option<u32>,
    /// Number of NVLinks, or of links between GPUs of another make.
    #[serde(default)]
    pub nvlinks: u32,
    /// The kind of its links by the name of its row, where the generation does not tell: xGMI, the NVLink of GA102.
    pub link: Option<String>,
    /// Chip-to-chip rate to its CPU, one direction.
    #[serde(default, rename = "c2c_GBps", deserialize_with = "gbyte_opt")]
    pub c2c_rate: Option<Rate>,
    /// PCIe generation.
    pub pcie_gen: u32,
    /// PCIe lanes.
    pub pcie_lanes: u32,
    /// Board power in watts.
    pub power_w: Option<f64>,
    /// Street price in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}

/// A generation of NVLink, or another kind of link between GPUs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvlink {
    /// The generation; 0 for what is not NVLink.
    pub generation: u32,
    /// Lanes of one link, one direction.
    pub lanes: Option<u32>,
    /// Links of one GPU that has them all.
    pub links_per_gpu: Option<u32>,
    /// Net data rate of one link, one direction.
    #[serde(rename = "link_GBps", deserialize_with = "gbyte")]
    pub link_rate: Rate,
    /// Signalling rate of one link, one direction, as `nvidia-smi nvlink -s` prints it.
    #[serde(default, rename = "raw_link_GBps", deserialize_with = "gbyte_opt")]
    pub raw_link_rate: Option<Rate>,
    /// Payload of a full packet.
    #[serde(rename = "payload_bytes", deserialize_with = "bytes")]
    pub payload: Bytes,
    /// Header of a packet.
    #[serde(rename = "header_bytes", deserialize_with = "bytes")]
    pub header: Bytes,
}

/// An NVSwitch chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvSwitch {
    /// The NVLink generation of its ports.
    pub nvlink_gen: u32,
    /// Ports of one NVLink each; 0 if the number was not found.
    #[serde(default)]
    pub ports: u32,
    /// How it forwards: `cut-through`.
    pub forwarding: Option<String>,
    /// Whether it reduces and multicasts (NVLink SHARP, used by NVLS).
    pub in_switch_reduction: bool,
}

/// A generation of PCIe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// The generation.
    pub generation: u32,
    /// Signalling rate of a lane in GT/s.
    pub gt_per_lane: f64,
    /// The line code.
    pub encoding: String,
    /// The modulation: `NRZ`, `PAM4`.
    pub modulation: Option<String>,
    /// Net data rate of one lane, one direction, after the line code and, in FLITs, after all that is no TLP.
    #[serde(rename = "lane_GBps", deserialize_with = "gbyte")]
    pub lane_rate: Rate,
    /// Bytes of a posted write beyond its payload.
    #[serde(rename = "tlp_overhead_bytes", deserialize_with = "bytes")]
    pub tlp_overhead: Bytes,
    /// Bytes of a completion (the answer to a read) beyond its payload.
    pub completion_overhead_bytes: Option<u64>,
}

impl Pcie {
    /// The rate of `lanes` lanes, one direction, net of line coding.
    #[must_use]
    pub fn rate(&self, lanes: u32) -> Rate {
        Rate::bytes_per_sec(self.lane_rate.get().saturating_mul(u64::from(lanes)))
    }

    /// What is left of a rate for posted writes of `payload` bytes each, before link-layer packets.
    #[must_use]
    pub fn write_share(&self, payload: Bytes) -> f64 {
        share(payload, self.tlp_overhead)
    }
}

/// The payload's share of a packet.
fn share(payload: Bytes, overhead: Bytes) -> f64 {
    let (payload, overhead) = (payload.get() as f64, overhead.get() as f64);
    if payload > 0.0 { payload / (payload + overhead) } else { 0.0 }
}

/// A link between a GPU and its CPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct C2c {
    /// Net data rate, one direction.
    #[serde(rename = "link_GBps", deserialize_with = "gbyte")]
    pub link_rate: Rate,
    /// Payload of a full packet.
    #[serde(rename = "payload_bytes", deserialize_with = "bytes")]
    pub payload: Bytes,
    /// Header of a packet.
    #[serde(rename = "header_bytes", deserialize_with = "bytes")]
    pub header: Bytes,
}

/// A link between CPU sockets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketLink {
    /// Signalling rate of a lane in GT/s.
    pub gt_per_lane: Option<f64>,
    /// Lanes of one link.
    pub lanes: Option<u32>,
    /// Signalling rate of one link, one direction.
    #[serde(default, rename = "raw_link_GBps", deserialize_with = "gbyte_opt")]
    pub raw_link_rate: Option<Rate>,
    /// Net data rate of one link, one direction.
    #[serde(rename = "link_GBps", deserialize_with = "gbyte")]
    pub link_rate: Rate,
    /// Header of a line of 64 B of peer traffic.
    #[serde(default, rename = "peer_header_bytes", deserialize_with = "bytes")]
    pub peer_header: Bytes,
    /// How many run in parallel between two sockets, as built: `3-4`.
    pub links_typical: Option<String>,
}

/// What the root complex of a CPU does to traffic that passes through it. An absent limit is none.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Payload of the packets in which peer traffic leaves a root port, if it is split.
    #[serde(default, rename = "peer_payload_bytes", deserialize_with = "bytes_opt")]
    pub peer_payload: Option<Bytes>,
    /// What one NIC reads from GPUs on the other side of a root complex.
    #[serde(default, rename = "gpu_read_GBps", deserialize_with = "gbyte_opt")]
    pub gpu_read_rate: Option<Rate>,
    /// What the root ports of one quadrant have to memory together, each direction.
    #[serde(default, rename = "quadrant_GBps", deserialize_with = "gbyte_opt")]
    pub quadrant_rate: Option<Rate>,
    /// The share of the memory's nominal rate that reads and writes have together.
    pub memory_share: Option<f64>,
}

/// An NVMe drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvme {
    /// PCIe generation.
    pub pcie_gen: u32,
    /// PCIe lanes.
    pub pcie_lanes: u32,
    /// Sequential reads.
    #[serde(rename = "read_GBps", deserialize_with = "gbyte")]
    pub read_rate: Rate,
    /// Sequential writes.
    #[serde(rename = "write_GBps", deserialize_with = "gbyte")]
    pub write_rate: Rate,
    /// Latency of a read.
    #[serde(rename = "read_latency_us", deserialize_with = "us")]
    pub read_latency: Span,
    /// Latency of a write.
    #[serde(rename = "write_latency_us", deserialize_with = "us")]
    pub write_latency: Span,
}

/// A way in which software copies between host and GPU memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyWay {
    /// From the call to the first byte.
    #[serde(rename = "launch_ns", deserialize_with = "ns")]
    pub launch: Span,
    /// What one processor writes to a GPU, if it copies itself.
    #[serde(default, rename = "to_gpu_GBps", deserialize_with = "gbyte_opt")]
    pub to_gpu: Option<Rate>,
    /// What one processor reads from a GPU, if it copies itself.
    #[serde(default, rename = "from_gpu_GBps", deserialize_with = "gbyte_opt")]
    pub from_gpu: Option<Rate>,
}

/// A NIC.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Ports that the card drives at once at `port_rate`.
    pub ports: u32,
    /// Rate of a port, one direction.
    #[serde(rename = "port_gbit", deserialize_with = "gbit")]
    pub port_rate: Rate,
    /// PCIe generation.
    pub pcie_gen: u32,
    /// PCIe lanes.
    pub pcie_lanes: u32,
    /// What it speaks.
    pub protocols: Vec<String>,
    /// Ports on the card, at whatever rate.
    pub max_ports: Option<u32>,
    /// Connections (queue pairs) at most.
    pub max_connections: Option<u32>,
    /// Typical power in watts.
    pub power_w: Option<f64>,
    /// Highest power in watts.
    pub max_power_w: Option<f64>,
    /// Street price in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}

impl Nic {
    /// What all its ports carry together, one direction.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::bytes_per_sec(self.port_rate.get().saturating_mul(u64::from(self.ports)))
    }
}

/// What kind of network a switch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// InfiniBand.
    Infiniband,
    /// Ethernet.
    Ethernet,
}

/// A network switch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The switching silicon.
    pub asic: String,
    /// The network it belongs to.
    pub family: Family,
    /// Ports at `port_rate`.
    pub ports: u32,
    /// Rate of a port, one direction.
    #[serde(rename = "port_gbit", deserialize_with = "gbit")]
    pub port_rate: Rate,
    /// Ports that can be had by splitting; `ports` if absent.
    pub max_ports: Option<u32>,
    /// Latency of a packet through it, without cable and FEC.
    #[serde(rename = "latency_ns", deserialize_with = "ns")]
    pub latency: Span,
    /// The least latency that some source states.
    #[serde(default, rename = "min_latency_ns", deserialize_with = "ns_opt")]
    pub min_latency: Option<Span>,
    /// The greatest latency that some source states.
    #[serde(default, rename = "max_latency_ns", deserialize_with = "ns_opt")]
    pub max_latency: Option<Span>,
    /// Packet rate in 10^9 a second.
    pub packets_per_ns: Option<f64>,
    /// Cages for cables, where a cage holds several ports.
    pub connectors: Option<u32>,
    /// In-network reduction: its version.
    pub sharp: Option<String>,
    /// Flow control in words.
    pub flow_control: Option<String>,
    /// Congestion marks in words.
    pub ecn: Option<String>,
    /// Packet buffer in vendor megabytes.
    pub buffer_mb: Option<f64>,
    /// How it forwards: `cut-through` or `store-and-forward`.
    pub forwarding: String,
    /// Typical power in watts, without optics.
    pub power_w: Option<f64>,
    /// Street price in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}

impl Switch {
    /// What all ports carry together, one direction.
    #[must_use]
    pub fn capacity(&self) -> Rate {
        Rate::bytes_per_sec(self.port_rate.get().saturating_mul(u64::from(self.ports)))
    }

    /// How many ports it has for links of `rate`: ports are split where the rate allows, up to `max_ports`, and slower
    /// than its links if they are faster than its ports.
    #[must_use]
    pub fn ports_at(&self, rate: Rate) -> u32 {
        let split = (self.port_rate.get() / rate.get().max(1)).clamp(1, 1024) as u32;
        let max = self.max_ports.unwrap_or(self.ports).max(self.ports);
        // A port splits by powers of two.
        let split = 1u32 << split.ilog2();
        self.ports.saturating_mul(split).min(max)
    }
}

/// What a network transport costs on the wire and at its ends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportPreset {
    /// Wire bytes of a packet beyond its payload.
    #[serde(rename = "packet_overhead_bytes", deserialize_with = "bytes")]
    pub packet_overhead: Bytes,
    /// Default payload of a packet.
    #[serde(rename = "mtu_bytes", deserialize_with = "bytes")]
    pub mtu: Bytes,
    /// Latency added at each end, beyond the NIC's.
    #[serde(rename = "extra_ns_per_side", deserialize_with = "ns")]
    pub extra_per_side: Span,
    /// The kind of switch it runs over.
    pub family: Family,
    /// Whether the network drops nothing.
    pub lossless: bool,
}

impl TransportPreset {
    /// The payload's share of the wire with packets of `mtu` payload bytes: mtu / (mtu + overhead).
    #[must_use]
    pub fn goodput_share(&self, mtu: Bytes) -> f64 {
        share(mtu, self.packet_overhead)
    }
}

/// The latency of one part of a path.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// One way.
    #[serde(rename = "latency_ns", deserialize_with = "ns")]
    pub latency: Span,
}

/// A kind of network cable.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// Propagation delay of a metre.
    #[serde(rename = "delay_ns_per_m", deserialize_with = "ns")]
    pub delay_per_m: Span,
    /// The least delay of a metre that some source states, ns.
    #[serde(default, rename = "min_delay_ns_per_m", deserialize_with = "ns_opt")]
    pub min_delay_per_m: Option<Span>,
    /// The greatest delay of a metre that some source states, ns.
    #[serde(default, rename = "max_delay_ns_per_m", deserialize_with = "ns_opt")]
    pub max_delay_per_m: Option<Span>,
    /// It is a part of a machine, and none that a network is cabled with.
    #[serde(default)]
    pub backplane: bool,
    /// The longest run.
    pub max_m: f64,
    /// Transceivers for one cable.
    pub transceivers: u32,
    /// Power of one transceiver in watts.
    pub transceiver_power_w: Option<f64>,
    /// Price of a cable with its transceivers in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}

/// A whole node, ready to build.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The node.
    pub node: NodeSpec,
    /// Its usual transport, if it has one: a cloud's, or that of its ports.
    pub transport: Option<TransportKind>,
    /// Power of a node in watts.
    pub power_w: Option<f64>,
    /// Street price of a node in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}
