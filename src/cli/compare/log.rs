//! One log: read, predicted, compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use rayon::prelude::*;
use sim_core::engine;
use sim_core::outcome::StopReason;
use sim_core::units::{Bytes, Time};
use sim_report::compare::{Clues, LogComparison, Placement, Prediction};
use sim_report::nccl_log::{self, DataType, NcclLog, Table};
use sim_report::result::{ParameterResult, Warning};

use super::super::context::Context;
use super::super::fault::{Exit, Failure};
use super::super::measured::{self, Case, Request};
use super::super::play::{failure, stopped_early};
use super::clues;
use super::failed::Failures;
use crate::diagnostic::{Code, Diagnostic, counted, shorten};
use crate::scenario::MOST_BYTES;
use crate::simulate::{self, RunError, local_copy, predict, predict_ranged};

/// Compares all tables of a log. A table that cannot be compared goes to `failures`; a log without one is an error.
pub(super) fn compare(
    path: &Path,
    request: &Request,
    interrupt: &Arc<AtomicBool>,
    bar: Option<&ProgressBar>,
    context: &Context,
    notes: &mut Vec<Warning>,
    failures: &mut Failures,
) -> Result<Vec<LogComparison>, Failure> {
    let name = path.display().to_string();
    let log = measured::read(path, &name)?;
    let damage = measured::remarks(&log);
    let mut list = Vec::new();
    for (number, table) in log.tables.iter().enumerate() {
        let shown = if number == 0 { name.clone() } else { format!("{name}#{}", number + 1) };
        match one(&shown, &log, table, request, interrupt, bar, context, notes) {
            // Without a single row it says nothing, so that no threshold is met by it.
            Ok((compared, stopped)) if compared.rows.is_empty() => {
                failures.push(
                    &shown,
                    stopped.unwrap_or_else(|| nothing(&shown, table, compared.skipped, request.most, &damage)),
                );
            }
            Ok((compared, stopped)) => {
                list.push(compared.with_warnings(damage.iter().filter(|_| number == 0).cloned()));
                if let Some(stopped) = stopped {
                    failures.push(&shown, stopped);
                }
            }
            Err(failure) => failures.push(&shown, failure),
        }
    }
    Ok(list)
}

/// Why no measurement of a table was compared, of which so many were left out.
fn nothing(name: &str, table: &Table, skipped: usize, most: Bytes, damage: &[String]) -> Failure {
    let above = table.rows.iter().filter(|row| row.bytes > most);
    let large: usize = above.map(|row| row.out_of_place.iter().count() + row.in_place.iter().count()).sum();
    let mut fault = Diagnostic::new(Code::BadLog, format!("no row of `{}` could be compared", shorten(name)));
    if large > 0 {
        let limit = if most < MOST_BYTES { "--max-bytes " } else { "" };
        fault = fault.note(format!("{} left out: larger than {limit}{most}", counted(large, "measurement")));
    }
    let others = skipped.saturating_sub(large);
    if others > 0 || large == 0 {
        let measurements = counted(others, "measurement");
        let why = "of size or time zero, wrong, damaged, or without a prediction";
        fault = fault.note(format!("{measurements} left out: {why}"));
    }
    for remark in damage.iter().take(measured::MOST_REMARKS) {
        fault = fault.note(remark);
    }
    let smallest = table.rows.iter().map(|row| row.bytes).filter(|bytes| *bytes > most).min();
    let help = match smallest.filter(|_| others == 0 && most < MOST_BYTES) {
        Some(bytes) => format!("raise --max-bytes: its smallest size is {bytes}"),
        None => "give logs with sizes above zero: all_reduce_perf -b 8 -e 8G -f 2".to_owned(),
    };
    Failure::of(Exit::Unreadable, fault.help(help))
}

#[expect(clippy::too_many_arguments, reason = "a log's table with all that it is compared under")]
fn one(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    interrupt: &Arc<AtomicBool>,
    bar: Option<&ProgressBar>,
    context: &Context,
    notes: &mut Vec<Warning>,
) -> Result<(LogComparison, Option<Failure>), Failure> {
    if table.ranks == Some(1) {
        return alone(name, log, table, request, context, notes).map(|compared| (compared, None));
    }
    let case = measured::case(name, log, table, request, context, notes)?;
    let predicted = predictions(&case, request, interrupt, bar).map_err(|error| failure(&error, Some(&case.loaded)))?;
    let compared =
        LogComparison::new(name, &case.table, |row, _placement| predicted.times.get(&asked_of(row)).copied());
    let clues = clues::clues(&compared, log, &case, request, &limits(&case, interrupt), context);
    let compared = compared.with_clues(clues).with_library(case.library.clone()).with_parameters(predicted.parameters);
    Ok((
        compared,
        predicted.stopped.map(|reason| stopped_early(reason, name, case.loaded.scenario.limits.time.is_some())),
    ))
}

