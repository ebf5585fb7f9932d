//! CSV: one header line, units in the column names, no thousands separators.

use std::io::Write;

use serde::Serialize;

use crate::result::{CollectiveResult, CompareResults, LinkResult, TransferResult};

/// Writes `rows` with the field names of their type as header. Without a row, nothing is written but `header`.
///
/// # Errors
/// If writing fails, or a row has a field that is no single value.
pub fn write_csv<T: Serialize>(
    out: impl Write,
    header: &[&str],
    rows: impl IntoIterator<Item = T>,
) -> Result<(), csv::Error> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(header)?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()?;
    Ok(())
}

/// Writes collectives, one per line.
///
/// # Errors
/// If writing fails.
pub fn collectives_csv(out: impl Write, rows: &[CollectiveResult]) -> Result<(), csv::Error> {
    let plain =
        ["op", "bytes", "algorithm", "protocol", "channels", "time_us", "algbw_GBps", "busbw_GBps", "bottleneck"];
    let mut header = plain.to_vec();
    // The interval of all or of none, and types where there are several: a column has a cell in every row.
    let ranged = !rows.is_empty() && rows.iter().all(|row| row.low_us.is_some() && row.high_us.is_some());
    let typed = rows.iter().any(|row| row.kind.is_some());
    if ranged {
        header.extend(["low_us", "high_us"]);
    }
    if typed {
        header.push("type");
    }
    let even = |row: &CollectiveResult| CollectiveResult {
        low_us: row.low_us.filter(|_| ranged),
        high_us: row.high_us.filter(|_| ranged),
        kind: typed.then(|| row.kind.clone().unwrap_or_default()),
        ..row.clone()
    };
    write_csv(out, &header, rows.iter().map(even))
}

/// Writes transfers, one per line.
///
/// # Errors
/// If writing fails.
pub fn transfers_csv(out: impl Write, rows: &[TransferResult]) -> Result<(), csv::Error> {
    let mut header = vec!["src", "dst", "bytes", "start_us", "time_us", "GBps"];
    // Those over a network of packets have all, others none of the last three.
    let packets = rows.iter().any(|row| row.acked_us.is_some());
    if packets {
        header.extend(["acked_us", "retransmitted", "marked"]);
    }
    let several = rows.iter().any(|row| row.workload.is_some());
    if several {
        header.push("workload");
    }
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.src.clone(), row.dst.clone(), row.bytes.to_string()];
        cells.extend([row.start_us, row.time_us, row.rate].map(|number| number.to_string()));
        if packets {
            let text = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
            cells.push(row.acked_us.map_or_else(String::new, |us| us.to_string()));
            cells.extend([text(row.retransmitted), text(row.marked)]);
        }
        if several {
            cells.push(row.workload.clone().unwrap_or_default());
        }
        cells
    });
    write_csv(out, &header, cells)
}

/// Writes links, one per line.
///
/// # Errors
/// If writing fails.
pub fn links_csv(out: impl Write, rows: &[LinkResult]) -> Result<(), csv::Error> {
    let header = [
        "link",
        "class",
        "bytes",
        "utilization",
        "peak_queue_bytes",
        "ecn_marked",
        "pfc_pause_us",
        "drops",
        "mean_queue_bytes",
        "pfc_pauses",
        "credit_stall_us",
    ];
    // Links of a network of packets have the rest, others don't.
    let packets = rows.iter().any(|row| row.mean_queue_bytes.is_some());
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.link.clone(), row.class.clone(), row.bytes.to_string(), row.utilization.to_string()];
        cells.push(row.peak_queue_bytes.map_or_else(String::new, |n| n.to_string()));
        cells.push(row.ecn_marked.to_string());
        cells.extend([row.pfc_pause_us.to_string(), row.drops.to_string()]);
        if packets {
            let text = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
            cells.push(text(row.mean_queue_bytes));
            cells.push(row.pfc_pauses.map_or_else(String::new, |n| n.to_string()));
            cells.push(text(row.credit_stall_us));
        }
        cells
    });
    write_csv(out, &header[..if packets { 11 } else { 8 }], cells)
}

