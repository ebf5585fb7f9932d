//! `compare`: predicted beside measured.

mod clues;
mod failed;
mod gates;
mod log;
mod verdict;

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use sim_report::compare::{Baseline, Check, Gates, LogComparison, checks};
use sim_report::plot::busbw_chart;
use sim_report::result::{CompareResults, Envelope, Warning};
use sim_report::table::{compare_csv, compare_markdown, compare_text};

use super::args::{self, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::folder::{self, Folder};
use super::measured::Request;
use super::{output, sizes};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};
use crate::scenario::MOST_BYTES;
use failed::Failures;

/// The files that `--out` gets.
const NAMES: &[&str] = &["result.json", "compare.csv", "chart.svg"];

/// Predicted beside measured, per row of nccl-tests logs; gates for CI
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Logs of nccl-tests, text or JSON, in any layout
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// Take the cluster from a scenario
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The operation, where the log doesn't tell it
    #[arg(long, value_name = "OP")]
    op: Option<String>,
    /// Exit with 1 if the mean absolute error is above this: `15%` or 0.15
    #[arg(long, value_name = "SHARE")]
    max_mape: Option<String>,
    /// Thresholds from a TOML file: max_mape, max_median_abs_error, max_p90_abs_error
    #[arg(long, value_name = "FILE")]
    gate_file: Option<PathBuf>,
    /// Hold the errors of each band to those in this file; exit with 1 if one has grown by more than --tolerance
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Growth of a band's median |error| that is no regression: `0.5%` or 0.005, added to it
    #[arg(long, value_name = "SHARE", requires = "baseline")]
    tolerance: Option<String>,
    /// Write the errors of each band into this file, for --baseline
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
    /// Write bands and thresholds as JUnit XML into this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Leave larger sizes out: on many ranks they take longest, and say little more
    #[arg(long, value_name = "SIZE")]
    max_bytes: Option<String>,
    /// With the 90 % interval of each prediction, and the share of rows in it; takes several times as long
    #[arg(long)]
    interval: bool,
    /// Write the comparison and a plot into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    system: System,
    /// The form of the answer
    #[arg(long, value_name = "FORM", default_value = "text", help_heading = "Output")]
    format: CompareFormat,
}

/// The forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompareFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// GitHub Markdown, for a job's summary or an issue.
    #[value(name = "github-markdown", aliases = ["github", "markdown"])]
    Markdown,
}

const EXAMPLES: &str = "\
Ranks, operation and sizes come from the log's own header; flags win. The pattern in words follows from the residuals' shape, from
the rates of NICs and slots, and from predictions of the same sizes with something otherwise.

Examples:
  fabricsim compare nccl.log --system hgx-h100 --nodes 2
  fabricsim compare a.log b.log --scenario cluster.toml --max-mape 15%
  fabricsim compare *.log --scenario cluster.toml --write-baseline baseline.toml
  fabricsim compare *.log --scenario cluster.toml --baseline baseline.toml --junit report.xml
  fabricsim compare nccl.log --system hgx-h100 --format github-markdown >> \"$GITHUB_STEP_SUMMARY\"
  mpirun ... all_reduce_perf -b 8 -e 8G -f 2 | tee nccl.log; fabricsim compare nccl.log --system hgx-h100";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input = args::input(args.scenario.as_ref())?;
    let op = match &args.op {
        Some(op) => Some(op.parse().map_err(|_| super::bench::unknown_operation(op))?),
        None => None,
    };
    let mut thresholds = args.gate_file.as_deref().map(gates::read).transpose()?.unwrap_or_default();
    if let Some(share) = args.max_mape.as_deref().map(|text| share("--max-mape", text)).transpose()? {
        thresholds.max_mape = Some(share);
    }
    let tolerance = args.tolerance.as_deref().map(|text| share("--tolerance", text)).transpose()?;
    let before = args.baseline.as_deref().map(verdict::read).transpose()?;
    files(args, context)?;
    let folder = args.out.as_deref().map(|out| Folder::prepare(out, NAMES, args.force)).transpose()?;
    let mut faults = Diagnostics::new();
    let most = args.max_bytes.as_deref().map(|text| sizes::size("--max-bytes", text, &mut faults));
    let Some(most) = most.unwrap_or(Some(MOST_BYTES)) else { return Err(Failure::usage(faults)) };
    let request = Request { input, settings: args.system.settings()?, op, interval: args.interval, most };
    let interrupt = super::interrupt::flag();
    let bar = super::play::progress(context);
    let (mut logs, mut notes, mut failures) = (Vec::new(), Vec::new(), Failures::default());
    for path in &args.logs {
        let name = path.display().to_string();
        if interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            failures.interrupted(&name);
            break;
        }
        match log::compare(path, &request, &interrupt, bar.as_ref(), context, &mut notes, &mut failures) {
            Ok(compared) => logs.extend(compared),
            Err(failure) => failures.push(&name, failure),
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let now = Baseline::of(&logs, env!("CARGO_PKG_VERSION"));
    let missing = before.as_ref().map_or_else(Vec::new, |before| before.missing(&now));
    let missing = missing.into_iter().filter(|log| !failures.explain(log)).collect();
    let changes = before.map_or_else(Vec::new, |before| before.compare(&now, tolerance.unwrap_or(verdict::TOLERANCE)));
    let gates = Gates { thresholds, changes, missing, failed: failures.told() };
    let checks = checks(&logs, &gates);
    show(args, &logs, &gates, &checks, notes, folder.as_ref(), context)?;
    if let Some(path) = &args.junit {
        verdict::write_junit(path, &checks, args.force)?;
    }
    let missed = verdict::missed(&checks, &gates.missing);
    if let Some(mut failure) = failures.all() {
        missed.list.into_iter().for_each(|fault| failure.diagnostics.push(fault));
        return Err(failure);
    }
    // Only of logs that could all be compared: one that is missing would be missed later.
    if let Some(path) = &args.write_baseline {
        verdict::write(path, &now, args.force)?;
    }
    if missed.list.is_empty() { Ok(()) } else { Err(Failure { diagnostics: missed, exit: Exit::Missed }) }
}

