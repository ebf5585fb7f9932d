//! The operation and the number of ranks of a table, from what was said and from the figures.

use super::types::{Check, Convention, OperationSource, RanksSource, Row, Table};
use super::{ranks, usable};
use crate::metrics::Operation;

/// What was said about a table outside its rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// By the program itself.
    pub(super) banner: Option<Operation>,
    /// By a command line.
    pub(super) command: Option<Operation>,
    /// By the file's name.
    pub(super) file_name: Option<Operation>,
    /// `nranks` in a line of NCCL.
    pub(super) nranks: Option<u32>,
}

/// Fills in operation, ranks and convention; returns remarks (line, message).
pub(super) fn complete(table: &mut Table, said: &Said) -> Vec<(usize, String)> {
    let mut remarks = Vec::new();
    let figures = Figures::of(table);
    if figures.milliseconds {
        table.layout.milliseconds = true;
        for timing in table.rows.iter_mut().flat_map(|r| [&mut r.out_of_place, &mut r.in_place]).flatten() {
            timing.time_us *= 1e3;
        }
    }
    table.convention = figures.convention;
    let listed = table.devices.iter().map(|d| d.rank).max().map(|rank| rank.saturating_add(1));
    operation(table, said, &figures, listed.or(said.nranks), &mut remarks);
    count_ranks(table, said, &figures, listed, &mut remarks);
    usable::judge(table, &mut remarks);
    remarks
}

/// What the figures of a table say.
struct Figures {
    /// Blocks in the size column.
    blocks: Option<u64>,
    /// busbw / algbw.
    factor: Option<(f64, f64)>,
    /// Figures enough say so, and none contradicts.
    factor_sure: bool,
    /// The in-place half is unchecked while the other is checked.
    in_place_unchecked: Option<bool>,
    convention: Convention,
    milliseconds: bool,
}

impl Figures {
    fn of(table: &Table) -> Self {
        let rows = &table.rows;
        let blocks = ranks::blocks(rows);
        // Size over time, over the printed algbw.
        let quotient = median(
            timings(rows)
                .filter(|(_, t)| t.algbw >= 1.0 && t.time_us > 0.0)
                .map(|(row, t)| row.bytes.get() as f64 / t.time_us / 1e3 / t.algbw),
        );
        let milliseconds = quotient.is_some_and(|q| (q / 1e3 - 1.0).abs() < 0.05);
        let old = !(table.layout.root && table.layout.redop);
        let scaled = blocks.filter(|n| *n > 1).is_some_and(|n| {
            let factor = (n as f64 - 1.0) / n as f64;
            quotient.is_some_and(|q| (q * factor - 1.0).abs() < 0.02)
        });
        let checks: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((row.out_of_place?.wrong, row.in_place?.wrong)))
            .filter(|(out, _)| *out != Check::NotChecked)
            .map(|(_, inside)| inside == Check::NotChecked)
            .collect();
        let in_place_unchecked = checks.first().copied().filter(|first| checks.iter().all(|c| c == first));
        let factor = ranks::bus_factor(rows);
        Self {
            blocks,
            factor: factor.map(|f| f.range),
            factor_sure: factor.is_some_and(|f| f.sure),
            in_place_unchecked,
            convention: if old && scaled { Convention::Scaled } else { Convention::Size },
            milliseconds,
        }
    }
}

