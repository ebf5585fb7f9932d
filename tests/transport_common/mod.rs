//! Scenarios whose packets are played, and their networks alone: what the engine hands over, without what is in the nodes.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod questions;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fabricsim::diagnostic::{Style, text};
use fabricsim::scenario::{Input, Loaded, Scenario, Workload};
use fabricsim::simulate::{Options, Report};
use sim_core::ids::LinkId;
use sim_core::net::spec::{FlowSpec, NetSpec};
use sim_core::net::{NetOutcome, PacketRun};
use sim_core::random::mix;
use sim_core::rate_control::RateSpec;
use sim_core::units::{Span, Time};
use sim_topology::RouteRequest;

/// A scenario from its text; fails with what is wrong with it.
pub(crate) fn load(scenario: &str) -> Loaded {
    let input = Input::Text { name: "scenario".to_owned(), text: scenario.to_owned() };
    Scenario::load(&input, &[]).unwrap_or_else(|faults| panic!("{}\n{scenario}", text(&faults, Style::Plain)))
}

/// The head of a scenario of one switch, or of 8 leaves of 8 hosts under 8 spines: one port of `gbit` a host, every link
/// 1 us, switches that store and forward.
pub(crate) fn drawn(fabric: &str, hosts: u32, gbit: u64, seed: u64) -> String {
    let kind = match fabric {
        "star" => "kind = \"single-switch\"",
        "leaf-spine" => "kind = \"leaf-spine\"\nleaves = 8\nspines = 8",
        other => panic!("no fabric `{other}`"),
    };
    format!(
        "schema = 1\nseed = {seed}\nsystem = \"hgx-h100\"\nnodes = {hosts}\ngpus_per_node = 1\nnics = \"1x{gbit}Gb/s\"\n\
         [catalogue.switch.drawn]\nasic = \"drawn\"\nfamily = \"ethernet\"\nports = 64\nport_gbit = {gbit}\nlatency_ns = 0\nforwarding = \"store-and-forward\"\n\
         [fabric]\n{kind}\nswitch = \"drawn\"\nlink_latency = \"1 us\"\n"
    )
}

/// The network of a scenario, and its transfers as flows between NICs.
pub(crate) struct Alone {
    pub(crate) loaded: Loaded,
    pub(crate) spec: NetSpec,
    flow: FlowSpec,
    rate: RateSpec,
    /// The port of each link of the network.
    ports: BTreeMap<LinkId, u32>,
}

impl Alone {
    pub(crate) fn of(scenario: &str) -> Self {
        let loaded = load(scenario);
        let network = loaded.network();
        let plan = network.packets().unwrap_or_else(|| panic!("no packets are played\n{scenario}")).clone();
        let ports = plan.links.iter().enumerate().map(|(at, link)| (*link, at as u32)).collect();
        Self { loaded, spec: plan.spec, flow: plan.flow, rate: plan.rate, ports }
    }

    /// The ports of all transfers' static routes, and their bytes.
    fn list(&self) -> Vec<(Vec<u32>, u64)> {
        let entropy = mix(self.loaded.scenario.seed);
        let mut out = Vec::new();
        for workload in &self.loaded.scenario.workloads {
            let Workload::Transfer(transfers) = workload else { panic!("transfers alone") };
            for transfer in transfers.traffic.iter() {
                let request = RouteRequest::auto(transfer.src, transfer.dst).entropy(entropy);
                let links = self.loaded.fabric.route(&request).expect("a route").links;
                let route: Vec<u32> = links.iter().filter_map(|link| self.ports.get(link).copied()).collect();
                // What stays inside a node is no part of the network.
                if !route.is_empty() {
                    out.push((route, transfer.bytes.get()));
                }
            }
        }
        out
    }

    /// The run and the queue pairs of all transfers; nothing is posted. Bytes of each.
    pub(crate) fn open(&self) -> (PacketRun, Vec<u64>) {
        let mut run = PacketRun::new(self.spec.clone()).expect("a sound network");
        let list = self.list();
        for (route, _) in &list {
            let back: Vec<u32> = route.iter().rev().map(|port| self.spec.ports[*port as usize].twin).collect();
            let line = self.spec.ports[route[0] as usize].rate;
            run.open(route, &back, self.flow, self.rate.at(line, route.len() as u8)).expect("a sound flow");
        }
        (run, list.into_iter().map(|(_, bytes)| bytes).collect())
    }

