//! The options of nccl-tests beyond sizes and repeats: those with a meaning here, and those that change no predicted time.

use clap::Args as ClapArgs;
use sim_collectives::nccl::Operation;
use sim_core::units::Bytes;

use super::super::fault::{Exit, Failure};
use super::super::sizes;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten, suggest};
use crate::scenario::{DATATYPES, REDUCTIONS};

/// Sizes of a sweep by a step at most.
const MOST_SIZES: u64 = 1000;
/// nccl-tests' step where `-f 1` is given and `-i` is not.
const STEP: &str = "1M";
/// What stands for every type or operator.
const ALL: &str = "all";

/// Options of nccl-tests.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Options of nccl-tests")]
pub(super) struct Flags {
    /// Type of the elements: float, half, bfloat16, ..., or `all`
    #[arg(short = 'd', long, value_name = "TYPE")]
    datatype: Option<String>,
    /// Operator of a reduction: sum, prod, min, max, avg, mulsum, or `all`; it decides whether NVLS can be used
    #[arg(short = 'o', long, alias = "op", value_name = "OPERATOR")]
    redop: Option<String>,
    /// Rank of the root of broadcast, reduce, gather and scatter; of -1 (each in turn) only 0 is played
    #[arg(short = 'r', long, value_name = "RANK", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..=10_000_000))]
    root: Option<i64>,
    /// Step from one size to the next, in place of a factor; `-f 1` alone is a step of 1M
    #[arg(short = 'i', long = "step-bytes", alias = "stepbytes", value_name = "SIZE")]
    step: Option<String>,
    /// Launches of a captured CUDA graph; any number is as `--graph`, 0 is none
    #[arg(short = 'G', long = "cudagraph", value_name = "N")]
    pub(super) cudagraph: Option<u32>,
    /// Accepted, without effect on the times: threads of a process
    #[arg(short = 't', long = "nthreads", value_name = "N")]
    threads: Option<u32>,
    /// Accepted, without effect: operations of one launch are not put together
    #[arg(short = 'm', long = "agg_iters", alias = "agg-iters", value_name = "N")]
    aggregated: Option<u32>,
    /// Accepted, without effect: cycles
    #[arg(short = 'N', long = "run_cycles", alias = "run-cycles", value_name = "N")]
    cycles: Option<u32>,
    /// Accepted, without effect: how communicators are set up
    #[arg(short = 'p', long = "parallel_init", alias = "parallel-init", value_name = "0/1")]
    parallel: Option<u32>,
    /// Accepted, without effect: checks of results
    #[arg(short = 'c', long = "check", value_name = "N")]
    check: Option<u32>,
    /// Accepted, without effect: calls follow each other without waiting, as with 0
    #[arg(short = 'z', long = "blocking", value_name = "0/1")]
    blocking: Option<u32>,
    /// Accepted, without effect: the stream of calls
    #[arg(short = 'y', long = "stream_null", alias = "stream-null", value_name = "0/1")]
    stream: Option<u32>,
    /// Accepted, without effect: seconds after which a run is given up
    #[arg(short = 'T', long = "timeout", value_name = "S")]
    timeout: Option<u32>,
    /// Accepted, without effect: times are those of the GPUs, as with 0
    #[arg(short = 'C', long = "report_cputime", alias = "report-cputime", value_name = "0/1")]
    cputime: Option<u32>,
    /// Accepted, without effect: times are means over ranks, as with 1
    #[arg(short = 'a', long = "average", value_name = "0-3")]
    average: Option<u32>,
    /// Accepted, without effect: buffers are not registered, as with 0
    #[arg(short = 'R', long = "local_register", alias = "local-register", value_name = "0-2")]
    register: Option<u32>,
}

/// A collective as keys of a workload.
pub(super) struct Sweep {
    /// First size; `None` for an operation without sizes.
    pub(super) ends: Option<(Bytes, Bytes)>,
    /// The ratio of sizes, 1 for a step.
    pub(super) factor: u64,
}

impl Flags {
    /// The tables of workloads for an operation: one for each type and operator that is asked for, each with these keys too.
    pub(super) fn workloads(&self, op: Operation, sweep: &Sweep, keys: &str) -> Result<String, Failure> {
        let datatypes = self.list("-d", self.datatype.as_deref(), DATATYPES, datatype)?;
        let operators = self.list("-o", self.redop.as_deref().filter(|_| op.reduces()), REDUCTIONS, |name| name)?;
        if let Some(name) = self.redop.as_deref().filter(|_| !op.reduces()) {
            // Wrong all the same.
            self.list("-o", Some(name), REDUCTIONS, |name| name)?;
        }
        let mut keys = format!("kind = \"collective\", op = \"{op}\"{}{keys}", self.sizes(sweep)?);
        if let Some(root) = self.root.filter(|root| *root >= 0) {
            keys += &format!(", root = {root}");
        }
        let one = |datatype: &Option<String>, operator: &Option<String>| {
            let pair =
                |key: &str, of: &Option<String>| of.as_ref().map_or_else(String::new, |v| format!(", {key} = \"{v}\""));
            format!("{{ {keys}{}{} }}", pair("datatype", datatype), pair("reduction", operator))
        };
        let all: Vec<String> = datatypes.iter().flat_map(|d| operators.iter().map(move |o| one(d, o))).collect();
        Ok(format!("[{}]", all.join(", ")))
    }