pub(super) fn timings(rows: &[Row]) -> impl Iterator<Item = (&Row, super::types::Timing)> {
    rows.iter().flat_map(|row| [row.out_of_place, row.in_place].into_iter().flatten().map(move |t| (row, t)))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Whether columns and figures allow an operation on `ranks` ranks (if known).
fn allows(table: &Table, figures: &Figures, ranks: Option<u32>, op: Operation) -> bool {
    use Operation::{
        AllGather, AllReduce, AllToAll, AllToAllV, Broadcast, Gather, Reduce, ReduceScatter, Scatter, SendRecv,
    };
    let rooted = matches!(op, Broadcast | Reduce | Gather | Scatter);
    let reducing = matches!(op, AllReduce | ReduceScatter | Reduce);
    let has_root = table.rows.iter().any(|row| row.root.is_some());
    let has_redop = table.rows.iter().any(|row| row.redop.is_some());
    let columns = if has_root { rooted } else { !rooted }
        && match op {
            SendRecv => true,
            _ => has_redop == reducing,
        };
    let blocks = match figures.blocks {
        None => true,
        // One block: one rank, or an operation that doesn't divide.
        Some(1) => !op.divides_size() || ranks.map_or(figures.factor.is_some_and(|(low, _)| low <= 0.0), |n| n == 1),
        Some(n) => op.divides_size() && ranks.is_none_or(|ranks| u64::from(ranks) == n),
    };
    let in_place = match (op, figures.in_place_unchecked) {
        (AllToAll | AllToAllV | SendRecv, Some(unchecked)) => unchecked,
        (AllReduce | AllGather | ReduceScatter | Broadcast | Reduce, Some(unchecked)) => !unchecked,
        _ => true,
    };
    let ranks = ranks.or(figures.blocks.filter(|n| *n > 1).and_then(|n| u32::try_from(n).ok()));
    let factor = figures.convention == Convention::Scaled
        || figures.factor.is_none_or(|(low, high)| match ranks {
            Some(n) => (low - 1e-3..=high + 1e-3).contains(&op.busbw_factor(n)),
            None if op == AllReduce => ranks::from_factor(op, (low, high)).is_some(),
            None => op.busbw_factor(2) < 1.0 || (low..=high).contains(&1.0),
        });
    // Too rare to be thought of unless the figures say so.
    let rare = op == Operation::Hypercube && (figures.factor.is_none() || figures.convention == Convention::Scaled);
    columns && blocks && in_place && factor && !rare
}

/// The operations that logs without a name are likely to hold, most usual first.
const USUAL: [Operation; 10] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::AllToAll,
    Operation::SendRecv,
    Operation::Broadcast,
    Operation::Reduce,
    Operation::Gather,
    Operation::Scatter,
    Operation::Hypercube,
];

fn operation(
    table: &mut Table,
    said: &Said,
    figures: &Figures,
    ranks: Option<u32>,
    remarks: &mut Vec<(usize, String)>,
) {
    let line = table.line;
    if let Some(op) = said.banner {
        if !allows(table, figures, ranks, op) && !allows(table, figures, None, op) {
            remarks.push((line, format!("the banner says {op}, but the columns or figures do not fit it")));
        }
        (table.operation, table.operation_source) = (Some(op), OperationSource::Banner);
        return;
    }
    let mut possible: Vec<_> = USUAL.into_iter().filter(|op| allows(table, figures, ranks, *op)).collect();
    if possible.is_empty() {
        // The number of ranks that was said may be the wrong part.
        possible = USUAL.into_iter().filter(|op| allows(table, figures, None, *op)).collect();
    }
    let told = [(said.command, OperationSource::CommandLine), (said.file_name, OperationSource::FileName)];
    let sure = possible.len() == 1;
    for (op, source) in told {
        let Some(op) = op else { continue };
        if possible.contains(&op) || (possible.is_empty() && source == OperationSource::CommandLine) {
            let source = if sure && source == OperationSource::FileName { OperationSource::Figures } else { source };
            (table.operation, table.operation_source) = (Some(op), source);
            return;
        }
        let what = if source == OperationSource::CommandLine { "a command line" } else { "the file's name" };
        remarks.push((line, format!("{what} says {op}, but the columns or figures do not fit it")));
    }
    if let Some(op) = possible.first() {
        let source = if sure { OperationSource::Figures } else { OperationSource::Guess };
        if !sure {
            let names: Vec<_> = possible.iter().map(|op| op.name()).collect();
            remarks.push((
                line,
                format!("the operation is not named; the figures allow {}: taken as {op}", names.join(", ")),
            ));
        }
        (table.operation, table.operation_source) = (Some(*op), source);
    } else {
        remarks.push((line, "the operation is not named, and no operation fits the figures".to_owned()));
    }
}