/// Writes a comparison, one row of a log per line.
///
/// # Errors
/// If writing fails.
pub fn compare_csv(out: impl Write, results: &CompareResults) -> Result<(), csv::Error> {
    let header = [
        "log",
        "op",
        "ranks",
        "bytes",
        "placement",
        "measured_us",
        "predicted_us",
        "low_us",
        "high_us",
        "error",
        "outlier",
        "type",
    ];
    let typed = results.logs.iter().flat_map(|log| &log.rows).any(|r| r.kind.is_some());
    let header = &header[..header.len() - usize::from(!typed)];
    let rows = results.logs.iter().flat_map(|log| {
        log.rows.iter().map(move |r| {
            (
                &log.log,
                &log.op,
                log.ranks,
                r.bytes,
                r.placement,
                r.measured_us,
                r.predicted_us,
                r.low_us,
                r.high_us,
                r.error,
                // The last columns: a type only where a log has several.
                (r.outlier, Vec::from_iter(typed.then(|| r.kind.as_deref().unwrap_or_default()))),
            )
        })
    });
    write_csv(out, header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Placement;
    use crate::result::{CompareLog, CompareRow};

    #[test]
    fn headers_match_the_fields() {
        let collective = CollectiveResult {
            op: "all_reduce".to_owned(),
            bytes: 8,
            algorithm: "ring".to_owned(),
            protocol: "LL".to_owned(),
            channels: 2,
            time_us: 1.5,
            algbw: 0.1,
            busbw: 0.2,
            bottleneck: "latency, mostly".to_owned(),
            low_us: None,
            high_us: None,
            kind: None,
        };
        let mut out = Vec::new();
        collectives_csv(&mut out, std::slice::from_ref(&collective)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (header, row) = text.split_once('\n').unwrap();
        assert_eq!(row, "all_reduce,8,ring,LL,2,1.5,0.1,0.2,\"latency, mostly\"\n");
        let value = serde_json::to_value(&collective).unwrap();
        assert_eq!(header, value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(","));
        let link: LinkResult = serde_json::from_str(
            r#"{"link":"a","class":"b","bytes":1,"utilization":0.5,"peak_queue_bytes":2,"ecn_marked":3,"pfc_pause_us":4.5,"drops":5}"#,
        )
        .unwrap();
        let mut out = Vec::new();
        links_csv(&mut out, &[link]).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("\na,b,1,0.5,2,3,4.5,5\n"));
    }

    #[test]
    fn comparisons_without_names_and_without_rows() {
        let row = CompareRow {
            bytes: 8,
            placement: Placement::InPlace,
            measured_us: 2.0,
            predicted_us: 3.0,
            low_us: 2.5,
            high_us: 3.5,
            error: 0.5,
            outlier: false,
            kind: None,
        };
        let log = CompareLog {
            log: "x".to_owned(),
            op: None,
            ranks: None,
            rows: vec![row],
            bands: vec![],
            pattern: vec![],
            nccl: None,
            parameters: Vec::new(),
            warnings: vec![],
        };
        let results = CompareResults { logs: vec![log], ..CompareResults::default() };
        let mut out = Vec::new();
        compare_csv(&mut out, &results).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("outlier\nx,,,8,in,2.0,3.0,2.5,3.5,0.5,false\n"));
        let mut out = Vec::new();
        transfers_csv(&mut out, &[]).unwrap();
        assert_eq!(out, b"src,dst,bytes,start_us,time_us,GBps\n");
        let joined = TransferResult { workload: Some("storage".into()), ..TransferResult::default() };
        let mut out = Vec::new();
        transfers_csv(&mut out, &[TransferResult::default(), joined]).unwrap();
        assert_eq!(out, b"src,dst,bytes,start_us,time_us,GBps,workload\n,,0,0,0,0,\n,,0,0,0,0,storage\n");
    }
}
