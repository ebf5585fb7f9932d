//! The accuracy check: published nccl-tests runs beside predictions, row by row.
//!
//! The runs are in `tests/data/nccl-runs`, re-rendered from their numbers, each with the scenario of its cluster. A run on whose cluster
//! a value was fitted that its prediction asks for is in-sample: the timing data name the runs that had a part in each value. Runs of
//! `tests/data/left-out/index.toml` are scored with other values in place of those.
//!
//! - `cargo test --test accuracy` holds the figures to `accuracy.toml` and the tables of `docs/accuracy.md` and `docs/accuracy-rows.md`.
//! - `UPDATE_DOCS=1 REASON="why" cargo test --test accuracy` writes them.
//! - `RUNS=h100-2n16,b200 cargo test --test accuracy -- --nocapture` only prints the figures of runs with these words in their names;
//!   with `ROWS=1` each row too; with `PATTERNS=1` what `compare` says of them; with `FULL=1` the rows that are left out otherwise.

mod accepted;
mod family;
mod fitted;
mod pages;
mod patterns;
mod run;
mod score;

use rayon::prelude::*;

use crate::run::{Health, is_set};
use crate::score::{BANDS, Figures, Scored};

/// Runs of 8 and 2×8 healthy H100 that hold the project to its figures: median absolute error in %, of sizes above
/// 64 MiB and of sizes to 64 KiB.
const HELD: &[&str] = &[
    "h100-1n8-aws-p5-nvls-allreduce",
    "h100-1n8-dgx-nvls-allreduce",
    "h100-2n16-dell-ndr-allreduce",
    "h100-2n16-ndr-default-allreduce",
    "h100-2n16-oci-roce-allreduce",
];
/// Of runs that nobody judged, those up to this number of ranks have their pattern told in the page.
const MOST_RANKS_TOLD: u32 = 8;

const LARGE_LIMIT: f64 = 4.0;
const SMALL_LIMIT: f64 = 15.0;

fn print(s: &Scored, seconds: f64) {
    let cells = BANDS.map(|band| Figures::cell(Figures::of(&s.errors(band))));
    println!("{:45} {:>22} {:>22} {:>22}  {:4.1} s", s.run.id, cells[0], cells[1], cells[2], seconds);
    if s.in_sample() {
        println!("    in-sample: {}", fitted::names(&s.own()));
    }
    if is_set("ROWS") {
        for r in &s.rows {
            println!(
                "    {:>12} {:24} {:12.1} {:12.1} {:+7.1} %",
                r.measured.bytes,
                r.how,
                r.measured.us,
                r.predicted,
                r.error()
            );
        }
    }
}

fn scored() -> Vec<Scored> {
    let one = |run: &run::Run| {
        let start = std::time::Instant::now();
        let scored = score::score(run);
        print(&scored, start.elapsed().as_secs_f64());
        scored
    };
    let mut runs = run::all();
    // The longest first, so that none is begun when the others are done.
    runs.sort_by_key(|run| std::cmp::Reverse(run.work()));
    let mut all: Vec<Scored> = runs.iter().par_bridge().map(one).collect();
    all.sort_by(|a, b| a.run.id.cmp(&b.run.id));
    all
}

#[test]
fn predictions_hold_against_published_runs() {
    let all = scored();
    if is_set("RUNS") || is_set("FULL") {
        if is_set("PATTERNS") {
            for (id, said) in patterns::of(&all.iter().map(|s| &s.run).collect::<Vec<_>>()) {
                println!("{id}\n    {}", said.join("\n    "));
            }
        }
        return;
    }
    assert!(all.len() >= 90, "{} runs", all.len());
    let update = is_set("UPDATE_DOCS");
    if update {
        accepted::write(&all);
        accepted::check_reasons();
    }
    let differences = accepted::differences(&all);
    assert!(
        differences.is_empty(),
        "the accuracy is not what accuracy.toml accepts:\n{}\nUPDATE_DOCS=1 REASON=\"why\" cargo test --test accuracy",
        differences.join("\n")
    );
    let runs: Vec<run::Run> = all.iter().map(|s| s.run.clone()).collect();
    let told = |run: &&run::Run| match run.health() {
        Health::Broken => true,
        // The large ones take long.
        Health::NotJudged => run.ranks <= MOST_RANKS_TOLD && !run.is_scalar(),
        Health::Healthy => false,
    };
    let said = patterns::of(&runs.iter().filter(told).collect::<Vec<_>>());
    pages::renew(&all, &said, update);
    patterns::check(&runs, &said);
    hold(&all);
}

#[test]
fn figures_change_with_a_reason() {
    // While figures are written, the other test looks.
    if !is_set("UPDATE_DOCS") {
        accepted::check_reasons();
    }
}

#[test]
fn values_name_runs_that_there_are_and_other_values_come_from_other_clusters() {
    let clusters = run::clusters();
    for p in sim_collectives::timing::catalogue() {
        for run in p.runs {
            assert!(clusters.contains_key(run), "{} of {}: there is no run `{run}`", p.key, p.stands);
        }
    }
    for left_out in score::LeftOut::all() {
        let runs = left_out.runs();
        assert!(!left_out.scores.is_empty() && !runs.is_empty(), "{}: its source names no run", left_out.profile);
        for run in &left_out.scores {
            let own = clusters.get(run).unwrap_or_else(|| panic!("{}: there is no run `{run}`", left_out.profile));
            for from in &runs {
                assert_ne!(own, &clusters[from], "{}: {from} is of the cluster of {run}", left_out.profile);
            }
        }
    }
}

#[test]
fn the_step_that_the_models_cite_is_that_of_the_rows() {
    let read = |name: &str| std::fs::read_to_string(run::root().join("docs").join(name)).unwrap();
    let rows = read("accuracy-rows.md");
    let section = rows.split("\n## ").find(|s| s.starts_with("b200-2n16-ib-allgather\n")).unwrap();
    let row = |bytes: &str| -> (f64, f64) {
        let line = section.lines().find(|l| l.starts_with(&format!("| {bytes} |"))).unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[3].parse().unwrap(), cells[4].parse().unwrap())
    };
    let ((measured, predicted), (measured_next, predicted_next)) = (row("1048576"), row("2097152"));
    let words = format!(
        "[{measured:.0} to {measured_next:.0} µs measured, {predicted:.0} to {predicted_next:.0} µs predicted](accuracy-rows.md#b200-2n16-ib-allgather)"
    );
    assert!(read("models.md").contains(&words), "docs/models.md should say: {words}");
}

/// The runs of [`HELD`] keep their limits, without parameters that were fitted on them.
fn hold(all: &[Scored]) {
    for id in HELD {
        let s = all.iter().find(|s| s.run.id == *id).unwrap_or_else(|| panic!("{id} is missing"));
        assert!(s.run.health() == Health::Healthy && !s.in_sample(), "{id} is scored with parameters fitted on it");
        for (band, limit) in [(BANDS[2], LARGE_LIMIT), (BANDS[0], SMALL_LIMIT)] {
            if let Some(figures) = Figures::of(&s.errors(band)) {
                assert!(
                    figures.absolute <= limit,
                    "{id}: median absolute error {:.1} % is above {limit} %",
                    figures.absolute
                );
            }
        }
    }
}