fn count_ranks(
    table: &mut Table,
    said: &Said,
    figures: &Figures,
    listed: Option<u32>,
    remarks: &mut Vec<(usize, String)>,
) {
    let line = table.line;
    let divides = table.operation.is_some_and(Operation::divides_size);
    let exact = figures.blocks.filter(|_| divides).and_then(|n| u32::try_from(n).ok());
    table.ranks_range = match (exact, figures.convention) {
        (Some(n), _) => Some((n, n)),
        (None, Convention::Scaled) => None,
        (None, Convention::Size) => {
            table.operation.zip(figures.factor).and_then(|(op, factor)| ranks::from_factor(op, factor))
        }
    };
    let fits = |n: u32| table.ranks_range.is_none_or(|(low, high)| (low..=high).contains(&n));
    // Figures stand against what was said only if many say the same: one may be damaged.
    let sure = match exact {
        Some(_) => table.rows.iter().filter(|row| row.count > 0).count() > 1,
        None => figures.factor_sure,
    };
    let told = [(listed, RanksSource::Devices), (said.nranks, RanksSource::NcclInfo)];
    for (n, source) in told {
        let Some(n) = n else { continue };
        let fitting = fits(n);
        if !fitting {
            let what = if source == RanksSource::Devices { "the list of devices ends at" } else { "NCCL says" };
            let need = in_words(table.ranks_range);
            let taken = if sure {
                "the figures are taken, as all of them agree".to_owned()
            } else {
                format!("taken as {n}, since a figure may be damaged")
            };
            remarks.push((line, format!("{what} {n} ranks, but the figures need {need}: {taken}")));
        }
        if fitting || !sure {
            (table.ranks, table.ranks_source) = (Some(n), source);
            return;
        }
    }
    if let Some(n) = exact {
        (table.ranks, table.ranks_source) = (Some(n), RanksSource::Counts);
    } else if let Some((low, high)) = table.ranks_range
        && high < u32::MAX
    {
        (table.ranks, table.ranks_source) = (Some(ranks::likeliest((low, high))), RanksSource::Bandwidths);
        if low != high {
            let taken = ranks::likeliest((low, high));
            remarks.push((line, format!("the figures allow {low} to {high} ranks: taken as {taken}")));
        }
    } else if let Some(n) = listed.or(said.nranks) {
        let source = if listed.is_some() { RanksSource::Devices } else { RanksSource::NcclInfo };
        (table.ranks, table.ranks_source) = (Some(n), source);
    }
    if table.ranks == Some(1) {
        let message = "one rank only: nothing crosses a link (nccl-tests built without MPI=1 runs every process alone)";
        remarks.push((line, message.to_owned()));
    }
}

fn in_words(range: Option<(u32, u32)>) -> String {
    match range {
        None => "another number".to_owned(),
        Some((low, high)) if low == high => low.to_string(),
        Some((low, u32::MAX)) => format!("{low} or more"),
        Some((low, high)) => format!("{low} to {high}"),
    }
}

/// The operation that a file's name mentions (`h100-2n-allreduce.txt`, `all_gather_perf.log`).
pub(super) fn operation_of_name(name: &str) -> Option<Operation> {
    let base = name.rsplit(['/', '\\']).next().unwrap_or(name).to_ascii_lowercase();
    let joined: String = base.chars().filter(|c| !"_- .".contains(*c)).collect();
    // Longer names first, so that `allreduce` is no `reduce`.
    [
        ("reducescatter", Operation::ReduceScatter),
        ("hypercube", Operation::Hypercube),
        ("allreduce", Operation::AllReduce),
        ("allgather", Operation::AllGather),
        ("alltoallv", Operation::AllToAllV),
        ("broadcast", Operation::Broadcast),
        ("alltoall", Operation::AllToAll),
        ("sendrecv", Operation::SendRecv),
        ("all2all", Operation::AllToAll),
        ("scatter", Operation::Scatter),
        ("gather", Operation::Gather),
        ("reduce", Operation::Reduce),
        ("bcast", Operation::Broadcast),
    ]
    .into_iter()
    .find(|(key, _)| joined.contains(key))
    .map(|(_, op)| op)
}
