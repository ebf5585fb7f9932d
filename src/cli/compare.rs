//! `compare`: predicted beside measured.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::args::{self, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic, shorten};
use crate::scenario::Setting;

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
    /// Thresholds from a file
    #[arg(long, value_name = "FILE")]
    gate_file: Option<PathBuf>,
    /// Write the comparison and a plot into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite files in --out
    #[arg(long, requires = "out")]
    force: bool,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Ranks, operation and sizes come from the log's own header; flags win.

Examples:
  fabricsim compare nccl.log --system hgx-h100 --nodes 2
  fabricsim compare a.log b.log --scenario cluster.toml --max-mape 15%
  mpirun ... all_reduce_perf -b 8 -e 8G -f 2 | tee nccl.log; fabricsim compare nccl.log --system hgx-h100";

/// What a comparison is asked for, checked.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// The logs.
    pub(super) logs: &'a [PathBuf],
    /// The cluster's scenario, or flags only.
    pub(super) input: crate::scenario::Input,
    /// The flags of the cluster as keys; `--nodes` may be among them or come from the log.
    pub(super) settings: Vec<Setting>,
    /// The operation.
    pub(super) op: Option<sim_collectives::nccl::Operation>,
    /// The threshold as a ratio.
    pub(super) max_mape: Option<f64>,
    /// A file of thresholds.
    pub(super) gate_file: Option<&'a PathBuf>,
    /// The folder for artifacts.
    pub(super) out: Option<&'a PathBuf>,
    /// Overwrite what is there.
    pub(super) force: bool,
    /// Text or JSON.
    pub(super) format: args::Format,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input = args::input(args.scenario.as_ref())?;
    let op = match &args.op {
        Some(op) => Some(op.parse().map_err(|_| super::bench::unknown_operation(op))?),
        None => None,
    };
    let request = Request {
        logs: &args.logs,
        input,
        settings: args.system.settings()?,
        op,
        max_mape: args.max_mape.as_deref().map(share).transpose()?,
        gate_file: args.gate_file.as_ref(),
        out: args.out.as_ref(),
        force: args.force,
        format: args.output.format,
    };
    compare(&request, context)
}

/// Compares; stands where the reader of logs and the engine are to be called.
fn compare(request: &Request<'_>, _context: &Context) -> Result<(), Failure> {
    let _ = (&request.input, &request.settings, request.op, request.max_mape, request.gate_file);
    let _ = (request.out, request.force, request.format);
    Err(Failure::internal(format!("the comparison of {} logs is not wired", request.logs.len())))
}

/// `15%` or `0.15` as a ratio.
fn share(text: &str) -> Result<f64, Failure> {
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
            Err(Failure::of(Exit::Usage, fault.help("--max-mape 15%, or --max-mape 0.15")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares() {
        assert!((share("15%").unwrap() - 0.15).abs() < 1e-12);
        assert!((share("0.15").unwrap() - 0.15).abs() < 1e-12);
        for bad in ["15", "-1%", "nan", "", "%", "x"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
