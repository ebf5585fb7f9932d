//! A fit as text.

use std::fmt::Write;

use super::text::{Align, TextTable, number};
use crate::compare::Band;
use crate::result::{FitResults, ParameterResult};

/// Correlations shown at most beside those that are hard to tell.
const CORRELATIONS: usize = 3;
/// Hard ones shown at most.
const HARD: usize = 5;

/// Values with errors, what they depend on, errors per band before and after, and on held-out clusters.
#[must_use]
pub fn fit_text(results: &FitResults) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "{}\n", head(results));
    let mut table = TextTable::new([
        ("parameter", Align::Left),
        ("before", Align::Right),
        ("", Align::Left),
        ("fitted", Align::Right),
        ("", Align::Left),
        ("std error", Align::Right),
        ("90 % interval", Align::Left),
        ("bounds", Align::Left),
    ]);
    for p in &results.parameters {
        let origin = p.before_origin.chars().next().map_or(String::new(), |c| c.to_uppercase().to_string());
        let (error, interval) = match p.standard_error {
            Some(error) => (number(error, 2), format!("{} to {}", number(p.low, 3), number(p.high, 3))),
            None => ("-".to_owned(), "at its bound".to_owned()),
        };
        let bounds = format!("{} to {}", number(p.bound_low, 3), number(p.bound_high, 3));
        let cells =
            [p.name.clone(), number(p.before, 3), origin, number(p.value, 4), "F".to_owned(), error, interval, bounds];
        table.row(cells);
    }
    out += &table.render();
    correlations(results, &mut out);
    for p in &results.left_out {
        let _ = writeln!(out, "not fitted: {}: {}. It takes {}", p.name, p.reason, p.needs);
    }
    let _ = writeln!(out, "\nmedian signed / median absolute error, % (rows)");
    let mut table = bands_table("log");
    for log in &results.logs {
        let name = log.log.rsplit('/').next().unwrap_or(&log.log);
        table.row(bands_row(name, &log.before, &log.after));
    }
    out += &table.render();
    if !results.held_out.is_empty() {
        let _ = writeln!(out, "\neach cluster with what the others give");
        let mut table = bands_table("cluster held out");
        for held in &results.held_out {
            table.row(bands_row(&held.cluster, &held.before, &held.after));
        }
        out += &table.render();
    }
    let _ = writeln!(out, "\nother {}", parameters_line(&results.kept));
    out
}

fn head(results: &FitResults) -> String {
    let clusters: std::collections::BTreeSet<&str> = results.logs.iter().map(|l| l.cluster.as_str()).collect();
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{} fitted to {} of {}, {}: rows scatter by {:.1} % about the fit. {}.",
        counted(results.parameters.len(), "parameter"),
        counted(results.rows, "row"),
        counted(results.logs.len(), "table"),
        counted(clusters.len(), "cluster"),
        results.scatter * 100.0,
        counted(results.simulations, "simulation")
    )
}

fn correlations(results: &FitResults, out: &mut String) {
    let mut list: Vec<_> = results.correlations.iter().collect();
    list.sort_by(|a, b| b.correlation.abs().total_cmp(&a.correlation.abs()));
    let hard = list.iter().filter(|c| c.hard_to_tell).count();
    for c in &list[..hard.min(HARD)] {
        let _ = writeln!(
            out,
            "correlation of {} and {}: {:+.2}: they are hard to tell apart, trust both together only",
            c.a, c.b, c.correlation
        );
    }
    if hard > HARD {
        let _ = writeln!(out, "and {} more such pairs", hard - HARD);
    }
    let rest: Vec<String> =
        list[hard..].iter().take(CORRELATIONS).map(|c| format!("{} and {} {:+.2}", c.a, c.b, c.correlation)).collect();
    if !rest.is_empty() {
        let _ = writeln!(out, "{}correlations: {}", if hard > 0 { "other " } else { "largest " }, rest.join(", "));
    }
}

fn bands_table(first: &str) -> TextTable {
    TextTable::new([
        (first, Align::Left),
        ("to 64 KiB", Align::Left),
        ("to 64 MiB", Align::Left),
        ("above", Align::Left),
    ])
}

fn bands_row(name: &str, before: &[Band], after: &[Band]) -> Vec<String> {
    use crate::compare::BandName::{Large, Mid, Small};
    let cell = |band| {
        let of = |list: &[Band]| list.iter().find(|b| b.band == band).copied();
        let show = |b: Band| format!("{:+.1} / {:.1}", b.median_error * 100.0, b.median_abs_error * 100.0);
        match (of(before), of(after)) {
            (Some(before), Some(after)) => format!("{} -> {} ({})", show(before), show(after), after.count),
            _ => "-".to_owned(),
        }
    };
    core::iter::once(name.to_owned()).chain([Small, Mid, Large].map(cell)).collect()
}

/// How many parameters of each origin a prediction rests on: `parameters: 2 M (measured), 3 F (fitted), 1 A (assumed): x`.
#[must_use]
pub fn parameters_line(list: &[ParameterResult]) -> String {
    let count = |letter: char| list.iter().filter(|p| p.letter() == letter).count();
    let words = [('S', "spec"), ('M', "measured"), ('F', "fitted"), ('A', "assumed")];
    let parts: Vec<String> = words
        .iter()
        .filter(|(letter, _)| count(*letter) > 0)
        .map(|(letter, word)| format!("{} {letter} ({word})", count(*letter)))
        .collect();
    if parts.is_empty() { "parameters: none".to_owned() } else { format!("parameters: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_counted() {
        let of = |origin: &str| ParameterResult {
            name: "x".to_owned(),
            value: 1.0,
            origin: origin.to_owned(),
            source: String::new(),
        };
        let list = ["fitted", "spec", "fitted"].map(of);
        assert_eq!(parameters_line(&list), "parameters: 1 S (spec), 2 F (fitted)");
        assert_eq!(parameters_line(&[]), "parameters: none");
    }
}
