//! Caches of prompts on their way to the ranks that decode: transfers, made from a model and two sides.

use std::collections::BTreeMap;

use sim_core::units::Bytes;
use sim_topology::{Catalogue, Fabric};
use sim_workload::compute::Number;
use sim_workload::serving::ShapeFault;
use sim_workload::serving::cache_transfer::{Piece, Side, Transport, by_layer, pieces};
use sim_workload::serving::shape::attention_of;

use super::super::Packets;
use super::super::keys::KV_TRANSFER;
use super::super::tree::Node;
use super::super::view::View;
use super::inference::{misfit, nic_choice, nic_share};
use super::step::{Asked, model};
use super::transfer::{Traffic, Transfer, Transfers, Way};
use crate::diagnostic::{Code, Diagnostics, counted};

/// The checks that need no fabric.
pub(super) fn shape(item: &Node, out: &mut Diagnostics) {
    if let Some(table) = item.as_table() {
        model::model(&Asked { view: View::new(table, &KV_TRANSFER), item }, out);
    }
}

/// Reads and checks the transfers of caches.
pub(super) fn transfers(
    item: &Node,
    (fabric, catalogue): (&Fabric, &Catalogue),
    packets: Option<&Packets>,
    out: &mut Diagnostics,
) -> Option<Transfers> {
    let view = View::new(item.as_table()?, &KV_TRANSFER);
    let asked = Asked { view, item };
    let over = super::way(&view, None, packets, out);
    let model = model::model(&asked, out)?;
    let from = Side { tensor: view.integer("tp")?, pipeline: view.integer("pp")? };
    let to = Side {
        tensor: view.integer("decode_tp").unwrap_or(from.tensor),
        pipeline: view.integer("decode_pp").unwrap_or(from.pipeline),
    };
    // Heads are divided, and stages have layers.
    let before = out.list.len();
    for (side, prefix) in [(from, ""), (to, "decode_")] {
        // What a receiver has of the sender has been told of.
        let own = |key: &&str| prefix.is_empty() || view.has(&format!("{prefix}{key}"));
        for fault in attention_of(&model, side.tensor, side.pipeline) {
            let ShapeFault::Rule { key, .. } = &fault else { continue };
            if own(key) {
                out.push(misfit(&asked, &fault, &|key| format!("{prefix}{key}")));
            }
        }
    }
    if out.list.len() > before {
        return None;
    }
    let per_node = fabric.nodes().first().map_or(1, |n| n.gpus.len() as u64).max(1);
    let first: u64 = view.integer("from")?;
    let second = view.integer("to").unwrap_or_else(|| (first + from.ranks()).next_multiple_of(per_node));
    let gpus = fabric.gpus();
    for (key, at, side) in [("from", first, from), ("to", second, to)] {
        if at + side.ranks() > gpus.len() as u64 {
            let message =
                format!("{} from GPU {at} on, and there are {}", counted(side.ranks() as usize, "rank"), gpus.len());
            let fault = asked.fault(Code::OutOfRange, message, &[key, "decode_tp", "tp"], "the side does not fit");
            out.push(fault.help("set `nodes` higher, or `from` and `to`"));
            return None;
        }
    }
    if (first.max(second)) < (first + from.ranks()).min(second + to.ranks()) {
        let message = "a GPU would send and receive";
        out.push(asked.fault(Code::OutOfRange, message, &["to", "from"], "the two sides overlap"));
        return None;
    }
    let choice = nic_choice(&view)?;
    let number = if view.choice("cache") == Some("fp8") { Number::Fp8 } else { Number::Bf16 };
    let list = pieces(&model, view.integer("tokens")?, number, from, to);
    fits(&asked, &list, (fabric, catalogue), out);
    let transport = Transport {
        nic: fabric.plan().nic_rate(),
        share: nic_share(&view)?,
        nics: fabric.node_spec().nics.max(1).into(),
        per_block: view.time("per_block")?,
        block: view.size("block")?,
        base: view.time("base")?,
        gpu: None,
        host: None,
    };
    let (start, prefill) = (view.time("start")?, view.time("prefill"));
    let requests: u64 = view.integer("requests")?;
    let mut cache = Vec::new();
    for (index, piece) in list.iter().enumerate() {
        let (src, dst) = (gpus[(first + piece.from) as usize], gpus[(second + piece.to) as usize]);
        for (nic, bytes) in transport.parts(index as u64, piece, choice) {
            let mut way = Way { packets: over, qps: view.integer("qps"), launch: transport.base, ..Way::default() };
            if !fabric.same_domain(src, dst) {
                way.nics = super::nics_between(fabric, src, dst, choice, nic);
            }
            // Within a domain no NIC has a queue of it.
            way.pace = transport.pace().filter(|_| way.nics.is_some());
            for (bytes, at) in by_layer(piece, bytes, model.layers, prefill) {
                cache.push(Transfer { src, dst, bytes, start: start + at, way });
            }
        }
    }
    cache.retain(|t| t.bytes.get() > 0);
    let mut idle = super::inference::of_one_nic(&view);
    if cache.iter().all(|t| t.way.nics.is_none()) {
        let why = "both sides are in one NVLink domain, no NIC carries the cache";
        idle.extend(["nics", "nic_share", "per_block"].into_iter().filter(|key| view.has(key)).map(|key| (key, why)));
    }
    for (key, why) in idle {
        out.push(asked.fault(Code::NoEffect, format!("`{key}` has no effect"), &[key], why));
    }
    // Cache after cache, so that one that was asked for before is before others in queues.
    let all = cache.repeat(requests as usize);
    let name = view.text("name").map(str::to_owned);
    Some(Transfers {
        name,
        with_previous: view.boolean("with_previous"),
        repeat: false,
        traffic: Traffic::List(all),
        place: Some(item.place.clone()),
    })
}

/// Warns of a cache that is larger than the memory of a GPU which it leaves or comes to.
fn fits(asked: &Asked<'_>, list: &[Piece], (fabric, catalogue): (&Fabric, &Catalogue), out: &mut Diagnostics) {
    let Ok(gpu) = catalogue.gpu(&fabric.node_spec().gpu) else { return };
    let memory = Bytes::new((gpu.memory_gb * 1e9) as u64);
    let mut held: BTreeMap<(bool, u64), u64> = BTreeMap::new();
    for piece in list {
        let bytes = piece.layer_bytes.get().saturating_mul(piece.layers);
        for side in [(false, piece.from), (true, piece.to)] {
            let of = held.entry(side).or_default();
            *of = of.saturating_add(bytes);
        }
    }
    let Some(most) = held.into_values().max().map(Bytes::new).filter(|most| *most > memory) else { return };
    let message = format!("a GPU would hold {most} of the cache of a prompt");
    let fault = asked.fault(Code::WouldNotFit, message, &["tokens"], format!("{} has {memory}", gpu.name));
    out.push(fault.help("fewer tokens, or more ranks: `tp`, `pp`; it is sent as if there were room"));
}
