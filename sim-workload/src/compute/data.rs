//! The figures of `data/compute.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use sim_core::units::{Rate, Span};

use super::jitter::StepLaw;
use super::law::{Curve, Tiles};
use super::{Number, Slowdown};
use crate::units::FlopRate;

/// A GPU with the best rates that were found.
#[derive(Clone, Debug)]
pub struct Device {
    /// The name in the catalogue of GPUs.
    pub gpu: String,
    /// Processors (SMs, CUs).
    pub processors: u64,
    /// Shares of the peak that attention reaches, forward and backward, in millionths.
    pub attention: (u64, u64),
    /// How sure the rates are.
    pub standing: String,
    /// The source's title.
    pub source: String,
    peak: BTreeMap<Number, FlopRate>,
    best: BTreeMap<Number, FlopRate>,
}

impl Device {
    /// Peak and best rate of dense matrix products; of the next wider numbers if there is none of these. Of a peak whose best is
    /// not known the share is that of the next wider numbers.
    #[must_use]
    pub fn rates(&self, number: Number) -> (FlopRate, FlopRate) {
        let last = |map: &BTreeMap<Number, FlopRate>, number| {
            map.range(..=number).next_back().map(|(n, rate)| (*n, *rate)).unwrap_or_default()
        };
        let (at, peak) = last(&self.peak, number);
        let (found, best) = last(&self.best, at);
        let of = self.peak.get(&found).map_or(1, |p| p.get()).max(1);
        let best = u128::from(best.get()) * u128::from(peak.get()) / u128::from(of);
        (peak, FlopRate::per_sec(u64::try_from(best).unwrap_or(u64::MAX)))
    }
}

/// A link as Calculon's validation takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainLink {
    /// Its rate, one direction, with the share of it that messages reach.
    pub rate: Rate,
    /// Latency of a message.
    pub latency: Span,
}

/// All figures.
#[derive(Clone, Debug)]
pub struct Figures {
    devices: Vec<Device>,
    /// Shares of matrix products by operations.
    pub matrix: Curve,
    /// Shares of vector operations by operations.
    pub vector: Curve,
    /// Shares of the memory's rate by bytes.
    pub memory: Curve,
    /// Tiles, without a GPU's best share and processors.
    pub tiles: Tiles,
    /// Rows below which a grouped product is slow, and its part of the dense rate in millionths.
    pub grouped: (u64, u64),
    /// Bytes that are moved to put an element in narrow numbers.
    pub narrowing: u64,
    /// Bytes that a gradient by weights moves for each parameter.
    pub gradient: u64,
    /// Between kernels.
    pub launch: Span,
    /// Between kernels of a graph.
    pub graph_launch: Span,
    /// What kernels lose beside messages.
    pub overlap: Slowdown,
    links: BTreeMap<String, PlainLink>,
    steps: Vec<(String, StepLaw)>,
}

