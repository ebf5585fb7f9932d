//! SVG charts without fonts, scripts or external files.
//!
//! Series differ by colour (a palette for colour-blind readers), by dash and by marker, so that they can be told apart
//! in grey. `plotters` is used in this module only.

mod chart;
mod scale;
mod series;
mod timeline;

pub use chart::{Chart, Kind, PlotError, Scale, Series};
pub use series::{queues_chart, rates_chart};
pub use timeline::{SpanKind, Timeline, TimelineRank, TimelineSpan};

use crate::compare::{LogComparison, Placement};
use crate::metrics::Operation;
use crate::result::AbResults;

/// Bus bandwidth over size: measured points, predicted line.
///
/// # Errors
/// If there is nothing to draw.
pub fn busbw_chart(logs: &[LogComparison]) -> Result<String, PlotError> {
    let mut series = Vec::new();
    for log in logs {
        let factor = |us: f64, bytes| {
            let op = log.operation.unwrap_or(Operation::Broadcast);
            op.bandwidths(bytes, us, log.ranks.unwrap_or(1)).1
        };
        let points = |placement: Placement, measured: bool| -> Vec<(f64, f64)> {
            log.rows
                .iter()
                .filter(|row| row.placement == placement)
                .map(|row| {
                    (
                        row.bytes.get() as f64,
                        factor(if measured { row.measured_us } else { row.predicted_us }, row.bytes),
                    )
                })
                .collect()
        };
        series.push(Series::new(format!("{} predicted", log.log), Kind::Line, points(Placement::OutOfPlace, false)));
        series.push(Series::new(format!("{} measured", log.log), Kind::Points, points(Placement::OutOfPlace, true)));
    }
    let operation = logs.first().and_then(|log| log.operation).map_or("", Operation::name);
    Chart {
        title: format!("{operation} bus bandwidth, predicted and measured").trim().to_owned(),
        x: "size".to_owned(),
        y: "busbw, GB/s".to_owned(),
        x_scale: Scale::Bytes,
        y_scale: Scale::Linear,
        series,
    }
    .svg()
}

/// Achieved rate over size for each link of an α-β calculation.
///
/// # Errors
/// If there is nothing to draw.
pub fn ab_chart(results: &AbResults) -> Result<String, PlotError> {
    let series = results
        .links
        .iter()
        .map(|link| {
            let points = link.rows.iter().map(|row| (row.bytes as f64, row.achieved)).collect();
            Series::new(link.name.clone(), Kind::Line, points)
        })
        .collect();
    Chart {
        title: "Achieved rate over message size, one way".to_owned(),
        x: "message size".to_owned(),
        y: "GB/s".to_owned(),
        x_scale: Scale::Bytes,
        y_scale: Scale::Linear,
        series,
    }
    .svg()
}

#[cfg(test)]
mod tests;
