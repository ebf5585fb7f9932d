//! The command line: one file a verb.
//!
//! Answers go to standard output, everything else to standard error. Exit codes are those of [`Exit`].

mod ab;
mod args;
mod bench;
mod catalog;
mod check;
mod compare;
mod completions;
mod context;
mod diff;
mod explain;
mod fault;
mod fit;
mod folder;
mod import;
mod init;
mod interrupt;
mod measured;
mod others;
mod output;
mod path;
mod place;
mod play;
mod run;
mod schema;
mod sizes;
mod sweep;
mod topo;
mod usage;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::diagnostic::{Style, text};
use crate::scenario::Setting;
use args::Colour;
use context::Context;
pub use fault::{Exit, Failure};

/// Predicts what a GPU cluster's network will do: all-reduce and friends, over NVLink, PCIe, InfiniBand and RoCE.
#[derive(Debug, Parser)]
#[command(name = "fabricsim", version, max_term_width = 110, disable_help_subcommand = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    common: args::Common,
    #[command(subcommand)]
    verb: Option<Verb>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, thresholds met · 1 a given threshold was missed · 2 bad usage or invalid scenario · 3 a measurement \
file could not be read · 4 stopped at a limit or deadlock · 70 internal fault · 130 interrupted";

const EXAMPLES: &str = "\
fabricsim predicts what a GPU cluster's network will do. For a first answer, try one of these:

  fabricsim bench all_reduce --system hgx-h100 --nodes 2     an nccl-tests table, predicted
  fabricsim ab --link nvlink=450GBps,1us --link ib=50GBps,3us   what a message costs on a link
  fabricsim init hgx-h100-2node                              write a commented scenario to edit
  fabricsim topo --system hgx-h100 --nodes 4                 what is connected to what, and how well
  fabricsim compare nccl.log --system hgx-h100 --nodes 2     predicted beside measured

`fabricsim --help` lists all verbs, `fabricsim explain busbw` explains a term.
";

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Args),
    Check(check::Args),
    Ab(ab::Args),
    Topo(topo::Args),
    Path(path::Args),
    Bench(Box<bench::Args>),
    Run(run::Args),
    Sweep(sweep::Args),
    Place(place::Args),
    Diff(diff::Args),
    Compare(Box<compare::Args>),
    Fit(Box<fit::Args>),
    Import(import::Args),
    Catalog(catalog::Args),
    Explain(explain::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    fault::install_panic_hook();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let known = Cli::command();
            let verb = std::env::args().skip(1).find(|word| known.find_subcommand(word).is_some());
            let failure = usage::failure(&error, verb.as_deref());
            let _ = write!(std::io::stderr(), "{}", text(&failure.diagnostics, style(Colour::Auto)));
            return failure.exit.into();
        }
        Err(help) => {
            // Nothing can be done if the terminal is gone.
            let _ = help.print();
            return Exit::Done.into();
        }
    };
    let context = context(&cli.common);
    let result = match &cli.verb {
        None => output::print(EXAMPLES),
        Some(verb) => dispatch(verb, &context),
    };
    match result {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            failure.report(&context);
            failure.exit.into()
        }
    }
}

fn dispatch(verb: &Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Init(args) => init::run(args, context),
        Verb::Check(args) => check::run(args, context),
        Verb::Ab(args) => ab::run(args, context),
        Verb::Topo(args) => topo::run(args, context),
        Verb::Path(args) => path::run(args, context),
        Verb::Bench(args) => bench::run(args, context),
        Verb::Run(args) => run::run(args, context),
        Verb::Sweep(args) => sweep::run(args, context),
        Verb::Place(args) => place::run(args, context),
        Verb::Diff(args) => diff::run(args, context),
        Verb::Compare(args) => compare::run(args, context),
        Verb::Fit(args) => fit::run(args, context),
        Verb::Import(args) => import::run(args, context),
        Verb::Catalog(args) => catalog::run(args, context),
        Verb::Explain(args) => explain::run(args, context),
        Verb::Schema(args) => schema::run(args, context),
        Verb::Completions(args) => completions::run(args, context, &mut Cli::command()),
    }
}

fn style(colour: Colour) -> Style {
    match colour {
        Colour::Always => Style::Coloured,
        Colour::Never => Style::Plain,
        Colour::Auto => match anstream::AutoStream::choice(&std::io::stderr()) {
            anstream::ColorChoice::Never => Style::Plain,
            _ => Style::Coloured,
        },
    }
}

fn context(common: &args::Common) -> Context {
    let style = style(common.color);
    // Files first: a single key on the command line holds against a row of a file.
    let files = common.catalogue.iter().map(|path| Setting::catalogue(path.to_string_lossy()));
    let mut settings: Vec<Setting> = files.chain(common.set.iter().map(Setting::set)).collect();
    if let Some(seed) = common.seed {
        settings.push(Setting::value("--seed", "seed", seed));
    }
    Context { quiet: common.quiet, style, settings, seed: common.seed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples_and_help_on_every_argument() {
        for verb in Cli::command().get_subcommands() {
            let name = verb.get_name();
            assert!(verb.get_about().is_some(), "{name}");
            let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("fabricsim {name}")), "{name}: {after}");
            for arg in verb.get_arguments() {
                assert!(arg.get_help().is_some(), "{name} {}", arg.get_id());
            }
        }
    }
}
