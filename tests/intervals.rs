//! How many measured times lie in the 90 % intervals of predictions.
//!
//! The rows are those of published runs on up to 64 ranks that were judged healthy (`tests/data/nccl-runs`), to 4 GiB over the
//! number of ranks: larger ones say the same. What parameters, paths and jitter do to a row is simulated; what no value of a parameter follows (the
//! *form*) is found from the rows of a class, by algorithm, protocol, reach, generation and band of size, or of like classes where it has
//! few. A row is scored with the forms that other clusters give. Runs whose cluster had a part in a value that their prediction asks for are
//! in-sample: their rows count not in the share, and may widen the form of their class, never narrow it.
//!
//! The forms of all rows are those of `sim-collectives/data/spread.toml`, and the table is that of `docs/intervals.md`: the test fails
//! where they are not. `UPDATE_SPREAD=1 cargo test --test intervals` writes them, after changes of timing values.

#[path = "accuracy/run.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod run;
#[path = "accuracy/score.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod score;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use fabricsim::simulate::{predict_ranged, reach};
use rayon::prelude::*;
use sim_collectives::Request;
use sim_collectives::nccl::{Element, Operation, Reduction};
use sim_collectives::spread::{self, Z90};
use sim_collectives::timing::Parameter;
use sim_core::engine::Limits;
use sim_core::units::Bytes;
use sim_report::compare::BandName;

use crate::run::{Health, Run, is_set, root};
use crate::score::BANDS;

/// Bytes times ranks of a row at most.
const MOST_WORK: u64 = 4 << 30;

/// The same of runs that have nothing smaller.
const MOST_AT_ALL: u64 = 16 << 30;

/// A class needs so many rows; with fewer, it is put together with others.
const LEAST: usize = 5;

/// What is said of a cluster by few others is less sure: a form that comes from one, two, more clusters is taken so many times.
const FEW: [f64; 3] = [2.0, 1.4, 1.1];

/// Quantile by which a form is found, and its place in a normal distribution: 80 % of rows are to be within it. The last ones are
/// left out of account, as a few of another kind would widen the interval of all.
const Q: (f64, f64) = (0.8, 1.281_551_566);

/// The least deviation of a form: below it, more rows than there are would be needed to tell.
const FLOOR: f64 = 0.02;

/// What rows have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// Algorithm/protocol.
    how: String,
    reach: String,
    generation: String,
    band: usize,
}

impl Class {
    /// A class of so many more like ones, from this one alone (0) to all of its band (6).
    fn wider(&self, level: usize) -> (Option<&str>, Option<&str>, Option<&str>, usize) {
        let recent = if matches!(self.generation.as_str(), "hopper" | "blackwell") { "recent" } else { "other" };
        let (how, reach) = (Some(self.how.as_str()), Some(self.reach.as_str()));
        match level {
            0 => (how, reach, Some(&self.generation), self.band),
            1 => (how, reach, Some(recent), self.band),
            2 => (None, reach, Some(&self.generation), self.band),
            3 => (None, reach, Some(recent), self.band),
            4 => (how, reach, None, self.band),
            5 => (None, reach, None, self.band),
            _ => (None, None, None, self.band),
        }
    }
}

struct Row {
    family: String,
    cluster: String,
    class: Class,
    /// ln(measured / predicted).
    off: f64,
    /// Deviations of parameters, paths and jitter together, downwards and upwards.
    known: (f64, f64),
    /// Its cluster had a part in a value that the prediction of some row of the run asks for.
    own: bool,
}

impl Row {
    /// Whether it is within so many deviations, with so much for the form.
    fn inside(&self, form: f64, z: f64) -> bool {
        let known = if self.off < 0.0 { self.known.0 } else { self.known.1 };
        self.off.abs() <= z * known.hypot(form)
    }
}

