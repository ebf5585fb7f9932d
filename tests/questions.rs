//! Questions that users have asked in public, put to the simulator: `tests/data/questions.toml` has them with what is known of
//! the answers, and `docs/questions.md` shows both.
//!
//! `UPDATE_DOCS=1 cargo test --test questions` writes the page.

mod transport_common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fabricsim::scenario::{Input, Scenario, Setting};
use rayon::prelude::*;
use serde::Deserialize;

const DATA: &str = include_str!("data/questions.toml");
const PAGE: &str = "docs/questions.md";
/// A figure on the page may be off by so much before it has to be written anew.
const STALE: f64 = 0.03;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    id: String,
    ask: String,
    source: Vec<String>,
    #[serde(default)]
    check: Vec<Check>,
    instead: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    what: String,
    of: String,
    near: Option<f64>,
    within: Option<f64>,
    least: Option<f64>,
    most: Option<f64>,
    published: String,
    missed: Option<String>,
}

impl Check {
    /// The least and the greatest figure that holds.
    fn bounds(&self) -> (f64, f64) {
        match (self.near, self.within) {
            (Some(near), Some(within)) => (near - near.abs() * within, near + near.abs() * within),
            (None, None) => (self.least.unwrap_or(f64::NEG_INFINITY), self.most.unwrap_or(f64::INFINITY)),
            _ => panic!("{}: `near` goes with `within`", self.what),
        }
    }

    fn known(&self) -> String {
        match (self.near, self.within, self.least, self.most) {
            (Some(near), Some(within), ..) => format!("{near} ± {:.0} %", within * 100.0),
            (.., Some(least), Some(most)) => format!("{least} to {most}"),
            (.., Some(least), None) => format!("at least {least}"),
            (.., None, Some(most)) => format!("at most {most}"),
            _ => panic!("{}: what is known?", self.what),
        }
    }
}

/// What one call gave.
#[derive(Clone, Copy)]
struct Answer {
    time_us: f64,
    algbw: f64,
    busbw: f64,
    /// The busiest link: payload per time in GB/s, and the share of its time.
    carried: f64,
    util: f64,
}

/// A key as a setting: numbers and booleans as they are, anything else as text.
fn setting(key: &str, value: &str) -> Setting {
    let key = if key.starts_with("NCCL_") { format!("software.env.{key}") } else { key.to_owned() };
    let plain = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
    if plain { Setting::value("question", key, value) } else { Setting::text("question", key, value) }
}

/// The call of `OP SIZE SYSTEM KEY=VALUE …`; `groups` of it at once, each of GPU i of both nodes, if that is more than 0.
fn load(call: &str, groups: usize) -> fabricsim::scenario::Loaded {
    let mut words = call.split(' ');
    let [op, size, system] = [(); 3].map(|()| words.next().unwrap_or_else(|| panic!("`{call}`: OP SIZE SYSTEM")));
    let number = size.trim_end_matches(char::is_alphabetic);
    let size = format!("{number} {}", &size[number.len()..]);
    let mut settings = Vec::new();
    let mut forced = String::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("`{call}`: KEY=VALUE, not `{word}`"));
        if key == "algorithm" {
            forced = format!(", algorithm = \"{value}\"");
        } else {
            settings.push(setting(key, value));
        }
    }
    let input = if Path::new(system).extension().is_some_and(|e| e == "toml") {
        Input::File(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-runs").join(system))
    } else {
        settings.push(Setting::text("question", "system", system));
        Input::Flags
    };
    let one =
        |group: String| format!("{{ kind = \"collective\", op = \"{op}\", sizes = [\"{size}\"]{forced}{group} }}");
    let list: Vec<String> = match groups {
        0 => vec![one(String::new())],
        n => (0..n)
            .map(|i| one(format!(", group = [{i}, {}]{}", i + 8, if i > 0 { ", with_previous = true" } else { "" })))
            .collect(),
    };
    settings.push(Setting::value("question", "workload", format!("[{}]", list.join(", "))));
    Scenario::load(&input, &settings).unwrap_or_else(|faults| {
        panic!("`{call}`: {}", fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain))
    })
}

fn answer(call: &str) -> Answer {
    static KNOWN: Mutex<BTreeMap<String, Answer>> = Mutex::new(BTreeMap::new());
    if let Some(known) = KNOWN.lock().unwrap().get(call) {
        return *known;
    }
    let begun = std::time::Instant::now();
    let report = load(call, 0).run().unwrap_or_else(|e| panic!("`{call}`: {e}"));
    println!("{:6.1} s  {call}", begun.elapsed().as_secs_f64());
    let row = &report.results.collectives[0];
    let whole = report.results.engine.simulated_us.unwrap();
    let most = |of: fn(&sim_report::result::LinkResult) -> f64| report.results.links.iter().map(of).fold(0.0, f64::max);
    let found = Answer {
        time_us: row.time_us,
        algbw: row.algbw,
        busbw: row.busbw,
        carried: most(|link| link.bytes as f64) / whole / 1e3,
        util: most(|link| link.utilization),
    };
    KNOWN.lock().unwrap().insert(call.to_owned(), found);
    found
}

/// The mean bus bandwidth of eight such calls at once.
fn together(call: &str) -> f64 {
    let report = load(call, 8).run().unwrap_or_else(|e| panic!("`{call}`: {e}"));
    let rows = &report.results.collectives;
    rows.iter().map(|row| row.busbw).sum::<f64>() / rows.len() as f64
}

