//! The typed data of each kind of catalogue row.

use serde::{Deserialize, Deserializer};
use sim_core::units::{Bytes, Rate, Span};

use crate::fabric::TransportKind;
use crate::node::NodeSpec;

fn gbyte<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
    f64::deserialize(d).map(Rate::from_gbyte_f64)
}

fn gbyte_opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
    Option::<f64>::deserialize(d).map(|v| v.map(Rate::from_gbyte_f64))
}

fn gbit<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
    f64::deserialize(d).map(|v| Rate::from_gbyte_f64(v / 8.0))
}

fn ns<'de, D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
    f64::deserialize(d).map(|v| Span::from_us_f64(v / 1e3))
}

fn us<'de, D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
    f64::deserialize(d).map(Span::from_us_f64)
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
    /// The architecture's name: `Hopper`.
    pub architecture: String,
    /// Compute capability times ten, as NCCL counts it: 90 for Hopper.
    pub sm: u32,
    /// Memory in vendor gigabytes.
    pub memory_gb: f64,
    /// Peak rate of the memory interface (reads and writes together).
    #[serde(rename = "memory_GBps", deserialize_with = "gbyte")]
    pub memory_rate: Rate,
    /// Dense 16-bit matrix rate in TFLOP/s.
    pub fp16_tflops: Option<f64>,
    /// Dense 8-bit floating-point rate in TFLOP/s.
    pub fp8_tflops: Option<f64>,
    /// Dense 4-bit floating-point rate in TFLOP/s.
    pub fp4_tflops: Option<f64>,
    /// NVLink generation, if it has NVLinks.
    pub nvlink_gen: Option<u32>,
    /// Number of NVLinks.
    #[serde(default)]
    pub nvlinks: u32,
    /// Chip-to-chip rate to its CPU, one direction.
    #[serde(default, rename = "c2c_GBps", deserialize_with = "gbyte_opt")]
    pub c2c_rate: Option<Rate>,
    /// PCIe generation.
    pub pcie_gen: u32,
    /// PCIe lanes.
    pub pcie_lanes: u32,
    /// Board power in watts.
    pub power_w: Option<f64>,
}

/// A generation of NVLink.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvlink {
    /// The generation.
    pub generation: u32,
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
    /// Ports of one NVLink each.
    pub ports: u32,
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
    /// Net data rate of one lane, one direction, after the line code and, in FLITs, after all that is no TLP.
    #[serde(rename = "lane_GBps", deserialize_with = "gbyte")]
    pub lane_rate: Rate,
    /// Bytes of a posted write beyond its payload.
    #[serde(rename = "tlp_overhead_bytes", deserialize_with = "bytes")]
    pub tlp_overhead: Bytes,
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
    /// Net data rate of one link, one direction.
    #[serde(rename = "link_GBps", deserialize_with = "gbyte")]
    pub link_rate: Rate,
    /// Header of a line of 64 B of peer traffic.
    #[serde(default, rename = "peer_header_bytes", deserialize_with = "bytes")]
    pub peer_header: Bytes,
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
    /// Typical power in watts.
    pub power_w: Option<f64>,
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
    /// The longest run.
    pub max_m: f64,
    /// Transceivers for one cable.
    pub transceivers: u32,
    /// Power of one transceiver in watts.
    pub transceiver_power_w: Option<f64>,
}

/// A whole node, ready to build.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The node.
    pub node: NodeSpec,
    /// The transport that it is offered with, if it is a cloud's.
    pub transport: Option<TransportKind>,
    /// Power of a node in watts.
    pub power_w: Option<f64>,
}
