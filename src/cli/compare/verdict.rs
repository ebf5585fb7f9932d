//! What a comparison is held to and where that is written: baselines, JUnit.

use std::collections::BTreeMap;
use std::path::Path;

use sim_report::compare::{Baseline, Check, key};
use sim_report::table::junit;

use super::super::fault::{Exit, Failure};
use super::super::output;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};

/// Growth of a median |error| that is no regression, as a ratio.
pub(super) const TOLERANCE: f64 = 0.005;

const WRITE: &str = "write one by --write-baseline FILE";

/// Reads a baseline.
pub(super) fn read(path: &Path) -> Result<Baseline, Failure> {
    let shown = shorten(&path.display().to_string());
    let refuse = |why: String| {
        let fault = Diagnostic::new(Code::BadArgument, format!("cannot use the baseline `{shown}`: {why}"));
        Failure::of(Exit::Usage, fault.help(WRITE))
    };
    let io = |error: std::io::Error| {
        refuse(match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        })
    };
    let size = std::fs::metadata(path).map_err(io)?.len();
    if size > 16 << 20 {
        return Err(refuse(format!("it has {size} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    let baseline: Baseline = toml::from_str(&text).map_err(|e| refuse(e.to_string().trim_end().to_owned()))?;
    if !baseline.is_known() {
        return Err(refuse(format!("it is of version {}, which this program does not know", baseline.schema)));
    }
    let mut logs = BTreeMap::new();
    for (log, bands) in baseline.logs {
        // An older one may have it as it was typed.
        if logs.insert(key(&log), bands).is_some() {
            return Err(refuse(format!("it has `{}` twice", shorten(&key(&log)))));
        }
    }
    let baseline = Baseline { logs, ..baseline };
    let sound = |b: &sim_report::compare::BaselineBand| b.median_error.is_finite() && b.median_abs_error.is_finite();
    if !baseline.logs.values().flat_map(|bands| bands.values()).all(sound) {
        return Err(refuse("it has an error that is not a number".to_owned()));
    }
    Ok(baseline)
}

/// What was missed, as findings: thresholds, bands that are worse, logs that the baseline has and this run has not.
pub(super) fn missed(checks: &[Check], missing: &[String]) -> Diagnostics {
    let mut faults = Diagnostics::new();
    for (check, why) in checks.iter().filter_map(|check| Some((check, check.failure.as_ref()?))) {
        let fault = Diagnostic::new(Code::Threshold, why);
        faults.push(if missing.contains(&check.subject) {
            fault.help("give it, or write the baseline anew without it: --write-baseline FILE")
        } else {
            fault
        });
    }
    faults
}

/// Writes a baseline.
pub(super) fn write(path: &Path, baseline: &Baseline, force: bool) -> Result<(), Failure> {
    let head = "# Errors of predictions beside measurements, by log and band; `fabricsim compare --baseline` holds later ones against it.\n\n";
    let text = toml::to_string(baseline).map_err(Failure::internal)?;
    output::write(path, (head.to_owned() + &text).as_bytes(), force)
}

/// Writes the checks as JUnit XML.
pub(super) fn write_junit(path: &Path, checks: &[Check], force: bool) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    junit(&mut bytes, "fabricsim compare", checks).map_err(Failure::internal)?;
    output::write(path, &bytes, force)
}
