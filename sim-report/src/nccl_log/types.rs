//! What a log holds.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sim_core::units::Bytes;

use crate::metrics::Operation;

/// A log: one or more tables and what was said around them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NcclLog {
    /// The tables with at least one complete row, in order of their first row.
    pub tables: Vec<Table>,
    /// The NCCL version of the first table that knows it.
    pub nccl_version: Option<String>,
    /// The version of nccl-tests of the first table that knows it.
    pub tests_version: Option<String>,
    /// `NCCL_*` variables seen (shell lines, `set by environment to`, JSON), in order of appearance. The last wins.
    pub env: IndexMap<String, String>,
    /// The network that NCCL said it uses (`IB`, `Socket`, a plugin's name).
    pub network: Option<String>,
    /// What was damaged, doubtful or left out.
    pub warnings: Vec<LogWarning>,
    /// Warnings beyond those kept.
    pub more_warnings: usize,
}

impl NcclLog {
    /// The parameters of the first table.
    #[must_use]
    pub fn parameters(&self) -> Option<&Parameters> {
        self.tables.first().map(|table| &table.parameters)
    }

    /// All rows of all tables.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.tables.iter().flat_map(|table| &table.rows)
    }
}

/// A remark on a place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogWarning {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was seen and what was made of it.
    pub message: String,
}

impl fmt::Display for LogWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// One sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The operation, where it could be told.
    pub operation: Option<Operation>,
    /// How it was told.
    pub operation_source: OperationSource,
    /// The number of ranks, where it could be told.
    pub ranks: Option<u32>,
    /// How it was told.
    pub ranks_source: RanksSource,
    /// The numbers of ranks that the printed figures allow; `None` if they say nothing (latencies only).
    pub ranks_range: Option<(u32, u32)>,
    /// The rank lines, by rank. Some may be missing in a shortened log.
    pub devices: Vec<Device>,
    /// The options of the run, as far as the banner or the command line tells.
    pub parameters: Parameters,
    /// NCCL's version.
    pub nccl_version: Option<String>,
    /// nccl-tests' version.
    pub tests_version: Option<String>,
    /// The columns.
    pub layout: Layout,
    /// How algbw was calculated.
    pub convention: Convention,
    /// The rows, in the order printed. Sizes can repeat (zero-size rows, repeated sweeps).
    pub rows: Vec<Row>,
    /// The footer's count of wrong values.
    pub out_of_bounds: Option<OutOfBounds>,
    /// The footer's average of all printed busbw, GB/s.
    pub average_busbw: Option<f64>,
    /// Line of the first row, from 1.
    pub line: usize,
}

impl Table {
    /// The number of nodes: distinct hosts of a complete list of ranks, else ranks over the largest number of devices
    /// seen on a host. `None` where neither is known.
    #[must_use]
    pub fn nodes(&self) -> Option<u32> {
        let ranks = self.ranks?;
        if self.devices.len() == ranks as usize {
            return u32::try_from(self.hosts().len()).ok().filter(|n| *n > 0);
        }
        let per_node = self.devices.iter().map(|d| d.device).max()?.checked_add(1)?;
        (per_node > 0 && ranks.is_multiple_of(per_node)).then_some(ranks / per_node)
    }

    /// On which host each rank ran, as an index into [`hosts`](Self::hosts); `None` unless all ranks are listed.
    #[must_use]
    pub fn host_of_ranks(&self) -> Option<Vec<u32>> {
        let whole = self.devices.len() == self.ranks? as usize;
        let in_order = self.devices.iter().zip(0_u32..).all(|(device, rank)| device.rank == rank);
        let hosts: indexmap::IndexSet<&str> = self.hosts().into_iter().collect();
        let index = |device: &Device| hosts.get_index_of(device.host.as_str()).map(|at| at as u32);
        (whole && in_order).then(|| self.devices.iter().map(index).collect()).flatten()
    }

    /// The distinct hosts in order of rank.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        self.devices.iter().map(|d| d.host.as_str()).collect::<indexmap::IndexSet<_>>().into_iter().collect()
    }

    /// The GPU's name, if all rank lines agree.
    #[must_use]
    pub fn gpu(&self) -> Option<&str> {
        let first = self.devices.first()?;
        self.devices.iter().all(|d| d.gpu == first.gpu).then_some(first.gpu.as_str()).filter(|name| !name.is_empty())
    }
}

/// How a table's operation was told, from sure to unsure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationSource {
    /// The program named itself.
    Banner,
    /// A command line in the log names the program.
    CommandLine,
    /// Columns and figures allow no other.
    Figures,
    /// The file's name says so, and the figures allow it.
    FileName,
    /// The most usual of several that the figures allow.
    Guess,
    /// Nothing tells.
    Unknown,
}

/// How a table's number of ranks was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RanksSource {
    /// The list of devices.
    Devices,
    /// A line of NCCL (`nranks 16`).
    NcclInfo,
    /// Size over count, which is exact.
    Counts,
    /// busbw over algbw; see [`Table::ranks_range`].
    Bandwidths,
    /// Nothing tells.
    Unknown,
}

