//! The timing model: what a step costs beyond the wire.
//!
//! This is apart from NCCL's selection model ([`nccl`](crate::nccl)), which picks an algorithm and predicts badly. Values
//! come from `data/timing.toml`, by GPU generation and transport, each with its origin; a scenario's `[profile]` can
//! replace them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use sim_core::program::Cost;
use sim_core::units::{Bytes, PsPerByte, Rate, Span};
use sim_topology::LinkClass;

use crate::lanes::Work;
use crate::nccl::Protocol;

/// The embedded data.
const DATA: &str = include_str!("../data/timing.toml");

#[derive(Debug, Deserialize)]
struct File {
    generation: Vec<Generation>,
    transport: Vec<Transport>,
}

#[derive(Clone, Debug, Deserialize)]
struct Generation {
    sm: Vec<u32>,
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Debug, Deserialize)]
struct Transport {
    name: String,
    /// Only with GPUs of these compute capabilities; all if empty.
    #[serde(default)]
    sm: Vec<u32>,
    network: Group,
}

/// Values that were found together.
#[derive(Clone, Debug, Deserialize)]
struct Group {
    origin: Origin,
    source: String,
    values: BTreeMap<String, f64>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A data sheet or specification.
    Spec,
    /// Read off a measurement.
    Measured,
    /// The least error over named measurements.
    Fitted,
    /// Nobody measured it here.
    Assumed,
}

/// One value of the timing model, for lists and overrides.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Parameter {
    /// Its name, as a `[profile]` key.
    pub name: String,
    /// Its value; the name's suffix is the unit.
    pub value: f64,
    /// Where it comes from.
    pub origin: Origin,
    /// The source in words.
    pub source: String,
    /// One standard deviation of the value's logarithm, where this value has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

/// A name that is no parameter, or a value that can't be one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// There is no such parameter.
    #[error("unknown timing parameter `{name}`")]
    Unknown {
        /// What was given.
        name: String,
        /// The nearest that exists.
        similar: Option<String>,
    },
    /// Not a finite number of zero or more (above zero for rates and shares, and at most 1 for these).
    #[error(
        "`{name} = {value}` must be a finite number, zero or more, above zero for a rate, from 0.01 to 1 for a share"
    )]
    Value {
        /// The parameter.
        name: String,
        /// What was given.
        value: f64,
    },
}

/// Share of its data rate that a link carries, by kind: all of it, unless a measurement says otherwise.
fn links() -> Group {
    let values = LinkKind::ALL.iter().map(|kind| (kind.key().to_owned(), 1.0)).collect();
    Group { origin: Origin::Spec, source: "the link's data rate, net of line coding".to_owned(), values }
}

/// Kinds of links whose share of the data rate can be set, by `link.*_share`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    /// Between GPUs.
    Nvlink,
    /// Inside a host: PCIe, between sockets, memory.
    Pcie,
    /// Between NICs and switches, and between switches.
    Network,
}

impl LinkKind {
    /// All kinds.
    pub const ALL: &'static [Self] = &[Self::Nvlink, Self::Pcie, Self::Network];

    /// The kind of a link of this class.
    #[must_use]
    pub const fn of(class: LinkClass) -> Self {
        match class {
            LinkClass::NvLink | LinkClass::Xgmi => Self::Nvlink,
            LinkClass::Network | LinkClass::Uplink => Self::Network,
            _ => Self::Pcie,
        }
    }

    /// The parameter's name.
    #[must_use]
    pub const fn parameter(self) -> &'static str {
        match self {
            Self::Nvlink => "link.nvlink_share",
            Self::Pcie => "link.pcie_share",
            Self::Network => "link.network_share",
        }
    }

    fn key(self) -> &'static str {
        self.parameter().trim_start_matches("link.")
    }
}

/// The values for one GPU generation and one transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    parameters: Vec<Parameter>,
    read: Option<Read>,
}

/// Which of the values have been asked for, shared by clones. It is no part of what they are, so that all are equal.
#[derive(Clone, Debug)]
struct Read(Arc<[AtomicBool]>);

