//! `diff`: several scenarios, or designs of one, side by side.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_report::result::{DesignResult, DiffResults};
use sim_report::table::diff_text;

use super::args::{self, Format, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::others::{MOST_SEEDS, Others, Played};
use super::play;
use super::{interrupt, output};
use crate::diagnostic::{Code, Diagnostic};
use crate::simulate::Options;
use crate::simulate::seeds::Digest;

/// Play several scenarios, or the designs of one, and show their times side by side, against the first
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenarios, the one to compare with first; `-` is standard input
    #[arg(value_name = "SCENARIO", required = true, num_args = 1..)]
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
  fabricsim diff scenarios/ib-vs-roce-512.toml
  fabricsim diff scenarios/rail-2to1/*.toml --seeds 5
  fabricsim diff a.toml b.toml --set nodes=8 --format json";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut designs: Vec<DesignResult> = Vec::new();
    let mut told = Vec::new();
    let mut stopped = None;
    let mut first_seed = 1;
    let options = Options { interrupt: Some(interrupt::flag()), ..Options::default() };
    for path in &args.scenarios {
        let file = path.display().to_string();
        let input = args::input(Some(path))?;
        let loaded = context.load(&input, args.system.settings()?)?;
        let others = Others::after(&loaded, args.seeds, (&input, &args.system), context)?;
        if loaded.scenario.workloads.is_empty() {
            let fault = Diagnostic::new(Code::NoWorkload, format!("`{file}` has no `[[workload]]`"));
            return Err(Failure::of(Exit::Usage, fault.help("`diff` plays the workloads of each scenario")));
        }
        if args.scenarios.len() == 1 && !others.have_designs() {
            let fault = Diagnostic::new(Code::BadArgument, "there is nothing to set side by side with it");
            let fault = fault.help(format!("fabricsim diff {file} OTHER.toml, or several `[[design]]` in the file"));
            return Err(Failure::of(Exit::Usage, fault));
        }
        if designs.is_empty() {
            first_seed = loaded.scenario.seed;
        }
        let report = loaded.run_with(&options).map_err(|error| play::failure(&error, Some(&loaded)))?;
        let mut all = vec![Digest::of(&loaded, &report)];
        all.extend(others.over_seeds(loaded.designs.name(), &options)?);
        let one = Played::of(&file, &loaded, &report, &all, designs.first());
        let base = designs.first().unwrap_or(&one.result).clone();
        for one in core::iter::once(one).chain(others.designs(&file, &options, &base)?) {
            stopped = stopped.or(one.stopped);
            told.extend(one.warnings);
            designs.push(one.result);
        }
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
