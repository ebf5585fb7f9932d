//! The results of the verbs as text.

use std::fmt::Write;

use sim_core::units::Bytes;

use super::fit::parameters_line;
use super::text::{Align, TextTable, number, time_text};
use crate::result::{AbResults, CollectiveResult, CompareLog, CompareResults, LinkResult, PathResults, TransferResult};

/// The size table of `ab` with the half-bandwidth points, then the answers to inverse questions and about a message.
#[must_use]
pub fn ab_text(results: &AbResults) -> String {
    let mut columns = vec![("size".to_owned(), Align::Left)];
    columns.extend(results.links.iter().map(|link| (link.name.clone(), Align::Right)));
    let mut table = TextTable::new(columns);
    let rows = results.links.first().map_or(0, |link| link.rows.len());
    for i in 0..rows {
        let size = results.links[0].rows[i].bytes;
        let mut cells = vec![Bytes::new(size).to_string()];
        cells.extend(
            results.links.iter().map(|l| l.rows.get(i).map_or_else(String::new, |r| format!("{:.1}", r.achieved))),
        );
        table.row(cells);
    }
    let mut cells = vec!["half-bandwidth point".to_owned()];
    cells.extend(results.links.iter().map(|link| size_text(link.half_bandwidth_bytes)));
    table.row(cells);
    let mut out = String::new();
    if !results.links.is_empty() {
        out += "achieved GB/s, one way\n";
        out += &table.render();
    }
    for reach in &results.reach {
        let answer =
            reach.bytes.map_or_else(|| "never".to_owned(), |bytes| format!("at {} ({bytes:.0} B)", size_text(bytes)));
        let _ = writeln!(out, "reach {} GB/s: {answer}", reach.target);
    }
    if let Some(m) = &results.message {
        let _ = writeln!(
            out,
            "message {}: one hop {}, {:.0} % of it fixed",
            Bytes::new(m.bytes),
            time_text(m.one_hop_us),
            m.fixed_share * 100.0
        );
        let ways = [("one-shot", m.one_shot_us), ("two-shot", m.two_shot_us), ("ring", m.ring_us)];
        let known: Vec<_> = ways.into_iter().filter_map(|(name, us)| Some((name, us?))).collect();
        if let Some((cheapest, _)) = known.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
            let list: Vec<_> = known.iter().map(|(name, us)| format!("{name} {}", time_text(*us))).collect();
            let _ = writeln!(out, "as an all-reduce: {}; cheapest of these: {cheapest}", list.join(", "));
        }
        for (other, bytes) in [("two-shot", m.one_shot_two_shot_bytes), ("the ring", m.one_shot_ring_bytes)] {
            if let Some(bytes) = bytes {
                let _ = writeln!(out, "one-shot beats {other} below {}", size_text(bytes));
            }
        }
    }
    out
}

/// The hops of a path with its sum and bottleneck.
#[must_use]
pub fn path_text(results: &PathResults) -> String {
    let mut table = TextTable::new([
        ("from", Align::Left),
        ("to", Align::Left),
        ("class", Align::Left),
        ("latency ns", Align::Right),
        ("GB/s", Align::Right),
        ("", Align::Left),
    ]);
    for hop in &results.hops {
        let slowest = hop.bandwidth <= results.bandwidth;
        let mark = if slowest { "<- bottleneck" } else { "" };
        let (latency, bandwidth) = (number(hop.latency_ns, 4), number(hop.bandwidth, 4));
        table.row([hop.from.as_str(), &hop.to, &hop.class, &latency, &bandwidth, mark]);
    }
    let total = format!(
        "{} hops, {} ns, {} GB/s\n",
        results.hops.len(),
        number(results.latency_ns, 4),
        number(results.bandwidth, 4)
    );
    table.render() + &total
}

/// Collectives, one per line.
#[must_use]
pub fn collectives_text(rows: &[CollectiveResult]) -> String {
    let ranged = rows.iter().any(|r| r.low_us.is_some());
    let typed = rows.iter().any(|r| r.kind.is_some());
    let mut columns = vec![
        ("op", Align::Left),
        ("size", Align::Right),
        ("algo/proto", Align::Left),
        ("channels", Align::Right),
        ("time", Align::Right),
        ("algbw GB/s", Align::Right),
        ("busbw GB/s", Align::Right),
        ("bottleneck", Align::Left),
    ];
    if ranged {
        columns.insert(5, ("90 % interval", Align::Left));
    }
    if typed {
        columns.insert(1, ("type", Align::Left));
    }
    let mut table = TextTable::new(columns);
    for r in rows {
        let mut cells = vec![
            r.op.clone(),
            Bytes::new(r.bytes).to_string(),
            format!("{}/{}", r.algorithm, r.protocol),
            r.channels.to_string(),
            time_text(r.time_us),
            format!("{:.2}", r.algbw),
            format!("{:.2}", r.busbw),
            r.bottleneck.clone(),
        ];
        if ranged {
            let range = |low, high| format!("{} to {}", time_text(low), time_text(high));
            cells.insert(5, r.low_us.zip(r.high_us).map_or_else(String::new, |(low, high)| range(low, high)));
        }
        if typed {
            cells.insert(1, r.kind.clone().unwrap_or_default());
        }
        table.row(cells);
    }
    table.render()
}

