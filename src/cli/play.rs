//! What `bench` and `run` share: playing a scenario, showing and storing what came of it.

mod artifacts;
mod best;
mod fault;
mod nccl;
mod text;

use std::io::IsTerminal as _;
use std::path::Path;

use clap::ValueEnum;
use sim_core::outcome::StopReason;
use sim_report::result::{EngineResult, Warning};

use super::args::{self, Format};
use super::context::{Context, warnings};
use super::fault::{Exit, Failure};
use super::folder::{self, Folder};
use super::others::{Others, Played};
use super::{interrupt, output};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::scenario::{Loaded, Workload};
use crate::simulate::seeds::{self, Digest};
use crate::simulate::{Best, Explain, Options, Report};
pub(super) use fault::{failure, stopped as stopped_early};

/// Tables of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Table {
    /// The columns of nccl-tests, with N/A under #wrong.
    Nccl,
}

/// How a bench or run is to be shown and stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// Text or JSON.
    pub(super) format: Format,
    /// Another tool's columns.
    pub(super) table: Option<Table>,
    /// Reasons beside the choices.
    pub(super) explain: Explain,
    /// What is faster than NCCL's choice.
    pub(super) best: Option<Best>,
    /// The file for NCCL's tuner plugin.
    pub(super) tuner: Option<&'a Path>,
    /// The file for what ranks of a step did over time.
    pub(super) timeline: Option<&'a Path>,
    /// The folder for artifacts.
    pub(super) out: Option<&'a Path>,
    /// Overwrite what is there.
    pub(super) force: bool,
    /// Play also what comes again exactly.
    pub(super) play_all: bool,
    /// With 90 % intervals.
    pub(super) interval: bool,
}

/// Plays the workloads of a scenario, called `name` in results, and shows and stores the results.
/// Of `others`, the same with other seeds and other designs of it, the times are shown with its own.
pub(super) fn play(
    loaded: &Loaded,
    others: Option<&Others<'_>>,
    name: &str,
    view: View<'_>,
    context: &Context,
) -> Result<(), Failure> {
    // Before the work, so that it isn't lost because of a typing error.
    if let Some(file) = view.timeline {
        timeline_form(file)?;
        if !loaded.scenario.workloads.iter().any(|workload| matches!(workload, Workload::Step(_))) {
            let fault = Diagnostic::new(Code::BadArgument, "--timeline is for training steps, and there is none");
            return Err(Failure::of(Exit::Usage, fault.help("[[workload]] kind = \"step\"")));
        }
    }
    let tuner = view.tuner.map(|file| ("--tuner", file.to_owned()));
    let timeline = view.timeline.map(|file| ("--timeline", file.to_owned()));
    let files = view.out.map(|out| folder::files(out, artifacts::NAMES)).unwrap_or_default();
    let outputs: Vec<_> = tuner.into_iter().chain(timeline).chain(files).collect();
    if !outputs.is_empty() {
        output::apart(&outputs, &args::files(loaded))?;
    }
    for file in view.tuner.into_iter().chain(view.timeline) {
        output::writable(file, view.force)?;
    }
    let folder = view.out.map(|folder| Folder::prepare(folder, artifacts::NAMES, view.force)).transpose()?;
    let bar = progress(context);
    let advance = |done: usize, all: usize| {
        if let Some(bar) = &bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    };
    let options = Options {
        interrupt: Some(interrupt::flag()),
        explain: view.explain,
        best: view.best,
        keep_all: view.out.is_some(),
        alone: true,
        timeline: view.timeline.is_some(),
        play_all: view.play_all,
        interval: view.interval,
        progress: Some(&advance),
    };
    let report = loaded.run_with(&options);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let mut report = report.map_err(|error| failure(&error, Some(loaded)))?;
    let mut beside = Vec::new();
    if let Some(others) = others {
        beside = with_others(loaded, others, name, &options, &mut report)?;
    }
    let report = report;
    let engine = &report.results.engine;
    let (events, wall) = (engine.events as f64, engine.wall_s);
    let found = Diagnostics { sources: loaded.diagnostics.sources.clone(), list: report.findings.clone() };
    context.say(&found);
    let list: Vec<_> = warnings(&loaded.diagnostics).into_iter().chain(warnings(&found)).chain(beside).collect();
    if let Some(folder) = &folder {
        artifacts::write(folder, loaded, name, &list, &report)?;
    }
    if let Some(file) = view.tuner.filter(|_| report.stopped.is_none()) {
        tuner_file(loaded, name, file, &report, view.force)?;
        context.note(&format!("wrote {}", file.display()));
    }
    if let Some(file) = view.timeline.filter(|_| report.stopped.is_none()) {
        timeline_file(file, &report, view.force)?;
        context.note(&format!("wrote {}", file.display()));
    }
    match (view.table, view.format) {
        (Some(Table::Nccl), _) => output::print(&nccl::tables(loaded, name, &report))?,
        (None, Format::Text) => output::print(&text::text(loaded, &report))?,
        (None, Format::Json) => output::print_warned(name, loaded, list, &report.results)?,
    }
    if view.format == Format::Text {
        context.note(&format!("{:.1} M events in {wall:.2} s of simulation{}", events / 1e6, repeats(engine)));
    }
    if let Some(folder) = view.out {
        context.note(&format!("saved {}", folder.display()));
    }
    match report.stopped {
        Some(reason) => Err(fault::stopped(reason, &report.stopped_at, loaded.scenario.limits.time.is_some())),
        None => Ok(()),
    }
}