/// What tells the calls of a table apart: size, type, operator, root.
type Asked = (Bytes, DataType, Option<String>, Option<u32>);

fn asked_of(row: &nccl_log::Row) -> Asked {
    (row.bytes, row.dtype, row.redop.clone(), row.root)
}

/// The predictions of a table.
struct Predictions {
    times: BTreeMap<Asked, Prediction>,
    /// Why some are missing, if they are.
    stopped: Option<StopReason>,
    /// The timing parameters that they rest on.
    parameters: Vec<ParameterResult>,
}

/// A run of one rank: out of place it copies within a GPU, in place it does nothing.
fn alone(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    context: &Context,
    notes: &mut Vec<Warning>,
) -> Result<LogComparison, Failure> {
    let loaded = measured::cluster(name, log, table, request, context, notes)?;
    let predict = |row: &nccl_log::Row, placement| {
        (placement == Placement::OutOfPlace).then(|| Prediction::exactly(local_copy(&loaded, row.bytes).as_us()))
    };
    Ok(LogComparison::new(name, table, predict).with_clues(Clues::default()))
}

/// The scenario's limits of each size, and the user's interrupt.
fn limits(case: &Case, interrupt: &Arc<AtomicBool>) -> engine::Limits {
    let limits = case.loaded.scenario.limits;
    engine::Limits {
        events: limits.events.unwrap_or(u64::MAX),
        time: limits.time.map_or(Time::MAX, |span| Time::ZERO + span),
        interrupt: Some(Arc::clone(interrupt)),
        ..engine::Limits::default()
    }
}

/// The predicted time of every size of a table, and why some are missing, if they are.
fn predictions(
    case: &Case,
    request: &Request,
    interrupt: &Arc<AtomicBool>,
    bar: Option<&ProgressBar>,
) -> Result<Predictions, RunError> {
    let (interval, most) = (request.interval, request.most.min(MOST_BYTES));
    let loaded = &case.loaded;
    let machine = loaded.machine(&case.group)?;
    let network = loaded.library_network();
    let rows: BTreeMap<Asked, &nccl_log::Row> = case.rows(most).map(|row| (asked_of(row), row)).collect();
    let calls = case.calls();
    let limits = limits(case, interrupt);
    if let Some(bar) = bar {
        let done = bar.position();
        bar.set_length(done + rows.len() as u64);
    }
    let one = |(asked, row): (&Asked, &&nccl_log::Row)| {
        if interrupt.load(Ordering::Relaxed) {
            return Ok((asked.clone(), Err(StopReason::Interrupted)));
        }
        let request = case.request(row);
        let (predicted, (low, high)) = if interval {
            let ranged = predict_ranged(&machine, loaded.packets.as_ref(), &request, calls, &limits)?;
            (ranged.predicted, (ranged.low_us, ranged.high_us))
        } else {
            let predicted = predict(&machine, &network, &request, calls, limits.clone())?;
            let range = predicted.range_us;
            (predicted, range)
        };
        if let Some(bar) = bar {
            bar.inc(1);
        }
        let time_us = predicted.row.time_us;
        let prediction = Prediction { time_us, low_us: low.min(time_us), high_us: high.max(time_us) };
        Ok((
            asked.clone(),
            if predicted.outcome.reason == StopReason::Finished {
                Ok(prediction)
            } else {
                Err(predicted.outcome.reason)
            },
        ))
    };
    let list: Vec<(&Asked, &&nccl_log::Row)> = rows.iter().rev().collect();
    let played: Vec<Result<_, RunError>> = list.into_par_iter().with_max_len(1).map(one).collect();
    let (mut predicted, mut stopped) = (BTreeMap::new(), None);
    for size in played {
        match size? {
            (asked, Ok(prediction)) => drop(predicted.insert(asked, prediction)),
            (_, Err(reason)) => stopped = Some(reason),
        }
    }
    Ok(Predictions { times: predicted, stopped, parameters: simulate::asked(&machine.timing) })
}
