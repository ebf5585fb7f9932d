//! Published times of training steps beside what comes out here: `docs/steps-accuracy.md` says how, and what comes of it.
//!
//! `ROWS=1 FAMILY=llama31 cargo test -p sim-workload --test steps_published -- --nocapture` prints rows: the fit, both errors, and what the closed form is off from the play.

mod accepted;
mod checks;
mod closed;
mod cluster;
mod differences;
mod fit;
mod kernels;
mod mapping;
mod played;
mod report;
mod results;
mod rows;
mod simulated;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use fit::Scored;
use kernels::Fit;
use mapping::Case;
use played::Parts;
use rows::Row;

/// All rows as jobs, and those that are none with the reason.
fn cases() -> (Vec<Case>, Vec<(Row, String)>) {
    let (mut cases, mut unwritten) = (Vec::new(), Vec::new());
    for row in rows::all() {
        match mapping::case(&row) {
            Ok(mut case) => {
                case.contradicts = kernels::contradict(&case);
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

/// Prints rows if ROWS is set, those of families that have FAMILY in their names.
fn shown(scored: &[Scored]) -> bool {
    if std::env::var_os("ROWS").is_none() {
        return false;
    }
    let only = std::env::var("FAMILY").unwrap_or_default();
    for s in scored.iter().filter(|s| s.case.row.family.contains(&only)) {
        println!(
            "{:44} {:.3} {:64} {:5} {} {:9.3} {:+6.1} {:+6.1} {:+6.1} {}",
            s.case.group(),
            s.fit.efficiency,
            s.case.row.name,
            s.case.row.gpus,
            s.case.row.grade,
            s.case.seconds,
            s.plain_error() * 100.0,
            s.error() * 100.0,
            (closed::step(&s.case) / s.plain - 1.0) * 100.0,
            s.standing()
        );
    }
    true
}

/// All cases with what is stored of them.
fn stored() -> Vec<Scored> {
    let stored = results::stored();
    fit::score(cases().0, &|case| {
        let entry = results::of(&stored, case);
        (entry.plain(), entry.fit(), entry.parts())
    })
}

#[test]
fn published_steps() {
    let scored = stored();
    if shown(&scored) {
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
    page("steps-accuracy.md", &report::page(&scored, &cases().1));
    page("steps-accuracy-rows.md", &report::rows_page(&scored));
}

/// Short steps come to what is stored; and what is stored as fitted is fitted on the rows with the fewest GPUs.
#[test]
fn short_rows_are_played() {
    let stored = results::stored();
    let short: Vec<Case> = cases().0.into_iter().filter(|case| results::of(&stored, case).is_short()).collect();
    assert!(short.len() > 50, "{}", short.len());
    let played = fit::side_by_side(short, &|case| {
        let entry = results::of(&stored, &case);
        let parts = simulated::step(&case, entry.fit());
        (format!("{} {}", case.row.family, case.row.name), parts.total, entry.parts().total)
    });
    for (name, now, then) in played {
        assert!((now / then - 1.0).abs() < 1e-4, "{name}: {now} s, {then} s is stored: play all rows anew");
    }
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for s in self::stored().iter().filter(|s| s.inside) {
        groups.entry(s.case.group()).or_default().push((s.fitted / s.case.seconds).ln());
    }
    for (group, errors) in groups {
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean.abs() < 2e-3, "{group}: {mean}");
    }
}

/// Plays rows anew whose names have ROW in them, and prints where time goes; CALLS=1 prints what each call takes.
#[test]
#[ignore = "for looking at rows"]
fn some_rows_are_played() {
    let name = std::env::var("ROW").unwrap_or_default();
    let stored = results::stored();
    for case in cases().0.into_iter().filter(|c| c.row.name.contains(&name)) {
        let parts = simulated::step(&case, results::of(&stored, &case).fit());
        println!("{} {} s, published {}: {parts:?}", case.row.name, parts.total, case.seconds);
    }
}

/// What is left out by playing one replica whose calls are alone: next to nothing, where all ranks are played on the network.
#[test]
fn replicas_stand_for_clusters() {
    let rows = [
        ("mlperf-llama31-8b", "v5.1-nvidia-theia-ngpu8-ngc25-09"),
        ("mlperf-llama2-70b-lora", "v4.0-dell-xe9680x8h100-sxm-80gb"),
        ("mlperf-llama2-70b-lora", "v4.1-nvidia-eos-n8-ngc24-09-nemo"),
        ("megatron-bridge", "2606-llama3-70b-h100-8-fp8-gbs32-tp2pp4cp1ep1-lora"),
        ("megatron-bridge", "2511-qwen3-30b-a3b-b200-8-fp8mx-gbs512-tp1pp1cp1ep8"),
        ("megatron-seqsel", "gpt-22b-sel"),
        ("torchtitan", "8b-8-cp2"),
        ("llm-foundry-fsdp", "mpt1b-h100-8"),
    ];
    compare_whole(&rows);
}

/// The same on 128 and 256 GPUs.
#[test]
#[ignore = "minutes: each rank of large clusters is played"]
fn replicas_stand_for_large_clusters() {
    compare_whole(&[
        ("torchtitan", "8b-128-fsdp-compile-fp8"),
        ("torchtitan", "70b-256-2d"),
        ("nemo-long-seq", "llama2-7b-h100-128k"),
        ("mlperf-llama2-70b-lora", "v5.1-cisco-hpf-n16"),
        ("mlperf-llama31-8b", "v5.1-university-of-florida-hpg-dgxb200x8-n16"),
        ("megatron-sc21", "18p4b"),
    ]);
}

/// Plays rows by one replica and by all ranks on the network: within 1 %.
fn compare_whole(rows: &[(&str, &str)]) {
    let cases: Vec<Case> =
        cases().0.into_iter().filter(|c| rows.contains(&(c.row.family, c.row.name.as_str()))).collect();
    assert_eq!(cases.len(), rows.len());
    let both = fit::side_by_side(cases, &|case| {
        let (one, all) = (simulated::step(&case, Fit::NONE), simulated::whole(&case, Fit::NONE));
        (case.row.name, one.total, all.total)
    });
    for (name, one, all) in both {
        println!("{name}: one replica {one:.4} s, all ranks {all:.4} s, {:+.2} %", (one / all - 1.0) * 100.0);
        assert!((one / all - 1.0).abs() < 0.01, "{name}: one replica {one} s, all ranks {all} s");
    }
}

/// Plays all rows: some minutes. With UPDATE_DOCS=1 it stores what they came to. With FAMILY only those of families that have one of its words
/// in their names; the others stay as they are stored.
#[test]
#[ignore = "minutes: long steps are played"]
fn all_rows_are_played() {
    let stored = results::stored();
    let words = std::env::var("FAMILY").unwrap_or_default();
    let asked = |case: &Case| words.split(',').any(|word| case.row.family.contains(word));
    let all: Vec<Case> = cases().0.into_iter().filter(asked).collect();
    let fits = fit::fits(&all, &simulated::step);
    // Rows of one configuration (releases of one software, submitters) are played once.
    let key = |case: &Case| {
        let row = &case.row;
        format!(
            "{:?} {} {:?} {:?} {:?} {:?} {:?}",
            row.shape(),
            row.model,
            case.number,
            case.cluster,
            case.overlap,
            case.choices,
            case.widths
        )
    };
    let mut different: BTreeMap<(String, u64), (Case, Fit)> = BTreeMap::new();
    for case in all {
        for fit in [Fit::NONE, fits[&case.group()]] {
            let key =
                (format!("{} {:?} {:?}", key(&case), case.guesses, case.row.family), (fit.efficiency * 1e3) as u64);
            different.entry(key).or_insert_with(|| (case.clone(), fit));
        }
    }
    let played = fit::side_by_side(different.into_iter().collect(), &|(key, (case, fit))| {
        let clock = std::time::Instant::now();
        let parts = simulated::step(&case, fit);
        (key, (parts, clock.elapsed().as_secs_f64()))
    });
    let played: BTreeMap<(String, u64), (Parts, f64)> = played.into_iter().collect();
    let find = |case: &Case, fit: Fit| {
        &played[&(format!("{} {:?} {:?}", key(case), case.guesses, case.row.family), (fit.efficiency * 1e3) as u64)]
    };
    let scored = fit::score(cases().0, &|case| {
        if !asked(case) {
            let entry = results::of(&stored, case);
            return (entry.plain(), entry.fit(), entry.parts());
        }
        let fit = fits[&case.group()];
        (find(case, Fit::NONE).0.total, fit, find(case, fit).0.clone())
    });
    shown(&scored);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        results::write(&scored, |s| {
            let quick = |s: &Scored| s.case.row.gpus <= 32 && find(&s.case, s.fit).1 < 0.15;
            if asked(&s.case) { quick(s) } else { results::of(&stored, &s.case).is_short() }
        });
    }
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
