//! `place`: the best division of a training step over a cluster, and the best order of its ranks.

mod candidates;
mod ranks;
mod text;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_report::result::{PlacePart, PlaceResults};
use sim_workload::search::{Dimension, why};

use super::args::{self, Format, Output};
use super::context::{Context, warnings};
use super::fault::{Exit, Failure};
use super::{interrupt, output};
use crate::diagnostic::{Code, Diagnostic, suggest};
use crate::scenario::{Input, Loaded, Setting, Step, Workload};
use candidates::{Candidate, Search};

/// Candidates that results list at most; of `--top` there are no more.
const LISTED: usize = 1000;

/// Try divisions of a training step (TP, CP, PP, VP, EP, DP), and orders of its ranks: the best, and why it is
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario, with a `[[workload]]` of kind `step`
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// What is varied, of tp, cp, pp, vp, ep, etp, micro_batch, sequence_parallel, zero (from the scenario's stage on), recompute (the
    /// least from the scenario's on that fits) and order; the rest is as in the scenario
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tp,cp,pp,vp,ep,recompute,order")]
    vary: Vec<String>,
    /// Estimate only so many of all, drawn by the seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Simulate the best K by the estimate; 0 leaves it at that
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=1000))]
    top: u64,
    /// Simulations at the same time. Without it, as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Write where each rank of the best goes, with flags for SLURM and Megatron-LM
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim place step.toml
  fabricsim place step.toml --vary tp,pp,vp --top 5
  fabricsim place step.toml --vary order --out ranks.txt
  fabricsim place step.toml --sample 200 --seed 7 --top 0 --format json";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        output::apart(&[("--out", out.clone())], &[("the scenario", args.scenario.clone())])?;
        output::writable(out, false)?;
    }
    let (vary, orders) = varied(&args.vary)?;
    let input = args::input(Some(&args.scenario))?;
    // Whether the scenario's own sizes fit does not matter to others.
    let number = step_number(&input, context)?;
    let key = |key: &str| format!("workload.{number}.{key}");
    let mut quiet = context.clone();
    quiet.quiet = true;
    let loaded = quiet.load(&input, vec![Setting::value("place", key("memory_check"), false)])?;
    let Some(Workload::Step(step)) = loaded.scenario.workloads.get(number) else { return Err(no_step()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.unwrap_or(0) as usize).build();
    let pool = pool.map_err(Failure::internal)?;
    let any = Loaded::flag(&input, &context.settings, number, "memory_check") == Some(false);
    let search = Search { loaded: &loaded, step, vary: &vary, orders, sample: args.sample, any };
    let (mut list, counts) = pool.install(|| search.estimates())?;
    let estimated = list.len() as u64;
    let flag = interrupt::flag();
    let mut best = (args.top as usize).min(list.len());
    // What the scenario has is simulated, too: what is said to be better should be.
    let own = list.iter().position(|one| one.split.sizes == step.sizes && one.order == step.order);
    let own = own.or_else(|| list.iter().position(|one| one.split.sizes == step.sizes));
    if let Some(at) = own.filter(|at| best > 0 && *at >= best) {
        let one = list.remove(at);
        list.insert(best, one);
        best += 1;
    }
    let told = pool.install(|| search.play(&mut list[..best], (&input, number), context, &flag))?;
    if let Some(note) = told {
        context.note(&note);
    }
    let played = list.iter().filter(|one| one.played.is_some()).count();
    list[..best].sort_by(|a, b| a.time_us().total_cmp(&b.time_us()));
    // What could not be played stands behind what was.
    list[..best].sort_by_key(|one| one.played.is_none());
    let fastest = list.iter().filter_map(|one| one.played.as_ref()).map(|p| p.time_us).fold(f64::INFINITY, f64::min);
    let over = |one: &&Candidate| one.played.is_none() && one.bound.as_us() > fastest;
    let results = PlaceResults {
        model: step.model.to_string(),
        gpus: step.sizes.gpus,
        looked_at: counts.looked_at,
        impossible: counts.impossible,
        too_large: counts.too_large,
        estimated,
        played: played as u64,
        ruled_out: list.iter().filter(over).count() as u64,
        candidates: list.iter().take(LISTED).map(|one| one.row(step)).collect(),
        why: reasons(&list),
    };
    if let (Some(out), Some(first)) = (&args.out, list.first()) {
        output::write(out, ranks::file(&loaded, step, first).as_bytes(), false)?;
    }
    match args.output.format {
        Format::Text => output::print(&text::table(&args.scenario.display().to_string(), &results)),
        Format::Json => {
            // That the scenario's own sizes do not fit says nothing of others.
            let mut told = warnings(&loaded.diagnostics);
            told.retain(|warning| warning.code != Code::WouldNotFit.id());
            output::print_warned(&args.scenario.display().to_string(), &loaded, told, &results)
        }
    }?;
    match flag.load(std::sync::atomic::Ordering::Relaxed) {
        true => Err(Failure::of(Exit::Interrupted, Diagnostic::new(Code::Interrupted, "interrupted"))),
        false => Ok(()),
    }
}

/// Why the first is before the second; nothing if only one of them was simulated.
fn reasons(list: &[Candidate]) -> Vec<PlacePart> {
    let [best, other, ..] = list else { return Vec::new() };
    if best.played.is_some() != other.played.is_some() {
        return Vec::new();
    }
    let parts = why(&best.parts(), &other.parts());
    parts.into_iter().map(|(name, time_us)| PlacePart { name, time_us }).collect()
}

/// The dimensions that vary, and whether orders do.
fn varied(names: &[String]) -> Result<(Vec<Dimension>, bool), Failure> {
    let (mut list, mut orders) = (Vec::new(), false);
    for name in names.iter().map(|name| name.trim()) {
        match Dimension::ALL.iter().find(|(known, _)| *known == name) {
            Some((_, dimension)) => list.push(*dimension),
            None if name == "order" => orders = true,
            None => {
                let fault = Diagnostic::new(Code::BadArgument, format!("`--vary` knows no `{name}`"));
                let known: Vec<&str> = Dimension::ALL.iter().map(|(name, _)| *name).chain(["order"]).collect();
                return Err(Failure::of(Exit::Usage, fault.help(suggest(name, known.iter().copied()))));
            }
        }
    }
    Ok((list, orders))
}

/// The number of the first step among the workloads of a scenario, however large it is.
fn step_number(input: &Input, context: &Context) -> Result<usize, Failure> {
    let kinds = Loaded::kinds(input, &context.settings);
    kinds.iter().position(|kind| kind == "step").ok_or_else(no_step)
}

fn no_step() -> Failure {
    let fault = Diagnostic::new(Code::NoWorkload, "nothing to place: the scenario has no training step");
    Failure::of(Exit::Usage, fault.help("[[workload]] kind = \"step\", with a `model`; docs/steps.md"))
}
