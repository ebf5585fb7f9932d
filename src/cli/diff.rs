//! `diff`: several scenarios side by side.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_report::result::{DesignResult, DiffResults};
use sim_report::table::diff_text;

use super::args::{self, Format, Output, System};
use super::context::{Context, warnings};
use super::fault::{Exit, Failure};
use super::play;
use super::run::{MOST_SEEDS, Others};
use super::{interrupt, output};
use crate::diagnostic::{Code, Diagnostic};
use crate::simulate::Options;
use crate::simulate::seeds::{self, Digest};

/// Play several scenarios and show their times side by side, against the first
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenarios, the one to compare with first; `-` is standard input
    #[arg(value_name = "SCENARIO", required = true, num_args = 2..)]
    scenarios: Vec<PathBuf>,
    /// Play each with so many seeds, from its own on, and show medians with 5th and 95th percentiles
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim diff ib.toml roce.toml
  fabricsim diff scenarios/rail-2to1/*.toml --seeds 5
  fabricsim diff a.toml b.toml --set nodes=8 --format json";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut designs: Vec<DesignResult> = Vec::new();
    let mut told = Vec::new();
    let mut stopped = None;
    let mut first_seed = 1;
    let flag = interrupt::flag();
    for path in &args.scenarios {
        let file = path.display().to_string();
        let input = args::input(Some(path))?;
        let loaded = context.load(&input, args.system.settings()?)?;
        let others = Others::after(&loaded, args.seeds, (&input, &args.system), context)?;
        if loaded.scenario.workloads.is_empty() {
            let fault = Diagnostic::new(Code::NoWorkload, format!("`{file}` has no `[[workload]]`"));
            return Err(Failure::of(Exit::Usage, fault.help("`diff` plays the workloads of each scenario")));
        }
        if designs.is_empty() {
            first_seed = loaded.scenario.seed;
        }
        told.extend(warnings(&loaded.diagnostics));
        let options = Options { interrupt: Some(flag.clone()), ..Options::default() };
        let report = loaded.run_with(&options).map_err(|error| play::failure(&error, Some(&loaded)))?;
        let mut all = vec![Digest::of(&loaded, &report)];
        all.extend(others.play(&options)?);
        let limited = loaded.scenario.limits.time.is_some();
        let first_stopped = all.iter().find_map(|one| one.stopped.clone());
        stopped = stopped.or(first_stopped.map(|(reason, at)| (reason, at, limited)));
        designs.push(seeds::design(&file, &loaded, &report, &all, designs.first()));
    }
    let results = DiffResults { seeds: args.seeds, designs };
    match args.output.format {
        Format::Text => output::print(&diff_text(&results))?,
        Format::Json => output::print_json("diff", first_seed, told, &results)?,
    }
    match stopped {
        Some((reason, at, limited)) => Err(play::stopped_early(reason, &at, limited)),
        None => Ok(()),
    }
}