/// Adds the times of the other seeds and designs; one that stops early ends the whole. Warnings about other designs.
fn with_others(
    loaded: &Loaded,
    others: &Others<'_>,
    name: &str,
    options: &Options<'_>,
    report: &mut Report,
) -> Result<Vec<Warning>, Failure> {
    let options = Options {
        interrupt: options.interrupt.clone(),
        interval: options.interval,
        play_all: options.play_all,
        ..Options::default()
    };
    let mut all = vec![Digest::of(loaded, report)];
    if !others.have_one_seed() {
        all.extend(others.over_seeds(loaded.designs.name(), &options)?);
        if let (Some(other), None) = (all.iter().find(|one| one.stopped.is_some()), report.stopped)
            && let Some((reason, at)) = &other.stopped
        {
            report.stopped = Some(*reason);
            report.stopped_at = format!("{at} (seed {})", other.seed);
        }
        report.results.seeds = Some(seeds::result(&all));
    }
    let mut told = Vec::new();
    if others.have_designs() && !report.stopped.is_some_and(by_user) {
        let first = Played::of(name, loaded, report, &all, None).result;
        let rest = others.designs(name, &options, &first)?;
        let mut designs = vec![first];
        for one in rest {
            told.extend(one.warnings.into_iter().filter(|warning| !told.contains(warning)).collect::<Vec<_>>());
            if let (Some((reason, at, _)), None) = (one.stopped, report.stopped) {
                report.stopped = Some(reason);
                report.stopped_at = format!("{at} (design `{}`)", one.result.name);
            }
            designs.push(one.result);
        }
        report.results.designs = designs;
    }
    Ok(told)
}

/// What was not played, in words; nothing if that is little.
fn repeats(engine: &EngineResult) -> String {
    let (ahead, all) = (engine.fast_forwarded.segment_hops, engine.segment_hops);
    if ahead.saturating_mul(100) < all.max(1) {
        return String::new();
    }
    let share = (ahead * 100 / all.max(1)).min(99);
    format!("; {share} % of segment-hops were repeats of a period and not played, which is exact")
}

/// Writes what NCCL's example tuner plugin reads.
fn tuner_file(loaded: &Loaded, name: &str, file: &Path, report: &Report, force: bool) -> Result<(), Failure> {
    let of = |w: &Workload| if let Workload::Collective(c) = w { loaded.machine(&c.group).ok() } else { None };
    let machine = loaded.scenario.workloads.iter().find_map(of);
    let shape = machine.map_or((1, 1), |m| (m.group.nodes().len() as u32, m.ranks()));
    let version = env!("CARGO_PKG_VERSION");
    let head =
        format!("fabricsim {version}: {name}, {}, NCCL {}", loaded.scenario.describe(), loaded.scenario.software.nccl);
    match best::tuner(&report.results.best, shape, &head) {
        Some(text) => output::write(file, text.as_bytes(), force),
        None => Ok(()),
    }
}

/// Whether a timeline is a picture; an error if the file's ending says neither.
fn timeline_form(file: &Path) -> Result<bool, Failure> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(false),
        Some("svg") => Ok(true),
        _ => {
            let message = format!("--timeline takes a file that ends in .json or .svg, not `{}`", file.display());
            let fault = Diagnostic::new(Code::BadArgument, message);
            Err(Failure::of(Exit::Usage, fault.help(".json is for ui.perfetto.dev, .svg a picture")))
        }
    }
}

/// Writes what ranks of the first step did over time.
fn timeline_file(file: &Path, report: &Report, force: bool) -> Result<(), Failure> {
    let Some(step) = report.steps.first() else { return Err(Failure::internal("a step that was not played")) };
    let text = match timeline_form(file)? {
        true => step.timeline.svg().map_err(Failure::internal)?,
        false => step.timeline.trace(),
    };
    output::write(file, text.as_bytes(), force)
}

/// A progress bar on standard error, if that is a terminal.
pub(super) fn progress(context: &Context) -> Option<indicatif::ProgressBar> {
    if context.quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = indicatif::ProgressBar::new(1);
    if let Ok(style) = indicatif::ProgressStyle::with_template("  simulating {bar:30} {pos}/{len}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    Some(bar)
}

/// Whether a run that stopped so is the user's own doing.
const fn by_user(reason: StopReason) -> bool {
    matches!(reason, StopReason::Interrupted)
}
