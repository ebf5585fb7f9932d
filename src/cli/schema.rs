//! `schema`: the JSON Schema and the reference page of scenarios.

use clap::Args as ClapArgs;

use super::args::{Format, Output};
use super::context::Context;
use super::fault::Failure;
use super::output;
use crate::scenario::{json_schema, markdown};

/// The JSON Schema of scenario files, or their reference page
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print the reference page (docs/scenario.md) in place of the schema
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Both forms of --format print the schema as JSON (draft 2020-12), for editors such as those with Taplo or tombi.

Examples:
  fabricsim schema > scenario.schema.json
  fabricsim schema --markdown | less";

pub(super) fn run(args: &Args, _context: &Context) -> Result<(), Failure> {
    if args.markdown && args.output.format == Format::Text {
        return output::print(&markdown());
    }
    let text = serde_json::to_string_pretty(&json_schema()).map_err(Failure::internal)?;
    output::print(&(text + "\n"))
}
