//! One log: read, predicted, compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use sim_collectives::nccl::{Datatype, Element, Operation, Reduction};
use sim_core::engine;
use sim_core::outcome::StopReason;
use sim_core::units::{Bytes, Time};
use sim_report::compare::{LogComparison, Prediction};
use sim_report::nccl_log::{self, DataType, LogError, LogErrorKind, NcclLog, OperationSource, Table};
use sim_report::result::Warning;

use super::super::context::{Context, warnings};
use super::super::fault::{Exit, Failure};
use super::super::play::{failure, stopped_early};
use super::{Request, cluster};
use crate::diagnostic::{Code, Diagnostic, counted, shorten};
use crate::simulate::{RunError, predict};

/// Compares all tables of a log. A table that cannot be compared goes to `failures`; a log without one is an error.
pub(super) fn compare(
    path: &Path,
    request: &Request,
    interrupt: &Arc<AtomicBool>,
    context: &Context,
    notes: &mut Vec<Warning>,
    failures: &mut Vec<Failure>,
) -> Result<Vec<LogComparison>, Failure> {
    let name = path.display().to_string();
    let log = read(path, &name)?;
    let damage: Vec<String> = log.warnings.iter().map(ToString::to_string).collect();
    let mut list = Vec::new();
    for (number, table) in log.tables.iter().enumerate() {
        let shown = if number == 0 { name.clone() } else { format!("{name}#{}", number + 1) };
        let mut taken = Vec::new();
        let compared = one(&shown, &log, table, request, interrupt, context, &mut taken, notes);
        if !taken.is_empty() {
            let message = format!("{shown}: from the log: {}", taken.join(", "));
            context.note(&format!("note: {message}"));
            let hint = Some("flags win: --system, --nodes, --transport, --nccl".to_owned());
            notes.push(Warning { code: Code::Assumed.id().to_owned(), message, hint });
        }
        match compared {
            Ok((compared, stopped)) => {
                list.push(compared.with_warnings(damage.iter().filter(|_| number == 0).cloned()));
                failures.extend(stopped);
            }
            Err(failure) => failures.push(failure),
        }
    }
    Ok(list)
}

/// Reads a log; `-` is standard input.
fn read(path: &Path, name: &str) -> Result<NcclLog, Failure> {
    let limits = nccl_log::Limits::default();
    if path.as_os_str() == "-" {
        return nccl_log::read_from(std::io::stdin().lock(), None, &limits).map_err(|e| unreadable(name, &e));
    }
    let io = |error: &std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        let fault = Diagnostic::new(Code::BadLog, format!("cannot read `{}`: {why}", shorten(name)));
        Failure::of(Exit::Unreadable, fault)
    };
    if path.is_dir() {
        return Err(io(&std::io::Error::other("it is a folder; name the logs in it")));
    }
    let file = File::open(path).map_err(|e| io(&e))?;
    let base = path.file_name().map(|n| n.to_string_lossy().into_owned());
    nccl_log::read_from(file, base.as_deref(), &limits).map_err(|e| unreadable(name, &e))
}

fn unreadable(name: &str, error: &LogError) -> Failure {
    let mut fault = Diagnostic::new(Code::BadLog, format!("cannot use `{}`: {}", shorten(name), error.message));
    if error.kind != LogErrorKind::Io {
        let text = if error.text.is_empty() { String::new() } else { format!(": {}", error.text) };
        fault = fault.note(format!("{}:{}:{}{text}", shorten(name), error.line, error.column));
        fault = fault.note(format!("expected: {}", error.expected));
    }
    Failure::of(Exit::Unreadable, fault.maybe_help(error.hint.clone()))
}

