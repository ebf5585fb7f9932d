//! Cases that public packet-level simulators were run for, played here: `tests/data/peers.toml` has their figures, and
//! `docs/peers.md` shows both.
//!
//! - `cargo test --test transport_peers` holds what plays in a minute.
//! - `cargo test --release --test transport_peers -- --ignored` the rest.
//! - With `UPDATE_DOCS=1` each writes its tables of the page.

mod transport_common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rayon::prelude::*;
use serde::Deserialize;
use sim_core::net::spec::{FlowSpec, NetSpec, PortSpec};
use sim_core::net::{Effect, NetOutcome, PacketRun};
use sim_core::network::Forwarding;
use sim_core::rate_control::AnyRateControl;
use sim_core::units::{Rate, Span, Time};

use transport_common::{Alone, acked_us, drawn};

const DATA: &str = include_str!("data/peers.toml");
const PAGE: &str = "docs/peers.md";
/// Of completion times; of queues, pauses and marks.
const TIMES: f64 = 0.05;
const QUEUES: f64 = 0.15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    simulator: Vec<Simulator>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Simulator {
    name: String,
    title: String,
    source: String,
    counted: String,
    marked: Option<String>,
    #[serde(default)]
    note: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    simulator: String,
    fabric: String,
    workload: String,
    hosts: u32,
    #[serde(default)]
    flows: u32,
    /// Hosts that send, where they have several flows.
    senders: Option<u32>,
    bytes: u64,
    gbit: u64,
    preset: Option<String>,
    #[serde(default)]
    transport: String,
    #[serde(default = "one")]
    seeds: u64,
    #[serde(default)]
    sign: bool,
    #[serde(default)]
    long: bool,
    #[serde(default)]
    differs: BTreeMap<String, String>,
    listed: Option<String>,
    figures: BTreeMap<String, f64>,
}

const fn one() -> u64 {
    1
}

fn data() -> File {
    toml::from_str(DATA).expect("the cases are sound")
}

type Figures = BTreeMap<&'static str, f64>;

impl Case {
    fn scenario(&self, seed: u64) -> String {
        let workload = match self.workload.as_str() {
            "incast" => format!("pattern = \"incast\"\nranks = {}\n", self.flows + 1),
            "permutation" => "pattern = \"permutation\"\n".to_owned(),
            "all-to-all" => "pattern = \"all_to_all\"\n".to_owned(),
            "ring" => "pattern = \"shift\"\nshift = 1\n".to_owned(),
            "endless-incast" => {
                let senders = self.senders.unwrap_or(self.flows);
                let list = (0..self.flows).map(|flow| {
                    let (src, bytes) = (1 + flow % senders, self.bytes);
                    format!("{{ src = \"node{src}.gpu0\", dst = \"node0.gpu0\", bytes = \"{bytes} B\" }}")
                });
                let list: Vec<String> = list.collect();
                return self.head(seed) + &format!("[[workload]]\nkind = \"transfer\"\nlist = [{}]\n", list.join(", "));
            }
            other => panic!("no workload `{other}`"),
        };
        self.head(seed) + &format!("[[workload]]\nkind = \"transfer\"\n{workload}size = \"{} B\"\n", self.bytes)
    }

    fn head(&self, seed: u64) -> String {
        let preset = self.preset.as_deref().expect("it is played");
        let head = drawn(&self.fabric, self.hosts, self.gbit, seed);
        format!("{head}[transport]\npreset = \"{preset}\"\n{}\n", self.transport)
    }

    fn play(&self, by: &Simulator, seed: u64) -> Figures {
        match (self.workload.as_str(), self.simulator.as_str()) {
            ("ring", "loggopsim") => self.messages(),
            ("ring", _) => self.ring(by, seed),
            ("endless-incast", _) => self.endless(seed),
            _ => {
                let alone = Alone::of(&self.scenario(seed));
                self.figures(by, &alone, &alone.play())
            }
        }
    }

    fn figures(&self, by: &Simulator, alone: &Alone, outcome: &NetOutcome) -> Figures {
        let times = acked_us(outcome);
        let n = times.len();
        let sent: u64 = outcome.flows.iter().map(|flow| flow.arrived).sum();
        let egress = outcome.ports.iter().flatten().map(|port| port.peak).max();
        let hops = outcome.totals.data_hops - if by.counted == "switches" { sent } else { 0 };
        let again = by.marked.as_deref() == Some("leaving");
        let marks = outcome
            .ports
            .iter()
            .zip(&alone.spec.ports)
            .map(|(counters, port)| counters[0].marks * if again { switches_from(&alone.spec, port) } else { 1 });
        assert_eq!(outcome.totals.drops, 0, "{}", self.id);
        BTreeMap::from([
            ("p50_us", times[n / 2]),
            ("p99_us", times[(n * 99).div_ceil(100) - 1]),
            ("max_us", times[n - 1]),
            ("egress", egress.unwrap_or(0) as f64),
            ("ingress", outcome.input_peak as f64),
            ("pauses", outcome.totals.pauses as f64),
            ("marks", marks.sum::<u64>() as f64),
            ("hops", hops as f64),
        ])
    }