fn term(text: &str) -> f64 {
    if let Ok(number) = text.parse() {
        return number;
    }
    let (measure, rest) = text.split_once('(').unwrap_or_else(|| panic!("`{text}` is no term"));
    let call = rest.strip_suffix(')').unwrap_or_else(|| panic!("`{text}` has no end"));
    match measure {
        "busbw" => answer(call).busbw,
        "algbw" => answer(call).algbw,
        "time" => answer(call).time_us,
        "carried" => answer(call).carried,
        "util" => answer(call).util,
        "together8" => together(call),
        "packets" => transport_common::questions::answer(call),
        other => panic!("no measure `{other}`"),
    }
}

/// Terms and operators from left to right.
fn value(of: &str) -> f64 {
    // Operators stand between blanks, outside brackets.
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in of.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 => {
                parts.push(&of[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&of[begin..]);
    let mut parts = parts.into_iter();
    let mut sum = term(parts.next().unwrap_or_default());
    while let (Some(operator), Some(next)) = (parts.next(), parts.next()) {
        let next = term(next);
        sum = match operator {
            "*" => sum * next,
            "/" => sum / next,
            "-" => sum - next,
            other => panic!("`{of}`: no operator `{other}`"),
        };
    }
    sum
}

/// Three digits.
fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 4) as usize;
    format!("{value:.digits$}")
}

const HEAD: &str = "\
# Questions that users ask

Questions about collectives from public threads, put to the simulator; `tests/data/questions.toml` has each with its sources and the calls behind every figure, and
`tests/questions.rs` holds them (`UPDATE_DOCS=1 cargo test --test questions` writes this page). *Known* is a measured figure, one derived from measured ones, or the field's
rule, with the tolerance that the answer is held to. What is missed is shown with the reason and is not held.

";

fn page(answers: &[(Question, Vec<f64>)]) -> String {
    let mut out = HEAD.to_owned();
    let all: usize = answers.iter().map(|(q, _)| q.check.len()).sum();
    let holds = |check: &Check, got: &f64| (check.bounds().0..=check.bounds().1).contains(got);
    let missed: usize =
        answers.iter().map(|(q, got)| q.check.iter().zip(got).filter(|(c, got)| !holds(c, got)).count()).sum();
    let _ = writeln!(out, "{} figures, of which {} hold.\n", all, all - missed);
    out += "| question | figure | known | predicted | |\n|---|---|---|---|---|\n";
    for (q, values) in answers.iter().filter(|(q, _)| q.instead.is_none()) {
        for (i, (check, got)) in q.check.iter().zip(values).enumerate() {
            let ask = if i == 0 { format!("**{}** {}", q.id, q.ask) } else { String::new() };
            let why = check.missed.as_ref().filter(|_| !holds(check, got));
            let verdict = why.map_or("holds".to_owned(), |why| format!("missed: {why}"));
            let (what, known, published) = (&check.what, check.known(), &check.published);
            let _ = writeln!(out, "| {ask} | {what} | {known} ({published}) | {} | {verdict} |", short(*got));
        }
    }
    out += "\n## Not asked here\n\n| question | because |\n|---|---|\n";
    for (q, _) in answers {
        if let Some(why) = &q.instead {
            let _ = writeln!(out, "| **{}** {} | {why} |", q.id, q.ask);
        }
    }
    out
}

#[test]
fn answers_are_what_is_known() {
    let file: File = toml::from_str(DATA).expect("the questions are sound");
    let answered: Vec<(Question, Vec<f64>)> = file
        .question
        .into_par_iter()
        .map(|q| {
            assert!(!q.source.is_empty() && (q.check.is_empty() == q.instead.is_some()), "{}", q.id);
            let values = q.check.iter().map(|check| value(&check.of)).collect();
            (q, values)
        })
        .collect();
    let mut faults = Vec::new();
    for (q, values) in &answered {
        for (check, got) in q.check.iter().zip(values) {
            let (least, most) = check.bounds();
            let holds = (least..=most).contains(got);
            println!(
                "{:24} {:44} {got:10.4} in {least:.4} to {most:.4} {}",
                q.id,
                check.what,
                if holds { "" } else { "MISSED" }
            );
            if !holds && check.missed.is_none() {
                faults.push(format!("{}, {}: {got}, not {least} to {most}", q.id, check.what));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let now = page(&answered);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let shown = fs::read_to_string(&path).unwrap_or_default();
    let rows = |text: &str| -> Vec<Vec<String>> {
        text.lines()
            .filter(|l| l.starts_with('|'))
            .map(|l| l.split('|').map(|c| c.trim().to_owned()).collect())
            .collect()
    };
    let (shown, now) = (rows(&shown), rows(&now));
    assert_eq!(shown.len(), now.len(), "{PAGE} is old: UPDATE_DOCS=1 cargo test --test questions");
    for (shown, now) in shown.iter().zip(&now) {
        for (a, b) in shown.iter().zip(now) {
            let near = match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => (a - b).abs() <= STALE * b.abs().max(0.1),
                _ => a == b,
            };
            assert!(near, "{PAGE} is old ({a}, now {b}): UPDATE_DOCS=1 cargo test --test questions");
        }
    }
}
