//! `run`: plays the workloads of a scenario.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_core::outcome::StopReason;

use super::args::{self, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::play::{self, View};
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Input, Loaded, Setting};
use crate::simulate::seeds::{self, Digest};
use crate::simulate::{Explain, Options};

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
    /// Sample queues and rates each such time (`10us`): in --out as series.csv, queues.svg and rates.svg
    #[arg(long, value_name = "TIME")]
    series: Option<String>,
    /// Write result.json, tables as CSV and charts into this folder
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
        out: args.out.as_deref(),
        force: args.force,
        play_all: args.no_fast_forward,
        interval: args.interval,
    };
    play::play(&loaded, Some(&others), &args.scenario.display().to_string(), view, context)
}

/// The seeds that follow a scenario's own. They are loaded a few at a time, as each may have another fabric.
#[derive(Clone, Debug)]
pub(super) struct Others<'a> {
    input: &'a Input,
    system: &'a System,
    context: Context,
    seeds: Vec<u64>,
}

impl<'a> Others<'a> {
    /// Those of `seeds` in all that follow `first`.
    pub(super) fn after(
        first: &Loaded,
        seeds: u64,
        (input, system): (&'a Input, &'a System),
        context: &Context,
    ) -> Result<Self, Failure> {
        let seed = first.scenario.seed;
        let last = seed.checked_add(seeds - 1).filter(|last| i64::try_from(*last).is_ok());
        let Some(last) = last else {
            let message = format!("{seeds} seeds from {seed} on go beyond the last seed, {}", i64::MAX);
            return Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message)));
        };
        // Warnings are those of the first.
        let context = Context { quiet: true, ..context.clone() };
        Ok(Self { input, system, context, seeds: (seed + 1..=last).collect() })
    }

    /// Whether there is none.
    pub(super) fn are_none(&self) -> bool {
        self.seeds.is_empty()
    }

    fn load(&self, seed: u64) -> Result<Loaded, Failure> {
        let mut context = self.context.clone();
        context.settings.push(Setting::value("--seeds", "seed", seed));
        context.load(self.input, self.system.settings()?)
    }

    /// Plays them, up to where the user interrupts.
    pub(super) fn play(&self, options: &Options<'_>) -> Result<Vec<Digest>, Failure> {
        let mut all = Vec::new();
        for some in self.seeds.chunks(rayon::current_num_threads().max(1) * 4) {
            let some = some.iter().map(|seed| self.load(*seed)).collect::<Result<Vec<_>, _>>()?;
            all.extend(seeds::run_all(&some, options).map_err(|error| play::failure(&error, some.first()))?);
            if all.iter().any(|one| matches!(one.stopped, Some((StopReason::Interrupted, _)))) {
                break;
            }
        }
        Ok(all)
    }
}