impl PartialEq for Read {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origin {
    /// Its letter in tables: S, M, F or A.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Spec => 'S',
            Self::Measured => 'M',
            Self::Fitted => 'F',
            Self::Assumed => 'A',
        }
    }

    /// The word, as in profiles.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }
}

impl Timing {
    /// The built-in values for GPUs of compute capability `sm` (times ten) over `transport`.
    ///
    /// An unknown generation takes the nearest older one's values, an unknown transport InfiniBand's.
    ///
    /// # Panics
    /// Never: the embedded data are checked by a test.
    #[must_use]
    pub fn builtin(sm: u32, transport: &str) -> Self {
        let file: File = toml::from_str(DATA).expect("the embedded timing data are sound");
        let near = |g: &&Generation| g.sm.iter().filter(|s| **s <= sm).max().copied().unwrap_or(0);
        // Before the first generation that is known, that one.
        let generation = file.generation.iter().rev().max_by_key(near).expect("there is a generation");
        let wire = file
            .transport
            .iter()
            .find(|t| t.name == transport && (t.sm.is_empty() || t.sm.contains(&sm)))
            .unwrap_or(&file.transport[0]);
        let network = [("network".to_owned(), wire.network.clone()), ("link".to_owned(), links())];
        let groups = generation.groups.clone().into_iter().chain(network);
        let parameters = groups
            .flat_map(|(name, group)| {
                group.values.into_iter().map(move |(key, value)| Parameter {
                    name: format!("{name}.{key}"),
                    value,
                    origin: group.origin,
                    source: group.source.clone(),
                    spread: None,
                })
            })
            .collect();
        Self { parameters, read: None }
    }

    /// No cost beyond the wire: what closed forms assume.
    #[must_use]
    pub fn ideal() -> Self {
        let mut timing = Self::builtin(90, "infiniband");
        for p in &mut timing.parameters {
            p.value = match &p.name {
                name if name.ends_with("_share") => 1.0,
                name if name.ends_with("rate_gbps") => f64::INFINITY,
                _ => 0.0,
            };
            p.origin = Origin::Assumed;
            p.source = "ideal".into();
        }
        timing
    }

    /// All values.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Gives a value a standard deviation of its own (of its logarithm).
    pub fn set_spread(&mut self, name: &str, spread: f64) {
        if let Some(p) = self.parameters.iter_mut().find(|p| p.name == name) {
            p.spread = Some(spread);
        }
    }

