//! The files that `bench --out` and `run --out` write.

use sim_report::plot::{Chart, Kind, Scale, Series, queues_chart, rates_chart};
use sim_report::result::{Envelope, Warning};
use sim_report::table::{
    collectives_csv, flows_csv, inference_csv, links_csv, ports_csv, series_csv, step_csv, transfers_csv, write_csv,
};

use super::super::context::overrides;
use super::super::fault::Failure;
use super::super::folder::Folder;
use crate::scenario::Loaded;
use crate::simulate::{PlayedStep, Report};

/// All names, so that an old run and a new one never mix.
pub(super) const NAMES: &[&str] = &[
    "result.json",
    "collectives.csv",
    "transfers.csv",
    "links.csv",
    "step.csv",
    "critical_path.csv",
    "timeline.json",
    "timeline.svg",
    "inference.csv",
    "ports.csv",
    "flows.csv",
    "series.csv",
    "chart.svg",
    "queues.svg",
    "rates.svg",
];

/// Writes all that there is.
pub(super) fn write(
    folder: &Folder,
    loaded: &Loaded,
    name: &str,
    warnings: &[Warning],
    report: &Report,
) -> Result<(), Failure> {
    let results = &report.results;
    let envelope = Envelope::new(name, loaded.scenario.seed, results).with_warnings(warnings.to_vec());
    let envelope = envelope.with_overrides(overrides(&loaded.catalogue));
    folder.file("result.json", envelope.to_json().map_err(Failure::internal)?.as_bytes())?;
    // Of what there is: a header alone would say nothing.
    if !results.collectives.is_empty() {
        folder.table("collectives.csv", |out| collectives_csv(out, &results.collectives))?;
    }
    if !report.all_transfers.is_empty() {
        folder.table("transfers.csv", |out| transfers_csv(out, &report.all_transfers))?;
    }
    if !results.inference.is_empty() {
        folder.table("inference.csv", |out| inference_csv(out, &results.inference))?;
    }
    folder.table("links.csv", |out| links_csv(out, &report.all_links))?;
    if let Some(svg) = chart(loaded, report) {
        folder.file("chart.svg", svg.as_bytes())?;
    }
    steps(folder, report)?;
    if loaded.packets.is_some() {
        packets(folder, loaded, report)?;
    }
    folder.finish()
}

/// What is there of training steps: all ranks, the critical path, and the timeline of the first step.
fn steps(folder: &Folder, report: &Report) -> Result<(), Failure> {
    let Some(first) = report.steps.first() else { return Ok(()) };
    folder
        .table("step.csv", |out| step_csv(out, report.steps.iter().map(|s| (s.name.as_str(), s.ranks.as_slice()))))?;
    let header = ["workload", "from_us", "to_us", "rank", "kind", "what", "phase", "micro_batch", "layer"];
    folder.table("critical_path.csv", |out| {
        write_csv(out, &header, report.steps.iter().flat_map(PlayedStep::path_rows))
    })?;
    folder.file("timeline.json", first.timeline.trace().as_bytes())?;
    match first.timeline.svg() {
        Ok(svg) => folder.file("timeline.svg", svg.as_bytes()),
        Err(_) => Ok(()),
    }
}

/// What is there of packets alone.
fn packets(folder: &Folder, loaded: &Loaded, report: &Report) -> Result<(), Failure> {
    let recorded = &report.recorded;
    folder.table("ports.csv", |out| ports_csv(out, &recorded.ports))?;
    folder.table("flows.csv", |out| flows_csv(out, &recorded.flows))?;
    // The last is that of the largest size.
    if let Some(last) = recorded.series.last() {
        folder.table("series.csv", |out| series_csv(out, &recorded.series))?;
        let title = format!("{}: {}", loaded.scenario.name, last.run);
        let charts = [("queues.svg", queues_chart(last, &title)), ("rates.svg", rates_chart(last, &title))];
        for (name, svg) in charts.into_iter().filter_map(|(name, svg)| Some((name, svg.ok()?))) {
            folder.file(name, svg.as_bytes())?;
        }
    }
    Ok(())
}

/// busbw over size where there are collectives, else how many transfers are done by when; `None` without either.
fn chart(loaded: &Loaded, report: &Report) -> Option<String> {
    let results = &report.results;
    let title = loaded.scenario.name.clone();
    if results.collectives.is_empty() && report.all_transfers.is_empty() {
        return None;
    }
    let chart = if results.collectives.is_empty() {
        let mut ends: Vec<f64> = report.all_transfers.iter().map(|t| t.start_us + t.time_us).collect();
        ends.sort_by(f64::total_cmp);
        let last = ends.len().max(1);
        // At most a thousand points, the last among them.
        let step = last.div_ceil(1000).max(1);
        let kept = ends.iter().enumerate().filter(|(i, _)| i % step == 0 || i + 1 == last);
        let points = kept.map(|(i, us)| (*us, (i + 1) as f64)).collect();
        Chart {
            title,
            x: "time, us".to_owned(),
            y: "transfers done".to_owned(),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            series: vec![Series::new("transfers", Kind::Line, points)],
        }
    } else {
        let mut series: Vec<Series> = Vec::new();
        for row in &results.collectives {
            let point = (row.bytes as f64, row.busbw);
            match series.iter_mut().find(|s| s.name == row.op) {
                Some(of) => of.points.push(point),
                None => series.push(Series::new(row.op.clone(), Kind::Line, vec![point])),
            }
        }
        Chart {
            title: format!("{title}: predicted bus bandwidth"),
            x: "size".to_owned(),
            y: "busbw, GB/s".to_owned(),
            x_scale: Scale::Bytes,
            y_scale: Scale::Linear,
            series,
        }
    };
    chart.svg().ok()
}
