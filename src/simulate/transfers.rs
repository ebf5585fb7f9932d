//! Point-to-point transfers.

use std::collections::BTreeMap;

use sim_collectives::step_graph::{Message, Node, StepGraph, Work};
use sim_core::outcome::Outcome;
use sim_core::random::mix;
use sim_core::units::{Bytes, Rate, Span, Time};
use sim_report::result::TransferResult;
use sim_report::table::time_text;
use sim_topology::{DeviceId, DeviceKind, Fabric, PathChoice};
use sim_workload::serving::cache_transfer::waits;

use super::bottleneck::Last;
use super::{RunError, Sum, World, bottleneck};
use crate::scenario::{Loaded, Transfer, Transfers};

/// Plays the transfers of workloads at once; false if the run stopped early. Those that had arrived by then are kept.
pub(super) fn play(world: &mut World<'_>, all: &[&Transfers], sum: &mut Sum) -> Result<bool, RunError> {
    let fabric = &world.loaded.fabric;
    let named = |one: &&Transfers| {
        one.name.as_ref().map_or_else(|| "transfers".to_owned(), |name| format!("transfers `{name}`"))
    };
    let what = all.iter().map(named).collect::<Vec<_>>().join(" with ");
    let list: Vec<Transfer> = all.iter().flat_map(|one| one.traffic.iter()).collect();
    // Which workload each is of.
    let workloads = all.iter().enumerate().flat_map(|(at, one)| core::iter::repeat_n(at, one.traffic.len()));
    let Messages { messages, owners, copied_us, queued } = messages(world.loaded, &what, &list)?;
    let mut graph = StepGraph::default();
    graph.add(Node { work: Work::Transfers(messages.clone()), after: Vec::new(), start: Span::ZERO })?;
    let executed = graph.execute(world.network, fabric.mtu(), &[], world.limits()).map_err(RunError::unable(&*what))?;
    world.one_done();
    let began = list.iter().map(|t| t.start).min().map_or(Time::ZERO, |start| Time::ZERO + start);
    let complete = sum.add(&what, world.loaded, &executed.outcome, began, executed.wall)?;
    // A transfer has arrived when all its parts have.
    let mut left = vec![0u32; list.len()];
    owners.iter().for_each(|&owner| left[owner] += 1);
    let mut latest = vec![Time::ZERO; list.len()];
    for part in executed.nodes.iter().flat_map(|node| &node.parts) {
        if let Some(&owner) = owners.get(part.index as usize) {
            latest[owner] = latest[owner].max(part.ended);
            left[owner] = left[owner].saturating_sub(1);
        }
    }
    let told = told(fabric, &messages, &owners, list.len(), &executed.outcome);
    let arrived = latest.iter().zip(&left).map(|(&ended, &left)| (left == 0).then_some(ended));
    let (mut bytes, mut first, mut last) = (0u128, Time::MAX, Time::ZERO);
    let mut times_us: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
    for (((transfer, workload), ended), told) in list.iter().zip(workloads).zip(arrived).zip(told) {
        let Some(ended) = ended else { continue };
        let start = Time::ZERO + transfer.start;
        let time_us = ended.since(start).as_us();
        times_us[workload].push(time_us);
        bytes += u128::from(transfer.bytes.get());
        (first, last) = (first.min(start), last.max(ended));
        sum.transfers.push(TransferResult {
            src: fabric.device(transfer.src).name.clone(),
            dst: fabric.device(transfer.dst).name.clone(),
            bytes: transfer.bytes.get(),
            start_us: transfer.start.as_us(),
            time_us,
            rate: if time_us > 0.0 { transfer.bytes.get() as f64 / time_us / 1e3 } else { 0.0 },
            acked_us: told.and_then(|told| told.acked).map(|acked| acked.since(start.min(acked)).as_us()),
            retransmitted: told.map(|told| told.resent),
            marked: told.map(|told| told.marked),
            workload: if all.len() > 1 { all[workload].name.clone() } else { None },
        });
    }
    let done: usize = times_us.iter().map(Vec::len).sum();
    for mut times in times_us {
        times.sort_by(f64::total_cmp);
        sum.slowest_us.push(times.last().copied().unwrap_or_default());
        sum.median_us.push(times.get(times.len().div_ceil(2).saturating_sub(1)).copied().unwrap_or_default());
    }
    if !complete {
        // A rate over what happened to be there by then would say nothing about the whole.
        sum.stragglers = None;
        let ended = executed.outcome.ended;
        let after = ended.since(began.min(ended));
        sum.headline_us = 0.0;
        sum.headline = format!("{what}: {done} of {}, stopped at {}.", count(list.len()), time_text(after.as_us()));
    } else if bytes > 0 {
        let us = last.since(first).as_us();
        let ends = executed.nodes.iter().flat_map(|node| &node.parts).map(|part| (part.index, part.ended));
        let late = last_ones(fabric, &messages, ends, &executed.outcome, began);
        let mut limit = bottleneck::transfers(fabric, world.network, &executed.outcome, began, &late);
        // A processor that copies by itself is slower than any link.
        if limit == "latency" && copied_us > us / 2.0 {
            "the CPU's copy rate".clone_into(&mut limit);
        }
        if let Some((nic, span)) = queued.filter(|(_, span)| limit == "latency" && span.as_us() > us / 2.0) {
            let percent = (span.as_us() / us * 100.0).min(100.0);
            limit = format!("the queue of {}, busy {percent:.0} % of the time", fabric.device(nic).name);
        }
        sum.stragglers = None;
        sum.headline_us = us;
        sum.headline = format!(
            "{what}: {} in {}, {:.1} GB/s in all. Bottleneck: {}.{}{}",
            count(list.len()),
            time_text(us),
            bytes as f64 / us.max(1e-6) / 1e3,
            bottleneck::sentence(fabric, world.loaded.packets.is_some(), &limit),
            bottleneck::held(fabric, &executed.outcome),
            bottleneck::late(fabric, list.iter().map(|t| starter(fabric, t)))
        );
    }
    Ok(complete)
}