    /// Ring all-reduce: 2 (n - 1) messages from each host to the next, each after the one before has come to the sender and
    /// been acknowledged.
    fn ring(&self, by: &Simulator, seed: u64) -> Figures {
        let alone = Alone::of(&self.scenario(seed));
        let (mut run, bytes) = alone.open();
        let hosts = bytes.len();
        let steps = 2 * (hosts - 1);
        let mut posted = vec![1; hosts];
        let mut times = Vec::with_capacity(hosts * steps);
        (0..hosts).for_each(|host| run.post(host as u32, self.bytes));
        run.run_with(Time::MAX, |run, effect| {
            if let Effect::Acknowledged { qp, at } = effect {
                times.push(at.as_us());
                let next = (qp as usize + 1) % hosts;
                if posted[next] < steps {
                    posted[next] += 1;
                    run.post(next as u32, self.bytes);
                }
            }
        });
        assert_eq!(times.len(), hosts * steps);
        times.sort_by(f64::total_cmp);
        let mut figures = self.figures(by, &alone, &run.outcome());
        let n = times.len();
        figures.insert("p50_us", times[n / 2]);
        figures.insert("p99_us", times[(n * 99).div_ceil(100) - 1]);
        figures
    }

    /// The same of whole messages that nothing delays but a latency of 1 us, and overheads of 0.5 us on both sides.
    fn messages(&self) -> Figures {
        let overheads = if self.id.contains("o500ns") { 1_000 } else { 0 };
        let n = self.hosts;
        // One packet a message, from each host to the next.
        let port = |link: u32| {
            let (host, back) = (link / 2, link % 2 == 1);
            let next = (host + 1) % n;
            let (near, far) = if back { (next, host) } else { (host, next) };
            PortSpec {
                rate: Rate::gbit(self.gbit),
                latency: Span::from_ns(1_000 + overheads),
                near,
                far,
                twin: link ^ 1,
                forwarding: Forwarding::StoreAndForward,
                lose_every: 0,
                lose_per_2_32: 0,
            }
        };
        let spec = NetSpec {
            mtu: self.bytes as u32,
            overhead: 0,
            control_size: 1,
            endpoints: vec![true; n as usize],
            ports: (0..2 * n).map(port).collect(),
            stall_check: Span::from_us(1_000_000),
            ..NetSpec::default()
        };
        let mut run: PacketRun = PacketRun::new(spec).expect("a sound network");
        for host in 0..n {
            let (route, back) = ([2 * host], [2 * host + 1]);
            let qp = run.open(&route, &back, FlowSpec::default(), AnyRateControl::default()).expect("a sound flow");
            run.post(qp, self.bytes);
        }
        let steps = 2 * (n - 1);
        let (mut posted, mut last) = (vec![1; n as usize], 0.0f64);
        run.run_with(Time::MAX, |run, effect| {
            if let Effect::Delivered { qp, at } = effect {
                last = last.max(at.as_us());
                let next = (qp + 1) % n;
                if posted[next as usize] < steps {
                    posted[next as usize] += 1;
                    run.post(next, self.bytes);
                }
            }
        });
        BTreeMap::from([("makespan_us", last)])
    }

    /// The queue before the receiver from 30 to 80 ms, sampled each microsecond, and its peak to 90 ms.
    fn endless(&self, seed: u64) -> Figures {
        let alone = Alone::of(&self.scenario(seed));
        let receiver = alone.loaded.fabric.nodes()[0].nics[0];
        let places = alone.loaded.fabric.places().expect("whole cables");
        let port =
            places.links.iter().position(|place| places.devices[place.far as usize] == receiver).expect("a port");
        let (mut run, bytes) = alone.open();
        bytes.iter().enumerate().for_each(|(qp, bytes)| run.post(qp as u32, *bytes));
        let at = |us: u64| Time::from_ps(us * 1_000_000);
        let mut depths = Vec::with_capacity(50_000);
        run.run(at(30_000));
        let mut before = run.outcome().ports[port][0].byte_ns;
        for us in 30_001..=80_000 {
            run.run(at(us));
            let now = run.outcome().ports[port][0].byte_ns;
            depths.push((now - before) as f64 / 1e3);
            before = now;
        }
        run.run(at(90_000));
        let outcome = run.outcome();
        let mean = depths.iter().sum::<f64>() / depths.len() as f64;
        depths.sort_by(f64::total_cmp);
        BTreeMap::from([
            ("mean_kb", mean / 1e3),
            ("p95_kb", depths[depths.len() * 95 / 100] / 1e3),
            ("egress", outcome.ports[port][0].peak as f64),
            ("pauses", outcome.totals.pauses as f64),
        ])
    }
}

