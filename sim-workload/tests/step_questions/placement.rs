//! Where groups lie: in a node, in a rack, over rails, in which order.

use sim_core::units::Bytes;
use sim_topology::FabricKind;
use sim_workload::messages::Operation;
use sim_workload::model::{Model, ModelSpec};
use sim_workload::parallel::{Group, SizesSpec, Zero};

use crate::cluster::{Asked, Cluster, dense};

fn on(gpus: u64, batch: u64) -> SizesSpec {
    SizesSpec { gpus, global_batch: batch, sequence: 2048, zero: Zero::Optimizer, ..SizesSpec::default() }
}

/// A few layers of experts.
fn experts(count: u64) -> Model {
    let spec = ModelSpec {
        layers: 2,
        hidden: 2048,
        heads: 16,
        kv_heads: Some(4),
        experts: Some(count),
        expert_ffn: Some(1024),
        top_k: Some(4),
        vocab: 32_000,
        ..ModelSpec::default()
    };
    spec.check().unwrap()
}

/// Tensor parallelism over two nodes of eight GPUs loses against eight in each of two replicas or stages; within a scale-up domain of 72
/// sixteen lose nothing of that kind.
#[test]
fn tensor_parallelism_does_not_cross_nodes_for_nothing() {
    let nodes = Cluster::of("hgx-h100", 2);
    for sequence in [2048, 8192] {
        let wide = Asked::new(dense(8), SizesSpec { tensor: 16, sequence, ..on(16, 16) }).on(&nodes);
        let copies = Asked::new(dense(8), SizesSpec { tensor: 8, sequence, ..on(16, 16) }).on(&nodes);
        let stages = Asked::new(dense(8), SizesSpec { tensor: 8, pipeline: 2, sequence, ..on(16, 16) }).on(&nodes);
        println!(
            "{sequence} tokens: tp 16 {:.4} s, tp 8 x dp 2 {:.4}, tp 8 x pp 2 {:.4}; tp exposed {:.3} and {:.3}",
            wide.seconds(),
            copies.seconds(),
            stages.seconds(),
            wide.exposed(Group::Tensor),
            copies.exposed(Group::Tensor)
        );
        assert!(wide.seconds() > copies.seconds() && wide.seconds() > stages.seconds());
        assert!(wide.exposed(Group::Tensor) > copies.exposed(Group::Tensor));
    }
    let rack = Cluster::of("nvl72-gb200", 18);
    let wide = Asked::new(dense(8), SizesSpec { tensor: 16, ..on(16, 16) }).on(&rack);
    assert_eq!(wide.carried.nics(), 0);
}

/// A scale-up domain may be of several nodes (trays): their GPUs need no NIC. The same sixteen GPUs on two nodes of eight do.
#[test]
fn a_scale_up_domain_joins_nodes() {
    let rack = Cluster::of("nvl72-gb200", 18);
    assert_eq!((rack.fabric.nodes_per_domain(), rack.placement.per_node), (18, 4));
    for (tensor, context, pipeline) in [(16, 1, 1), (8, 2, 2), (4, 1, 8), (8, 1, 1)] {
        let sizes = SizesSpec { tensor, context, pipeline, ..on(64, 64) };
        let played = Asked::new(dense(8), sizes).on(&rack);
        assert_eq!(played.carried.nics(), 0);
        assert!(played.carried.scale_up() > 0);
    }
    let nodes = Cluster::of("hgx-h100", 2);
    assert!(Asked::new(dense(8), SizesSpec { tensor: 16, ..on(16, 16) }).on(&nodes).carried.nics() > 0);
}

/// Two racks: one step uses the racks' NVLink and the NICs between them.
#[test]
fn racks_have_both_fabrics_at_once() {
    let racks = Cluster::of("nvl72-gb200", 36);
    let sizes = SizesSpec { tensor: 8, pipeline: 2, ..on(144, 72) };
    let played = Asked::new(dense(4), sizes).on(&racks);
    assert!(played.carried.nics() > 0 && played.carried.scale_up() > played.carried.nics());
}