/// What transfers put on links.
pub(super) struct Messages {
    pub(super) messages: Vec<Message>,
    /// Which transfer each message is of.
    owners: Vec<usize>,
    /// The longest time that a processor copies.
    copied_us: f64,
    /// The NIC whose queue software feeds for longest, and for how long.
    queued: Option<(DeviceId, Span)>,
}

/// The messages of transfers, called `what`.
pub(super) fn messages(loaded: &Loaded, what: &str, list: &[Transfer]) -> Result<Messages, RunError> {
    let (fabric, seed) = (&loaded.fabric, loaded.scenario.seed);
    // The hash of a flow depends on the seed as on UDP source ports; static tables know nothing of it.
    let entropy = if fabric.path_choice() == PathChoice::Hash { mix(seed) } else { 0 };
    let ports = |t: &Transfer| {
        let qps = t.way.qps.map_or(loaded.scenario.qps, u32::from);
        u64::from(fabric.ports_per_nic().max(1)) * u64::from(qps)
    };
    let message = |t: &Transfer, part: u64, bytes: Bytes| {
        let ports = ports(t);
        let request = t.way.request(t.src, t.dst).entropy(entropy.wrapping_mul(ports).wrapping_add(part));
        let route = fabric.route(&request);
        let route = route.map_err(|error| RunError::unable(what)(sim_collectives::PlanError::from(error).into()))?;
        // A route goes on from host memory only where data stop over in it.
        let stop =
            |(i, id): (usize, &_)| (fabric.device(fabric.link(*id).to).kind == DeviceKind::HostMemory).then_some(i + 1);
        let stops = route.links.iter().enumerate().filter_map(stop).filter(|&i| i < route.links.len()).collect();
        let buffers = t.way.staging.map(|size| (size, stops));
        let late = fabric.slowness_of(starter(fabric, t)).map_or(Span::ZERO, |slow| slow.delay);
        let mut message = Message { buffers, way: t.way.packets, ..Message::new(route.links, bytes, t.start + late) };
        message.launch = t.way.launch;
        message.pace = t.way.pace;
        if let Some(way) = t.way.via.copy_way().and_then(|name| loaded.catalogue.copy_way(name).ok()) {
            message.launch = way.launch;
            message.pace = if fabric.device(t.dst).kind == DeviceKind::Gpu { way.to_gpu } else { way.from_gpu };
        }
        Ok::<_, RunError>(message)
    };
    // What software posts to the queue of a NIC waits for what was posted to it before, whoever it is of.
    let posts = list.iter().map(|t| {
        let queue = t.way.nics.zip(t.way.pace);
        (t.start, queue.map(|((nic, _), pace)| (nic, pace.time_for(t.bytes))))
    });
    let waits = waits(&posts.collect::<Vec<_>>());
    let mut messages = Vec::with_capacity(list.len());
    let mut owners = Vec::with_capacity(list.len());
    let mut copied_us = 0.0f64;
    let mut queued: BTreeMap<DeviceId, Span> = BTreeMap::new();
    for (owner, t) in list.iter().enumerate() {
        let mut whole = message(t, 0, t.bytes)?;
        if let Some(((nic, _), pace)) = t.way.nics.zip(t.way.pace) {
            *queued.entry(nic).or_default() += pace.time_for(t.bytes);
        }
        copied_us = whole
            .pace
            .filter(|_| t.way.pace.is_none())
            .map_or(copied_us, |pace| copied_us.max(t.bytes.get() as f64 / pace.get() as f64 * 1e6));
        // As many queue pairs as asked for on each port of a NIC, with an even part of the message each.
        let network = whole.route.iter().any(|&link| fabric.link(link).class.is_network());
        let parts = if network { ports(t).min(t.bytes.get().max(1)) } else { 1 };
        let (share, rest) = (t.bytes.get() / parts, t.bytes.get() % parts);
        whole.bytes = Bytes::new(share + u64::from(rest > 0));
        let first = messages.len();
        messages.push(whole);
        for part in 1..parts {
            messages.push(message(t, part, Bytes::new(share + u64::from(part < rest)))?);
        }
        for message in &mut messages[first..] {
            owners.push(owner);
            message.launch += waits[owner];
            // However many queue pairs it has, it is posted at one rate.
            message.pace = message.pace.map(|pace| Rate::bytes_per_sec((pace.get() / parts).max(1)));
        }
    }
    let queued = queued.into_iter().rev().max_by_key(|(_, span)| *span);
    Ok(Messages { messages, owners, copied_us, queued })
}