/// A rank line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The rank.
    pub rank: u32,
    /// The group of a split run, 0 without.
    pub group: u32,
    /// Process id.
    pub pid: Option<u64>,
    /// Host.
    pub host: String,
    /// Device number on the host.
    pub device: u32,
    /// PCI bus id as printed (`0x1b`, `0000:1b:00`).
    pub bus_id: String,
    /// Name of the GPU.
    pub gpu: String,
}

/// The options of a run; what is absent was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Threads per process (`-t`).
    pub threads: Option<u32>,
    /// GPUs per thread (`-g`).
    pub gpus: Option<u32>,
    /// Smallest size (`-b`).
    pub min_bytes: Option<u64>,
    /// Largest size (`-e`).
    pub max_bytes: Option<u64>,
    /// Step of the sweep (`2(factor)`, `1048576(bytes)`).
    pub step: Option<String>,
    /// Untimed operations before (`-w`).
    pub warmup_iters: Option<u32>,
    /// Timed operations (`-n`).
    pub iters: Option<u32>,
    /// Operations per launch (`-m`).
    pub agg_iters: Option<u32>,
    /// Whether results were checked (`-c`).
    pub validation: Option<bool>,
    /// Graph launches (`-G`), 0 without CUDA graphs.
    pub graph: Option<u32>,
    /// Misalignment of the buffers.
    pub unalign: Option<u32>,
}

/// The columns of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// There is a redop column.
    pub redop: bool,
    /// There is a root column.
    pub root: bool,
    /// There is a copybw column before `#wrong`.
    pub copybw: bool,
    /// There are columns with the spread over iterations (`-I`).
    pub spread: bool,
    /// A time stamp ends the line (`-S`).
    pub stamp: bool,
    /// The last column of a half is an `error`, not a count.
    pub max_error: bool,
    /// Times are the host's (`-C`).
    pub cpu_time: bool,
    /// Times were printed in milliseconds (NCCL 1); rows are converted.
    pub milliseconds: bool,
}

/// How algbw was calculated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convention {
    /// algbw is size over time.
    #[default]
    Size,
    /// algbw already holds the factor (n−1)/n, and busbw equals it (all-gather and the like before 2020).
    Scaled,
}

/// A row: one size, both placements.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The size column.
    pub bytes: Bytes,
    /// The count column: elements of the per-rank argument.
    pub count: u64,
    /// The type column.
    pub dtype: DataType,
    /// The redop column; `None` if there is none or it says so.
    pub redop: Option<String>,
    /// The root column; `None` if there is none or it is −1.
    pub root: Option<u32>,
    /// Separate send and receive buffers.
    pub out_of_place: Option<Timing>,
    /// One buffer.
    pub in_place: Option<Timing>,
    /// Line, from 1.
    pub line: usize,
    /// Its figures contradict each other, and a warning says so: none of them counts ([`halves`](Self::halves)).
    pub damaged: bool,
}

/// A timed placement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Time of an operation.
    pub time_us: f64,
    /// algbw as printed, GB/s.
    #[serde(rename = "algbw_GBps")]
    pub algbw: f64,
    /// busbw as printed, GB/s.
    #[serde(rename = "busbw_GBps")]
    pub busbw: f64,
    /// The copy that ran beside it, GB/s.
    #[serde(rename = "copybw_GBps", default, skip_serializing_if = "Option::is_none")]
    pub copybw: Option<f64>,
    /// The check of the result.
    pub wrong: Check,
    /// Spread over iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// The outcome of checking a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// `N/A`.
    NotChecked,
    /// The number of wrong elements.
    Wrong(u64),
    /// The largest error (old layouts).
    MaxError(f64),
}

/// Times of single iterations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Fastest.
    pub min_us: f64,
    /// Slowest.
    pub max_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Standard deviation over mean, in percent.
    pub cv_percent: f64,
}

/// The footer's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfBounds {
    /// Wrong values or rows.
    pub count: u64,
    /// Whether the tool called that OK.
    pub ok: bool,
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are nccl-tests' own")]
pub enum DataType {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Half,
    Float,
    Double,
    Bfloat16,
    F8e4m3,
    F8e5m2,
}

impl DataType {
    /// All types, in nccl-tests' order.
    pub const ALL: [Self; 12] = [
        Self::Int8,
        Self::Uint8,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Half,
        Self::Float,
        Self::Double,
        Self::Bfloat16,
        Self::F8e4m3,
        Self::F8e5m2,
    ];

    /// nccl-tests' name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Half => "half",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bfloat16 => "bfloat16",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
        }
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self {
            Self::Int8 | Self::Uint8 | Self::F8e4m3 | Self::F8e5m2 => 1,
            Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double => 8,
        }
    }

    /// The type of this name, with other spellings that builds have used.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "char" => Self::Int8,
            "int" => Self::Int32,
            "uint" => Self::Uint32,
            "float16" | "fp16" => Self::Half,
            "float32" | "fp32" => Self::Float,
            "float64" | "fp64" => Self::Double,
            "bf16" => Self::Bfloat16,
            "fp8_e4m3" | "float8e4m3" => Self::F8e4m3,
            "fp8_e5m2" | "float8e5m2" => Self::F8e5m2,
            _ => return Self::ALL.into_iter().find(|t| t.name() == name),
        })
    }
}