    /// The value called `name`, which does not count as asked for.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.parameters.iter().find(|p| p.name == name).map(|p| p.value)
    }

    /// The same, keeping a record of its own of the values that are asked for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.read = Some(Read(self.parameters.iter().map(|_| AtomicBool::new(false)).collect()));
        self
    }

    /// The values that have been asked for since [`watched`](Self::watched), in order of name: what a prediction rests on.
    #[must_use]
    pub fn read(&self) -> Vec<&Parameter> {
        let Some(Read(read)) = &self.read else { return Vec::new() };
        self.parameters
            .iter()
            .zip(read.iter())
            .filter(|(_, seen)| seen.load(Ordering::Relaxed))
            .map(|(p, _)| p)
            .collect()
    }

    /// Takes what has been asked of `other` for asked of this one too, if both are watched.
    pub fn read_too(&self, other: &Self) {
        if let (Some(Read(own)), Some(Read(read))) = (&self.read, &other.read) {
            for (own, _) in own.iter().zip(read.iter()).filter(|(_, seen)| seen.load(Ordering::Relaxed)) {
                own.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Replaces a value.
    ///
    /// # Errors
    /// If there is no such parameter, or the value can't be one.
    pub fn set(&mut self, name: &str, value: f64, origin: Origin, source: &str) -> Result<(), ProfileError> {
        let Some(parameter) = self.parameters.iter_mut().find(|p| p.name == name) else {
            let distance = |p: &&Parameter| strsim::damerau_levenshtein(&p.name, name);
            let similar = self.parameters.iter().min_by_key(distance).filter(|p| distance(p) <= 4);
            return Err(ProfileError::Unknown { name: name.into(), similar: similar.map(|p| p.name.clone()) });
        };
        let sound = match name {
            _ if name.ends_with("_share") => (0.01..=1.0).contains(&value),
            _ if name.ends_with("rate_gbps") => value.is_finite() && value > 0.0,
            _ => value.is_finite() && value >= 0.0,
        };
        if !sound {
            return Err(ProfileError::Value { name: name.into(), value });
        }
        parameter.value = value;
        parameter.origin = origin;
        parameter.spread = None;
        source.clone_into(&mut parameter.source);
        Ok(())
    }

    fn get(&self, group: &str, key: &str) -> f64 {
        let is = |p: &Parameter| p.name.strip_prefix(group).and_then(|rest| rest.strip_prefix('.')) == Some(key);
        let Some(at) = self.parameters.iter().position(is) else { return 0.0 };
        if let Some(Read(read)) = &self.read {
            read[at].store(true, Ordering::Relaxed);
        }
        self.parameters[at].value
    }

    /// Share of their data rate that links of this kind carry.
    #[must_use]
    pub fn link_share(&self, kind: LinkKind) -> f64 {
        self.get("link", kind.key())
    }

    /// The value of a parameter by its whole name, noted as asked for; 0 if there is none.
    #[must_use]
    pub fn ask(&self, name: &str) -> f64 {
        name.split_once('.').map_or(0.0, |(group, key)| self.get(group, key))
    }

    /// The model of one call.
    #[must_use]
    pub fn call(&self, shape: CallShape) -> CallTiming<'_> {
        CallTiming { timing: self, shape }
    }
}

/// What the cost of a step depends on beside the kind of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallShape {
    /// The protocol.
    pub protocol: Protocol,
    /// Threads of a channel's block.
    pub threads: u32,
    /// Heads of an NVLS call.
    pub heads: u32,
    /// Whether NVLS goes on between nodes.
    pub between_nodes: bool,
    /// What the library plans for one channel of one GPU's NVLink, GB/s; infinite without NVLink.
    pub planned_gbps: f64,
}

/// Warps of a point-to-point block: 640 threads.
const WARPS: u32 = 20;

/// The costs of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallTiming<'a> {
    timing: &'a Timing,
    shape: CallShape,
}

