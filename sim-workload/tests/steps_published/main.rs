//! Published times of training steps beside what comes out here: `docs/steps-accuracy.md` says how, and what comes of it.
//!
//! `ROWS=1 FAMILY=llama31 cargo test -p sim-workload --test steps_published -- --nocapture` prints rows.

mod accepted;
mod closed;
mod cluster;
mod fit;
mod mapping;
mod report;
mod rows;

use std::fs;
use std::path::PathBuf;

use mapping::Case;
use rows::Row;

/// All rows as jobs, and those that are none with the reason.
fn cases() -> (Vec<Case>, Vec<(Row, String)>) {
    let (mut cases, mut unwritten) = (Vec::new(), Vec::new());
    for row in rows::all() {
        match mapping::case(&row) {
            Ok(mut case) => {
                case.contradicts = case.seconds < closed::step(&case, closed::Fit::NONE).compute;
                cases.push(case);
            }
            Err(why) => unwritten.push((row, why)),
        }
    }
    (cases, unwritten)
}

/// A page of the documentation: what stands before the mark is written by hand, what follows by this test.
fn page(name: &str, tables: &str) {
    const MARK: &str =
        "<!-- tables: written by `UPDATE_DOCS=1 cargo test -p sim-workload --test steps_published` -->\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let text = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    let (head, old) = text.split_once(MARK).unwrap_or_else(|| panic!("docs/{name} has the mark `{}`", MARK.trim()));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{head}{MARK}{tables}")).expect("a page of docs/");
    } else {
        assert!(
            old == tables,
            "docs/{name} is not what comes out: UPDATE_DOCS=1 cargo test -p sim-workload --test steps_published"
        );
    }
}

#[test]
fn published_steps() {
    let (cases, unwritten) = cases();
    let scored = fit::score(cases, &closed::step);
    if std::env::var_os("ROWS").is_some() {
        let only = std::env::var("FAMILY").unwrap_or_default();
        for s in scored.iter().filter(|s| s.case.row.family.contains(&only)) {
            println!(
                "{:44} {:.3} {:64} {:5} {} {:9.3} {:+6.1} {:+6.1} {}",
                s.case.group(),
                s.fit.efficiency,
                s.case.row.name,
                s.case.row.gpus,
                s.case.row.grade,
                s.case.seconds,
                s.plain_error() * 100.0,
                s.error() * 100.0,
                if s.inside {
                    "fit"
                } else if s.case.contradicts {
                    "not judged"
                } else {
                    ""
                }
            );
        }
        return;
    }
    let figures = report::figures(&scored);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        accepted::record(&figures);
    } else {
        let differences = accepted::differences(&figures);
        assert!(
            differences.is_empty(),
            "accuracy has changed; if for the better, record it with UPDATE_DOCS=1 REASON=\"why\":\n{}",
            differences.join("\n")
        );
    }
    accepted::check_reasons();
    page("steps-accuracy.md", &report::page(&scored, &unwritten));
    page("steps-accuracy-rows.md", &report::rows_page(&scored));
}

#[test]
fn rows_are_what_their_files_say() {
    let all = rows::all();
    assert!(all.len() > 200, "{}", all.len());
    let mut names = std::collections::BTreeSet::new();
    for row in &all {
        assert!(names.insert((row.family, row.name.clone())), "{} {} stands twice", row.family, row.name);
        assert!(row.seconds.is_some() || row.figure.is_some(), "{}", row.name);
        assert!(row.gpus.is_multiple_of(row.node), "{}", row.name);
        assert!(row.steps.is_some() == row.p05.is_some(), "{}", row.name);
        if let (Some(p05), Some(p95), Some(median)) = (row.p05, row.p95, row.seconds) {
            assert!(p05 <= median && median <= p95, "{}", row.name);
        }
    }
    // Every rule is written down, and each that is used has its letter there.
    for case in cases().0 {
        assert!(
            case.guesses.iter().all(|g| mapping::RULES.iter().any(|(letter, _)| letter == g)),
            "{:?}",
            case.guesses
        );
    }
}
