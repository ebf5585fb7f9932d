//! What slow, narrow, shared and faster links cost a step.

use sim_core::units::{Bytes, Rate};
use sim_topology::faults::Degraded;
use sim_topology::{FabricKind, FaultKind, LinkClass, NicOverride};
use sim_workload::job::Mode;
use sim_workload::messages::Operation;
use sim_workload::parallel::{Group, SizesSpec, Zero};

use crate::cluster::{Asked, Cluster, dense, named};

fn on(gpus: u64, batch: u64) -> SizesSpec {
    SizesSpec { gpus, global_batch: batch, sequence: 2048, zero: Zero::Optimizer, ..SizesSpec::default() }
}

/// "A pipeline sends one transfer a micro batch: PCIe is enough." Four A100 on PCIe: more than a fifth of a step waits for messages of
/// tensor parallelism, less than a fiftieth for those between stages. (That stages wait for each other is another thing: the bubble.)
#[test]
fn pcie_is_enough_for_a_pipeline_and_not_for_tensor_parallelism() {
    let cluster = Cluster::of("pcie-a100-4", 1);
    for model in ["llama3.1-8b", "llama2-7b"] {
        for (batch, sequence) in [(32, 2048), (8, 4096), (64, 512)] {
            for mode in [Mode::Training, Mode::Inference] {
                let share = |sizes: SizesSpec, group| {
                    let sizes = SizesSpec { sequence, ..sizes };
                    Asked { mode, ..Asked::new(named(model), sizes) }.on(&cluster).exposed(group)
                };
                let tensor = share(SizesSpec { tensor: 4, ..on(4, batch) }, Group::Tensor);
                let pipeline = share(SizesSpec { pipeline: 4, ..on(4, batch) }, Group::Pipeline);
                println!("{model}, {batch} x {sequence}, {mode:?}: tp {tensor:.3}, pp {pipeline:.4}");
                assert!(tensor > 0.2 && pipeline < 0.02, "{model} {batch} {sequence} {mode:?}: {tensor} {pipeline}");
            }
        }
    }
}

/// Twice the bandwidth between nodes gives a pipeline over two of them less than 2 % (vllm-project/vllm, issue 6610: nothing was
/// gained): two nodes of one GPU, and two of eight, forward alone and in training.
#[test]
fn faster_links_between_nodes_do_not_help_a_pipeline() {
    let cluster = |gpus: u32, gbps: u64| {
        Cluster::with("hgx-h100", 2, |spec| {
            spec.gpus_per_node = Some(gpus);
            spec.nics = Some(NicOverride { count: gpus, rate: Rate::bytes_per_sec(gbps * 125_000_000) });
        })
    };
    for (gpus, tensor, batch) in [(1u32, 1, 8), (8, 8, 16)] {
        for mode in [Mode::Inference, Mode::Training] {
            let sizes = SizesSpec { tensor, pipeline: 2, ..on(2 * u64::from(gpus), batch) };
            let asked = Asked { mode, ..Asked::new(named("llama3-70b"), sizes) };
            let (slow, fast) = (asked.seconds(&cluster(gpus, 400)), asked.seconds(&cluster(gpus, 800)));
            println!("{gpus} GPUs a node, {mode:?}: {:.4}", slow / fast);
            assert!(slow / fast >= 1.0 && slow / fast < 1.02, "{gpus} {mode:?}: {slow} {fast}");
        }
    }
}

/// Rails that no switch joins cost a dense step less than 2 %: tensor parallelism stays in the node, gradients on their rail.
#[test]
fn rails_alone_are_enough_for_a_dense_step() {
    let cluster = |kind| Cluster::with("hgx-h100", 4, |spec| spec.fabric = kind);
    let (rails, joined) = (cluster(FabricKind::RailOnly), cluster(FabricKind::RailOptimized));
    for sizes in [
        SizesSpec { tensor: 8, ..on(32, 32) },
        SizesSpec { tensor: 4, pipeline: 2, ..on(32, 64) },
        SizesSpec { tensor: 2, context: 2, ..on(32, 32) },
        SizesSpec { zero: Zero::Parameters, ..on(32, 32) },
    ] {
        let asked = Asked::new(dense(2), sizes);
        let ratio = asked.seconds(&rails) / asked.seconds(&joined);
        println!("{}: {ratio:.4}", asked.sizes.check(&asked.model).unwrap());
        assert!(ratio < 1.02 && ratio > 0.98, "{ratio}");
    }
}

/// NICs' rate has no effect on a group that stays in a node, and on messages that NICs bind the effect that it should: a tenth more takes
/// a tenth less.
#[test]
fn time_follows_the_link_that_binds_and_no_other() {
    let cluster = |rate: u64| {
        Cluster::with("hgx-h100", 2, |spec| {
            spec.nics = Some(NicOverride { count: 8, rate: Rate::bytes_per_sec(rate * 100_000_000) });
        })
    };
    let inside = Asked::new(dense(4), SizesSpec { tensor: 8, ..on(8, 4) });
    assert_eq!(inside.seconds(&cluster(100)).to_bits(), inside.seconds(&cluster(50)).to_bits());
    let across = Asked::new(dense(4), SizesSpec { tensor: 8, ..on(16, 4) });
    let ranks = across.ranks();
    let time = |rate| cluster(rate).call(&ranks, Group::Data, Operation::AllReduce, Bytes::mib(512)).0.as_secs();
    // Up to the 10 GB/s that a channel moves, of which there are two.
    for rate in [60u64, 100, 125] {
        let elasticity = (time(rate * 11 / 10) / time(rate)).ln() / 1.1f64.ln();
        println!("{} GB/s: {elasticity:.3}", rate as f64 / 10.0);
        assert!((elasticity + 1.0).abs() < 0.1, "{rate}: {elasticity}");
    }
}