impl CallTiming<'_> {
    /// The cost of one slice of `work`; sizes are wire bytes (flags included), since that is what lanes move.
    #[must_use]
    pub fn cost(&self, work: Work) -> Cost {
        let (t, s) = (self.timing, self.shape);
        let simple = s.protocol == Protocol::Simple;
        let ring = match s.protocol {
            Protocol::Ll => "ring_ll",
            Protocol::Ll128 => "ring_ll128",
            Protocol::Simple => "simple",
        };
        let tree = match s.protocol {
            Protocol::Ll => "tree_ll",
            Protocol::Ll128 => "tree_ll128",
            Protocol::Simple => "simple",
        };
        let nvls = if s.between_nodes { "nvls_tree" } else { "nvls" };
        let (loop_us, loop_rate) = (t.get(nvls, "loop_us"), t.get(nvls, "rate_gbps"));
        let heads = f64::from(s.heads.max(1));
        match work {
            Work::Free => Cost::default(),
            Work::Ring | Work::Tree if simple => {
                self.plain(t.get("simple", "step_us"), t.get("simple", "rate_gbps").min(s.planned_gbps))
            }
            // Peers on NVLink write the last step straight into the output buffer: only its arrival is waited for.
            Work::DirectReceive if simple => self.plain(t.get("simple", "step_us"), f64::INFINITY),
            Work::Ring | Work::DirectReceive => self.in_passes(ring, 1.0),
            Work::Tree => self.in_passes(tree, 1.0),
            // A loop of heads × chunk takes loop_us + heads × chunk / rate; a step is told the bytes of one chunk.
            Work::Stage => self.plain(loop_us, loop_rate / heads),
            Work::Multimem | Work::MultimemTree => {
                self.plain(t.get(nvls, "head_us"), t.get(nvls, "head_rate_gbps") / heads)
            }
            Work::Spread { width } => {
                let rate = t.get("simple", "rate_gbps").min(s.planned_gbps);
                self.plain(t.get("simple", "step_us"), rate / f64::from(width.max(1)))
            }
            Work::Direct => self.plain(t.get("direct", "step_us"), t.get("direct", "rate_gbps")),
            Work::Symmetric { heads, reduces } => {
                let rate = t.get("symmetric", if reduces { "reduce_rate_gbps" } else { "copy_rate_gbps" });
                self.plain(0.0, rate / f64::from(heads.max(1)))
            }
            Work::Copy => self.plain(t.get("copy_engine", "copy_us"), t.get("copy_engine", "rate_gbps")),
            // The sender writes into the output buffer.
            Work::DirectPointToPoint { .. } if simple => self.plain(t.get("p2p", "step_us"), f64::INFINITY),
            Work::PointToPoint { width } | Work::DirectPointToPoint { width } => {
                // The 20 warps of a block are shared out evenly, whole warps at a time; a lone pair has ten each way.
                let warps = (WARPS / (2 * u32::from(width.max(1)))).max(1);
                // A single warp copies and signals in turn; a few do not yet fill what their block can move.
                let lone = if warps == 1 { t.get("p2p", "lone_warp_share") } else { 1.0 };
                let rate = (f64::from(warps) * lone * t.get("p2p", "warp_rate_gbps")).min(t.get("p2p", "rate_gbps"));
                if simple {
                    self.plain(t.get("p2p", "step_us"), rate)
                } else {
                    self.in_passes(ring, f64::from(warps) / f64::from(WARPS / 2))
                }
            }
        }
    }

    /// The cost of one slice of `work` that a kernel reads from host memory, over PCIe, at a rate of wire bytes at most, since
    /// a block has only so many reads under way. It is lower where another GPU wrote there (`shared`) than where a NIC did.
    #[must_use]
    pub fn cost_of_host(&self, work: Work, shared: bool) -> Cost {
        let cost = self.cost(work);
        if work == Work::Free {
            return cost;
        }
        let rate = self.timing.get("host", if shared { "shared_rate_gbps" } else { "rate_gbps" });
        Cost { per_byte: cost.per_byte.max(Rate::from_gbyte_f64(rate).ps_per_byte()), ..cost }
    }

    /// A fixed cost and a rate of data.
    fn plain(&self, fixed_us: f64, data_gbps: f64) -> Cost {
        Cost { fixed: Span::from_us_f64(fixed_us), per_byte: self.per_byte(data_gbps), ..Cost::default() }
    }

    /// LL and LL128: threads move 8 B or 24 B of data each in a pass, of which a full block's first costs `thread_us`
    /// when all have work; beyond it data move at a rate. A step has `part` of the block's threads.
    fn in_passes(&self, group: &str, part: f64) -> Cost {
        let t = self.timing;
        let (per_thread, most) = if self.shape.protocol == Protocol::Ll128 { (24.0, 640.0) } else { (8.0, 512.0) };
        let pass = per_thread * f64::from(self.shape.threads) * part * wire_factor(self.shape.protocol);
        let first_us = t.get(group, "thread_us") * (f64::from(self.shape.threads) / most).min(1.0);
        let ps_per_byte = first_us * 1e6 / pass.max(1.0);
        Cost {
            fixed: Span::from_us_f64(t.get(group, "step_us")),
            pass: Bytes::new(pass as u64),
            pass_per_byte: if ps_per_byte > 0.0 {
                Rate::from_gbyte_f64(1e3 / ps_per_byte).ps_per_byte()
            } else {
                PsPerByte::FREE
            },
            per_byte: self.per_byte(t.get(group, "rate_gbps") * part),
        }
    }

    /// The cost of a wire byte at a rate of data.
    fn per_byte(&self, data_gbps: f64) -> PsPerByte {
        if data_gbps.is_finite() {
            Rate::from_gbyte_f64(data_gbps * wire_factor(self.shape.protocol)).ps_per_byte()
        } else {
            PsPerByte::FREE
        }
    }

    /// Latency of a message inside a node beyond its path.
    #[must_use]
    pub fn local_latency(&self, nvlink: bool) -> Span {
        let group = if nvlink { "nvlink" } else { "pcie" };
        Span::from_us_f64(self.timing.get(group, self.latency_key()))
    }

    /// Latency of a message between nodes beyond its path.
    #[must_use]
    pub fn network_latency(&self) -> Span {
        Span::from_us_f64(self.timing.get("network", self.latency_key()))
    }

    const fn latency_key(&self) -> &'static str {
        match self.shape.protocol {
            Protocol::Ll => "ll_us",
            Protocol::Ll128 => "ll128_us",
            Protocol::Simple => "simple_us",
        }
    }

    /// Time from the end of the consuming operation to the posting of the clear-to-send.
    #[must_use]
    pub fn clear_to_send(&self) -> Span {
        Span::from_us_f64(self.timing.get("network", "cts_us"))
    }
}