/// A GPU of which no rates are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no rates of kernels for the GPU `{name}`; there are for {known}; give a profile, or another GPU's with its peak"
)]
pub struct UnknownDevice {
    /// The name.
    pub name: String,
    /// The names that are known.
    pub known: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRates {
    bf16: f64,
    fp8: Option<f64>,
    fp4: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAttention {
    forward: f64,
    backward: f64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProcessors {
    count: u64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    gpu: String,
    processors: RawProcessors,
    peak: RawRates,
    best: RawRates,
    attention: RawAttention,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCurve {
    steps: Vec<(f64, f64)>,
    unit: String,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTiles {
    rows: u64,
    columns: u64,
    half_depth: u64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGrouped {
    rows: u64,
    share: f64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMoves {
    narrowing: u64,
    gradient: u64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLaunch {
    kernel_us: f64,
    graph_us: f64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOverlap {
    scale_up: f64,
    scale_out: f64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    #[serde(rename = "GBps")]
    gbps: f64,
    share: f64,
    latency_us: f64,
    standing: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    run: String,
    median_s: f64,
    steps: u64,
    sigma: f64,
    stall_share: f64,
    stall_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSource {
    title: String,
    #[serde(rename = "where")]
    place: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    schema: u64,
    source: BTreeMap<String, RawSource>,
    device: Vec<RawDevice>,
    curve: BTreeMap<String, RawCurve>,
    tiles: RawTiles,
    grouped: RawGrouped,
    moves: RawMoves,
    launch: RawLaunch,
    overlap: RawOverlap,
    link: BTreeMap<String, RawLink>,
    step: Vec<RawStep>,
}

fn millionths(share: f64) -> u64 {
    (share * 1e6).round() as u64
}

static BUILTIN: LazyLock<Figures> = LazyLock::new(|| match Figures::parse(include_str!("../../data/compute.toml")) {
    Ok(figures) => figures,
    Err(error) => unreachable!("the embedded figures are checked by tests: {error}"),
});

impl Figures {
    /// The figures that are compiled in.
    #[must_use]
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Reads a file of figures.
    ///
    /// # Errors
    /// If it is not TOML, has other keys, lacks a curve, or names a source or standing that there is not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let raw: Raw = toml::from_str(text).map_err(|e| e.to_string())?;
        if raw.schema != 1 {
            return Err(format!("schema {} is not 1", raw.schema));
        }
        raw.check()?;
        let curve = |name: &str| {
            let curve = raw.curve.get(name).ok_or_else(|| format!("no curve `{name}`"))?;
            let scale = match curve.unit.as_str() {
                "GFLOP" => 1e9,
                "MB" => 1e6,
                unit => return Err(format!("unit `{unit}` of curve `{name}`: expected GFLOP or MB")),
            };
            Ok(Curve::steps(
                curve.steps.iter().map(|(from, share)| ((from * scale) as u128, millionths(*share))).collect(),
            ))
        };
        let rates = |raw: &RawRates| {
            let list = [(Number::Bf16, Some(raw.bf16)), (Number::Fp8, raw.fp8), (Number::Fp4, raw.fp4)];
            list.into_iter().filter_map(|(n, rate)| Some((n, FlopRate::from_tera(rate?)))).collect()
        };
        let devices = raw.device.iter().map(|d| Device {
            gpu: d.gpu.clone(),
            processors: d.processors.count,
            attention: (millionths(d.attention.forward), millionths(d.attention.backward)),
            standing: d.standing.clone(),
            source: raw.source.get(&d.source).map(|s| format!("{}: {}", s.title, s.place)).unwrap_or_default(),
            peak: rates(&d.peak),
            best: rates(&d.best),
        });
        let links = raw.link.iter().map(|(name, link)| {
            let rate = Rate::from_gbyte_f64(link.gbps * link.share);
            (name.clone(), PlainLink { rate, latency: Span::from_us_f64(link.latency_us) })
        });
        Ok(Self {
            devices: devices.collect(),
            matrix: curve("matrix")?,
            vector: curve("vector")?,
            memory: curve("memory")?,
            tiles: Tiles {
                best: 1_000_000,
                processors: 1,
                rows: raw.tiles.rows,
                columns: raw.tiles.columns,
                half_depth: raw.tiles.half_depth,
            },
            grouped: (raw.grouped.rows, millionths(raw.grouped.share)),
            narrowing: raw.moves.narrowing,
            gradient: raw.moves.gradient,
            launch: Span::from_us_f64(raw.launch.kernel_us),
            graph_launch: Span::from_us_f64(raw.launch.graph_us),
            overlap: Slowdown {
                scale_up: millionths(raw.overlap.scale_up),
                scale_out: millionths(raw.overlap.scale_out),
            },
            links: links.collect(),
            steps: raw.step.iter().map(|step| (step.run.clone(), step.law())).collect(),
        })
    }

    /// The GPU called `name` in the catalogue of GPUs.
    ///
    /// # Errors
    /// If no rates of it are known.
    pub fn device(&self, name: &str) -> Result<&Device, UnknownDevice> {
        self.devices.iter().find(|d| d.gpu == name).ok_or_else(|| UnknownDevice {
            name: name.chars().take(60).collect(),
            known: self.devices.iter().map(|d| d.gpu.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// All GPUs with known rates.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter()
    }

    /// How steps of public runs varied: the run, and its law.
    pub fn steps(&self) -> impl Iterator<Item = (&str, StepLaw)> {
        self.steps.iter().map(|(run, law)| (run.as_str(), *law))
    }

    /// The link called `name`.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<PlainLink> {
        self.links.get(name).copied()
    }
}

impl RawStep {
    fn law(&self) -> StepLaw {
        StepLaw {
            median: Span::from_us_f64(self.median_s * 1e6),
            steps: self.steps,
            sigma: self.sigma,
            stall_share: self.stall_share,
            stall: Span::from_us_f64(self.stall_s * 1e6),
        }
    }
}

impl Raw {
    fn check(&self) -> Result<(), String> {
        let mut named: Vec<(&str, &str, &str)> = Vec::new();
        for d in &self.device {
            named.push((&d.gpu, &d.standing, &d.source));
            named.push((&d.gpu, &d.attention.standing, &d.attention.source));
            named.push((&d.gpu, &d.processors.standing, &d.processors.source));
        }
        named.extend(self.curve.iter().map(|(n, c)| (n.as_str(), c.standing.as_str(), c.source.as_str())));
        named.extend(self.link.iter().map(|(n, l)| (n.as_str(), l.standing.as_str(), l.source.as_str())));
        named.push(("tiles", &self.tiles.standing, &self.tiles.source));
        named.push(("grouped", &self.grouped.standing, &self.grouped.source));
        named.push(("moves", &self.moves.standing, &self.moves.source));
        named.push(("launch", &self.launch.standing, &self.launch.source));
        named.push(("overlap", &self.overlap.standing, &self.overlap.source));
        for (what, standing, source) in named {
            if !["measured", "published", "recalled", "assumed"].contains(&standing) {
                return Err(format!("`{what}` has the standing `{standing}`"));
            }
            if !self.source.contains_key(source) {
                return Err(format!("`{what}` names the source `{source}`, which is not there"));
            }
        }
        Ok(())
    }
}
