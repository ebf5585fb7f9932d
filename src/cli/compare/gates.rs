//! A file of thresholds.

use std::path::Path;

use serde::Deserialize;
use sim_report::compare::Thresholds;

use super::super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic, shorten};

/// The keys of the file; a share is `0.15` or `"15%"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    max_mape: Option<Share>,
    max_median_abs_error: Option<Share>,
    max_p90_abs_error: Option<Share>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Share {
    Number(f64),
    Text(String),
}

/// Reads the thresholds of a gate file.
pub(super) fn read(path: &Path) -> Result<Thresholds, Failure> {
    let shown = shorten(&path.display().to_string());
    let refuse = |why: String| {
        let fault = Diagnostic::new(Code::BadArgument, format!("cannot use the gate file `{shown}`: {why}"));
        let help = "a gate file is TOML with max_mape, max_median_abs_error or max_p90_abs_error = \"15%\"";
        Failure::of(Exit::Usage, fault.help(help))
    };
    let size = std::fs::metadata(path).map_err(|e| refuse(e.to_string()))?.len();
    if size > 1 << 20 {
        return Err(refuse(format!("it has {size} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|e| refuse(e.to_string().trim_end().to_owned()))?;
    let share = |share: Option<Share>| match share {
        None => Ok(None),
        Some(Share::Number(value)) => super::share(&value.to_string()).map(Some),
        Some(Share::Text(text)) => super::share(&text).map(Some),
    };
    Ok(Thresholds {
        max_mape: share(file.max_mape)?,
        max_median_abs_error: share(file.max_median_abs_error)?,
        max_p90_abs_error: share(file.max_p90_abs_error)?,
    })
}