/// Wire bytes per data byte of a protocol, flags included.
#[must_use]
pub const fn wire_factor(protocol: Protocol) -> f64 {
    match protocol {
        Protocol::Ll => 2.0,
        Protocol::Ll128 => 128.0 / 120.0,
        Protocol::Simple => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_data_are_sound_and_every_value_has_a_source() {
        for sm in [60, 70, 80, 90, 100, 103, 120] {
            for transport in ["infiniband", "roce", "efa", "tcp", "tcpxo", "unknown"] {
                let timing = Timing::builtin(sm, transport);
                assert!(timing.parameters().iter().all(|p| p.value.is_finite() && !p.source.is_empty()));
                assert!(timing.parameters().iter().all(|p| p.value > 0.0 || !p.name.ends_with("rate_gbps")));
            }
        }
        assert_eq!(
            Timing::builtin(86, "roce").get("simple", "rate_gbps"),
            Timing::builtin(80, "roce").get("simple", "rate_gbps")
        );
    }

    #[test]
    fn what_is_read_is_known() {
        let timing = Timing::builtin(90, "infiniband");
        assert!(timing.read().is_empty());
        let timing = timing.watched();
        let (_, clone) = (timing.ask("launch.kernel_us"), timing.clone());
        let _ = clone.call(CallShape {
            protocol: Protocol::Ll,
            threads: 512,
            heads: 0,
            between_nodes: false,
            planned_gbps: 1.0,
        });
        assert_eq!(timing.read().iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["launch.kernel_us"]);
        assert_eq!(timing, Timing::builtin(90, "infiniband").watched());
    }

    #[test]
    fn values_can_be_replaced_and_faults_are_told() {
        let mut timing = Timing::builtin(90, "infiniband");
        timing.set("ring_ll.step_us", 1.5, Origin::Fitted, "test").unwrap();
        assert_eq!(timing.get("ring_ll", "step_us"), 1.5);
        assert!(
            matches!(timing.set("ring_ll.stepus", 1.0, Origin::Fitted, ""), Err(ProfileError::Unknown { similar: Some(s), .. }) if s == "ring_ll.step_us")
        );
        assert!(timing.set("ring_ll.step_us", f64::NAN, Origin::Fitted, "").is_err());
        assert!(timing.set("ring_ll.rate_gbps", 0.0, Origin::Fitted, "").is_err());
        assert!(timing.set("link.network_share", 1.01, Origin::Fitted, "").is_err());
        timing.set("link.network_share", 0.9, Origin::Fitted, "test").unwrap();
        assert_eq!(timing.link_share(LinkKind::of(LinkClass::Uplink)), 0.9);
    }
}
