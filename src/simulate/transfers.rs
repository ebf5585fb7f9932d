//! Point-to-point transfers.

use sim_collectives::step_graph::{Message, Node, StepGraph, Work};
use sim_core::random::mix;
use sim_core::units::{Span, Time};
use sim_report::result::TransferResult;
use sim_report::table::time_text;
use sim_topology::{DeviceKind, PathChoice};

use super::{RunError, Sum, World, bottleneck};
use crate::scenario::{Transfer, Transfers};

/// Plays the transfers of a workload at once; false if the run stopped early. Those that had arrived by then are kept.
pub(super) fn play(world: &mut World<'_>, transfers: &Transfers, sum: &mut Sum) -> Result<bool, RunError> {
    let (fabric, seed) = (&world.loaded.fabric, world.loaded.scenario.seed);
    let what = transfers.name.as_ref().map_or_else(|| "transfers".to_owned(), |name| format!("transfers `{name}`"));
    let list: Vec<Transfer> = transfers.traffic.iter().collect();
    // The hash of a flow depends on the seed as on UDP source ports; static tables know nothing of it.
    let entropy = if fabric.path_choice() == PathChoice::Hash { mix(seed) } else { 0 };
    let message = |t: &Transfer| {
        let route = fabric.route(&t.way.via.request(t.src, t.dst).entropy(entropy));
        let route =
            route.map_err(|error| RunError::unable(what.clone())(sim_collectives::PlanError::from(error).into()))?;
        // A route goes on from host memory only where data stop over in it.
        let stop =
            |(i, id): (usize, &_)| (fabric.device(fabric.link(*id).to).kind == DeviceKind::HostMemory).then_some(i + 1);
        let stops = route.links.iter().enumerate().filter_map(stop).filter(|&i| i < route.links.len()).collect();
        let buffers = t.way.staging.map(|size| (size, stops));
        let mut message = Message { buffers, ..Message::new(route.links, t.bytes, t.start) };
        if let Some(way) = t.way.via.copy_way().and_then(|name| world.loaded.catalogue.copy_way(name).ok()) {
            message.launch = way.launch;
            message.pace = if fabric.device(t.dst).kind == DeviceKind::Gpu { way.to_gpu } else { way.from_gpu };
        }
        Ok(message)
    };
    let messages = list.iter().map(message).collect::<Result<Vec<_>, RunError>>()?;
    let mut graph = StepGraph::default();
    graph.add(Node { work: Work::Transfers(messages), after: Vec::new(), start: Span::ZERO })?;
    let executed = graph.execute(world.network, fabric.mtu(), &[], world.limits()).map_err(RunError::unable(&*what))?;
    world.one_done();
    let began = list.iter().map(|t| t.start).min().map_or(Time::ZERO, |start| Time::ZERO + start);
    let complete = sum.add(&what, &executed.outcome, began, executed.wall)?;
    let mut arrived: Vec<Option<Time>> = vec![None; list.len()];
    for part in executed.nodes.iter().flat_map(|node| &node.parts) {
        if let Some(slot) = arrived.get_mut(part.index as usize) {
            *slot = Some(part.ended);
        }
    }
    let (mut bytes, mut first, mut last) = (0u128, Time::MAX, Time::ZERO);
    for (transfer, ended) in list.iter().zip(arrived) {
        let Some(ended) = ended else { continue };
        let start = Time::ZERO + transfer.start;
        let time_us = ended.since(start).as_us();
        bytes += u128::from(transfer.bytes.get());
        (first, last) = (first.min(start), last.max(ended));
        sum.transfers.push(TransferResult {
            src: fabric.device(transfer.src).name.clone(),
            dst: fabric.device(transfer.dst).name.clone(),
            bytes: transfer.bytes.get(),
            start_us: transfer.start.as_us(),
            time_us,
            rate: if time_us > 0.0 { transfer.bytes.get() as f64 / time_us / 1e3 } else { 0.0 },
        });
    }
    if bytes > 0 {
        let us = last.since(first).as_us();
        let limit = bottleneck::transfers(fabric, &executed.outcome, began);
        sum.headline = format!(
            "{what}: {} in {}, {:.1} GB/s in all. Bottleneck: {}.",
            count(list.len()),
            time_text(us),
            bytes as f64 / us.max(1e-6) / 1e3,
            bottleneck::sentence(&limit)
        );
    }
    Ok(complete)
}

fn count(n: usize) -> String {
    if n == 1 { "1 message".to_owned() } else { format!("{n} messages") }
}
