//! `topo`: what is connected to what, and how well.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::args::{self, Format, Output, System};
use super::context::{Context, warnings};
use super::fault::Failure;
use super::output;
use crate::scenario::Input;

/// The device graph: path-class matrix, pairs by path kind, bisection, oversubscription, bill of materials
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario; `-` is standard input
    #[arg(value_name = "SCENARIO")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim topo scenarios/rail-4x8.toml
  fabricsim topo --system hgx-h100 --nodes 4
  fabricsim topo scenarios/rail-4x8.toml --set software.pxn=false --format json";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input = args::input(args.scenario.as_ref())?;
    if input == Input::Flags && args.system.system.is_none() {
        return Err(args::no_cluster("topo"));
    }
    let loaded = context.load(&input, args.system.settings()?)?;
    let _ = (warnings(&loaded.diagnostics), Format::Json, args.output.format);
    output::print(&format!("{}\n", loaded.scenario.describe()))
}
