//! Arguments that several verbs share.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::context::Context;
use super::fault::Failure;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};
use crate::scenario::{Input, Setting};

/// Arguments of every verb.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Set a key of the scenario, as `fabric.spines=8` or `workload.0.op=alltoall` (repeatable)
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = "Common options")]
    pub(super) set: Vec<String>,
    /// Catalogue rows of your own: a TOML file of `[catalogue.KIND.NAME]` tables (repeatable)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub(super) catalogue: Vec<PathBuf>,
    /// Seed of all random streams, in place of the scenario's
    #[arg(long, global = true, value_name = "N", help_heading = "Common options", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(super) seed: Option<u64>,
    /// Print answers and errors only: no warnings, no progress
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub(super) quiet: bool,
    /// Colour of messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Common options")]
    pub(super) color: Colour,
}

/// When messages are coloured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// `--format text|json`.
#[derive(Debug, Args)]
pub(super) struct Output {
    /// The form of the answer
    #[arg(long, value_name = "FORM", default_value = "text", help_heading = "Output")]
    pub(super) format: Format,
}

/// A cluster by flags, in place of a scenario or on top of one.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct System {
    /// A reference cluster, by its name in `fabricsim catalog`
    #[arg(long, value_name = "NAME")]
    pub(super) cluster: Option<String>,
    /// The node, by its name in `fabricsim catalog`
    #[arg(long, value_name = "NAME")]
    pub(super) system: Option<String>,
    /// How many nodes
    #[arg(long, value_name = "N")]
    pub(super) nodes: Option<u32>,
    /// Use only the first so many GPUs of each node
    #[arg(long, value_name = "G")]
    pub(super) gpus_per_node: Option<u32>,
    /// The NICs of each node, such as 8x400Gb/s
    #[arg(long, value_name = "COUNTxRATE")]
    pub(super) nics: Option<String>,
    /// Nodes that share an NVLink domain (trays of an NVL72 rack)
    #[arg(long, value_name = "N")]
    pub(super) nodes_per_domain: Option<u32>,
    /// rail-optimized, leaf-spine, single-switch, rail-only, fat-tree, dual-tor, multi-plane or dragonfly
    #[arg(long, value_name = "KIND")]
    pub(super) fabric: Option<String>,
    /// infiniband, roce, efa, tcp or tcpxo
    #[arg(long, value_name = "KIND")]
    pub(super) transport: Option<String>,
    /// NCCL version, such as 2.21
    #[arg(long, value_name = "VERSION")]
    pub(super) nccl: Option<String>,
    /// An NCCL variable, such as NCCL_ALGO=Ring (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) env: Vec<String>,
    /// Break something: "spine0 dead", "node0.nic2 factor=0.5", "leaf0->spine1 down_for=2ms every=1s" (repeatable);
    /// docs/faults.md
    #[arg(long, value_name = "TARGET [KIND] [KEY=VALUE]")]
    pub(super) fault: Vec<String>,
    /// Leave out the faults that the scenario lists
    #[arg(long)]
    pub(super) without_faults: bool,
    /// Take this one of the scenario's designs
    #[arg(long, value_name = "NAME")]
    pub(super) design: Option<String>,
    /// Launches are captured in a CUDA graph
    #[arg(long)]
    pub(super) graph: bool,
    /// Timing parameters of a file, as `fabricsim fit --out` writes it
    #[arg(long, value_name = "FILE")]
    pub(super) profile: Option<String>,
    /// GPUs for which one host thread starts kernels in turn, as in nccl-tests
    #[arg(short = 'g', long = "gpus-per-thread", alias = "ngpus", value_name = "N")]
    pub(super) gpus_per_thread: Option<u32>,
}

impl System {
    /// Whether the flags say which nodes there are.
    pub(super) fn names_one(&self) -> bool {
        self.system.is_some() || self.cluster.is_some()
    }

    /// The files that flags name, and the scenario's, before anything is read.
    pub(super) fn files(&self, scenario: Option<&Path>, context: &Context) -> Vec<(&'static str, PathBuf)> {
        let scenario = scenario.map(|path| ("the scenario", path.to_owned()));
        let profile = self.profile.as_ref().map(|path| ("the profile", PathBuf::from(path)));
        let rows = context.catalogues().map(|path| ("a catalogue", PathBuf::from(path)));
        scenario.into_iter().chain(profile).chain(rows).collect()
    }

