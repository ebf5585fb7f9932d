//! The generated parts of `docs/steps-accuracy.md` and `docs/steps-accuracy-rows.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::fit::{self, Scored};
use crate::mapping::RULES;
use crate::rows::{self, Row};
use crate::{closed, differences};

/// Median |error| on rows that no fit has seen, median error of ratios, and τ, that are aimed at.
const TARGETS: [(&str, f64); 2] = [("A", 5.0), ("B", 10.0)];
const RATIOS: f64 = 3.0;
const TAU: f64 = 0.8;

/// What a family comes to, of one grade. In percent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) rows: usize,
    pub(crate) plain: Option<f64>,
    pub(crate) proving: usize,
    pub(crate) signed: Option<f64>,
    pub(crate) absolute: Option<f64>,
    pub(crate) ninetieth: Option<f64>,
    pub(crate) pairs: usize,
    pub(crate) ratios: Option<f64>,
}

fn percent(value: Option<f64>) -> Option<f64> {
    value.map(|v| (v * 1e4).round() / 1e2)
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{v:.1}"))
}

impl Figures {
    pub(crate) fn of(rows: &[&Scored]) -> Self {
        let judged: Vec<&Scored> = rows.iter().copied().filter(|s| !s.case.contradicts).collect();
        let proving: Vec<f64> = judged.iter().filter(|s| s.proves()).map(|s| s.error()).collect();
        let absolute: Vec<f64> = proving.iter().map(|e| e.abs()).collect();
        let ratios = fit::ratios(rows);
        Self {
            rows: rows.len(),
            plain: percent(fit::median(judged.iter().map(|s| s.plain_error()).collect())),
            proving: proving.len(),
            signed: percent(fit::median(proving)),
            absolute: percent(fit::median(absolute.clone())),
            ninetieth: percent(fit::ninetieth(absolute)),
            pairs: ratios.len(),
            ratios: percent(fit::median(ratios)),
        }
    }
}

/// All figures by family and grade, in the order of families; last all families together.
pub(crate) fn figures(scored: &[Scored]) -> Vec<(String, String, Figures)> {
    let mut out = Vec::new();
    for family in rows::families().chain(["all"]) {
        for grade in ["A", "B", "C"] {
            let rows: Vec<&Scored> = scored
                .iter()
                .filter(|s| s.case.row.grade == grade && (family == "all" || s.case.row.family == family))
                .collect();
            if !rows.is_empty() {
                out.push((family.to_owned(), grade.to_owned(), Figures::of(&rows)));
            }
        }
    }
    out
}

fn verdict(value: Option<f64>, most: Option<f64>) -> String {
    match (value, most) {
        (Some(v), Some(most)) if v <= most => format!("{v:.1}, ≤ {most}: met"),
        (Some(v), Some(most)) => format!("{v:.1}, ≤ {most}: **missed**"),
        (value, _) => cell(value),
    }
}

/// The tables of the first page.
pub(crate) fn page(scored: &[Scored], unwritten: &[(Row, String)]) -> String {
    let mut w = String::new();
    let target = |grade: &str| TARGETS.iter().find(|(g, _)| *g == grade).map(|(_, t)| *t);
    writeln!(w, "\n## Families\n").unwrap();
    writeln!(w, "| family | grade | rows | no fit, signed | rows not seen by a fit | signed | median \\|error\\| | 90 % below | pairs | ratios |").unwrap();
    writeln!(w, "|---|---|---:|---:|---:|---:|---|---:|---:|---|").unwrap();
    for (family, grade, f) in figures(scored) {
        writeln!(
            w,
            "| {family} | {grade} | {} | {} | {} | {} | {} | {} | {} | {} |",
            f.rows,
            f.plain.map_or("–".to_owned(), |v| format!("{v:+.1}")),
            f.proving,
            f.signed.map_or("–".to_owned(), |v| format!("{v:+.1}")),
            verdict(f.absolute, target(&grade)),
            cell(f.ninetieth),
            f.pairs,
            verdict(f.ratios, (f.pairs > 0).then_some(RATIOS)),
        )
        .unwrap();
    }
    writeln!(w, "\n## Order of configurations\n").unwrap();
    writeln!(w, "| family | Kendall's τ | pairs |\n|---|---|---:|").unwrap();
    for family in rows::families() {
        let rows: Vec<&Scored> = scored.iter().filter(|s| s.case.row.family == family).collect();
        if let Some((tau, pairs)) = fit::kendall(&rows) {
            let word = if tau >= TAU { "met" } else { "**missed**" };
            writeln!(w, "| {family} | {tau:.2}, ≥ {TAU}: {word} | {pairs} |").unwrap();
        }
    }
    w.push_str(&differences::table(scored));
    w.push_str(&closed::table(scored));
    fits(&mut w, scored);
    writeln!(w, "\n## What rows don't state\n").unwrap();
    writeln!(w, "| rule | taken instead | rows |\n|---|---|---:|").unwrap();
    for (letter, text) in RULES {
        let used = scored.iter().filter(|s| s.case.guesses.contains(letter)).count();
        writeln!(w, "| {letter} | {text} | {used} |").unwrap();
    }
    writeln!(w, "\n## Rows that are not played\n").unwrap();
    writeln!(w, "| family | row | why |\n|---|---|---|").unwrap();
    for (row, why) in unwritten {
        writeln!(w, "| {} | {} | {why} |", row.family, row.name).unwrap();
    }
    for s in scored.iter().filter(|s| s.case.contradicts) {
        let why = "not judged: published faster than its kernels alone at the best rates known for its numbers";
        writeln!(w, "| {} | {} | {why} |", s.case.row.family, s.case.row.name).unwrap();
    }
    w
}

