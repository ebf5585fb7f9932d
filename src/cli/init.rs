//! `init`: writes a scenario to start from.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::json;
use sim_topology::Catalogue;

use super::args::{Format, Output};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{Code, Diagnostic, shorten, suggest};
use crate::scenario::presets::{self, PRESETS};
use crate::scenario::starter;

/// Write a commented scenario to start from
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A bundled scenario, or a system of the catalogue; without it, a starter with every frequent key
    #[arg(value_name = "PRESET")]
    preset: Option<String>,
    /// Where to write; `-` is standard output. Without it, the preset's name with `.toml` in this folder
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// List the bundled scenarios
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim init                        writes scenario.toml
  fabricsim init hgx-h100-2node         writes the bundled scenario of that name
  fabricsim init hgx-b200 --out -       a starter for that system, to standard output
  fabricsim init --list";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.list {
        return list(args, context);
    }
    let (name, text) = content(args.preset.as_deref())?;
    let path = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.toml")));
    if path == Path::new("-") {
        return output::print(&text);
    }
    output::write(&path, text.as_bytes(), args.force)?;
    match args.output.format {
        Format::Json => {
            let results = json!({ "file": path.display().to_string(), "preset": args.preset });
            output::print_json(&path.display().to_string(), context.seed.unwrap_or(1), Vec::new(), results)
        }
        Format::Text => {
            let shown = path.display();
            context.note(&format!("wrote {shown}; next: fabricsim check {shown}, then fabricsim run {shown}"));
            Ok(())
        }
    }
}

/// The name of the file and its text.
fn content(preset: Option<&str>) -> Result<(String, String), Failure> {
    let Some(wanted) = preset else { return Ok(("scenario".to_owned(), starter("hgx-h100"))) };
    if let Some(preset) = presets::find(wanted) {
        return Ok((preset.name.to_owned(), preset.text.to_owned()));
    }
    let catalogue = Catalogue::builtin();
    if catalogue.system(wanted).is_ok() {
        return Ok((wanted.to_owned(), starter(wanted)));
    }
    let systems: Vec<&str> = catalogue.systems().map(|row| row.name.as_str()).collect();
    let known: Vec<&str> = presets::names().chain(systems).collect();
    let fault = Diagnostic::new(Code::UnknownSystem, format!("no preset or system `{}`", shorten(wanted)));
    Err(Failure::of(
        Exit::Usage,
        fault.help(suggest(wanted, known)).help("`fabricsim init --list` and `fabricsim catalog`"),
    ))
}

fn list(args: &Args, context: &Context) -> Result<(), Failure> {
    match args.output.format {
        Format::Json => {
            let list: Vec<_> = PRESETS.iter().map(|p| json!({ "name": p.name, "title": p.title() })).collect();
            output::print_json("init", context.seed.unwrap_or(1), Vec::new(), json!({ "presets": list }))
        }
        Format::Text => {
            let lines: Vec<String> = PRESETS.iter().map(|p| format!("{:<24}{}\n", p.name, p.title())).collect();
            output::print(&lines.concat())
        }
    }
}
