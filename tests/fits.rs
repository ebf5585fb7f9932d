//! What a fit to logs of a cluster gives: the table of `docs/fitting.md`.
//!
//! The last fit takes longer than all others, so that a plain run of the tests leaves it out. `FITS=1` makes all, and
//! `UPDATE_FITS=1 cargo test --test fits` writes them.

#[path = "accuracy/run.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod run;
#[path = "accuracy/score.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod score;

use std::fmt::Write as _;
use std::fs;

use fabricsim::fit::{self, Measured, Options};
use fabricsim::scenario::Setting;
use sim_collectives::Request;
use sim_collectives::nccl::{Element, Reduction};
use sim_collectives::timing::Parameter;
use sim_core::units::{Bytes, Span};

use crate::run::{Run, is_set, root};
use crate::score::{BANDS, Figures};

const BEGIN: &str = "<!-- fits: written by `UPDATE_FITS=1 cargo test --test fits` -->\n";
const END: &str = "<!-- end -->";

/// Largest size of a row that is fitted to, and that is scored.
const FITTED: Bytes = Bytes::gib(1);
const SCORED: u64 = 4 << 30;

/// What is fitted to, and what is scored with that.
const CASES: &[(&[&str], &[&str])] = &[
    (&["h100-1n8-aws-p5-nvls-allreduce"], &["h100-1n8-aws-p5-nvls-allreduce", "h100-1n8-dgx-nvls-allreduce"]),
    (&["b200-1n8-allreduce"], &["b200-1n8-allreduce", "b200-1n8-allgather", "b200-1n8-sendrecv"]),
    (
        &["b200-1n8-allreduce", "b200-1n8-allgather", "b200-1n8-sendrecv"],
        &["b200-1n8-allreduce", "b200-1n8-allgather", "b200-1n8-sendrecv"],
    ),
    (&["h100-2n16-dell-ndr-allreduce"], &["h100-2n16-dell-ndr-allreduce", "h100-2n16-ndr-default-allreduce"]),
    (&["a100-2n16-oci-volcano-roce-allreduce"], &["a100-2n16-oci-volcano-roce-allreduce"]),
    (&["b200-2n16-ib-allreduce"], &["b200-2n16-ib-allreduce"]),
];

fn named(id: &str) -> Run {
    run::all().into_iter().find(|run| run.id == id).unwrap_or_else(|| panic!("there is no run {id}"))
}

/// The parameters that fit these runs, as a file of them.
fn fitted(runs: &[Run]) -> String {
    let loaded: Vec<_> = runs.iter().map(|run| score::load(run, &[])).collect();
    let table = |(run, loaded)| {
        let run: &Run = run;
        let rows = run.all().into_iter().filter(|m| m.bytes > 0 && m.bytes <= FITTED.get()).map(|m| {
            let mut request = Request::new(run.operation.parse().unwrap(), Bytes::new(m.bytes));
            request.element = Element { datatype: score::datatype(&run.datatype), reduction: Reduction::Sum };
            (request, Span::from_us_f64(m.us))
        });
        let (name, cluster, group) = (run.id.clone(), run.cluster.clone(), (0..run.ranks).collect());
        Measured { name, cluster, loaded, group, calls: (1, 20), rows: rows.collect() }
    };
    let tables: Vec<Measured<'_>> = runs.iter().zip(&loaded).map(table).collect();
    let outcome = fit::fit(&tables, &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", runs[0].id));
    let mut text = "[profile]\n".to_owned();
    for p in &outcome.parameters {
        writeln!(text, "\"{}\" = {:?}", p.key, p.value).unwrap();
    }
    text
}

/// Median absolute errors by band, and whether they are no test: some value had its cluster's part, or `fitted` says so.
fn errors(run: &Run, settings: &[Setting], fitted: bool) -> String {
    let mut rows = run.played();
    rows.retain(|m| m.bytes <= SCORED);
    let (_, rows, asked) = score::play(run, settings, &rows);
    let part = |p: &Parameter| p.runs.iter().any(|from| run::clusters().get(from) == Some(&run.cluster));
    let in_sample = if fitted || asked.iter().any(part) { " (in-sample)" } else { "" };
    let of = |band| {
        let errors = rows.iter().filter(|r| sim_report::compare::BandName::of(Bytes::new(r.measured.bytes)) == band);
        let figures = Figures::of(&errors.map(score::Row::error).collect::<Vec<_>>());
        figures.map_or_else(|| "–".to_owned(), |f| format!("{:.1}", f.absolute))
    };
    BANDS.map(of).join(" / ") + in_sample
}

/// The lines of a fit.
fn lines((to, on): (&[&str], &[&str])) -> String {
    let profile = fitted(&to.iter().map(|id| named(id)).collect::<Vec<_>>());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fitted.toml");
    fs::write(&path, profile).unwrap();
    let with = [Setting::text("fit", "profile.from", path.display().to_string())];
    let mut w = String::new();
    for (i, id) in on.iter().enumerate() {
        let (run, first) = (named(id), if i == 0 { to.join(", ") } else { String::new() });
        let fitted = to.iter().any(|id| named(id).cluster == run.cluster);
        writeln!(w, "| {first} | {id} | {} | {} |", errors(&run, &[], false), errors(&run, &with, fitted)).unwrap();
    }
    w
}

#[test]
fn what_fits_give_is_what_the_page_says() {
    let page = root().join("docs/fitting.md");
    let old = fs::read_to_string(&page).unwrap().replace("\r\n", "\n");
    let (head, rest) = old.split_once(BEGIN).expect("the page has the mark after which the table begins");
    let (found, tail) = rest.split_once(END).expect("the table has an end");
    let update = is_set("UPDATE_FITS");
    let count = if update || is_set("FITS") { CASES.len() } else { CASES.len() - 1 };
    let mut table = "| fitted to | scored on | before | after |\n|---|---|---|---|\n".to_owned();
    for case in &CASES[..count] {
        let start = std::time::Instant::now();
        let lines = lines(*case);
        println!("{lines}{:.1} s", start.elapsed().as_secs_f64());
        table += &lines;
    }
    if update {
        fs::write(&page, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
    } else {
        assert!(
            found.starts_with(&table) && (count < CASES.len() || found == table),
            "docs/fitting.md is not what would be written: UPDATE_FITS=1 cargo test --test fits\n{table}"
        );
    }
}
