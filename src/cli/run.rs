//! `run`: plays the workloads of a scenario.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::args::{self, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::play::{self, View};
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::Input;
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
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim run scenarios/hgx-h100-2node.toml
  fabricsim run cluster.toml --set nodes=8 --seed 7 --format json
  fabricsim run cluster.toml --out results";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input: Input = args::input(Some(&args.scenario))?;
    let loaded = context.load(&input, args.system.settings()?)?;
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
    play::play(&loaded, &args.scenario.display().to_string(), view, context)
}
