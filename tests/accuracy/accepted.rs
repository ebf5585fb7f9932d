//! `accuracy.toml`: the accepted figures, and why they are what they are.
//!
//! The figures are written by the test and never by hand. Each change of them adds a reason; the last reason carries the hash of
//! the figures as they stand, so that neither can be changed without the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use crate::family::{self, Family};
use crate::run::{Health, root};
use crate::score::{BANDS, Figures, Scored};

/// Differences up to this are rounding, in points of percent.
const EPSILON: f64 = 0.05;

const HEAD: &str = "\
# The accepted accuracy of predictions beside published nccl-tests runs, by family and by run; bands: small (to 64 KiB), mid (to 64 MiB),
# large. n rows, median error and median |error| in percent (predicted / measured - 1). CI fails if a figure gets worse, and if one gets
# better without being recorded. Written by `UPDATE_DOCS=1 REASON=\"why they change\" cargo test --test accuracy`; never by hand.
";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    reason: Vec<Reason>,
    #[serde(default)]
    family: BTreeMap<String, Bands>,
    #[serde(default)]
    run: BTreeMap<String, Bands>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    why: String,
    /// Of the figures that it gives a reason for.
    figures: String,
}

type Bands = BTreeMap<String, Accepted>;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    n: usize,
    signed: f64,
    absolute: f64,
}

fn path() -> PathBuf {
    root().join("accuracy.toml")
}

fn bands(w: &mut String, kind: &str, name: &str, figures: [Option<Figures>; 3]) {
    writeln!(w, "\n[{kind}.\"{name}\"]").unwrap();
    for (band, figures) in BANDS.iter().zip(figures) {
        let Some(f) = figures else { continue };
        writeln!(w, "{} = {{ n = {}, signed = {:.2}, absolute = {:.2} }}", band.name(), f.n, f.signed, f.absolute)
            .unwrap();
    }
}

/// The figures as text.
fn figures(all: &[Scored]) -> String {
    let mut w = String::new();
    for (health, suffix) in [(Health::Healthy, ""), (Health::NotJudged, " (not judged)"), (Health::Broken, " (broken)")]
    {
        for (name, family) in family::families(all, health) {
            bands(&mut w, "family", &format!("{name}{suffix}"), Family::figures(&family));
        }
    }
    for s in all.iter().filter(|s| !s.rows.is_empty()) {
        bands(&mut w, "run", &s.run.id, BANDS.map(|band| Figures::of(&s.errors(band))));
    }
    w
}

/// 64-bit FNV-1a: any change of the figures shows, which is all that is asked of it.
fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// The file's parts: reasons, and figures as they stand in it.
fn stored() -> (Vec<Reason>, String, File) {
    let text = fs::read_to_string(path()).unwrap_or_default().replace("\r\n", "\n");
    let file: File = toml::from_str(&text).unwrap_or_else(|e| panic!("accuracy.toml: {e}"));
    let at = text.find("\n[family.").unwrap_or(text.len());
    (file.reason.clone(), text[at..].to_owned(), file)
}

/// The reasons hold: the last one is for these figures, and none is empty or said twice in a row.
pub(crate) fn check_reasons() {
    let (reasons, figures, _) = stored();
    let last = reasons.last().expect("accuracy.toml has a reason for its figures");
    assert_eq!(
        last.figures,
        hash(&figures),
        "the figures of accuracy.toml are not those that its last reason (`{}`) is for: \
         write them with UPDATE_DOCS=1 REASON=\"why they change\" cargo test --test accuracy",
        last.why
    );
    for pair in reasons.windows(2) {
        assert_ne!(pair[0].why, pair[1].why, "a change of figures needs a reason of its own");
    }
    assert!(reasons.iter().all(|r| r.why.trim().len() > 10), "a reason says why");
}

/// Where figures stand otherwise than accepted.
pub(crate) fn differences(all: &[Scored]) -> Vec<String> {
    let (_, _, old) = stored();
    let new: File = toml::from_str(&figures(all)).unwrap();
    let mut out = Vec::new();
    for (kind, old, new) in [("family", &old.family, &new.family), ("run", &old.run, &new.run)] {
        for name in old.keys().chain(new.keys()).collect::<std::collections::BTreeSet<_>>() {
            let empty = Bands::new();
            let (old, new) = (old.get(name).unwrap_or(&empty), new.get(name).unwrap_or(&empty));
            for band in BANDS.map(|b| b.name()) {
                let change = match (old.get(band), new.get(band)) {
                    (None, None) => continue,
                    (Some(o), Some(n)) if o.n == n.n => {
                        let step = n.absolute - o.absolute;
                        if step.abs() <= EPSILON && (n.signed - o.signed).abs() <= EPSILON {
                            continue;
                        }
                        let word = if step > EPSILON { "worse" } else { "better or moved, and not recorded" };
                        format!(
                            "{word}: median |error| {:.2} -> {:.2} %, signed {:+.2} -> {:+.2} %",
                            o.absolute, n.absolute, o.signed, n.signed
                        )
                    }
                    (old, new) => format!("{} -> {} rows", old.map_or(0, |o| o.n), new.map_or(0, |n| n.n)),
                };
                out.push(format!("{kind} {name}, {band}: {change}"));
            }
        }
    }
    out
}

/// Writes the figures, with the reason in `REASON` if they have changed.
pub(crate) fn write(all: &[Scored]) {
    let (mut reasons, old, _) = stored();
    let new = figures(all);
    if old == new && reasons.last().is_some_and(|last| last.figures == hash(&new)) {
        return;
    }
    let why = std::env::var("REASON").unwrap_or_default();
    assert!(
        why.trim().len() > 10,
        "the accepted figures change:\n{}\nsay why: UPDATE_DOCS=1 REASON=\"...\" cargo test --test accuracy",
        differences(all).join("\n")
    );
    reasons.push(Reason { why, figures: hash(&new) });
    let mut text = HEAD.to_owned();
    for reason in &reasons {
        let why = toml::Value::String(reason.why.trim().to_owned());
        writeln!(text, "\n[[reason]]\nwhy = {why}\nfigures = \"{}\"", reason.figures).unwrap();
    }
    fs::write(path(), text + &new).unwrap();
}
