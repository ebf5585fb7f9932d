//! The accuracy check: published nccl-tests runs beside predictions, row by row.
//!
//! The runs are in `tests/data/nccl-runs`, re-rendered from their numbers. Each names the groups of timing parameters that
//! were fitted on it; where a run is scored, those groups are replaced by values fitted on another run, if there is
//! one (`CROSS_FITTED`), and otherwise the score is marked as in-sample.
//!
//! `UPDATE_DOCS=1 cargo test --test accuracy` writes the tables of `docs/accuracy.md`; without it the page must be as it
//! would be written, so that an accuracy that changes is always seen in a diff.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fabricsim::scenario::{Input, Scenario};
use rayon::prelude::*;
use serde::Deserialize;

/// The largest size that is played here; larger rows say the same, and cost as much as all others together.
const LARGEST: u64 = 4 << 30;

/// A run, values of timing parameters, and where those come from.
type CrossFit = (&'static str, &'static [(&'static str, f64)], &'static str);

/// Groups that were fitted on a run, and the values that another run gives for them (by the same fit).
const CROSS_FITTED: &[CrossFit] = &[
    (
        "h100-1n8-aws-p5-nvls-allreduce",
        &[
            ("nvls.loop_us", 3.9),
            ("nvls.rate_gbps", 18.4),
            ("ring_ll.thread_us", 0.27),
            ("ring_ll.rate_gbps", 8.5),
            ("nvlink.ll_us", 0.0),
        ],
        "nvls as fitted on h100-1n8-dgx-nvls-allreduce, ring_ll as on b200-1n8-allgather, nvlink as on h100-2n16-dell-ndr-allreduce",
    ),
    (
        "h100-2n16-ndr-default-allreduce",
        &[("nvls_tree.loop_us", 10.2), ("nvls_tree.rate_gbps", 18.5)],
        "nvls_tree as fitted on h100-2n16-dell-ndr-allreduce",
    ),
];

/// Runs of 8 and 2×8 healthy H100 that hold the project to its figures: median absolute error in %, of sizes above
/// 64 MiB and of sizes to 64 KiB.
const HELD: &[&str] = &[
    "h100-1n8-aws-p5-nvls-allreduce",
    "h100-1n8-dgx-nvls-allreduce",
    "h100-2n16-dell-ndr-allreduce",
    "h100-2n16-ndr-default-allreduce",
    "h100-2n16-oci-roce-allreduce",
];
const LARGE_LIMIT: f64 = 5.0;
const SMALL_LIMIT: f64 = 30.0;

#[derive(Debug, Deserialize)]
struct Run {
    source: String,
    date: String,
    operation: String,
    datatype: String,
    system: String,
    nodes: u32,
    transport: String,
    nics: Option<String>,
    nccl: Option<String>,
    #[serde(default)]
    graph: bool,
    healthy: toml::Value,
    fitted: Vec<String>,
    rows: Vec<(u64, f64, f64)>,
}

/// A row: bytes, measured µs, predicted µs, what was predicted to run.
struct Row {
    bytes: u64,
    measured: f64,
    predicted: f64,
    how: String,
}

impl Row {
    fn error(&self) -> f64 {
        (self.predicted / self.measured - 1.0) * 100.0
    }
}

struct Scored {
    id: String,
    run: Run,
    rows: Vec<Row>,
    in_sample: bool,
    note: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scenario(run: &Run, sizes: &[u64], profile: &[(&str, f64)]) -> String {
    let mut text = format!("system = \"{}\"\nnodes = {}\n", run.system, run.nodes);
    if let Some(nics) = &run.nics {
        writeln!(text, "nics = \"{nics}\"").unwrap();
    }
    writeln!(text, "[transport]\nkind = \"{}\"\n[software]\ngraph = {}", run.transport, run.graph).unwrap();
    if let Some(nccl) = &run.nccl {
        writeln!(text, "nccl = \"{nccl}\"").unwrap();
    }
    writeln!(text, "[profile]").unwrap();
    for (name, value) in profile {
        writeln!(text, "\"{name}\" = {value:?}").unwrap();
    }
    let sizes: Vec<String> = sizes.iter().map(|b| format!("\"{b} B\"")).collect();
    writeln!(
        text,
        "[[workload]]\nkind = \"collective\"\nop = \"{}\"\ndatatype = \"{}\"\nsizes = [{}]",
        run.operation,
        run.datatype,
        sizes.join(", ")
    )
    .unwrap();
    text
}

fn score(path: &Path) -> Scored {
    let id = path.file_stem().unwrap().to_string_lossy().into_owned();
    let run: Run = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{id}: {e}"));
    // A row that is far from its in-place twin is an outlier of the measurement; the twin is taken.
    let measured: Vec<(u64, f64)> = run
        .rows
        .iter()
        .filter(|(bytes, _, _)| *bytes <= LARGEST)
        .map(|(bytes, out, inside)| (*bytes, if *out > 1.5 * inside { *inside } else { *out }))
        .collect();
    let cross = CROSS_FITTED.iter().find(|(of, _, _)| *of == id);
    let sizes: Vec<u64> = measured.iter().map(|(bytes, _)| *bytes).collect();
    let text = scenario(&run, &sizes, cross.map_or(&[], |c| c.1));
    let loaded = Scenario::load(&Input::Text { name: format!("{id}.toml"), text }, &[])
        .unwrap_or_else(|e| panic!("{}", fabricsim::diagnostic::text(&e, fabricsim::diagnostic::Style::Plain)));
    let report = loaded.run().unwrap_or_else(|e| panic!("{id}: {e}"));
    let rows = measured
        .iter()
        .zip(&report.results.collectives)
        .map(|((bytes, measured), row)| Row {
            bytes: *bytes,
            measured: *measured,
            predicted: row.time_us,
            how: format!("{}/{}", row.algorithm, row.protocol),
        })
        .collect();
    let in_sample = !run.fitted.is_empty() && cross.is_none();
    Scored { id, run, rows, in_sample, note: cross.map_or(String::new(), |c| c.2.to_owned()) }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| if n % 2 == 1 { values[n / 2] } else { f64::midpoint(values[n / 2 - 1], values[n / 2]) })
}

fn band(bytes: u64) -> usize {
    match bytes {
        0..=65_536 => 0,
        65_537..=67_108_864 => 1,
        _ => 2,
    }
}

fn of_band(scored: &Scored, which: usize) -> Vec<f64> {
    scored.rows.iter().filter(|r| band(r.bytes) == which).map(Row::error).collect()
}

fn cell(errors: Vec<f64>) -> String {
    let absolute = median(errors.iter().map(|e| e.abs()).collect());
    match (median(errors.clone()), absolute) {
        (Some(signed), Some(absolute)) => format!("{signed:+.1} / {absolute:.1} ({})", errors.len()),
        _ => "–".to_owned(),
    }
}

fn tables(all: &[Scored]) -> String {
    let mut text = String::new();
    let w = &mut text;
    writeln!(w, "| run | to 64 KiB | to 64 MiB | above | scored |").unwrap();
    writeln!(w, "|---|---|---|---|---|").unwrap();
    for s in all {
        let how = match (s.in_sample, s.note.is_empty()) {
            (true, _) => format!("in-sample: {}", s.run.fitted.join("; ")),
            (false, false) => s.note.clone(),
            (false, true) => "nothing fitted on it".to_owned(),
        };
        let health = if s.run.healthy.as_bool() == Some(true) { "" } else { " (not known to be healthy)" };
        let cells: Vec<String> = (0..3).map(|b| cell(of_band(s, b))).collect();
        writeln!(w, "| {}{health} | {} | {how} |", s.id, cells.join(" | ")).unwrap();
    }
    for s in all {
        writeln!(w, "\n### {}\n", s.id).unwrap();
        let nics = s.run.nics.as_ref().map_or(String::new(), |n| format!(", {n}"));
        writeln!(
            w,
            "{} of {} on {} x{} over {}{nics}. Source: {} ({}).\n",
            s.run.operation, s.run.datatype, s.run.system, s.run.nodes, s.run.transport, s.run.source, s.run.date
        )
        .unwrap();
        writeln!(w, "| bytes | predicted to run | measured µs | predicted µs | error % |").unwrap();
        writeln!(w, "|---:|---|---:|---:|---:|").unwrap();
        for r in &s.rows {
            writeln!(w, "| {} | {} | {:.1} | {:.1} | {:+.1} |", r.bytes, r.how, r.measured, r.predicted, r.error())
                .unwrap();
        }
    }
    text
}

const BEGIN: &str = "<!-- tables: written by `UPDATE_DOCS=1 cargo test --test accuracy` -->\n";

#[test]
fn predictions_hold_against_published_runs() {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join("tests/data/nccl-runs"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|x| x == "toml"))
        .collect();
    paths.sort();
    let all: Vec<Scored> = paths.par_iter().map(|p| score(p)).collect();
    assert!(all.len() >= 20, "{} runs", all.len());

    let page = root().join("docs/accuracy.md");
    let old = fs::read_to_string(&page).unwrap();
    let (head, found) = old.split_once(BEGIN).expect("docs/accuracy.md has the mark after which the tables begin");
    let expected = tables(&all);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{head}{BEGIN}{expected}")).unwrap();
    } else {
        assert_eq!(
            found.replace("\r\n", "\n"),
            expected,
            "the accuracy changed: run with UPDATE_DOCS=1 and give the reason in docs/accuracy.md"
        );
    }

    for id in HELD {
        let s = all.iter().find(|s| s.id == *id).unwrap_or_else(|| panic!("{id} is missing"));
        assert!(!s.in_sample, "{id} is scored with parameters fitted on it");
        let replaced: Vec<&str> =
            CROSS_FITTED.iter().filter(|c| c.0 == *id).flat_map(|c| c.1.iter().map(|(name, _)| *name)).collect();
        for group in &s.run.fitted {
            let name = group.split(' ').next().unwrap();
            let is_of = |n: &&str| n.split('.').next() == Some(name);
            assert!(replaced.iter().any(is_of), "{id}: {group} was fitted on it and is not replaced");
        }
        for (which, limit) in [(2, LARGE_LIMIT), (0, SMALL_LIMIT)] {
            if let Some(error) = median(of_band(s, which).iter().map(|e| e.abs()).collect()) {
                assert!(error <= limit, "{id}: median absolute error {error:.1} % is above {limit} %");
            }
        }
    }
}