/// From a port of a leaf-spine or star, how many switches a packet leaves until it is at its host: the port's own included.
fn switches_from(spec: &NetSpec, port: &PortSpec) -> u64 {
    let endpoint = |node: u32| spec.endpoints[node as usize];
    let leaf = |node: u32| spec.ports.iter().any(|p| p.near == node && endpoint(p.far));
    match () {
        () if endpoint(port.near) => 0,
        () if endpoint(port.far) => 1,
        () if leaf(port.far) => 2,
        () => 3,
    }
}

/// How far a figure may be off.
fn tolerance(figure: &str) -> f64 {
    match figure {
        "hops" => 0.0,
        "makespan_us" => 0.001,
        _ if figure.ends_with("_us") => TIMES,
        _ => QUEUES,
    }
}

/// A figure of a case, played.
struct Row {
    figure: String,
    known: f64,
    /// Of all seeds, sorted.
    got: Vec<f64>,
    holds: bool,
}

impl Row {
    fn median(&self) -> f64 {
        self.got[self.got.len() / 2]
    }

    /// By how much the median is above what is known.
    fn error(&self) -> f64 {
        if self.known == 0.0 { 0.0 } else { self.median() / self.known - 1.0 }
    }
}

fn rows(case: &Case, by: &Simulator) -> Vec<Row> {
    let asked = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let played: Vec<Figures> =
        (1..=asked.unwrap_or(case.seeds)).into_par_iter().map(|seed| case.play(by, seed)).collect();
    let figures = case.figures.iter().map(|(figure, known)| {
        let mut got: Vec<f64> = played.iter().map(|played| played[figure.as_str()]).collect();
        got.sort_by(f64::total_cmp);
        let tolerance = tolerance(figure);
        let holds = got[0] * (1.0 - tolerance) <= *known && *known <= got[got.len() - 1] * (1.0 + tolerance);
        Row { figure: figure.clone(), known: *known, got, holds }
    });
    // Which hosts of a permutation share a leaf is drawn.
    figures.filter(|row| row.figure != "hops" || case.workload != "permutation").collect()
}

type Played = Vec<(Case, Vec<Row>)>;

/// Plays cases and prints them; `CASES=word` only those with the word in their names, `SEEDS=n` so many seeds of them.
fn play(file: &File, long: bool) -> Played {
    let word = std::env::var("CASES").unwrap_or_default();
    let asked = |case: &&Case| case.listed.is_none() && case.long == long && case.id.contains(&word);
    let cases: Vec<&Case> = file.case.iter().filter(asked).collect();
    let played: Played = cases
        .into_par_iter()
        .map(|case| {
            let begun = std::time::Instant::now();
            let by = file.simulator.iter().find(|s| s.name == case.simulator).expect("a known simulator");
            let rows = rows(case, by);
            println!("{:6.1} s  {}", begun.elapsed().as_secs_f64(), case.id);
            (case.clone(), rows)
        })
        .collect();
    for (case, rows) in &played {
        println!("{}", case.id);
        for row in rows {
            let (figure, known, median, error) = (&row.figure, row.known, row.median(), row.error() * 100.0);
            let (least, most) = (row.got[0], row.got[row.got.len() - 1]);
            let verdict = if row.holds { "" } else { "beyond" };
            println!("    {figure:12} {known:12.1} {median:12.1} {least:12.1} to {most:12.1} {error:+7.1} % {verdict}");
        }
    }
    played
}

/// Whether rate control moves a figure of `case` the way it does in the reference, against the same case without.
fn signs(case: &Case, rows: &[Row], all: &Played, faults: &mut Vec<String>) {
    let without = case.id.replace("/dcqcn/", "/pfc/");
    let Some((_, plain)) = all.iter().find(|(other, _)| other.id == without) else { return };
    for figure in ["max_us", "pauses"] {
        let find = |rows: &[Row]| rows.iter().position(|row| row.figure == figure);
        let (Some(with), Some(plain)) = (find(rows).map(|i| &rows[i]), find(plain).map(|i| &plain[i])) else {
            continue;
        };
        let (reference, here) = (with.known / plain.known - 1.0, with.median() / plain.median() - 1.0);
        // A little more or less says nothing.
        if reference.abs() > QUEUES && reference * here <= 0.0 {
            faults.push(format!("{}: {figure} moves by {here:+.2}, in the reference by {reference:+.2}", case.id));
        }
    }
}

