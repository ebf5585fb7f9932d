//! `run`: plays the workloads of a scenario.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::args::{self, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::play::{self, View};
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Input, Loaded, Setting};
use crate::simulate::Explain;

/// Play the workloads of a scenario; --out writes every artifact
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario; `-` is standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Say why each algorithm and protocol was taken or not
    #[arg(long)]
    explain: bool,
    /// Write result.json, tables as CSV and a chart into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite files in --out
    #[arg(long, requires = "out")]
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

/// The most seeds of one call.
pub(super) const MOST_SEEDS: u64 = 10_000;

const EXAMPLES: &str = "\
Examples:
  fabricsim run scenarios/hgx-h100-2node.toml
  fabricsim run cluster.toml --set nodes=8 --seed 7 --format json
  fabricsim run cluster.toml --seeds 20
  fabricsim run cluster.toml --out results";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input: Input = args::input(Some(&args.scenario))?;
    let mut all = seeded(&input, &args.system, args.seeds, context)?;
    let others = all.split_off(1);
    let Some(loaded) = all.pop() else { return Err(Failure::internal("no seed")) };
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
        out: args.out.as_deref(),
        force: args.force,
        play_all: args.no_fast_forward,
        interval: args.interval,
    };
    play::play(&loaded, &others, &args.scenario.display().to_string(), view, context)
}

/// A scenario with its own seed and those that follow, `seeds` in all; warnings are those of the first.
pub(super) fn seeded(input: &Input, system: &System, seeds: u64, context: &Context) -> Result<Vec<Loaded>, Failure> {
    let first = context.load(input, system.settings()?)?;
    let seed = first.scenario.seed;
    let last = seed.checked_add(seeds - 1).filter(|last| i64::try_from(*last).is_ok());
    let Some(last) = last else {
        let message = format!("{seeds} seeds from {seed} on go beyond the last seed, {}", i64::MAX);
        return Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message)));
    };
    let mut all = vec![first];
    let quiet = Context { quiet: true, ..context.clone() };
    for seed in seed + 1..=last {
        let mut other = quiet.clone();
        other.settings.push(Setting::value("--seeds", "seed", seed));
        all.push(other.load(input, system.settings()?)?);
    }
    Ok(all)
}
