//! `bench`: an nccl-tests-like sweep of one operation.

mod nccl_tests;

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use sim_collectives::algorithms::{NAMES, Name};
use sim_collectives::nccl::Operation;
use sim_core::units::Bytes;

use super::args::{self, Format, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::play::{self, Table, View};
use super::sizes;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten, suggest};
use crate::scenario::{Input, OPERATIONS, Setting, Workload};
use crate::simulate::{Best, Explain};
use nccl_tests::Sweep;

/// Predict an nccl-tests table: one operation over a sweep of sizes
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The operation: all_reduce, all_gather, reduce_scatter, alltoall, alltoallv, broadcast, reduce, sendrecv, gather,
    /// scatter, dispatch, combine, barrier
    #[arg(value_name = "OP")]
    op: String,
    #[arg(
        short = 'b',
        long = "min-bytes",
        alias = "minbytes",
        value_name = "SIZE",
        help = "First size [default: 8]; a bare number is bytes, K, M and G are binary"
    )]
    begin: Option<String>,
    #[arg(short = 'e', long = "max-bytes", alias = "maxbytes", value_name = "SIZE", help = "Last size [default: 8G]")]
    end: Option<String>,
    /// Ratio of one size to the one before [default: 2]; 1 is a step, by -i
    #[arg(short = 'f', long = "step-factor", alias = "stepfactor", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    factor: Option<u64>,
    /// Operations that are timed, back to back; more than 2 (20 of sendrecv, gather and scatter) only repeat what is known, and are not played
    #[arg(short = 'n', long = "iters", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
    /// Operations before those that are timed; at most 1 is played
    #[arg(short = 'w', long = "warmup-iters", alias = "warmup_iters", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    warmup: u32,
    /// Force an algorithm (ring, pat, one_shot, halving_doubling, ...) or a serving engine's rule (vllm, tensorrt_llm)
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Take the cluster from a scenario; its workloads are replaced by OP
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Print the columns of another tool
    #[arg(long, value_name = "FORM")]
    table: Option<Table>,
    /// Say why each algorithm and protocol was taken or not, and what the others would have taken: by NCCL's own model, and
    /// simulated too where there is one size (`--explain=simulated` for all, `--explain=model` for none)
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    explain: Option<How>,
    /// Simulate every algorithm, protocol and number of channels that NCCL would allow, and say which is fastest; `--best=all`
    /// tries the algorithms too that NCCL has not
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "nccl", conflicts_with = "algorithm")]
    best: Option<Of>,
    /// Write the best of all as a configuration file of NCCL's example tuner plugin
    #[arg(long, value_name = "FILE")]
    tuner: Option<PathBuf>,
    /// Write result.json, collectives.csv, links.csv and a chart into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite files in --out, and the one of --tuner
    #[arg(long)]
    force: bool,
    /// Play also what comes again exactly; the results are the same
    #[arg(long)]
    no_fast_forward: bool,
    /// With the 90 % interval of each time; takes several times as long
    #[arg(long)]
    interval: bool,
    #[command(flatten)]
    tests: nccl_tests::Flags,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

/// What `--explain` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// NCCL's model; simulated times too where there is one size.
    Auto,
    /// NCCL's model only.
    Model,
    /// Simulated times too.
    Simulated,
}

/// What `--best` tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    /// What NCCL would allow.
    Nccl,
    /// Algorithms too that NCCL has not.
    All,
}

/// What the workload that `bench` makes up is said to come from.
pub(super) const ORIGIN: &str = "bench";

const EXAMPLES: &str = "\
Examples:
  fabricsim bench all_reduce --system hgx-h100 --nodes 2
  fabricsim bench alltoall --system hgx-b200 --nodes 4 -b 1M -e 1G -f 4 --transport roce
  fabricsim bench all_reduce --system hgx-h100 --env NCCL_ALGO=Ring --explain
  fabricsim bench all_reduce --system hgx-h100 --nodes 2 -b 64K -e 64M --best --tuner tuner.conf
  fabricsim bench all_reduce --system hgx-h100 -b 1K -e 8M --algorithm vllm
  fabricsim bench all_gather --scenario cluster.toml --table nccl";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let op: Operation = args.op.parse().map_err(|_| unknown_operation(&args.op))?;
    if args.table.is_some() && args.output.format == Format::Json {
        let fault = Diagnostic::new(Code::BadArgument, "`--table nccl` is text, and `--format json` is not");
        return Err(Failure::of(Exit::Usage, fault.help("leave one of the two out")));
    }
    let input = args::input(args.scenario.as_ref())?;
    if input == Input::Flags && !args.system.names_one() {
        return Err(args::no_cluster("bench all_reduce"));
    }
    let best = best(args, op)?;
    let mut loaded = context.load(&input, settings(args, op)?)?;
    let idle = Diagnostics { list: args.tests.idle(op, args.factor), ..Diagnostics::default() };
    context.say(&idle);
    loaded.diagnostics.list.extend(idle.list);
    if let Some(order) = args.tests.several(op).filter(|_| args.table.is_none()) {
        context.note(&format!("note: {order}"));
    }
    let one_size = matches!(loaded.scenario.workloads.as_slice(), [Workload::Collective(c)] if c.sizes.len() == 1);
    let explain = match args.explain {
        None => Explain::No,
        Some(How::Simulated) => Explain::Simulated,
        Some(How::Auto) if one_size => Explain::Simulated,
        Some(How::Auto | How::Model) => Explain::Model,
    };
    let view = View {
        format: args.output.format,
        table: args.table,
        explain,
        best,
        tuner: args.tuner.as_deref(),
        timeline: None,
        out: args.out.as_deref(),
        force: args.force,
        play_all: args.no_fast_forward,
        interval: args.interval,
    };
    let name = args.scenario.as_ref().map_or_else(|| format!("bench {}", args.op), |p| p.display().to_string());
    play::play(&loaded, None, &name, view, context)
}