/// A slower link makes no step faster, at no degree; and what it costs is no more than its messages take longer.
#[test]
fn a_slow_link_costs_what_its_messages_take_longer() {
    let degraded = |factor: f64| {
        let cluster = Cluster::of("hgx-h100", 4);
        let kind = Degraded { factor: Some(factor), ..Degraded::default() };
        if factor < 1.0 { cluster.broken("node1.nic2", FaultKind::Degraded(kind)) } else { cluster }
    };
    let clusters: Vec<(f64, Cluster)> = [1.0, 0.75, 0.5, 0.25].map(|f| (f, degraded(f))).into_iter().collect();
    for sizes in [
        SizesSpec { tensor: 8, ..on(32, 8) },
        SizesSpec { tensor: 8, zero: Zero::Replicated, ..on(32, 8) },
        SizesSpec { tensor: 8, pipeline: 4, ..on(32, 8) },
    ] {
        let asked = Asked::new(dense(4), sizes);
        let well = asked.on(&clusters[0].1);
        let mut before = well.seconds();
        for (factor, cluster) in &clusters[1..] {
            let ill = asked.on(cluster);
            let messages = well.outcome.ranks.iter().map(|r| r.communication().as_secs()).fold(0.0, f64::max);
            println!(
                "{}: {factor}: {:.4}, messages {:.4}",
                asked.sizes.check(&asked.model).unwrap(),
                ill.seconds() / well.seconds(),
                messages / well.seconds()
            );
            assert!(ill.seconds() >= before * 0.999_999, "{factor}: {} {before}", ill.seconds());
            assert!(ill.seconds() <= well.seconds() / factor, "{factor}: {} {}", ill.seconds(), well.seconds());
            before = ill.seconds();
        }
        assert!(before > well.seconds(), "a small part of a NIC's rate costs nothing");
    }
}

/// Fewer uplinks make no step faster, whatever crosses them.
#[test]
fn more_spines_make_no_step_slower() {
    let cluster = |over: f64| {
        Cluster::with("hgx-h100", 4, |spec| {
            spec.fabric = FabricKind::LeafSpine;
            spec.leaves = Some(2);
            spec.oversubscription = Some(over);
        })
    };
    let clusters = [8.0, 4.0, 2.0, 1.0].map(cluster);
    for sizes in [SizesSpec { tensor: 8, ..on(32, 8) }, SizesSpec { tensor: 8, pipeline: 2, ..on(32, 16) }] {
        let asked = Asked::new(dense(2), sizes);
        let times: Vec<f64> = clusters.iter().map(|c| asked.seconds(c)).collect();
        println!("{}: {times:?}", asked.sizes.check(&asked.model).unwrap());
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0] * 1.001), "{times:?}");
    }
}

/// Where the nodes of a job stand does not matter where each rail has one leaf, whatever that lets out to spines; under leaves of
/// nodes at 4:1 at most by four.
#[test]
fn placement_matters_as_much_as_the_fabric_is_tapered() {
    let gap = |kind, over: f64| {
        let mut cluster = Cluster::with("hgx-h100", 8, |spec| {
            spec.fabric = kind;
            spec.leaves = (kind == FabricKind::LeafSpine).then_some(4);
            spec.oversubscription = Some(over);
        });
        let asked = Asked::new(dense(1), SizesSpec { tensor: 8, zero: Zero::Replicated, ..on(64, 8) });
        let mut nodes: Vec<u64> = (0..8).collect();
        let mut state = 1u64;
        let mut times = Vec::new();
        for _ in 0..8 {
            cluster.placement.nodes = Some(nodes.clone());
            times.push(asked.seconds(&cluster));
            for i in (1..8usize).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                nodes.swap(i, (state >> 33) as usize % (i + 1));
            }
        }
        times.iter().copied().fold(0.0, f64::max) / times.iter().copied().fold(f64::INFINITY, f64::min)
    };
    for over in [1.0, 4.0] {
        let rails = gap(FabricKind::RailOptimized, over);
        assert!(rails < 1.05, "{over}: {rails}");
    }
    // Static routes collide under leaves of nodes even without oversubscription.
    let (even, tapered) = (gap(FabricKind::LeafSpine, 1.0), gap(FabricKind::LeafSpine, 4.0));
    println!("leaves of nodes, worst over best of 8: {even:.4} without oversubscription, {tapered:.4} at 4:1");
    assert!(tapered > 1.0 && tapered <= 4.0, "{tapered}");
}

/// Links within a node are the same for all: what a step's busiest NVLink carries is no more than its rate, and NICs carry nothing of
/// a step in one node.
#[test]
fn a_step_in_one_node_uses_no_nic() {
    let asked = Asked::new(dense(4), SizesSpec { tensor: 4, pipeline: 2, ..on(8, 8) });
    let cluster = Cluster::of("hgx-h100", 2);
    let played = asked.on(&cluster);
    assert_eq!((played.carried.nics(), played.carried.uplinks()), (0, 0));
    let whole = played.outcome.end.since(sim_core::units::Time::ZERO);
    let share = played.carried.busiest(LinkClass::NvLink, whole);
    assert!(share > 0.01 && share < 1.0, "{share}");
}
