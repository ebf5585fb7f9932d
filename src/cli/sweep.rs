//! `sweep`: a scenario at every point of a grid, one row a point.

mod estimate;
mod merge;
mod seen;
mod target;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::{Args as ClapArgs, Subcommand};
use sim_report::result::{SweepAxis, SweepResults};

use super::args::{Format, Output};
use super::context::{Context, warnings};
use super::fault::{Exit, Failure};
use super::{interrupt, output};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted};
use crate::sweep::play::{self, Use};
use crate::sweep::rows::RowFile;
use crate::sweep::{Played, Sweep};
use seen::Seen;
use target::{Shard, Target};

/// Play a scenario at every point of a grid over any of its keys, in parallel, one row a point; can be taken up again
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The sweep: a TOML file with a scenario, axes and columns; docs/sweeping.md
    #[arg(value_name = "SWEEP", required = true)]
    sweep: Option<PathBuf>,
    /// Write the rows here, CSV or Parquet by the ending; rows are appended as they are done
    #[arg(long, value_name = "FILE.csv|FILE.parquet", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// Go on with a file that was begun; begin it if it is missing or empty
    #[arg(long)]
    resume: bool,
    /// Play only the i-th of n shares of the points, every n-th one, for job arrays; `sweep merge` puts them together
    #[arg(long, value_name = "i/n")]
    shard: Option<Shard>,
    /// Points that are played at the same time. Without it, as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Show how many points there are, the first of them and about how long all take; write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Merge(merge::Args),
}

const EXAMPLES: &str = "\
Examples:
  fabricsim sweep scenarios/sweeps/sizes-protocols.toml --dry-run
  fabricsim sweep scenarios/sweeps/sizes-protocols.toml --out sizes.csv
  fabricsim sweep scenarios/sweeps/sizes-protocols.toml --out sizes.csv --resume
  fabricsim sweep sweep.toml --out part$SLURM_ARRAY_TASK_ID.csv --shard $SLURM_ARRAY_TASK_ID/8 --resume
  fabricsim sweep merge part*.csv --out all.parquet";

/// How many points a dry run shows.
const SHOWN: usize = 10;

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let file = match (&args.verb, &args.sweep) {
        (Some(Verb::Merge(args)), _) => return merge::run(args, context),
        (None, Some(file)) => file,
        // clap asks for one of both.
        (None, None) => return Err(Failure::internal("a sweep without a file")),
    };
    let sweep = Sweep::read(file, &context.settings).map_err(Failure::usage)?;
    context.say(&sweep.warnings);
    let points = args.shard.map_or_else(|| (0..sweep.len()).collect(), |shard| shard.of(sweep.len()));
    if points.is_empty() {
        let message = format!("the sweep has {}, so this shard has none", counted(sweep.len(), "point"));
        return Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message).help("take fewer shards")));
    }
    let threads = args.threads.map_or_else(rayon::current_num_threads, |threads| threads as usize);
    let call = Call { args, file: file.display().to_string(), sweep: &sweep, points: &points, threads, context };
    match &args.out {
        _ if args.dry_run => call.dry(),
        Some(out) => call.play(&Target::new(out)?),
        None => Err(Failure::internal("a sweep without an output")),
    }
}

/// One call of the verb.
struct Call<'a> {
    args: &'a Args,
    file: String,
    sweep: &'a Sweep,
    /// The numbers of the points that this call is about.
    points: &'a [usize],
    threads: usize,
    context: &'a Context,
}