    /// The flags as keys of a scenario.
    pub(super) fn settings(&self) -> Result<Vec<Setting>, Failure> {
        let mut out: Vec<Setting> = self.design.iter().map(|name| Setting::design("--design", name)).collect();
        let mut text = |flag: &str, key: &str, value: &Option<String>| {
            if let Some(value) = value {
                out.push(Setting::text(flag, key, value));
            }
        };
        text("--cluster", "cluster", &self.cluster);
        text("--system", "system", &self.system);
        text("--nics", "nics", &self.nics);
        text("--fabric", "fabric.kind", &self.fabric);
        text("--transport", "transport.kind", &self.transport);
        text("--nccl", "software.nccl", &self.nccl);
        text("--profile", "profile.from", &self.profile);
        let mut number = |flag: &str, key: &str, value: Option<u32>| {
            if let Some(value) = value {
                out.push(Setting::value(flag, key, value));
            }
        };
        number("--nodes", "nodes", self.nodes);
        number("--gpus-per-node", "gpus_per_node", self.gpus_per_node);
        number("--nodes-per-domain", "nodes_per_domain", self.nodes_per_domain);
        number("--gpus-per-thread", "software.gpus_per_thread", self.gpus_per_thread);
        if self.without_faults {
            out.push(Setting::value("--without-faults", "fault", "[]"));
        }
        out.extend(self.fault.iter().map(Setting::fault));
        if self.graph {
            out.push(Setting::value("--graph", "software.graph", true));
        }
        for variable in &self.env {
            match variable.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() && !name.contains('.') => {
                    out.push(Setting::text("--env", format!("software.env.{}", name.trim()), value));
                }
                _ => {
                    let mut faults = Diagnostics::new();
                    let source = faults.sources.add("--env", variable.clone());
                    let place = crate::diagnostic::Place { source, span: 0..variable.len() };
                    let message = format!("`--env` takes NAME=VALUE, not `{}`", shorten(variable));
                    let fault = Diagnostic::new(Code::BadArgument, message).at(place, "no `NAME=`");
                    faults.push(fault.help("--env NCCL_ALGO=Ring"));
                    return Err(Failure::usage(faults));
                }
            }
        }
        Ok(out)
    }
}

/// The files that a scenario was read from, with what it extends and what flags named.
pub(super) fn files(loaded: &crate::scenario::Loaded) -> Vec<(&'static str, PathBuf)> {
    let texts = loaded.diagnostics.sources.names().map(PathBuf::from);
    let tuner = loaded.scenario.software.env.get(crate::scenario::TUNER_FILE).map(PathBuf::from);
    texts.chain(tuner).map(|path| ("a file", path)).collect()
}

/// The input that a path on the command line means; `-` is standard input.
pub(super) fn input(path: Option<&PathBuf>) -> Result<Input, Failure> {
    let Some(path) = path else { return Ok(Input::Flags) };
    if path.as_os_str() != "-" {
        return Ok(Input::File(path.clone()));
    }
    let mut bytes = Vec::new();
    let limit = crate::scenario::MAX_BYTES + 1;
    let read = std::io::Read::read_to_end(&mut std::io::Read::take(std::io::stdin().lock(), limit), &mut bytes);
    if let Err(error) = read {
        let fault = Diagnostic::new(Code::Unreadable, format!("cannot read standard input: {error}"));
        return Err(Failure::usage(Diagnostics::of(fault)));
    }
    if bytes.len() as u64 >= limit {
        let fault = Diagnostic::new(Code::TooLarge, "standard input has more than 4 MiB; a scenario has at most that");
        return Err(Failure::usage(Diagnostics::of(fault)));
    }
    match crate::scenario::decode("standard input", bytes) {
        Ok(text) => Ok(Input::Text { name: "<stdin>".to_owned(), text }),
        Err(fault) => Err(Failure::usage(Diagnostics::of(*fault))),
    }
}

/// A failure for a verb that got neither a scenario nor `--system`.
pub(super) fn no_cluster(verb: &str) -> Failure {
    let fault = Diagnostic::new(Code::BadArgument, "which cluster? Neither a scenario nor `--system` is given")
        .help(format!("fabricsim {verb} --system hgx-h100 --nodes 2"))
        .help("`fabricsim catalog` lists the systems, `fabricsim init` writes a scenario");
    Failure::usage(Diagnostics::of(fault))
}

/// What results call the scenario: its path as typed, else its name.
pub(super) fn shown(path: Option<&PathBuf>, scenario: &crate::Scenario) -> String {
    path.map_or_else(|| scenario.name.clone(), |p| p.display().to_string())
}