/// Transfers, one per line.
#[must_use]
pub fn transfers_text(rows: &[TransferResult]) -> String {
    let mut columns = vec![
        ("from", Align::Left),
        ("to", Align::Left),
        ("size", Align::Right),
        ("start", Align::Right),
        ("time", Align::Right),
        ("GB/s", Align::Right),
    ];
    let several = rows.iter().any(|r| r.workload.is_some());
    if several {
        columns.insert(0, ("workload", Align::Left));
    }
    let mut table = TextTable::new(columns);
    for r in rows {
        let mut cells = vec![
            r.src.clone(),
            r.dst.clone(),
            Bytes::new(r.bytes).to_string(),
            time_text(r.start_us),
            time_text(r.time_us),
            number(r.rate, 4),
        ];
        if several {
            cells.insert(0, r.workload.clone().unwrap_or_default());
        }
        table.row(cells);
    }
    table.render()
}

/// The `most` busiest links (ties by name), one per line.
#[must_use]
pub fn links_text(rows: &[LinkResult], most: usize) -> String {
    // Marks, pauses and drops are shown where there are any: a zero would look like a measurement of a transport
    // that marks, pauses or drops.
    let controlled = rows.iter().any(|l| l.ecn_marked > 0 || l.pfc_pause_us > 0.0 || l.drops > 0);
    let mut columns = vec![
        ("link", Align::Left),
        ("class", Align::Left),
        ("busy", Align::Right),
        ("carried", Align::Right),
        ("peak queue", Align::Right),
    ];
    if controlled {
        columns.extend([("ECN marks", Align::Right), ("paused", Align::Right), ("drops", Align::Right)]);
    }
    let mut table = TextTable::new(columns);
    let mut order: Vec<_> = rows.iter().collect();
    order.sort_by(|a, b| b.utilization.total_cmp(&a.utilization).then_with(|| a.link.cmp(&b.link)));
    for l in order.into_iter().take(most) {
        let mut cells = vec![
            l.link.clone(),
            l.class.clone(),
            format!("{:.1} %", l.utilization * 100.0),
            Bytes::new(l.bytes).to_string(),
            l.peak_queue_bytes.map_or_else(|| "–".to_owned(), |bytes| Bytes::new(bytes).to_string()),
        ];
        if controlled {
            cells.extend([l.ecn_marked.to_string(), time_text(l.pfc_pause_us), l.drops.to_string()]);
        }
        table.row(cells);
    }
    table.render()
}

/// Predicted beside measured for every log, then the figures over all.
#[must_use]
pub fn compare_text(results: &CompareResults) -> String {
    let mut out = String::new();
    for log in &results.logs {
        out += &compare_log(log);
        out.push('\n');
    }
    let percent = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{:.1} %", x * 100.0));
    let rows: usize = results.logs.iter().map(|log| log.rows.len()).sum();
    let _ = writeln!(
        out,
        "{rows} rows: mean |error| {}, median |error| {}, p90 |error| {}",
        percent(results.mape),
        percent(results.median_abs_error),
        percent(results.p90_abs_error)
    );
    for failed in &results.failed {
        let _ = writeln!(out, "failed: {}: {}", failed.log, failed.message);
    }
    if let Some(share) = results.in_interval {
        let _ = writeln!(out, "in the 90 % interval: {:.0} % of the rows", share * 100.0);
    }
    out
}

