//! What was recorded of packets: ports, queue pairs and samples as CSV, queues over time as text.

use core::fmt::Write as _;
use std::io::Write;

use sim_core::units::Bytes;

use super::csv_file::write_csv;
use super::text::{Align, TextTable, number, time_text};
use crate::result::{FlowRow, PortRow, SeriesResult};

/// Writes ports and classes, one per line.
///
/// # Errors
/// If writing fails.
pub fn ports_csv(out: impl Write, rows: &[PortRow]) -> Result<(), csv::Error> {
    let header = [
        "link",
        "class",
        "bytes",
        "packets",
        "control_bytes",
        "utilization",
        "mean_queue_bytes",
        "p99_queue_bytes",
        "peak_queue_bytes",
        "ecn_marked",
        "cnps",
        "pfc_pauses",
        "pfc_pause_us",
        "pfc_sent",
        "pfc_sent_us",
        "pfc_refreshes",
        "credit_waits",
        "credit_stall_us",
        "ingress_peak_bytes",
        "headroom_peak_bytes",
        "drops",
        "headroom_drops",
        "watchdog_drops",
        "lost",
        "retransmitted",
    ];
    write_csv(out, &header, rows)
}

/// Writes queue pairs, one per line; the links of a path are apart by blanks.
///
/// # Errors
/// If writing fails.
pub fn flows_csv(out: impl Write, rows: &[FlowRow]) -> Result<(), csv::Error> {
    let header = [
        "run",
        "src",
        "dst",
        "qp",
        "bytes",
        "messages",
        "start_us",
        "fct_us",
        "acked_us",
        "slowdown",
        "marked",
        "cnps",
        "retransmitted",
        "timeouts",
        "held_us",
        "window_us",
        "paced_us",
        "failed",
        "path",
    ];
    let text = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.run.clone(), row.src.clone(), row.dst.clone()];
        cells.extend([u64::from(row.qp), row.bytes, row.messages].map(|n| n.to_string()));
        cells.extend([row.start_us, row.fct_us].map(|n| n.to_string()));
        cells.extend([text(row.acked_us), text(row.slowdown)]);
        cells.extend([row.marked, row.cnps, row.retransmitted, row.timeouts].map(|n| n.to_string()));
        cells.extend([row.held_us, row.window_us, row.paced_us].map(|n| n.to_string()));
        cells.extend([row.failed.to_string(), row.path.join(" ")]);
        cells
    });
    write_csv(out, &header, cells)
}

/// Writes samples, one link or queue pair and instant per line, in order of time for each.
///
/// # Errors
/// If writing fails.
pub fn series_csv(out: impl Write, all: &[SeriesResult]) -> Result<(), csv::Error> {
    let header = [
        "run",
        "kind",
        "name",
        "time_us",
        "rate_GBps",
        "queue_bytes",
        "held",
        "marked",
        "allowed_GBps",
        "outstanding_bytes",
    ];
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(header)?;
    let bit = |held: bool| if held { "1" } else { "0" };
    for series in all {
        for link in &series.links {
            for (at, us) in series.time_us.iter().enumerate() {
                let numbers = [us.to_string(), link.rate[at].to_string(), link.queue_bytes[at].to_string()];
                let [us, rate, queue] = numbers.each_ref().map(String::as_str);
                let marked = link.marked[at].to_string();
                let row = [&series.run, "link", &link.link, us, rate, queue, bit(link.held[at]), &marked, "", ""];
                writer.write_record(row)?;
            }
        }
        for flow in &series.flows {
            for (at, us) in series.time_us.iter().enumerate() {
                let allowed = flow.allowed[at].map_or_else(String::new, |rate| rate.to_string());
                let numbers = [us.to_string(), flow.rate[at].to_string(), flow.outstanding_bytes[at].to_string()];
                let [us, rate, left] = numbers.each_ref().map(String::as_str);
                writer.write_record([&series.run, "flow", &flow.flow, us, rate, "", "", "", &allowed, left])?;
            }
        }
    }
    writer.flush()?;
    Ok(())
}

/// Columns of a line of small bars.
const BARS: usize = 48;
/// Links and queue pairs shown of a simulation.
const SHOWN: usize = 4;

