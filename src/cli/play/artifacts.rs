//! The files that `--out` writes.

use std::path::{Path, PathBuf};

use sim_report::plot::{Chart, Kind, Scale, Series};
use sim_report::result::{Envelope, Warning};
use sim_report::table::{collectives_csv, links_csv, transfers_csv};

use super::super::fault::{Exit, Failure};
use super::super::output;
use crate::diagnostic::{Code, Diagnostic, shorten};
use crate::scenario::Loaded;
use crate::simulate::Report;

/// All names, so that an old run and a new one never mix.
const NAMES: [&str; 5] = ["result.json", "collectives.csv", "transfers.csv", "links.csv", "chart.svg"];

/// A folder that is there and can be written.
#[derive(Debug)]
pub(super) struct Artifacts {
    folder: PathBuf,
    force: bool,
}

impl Artifacts {
    /// Makes the folder, and sees that nothing in it would be overwritten unasked.
    pub(super) fn prepare(folder: &Path, force: bool) -> Result<Self, Failure> {
        let shown = shorten(&folder.display().to_string());
        let unwritable = |error: std::io::Error| {
            let why = match error.kind() {
                std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => "it is a file".to_owned(),
                std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => error.to_string(),
            };
            let fault = Diagnostic::new(Code::Unwritable, format!("cannot write into the folder `{shown}`: {why}"));
            Failure::of(Exit::Usage, fault.help("give another folder by `--out`"))
        };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        let probe = folder.join(format!(".fabricsim.{}.tmp", std::process::id()));
        std::fs::File::create_new(&probe).map_err(unwritable)?;
        std::fs::remove_file(&probe).map_err(unwritable)?;
        if !force && let Some(name) = NAMES.iter().find(|name| folder.join(name).symlink_metadata().is_ok()) {
            let fault = Diagnostic::new(Code::Exists, format!("`{shown}` has a `{name}` already"));
            let help = "give another folder by `--out`, or overwrite its files with `--force`";
            return Err(Failure::of(Exit::Usage, fault.help(help)));
        }
        Ok(Self { folder: folder.to_owned(), force })
    }

    /// Writes all that there is.
    pub(super) fn write(
        &self,
        loaded: &Loaded,
        name: &str,
        warnings: &[Warning],
        report: &Report,
    ) -> Result<(), Failure> {
        let results = &report.results;
        let envelope = Envelope::new(name, loaded.scenario.seed, results).with_warnings(warnings.to_vec());
        self.file("result.json", envelope.to_json().map_err(Failure::internal)?.as_bytes())?;
        let csv = |written: Result<(), csv::Error>, bytes: Vec<u8>| written.map(|()| bytes).map_err(Failure::internal);
        let mut bytes = Vec::new();
        let written = collectives_csv(&mut bytes, &results.collectives);
        self.file("collectives.csv", &csv(written, bytes)?)?;
        let mut bytes = Vec::new();
        let written = transfers_csv(&mut bytes, &report.all_transfers);
        self.file("transfers.csv", &csv(written, bytes)?)?;
        let mut bytes = Vec::new();
        let written = links_csv(&mut bytes, &report.all_links);
        self.file("links.csv", &csv(written, bytes)?)?;
        if let Some(svg) = chart(loaded, report) {
            self.file("chart.svg", svg.as_bytes())?;
        }
        Ok(())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        output::write(&self.folder.join(name), bytes, self.force)
    }
}

/// busbw over size where there are collectives, else how many transfers are done by when; `None` without either.
fn chart(loaded: &Loaded, report: &Report) -> Option<String> {
    let results = &report.results;
    let title = loaded.scenario.name.clone();
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