fn compare_log(log: &CompareLog) -> String {
    let mut out = format!("{}: {}", log.log, log.op.as_deref().unwrap_or("unknown operation"));
    if let Some(ranks) = log.ranks {
        let _ = write!(out, ", {ranks} ranks");
    }
    if let Some(nccl) = &log.nccl {
        let _ = write!(out, ", {nccl}");
    }
    out.push('\n');
    out += &compare_rows(log, true).render();
    if !log.bands.is_empty() {
        out += &compare_bands(log).render();
    }
    for sentence in &log.pattern {
        let _ = writeln!(out, "pattern: {sentence}");
    }
    if !log.parameters.is_empty() {
        let _ = writeln!(out, "{}", parameters_line(&log.parameters));
    }
    for warning in &log.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

/// The figures of each band.
pub(super) fn compare_bands(log: &CompareLog) -> TextTable {
    let mut table = TextTable::new([
        ("band", Align::Left),
        ("rows", Align::Right),
        ("median", Align::Right),
        ("median |error|", Align::Right),
        ("p90 |error|", Align::Right),
    ]);
    for b in &log.bands {
        table.row([
            b.band.name().to_owned(),
            b.count.to_string(),
            format!("{:+.1} %", b.median_error * 100.0),
            format!("{:.1} %", b.median_abs_error * 100.0),
            format!("{:.1} %", b.p90_abs_error * 100.0),
        ]);
    }
    table
}

/// Predicted beside measured; with ranges and remarks, or without. Types are named where there are several.
pub(super) fn compare_rows(log: &CompareLog, ranged: bool) -> TextTable {
    let typed = log.rows.iter().any(|r| r.kind.is_some());
    let mut columns = vec![("size", Align::Right)];
    columns.extend(typed.then_some(("type", Align::Left)));
    columns.extend([
        ("place", Align::Left),
        ("predicted", Align::Right),
        ("measured", Align::Right),
        ("error", Align::Right),
    ]);
    columns.extend([("range", Align::Left), ("", Align::Left)].into_iter().filter(|_| ranged));
    let mut table = TextTable::new(columns);
    for r in &log.rows {
        let mut cells = vec![Bytes::new(r.bytes).to_string()];
        cells.extend(typed.then(|| r.kind.clone().unwrap_or_default()));
        cells.extend([
            r.placement.name().to_owned(),
            time_text(r.predicted_us),
            time_text(r.measured_us),
            format!("{:+.1} %", r.error * 100.0),
        ]);
        if ranged {
            let range = format!("{} to {}", time_text(r.low_us), time_text(r.high_us));
            cells.push(if r.low_us < r.high_us { range } else { String::new() });
            cells.push(if r.outlier { "outlier".to_owned() } else { String::new() });
        }
        table.row(cells);
    }
    table
}

/// A size that need not be whole.
fn size_text(bytes: f64) -> String {
    Bytes::new(bytes.round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{AbLink, AbReach, AbRow, PathHop};

    #[test]
    fn the_calculator() {
        let link = |(name, alpha, beta): (&str, f64, f64)| AbLink {
            name: name.to_owned(),
            half_bandwidth_bytes: alpha * beta * 1e3,
            rows: [4u64 << 10, 1 << 20]
                .map(|bytes| {
                    let time_us = alpha + bytes as f64 / beta / 1e3;
                    AbRow { bytes, time_us, achieved: bytes as f64 / time_us / 1e3 }
                })
                .into(),
        };
        let results = AbResults {
            links: [("nvlink", 1.0, 450.0), ("ib400", 3.0, 50.0)].map(link).into(),
            reach: vec![AbReach { target: 100.0, bytes: Some(1e6) }, AbReach { target: 500.0, bytes: None }],
            message: None,
        };
        insta::assert_snapshot!(ab_text(&results), @r"
        achieved GB/s, one way
        size                     nvlink      ib400
        4 KiB                       4.1        1.3
        1 MiB                     314.9       43.7
        half-bandwidth point  439.5 KiB  146.5 KiB
        reach 100 GB/s: at 976.6 KiB (1000000 B)
        reach 500 GB/s: never
        ");
    }

    #[test]
    fn a_path() {
        let hop = |from: &str, to: &str, class: &str, latency_ns, bandwidth| PathHop {
            from: from.to_owned(),
            to: to.to_owned(),
            class: class.to_owned(),
            latency_ns,
            bandwidth,
        };
        let hops = vec![
            hop("node0.gpu0", "node0.nic0", "pcie", 600.0, 63.0),
            hop("node0.nic0", "leaf0", "network", 300.0, 50.0),
        ];
        insta::assert_snapshot!(path_text(&PathResults { hops, latency_ns: 900.0, bandwidth: 50.0 }), @r"
        from        to          class    latency ns   GB/s
        node0.gpu0  node0.nic0  pcie          600.0  63.00
        node0.nic0  leaf0       network       300.0  50.00  <- bottleneck
        2 hops, 900.0 ns, 50.00 GB/s
        ");
    }
}
