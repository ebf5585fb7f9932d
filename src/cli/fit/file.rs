//! The file of fitted parameters.

use core::fmt::Write as _;
use std::path::Path;

use crate::fit::{Measured, Outcome, forms};

/// Digits of a value that are written; more would not be told by any measurement.
const DIGITS: i32 = 5;

/// The parameters as a file for `[profile] from`, with where they come from and how well they are known. No date, so that the
/// same logs give the same file.
pub(super) fn profile(tables: &[Measured<'_>], outcome: &Outcome) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        "# Timing parameters fitted by fabricsim {version} to {} rows; they scatter by {:.1} % about the fit.\n",
        outcome.rows.len(),
        outcome.scatter * 100.0
    );
    out += "# Use them with `--profile FILE`, or in a scenario with `[profile]` and `from = \"FILE\"`.\n\nschema = 1\n\n[profile]\n";
    // Writing to a String cannot fail, here and below.
    let logs: Vec<String> = tables.iter().map(|t| short(&t.name)).collect();
    let _ = writeln!(out, "origin = \"fitted\"");
    let _ = writeln!(out, "source = {}", quoted(&format!("fit to {}", logs.join(", "))));
    for p in &outcome.parameters {
        let note = match p.error {
            Some(_) => format!("90 %: {} to {}", rounded(p.interval.0), rounded(p.interval.1)),
            None => "at its bound".to_owned(),
        };
        let _ = writeln!(out, "{} = {}  # was {}; {note}", quoted(p.key.name()), rounded(p.value), rounded(p.before));
    }
    let known: Vec<_> = outcome.parameters.iter().filter(|p| p.value > 0.0).collect();
    if known.iter().any(|p| p.error.is_some()) {
        out += "\n# One standard deviation of the logarithm of each.\n[profile.spread]\n";
        for p in known {
            if let Some(error) = p.error {
                let _ = writeln!(out, "{} = {}", quoted(p.key.name()), rounded((error / p.value).min(3.0)));
            }
        }
    }
    let forms = forms(tables, outcome);
    if !forms.is_empty() {
        out += "\n# How far rows of this cluster lie from these values' predictions, as one standard deviation of the logarithm: reach/algorithm/protocol/band.\n[profile.form]\n";
        for (class, sigma) in forms {
            let _ = writeln!(out, "{} = {}", quoted(&class.to_string()), rounded(sigma));
        }
    }
    out
}

/// The name of a log without its folders.
fn short(name: &str) -> String {
    Path::new(name).file_name().map_or_else(|| name.to_owned(), |n| n.to_string_lossy().into_owned())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A number with a point, so that TOML takes it for one with a fraction.
fn rounded(value: f64) -> String {
    if value == 0.0 {
        return "0.0".to_owned();
    }
    let decimals = (DIGITS - 1 - value.abs().log10().floor() as i32).clamp(1, 12) as usize;
    let text = format!("{value:.decimals$}");
    let cut = text.trim_end_matches('0');
    if cut.ends_with('.') { format!("{cut}0") } else { cut.to_owned() }
}
