//! A comparison as GitHub Markdown, for a job's summary, an issue or a pull request.

use core::fmt::Write as _;

use super::reports::compare_rows;
use super::text::{Align, TextTable};
use crate::compare::Check;
use crate::result::{CompareLog, CompareResults};

/// The verdict, the bands of every log with the pattern in words, and all rows folded away.
#[must_use]
pub fn compare_markdown(results: &CompareResults, checks: &[Check]) -> String {
    let mut out = String::new();
    let failed: Vec<&str> = checks.iter().filter_map(|c| c.failure.as_deref()).collect();
    let broken: Vec<&Check> = checks.iter().filter(|c| c.error.is_some()).collect();
    let percent = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| format!("{:.1} %", x * 100.0));
    let verdict = match (broken.is_empty(), failed.is_empty()) {
        (false, _) => ": failed",
        (true, false) => ": missed",
        (true, true) => "",
    };
    let _ = writeln!(out, "### Predicted beside measured{verdict}\n");
    let rows: usize = results.logs.iter().map(|log| log.rows.len()).sum();
    let _ = writeln!(
        out,
        "{rows} rows: mean |error| {}, median |error| {}, p90 |error| {}\n",
        percent(results.mape),
        percent(results.median_abs_error),
        percent(results.p90_abs_error)
    );
    for check in broken {
        let _ = writeln!(out, "- :x: {}: {}", plain(&check.subject), plain(&check.found));
    }
    for why in failed {
        let _ = writeln!(out, "- :x: {}", plain(why));
    }
    for log in &results.logs {
        out += &one(log);
    }
    out
}

fn one(log: &CompareLog) -> String {
    let ranks = log.ranks.map_or(String::new(), |n| format!(", {n} ranks"));
    let nccl = log.nccl.as_ref().map_or(String::new(), |nccl| format!(", {nccl}"));
    let op = log.op.as_deref().unwrap_or("unknown operation");
    let mut out = format!("\n#### {}: {op}{ranks}{nccl}\n\n", plain(&log.log));
    for sentence in &log.pattern {
        let _ = writeln!(out, "- {}", plain(sentence));
    }
    for warning in &log.warnings {
        let _ = writeln!(out, "- warning: {}", plain(warning));
    }
    let mut bands = TextTable::new([
        ("band", Align::Left),
        ("rows", Align::Right),
        ("median error", Align::Right),
        ("median abs. error", Align::Right),
        ("p90 abs. error", Align::Right),
    ]);
    for b in &log.bands {
        bands.row([
            b.band.name().to_owned(),
            b.count.to_string(),
            format!("{:+.1} %", b.median_error * 100.0),
            format!("{:.1} %", b.median_abs_error * 100.0),
            format!("{:.1} %", b.p90_abs_error * 100.0),
        ]);
    }
    let count = log.rows.len();
    let _ = write!(
        out,
        "\n{}\n<details><summary>{count} rows</summary>\n\n{}\n</details>\n",
        bands.markdown(),
        compare_rows(log, false).markdown()
    );
    out
}

/// Text of others in a page of ours: no markup, on one line.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(plain("a_b|<script>\n[x](y)"), "a\\_b\\|&lt;script&gt; \\[x\\](y)");
        let empty = compare_markdown(&CompareResults::default(), &[]);
        assert!(empty.starts_with("### Predicted beside measured\n\n0 rows"), "{empty}");
    }
}
