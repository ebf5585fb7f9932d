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
    let header =
        ["op", "bytes", "algorithm", "protocol", "channels", "time_us", "algbw_GBps", "busbw_GBps", "bottleneck"];
    write_csv(out, &header, rows)
}

/// Writes transfers, one per line.
///
/// # Errors
/// If writing fails.
pub fn transfers_csv(out: impl Write, rows: &[TransferResult]) -> Result<(), csv::Error> {
    write_csv(out, &["src", "dst", "bytes", "start_us", "time_us", "GBps"], rows)
}

/// Writes links, one per line.
///
/// # Errors
/// If writing fails.
pub fn links_csv(out: impl Write, rows: &[LinkResult]) -> Result<(), csv::Error> {
    let header = ["link", "class", "bytes", "utilization", "peak_queue_bytes", "ecn_marked", "pfc_pause_us", "drops"];
    write_csv(out, &header, rows)
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
    ];
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
                r.outlier,
            )
        })
    });
    write_csv(out, &header, rows)
}
