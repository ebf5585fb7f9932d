//! The best of all ways to run each size, for people and for NCCL's example tuner plugin.

use core::fmt::Write as _;

use sim_core::units::Bytes;
use sim_report::result::{BestResult, TriedResult};
use sim_report::table::{Align, TextTable, time_text};

/// The search in a table, and what it comes to.
pub(super) fn text(list: &[BestResult]) -> String {
    let mut out = String::new();
    if list.is_empty() {
        return out;
    }
    let tried: usize = list.iter().map(|b| b.tried.len()).sum();
    let slower: u32 = list.iter().map(|b| b.slower).sum();
    let _ = writeln!(
        out,
        "\nthe best of all ways: {tried} played to their end, {slower} given up as more than a quarter slower than NCCL's choice"
    );
    let mut table = TextTable::new([
        ("size", Align::Right),
        ("NCCL takes", Align::Left),
        ("time", Align::Right),
        ("best", Align::Left),
        ("time", Align::Right),
        ("saves", Align::Right),
    ]);
    for b in list {
        let (best, time, saved) = if b.best == b.nccl {
            ("the same".to_owned(), String::new(), String::new())
        } else {
            (name(&b.best), time_text(b.best.time_us), format!("{:.1} %", b.saved * 100.0))
        };
        table.row([Bytes::new(b.bytes).to_string(), name(&b.nccl), time_text(b.nccl.time_us), best, time, saved]);
    }
    let _ = write!(out, "{}", table.render());
    let better = list.iter().filter(|b| b.best != b.nccl).count();
    if let Some(most) = list.iter().max_by(|a, b| a.saved.total_cmp(&b.saved)).filter(|_| better > 0) {
        let (size, share) = (Bytes::new(most.bytes), most.saved * 100.0);
        let _ = writeln!(
            out,
            "NCCL's choice is not the fastest at {better} of {} sizes; most at {size}: {share:.1} %",
            list.len()
        );
    }
    out
}

fn name(way: &TriedResult) -> String {
    format!("{}/{}, {} ch", way.algorithm, way.protocol, way.channels)
}

/// The columns of the configuration file that NCCL's example tuner plugin reads (`ext-tuner/example` in its sources).
const COLUMNS: &str =
    "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff";

/// The file of NCCL's example tuner plugin that makes NCCL take the best at every size of the sweep, on so many nodes and
/// ranks. `None` for an operation that NCCL does not ask a tuner about.
///
/// A size of the sweep stands for those up to half way (in proportion) to its neighbours. Sizes beyond the sweep have no
/// line, so that NCCL chooses there.
pub(super) fn tuner(list: &[BestResult], (nodes, ranks): (u32, u32), head: &str) -> Option<String> {
    let collective = match list.first()?.op.as_str() {
        "all_reduce" => "allreduce",
        "all_gather" => "allgather",
        "reduce_scatter" => "reducescatter",
        "broadcast" => "broadcast",
        "reduce" => "reduce",
        _ => return None,
    };
    let mut sizes: Vec<&BestResult> = list.iter().collect();
    sizes.sort_by_key(|b| b.bytes);
    let middle = |a: u64, b: u64| ((a.max(1) as f64) * b as f64).sqrt() as u64;
    // (first byte, last byte, words, times as NCCL's and as the best)
    let mut ranges: Vec<(u64, u64, String, f64, f64)> = Vec::new();
    for (i, b) in sizes.iter().enumerate() {
        let first = if i == 0 { b.bytes } else { middle(sizes[i - 1].bytes, b.bytes) + 1 };
        let last = sizes.get(i + 1).map_or(b.bytes, |next| middle(b.bytes, next.bytes));
        let channels = b.best.most_channels.map_or("-1".to_owned(), |most| most.to_string());
        let words = format!("{},{},{channels}", b.best.algorithm, b.best.protocol.to_lowercase());
        match ranges.last_mut() {
            Some(range) if range.2 == words => {
                (range.1, range.3, range.4) = (last, range.3 + b.nccl.time_us, range.4 + b.best.time_us);
            }
            _ => ranges.push((first, last, words, b.nccl.time_us, b.best.time_us)),
        }
    }
    let mut out = format!(
        "# {head}\n# For NCCL's example tuner plugin: NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=this file.\n\
         # Simulated, not measured: the last columns of each comment are what NCCL's own choice takes and what this does, in all sizes of the range.\n{COLUMNS}\n"
    );
    for (first, last, words, nccl, best) in ranges {
        let _ = writeln!(
            out,
            "# {} to {}: {} -> {}",
            Bytes::new(first),
            Bytes::new(last),
            time_text(nccl),
            time_text(best)
        );
        let _ = writeln!(out, "{collective},{first},{last},{words},{nodes},{ranks},-1,-1");
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(bytes: u64, algorithm: &str, most_channels: Option<u32>, us: f64) -> BestResult {
        let way = |time_us| TriedResult {
            algorithm: algorithm.to_owned(),
            protocol: "LL128".to_owned(),
            channels: 4,
            most_channels,
            time_us,
            busbw: 1.0,
        };
        let (nccl, best) = (TriedResult { algorithm: "ring".to_owned(), ..way(10.0) }, way(us));
        let saved = 1.0 - us / 10.0;
        BestResult { op: "all_reduce".to_owned(), bytes, nccl, best, saved, tried: Vec::new(), slower: 0 }
    }

    #[test]
    fn ranges_of_one_winner_are_one_line_and_leave_no_gap() {
        let list =
            [size(1024, "tree", None, 8.0), size(4096, "tree", None, 9.0), size(16_384, "nvls_tree", Some(16), 5.0)];
        let text = tuner(&list, (2, 16), "head").unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            ["allreduce,1024,8192,tree,ll128,-1,2,16,-1,-1", "allreduce,8193,16384,nvls_tree,ll128,16,2,16,-1,-1"]
        );
        assert!(text.contains("# head\n") && text.contains("NCCL_TUNER_CONFIG_FILE"), "{text}");
        let other = BestResult { op: "alltoall".to_owned(), ..list[0].clone() };
        assert_eq!(tuner(&[other], (2, 16), ""), None);
    }
}
