//! Caches of prompts on their way to the ranks that decode: transfers, made from a model and two sides.

use sim_core::units::Span;
use sim_topology::Fabric;
use sim_workload::compute::Number;
use sim_workload::serving::cache_transfer::{Side, Transport, by_layer, pieces};

use super::super::Packets;
use super::super::keys::KV_TRANSFER;
use super::super::tree::Node;
use super::super::view::View;
use super::inference::nic_choice;
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
    fabric: &Fabric,
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
    let transport = Transport {
        nic: fabric.plan().nic_rate(),
        share: 1_000_000,
        nics: fabric.node_spec().nics.max(1).into(),
        per_block: view.time("per_block")?,
        block: view.size("block")?,
        base: view.time("base")?,
        gpu: None,
        host: None,
    };
    let (start, prefill) = (view.time("start")?, view.time("prefill"));
    let requests: u64 = view.integer("requests")?;
    let mut all = Vec::new();
    for (index, piece) in list.iter().enumerate() {
        let (src, dst) = (gpus[(first + piece.from) as usize], gpus[(second + piece.to) as usize]);
        for (nic, bytes) in transport.parts(index as u64, piece, choice) {
            let mut way = Way { packets: over, qps: view.integer("qps"), launch: transport.base, ..Way::default() };
            if !fabric.same_domain(src, dst) {
                way.nics = super::nics_between(fabric, src, dst, choice, nic);
            }
            way.pace = (transport.per_block > Span::ZERO).then(|| transport.rate());
            for (bytes, at) in by_layer(piece, bytes, model.layers, prefill) {
                let one = Transfer { src, dst, bytes, start: start + at, way };
                all.extend(core::iter::repeat_n(one, requests as usize));
            }
        }
    }
    all.retain(|t| t.bytes.get() > 0);
    let name = view.text("name").map(str::to_owned);
    Some(Transfers {
        name,
        with_previous: view.boolean("with_previous"),
        repeat: false,
        traffic: Traffic::List(all),
        place: Some(item.place.clone()),
    })
}
