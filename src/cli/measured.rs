//! Measurements and the clusters that they were made on: what `compare` and `fit` share.

mod cluster;
mod guess;

use std::fs::File;
use std::path::Path;

use sim_collectives::nccl::{Datatype, Element, Operation};
use sim_core::units::Bytes;
use sim_report::compare::Library;
use sim_report::nccl_log::{self, DataType, LogError, LogErrorKind, NcclLog, OperationSource, Row, Table};
use sim_report::result::Warning;

use super::context::{Context, warnings};
use super::fault::{Exit, Failure};
use super::play::failure;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten};
use crate::scenario::{Input, Loaded, Setting, reduction};
use crate::simulate::RunError;

/// Remarks on a log that are told in one message.
pub(super) const MOST_REMARKS: usize = 6;

/// What is told about the cluster and the operation beside the logs.
#[derive(Debug)]
pub(super) struct Request {
    /// The cluster's scenario, or flags only.
    pub(super) input: Input,
    /// The flags of the cluster as keys; what is not among them comes from the log.
    pub(super) settings: Vec<Setting>,
    /// The operation.
    pub(super) op: Option<Operation>,
    /// Whether predictions carry their 90 % intervals.
    pub(super) interval: bool,
    /// Larger sizes are left out.
    pub(super) most: Bytes,
}

/// A table of a log on the cluster that it was measured on.
#[derive(Debug)]
pub(super) struct Case {
    /// The table, with what it leaves open filled in.
    pub(super) table: Table,
    /// The operation.
    pub(super) op: Operation,
    /// Ranks.
    pub(super) ranks: u32,
    /// The GPU of each rank, as a number among all of the cluster: where the log's list of ranks has it, else node by node.
    pub(super) group: Vec<u32>,
    /// NCCL's version, and how it is known.
    pub(super) library: Library,
    /// The cluster.
    pub(super) loaded: Loaded,
}

impl Case {
    /// Calls before the timed ones, and timed ones.
    pub(super) fn calls(&self) -> (u32, u32) {
        (self.table.parameters.warmup_iters.unwrap_or(1), self.table.parameters.iters.unwrap_or(20))
    }

    /// The rows to predict: of a size above zero and up to `most`, with a time that counts.
    pub(super) fn rows(&self, most: Bytes) -> impl Iterator<Item = &Row> {
        rows(&self.table, most)
    }

    /// What the call of a row asks for.
    pub(super) fn request(&self, row: &Row) -> sim_collectives::Request {
        let mut request = sim_collectives::Request::new(self.op, row.bytes);
        request.element =
            Element { datatype: datatype(row.dtype), reduction: reduction(row.redop.as_deref().unwrap_or_default()) };
        request.root = row.root.unwrap_or(0).min(self.ranks - 1);
        request
    }
}

/// The rows of a table that can be predicted and count, whoever asks.
pub(super) fn rows(table: &Table, most: Bytes) -> impl Iterator<Item = &Row> {
    let counts = move |row: &&Row| row.bytes <= most && row.halves().into_iter().flatten().any(|half| half.is_ok());
    table.rows.iter().filter(counts)
}

/// The time of a row, us: out of place, unless that is an outlier beside the other one; `None` if neither counts.
pub(super) fn time(row: &Row) -> Option<f64> {
    let [out, inside] = row.halves().map(|half| half.and_then(Result::ok));
    match (out, inside) {
        (Some(out), Some(inside)) if out > sim_report::compare::OUTLIER_RATIO * inside => Some(inside),
        (out, inside) => out.or(inside),
    }
}

/// What was found in a log that does not count, or is not as it should be, line by line.
pub(super) fn remarks(log: &NcclLog) -> Vec<String> {
    let more = (log.more_warnings > 0).then(|| format!("and {} more", counted(log.more_warnings as u64, "remark")));
    log.warnings.iter().map(ToString::to_string).chain(more).collect()
}

/// Says what was found in a log, on standard error and in `notes`.
pub(super) fn damage(name: &str, log: &NcclLog, context: &Context, notes: &mut Vec<Warning>) {
    let remarks = remarks(log);
    if remarks.is_empty() {
        return;
    }
    let shown = remarks.iter().take(MOST_REMARKS).cloned();
    let more = remarks.len().saturating_sub(MOST_REMARKS) as u64;
    let more = (more > 0).then(|| format!("and {more} more, which `compare` lists"));
    let told: Vec<String> = shown.chain(more).collect();
    let fault = Diagnostic::new(Code::LogDamage, format!("`{}`: {}", shorten(name), told.join("; ")));
    let found = Diagnostics::of(fault);
    context.say(&found);
    notes.extend(warnings(&found));
}