/// Experts over 64 GPUs of a rack need no NIC, and a group of more than 72 does. 256 are four each on 64; on 72 they are not
/// whole, which says what would be.
#[test]
fn experts_stay_in_a_rack_as_long_as_they_fit() {
    let mut racks = Cluster::of("nvl72-gb200", 36);
    racks.placement.segment = Some(64);
    let step = |ep| Asked::new(experts(256), SizesSpec { expert: ep, ..on(128, 128) });
    let (within, across) = (step(64), step(128));
    let alltoall = |asked: &Asked| racks.call(&asked.ranks(), Group::Expert, Operation::AllToAll, Bytes::mib(8)).1;
    assert_eq!(alltoall(&within).nics(), 0);
    assert!(alltoall(&across).nics() > 0);
    let uneven = SizesSpec { expert: 72, ..on(144, 144) }.check(&experts(256)).unwrap_err();
    let told: Vec<String> = uneven.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|t| t.contains("`experts % ep = 0`") && t.contains("64")), "{told:?}");
    // Groups of 64 that begin anywhere lie over two racks of 72.
    racks.placement.segment = None;
    assert!(racks.call(&within.ranks(), Group::Expert, Operation::AllToAll, Bytes::mib(8)).1.nics() > 0);
}

/// A group of more ranks than a domain has is told, with those that fit.
#[test]
fn groups_that_leave_their_domain_are_told() {
    let nodes = Cluster::of("hgx-h100", 2);
    let ranks = Asked::new(dense(8), SizesSpec { tensor: 16, ..on(16, 16) }).ranks();
    let told = nodes.placement.within_domain(&ranks, Group::Tensor).unwrap_err().to_string();
    assert!(told.contains("near: tp = 4 or 8"), "{told}");
    let rack = Cluster::of("nvl72-gb200", 18);
    assert!(rack.placement.within_domain(&ranks, Group::Tensor).is_ok());
}

/// Ranks of experts next to each other (E+D), or those with the same experts (D+E): the second order cuts what gradients of experts send
/// over the network to about an eighth on nodes of eight GPUs (deepspeedai/DeepSpeed, pull request 4695): 16 nodes, experts over 8.
#[test]
fn the_order_of_ranks_decides_which_volume_crosses_nodes() {
    let cluster = Cluster::of("hgx-h100", 16).env("NCCL_ALGO", "Ring");
    let of = |order| Asked { order, ..Asked::new(experts(64), SizesSpec { expert: 8, ..on(128, 128) }) };
    let bytes = |order, group, operation| cluster.call(&of(order).ranks(), group, operation, Bytes::mib(256)).1.nics();
    let (outer, inner) = ("tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp");
    let reduce = |order| bytes(order, Group::ExpertData, Operation::AllReduce) as f64;
    let ratio = reduce(outer) / reduce(inner);
    println!(
        "gradients of experts over NICs: E+D {:.3e} B, D+E {:.3e} B, {ratio:.2} times",
        reduce(outer),
        reduce(inner)
    );
    assert!((ratio / 8.0 - 1.0).abs() < 0.1, "{ratio}");
    // What tokens send is the other way round: nothing leaves a node where its ranks hold all experts.
    let tokens = |order| bytes(order, Group::Expert, Operation::AllToAll);
    assert_eq!(tokens(outer), 0);
    assert!(tokens(inner) > 0);
}

/// Which order wins depends on what there is more of: with many tokens all-to-alls, with few gradients.
#[test]
fn the_better_order_depends_on_gradients_and_activations() {
    let cluster = Cluster::with("hgx-h100", 4, |spec| spec.fabric = FabricKind::RailOptimized);
    let time = |order, batch| {
        let sizes = SizesSpec { expert: 8, zero: Zero::Replicated, ..on(32, batch) };
        let mut asked = Asked { order, ..Asked::new(experts(64), sizes) };
        asked.overlap.gradients = false;
        let played = asked.on(&cluster);
        (played.seconds(), played.exposed(Group::Expert) * played.seconds())
    };
    let (outer, inner) = ("tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp");
    for batch in [32, 512] {
        let ((ed, tokens), (de, far)) = (time(outer, batch), time(inner, batch));
        println!("batch {batch}: E+D {ed:.5} s ({tokens:.5} of tokens), D+E {de:.5} s ({far:.5})");
        assert!(far > 1.5 * tokens, "{tokens} {far}");
        assert_eq!(ed < de, batch > 100, "batch {batch}: {ed} {de}");
    }
}