fn rows_of(run: &Run) -> Vec<Row> {
    let settings = score::settings(run);
    let loaded = score::load(run, &settings);
    let op: Operation = run.operation.parse().unwrap();
    let group: Vec<u32> = (0..run.ranks).collect();
    let machine = loaded.machine(&group).unwrap_or_else(|e| panic!("{}: {e}", run.id));
    let mut all = run.played();
    let least = all.iter().map(|m| m.bytes).min().unwrap_or(0);
    let most = (MOST_WORK / u64::from(run.ranks)).max(least.min(MOST_AT_ALL / u64::from(run.ranks)));
    all.retain(|m| m.bytes <= most);
    let clusters = run::clusters();
    let part = |p: &Parameter| p.runs.iter().any(|from| clusters.get(from) == Some(&run.cluster));
    let one = |measured: &run::Measured| {
        let mut request = Request::new(op, Bytes::new(measured.bytes));
        request.element = Element { datatype: score::datatype(&run.datatype), reduction: Reduction::Sum };
        let ranged = predict_ranged(&machine, None, &request, (1, 20), &Limits::default()).unwrap();
        let known = |down: bool| -> f64 {
            let counts = |name: &str| name != "form" && !(down && name.starts_with("link."));
            ranged.deviations.iter().filter(|(name, _)| counts(name)).map(|(_, d)| d * d).sum::<f64>().sqrt()
        };
        let row = &ranged.predicted.row;
        Row {
            family: run.family.clone(),
            cluster: run.cluster.clone(),
            class: Class {
                how: format!("{}/{}", row.algorithm, row.protocol),
                reach: reach(&machine).name().to_owned(),
                generation: spread::generation(machine.comm.facts().compute_cap).to_owned(),
                band: BANDS.iter().position(|b| *b == BandName::of(Bytes::new(measured.bytes))).unwrap(),
            },
            off: (measured.us / row.time_us).ln(),
            known: (known(true), known(false)),
            own: ranged.asked.iter().any(|key| part(machine.timing.parameter(*key))),
        }
    };
    let mut rows: Vec<Row> = all.par_iter().with_max_len(1).map(one).collect();
    let own = rows.iter().any(|row| row.own);
    rows.iter_mut().for_each(|row| row.own = own);
    rows
}

/// The least form with which enough rows are in.
fn least(rows: &[&Row]) -> f64 {
    let share = |form: f64| rows.iter().filter(|r| r.inside(form, Q.1)).count() as f64 / rows.len() as f64;
    // In steps of half a percent: no finer than what is known.
    let mut steps = (0..=400).map(|i| FLOOR + 0.005 * f64::from(i));
    steps.find(|form| share(*form) >= Q.0).unwrap_or(2.02)
}

/// The form of a class by these rows: of the narrowest class with enough of them, from `level` on. In-sample rows, which values were fitted
/// on, lie nearer to the model than others would: they may widen the form of their class, never narrow it.
fn form(rows: &[&Row], in_sample: &[&Row], class: &Class, level: usize) -> f64 {
    let own: Vec<&Row> = in_sample.iter().copied().filter(|r| r.class.wider(level) == class.wider(level)).collect();
    let at_least = if own.len() >= LEAST { least(&own) } else { 0.0 };
    by_held(rows, class, level).max(at_least)
}

fn by_held(rows: &[&Row], class: &Class, level: usize) -> f64 {
    for level in level..=6 {
        let own: Vec<&Row> = rows.iter().copied().filter(|r| r.class.wider(level) == class.wider(level)).collect();
        if own.len() >= LEAST {
            let clusters: BTreeSet<&str> = own.iter().map(|r| r.cluster.as_str()).collect();
            return least(&own) * FEW[clusters.len().min(FEW.len()) - 1];
        }
    }
    1.0
}

#[test]
fn ninety_percent_intervals_hold_about_ninety_percent() {
    let mut runs = run::all();
    runs.retain(|r| r.health() == Health::Healthy && (2..=64).contains(&r.ranks));
    let update = is_set("UPDATE_SPREAD");
    let rows: Vec<Row> = runs.par_iter().flat_map(rows_of).collect();
    // A program that is not nccl-tests says nothing of forms: what it does between calls is in its times.
    let (in_sample, all): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|r| !r.family.starts_with("framework")).partition(|r| r.own);
    let (mut scored, mut aside): (BTreeMap<&str, Vec<Mark>>, Vec<Mark>) = (BTreeMap::new(), Vec::new());
    let mut others: BTreeMap<(&str, &Class), f64> = BTreeMap::new();
    for row in &rows {
        let form = *others.entry((&row.cluster, &row.class)).or_insert_with(|| {
            let rest: Vec<&Row> = all.iter().copied().filter(|r| r.cluster != row.cluster).collect();
            let own: Vec<&Row> = in_sample.iter().copied().filter(|r| r.cluster != row.cluster).collect();
            form(&rest, &own, &row.class, 0)
        });
        let inside = row.inside(form, Z90);
        let mark = (row.class.band, inside, row.known.1.hypot(form));
        if row.own { aside.push(mark) } else { scored.entry(&row.family).or_default().push(mark) }
    }
    let table = table(&scored, &aside);
    println!("{table}");
    if is_set("RUNS") {
        return;
    }
    let page = root().join("docs/intervals.md");
    let old = fs::read_to_string(&page).unwrap();
    let (head, found) = old.split_once(BEGIN).expect("the page has the mark after which the table begins");
    forms(&all, &in_sample, update);
    if update {
        fs::write(&page, format!("{head}{BEGIN}{table}")).unwrap();
    }
    let (held, _) = apart(&scored);
    let share = share(&held);
    assert!(held.len() > 100 && (0.85..=0.95).contains(&share), "{:.1} % of {} rows", share * 100.0, held.len());
    assert!(update || found == table, "docs/intervals.md is old: {RENEW}\n{table}");
}

