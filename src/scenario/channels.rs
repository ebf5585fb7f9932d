//! `[software.channels]`: the channels of a graph file or log in place of the modelled search.

use sim_collectives::nccl::{GivenChannels, GivenGraph, Pattern};

use super::tree::{Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Channels as they are given, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Channels {
    /// The file that they were read from, for the report.
    pub source: Option<String>,
    /// The channels.
    pub given: GivenChannels,
}

/// The table of channels, if there is one.
pub(super) fn channels(software: &View<'_>, out: &mut Diagnostics) -> Option<Channels> {
    let view = software.table("channels")?;
    let graph = |key: &str| view.table(key).map(|g| graph(&g));
    let mut orders = Vec::new();
    for node in view.items("orders") {
        let members: Vec<u32> = node.as_array().unwrap_or_default().iter().filter_map(integer).collect();
        let mut sorted = members.clone();
        sorted.sort_unstable();
        if members.is_empty() || sorted.iter().enumerate().any(|(i, &m)| i as u32 != m) {
            let fault = Diagnostic::new(Code::OutOfRange, "a ring that does not pass each GPU once");
            out.push(fault.at(node.place.clone(), "0 to the number of GPUs less one are due, each once"));
        }
        orders.push(members);
    }
    let given = GivenChannels {
        count: view.integer("count"),
        ring: graph("ring"),
        tree: graph("tree"),
        nvls: graph("nvls"),
        orders,
    };
    Some(Channels { source: view.text("source").map(str::to_owned), given })
}

fn integer(node: &Node) -> Option<u32> {
    match node.value {
        Value::Integer(Some(value)) => u32::try_from(value).ok(),
        _ => None,
    }
}

fn graph(view: &View<'_>) -> GivenGraph {
    let gbyte = |key: &str| view.rate(key).map(|rate| rate.as_gbyte());
    let class = |key: &str| view.choice(key).and_then(|word| word.parse().ok());
    GivenGraph {
        channels: view.integer("channels"),
        bw_intra: gbyte("bw_intra"),
        bw_inter: gbyte("bw_inter"),
        type_intra: class("type_intra"),
        type_inter: class("type_inter"),
        pattern: view.integer("pattern").and_then(|n: u32| match n {
            1 => Some(Pattern::BalancedTree),
            2 => Some(Pattern::SplitTree),
            3 => Some(Pattern::Tree),
            4 => Some(Pattern::Ring),
            5 => Some(Pattern::Nvls),
            6 => Some(Pattern::CollNetDirect),
            _ => None,
        }),
        cross_nic: view.node("cross_nic").map(|_| view.boolean("cross_nic")),
    }
}
