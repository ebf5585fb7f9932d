//! A published run as `tests/data/nccl-runs` has it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;
use sim_core::units::Bytes;
use sim_report::metrics::Operation;

/// Rows above this size are played only where a run has no smaller one: they say the same, and cost as much as all others together.
const LARGEST: u64 = 4 << 30;

/// Nor is a row of more bytes times ranks, for the same reason.
const MOST_WORK: u64 = 128 << 30;

/// Published bus bandwidths have two decimals: below this, the rounding is more than half a percent.
const LEAST_BUSBW: f64 = 1.0;

/// A row more than this many times slower than its in-place twin is an outlier of the measurement; the twin is taken.
const OUTLIER: f64 = 1.5;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the runs are.
pub(crate) fn folder() -> PathBuf {
    root().join("tests/data/nccl-runs")
}

/// Whether an environment variable is set, and not empty.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The judgement of those who published a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Healthy,
    Broken,
    NotJudged,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    #[serde(skip)]
    pub(crate) id: String,
    /// Where it was published, and when.
    pub(crate) source: String,
    pub(crate) date: String,
    /// The kind of machine and network.
    pub(crate) family: String,
    /// Runs of one source have one name here: they may come from the same machines.
    pub(crate) cluster: String,
    /// The cluster as a scenario, as it should work.
    pub(crate) scenario: String,
    pub(crate) operation: String,
    pub(crate) datatype: String,
    pub(crate) ranks: u32,
    healthy: toml::Value,
    /// What was wrong, where something was.
    pub(crate) cause: Option<String>,
    /// What the pattern of residuals has to say of that.
    #[serde(default)]
    pub(crate) pattern: Vec<String>,
    /// What of the cluster the source doesn't tell.
    pub(crate) assumed: Option<String>,
    /// The GPUs as the log's header names them, where it does.
    pub(crate) gpu: Option<String>,
    /// Processes, where not one for each GPU.
    pub(crate) layout: Option<String>,
    /// GPUs for which one host thread starts kernels, where more than one.
    pub(crate) gpus_per_thread: Option<u32>,
    /// Only these sizes are played.
    play: Option<Vec<u64>>,
    /// Why.
    pub(crate) why_left_out: Option<String>,
    /// Bytes, µs out of place, µs in place.
    #[serde(default)]
    rows: Vec<(u64, f64, f64)>,
    /// Bytes, GB/s, where no times were published.
    #[serde(default)]
    busbw: Vec<(u64, f64)>,
}

/// A size and its measured times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) bytes: u64,
    /// What predictions are held against, µs.
    pub(crate) us: f64,
    /// Out of place and in place as published; the same twice where only a bandwidth is.
    pub(crate) both: (f64, f64),
}

impl Run {
    pub(crate) fn health(&self) -> Health {
        match self.healthy.as_bool() {
            Some(true) => Health::Healthy,
            Some(false) => Health::Broken,
            None => Health::NotJudged,
        }
    }

    pub(crate) fn operation(&self) -> Operation {
        Operation::ALL.into_iter().find(|o| o.name() == self.operation).expect("an operation of nccl-tests")
    }

    /// Only bandwidths were published.
    pub(crate) fn is_scalar(&self) -> bool {
        self.rows.is_empty()
    }

    /// The path of its cluster's scenario, from the root.
    pub(crate) fn scenario_path(&self) -> String {
        format!("tests/data/nccl-runs/{}", self.scenario)
    }

    /// All rows that can be held against a prediction.
    pub(crate) fn all(&self) -> Vec<Measured> {
        let of = |&(bytes, out, inside): &(u64, f64, f64)| {
            let us = if out > OUTLIER * inside && self.ranks > 1 { inside } else { out };
            Measured { bytes, us, both: (out, inside) }
        };
        let op = self.operation();
        let by_busbw = |&(bytes, busbw): &(u64, f64)| {
            let one = op.bandwidths(Bytes::new(bytes), 1.0, self.ranks).1;
            Measured { bytes, us: one / busbw, both: (one / busbw, one / busbw) }
        };
        let usable = self.busbw.iter().filter(|(_, busbw)| *busbw >= LEAST_BUSBW);
        self.rows.iter().map(of).chain(usable.map(by_busbw)).collect()
    }

    /// How long it takes to play, roughly: bytes of its rows times ranks.
    pub(crate) fn work(&self) -> u128 {
        self.played().iter().map(|m| u128::from(m.bytes) * u128::from(self.ranks)).sum()
    }

    /// The rows that are played; all of them with `FULL=1`.
    pub(crate) fn played(&self) -> Vec<Measured> {
        let all = self.all();
        if is_set("FULL") {
            return all;
        }
        let least = all.iter().map(|m| m.bytes).min().unwrap_or(0);
        let most = LARGEST.min(MOST_WORK / u64::from(self.ranks));
        let wanted = |m: &&Measured| match &self.play {
            Some(sizes) => sizes.contains(&m.bytes),
            None => m.bytes <= most.max(least),
        };
        all.iter().filter(wanted).copied().collect()
    }
}

fn paths() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|x| x == "toml")).collect();
    paths.sort();
    paths
}

fn read(path: &PathBuf) -> Run {
    let id = path.file_stem().unwrap().to_string_lossy().into_owned();
    let run: Run = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{id}: {e}"));
    Run { id, ..run }
}

/// The cluster of each run.
pub(crate) fn clusters() -> &'static BTreeMap<String, String> {
    static ALL: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    ALL.get_or_init(|| paths().iter().map(read).map(|run| (run.id, run.cluster)).collect())
}

/// All runs by name; with `RUNS=a,b`, those whose names have one of these parts.
pub(crate) fn all() -> Vec<Run> {
    let wanted = std::env::var("RUNS").ok().filter(|w| !w.is_empty());
    let is_wanted = |id: &str| wanted.as_ref().is_none_or(|w| w.split(',').any(|part| id.contains(part.trim())));
    paths().iter().map(read).filter(|run| is_wanted(&run.id)).collect()
}
