//! `[observe]`: what is recorded of packets beside the counters.

use sim_core::ids::LinkId;
use sim_core::units::Span;
use sim_topology::faults::FaultErrorKind;
use sim_topology::{DeviceId, Fabric};

use super::tree::Node;
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Time between two samples; zero: none.
    pub interval: Span,
    /// From when on depths of queues count.
    pub from: Span,
    /// Until when; `None`: to the end.
    pub to: Option<Span>,
    /// Links that are sampled; `None`: all of the network.
    pub links: Option<Vec<LinkId>>,
    /// Queue pairs that are sampled, by NICs where they begin and end; `None`: all.
    pub flows: Option<Vec<[Vec<DeviceId>; 2]>>,
    /// Results have a histogram of each queue.
    pub histogram: bool,
}

impl Observed {
    /// Whether depths of queues count for a part of the time only.
    #[must_use]
    pub const fn is_window(&self) -> bool {
        self.from.as_ps() > 0 || self.to.is_some()
    }
}

/// Reads the table; where no packets are played, it has no effect.
pub(super) fn observed(root: &View<'_>, fabric: &Fabric, packets: bool, out: &mut Diagnostics) -> Observed {
    let view = root.table_or_empty("observe");
    let Some(node) = root.node("observe").filter(|node| node.as_table().is_some_and(|t| !t.entries.is_empty())) else {
        return Observed::default();
    };
    if !packets {
        let fault = Diagnostic::new(Code::NoEffect, "`observe` has no effect");
        let label = "links are virtual here: no packet is played";
        out.push(fault.at(node.place.clone(), label).help("[transport] model = \"packets\""));
        return Observed::default();
    }
    let (from, to) = (view.time("from").unwrap_or(Span::ZERO), view.time("to"));
    if let Some(end) = to
        && end <= from
    {
        let fault = Diagnostic::new(Code::OutOfRange, "a window that ends before it begins");
        let place = view.node("to").map_or(&node.place, |n| &n.place);
        out.push(fault.at(place.clone(), format!("{end}, and `from` is {from}")));
    }
    let named = |key: &str| view.has(key).then(|| view.items(key));
    let links = named("links").map(|items| items.iter().flat_map(|item| links(item, fabric, out)).collect::<Vec<_>>());
    let links = links.map(|mut list| {
        list.sort_unstable();
        list.dedup();
        list
    });
    let flows = named("flows").map(|items| items.iter().flat_map(|item| flows(item, fabric, out)).collect());
    let interval = view.time("interval");
    if interval == Some(Span::ZERO) {
        let fault = Diagnostic::new(Code::OutOfRange, "no time between two samples");
        let place = view.node("interval").map_or(&node.place, |n| &n.place);
        out.push(
            fault
                .at(place.clone(), "more than 0 is expected")
                .help("interval = \"10 us\", or no `interval` for no samples"),
        );
    }
    if interval.is_none() {
        for key in ["links", "flows"] {
            if let Some(node) = view.node(key) {
                let fault = Diagnostic::new(Code::NoEffect, format!("`observe.{key}` has no effect"));
                let label = "without `interval` no samples are taken";
                out.push(fault.at(node.place.clone(), label).help("interval = \"10 us\""));
            }
        }
    }
    let histogram = view.boolean("histogram");
    Observed { interval: interval.unwrap_or(Span::ZERO), from, to, links, flows, histogram }
}

fn faulty(item: &Node, error: sim_topology::faults::FaultError) -> Diagnostic {
    let code = match error.kind {
        FaultErrorKind::Unknown => Code::UnknownDevice,
        _ => Code::OutOfRange,
    };
    Diagnostic::new(code, error.message).at(item.place.clone(), error.label).maybe_help(error.help)
}

/// The links of the network that a name means.
fn links(item: &Node, fabric: &Fabric, out: &mut Diagnostics) -> Vec<LinkId> {
    let Some(name) = item.as_text() else { return Vec::new() };
    if matches!(name.trim(), "all" | "*") {
        return (0..fabric.links().len()).map(LinkId::new).filter(|id| fabric.link(*id).class.is_network()).collect();
    }
    match fabric.links_named(name) {
        Ok(mut list) => {
            list.retain(|id| fabric.link(*id).class.is_network());
            if list.is_empty() {
                let fault = Diagnostic::new(Code::OutOfRange, format!("`{name}` names no link of the network"));
                out.push(fault.at(item.place.clone(), "packets are played between NICs and switches"));
            }
            list
        }
        Err(error) => {
            out.push(faulty(item, error));
            Vec::new()
        }
    }
}

/// The pairs of ends that a name means: one for `A->B`, both ways for one end alone.
fn flows(item: &Node, fabric: &Fabric, out: &mut Diagnostics) -> Vec<[Vec<DeviceId>; 2]> {
    let Some(name) = item.as_text() else { return Vec::new() };
    let all: Vec<DeviceId> = fabric.nodes().iter().flat_map(|node| node.nics.iter().copied()).collect();
    let mut end = |name: &str| match name.trim() {
        "all" | "*" => Some(all.clone()),
        name => fabric.nics_named(name).map_err(|error| out.push(faulty(item, error))).ok(),
    };
    let ends = match name.split_once("->") {
        Some((from, to)) => end(from).zip(end(to)).map(|(from, to)| vec![[from, to]]),
        None => end(name).map(|one| vec![[one.clone(), all.clone()], [all.clone(), one]]),
    };
    ends.unwrap_or_default()
}
