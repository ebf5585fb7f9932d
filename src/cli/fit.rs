//! `fit`: timing parameters from measurements.

mod file;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use sim_collectives::timing::Key;
use sim_core::outcome::StopReason;
use sim_core::units::Span;
use sim_report::compare::{Band, LogComparison, Placement};
use sim_report::result::{
    Envelope, FitCorrelation, FitHeldOut, FitLeftOut, FitLog, FitParameter, FitResults, ParameterResult, Warning,
};
use sim_report::table::fit_text;

use super::args::{self, Format, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::measured::{self, Case, Request};
use super::{interrupt, output, play, sizes};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten, suggest};
use crate::fit::{self, Bounds, FitError, Measured, Options, Outcome, identify};

/// Fit timing parameters to nccl-tests logs, with errors on held-out clusters, and write them as a profile
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Logs of nccl-tests; NAME=FILE says on which cluster, files without a name are each one of its own
    #[arg(value_name = "[NAME=]LOG", required = true)]
    logs: Vec<String>,
    /// Take the cluster from a scenario
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The operation, where the logs don't tell it
    #[arg(long, value_name = "OP")]
    op: Option<String>,
    /// What to fit, as names or groups: nvls,network.ll_us (repeatable). Without it, what the logs can tell
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    parameters: Vec<String>,
    /// Where a parameter may go, such as nvls.loop_us=2..8 (repeatable)
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    bound: Vec<String>,
    /// Leave larger sizes out: they say the same, and take longest
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    max_bytes: String,
    /// Write the parameters into this file, for `[profile] from = "FILE"` or `--profile FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file
    #[arg(long, requires = "out")]
    force: bool,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Ranks, operation and sizes come from the logs' own headers; flags win. docs/fitting.md says how it is done.

Examples:
  fabricsim fit nccl.log --system hgx-h100 --out profile.toml
  fabricsim fit a=a1.log a=a2.log b=b.log --system hgx-h100 --parameters nvls,network.ll_us
  fabricsim bench all_reduce --system hgx-h100 --profile profile.toml";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input = args::input(args.scenario.as_ref())?;
    let op = match &args.op {
        Some(op) => Some(op.parse().map_err(|_| super::bench::unknown_operation(op))?),
        None => None,
    };
    let mut faults = Diagnostics::new();
    let Some(most) = sizes::size("--max-bytes", &args.max_bytes, &mut faults) else {
        return Err(Failure::usage(faults));
    };
    let bounds = args.bound.iter().map(|text| bound(text)).collect::<Result<Vec<_>, Failure>>()?;
    if let Some(path) = &args.out {
        // Before the work, so that it isn't lost because of a typing error.
        output::writable(path, args.force)?;
        let logs = args.logs.iter().map(|text| ("a log", labelled(text).1.to_owned()));
        let read: Vec<_> = logs.chain(args.system.files(args.scenario.as_deref(), context)).collect();
        output::apart(&[("--out", path.clone())], &read)?;
    }
    let request = Request { input, settings: args.system.settings()?, op, interval: false, most };
    let mut notes = Vec::new();
    let mut cases: Vec<(String, String, Case)> = Vec::new();
    for text in &args.logs {
        let (cluster, path) = labelled(text);
        let name = path.display().to_string();
        let log = measured::read(path, &name)?;
        measured::damage(&name, &log, context, &mut notes);
        for (number, table) in log.tables.iter().enumerate() {
            let shown = if number == 0 { name.clone() } else { format!("{name}#{}", number + 1) };
            let case = measured::case(&shown, &log, table, &request, context, &mut notes)?;
            measured::same_generation(&shown, &case)?;
            cases.push((shown, cluster.to_owned(), case));
        }
    }
    let tables: Vec<Measured<'_>> = cases
        .iter()
        .map(|(name, cluster, case)| {
            let one = |row| Some((case.request(row), Span::from_us_f64(measured::time(row)?)));
            let rows = case.rows(most).filter_map(one).collect();
            let (name, cluster) = (name.clone(), cluster.clone());
            Measured { name, cluster, loaded: &case.loaded, group: case.group.clone(), calls: case.calls(), rows }
        })
        .collect();
    let options = Options { parameters: args.parameters.clone(), bounds, interrupt: Some(interrupt::flag()) };
    let outcome = fit::fit(&tables, &options).map_err(|error| failure(&error, &cases))?;
    let results = results(&tables, &outcome);
    if let Some(path) = &args.out {
        let text = file::profile(&tables, &outcome);
        output::write(path, text.as_bytes(), args.force)?;
    }
    show(args, &results, notes, context)
}

fn show(args: &Args, results: &FitResults, notes: Vec<Warning>, context: &Context) -> Result<(), Failure> {
    match args.output.format {
        Format::Json => {
            let name = args.scenario.as_ref().map_or_else(|| "fit".to_owned(), |p| p.display().to_string());
            let envelope = Envelope::new(name, context.seed.unwrap_or(1), results).with_warnings(notes);
            output::print(&envelope.to_json().map_err(Failure::internal)?)?;
        }
        Format::Text => output::print(&fit_text(results))?,
    }
    if let Some(path) = &args.out {
        context.note(&format!("saved {}", path.display()));
    }
    Ok(())
}

/// `NAME=FILE`, or a file that is a cluster of its own. A file of that very name comes first.
fn labelled(text: &str) -> (&str, &Path) {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() && !Path::new(text).exists() => {
            (name, Path::new(path))
        }
        _ => (text, Path::new(text)),
    }
}