fn check(all: &Played) {
    let mut faults = Vec::new();
    for (case, rows) in all {
        if case.sign {
            signs(case, rows, all, &mut faults);
            continue;
        }
        for row in rows.iter().filter(|row| !row.holds && !case.differs.contains_key(&row.figure)) {
            faults.push(format!("{}: {} is {}, not {}", case.id, row.figure, row.median(), row.known));
        }
        for figure in case.differs.keys() {
            assert!(rows.iter().any(|row| row.figure == *figure && !row.holds), "{}: {figure} doesn't differ", case.id);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Columns of the page: figures, heading, what a unit is, digits.
const COLUMNS: &[(&[&str], &str, f64, usize)] = &[
    (&["p50_us"], "median, us", 1.0, 1),
    (&["max_us", "makespan_us"], "last, us", 1.0, 1),
    (&["egress"], "egress, KB", 1e3, 1),
    (&["mean_kb"], "mean queue, KB", 1.0, 1),
    (&["p95_kb"], "p95 queue, KB", 1.0, 1),
    (&["ingress"], "input, KB", 1e3, 1),
    (&["pauses"], "pauses", 1.0, 0),
    (&["marks"], "marks", 1.0, 0),
];

fn table(file: &File, all: &Played) -> String {
    let mut out = String::new();
    for by in &file.simulator {
        let own: Vec<_> = all.iter().filter(|(case, _)| case.simulator == by.name).collect();
        let find =
            |rows: &'_ [Row], figures: &[&str]| rows.iter().position(|row| figures.contains(&row.figure.as_str()));
        let columns: Vec<_> =
            COLUMNS.iter().filter(|column| own.iter().any(|(_, rows)| find(rows, column.0).is_some())).collect();
        if own.is_empty() {
            continue;
        }
        let _ = writeln!(out, "### {} ({})\n\n{}\n", by.name, by.title, by.note);
        let heads: Vec<&str> = columns.iter().map(|column| column.1).collect();
        let _ = writeln!(out, "| case | {} | |\n|---|{}---|", heads.join(" | "), "---|".repeat(heads.len()));
        for (case, rows) in own {
            let cell = |column: &&&(&[&str], &str, f64, usize)| {
                let (figures, _, unit, digits) = **column;
                let Some(row) = find(rows, figures).map(|at| &rows[at]) else { return String::new() };
                let show = |value: f64| format!("{:.digits$}", value / unit);
                let range = if case.seeds > 1 {
                    format!(" [{} to {}]", show(row.got[0]), show(row.got[row.got.len() - 1]))
                } else {
                    String::new()
                };
                let error = if row.known == 0.0 { String::new() } else { format!(" ({:+.1} %)", row.error() * 100.0) };
                format!("{} / {}{range}{error}", show(row.known), show(row.median()))
            };
            let cells: Vec<String> = columns.iter().map(|column| cell(&column)).collect();
            let name = case.id.split_once('/').map_or(case.id.as_str(), |(_, name)| name);
            let seeds = if case.seeds > 1 { format!("{} seeds", case.seeds) } else { String::new() };
            let sign = if case.sign { "sign alone".to_owned() } else { String::new() };
            let differs = case.differs.iter().map(|(figure, why)| format!("{figure}: {why}"));
            let said: Vec<String> = [seeds, sign].into_iter().chain(differs).filter(|s| !s.is_empty()).collect();
            let _ = writeln!(out, "| {name} | {} | {} |", cells.join(" | "), said.join("; "));
        }
        out.push('\n');
    }
    out
}

/// Holds the page's part of this name to `now`, or writes it; not where cases were chosen.
fn page(part: &str, now: &str) {
    if ["CASES", "SEEDS"].iter().all(|name| std::env::var_os(name).is_none()) {
        transport_common::page(PAGE, part, now);
    }
}

#[test]
fn every_case_is_played_or_says_why_not() {
    let file = data();
    assert_eq!(file.case.len(), 79);
    let ids: BTreeSet<&str> = file.case.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), 79);
    let mut listed = "| case | because |\n|---|---|\n".to_owned();
    for case in &file.case {
        assert!(case.preset.is_some() != case.listed.is_some(), "{}", case.id);
        assert!(case.listed.is_some() || !case.figures.is_empty(), "{}", case.id);
        assert!(file.simulator.iter().any(|by| by.name == case.simulator && !by.source.is_empty()), "{}", case.id);
        if let Some(why) = &case.listed {
            let _ = writeln!(listed, "| {} | {why} |", case.id);
        }
    }
    page("listed", &listed);
}

#[test]
fn figures_are_those_of_other_simulators() {
    let file = data();
    let all = play(&file, false);
    page("short", &table(&file, &all));
    check(&all);
}

#[test]
#[ignore = "minutes"]
fn figures_of_long_cases_are_those_of_other_simulators() {
    let file = data();
    let all = play(&file, true);
    page("long", &table(&file, &all));
    check(&all);
}