/// A scored row: band, whether it is in, its deviation.
type Mark = (usize, bool, f64);

fn share(list: &[&Mark]) -> f64 {
    list.iter().filter(|s| s.1).count() as f64 / list.len().max(1) as f64
}

/// Whether a family is one that intervals are held to: machines with NVSwitch from Ampere on, over InfiniBand or RoCE.
fn is_held(family: &str) -> bool {
    let machine = ["a100-hgx", "hopper-hgx", "b200-hgx", "gb200", "gb300"].iter().any(|part| family.contains(part));
    machine && !["efa", "tcpx"].iter().any(|part| family.contains(part))
}

/// The rows of families that are held, and of the others.
fn apart<'a>(scored: &'a BTreeMap<&str, Vec<Mark>>) -> (Vec<&'a Mark>, Vec<&'a Mark>) {
    let of = |held: bool| scored.iter().filter(|(f, _)| is_held(f) == held).flat_map(|(_, list)| list).collect();
    (of(true), of(false))
}

const RENEW: &str = "UPDATE_SPREAD=1 cargo test --test intervals";

const BEGIN: &str = "<!-- table: written by `UPDATE_SPREAD=1 cargo test --test intervals` -->\n";

fn table(scored: &BTreeMap<&str, Vec<Mark>>, in_sample: &[Mark]) -> String {
    let mut out = String::from("| family | to 64 KiB | to 64 MiB | above | all |\n|---|---|---|---|---|\n");
    let cell = |list: &[&Mark]| {
        if list.is_empty() {
            return "–".to_owned();
        }
        let inside = list.iter().filter(|s| s.1).count();
        let mut widths: Vec<f64> = list.iter().map(|s| (Z90 * s.2).exp()).collect();
        widths.sort_by(f64::total_cmp);
        format!(
            "{:.0} % of {}, ×{:.2}",
            inside as f64 / list.len() as f64 * 100.0,
            list.len(),
            widths[widths.len() / 2]
        )
    };
    let line = |out: &mut String, name: &str, list: Vec<&Mark>| {
        let of = |band: usize| cell(&list.iter().copied().filter(|s| s.0 == band).collect::<Vec<_>>());
        writeln!(out, "| {name} | {} | {} | {} | {} |", of(0), of(1), of(2), cell(&list)).unwrap();
    };
    let (held, others) = apart(scored);
    for of in [true, false] {
        for (family, list) in scored.iter().filter(|(family, _)| is_held(family) == of) {
            line(&mut out, family, list.iter().collect());
        }
        line(&mut out, if of { "**held**" } else { "**not held**" }, if of { held.clone() } else { others.clone() });
    }
    line(&mut out, "*in-sample: not counted*", in_sample.iter().collect());
    out
}

/// Holds the forms of the data against those that the rows give, or writes these.
fn forms(all: &[&Row], in_sample: &[&Row], write: bool) {
    let path = root().join("sim-collectives/data/spread.toml");
    let old = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let (head, rest) = old.split_once("[[form]]").unwrap();
    let (_, tail) = rest.split_once("# Run to run").unwrap();
    let mut classes: Vec<Class> = all.iter().chain(in_sample).map(|r| Class { band: 0, ..r.class.clone() }).collect();
    classes.sort();
    classes.dedup();
    let mut wide: Vec<Class> = classes.iter().map(|c| Class { how: "*/*".to_owned(), ..c.clone() }).collect();
    wide.extend(["network", "node", "preset"].map(|reach| {
        let any = "*".to_owned();
        Class { how: "*/*".to_owned(), reach: reach.to_owned(), generation: any, band: 0 }
    }));
    wide.dedup();
    wide.sort_by(|a, b| (&b.generation, &a.reach).cmp(&(&a.generation, &b.reach)));
    wide.dedup();
    let mut text = String::new();
    for class in classes.iter().chain(&wide) {
        let level = match (class.how.as_str(), class.generation.as_str()) {
            (_, "*") => 5,
            ("*/*", _) => 2,
            _ => 0,
        };
        let of = |band: usize| form(all, in_sample, &Class { band, ..class.clone() }, level);
        let Class { how, reach, generation, .. } = class;
        writeln!(text, "[[form]]\nclass = \"{how}\"\nreach = \"{reach}\"\ngeneration = \"{generation}\"").unwrap();
        writeln!(text, "small = {:.3}\nmid = {:.3}\nlarge = {:.3}", of(0), of(1), of(2)).unwrap();
    }
    let new = format!("{head}{text}\n# Run to run{tail}");
    if write {
        fs::write(path, new).unwrap();
    } else {
        let changed: Vec<&str> = text.split("[[form]]").filter(|form| !rest.contains(form.trim())).collect();
        assert!(new == old, "the forms of sim-collectives/data/spread.toml are old: {RENEW}{}", changed.join(""));
    }
}
