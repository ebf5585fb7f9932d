//! Rows that no model builds from: parts that only a bill or a check looks at, prices, power, limits and measurements.

use serde::Deserialize;
use sim_core::units::{Bytes, Rate, Span};

use super::rows::{gbit, gbit_opt, gbyte_opt, ns, us, us_opt};

/// A PCIe switch chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieSwitch {
    /// PCIe generation.
    pub generation: u32,
    /// Lanes of all ports together.
    pub lanes: u32,
    /// Latency from port to port.
    #[serde(rename = "latency_ns", deserialize_with = "ns")]
    pub latency: Span,
    /// How it forwards.
    pub forwarding: String,
    /// So many devices below it whose writes go to two other root ports were seen to collapse.
    pub collapse_writers: Option<u32>,
    /// What their writes have together without it.
    #[serde(default, rename = "collapse_from_GBps", deserialize_with = "gbyte_opt")]
    pub collapse_from: Option<Rate>,
    /// What is left of that.
    #[serde(default, rename = "collapse_to_GBps", deserialize_with = "gbyte_opt")]
    pub collapse_to: Option<Rate>,
    /// Power in watts.
    pub power_w: Option<f64>,
    /// Street price in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}

/// A transceiver.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optic {
    /// Network ports of the module.
    pub ports: u32,
    /// Rate of a port, one direction.
    #[serde(rename = "port_gbit", deserialize_with = "gbit")]
    pub port_rate: Rate,
    /// The longest run in metres.
    pub max_m: Option<f64>,
    /// Typical power of the module in watts.
    pub power_w: Option<f64>,
    /// Highest power of the module in watts.
    pub max_power_w: Option<f64>,
    /// Street price in US dollars; for ratios only.
    pub price_usd: Option<f64>,
}

/// Forward error correction on a port.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fec {
    /// The code: `RS(544,514)`.
    pub code: String,
    /// Bits of a codeword.
    pub codeword_bits: u32,
    /// Lanes of the port.
    pub lanes: u32,
    /// Line rate of a lane in Gb/s.
    pub lane_line_gbit: f64,
    /// Time of the decoder's logic.
    #[serde(rename = "decode_ns", deserialize_with = "ns")]
    pub decode: Span,
    /// Time to collect a codeword.
    #[serde(rename = "accumulate_ns", deserialize_with = "ns")]
    pub accumulate: Span,
    /// Accumulation of one codeword, and decoding.
    #[serde(rename = "latency_ns", deserialize_with = "ns")]
    pub latency: Span,
    /// Accumulation of two interleaved codewords, and decoding.
    #[serde(rename = "interleaved_latency_ns", deserialize_with = "ns")]
    pub interleaved_latency: Span,
}

/// The latency of a whole path for a few bytes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathLatency {
    /// The value to take.
    #[serde(rename = "path_us", deserialize_with = "us")]
    pub path: Span,
    /// The least that is stated or seen.
    #[serde(default, rename = "min_us", deserialize_with = "us_opt")]
    pub min: Option<Span>,
    /// The greatest that is stated or seen.
    #[serde(default, rename = "max_us", deserialize_with = "us_opt")]
    pub max: Option<Span>,
}

/// A single figure that belongs to no part.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The figure.
    pub value: Option<f64>,
    /// The least, where there is a range.
    pub min: Option<f64>,
    /// The greatest, where there is a range.
    pub max: Option<f64>,
    /// Its unit, if it has one.
    pub unit: Option<String>,
}

/// A price, for ratios only.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price.
    pub amount: Option<f64>,
    /// The least, where there is a range.
    pub min: Option<f64>,
    /// The greatest, where there is a range.
    pub max: Option<f64>,
    /// The currency; none for a share.
    pub currency: Option<String>,
    /// What one buys for it.
    pub per: String,
    /// When it was so.
    pub date: Option<String>,
}

/// The rent of a GPU in a cloud.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rental {
    /// The GPU's name.
    pub gpu: String,
    /// The least, US dollars an hour.
    pub min_usd_per_hour: f64,
    /// The greatest, US dollars an hour.
    pub max_usd_per_hour: f64,
    /// When it was so.
    pub date: String,
}

/// What a system or a part draws.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Typical power in watts.
    pub power_w: f64,
    /// Highest power in watts.
    pub max_power_w: Option<f64>,
}

/// Something that was measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What it is about: `nvlink`, `pcie`, `c2c`, `socket`, `nic`, `collective`, `compute`.
    pub subject: String,
    /// The GPU's name.
    pub gpu: Option<String>,
    /// Ranks that took part.
    pub ranks: Option<u32>,
    /// The collective operation.
    pub operation: Option<String>,
    /// Its algorithm.
    pub algorithm: Option<String>,
    /// The message's size as it was written.
    pub size: Option<String>,
    /// The data type.
    pub dtype: Option<String>,
    /// The message's size.
    pub bytes: Option<Bytes>,
    /// The rate, one direction.
    #[serde(default, rename = "rate_GBps", deserialize_with = "gbyte_opt")]
    pub rate: Option<Rate>,
    /// The sum of both directions.
    #[serde(default, rename = "both_directions_GBps", deserialize_with = "gbyte_opt")]
    pub both_directions: Option<Rate>,
    /// The net rate of the link beneath.
    #[serde(default, rename = "of_GBps", deserialize_with = "gbyte_opt")]
    pub of: Option<Rate>,
    /// The rate of a network port, one direction.
    #[serde(default, rename = "rate_gbit", deserialize_with = "gbit_opt")]
    pub port_rate: Option<Rate>,
    /// The net rate of that port.
    #[serde(default, rename = "of_gbit", deserialize_with = "gbit_opt")]
    pub port_of: Option<Rate>,
    /// Bus bandwidth as nccl-tests counts it.
    #[serde(default, rename = "busbw_GBps", deserialize_with = "gbyte_opt")]
    pub busbw: Option<Rate>,
    /// A time.
    #[serde(default, rename = "latency_us", deserialize_with = "us_opt")]
    pub latency: Option<Span>,
    /// A matrix rate in TFLOP/s.
    pub tflops: Option<f64>,
    /// Its share of the dense peak.
    pub efficiency: Option<f64>,
    /// The program that measured.
    pub test: Option<String>,
    /// Who measured.
    pub by: Option<String>,
    /// The parameter that was taken from it; a prediction of the same value proves nothing.
    pub feeds: Option<String>,
}