    /// The names that an option means; a single `None` where it isn't given.
    fn list(
        &self,
        flag: &str,
        given: Option<&str>,
        known: &[&str],
        usual: impl Fn(&str) -> &str,
    ) -> Result<Vec<Option<String>>, Failure> {
        let Some(name) = given else { return Ok(vec![None]) };
        if name == ALL {
            return Ok(known.iter().map(|name| Some((*name).to_owned())).collect());
        }
        let name = usual(name);
        if known.contains(&name) {
            return Ok(vec![Some(name.to_owned())]);
        }
        let what = if flag == "-d" { "data type" } else { "operator" };
        let fault = Diagnostic::new(Code::BadArgument, format!("unknown {what} `{}` of `{flag}`", shorten(name)));
        Err(Failure::of(Exit::Usage, fault.help(suggest(name, known.iter().copied().chain([ALL])))))
    }

    /// The keys of the sizes.
    fn sizes(&self, sweep: &Sweep) -> Result<String, Failure> {
        let Some((begin, end)) = sweep.ends else { return Ok(String::new()) };
        if sweep.factor > 1 {
            let (begin, end) = (begin.get(), end.get());
            return Ok(format!(", min = \"{begin} B\", max = \"{end} B\", factor = {}", sweep.factor));
        }
        let mut faults = Diagnostics::new();
        let text = self.step.as_deref().unwrap_or(STEP);
        let Some(step) = sizes::size("-i", text, &mut faults) else { return Err(Failure::usage(faults)) };
        let count = (end.get() - begin.get()).checked_div(step.get()).map(|n| n + 1);
        let refuse = |message: String, help: &str| {
            Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message).help(help)))
        };
        match count {
            None => refuse("a sweep by steps of zero never ends".to_owned(), "-i 1M"),
            Some(n) if n > MOST_SIZES => refuse(
                format!("{n} sizes from {begin} to {end} by steps of {step}; at most {MOST_SIZES} are run"),
                "give a larger step by -i, or a factor by -f",
            ),
            Some(n) => {
                let sizes: Vec<String> = (0..n).map(|i| format!("\"{} B\"", begin.get() + i * step.get())).collect();
                Ok(format!(", sizes = [{}]", sizes.join(", ")))
            }
        }
    }

    /// What the rows are of, where they are of several types or operators.
    pub(super) fn several(&self, op: Operation) -> Option<String> {
        let all = |given: &Option<String>, known: &[&str]| (given.as_deref() == Some(ALL)).then(|| known.join(", "));
        let lists = [all(&self.datatype, DATATYPES), all(&self.redop, REDUCTIONS).filter(|_| op.reduces())];
        let lists: Vec<String> = lists.into_iter().flatten().collect();
        (!lists.is_empty())
            .then(|| format!("rows in the order of {}; --table nccl names them", lists.join(", and of each ")))
    }

    /// Whether sizes go by a step, with `factor` as it was given.
    pub(super) fn by_step(&self, factor: Option<u64>) -> bool {
        factor.map_or(self.step.is_some(), |factor| factor == 1)
    }

    /// Findings on what was given and changes nothing.
    pub(super) fn idle(&self, op: Operation, factor: Option<u64>) -> Vec<Diagnostic> {
        let plain = [
            ("-t", self.threads, 1, "GPUs are told by nodes; -g says how many one thread serves"),
            ("-m", self.aggregated, 1, "each call is a launch of its own"),
            ("-N", self.cycles, 1, "the next cycle would give the same"),
            ("-z", self.blocking, 0, "calls follow each other without waiting"),
            ("-C", self.cputime, 0, "times are those of the GPUs"),
            ("-a", self.average, 1, "times are means over ranks"),
            ("-R", self.register, 0, "registered buffers are not modelled"),
        ];
        let plain = plain.into_iter().filter(|(_, given, same, _)| given.is_some_and(|given| given != *same));
        // What is not timed needs no word: -p, -c, -y and -T.
        let mut all: Vec<(&str, &str)> = plain.map(|(flag, _, _, why)| (flag, why)).collect();
        if self.redop.is_some() && !op.reduces() {
            all.push(("-o", "the operation reduces nothing"));
        }
        if self.root == Some(-1) {
            all.push(("-r -1", "only root 0 is played, not each in turn"));
        }
        if self.step.is_some() && !self.by_step(factor) {
            all.push(("-i", "a factor by -f comes first, as in nccl-tests"));
        }
        let warning = |(flag, why)| {
            Diagnostic::new(Code::NoEffect, format!("`{flag}` has no effect on what is predicted: {why}"))
        };
        all.into_iter().map(warning).collect()
    }
}

/// The name of a type as scenarios have it.
fn datatype(name: &str) -> &str {
    match sim_report::nccl_log::DataType::from_name(name) {
        Some(known) => known.name(),
        None => name,
    }
}
