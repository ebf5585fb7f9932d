//! `tests/data/steps-accuracy.toml`: the accepted figures. CI fails if one gets worse, and if one gets better without being recorded.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use crate::report::Figures;

/// Differences up to this are rounding, in points of percent.
const EPSILON: f64 = 0.06;

const HEAD: &str = "\
# The accepted accuracy of steps beside published ones, by family and grade: rows, and in percent the median signed error without a fit, the
# median |error| on rows that no fit has seen, and the median error of ratios. Written by
# `UPDATE_DOCS=1 REASON=\"why they change\" cargo test -p sim-workload --test steps_published`; never by hand.
";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    reason: Vec<Reason>,
    #[serde(default)]
    figures: Vec<Accepted>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    why: String,
    /// Of the figures that it gives a reason for.
    hash: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Accepted {
    family: String,
    grade: String,
    rows: usize,
    plain: Option<f64>,
    proving: usize,
    absolute: Option<f64>,
    ratios: Option<f64>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/steps-accuracy.toml")
}

fn text(figures: &[(String, String, Figures)]) -> String {
    let mut w = String::new();
    for (family, grade, f) in figures {
        write!(
            w,
            "\n[[figures]]\nfamily = \"{family}\"\ngrade = \"{grade}\"\nrows = {}\nproving = {}\n",
            f.rows, f.proving
        )
        .unwrap();
        for (key, value) in [("plain", f.plain), ("absolute", f.absolute), ("ratios", f.ratios)] {
            if let Some(value) = value {
                writeln!(w, "{key} = {value:.2}").unwrap();
            }
        }
    }
    w
}

/// 64-bit FNV-1a: any change of the figures shows.
fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

fn stored() -> (File, String) {
    let text = fs::read_to_string(path()).unwrap_or_default().replace("\r\n", "\n");
    let file: File = toml::from_str(&text).unwrap_or_else(|e| panic!("steps-accuracy.toml: {e}"));
    let at = text.find("\n[[figures]]").unwrap_or(text.len());
    (file, text[at..].to_owned())
}

/// The figures are those that the last reason is for.
pub(crate) fn check_reasons() {
    let (file, figures) = stored();
    let last = file.reason.last().expect("a reason for the figures");
    assert_eq!(last.hash, hash(&figures), "figures changed without a reason (the last is `{}`)", last.why);
    assert!(file.reason.iter().all(|r| r.why.trim().len() > 10), "a reason says why");
}

/// Where figures stand otherwise than accepted.
pub(crate) fn differences(figures: &[(String, String, Figures)]) -> Vec<String> {
    let (old, _) = stored();
    let new: File = toml::from_str(&text(figures)).expect("figures as they were written");
    let mut out = Vec::new();
    let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= EPSILON,
        (a, b) => a.is_none() && b.is_none(),
    };
    for f in &new.figures {
        match old.figures.iter().find(|o| o.family == f.family && o.grade == f.grade) {
            Some(o)
                if o.rows == f.rows
                    && o.proving == f.proving
                    && near(o.plain, f.plain)
                    && near(o.absolute, f.absolute)
                    && near(o.ratios, f.ratios) => {}
            other => out.push(format!("{} {}: now {f:?}, accepted {other:?}", f.family, f.grade)),
        }
    }
    if old.figures.len() != new.figures.len() {
        out.push(format!("{} figures, accepted are {}", new.figures.len(), old.figures.len()));
    }
    out
}

/// Writes figures anew, with the reason in REASON.
pub(crate) fn record(figures: &[(String, String, Figures)]) {
    let (old, before) = stored();
    let new = text(figures);
    if new == before {
        return;
    }
    let why = std::env::var("REASON").expect("figures changed: say why in REASON");
    let mut w = HEAD.to_owned();
    let reasons = old.reason.iter().map(|r| (r.why.clone(), r.hash.clone())).chain([(why, hash(&new))]);
    for (why, hash) in reasons {
        write!(w, "\n[[reason]]\nwhy = {why:?}\nhash = \"{hash}\"\n").unwrap();
    }
    fs::write(path(), w + &new).expect("the file of accepted figures");
}
