//! A file of thresholds.

use std::path::Path;

use serde::Deserialize;
use sim_report::compare::Thresholds;

use super::super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic, shorten};

/// What to write into a file that is not there.
const EXAMPLE: &str = "give its path, or write one with a line such as: max_mape = \"15%\"";

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
    let unreadable = |error: std::io::Error| {
        let (why, help) = match error.kind() {
            std::io::ErrorKind::NotFound => ("there is no such file".to_owned(), Some(EXAMPLE)),
            std::io::ErrorKind::PermissionDenied => ("permission denied".to_owned(), None),
            _ => (error.to_string(), None),
        };
        let fault = Diagnostic::new(Code::BadArgument, format!("cannot read the gate file `{shown}`: {why}"));
        Failure::of(Exit::Usage, fault.maybe_help(help.map(str::to_owned)))
    };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > 1 << 20 {
        return Err(refuse(format!("it has {size} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let file: File = toml::from_str(&text).map_err(|e| refuse(e.to_string().trim_end().to_owned()))?;
    let share = |share: Option<Share>| match share {
        None => Ok(None),
        Some(Share::Number(value)) => super::share("max_mape =", &value.to_string()).map(Some),
        Some(Share::Text(text)) => super::share("max_mape =", &text).map(Some),
    };
    let thresholds = Thresholds {
        max_mape: share(file.max_mape)?,
        max_median_abs_error: share(file.max_median_abs_error)?,
        max_p90_abs_error: share(file.max_p90_abs_error)?,
    };
    // A gate that is always open is a mistake, such as keys that are all commented out.
    if thresholds == Thresholds::default() {
        return Err(refuse("it sets no limit".to_owned()));
    }
    Ok(thresholds)
}