/// Sees before the work that all files can be written, and that none takes the place of another.
fn files(args: &Args, context: &Context) -> Result<(), Failure> {
    let single = [("--write-baseline", &args.write_baseline), ("--junit", &args.junit)];
    let single: Vec<(&str, PathBuf)> =
        single.into_iter().filter_map(|(flag, path)| Some((flag, path.clone()?))).collect();
    let mut outputs = single.clone();
    outputs.extend(args.out.as_deref().map(|out| folder::files(out, NAMES)).unwrap_or_default());
    let others = [("the gate file", &args.gate_file), ("the baseline", &args.baseline)];
    let others = others.into_iter().filter_map(|(what, path)| Some((what, path.clone()?)));
    let logs = args.logs.iter().map(|log| ("a log", log.clone()));
    let read: Vec<_> = logs.chain(others).chain(args.system.files(args.scenario.as_deref(), context)).collect();
    output::apart(&outputs, &read)?;
    single.iter().try_for_each(|(_, path)| output::writable(path, args.force))
}

/// Prints and stores what could be compared.
fn show(
    args: &Args,
    logs: &[LogComparison],
    gates: &Gates,
    checks: &[Check],
    notes: Vec<Warning>,
    folder: Option<&Folder>,
    context: &Context,
) -> Result<(), Failure> {
    let mut results = CompareResults::from(logs);
    results.changes.clone_from(&gates.changes);
    results.missing.clone_from(&gates.missing);
    results.failed.clone_from(&gates.failed);
    if args.interval {
        results.in_interval = sim_report::compare::in_range(logs.iter().flat_map(|log| &log.rows));
    }
    let name = args.scenario.as_ref().map_or_else(|| "compare".to_owned(), |p| p.display().to_string());
    let envelope = Envelope::new(name, context.seed.unwrap_or(1), &results).with_warnings(notes);
    let json = envelope.to_json().map_err(Failure::internal)?;
    if let Some(folder) = folder {
        folder.file("result.json", json.as_bytes())?;
        folder.table("compare.csv", |out| compare_csv(out, &results))?;
        if let Ok(svg) = busbw_chart(logs) {
            folder.file("chart.svg", svg.as_bytes())?;
        }
        folder.finish()?;
    }
    match args.format {
        CompareFormat::Json => output::print(&json),
        // What went wrong follows on standard error.
        CompareFormat::Text if logs.is_empty() => Ok(()),
        CompareFormat::Text => output::print(&compare_text(&results)),
        CompareFormat::Markdown => output::print(&compare_markdown(&results, checks)),
    }
}

/// `15%` or `0.15` as a ratio.
fn share(flag: &str, text: &str) -> Result<f64, Failure> {
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 0.01),
        None => (trimmed, 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => {
            let ratio = value * scale;
            if scale == 1.0 && value > 1.0 {
                let fault = Diagnostic::new(
                    Code::BadArgument,
                    format!("`{}` as a ratio is {:.0} %", shorten(text), value * 100.0),
                );
                return Err(Failure::of(Exit::Usage, fault.help(format!("write {value}% if percent are meant"))));
            }
            Ok(ratio)
        }
        _ => {
            let fault = Diagnostic::new(Code::BadArgument, format!("`{}` is not a share", shorten(text)));
            Err(Failure::of(Exit::Usage, fault.help(format!("{flag} 15%, or {flag} 0.15"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares() {
        assert!((share("--max-mape", "15%").unwrap() - 0.15).abs() < 1e-12);
        assert!((share("--max-mape", "0.15").unwrap() - 0.15).abs() < 1e-12);
        for bad in ["15", "-1%", "nan", "", "%", "x"] {
            assert!(share("--max-mape", bad).is_err(), "{bad}");
        }
    }
}