impl Call<'_> {
    fn dry(&self) -> Result<(), Failure> {
        estimate::tell(self.sweep, self.points, self.threads, self.context)?;
        let Self { sweep, points, .. } = self;
        if self.args.output.format == Format::Json {
            return self.json(None, (0, 0), &Diagnostics::new());
        }
        let of = self.args.shard.map_or_else(String::new, |shard| format!(", shard {shard} of {}", sweep.len()));
        let mut text = format!("{}: {}{of}\n", self.file, counted(points.len(), "point"));
        for (name, values) in sweep.shape() {
            text += &format!("  {name}: {}\n", counted(values, "value"));
        }
        text += &format!("columns: {}\n", sweep.header().join(", "));
        for point in points.iter().take(SHOWN) {
            text += &format!("  point {point}: {}\n", sweep.describe(*point));
        }
        if points.len() > SHOWN {
            text += &format!("  and {} more\n", points.len() - SHOWN);
        }
        output::print(&text)
    }

    fn play(&self, target: &Target) -> Result<(), Failure> {
        let Self { sweep, points, context, .. } = self;
        let read: Vec<_> = sweep.files.iter().map(|path| ("a file", path.clone())).collect();
        output::apart(&target.outputs(), &read)?;
        if target.is_complete(sweep, points, self.args.resume)? {
            let failed = target.failed()?;
            self.answer(target, (points.len(), failed), &Diagnostics::new())?;
            return self.verdict(target, failed, &Seen::default());
        }
        let mut rows = RowFile::open(&target.rows, sweep, points, self.args.resume).map_err(|fault| refused(*fault))?;
        let todo: Vec<(usize, usize)> = points.iter().copied().enumerate().filter(|(at, _)| !rows.has(*at)).collect();
        let numbers: Vec<usize> = todo.iter().map(|(_, point)| *point).collect();
        if rows.done() > 0 {
            context.note(&format!("{} of {} are there already", counted(rows.done(), "point"), points.len()));
        }
        let flag = interrupt::flag();
        let bar = progress(context, points.len(), rows.done());
        let mut seen = Seen::default();
        let mut end: Option<Failure> = None;
        let used = play::play(sweep, &numbers, self.threads, &flag, |at, played| {
            let (place, point) = todo[at];
            if let Some(failure) = self.ended(point, &played) {
                end = Some(failure);
                return false;
            }
            seen.add(point, &played);
            if let Some(bar) = &bar {
                bar.inc(1);
            }
            match rows.put(place, &played.cells) {
                Ok(()) => true,
                Err(fault) => {
                    end = Some(refused(*fault));
                    false
                }
            }
        });
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        }
        let found = seen.warnings();
        context.say(&found);
        let (done, failed) = (rows.done(), rows.failed());
        let interrupted = || Failure::of(Exit::Interrupted, Diagnostic::new(Code::Interrupted, "interrupted"));
        let cut = flag.load(Ordering::Relaxed) && done < points.len();
        if let Some(failure) = end.or_else(|| cut.then(interrupted)) {
            rows.leave();
            return Err(self.kept(failure, done, target));
        }
        if done < points.len() {
            return Err(Failure::internal(format!("{} of {} points were played", done, points.len())));
        }
        rows.finish().map_err(|fault| refused(*fault))?;
        target.complete()?;
        self.told(used, numbers.len(), failed, &seen);
        self.answer(target, (done, failed), &found)?;
        self.verdict(target, failed, &seen)
    }

    /// A failure if not one of the rows that are there is of a point that could be played, whichever call played it.
    fn verdict(&self, target: &Target, failed: usize, seen: &Seen) -> Result<(), Failure> {
        if failed < self.points.len() {
            return Ok(());
        }
        let none = || {
            let message = format!("not one point could be played: see `error` in `{}`", target.out.display());
            Diagnostics::of(Diagnostic::new(Code::NoWorkload, message))
        };
        let found = seen.first_found().filter(Diagnostics::has_errors).unwrap_or_else(none);
        Err(Failure::usage(found))
    }

    /// Why a point ends the sweep, if it does.
    fn ended(&self, point: usize, played: &Played) -> Option<Failure> {
        if let Some((path, why)) = played.absent.first().filter(|_| !played.failed) {
            let fault =
                Diagnostic::new(Code::UnknownKey, format!("no column `{path}` in the results of point {point}"));
            let fault = fault.help(why.clone());
            return Some(Failure::of(
                Exit::Usage,
                fault.help(format!("write \"{path}?\" for a column that some points have not")),
            ));
        }
        if !played.failed || !self.sweep.stop_on_error {
            return None;
        }
        let message = format!("point {point} ({}) ends the sweep", self.sweep.describe(point));
        let mut faults = played.found.clone();
        let stopped = !faults.has_errors();
        let error = played.cells.iter().rev().nth(1).cloned().unwrap_or_default();
        let fault = Diagnostic::new(if stopped { Code::Limit } else { Code::NoWorkload }, message);
        let fault = if stopped { fault.note(error) } else { fault };
        faults.list.push(fault.help("`on_error = \"row\"` goes on, and says so in the row"));
        Some(Failure { diagnostics: faults, exit: if stopped { Exit::Stopped } else { Exit::Usage } })
    }

    /// The same failure with where the rows are that were done by then.
    fn kept(&self, mut failure: Failure, done: usize, target: &Target) -> Failure {
        if done == 0 {
            return failure;
        }
        let shown = target.rows.display();
        let note = format!("{} of {} are kept in `{shown}`", counted(done, "point"), self.points.len());
        if let Some(last) = failure.diagnostics.list.last_mut() {
            last.notes.push(note);
            last.help.push("the same command with `--resume` goes on".to_owned());
        }
        failure
    }

    fn told(&self, used: Use, played: usize, failed: usize, seen: &Seen) {
        if failed > 0 {
            let first = seen.first_failed().map_or_else(String::new, |(point, why)| {
                format!("; the first of this call is point {point} ({}): {why}", self.sweep.describe(point))
            });
            self.context
                .note(&format!("{} could not be played to the end: see `error`{first}", counted(failed, "point")));
        }
        let wall = used.wall.as_secs_f64();
        if played > 0 {
            self.context.note(&format!(
                "{} in {wall:.1} s on {}, busy for {:.0} % of it",
                counted(played, "point"),
                counted(used.threads, "thread"),
                used.share() * 100.0
            ));
        }
    }

    fn answer(&self, target: &Target, (rows, failed): (usize, usize), found: &Diagnostics) -> Result<(), Failure> {
        let out = target.out.display().to_string();
        if self.args.output.format == Format::Json {
            return self.json(Some(out), (rows, failed), found);
        }
        let of = self.args.shard.map_or_else(String::new, |shard| format!(" (shard {shard} of {})", self.sweep.len()));
        let failures = if failed == 0 { String::new() } else { format!(", {failed} of them with an `error`") };
        output::print(&format!("{out}: {}{of}{failures}\n", counted(rows, "row")))
    }

    fn json(&self, file: Option<String>, (rows, failed): (usize, usize), found: &Diagnostics) -> Result<(), Failure> {
        let results = SweepResults {
            sweep: self.sweep.id.clone(),
            file,
            shard: self.args.shard.map(|shard| shard.to_string()),
            points: self.points.len() as u64,
            rows: rows as u64,
            failed: failed as u64,
            columns: self.sweep.header(),
            axes: self.sweep.shape().into_iter().map(|(name, n)| SweepAxis { name, values: n as u64 }).collect(),
        };
        let mut told = warnings(&self.sweep.warnings);
        told.extend(warnings(found));
        output::print_json(&self.file, self.sweep.seed(), told, results)
    }
}

fn refused(fault: Diagnostic) -> Failure {
    Failure::of(Exit::Usage, fault)
}

/// A progress bar on standard error, if that is a terminal: points, and when the last will be done.
fn progress(context: &Context, all: usize, done: usize) -> Option<indicatif::ProgressBar> {
    if context.quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = indicatif::ProgressBar::new(all as u64).with_position(done as u64);
    let form = "  {bar:30} {pos}/{len} points  {per_sec}  {elapsed}, {eta} to go";
    if let Ok(style) = indicatif::ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.reset_eta();
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    Some(bar)
}