/// What to look for, with `--tuner` alone what NCCL allows.
fn best(args: &Args, op: Operation) -> Result<Option<Best>, Failure> {
    let best = match args.best {
        Some(Of::All) => Some(Best::All),
        Some(Of::Nccl) => Some(Best::Nccl),
        None => args.tuner.is_some().then_some(Best::Nccl),
    };
    let refuse = |message: String, help: &str| {
        Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message).help(help)))
    };
    let choice = Operation::COLLECTIVES.contains(&op);
    if args.force && args.out.is_none() && args.tuner.is_none() {
        return refuse("`--force` is for `--out` and `--tuner`, and neither is given".to_owned(), "leave it out");
    }
    if args.tuner.is_some() && args.algorithm.is_some() {
        return refuse(
            "`--tuner` looks for the best, and `--algorithm` forces one".to_owned(),
            "leave one of the two out",
        );
    }
    if args.tuner.is_some() && (best == Some(Best::All) || !choice) {
        let help =
            "a tuner file knows the algorithms of NCCL's all_reduce, all_gather, reduce_scatter, broadcast and reduce";
        return refuse(format!("no tuner file can hold the best of all algorithms for {op}"), help);
    }
    if args.tuner.is_some() && args.tests.several(op).is_some() {
        let help = "give one type by -d and one operator by -o";
        return refuse(
            "a tuner file does not tell types and operators apart, and `all` are asked for".to_owned(),
            help,
        );
    }
    if best == Some(Best::Nccl) && !choice {
        let message = format!("NCCL has no choice of algorithms for {op}");
        return refuse(message, "`--best=all` tries the algorithms that fabricsim has for it");
    }
    Ok(best)
}

/// The flags as keys of a scenario: the cluster, and one workload in place of all others.
fn settings(args: &Args, op: Operation) -> Result<Vec<Setting>, Failure> {
    let mut faults = Diagnostics::new();
    let begin = sizes::size("-b", args.begin.as_deref().unwrap_or("8"), &mut faults);
    let end = sizes::size("-e", args.end.as_deref().unwrap_or("8G"), &mut faults);
    let (Some(begin), Some(end)) = (begin, end) else { return Err(Failure::usage(faults)) };
    let by_step = args.tests.by_step(args.factor);
    if begin > end {
        let fault = Diagnostic::new(Code::BadArgument, format!("the sweep begins at {begin} and ends at {end}"));
        return Err(Failure::of(Exit::Usage, fault.help("-b is the smallest size, -e the largest: -b 8 -e 8G")));
    }
    if begin == Bytes::ZERO && end > Bytes::ZERO && !by_step {
        let fault = Diagnostic::new(Code::BadArgument, "a sweep by a factor cannot begin at zero");
        return Err(Failure::of(Exit::Usage, fault.help("-b 8")));
    }
    let forced = match &args.algorithm {
        None => String::new(),
        Some(name) => match name.parse::<Name>() {
            Ok(name) => format!(", algorithm = \"{name}\""),
            Err(_) => return Err(unknown_algorithm(name)),
        },
    };
    let keys = format!("{forced}, iterations = {}, warmup = {}", args.iterations, args.warmup);
    // A barrier has no size; sizes that are given are warned of.
    let sized = op != Operation::Barrier || args.begin.is_some() || args.end.is_some();
    let factor = if by_step { 1 } else { args.factor.unwrap_or(2) };
    let sweep = Sweep { ends: sized.then_some((begin, end)), factor };
    let workload = args.tests.workloads(op, &sweep, &keys)?;
    let mut settings = args.system.settings()?;
    if let Some(launches) = args.tests.cudagraph {
        settings.push(Setting::value("-G", "software.graph", launches > 0));
    }
    settings.push(Setting::value(ORIGIN, "workload", workload));
    Ok(settings)
}

fn unknown_algorithm(name: &str) -> Failure {
    let fault = Diagnostic::new(Code::BadArgument, format!("unknown algorithm `{}`", shorten(name)));
    Failure::of(Exit::Usage, fault.help(suggest(name, NAMES.iter().copied())))
}

/// A fault for an operation that is none, with a did-you-mean.
pub(super) fn unknown_operation(name: &str) -> Failure {
    let fault = Diagnostic::new(Code::BadArgument, format!("unknown operation `{}`", shorten(name)));
    Failure::of(Exit::Usage, fault.help(suggest(name, OPERATIONS.iter().copied())))
}