/// Reads a log; `-` is standard input.
pub(super) fn read(path: &Path, name: &str) -> Result<NcclLog, Failure> {
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

/// A table with its cluster. What was not told but taken from the log is said on standard error and goes to `notes`, as
/// do the cluster's warnings.
pub(super) fn case(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    context: &Context,
    notes: &mut Vec<Warning>,
) -> Result<Case, Failure> {
    let mut taken = Taken::default();
    let found = find(name, log, table, request, context, &mut taken);
    tell(name, &taken, context, notes);
    let case = found?;
    notes.extend(warnings(&case.loaded.diagnostics));
    cluster::other_gpus(name, table, &case.loaded, context, notes);
    Ok(case)
}

/// Refuses a log of GPUs of another generation than the cluster's: they share no timing parameters.
pub(super) fn same_generation(name: &str, case: &Case) -> Result<(), Failure> {
    let own = &case.loaded.fabric.node_spec().gpu;
    let Some(seen) = case.table.gpu() else { return Ok(()) };
    let Some((theirs, ours)) = guess::generations(seen, own, &case.loaded.catalogue) else { return Ok(()) };
    let system = case.loaded.scenario.system.as_deref().unwrap_or("the cluster's node");
    let (name, seen) = (shorten(name), shorten(seen));
    let message = format!(
        "`{name}` was measured on `{seen}` ({theirs}), and {system} has {own} ({ours}): what is fitted to one generation is no parameter of another"
    );
    let hint = guess::system(&seen)
        .map_or_else(|| "give the system that it ran on".to_owned(), |usual| format!("--system {usual} has such GPUs"));
    Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message).help(hint)))
}

/// The cluster of a table alone, whatever its number of ranks; told as [`case`] does.
pub(super) fn cluster(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    context: &Context,
    notes: &mut Vec<Warning>,
) -> Result<Loaded, Failure> {
    let mut taken = Taken::default();
    let loaded = cluster::load(name, log, table, request, context, &mut taken);
    tell(name, &taken, context, notes);
    let loaded = loaded?;
    notes.extend(warnings(&loaded.diagnostics));
    cluster::other_gpus(name, table, &loaded, context, notes);
    Ok(loaded)
}

/// What was not told by flags or a scenario.
#[derive(Debug, Default)]
struct Taken {
    /// Taken from the log.
    log: Vec<String>,
    /// Assumed, since the log doesn't tell it either.
    assumed: Vec<String>,
}

/// Says what was taken from the log, and what was assumed.
fn tell(name: &str, taken: &Taken, context: &Context, notes: &mut Vec<Warning>) {
    let parts = [("from the log", &taken.log), ("assumed", &taken.assumed)];
    let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> = parts.map(|(what, list)| format!("{what}: {}", list.join(", "))).collect();
    if !parts.is_empty() {
        let message = format!("{name}: {}", parts.join("; "));
        context.note(&format!("note: {message}"));
        let hint = Some("flags win: --system, --nodes, --transport, --nccl".to_owned());
        notes.push(Warning { code: Code::Assumed.id().to_owned(), message, hint });
    }
}

fn find(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    context: &Context,
    taken: &mut Taken,
) -> Result<Case, Failure> {
    let usage = |code, message: String, help: &str| Failure::of(Exit::Usage, Diagnostic::new(code, message).help(help));
    let mut table = table.clone();
    if let Some(op) = request.op {
        table.operation = sim_report::metrics::Operation::ALL.into_iter().find(|o| o.name() == op.name());
    } else if matches!(table.operation_source, OperationSource::Guess | OperationSource::FileName)
        && let Some(op) = table.operation
    {
        taken.log.push(format!("operation {op}"));
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
        return Err(usage(Code::Unsupported, message, "give runs of two ranks or more"));
    }
    let loaded = cluster::load(name, log, &table, request, context, taken)?;
    let gpus = loaded.scenario.gpus();
    let ranks = table.ranks.unwrap_or(gpus);
    if ranks > gpus || ranks < 2 {
        let message = format!("`{name}` has {ranks} ranks, and the cluster {}", counted(gpus, "GPU"));
        return Err(usage(Code::NotDivisible, message, "set --nodes higher"));
    }
    if table.ranks.is_none() {
        taken.assumed.push(format!("{ranks} ranks, since the cluster has so many GPUs"));
        table.ranks = Some(ranks);
    }
    let group = match cluster::placed(&table, &loaded) {
        Some((group, how)) => {
            taken.log.extend(how);
            group
        }
        None => (0..ranks).collect(),
    };
    let library = cluster::library(log, &table, &loaded);
    Ok(Case { table, op, ranks, group, library, loaded })
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
