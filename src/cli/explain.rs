//! `explain`: a page on a code or a term.

use clap::Args as ClapArgs;
use serde_json::json;

use super::args::{Format, Output};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{Code, Diagnostic, shorten};
use crate::explain::{TERMS, find};

/// Half a page on a diagnostic's code or a term of the field
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A code such as E012, or a term such as busbw; without it, the list
    #[arg(value_name = "CODE|TERM")]
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim explain E012
  fabricsim explain busbw
  fabricsim explain";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let seed = context.seed.unwrap_or(1);
    let Some(name) = &args.name else {
        let entries: Vec<(&str, &str)> = Code::ALL
            .iter()
            .map(|c| (c.id(), c.entry().title))
            .chain(TERMS.iter().map(|t| (t.name, t.title)))
            .collect();
        return match args.output.format {
            Format::Json => {
                let list: Vec<_> =
                    entries.iter().map(|(name, title)| json!({ "name": name, "title": title })).collect();
                output::print_json("explain", seed, Vec::new(), json!({ "pages": list }))
            }
            Format::Text => {
                let lines: Vec<String> = entries.iter().map(|(name, title)| format!("{name:<17}{title}\n")).collect();
                output::print(&lines.concat())
            }
        };
    };
    let page = find(name).map_err(|alike| {
        let fault = Diagnostic::new(Code::BadArgument, format!("no page on `{}`", shorten(name)));
        let fault = fault.maybe_help(alike.map(|a| format!("did you mean `{a}`?")));
        Failure::of(Exit::Usage, fault.help("`fabricsim explain` lists all pages"))
    })?;
    match args.output.format {
        Format::Json => {
            let results = json!({ "name": page.name, "title": page.title, "text": page.body });
            output::print_json("explain", seed, Vec::new(), results)
        }
        Format::Text => output::print(&format!("{}: {}\n\n{}\n", page.name, page.title, page.body)),
    }
}