#[expect(clippy::too_many_arguments, reason = "a log's table with all that it may leave a word in")]
fn one(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    interrupt: &Arc<AtomicBool>,
    context: &Context,
    taken: &mut Vec<String>,
    notes: &mut Vec<Warning>,
) -> Result<(LogComparison, Option<Failure>), Failure> {
    let usage = |code, message: String, help: &str| Failure::of(Exit::Usage, Diagnostic::new(code, message).help(help));
    let mut table = table.clone();
    if let Some(op) = request.op {
        table.operation = sim_report::metrics::Operation::ALL.into_iter().find(|o| o.name() == op.name());
    } else if matches!(table.operation_source, OperationSource::Guess | OperationSource::FileName)
        && let Some(op) = table.operation
    {
        taken.push(format!("operation {op}"));
    }
    let Some(named) = table.operation else {
        return Err(usage(Code::BadArgument, format!("which operation is in `{name}`?"), "give it: --op all_reduce"));
    };
    let op: Operation = match named.name().parse() {
        // A log of alltoallv doesn't say who sent how much to whom.
        Ok(op) if op != Operation::AllToAllV => op,
        _ => return Err(failure(&RunError::NotModelled(named.to_string()), None)),
    };
    if table.ranks == Some(1) {
        let message = format!("`{name}` is of one rank: a copy within a GPU, in which no link takes part");
        return Err(usage(Code::Unsupported, message, "compare runs of two ranks or more"));
    }
    let loaded = cluster::load(name, log, &table, request, context, taken)?;
    notes.extend(warnings(&loaded.diagnostics));
    let gpus = loaded.scenario.gpus();
    let ranks = table.ranks.unwrap_or(gpus);
    if ranks > gpus || ranks < 2 {
        let message = format!("`{name}` has {ranks} ranks, and the cluster {}", counted(gpus, "GPU"));
        return Err(usage(Code::NotDivisible, message, "set --nodes higher"));
    }
    if table.ranks.is_none() {
        taken.push(format!("{ranks} ranks, since the cluster has so many GPUs"));
        table.ranks = Some(ranks);
    }
    let (predicted, stopped) =
        predictions(&loaded, &table, op, ranks, interrupt).map_err(|error| failure(&error, Some(&loaded)))?;
    let compared = LogComparison::new(name, &table, |bytes, _placement| predicted.get(&bytes).copied());
    Ok((compared, stopped.map(|reason| stopped_early(reason, name, loaded.scenario.limits.time.is_some()))))
}

/// The predicted time of every size of a table, and why some are missing, if they are.
fn predictions(
    loaded: &crate::scenario::Loaded,
    table: &Table,
    op: Operation,
    ranks: u32,
    interrupt: &Arc<AtomicBool>,
) -> Result<(BTreeMap<Bytes, Prediction>, Option<StopReason>), RunError> {
    let group: Vec<u32> = (0..ranks).collect();
    let machine = loaded.machine(&group)?;
    let network = loaded.fabric.network();
    let rows: BTreeMap<Bytes, &nccl_log::Row> =
        table.rows.iter().rev().filter(|row| row.bytes > Bytes::ZERO).map(|row| (row.bytes, row)).collect();
    let calls = (table.parameters.warmup_iters.unwrap_or(1), table.parameters.iters.unwrap_or(20));
    let limits = loaded.scenario.limits;
    let one = |(bytes, row): (&Bytes, &&nccl_log::Row)| {
        if interrupt.load(Ordering::Relaxed) {
            return Ok((*bytes, Err(StopReason::Interrupted)));
        }
        let mut request = sim_collectives::Request::new(op, *bytes);
        request.element = Element { datatype: datatype(row.dtype), reduction: reduction(row.redop.as_deref()) };
        request.root = row.root.unwrap_or(0).min(ranks - 1);
        let limits = engine::Limits {
            events: limits.events.unwrap_or(u64::MAX),
            time: limits.time.map_or(Time::MAX, |span| Time::ZERO + span),
            interrupt: Some(Arc::clone(interrupt)),
        };
        let predicted = predict(&machine, &network, &request, calls, limits)?;
        let time_us = predicted.row.time_us;
        let (low, high) = predicted.range_us;
        let prediction = Prediction { time_us, low_us: low.min(time_us), high_us: high.max(time_us) };
        Ok((
            *bytes,
            if predicted.outcome.reason == StopReason::Finished {
                Ok(prediction)
            } else {
                Err(predicted.outcome.reason)
            },
        ))
    };
    let list: Vec<(&Bytes, &&nccl_log::Row)> = rows.iter().rev().collect();
    let played: Vec<Result<_, RunError>> = list.into_par_iter().with_max_len(1).map(one).collect();
    let (mut predicted, mut stopped) = (BTreeMap::new(), None);
    for size in played {
        match size? {
            (bytes, Ok(prediction)) => drop(predicted.insert(bytes, prediction)),
            (_, Err(reason)) => stopped = Some(reason),
        }
    }
    Ok((predicted, stopped))
}

const fn datatype(of: DataType) -> Datatype {
    match of {
        DataType::Int8 | DataType::Uint8 => Datatype::Int8,
        DataType::Int32 | DataType::Uint32 => Datatype::Int32,
        DataType::Int64 | DataType::Uint64 => Datatype::Int64,
        DataType::Half => Datatype::Half,
        DataType::Float => Datatype::Float,
        DataType::Double => Datatype::Double,
        DataType::Bfloat16 => Datatype::Bfloat16,
        DataType::F8e4m3 | DataType::F8e5m2 => Datatype::Fp8,
    }
}

fn reduction(redop: Option<&str>) -> Reduction {
    match redop {
        Some("prod") => Reduction::Prod,
        Some("min") => Reduction::Min,
        Some("max") => Reduction::Max,
        Some("avg") => Reduction::Avg,
        _ => Reduction::Sum,
    }
}
