//! Queues and rates over time.

use super::{Chart, Kind, PlotError, Scale, Series};
use crate::result::SeriesResult;

/// Points of a line: more would lie on each other. Rates, of packets that come in turns, are means over more of them.
const POINTS: usize = 400;
const MEANS: usize = 60;
/// Lines that can be told apart.
const LINES: usize = 7;

/// The depth of the deepest queues over time.
///
/// # Errors
/// If nothing queued.
pub fn queues_chart(series: &SeriesResult, title: &str) -> Result<String, PlotError> {
    let cut = series.cut(POINTS, LINES);
    let queues = cut.links.iter().filter(|link| link.queue_bytes.iter().any(|bytes| *bytes > 0));
    let lines = queues.map(|link| {
        let points = cut.time_us.iter().zip(&link.queue_bytes).map(|(us, bytes)| (*us, *bytes as f64 / 1e3));
        Series::new(link.link.clone(), Kind::Line, points.collect())
    });
    chart(title, "queue", "queue, KB on the wire", lines.collect())
}

/// The rate of the queue pairs whose data came last over time.
///
/// # Errors
/// If nothing arrived.
pub fn rates_chart(series: &SeriesResult, title: &str) -> Result<String, PlotError> {
    let cut = series.cut(MEANS, LINES);
    let lines = cut.flows.iter().map(|flow| {
        let points = cut.time_us.iter().zip(&flow.rate).map(|(us, rate)| (*us, *rate));
        Series::new(flow.flow.clone(), Kind::Line, points.collect())
    });
    chart(title, "rate", "payload that arrived, GB/s", lines.collect())
}

fn chart(title: &str, what: &str, y: &str, series: Vec<Series>) -> Result<String, PlotError> {
    Chart {
        title: format!("{title}: {what} over time"),
        x: "time, us".to_owned(),
        y: y.to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series,
    }
    .svg()
}