/// Queues and rates over time, each as a line of bars from nothing to its largest: the deepest queues and the flows that moved
/// most.
#[must_use]
pub fn series_text(all: &[SeriesResult]) -> String {
    let mut out = String::new();
    for series in all {
        let Some(last) = series.time_us.last() else { continue };
        let wider = if series.interval_us > series.asked_us {
            format!(" ({} asked: more would not fit)", time_text(series.asked_us))
        } else {
            String::new()
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "\n{}, from {} to {}, a sample each {}{wider}",
            series.run,
            time_text(series.time_us[0]),
            time_text(*last),
            time_text(series.interval_us)
        );
        let cut = series.cut(BARS, SHOWN);
        let mut table =
            TextTable::new([("queue or rate over time", Align::Left), ("most", Align::Right), ("", Align::Left)]);
        for link in cut.links.iter().filter(|link| link.queue_bytes.iter().any(|bytes| *bytes > 0)) {
            let queue: Vec<f64> = link.queue_bytes.iter().map(|bytes| *bytes as f64).collect();
            let most = link.queue_bytes.iter().max().copied().unwrap_or(0);
            table.row([format!("queue of {}", link.link), Bytes::new(most).to_string(), bars(&queue)]);
        }
        for flow in &cut.flows {
            let most = flow.rate.iter().copied().fold(0.0, f64::max);
            table.row([format!("rate of {}", flow.flow), format!("{} GB/s", number(most, 3)), bars(&flow.rate)]);
        }
        out += &table.render();
    }
    out
}

/// A bar a value, in eighths of the largest.
fn bars(values: &[f64]) -> String {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let eighths = if most > 0.0 { (value / most * 8.0).ceil() as usize } else { 0 };
        EIGHTHS[eighths.min(8)]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowSeries, LinkSeries};

    fn one() -> SeriesResult {
        SeriesResult {
            run: "transfers".to_owned(),
            asked_us: 1.0,
            interval_us: 2.0,
            time_us: vec![0.0, 2.0],
            links: vec![LinkSeries {
                link: "a->b".to_owned(),
                queue_bytes: vec![0, 4096],
                rate: vec![0.0, 12.5],
                held: vec![false, true],
                marked: vec![0, 3],
            }],
            flows: vec![FlowSeries {
                flow: "a->c".to_owned(),
                rate: vec![0.0, 6.0],
                allowed: vec![None, Some(6.25)],
                outstanding_bytes: vec![4096, 0],
            }],
            left_out: 0,
        }
    }

    #[test]
    fn headers_match_the_fields() {
        let mut out = Vec::new();
        ports_csv(&mut out, &[PortRow::default()]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let value = serde_json::to_value(PortRow::default()).unwrap();
        let fields = value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(text.lines().next().unwrap(), fields.join(","));
        assert_eq!(text.lines().nth(1).unwrap().split(',').count(), fields.len());
        let flow =
            FlowRow { acked_us: Some(1.5), slowdown: Some(2.0), path: vec!["x".into(); 2], ..FlowRow::default() };
        let mut out = Vec::new();
        flows_csv(&mut out, std::slice::from_ref(&flow)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let value = serde_json::to_value(&flow).unwrap();
        let fields = value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(text.lines().next().unwrap(), fields.join(","));
        assert!(text.lines().nth(1).unwrap().ends_with(",false,x x"), "{text}");
    }

    #[test]
    fn samples_are_lines_and_bars() {
        let mut out = Vec::new();
        series_csv(&mut out, &[one()]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1], "transfers,link,a->b,2,12.5,4096,1,3,,");
        assert_eq!(lines[3], "transfers,flow,a->c,2,6,,,,6.25,0");
        let text = series_text(&[one()]);
        assert!(text.contains("queue of a->b") && text.contains("4 KiB") && text.contains('█'), "{text}");
        assert!(text.contains("1 µs asked"), "{text}");
        assert_eq!(series_text(&[SeriesResult::default()]), "");
        assert_eq!(bars(&[0.0, 0.5, 1.0, 8.0]), " ▁▁█");
    }
}