    /// Plays all transfers from time 0 to the end.
    pub(crate) fn play(&self) -> NetOutcome {
        let (mut run, bytes) = self.open();
        bytes.iter().enumerate().for_each(|(qp, bytes)| run.post(qp as u32, *bytes));
        assert!(!run.run(Time::MAX), "it ends");
        let outcome = run.outcome();
        assert_eq!(outcome.packets_left, 0);
        outcome
    }
}

impl Alone {
    /// Plays all transfers between two instants; each one's payload and headers then as a share of `gbit`.
    pub(crate) fn shares(&self, gbit: f64, from: Span, to: Span) -> (Vec<f64>, NetOutcome) {
        let (mut run, bytes) = self.open();
        bytes.iter().enumerate().for_each(|(qp, bytes)| run.post(qp as u32, *bytes));
        assert!(run.run(Time::ZERO + from), "it goes on");
        let before = run.outcome().flows;
        assert!(run.run(Time::ZERO + to), "it goes on");
        let outcome = run.outcome();
        let packet = f64::from(self.spec.mtu + self.spec.overhead) * 8.0 / (to - from).as_ns() / gbit;
        let shares =
            outcome.flows.iter().zip(before).map(|(after, before)| (after.arrived - before.arrived) as f64 * packet);
        (shares.collect(), outcome)
    }

    /// The port of the link between two devices by their names.
    pub(crate) fn port(&self, from: &str, to: &str) -> usize {
        let fabric = &self.loaded.fabric;
        let [from, to] = [from, to].map(|name| fabric.find(name).expect("a known device"));
        let link = |(link, port): (&LinkId, &u32)| {
            let link = fabric.link(*link);
            (link.from == from && link.to == to).then_some(*port as usize)
        };
        self.ports.iter().find_map(link).expect("a link")
    }

    /// What the link of a port is called.
    pub(crate) fn name(&self, port: u32) -> String {
        let link = self.ports.iter().find(|(_, of)| **of == port).expect("a port").0;
        self.loaded.fabric.link_name(*link)
    }

    /// The ports of each transfer's static route.
    pub(crate) fn routes(&self) -> Vec<Vec<u32>> {
        self.list().into_iter().map(|(route, _)| route).collect()
    }
}

/// Completion times at the senders in us, sorted.
pub(crate) fn acked_us(outcome: &NetOutcome) -> Vec<f64> {
    let mut times: Vec<f64> = outcome.flows.iter().map(|flow| flow.acked_at.as_us()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Holds a page's part, between `<!-- part -->` and `<!-- end of part -->`, to `now`; with `UPDATE_DOCS=1` writes it.
pub(crate) fn page(page: &str, part: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let whole = fs::read_to_string(&path).expect("the page");
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- end of {part} -->"));
    let from = whole.find(&begin).unwrap_or_else(|| panic!("{page} has no `{begin}`")) + begin.len();
    let to = whole.find(&end).unwrap_or_else(|| panic!("{page} has no `{end}`"));
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty()) {
        fs::write(&path, format!("{}{now}{}", &whole[..from], &whole[to..])).expect("it can be written");
    } else {
        assert!(whole[from..to] == *now, "{page} is old: UPDATE_DOCS=1 and the same test");
    }
}

/// Plays a scenario whole; with all its links and transfers.
pub(crate) fn run(scenario: &str) -> (Loaded, Report) {
    let loaded = load(scenario);
    let options = Options { keep_all: true, ..Options::default() };
    let report = loaded.run_with(&options).unwrap_or_else(|e| panic!("{e}\n{scenario}"));
    assert!(report.stopped.is_none(), "{}\n{scenario}", report.stopped_at);
    (loaded, report)
}

/// A list of transfers between nodes.
pub(crate) fn transfers(pairs: &[(u32, u32)], bytes: &str) -> String {
    let one = |(src, dst): &(u32, u32)| {
        format!("{{ src = \"node{src}.gpu0\", dst = \"node{dst}.gpu0\", bytes = \"{bytes}\" }}")
    };
    let list: Vec<String> = pairs.iter().map(one).collect();
    format!("[[workload]]\nkind = \"transfer\"\nlist = [\n{}\n]\n", list.join(",\n"))
}