fn fits(w: &mut String, scored: &[Scored]) {
    let mut groups: BTreeMap<String, Vec<&Scored>> = BTreeMap::new();
    for s in scored {
        groups.entry(s.case.group()).or_default().push(s);
    }
    writeln!(w, "\n## Fits\n").unwrap();
    writeln!(w, "| group | efficiency | fitted on | GPUs of these | rows held against it | GPUs of these | system |")
        .unwrap();
    writeln!(w, "|---|---:|---:|---:|---:|---|---|").unwrap();
    for (group, rows) in groups {
        let gpus = |inside: bool| -> BTreeSet<u64> {
            rows.iter().filter(|s| s.inside == inside && !s.case.contradicts).map(|s| s.case.row.gpus).collect()
        };
        let list = |set: &BTreeSet<u64>| set.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let (inside, outside) = (gpus(true), gpus(false));
        if inside.is_empty() {
            continue;
        }
        writeln!(
            w,
            "| {group} | {:.3} | {} | {} | {} | {} | {} |",
            rows[0].fit.efficiency,
            rows.iter().filter(|s| s.inside).count(),
            list(&inside),
            rows.iter().filter(|s| s.proves()).count(),
            if outside.is_empty() { "–".to_owned() } else { list(&outside) },
            rows[0].case.cluster.system,
        )
        .unwrap();
    }
}

/// The tables of the second page.
pub(crate) fn rows_page(scored: &[Scored]) -> String {
    let mut w = String::new();
    for family in rows::families() {
        let rows: Vec<&Scored> = scored.iter().filter(|s| s.case.row.family == family).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(w, "\n## {family}\n").unwrap();
        writeln!(w, "| row | grade | GPUs | sizes | published s | no fit % | fitted % | | kernels | bubble | optimizer | exposed | not stated |").unwrap();
        writeln!(w, "|---|---|---:|---|---:|---:|---:|---|---:|---:|---:|---|---|").unwrap();
        for s in rows {
            let c = &s.case;
            let how = s.standing();
            let share = |v: f64| format!("{:.0} %", v / s.parts.total * 100.0);
            let exposed: Vec<String> = s
                .parts
                .exposed
                .iter()
                .filter(|(_, v)| **v / s.parts.total >= 0.005)
                .map(|(k, v)| format!("{k} {}", share(*v)))
                .collect();
            let sizes = &c.sizes;
            let mut text = format!("t{} c{} p{} d{}", sizes.tensor, sizes.context, sizes.pipeline, sizes.data);
            if sizes.virtual_stages > 1 {
                write!(text, " v{}", sizes.virtual_stages).unwrap();
            }
            if sizes.expert > 1 {
                write!(text, " e{}", sizes.expert).unwrap();
            }
            write!(text, " m{}×{}", sizes.micros(), sizes.micro_batch).unwrap();
            writeln!(
                w,
                "| {} | {} | {} | {text} | {:.4} | {:+.1} | {:+.1} | {how} | {} | {} | {} | {} | {} |",
                c.row.name,
                c.row.grade,
                c.row.gpus,
                c.seconds,
                s.plain_error() * 100.0,
                s.error() * 100.0,
                share(s.parts.compute),
                share(s.parts.bubble),
                share(s.parts.optimizer),
                exposed.join(", "),
                c.guesses.iter().collect::<String>(),
            )
            .unwrap();
        }
    }
    w
}