/// What the queue pairs of a transfer measured.
#[derive(Clone, Copy)]
struct Told {
    /// When the sender knew that all had arrived; `None` if the run ended before.
    acked: Option<Time>,
    resent: u64,
    marked: u64,
}

/// Per transfer what its queue pairs measured; `None` where it had none. Queue pairs are numbered in the order of the messages
/// that cross the network.
fn told(
    fabric: &Fabric,
    messages: &[Message],
    owners: &[usize],
    transfers: usize,
    outcome: &Outcome,
) -> Vec<Option<Told>> {
    let mut all: Vec<Option<Told>> = vec![None; transfers];
    let Some(net) = &outcome.net else { return all };
    let over = messages.iter().zip(owners).filter(|(message, _)| crosses(fabric, message));
    for ((_, owner), flow) in over.zip(&net.flows) {
        let sum = all[*owner].get_or_insert(Told { acked: Some(Time::ZERO), resent: 0, marked: 0 });
        // No acknowledgement comes at the very start.
        let acked = (flow.acked_at > Time::ZERO).then_some(flow.acked_at);
        sum.acked = sum.acked.zip(acked).map(|(a, b)| a.max(b));
        sum.resent += flow.resent;
        sum.marked += flow.marked;
    }
    all
}

/// Whether a queue pair carries a message.
fn crosses(fabric: &Fabric, message: &Message) -> bool {
    message.bytes > Bytes::ZERO && message.route.iter().any(|id| fabric.link(*id).class.is_network())
}

/// The messages that ended within the last tenth of the time since `began`; `ends` are those of the messages by their numbers.
fn last_ones<'a>(
    fabric: &Fabric,
    messages: &[Message],
    ends: impl Iterator<Item = (u32, Time)> + Clone,
    outcome: &'a Outcome,
    began: Time,
) -> Last<'a> {
    let end = ends.clone().map(|(_, ended)| ended).max().unwrap_or(began);
    let time = end.since(began.min(end)).as_ps();
    let mut late = vec![false; messages.len()];
    for (index, ended) in ends {
        if let Some(late) = late.get_mut(index as usize) {
            *late = end.since(ended).as_ps() <= time / 10;
        }
    }
    let flows = outcome.net.as_deref().map_or(&[][..], |net| net.flows.as_slice());
    let mut next = flows.iter();
    let mut last = Last::default();
    for (message, late) in messages.iter().zip(late) {
        let flow = if crosses(fabric, message) { next.next() } else { None };
        if late {
            last.links.extend(&message.route);
            last.flows.extend(flow);
        }
    }
    last
}

/// The device that starts a transfer: its source if that is a GPU, else its destination.
pub(super) fn starter(fabric: &Fabric, transfer: &Transfer) -> DeviceId {
    if fabric.device(transfer.src).kind == DeviceKind::Gpu { transfer.src } else { transfer.dst }
}

fn count(n: usize) -> String {
    if n == 1 { "1 message".to_owned() } else { format!("{n} messages") }
}
