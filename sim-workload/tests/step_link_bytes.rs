//! What leaves a node and what comes to it is what the messages of its ranks say.

use std::collections::BTreeMap;

use sim_collectives::{Machine, Software};
use sim_core::engine::Limits;
use sim_core::units::Rate;
use sim_topology::{Catalogue, DeviceKind, Fabric, FabricSpec};
use sim_workload::compute::{Figures, Machine as Gpu, Number};
use sim_workload::job::Job;
use sim_workload::messages::{self, Operation};
use sim_workload::model::{Model, ModelSpec};
use sim_workload::parallel::split::Split;
use sim_workload::parallel::{ContextKind, Group, Order, Ranks, SizesSpec};
use sim_workload::step::calls::Calls;
use sim_workload::step::islands::Islands;
use sim_workload::step::make;
use sim_workload::step::overlap::Overlap;
use sim_workload::step::play::{Options, Player, play};

fn model() -> Model {
    let spec = ModelSpec {
        layers: 4,
        hidden: 2048,
        heads: 32,
        kv_heads: Some(8),
        ffn: 8192,
        vocab: 8192,
        ..ModelSpec::default()
    };
    spec.check().unwrap()
}

/// Plays a step on nodes of eight; for each GPU what its NIC sent and what it received.
fn carried(spec: &SizesSpec) -> Vec<[u64; 2]> {
    let model = model();
    let sizes = spec.check(&model).unwrap();
    let node = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
    let fabric = Fabric::build(&FabricSpec::new(node, (sizes.gpus / 8) as u32), Catalogue::builtin()).unwrap();
    let figures = Figures::builtin();
    let gpu = Gpu::of(figures.device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures);
    let plan = make::plan(&Job::training(&model, &sizes), &gpu, &Overlap::default());
    let ranks = Ranks::new(&Order::default(), &sizes).unwrap();
    let options = Options::default();
    let player = Player::new(&plan, &ranks, &options, |_| false);
    let groups = player.communicators().iter().map(|c| c.ranks.clone()).collect();
    let software = Software::default();
    let make = |ranks: &[u32]| Machine::new(&fabric, Catalogue::builtin(), &software, ranks).map_err(|e| e.to_string());
    let calls = Calls::new(&fabric, fabric.network(), Box::new(make), groups, plan.calls.clone());
    let mut islands = Islands::new(calls, Limits::default());
    play(player, &mut islands, &|| false).unwrap();
    let mut of_nic: BTreeMap<_, [u64; 2]> = BTreeMap::new();
    for (link, bytes) in fabric.links().iter().zip(islands.carried().unwrap()) {
        let nic = |device| fabric.device(device).kind == DeviceKind::Nic;
        if link.class.is_network() && nic(link.from) {
            of_nic.entry(link.from).or_default()[0] += bytes.get();
        }
        if link.class.is_network() && nic(link.to) {
            of_nic.entry(link.to).or_default()[1] += bytes.get();
        }
    }
    fabric.gpus().iter().map(|gpu| of_nic[&fabric.nics_of(*gpu)[0]]).collect()
}

/// What messages say that a rank of `stage` sends in groups that reach over nodes with one member in each, by operation.
fn told(spec: &SizesSpec, stage: u64, groups: &[Group]) -> BTreeMap<Operation, u64> {
    let model = model();
    let sizes = spec.check(&model).unwrap();
    let mut out = BTreeMap::new();
    for (message, count) in messages::of_stage(&Job::training(&model, &sizes), stage) {
        if groups.contains(&message.group) {
            let wire = message.wire_bytes(message.group.size(&sizes)).get();
            *out.entry(message.operation).or_default() += wire * count;
        }
    }
    out
}

/// Within what protocols and padding add to large messages, and a few small ones.
fn near(played: u64, told: u64) -> bool {
    (played as f64 / told as f64 - 1.0).abs() < 0.02
}

#[test]
fn a_ring_of_two_or_more_sends_both_ways() {
    for context in [2, 4] {
        let gpus = 8 * context;
        let spec =
            SizesSpec { gpus, tensor: 8, context, sequence: 2048 * context, global_batch: 1, ..SizesSpec::default() };
        for context_kind in [ContextKind::Ring, ContextKind::AllGather, ContextKind::AllToAll] {
            let spec = SizesSpec { context_kind, ..spec.clone() };
            let told: u64 = told(&spec, 0, &[Group::Context, Group::DataContext, Group::Shard]).values().sum();
            for (gpu, [sent, received]) in carried(&spec).into_iter().enumerate() {
                assert!(near(sent, told), "{context_kind:?} of {context}: GPU {gpu} sends {sent}, messages say {told}");
                assert!(near(received, told), "{context_kind:?} of {context}: GPU {gpu} gets {received} of {told}");
            }
        }
    }
}

#[test]
fn what_passes_between_stages_goes_one_way() {
    let spec = SizesSpec {
        gpus: 24,
        tensor: 8,
        pipeline: 3,
        global_batch: 4,
        split: Split::Counting { embedding: true, head: true },
        ..SizesSpec::default()
    };
    let each = told(&spec, 0, &[Group::Pipeline])[&Operation::Send];
    for (gpu, [sent, received]) in carried(&spec).into_iter().enumerate() {
        // Activations one way, gradients the other; the stage between has both neighbours.
        let told = each * if gpu / 8 == 1 { 2 } else { 1 };
        assert!(near(sent, told) && near(received, told), "GPU {gpu} sends {sent}, gets {received}, told {told}");
    }
}