/// `nvls.loop_us=2..8`.
fn bound(text: &str) -> Result<(String, Bounds), Failure> {
    let read = || {
        let (name, range) = text.split_once('=')?;
        let (low, high) = range.split_once("..")?;
        let bounds = Bounds { low: low.trim().parse().ok()?, high: high.trim().trim_start_matches('=').parse().ok()? };
        Some((name.trim().to_owned(), bounds))
    };
    read().ok_or_else(|| {
        let fault =
            Diagnostic::new(Code::BadArgument, format!("`--bound` takes NAME=LOW..HIGH, not `{}`", shorten(text)));
        Failure::of(Exit::Usage, fault.help("--bound nvls.loop_us=2..8"))
    })
}

fn failure(error: &FitError, cases: &[(String, String, Case)]) -> Failure {
    let usage = |code, help: Option<String>| {
        Failure::of(Exit::Usage, Diagnostic::new(code, error.to_string()).maybe_help(help))
    };
    match error {
        FitError::Rows { rows: 0, .. } => {
            let fault = Diagnostic::new(Code::BadLog, "no row can be fitted to");
            let help = "give logs with sizes above zero and up to --max-bytes: all_reduce_perf -b 8 -e 8G -f 2";
            Failure::of(Exit::Unreadable, fault.help(help))
        }
        FitError::Rows { .. } => usage(Code::Unidentified, Some("give more sizes, or fit fewer parameters".to_owned())),
        FitError::Unknown { name } => {
            usage(Code::BadArgument, suggest(name, Key::ALL.iter().map(|key| key.name())).into())
        }
        FitError::Bounds { .. } => {
            let help = "a parameter that is fitted, and zero or more (above zero for rates, at most 1 for shares), low before high";
            usage(Code::BadArgument, Some(help.to_owned()))
        }
        FitError::Obscure(list) => {
            let mut fault = Diagnostic::new(Code::Unidentified, error.to_string());
            for o in list {
                fault = fault.note(format!("{}: {}", o.key, o.reason()));
                fault = fault.help(format!("{}: give {}", o.key, o.needs));
            }
            Failure::of(Exit::Usage, fault.help("or leave them out of --parameters"))
        }
        FitError::Unlike { .. } => usage(
            Code::Unidentified,
            Some("fit each GPU generation and transport by itself: their parameters are not the same ones".to_owned()),
        ),
        FitError::Run { number, error, .. } => play::failure(error, cases.get(*number).map(|c| &c.2.loaded)),
        FitError::Stopped { reason, table } => {
            let limited = cases.iter().any(|c| c.2.loaded.scenario.limits.time.is_some());
            match reason {
                StopReason::Interrupted => {
                    Failure::of(Exit::Interrupted, Diagnostic::new(Code::Interrupted, "interrupted"))
                }
                reason => play::stopped_early(*reason, table, limited),
            }
        }
    }
}

fn bands(tables: &[Measured<'_>], rows: &[fit::Row], predicted: impl Fn(&fit::Row) -> Span) -> Vec<Band> {
    let row = |r: &fit::Row| sim_report::compare::Row {
        bytes: tables[r.table].rows[r.place].0.bytes,
        placement: Placement::OutOfPlace,
        measured_us: r.measured.as_us(),
        predicted_us: predicted(r).as_us(),
        low_us: predicted(r).as_us(),
        high_us: predicted(r).as_us(),
        outlier: false,
        line: 0,
        kind: None,
    };
    let rows = rows.iter().map(row).collect();
    let compared = LogComparison { rows, ..LogComparison::default() };
    compared.bands()
}

fn results(tables: &[Measured<'_>], outcome: &Outcome) -> FitResults {
    let both = |rows: &[fit::Row]| (bands(tables, rows, |r| r.before), bands(tables, rows, |r| r.after));
    let log = |(number, table): (usize, &Measured<'_>)| {
        let own: Vec<fit::Row> = outcome.rows.iter().filter(|r| r.table == number).copied().collect();
        let (before, after) = both(&own);
        let op = table.rows.first().map_or_else(String::new, |r| r.0.operation.to_string());
        FitLog {
            log: table.name.clone(),
            cluster: table.cluster.clone(),
            op,
            ranks: table.group.len() as u32,
            before,
            after,
        }
    };
    FitResults {
        parameters: outcome
            .parameters
            .iter()
            .map(|p| FitParameter {
                name: p.key.to_string(),
                before: p.before,
                before_origin: p.origin.name().to_owned(),
                value: p.value,
                standard_error: p.error,
                low: p.interval.0,
                high: p.interval.1,
                bound_low: p.bounds.low,
                bound_high: p.bounds.high,
                at_bound: p.at_bound(),
            })
            .collect(),
        correlations: outcome
            .correlations
            .iter()
            .map(|c| FitCorrelation {
                a: c.a.to_string(),
                b: c.b.to_string(),
                correlation: c.value,
                hard_to_tell: c.value.abs() > identify::HARD,
            })
            .collect(),
        left_out: outcome
            .left_out
            .iter()
            .map(|o| FitLeftOut { name: o.key.to_string(), reason: o.reason(), needs: o.needs.to_owned() })
            .collect(),
        kept: outcome
            .kept
            .iter()
            .map(|(key, value, origin)| ParameterResult {
                name: key.to_string(),
                value: *value,
                origin: origin.name().to_owned(),
                source: String::new(),
            })
            .collect(),
        logs: tables.iter().enumerate().map(log).collect(),
        held_out: outcome
            .held_out
            .iter()
            .map(|(cluster, rows)| {
                let (before, after) = both(rows);
                FitHeldOut { cluster: cluster.clone(), before, after }
            })
            .collect(),
        rows: outcome.rows.len(),
        scatter: outcome.scatter,
        simulations: outcome.simulations,
    }
}
