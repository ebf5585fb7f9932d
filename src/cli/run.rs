//! `run`: plays the workloads of a scenario.

use std::path::PathBuf;

use super::args::{self, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::others::{MOST_SEEDS, Others};
use super::play::{self, View};
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Input, Setting};
use crate::simulate::Explain;
use clap::{ArgGroup, Args as ClapArgs};

/// Play the workloads of a scenario, by each of its designs; --out writes every artifact
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("written").args(["out", "timeline"]).multiple(true)))]
pub(super) struct Args {
    /// The scenario; `-` is standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Say why each algorithm and protocol was taken or not
    #[arg(long)]
    explain: bool,
    /// Sample queues and rates each such time (`10us`): in --out as series.csv, queues.svg and rates.svg
    #[arg(long, value_name = "TIME")]
    series: Option<String>,
    /// Write what ranks of a training step did over time: .json for ui.perfetto.dev, or .svg
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write result.json, tables as CSV and charts into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite files in --out, or that of --timeline
    #[arg(long, requires = "written")]
    force: bool,
    /// Play also what comes again exactly; the results are the same
    #[arg(long)]
    no_fast_forward: bool,
    /// With the 90 % interval of each time; takes several times as long
    #[arg(long)]
    interval: bool,
    /// Play it with so many seeds, from its own on: percentiles and the worst of each time; all else is of the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim run scenarios/hgx-h100-2node.toml
  fabricsim run cluster.toml --set nodes=8 --seed 7 --format json
  fabricsim run cluster.toml --seeds 20
  fabricsim run scenarios/ib-vs-roce-512.toml --design roce-ecmp
  fabricsim run cluster.toml --out results
  fabricsim run scenarios/incast-roce.toml --series 5us --out results";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input: Input = args::input(Some(&args.scenario))?;
    let mut settings = args.system.settings()?;
    settings.extend(args.series.as_ref().map(|every| Setting::text("--series", "observe.interval", every)));
    let loaded = context.load(&input, settings)?;
    let others = Others::after(&loaded, args.seeds, (&input, &args.system), context)?;
    if loaded.scenario.workloads.is_empty() {
        let fault = Diagnostic::new(Code::NoWorkload, "nothing to run: the scenario has no `[[workload]]`")
            .help("add one: [[workload]] kind = \"collective\" op = \"all_reduce\", each on a line of its own")
            .help("or run one operation: fabricsim bench all_reduce --scenario FILE");
        return Err(Failure::of(Exit::Usage, fault));
    }
    let view = View {
        format: args.output.format,
        table: None,
        explain: if args.explain { Explain::Model } else { Explain::No },
        best: None,
        tuner: None,
        timeline: args.timeline.as_deref(),
        out: args.out.as_deref(),
        force: args.force,
        play_all: args.no_fast_forward,
        interval: args.interval,
    };
    play::play(&loaded, Some(&others), &args.scenario.display().to_string(), view, context)
}
