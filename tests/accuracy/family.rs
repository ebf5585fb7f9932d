//! Families of runs, and the figures that each is to reach.

use std::collections::BTreeMap;

use sim_core::units::Bytes;
use sim_report::compare::BandName;

use crate::run::{Health, Run};
use crate::score::{BANDS, Figures, Row, Scored};

/// The largest medians of |error| allowed, %: small, mid, large.
pub(crate) type Targets = [f64; 3];

/// What a row of the table of families is called: the family, and how far it reaches. What depends on it is apart:
/// targets, and presets of software stacks.
pub(crate) fn name(run: &Run, nodes: u32) -> String {
    match nodes {
        1 => run.family.clone(),
        2 => format!("{}, 2 nodes", run.family),
        _ => format!("{}, 3 and more nodes", run.family),
    }
}

/// Software stacks that are presets of a latency and a goodput, and programs other than nccl-tests; reported apart,
/// without a target.
pub(crate) fn is_preset(run: &Run) -> bool {
    ["efa", "-tcpx", "tcp-", "framework"].iter().any(|part| run.family.contains(part))
}

pub(crate) fn targets(run: &Run, nodes: u32) -> Targets {
    let hopper = run.family.starts_with("hopper") || run.family.starts_with("h20");
    [
        if hopper { 15.0 } else { 20.0 },
        if hopper && run.operation == "all_reduce" { 12.0 } else { 18.0 },
        if nodes <= 2 { 4.0 } else { 8.0 },
    ]
}

/// The runs of a family that are of one kind.
pub(crate) struct Family<'a> {
    pub(crate) runs: Vec<&'a Scored>,
    pub(crate) targets: Option<Targets>,
}

impl Family<'_> {
    pub(crate) fn errors(&self, band: BandName) -> Vec<f64> {
        self.runs.iter().flat_map(|s| s.errors(band)).collect()
    }

    pub(crate) fn figures(&self) -> [Option<Figures>; 3] {
        BANDS.map(|band| Figures::of(&self.errors(band)))
    }
}

/// The families of the runs of one judgement, by name. All-reduce and other operations are apart where their targets differ.
pub(crate) fn families(all: &[Scored], health: Health) -> BTreeMap<String, Family<'_>> {
    let mut out: BTreeMap<String, Family<'_>> = BTreeMap::new();
    for s in all.iter().filter(|s| s.run.health() == health && !s.rows.is_empty()) {
        let targets = (!is_preset(&s.run)).then(|| targets(&s.run, s.nodes));
        let mut name = name(&s.run, s.nodes);
        if s.run.family.starts_with("hopper") && s.run.operation != "all_reduce" {
            name = format!("{name}, {}", s.run.operation);
        }
        out.entry(name).or_insert_with(|| Family { runs: Vec::new(), targets }).runs.push(s);
    }
    out
}

/// All rows of these runs in a band.
pub(crate) fn rows<'a>(runs: impl IntoIterator<Item = &'a Scored>, band: BandName) -> Vec<&'a Row> {
    runs.into_iter().flat_map(|s| &s.rows).filter(|r| BandName::of(Bytes::new(r.measured.bytes)) == band).collect()
}
