//! The generated parts of `docs/accuracy.md` and `docs/accuracy-rows.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::family::{self, Family, Targets};
use crate::fitted;
use crate::run::{Health, root};
use crate::score::{BANDS, Figures, Scored, median};

pub(crate) const BEGIN: &str = "<!-- tables: written by `UPDATE_DOCS=1 cargo test --test accuracy` -->\n";

/// A table whose rows are families of one judgement, with targets where there are any.
fn families(w: &mut String, all: &[Scored], health: Health, wanted: impl Fn(&Family<'_>) -> bool) {
    writeln!(w, "| family | runs | to 64 KiB | to 64 MiB | above |").unwrap();
    writeln!(w, "|---|---:|---|---|---|").unwrap();
    for (name, family) in family::families(all, health) {
        if wanted(&family) {
            let targets = family.targets.filter(|_| health == Health::Healthy);
            let in_sample = family.runs.iter().all(|s| s.in_sample());
            writeln!(
                w,
                "| {name} | {} | {} |",
                family.runs.len(),
                cells(family.figures(), targets, in_sample).join(" | ")
            )
            .unwrap();
        }
    }
}

/// `+1.2 / 3.4 (14), ≤ 15: met` a band. What is met by runs that are all in-sample is no evidence, and says so.
fn cells(figures: [Option<Figures>; 3], targets: Option<Targets>, in_sample: bool) -> Vec<String> {
    let one = |(figures, target): (Option<Figures>, Option<f64>)| {
        let verdict = match (figures, target) {
            (Some(f), Some(target)) if f.absolute <= target => {
                format!(", ≤ {target}: met{}", if in_sample { ", in-sample" } else { "" })
            }
            (Some(_), Some(target)) => format!(", ≤ {target}: **missed**"),
            _ => String::new(),
        };
        Figures::cell(figures) + &verdict
    };
    let targets = targets.map_or([None; 3], |t| t.map(Some));
    figures.into_iter().zip(targets).map(one).collect()
}

/// All healthy rows that have a target, pooled.
fn pooled(w: &mut String, all: &[Scored]) {
    let healthy: Vec<&Scored> =
        all.iter().filter(|s| s.run.health() == Health::Healthy && !family::is_preset(&s.run)).collect();
    writeln!(w, "| rows | to 64 KiB | to 64 MiB | above |").unwrap();
    writeln!(w, "|---|---|---|---|").unwrap();
    for (name, wanted) in [
        ("scored with nothing fitted on their clusters", &(|s: &&Scored| !s.in_sample()) as &dyn Fn(&&Scored) -> bool),
        ("all healthy", &|_| true),
        ("Hopper all-reduce", &|s| s.run.family.starts_with("hopper") && s.run.operation == "all_reduce"),
        ("the others", &|s| !(s.run.family.starts_with("hopper") && s.run.operation == "all_reduce")),
    ] {
        let runs: Vec<&Scored> = healthy.iter().copied().filter(|s| wanted(s)).collect();
        let figures = BANDS.map(|band| {
            Figures::of(&family::rows(runs.iter().copied(), band).iter().map(|r| r.error()).collect::<Vec<_>>())
        });
        writeln!(w, "| {name} | {} |", cells(figures, None, false).join(" | ")).unwrap();
    }
}

fn runs(w: &mut String, all: &[Scored]) {
    writeln!(w, "| run | to 64 KiB | to 64 MiB | above | scored |").unwrap();
    writeln!(w, "|---|---|---|---|---|").unwrap();
    for s in all {
        let own = s.own();
        let how = match (&s.left_out, own.is_empty()) {
            (Some(source), true) => source.clone(),
            (Some(source), false) => format!("in-sample: {}; else {source}", fitted::names(&own)),
            (None, false) => format!("in-sample: {}", fitted::names(&own)),
            (None, true) => "nothing fitted on its cluster".to_owned(),
        };
        let health = match s.run.health() {
            Health::Healthy => "",
            Health::Broken => " (broken)",
            Health::NotJudged => " (not judged)",
        };
        let cells = cells(BANDS.map(|band| Figures::of(&s.errors(band))), None, false);
        writeln!(w, "| {}{health} | {} | {how} |", s.run.id, cells.join(" | ")).unwrap();
    }
}

/// Runs in which something was wrong: how far above the measured rate the prediction is, and what `compare` says.
fn broken(w: &mut String, all: &[Scored], said: &BTreeMap<String, Vec<String>>) {
    for s in all.iter().filter(|s| s.run.health() == Health::Broken) {
        let ratio = |band| {
            let ratios = family::rows([s], band).iter().map(|r| r.measured.us / r.predicted).collect();
            median(ratios).map(|r| format!("{r:.2}"))
        };
        let ratios = BANDS.iter().zip(["to 64 KiB", "to 64 MiB", "above"]);
        let ratios: Vec<String> = ratios.filter_map(|(b, name)| Some(format!("{} {name}", ratio(*b)?))).collect();
        writeln!(w, "- **{}**: {}.", s.run.id, s.run.cause.as_deref().unwrap_or("")).unwrap();
        if !ratios.is_empty() {
            writeln!(w, "  Predicted rate over measured: {}.", ratios.join(", ")).unwrap();
        }
        sentences(w, s, said);
    }
}

/// What `compare` says of a run.
fn sentences(w: &mut String, s: &Scored, said: &BTreeMap<String, Vec<String>>) {
    for sentence in said.get(&s.run.id).into_iter().flatten() {
        writeln!(w, "  - {sentence}").unwrap();
    }
}

fn left_out(w: &mut String, all: &[Scored]) {
    for s in all {
        let (published, played) = (s.run.all().len(), s.rows.len());
        if published > played && s.run.ranks > 1 {
            let why = s.run.why_left_out.as_deref().unwrap_or("above 4 GiB");
            writeln!(w, "- {}: {played} of {published} rows are played ({why})", s.run.id).unwrap();
        }
    }
}

fn commands(w: &mut String, all: &[Scored]) {
    writeln!(
        w,
        "| run | `fabricsim compare LOG --scenario` | GPUs in its header | assumed of the cluster | processes |"
    )
    .unwrap();
    writeln!(w, "|---|---|---|---|---|").unwrap();
    for s in all.iter().filter(|s| !s.run.is_scalar()) {
        let (assumed, layout) =
            (s.run.assumed.as_deref().unwrap_or("–"), s.run.layout.as_deref().unwrap_or("one a GPU"));
        let gpu = s.run.gpu.as_deref().unwrap_or("–");
        writeln!(w, "| {} | {} | {gpu} | {assumed} | {layout} |", s.run.id, s.run.scenario_path()).unwrap();
    }
}

fn summary(all: &[Scored], said: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = String::new();
    let w = &mut text;
    writeln!(
        w,
        "## Families\n\nHealthy runs: *median signed / median absolute (rows), target of the latter*; \
         \"in-sample\" where every run of a family asks for a value that was fitted on its cluster.\n"
    )
    .unwrap();
    families(w, all, Health::Healthy, |f| f.targets.is_some());
    writeln!(w).unwrap();
    pooled(w, all);
    writeln!(w, "\nSoftware stacks that are presets of a latency and a goodput:\n").unwrap();
    families(w, all, Health::Healthy, |f| f.targets.is_none());
    writeln!(w, "\nRuns that nobody judged:\n").unwrap();
    families(w, all, Health::NotJudged, |_| true);
    writeln!(w, "\nWhat `compare` says of the smaller ones of these:\n").unwrap();
    for s in all.iter().filter(|s| s.run.health() == Health::NotJudged && said.contains_key(&s.run.id)) {
        writeln!(w, "- **{}**", s.run.id).unwrap();
        sentences(w, s, said);
    }
    writeln!(w, "\n## Runs in which something was wrong\n").unwrap();
    writeln!(
        w,
        "The cluster is predicted as it should work; medians over the rows of a band, and what `compare` says.\n"
    )
    .unwrap();
    broken(w, all, said);
    writeln!(w, "\n## Runs\n").unwrap();
    runs(w, all);
    writeln!(w, "\n## Left out\n\n`FULL=1` plays them too.\n").unwrap();
    left_out(w, all);
    writeln!(w, "\n## From the command line\n").unwrap();
    commands(w, all);
    text
}

fn rows(all: &[Scored]) -> String {
    let mut text = String::new();
    let w = &mut text;
    for s in all.iter().filter(|s| !s.rows.is_empty()) {
        writeln!(w, "\n## {}\n", s.run.id).unwrap();
        writeln!(
            w,
            "{} of {} on {} ranks, {} × {} ([scenario](../{})). Source: {} ({}; cluster `{}`).\n",
            s.run.operation,
            s.run.datatype,
            s.run.ranks,
            s.nodes,
            s.gpu,
            s.run.scenario_path(),
            s.run.source,
            s.run.date,
            s.run.cluster
        )
        .unwrap();
        writeln!(w, "| bytes | predicted to run | measured µs | predicted µs | error % |").unwrap();
        writeln!(w, "|---:|---|---:|---:|---:|").unwrap();
        for r in &s.rows {
            let m = r.measured;
            writeln!(w, "| {} | {} | {:.1} | {:.1} | {:+.1} |", m.bytes, r.how, m.us, r.predicted, r.error()).unwrap();
        }
    }
    text
}

/// Writes both pages, or holds them to what they have to say.
pub(crate) fn renew(all: &[Scored], said: &BTreeMap<String, Vec<String>>, write: bool) {
    for (name, expected) in [("docs/accuracy.md", summary(all, said)), ("docs/accuracy-rows.md", rows(all))] {
        let page = root().join(name);
        let old = fs::read_to_string(&page).unwrap().replace("\r\n", "\n");
        let (head, found) = old.split_once(BEGIN).expect("the page has the mark after which the tables begin");
        let new_head = fitted::renewed(head, all);
        if write {
            fs::write(&page, format!("{new_head}{BEGIN}{expected}")).unwrap();
        } else {
            assert!(
                found == expected && head == new_head,
                "{name} is not what would be written: UPDATE_DOCS=1 REASON=\"...\" cargo test --test accuracy"
            );
        }
    }
}
