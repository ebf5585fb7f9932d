//! More GPUs for the same work, and ranks that hold up the others.

use sim_core::units::{Span, Time};
use sim_workload::model::ModelSpec;
use sim_workload::parallel::{SizesSpec, Zero};
use sim_workload::step::outcome::PieceKind;
use sim_workload::step::overlap::Overlap;
use sim_workload::step::play::Options;

use crate::cluster::{Asked, Cluster, dense, named};

fn data_parallel(gpus: u64, batch: u64, zero: Zero) -> SizesSpec {
    SizesSpec { gpus, global_batch: batch, sequence: 4096, zero, ..SizesSpec::default() }
}

/// From one node of eight GPUs to two at the same batch, the work of each GPU is halved, and gradients have to cross the network: the
/// step takes more than half as long, however states are divided, at few and many micro batches.
#[test]
fn twice_the_gpus_take_more_than_half_the_time() {
    let (one, two) = (Cluster::of("hgx-h100", 1), Cluster::of("hgx-h100", 2));
    for zero in [Zero::Replicated, Zero::Optimizer, Zero::Gradients, Zero::Parameters] {
        for (model, batch) in [("llama3.1-8b", 16), ("llama3.1-8b", 64), ("qwen3-8b", 32)] {
            let time = |gpus, cluster| Asked::new(named(model), data_parallel(gpus, batch, zero)).on(cluster);
            let (eight, sixteen) = (time(8, &one), time(16, &two));
            assert_eq!(eight.carried.nics(), 0);
            assert!(sixteen.carried.nics() > 0);
            let ratio = sixteen.seconds() / eight.seconds();
            println!("{model}, batch {batch}, {zero:?}: {ratio:.4}");
            assert!(ratio > 0.5, "{model}, batch {batch}, {zero:?}: {ratio}");
        }
    }
}

/// The same work a GPU under FSDP takes as long on one node as on several: MPT-13B with two sequences a GPU takes 0.855, 0.859 and 0.851 s on
/// 8, 16 and 32 H100 (mosaicml/llm-foundry, scripts/train/benchmarking). Messages that leave the node take no less of the GPU than those
/// that don't.
#[test]
fn kernels_are_no_faster_when_gathers_cross_nodes() {
    let time = |nodes: u32| {
        let gpus = u64::from(nodes) * 8;
        let sizes = SizesSpec { micro_batch: 2, sequence: 2048, ..data_parallel(gpus, 2 * gpus, Zero::Parameters) };
        Asked::new(named("mpt-13b"), sizes).seconds(&Cluster::of("hgx-h100", nodes))
    };
    let one = time(1);
    for (nodes, published) in [(2, 0.859 / 0.855), (4, 0.851 / 0.855)] {
        let ratio = time(nodes) / one;
        println!("{nodes} nodes: {ratio:.4}, published {published:.4}");
        assert!((ratio / published - 1.0).abs() < 0.015, "{nodes} nodes: {ratio}, published {published}");
    }
}

/// Strong scaling of GPT-2 with 124 million parameters (modal-labs/multinode-training-guide, pull request 27): 112 ms of kernels on
/// two nodes, 3 ms of an all-reduce of gradients that nothing hides; 30 ms measured on eight nodes, 28 + 3 if all kernels are divided. On 32
/// nodes that rule has 72 % of what a GPU does on two. Played it is less, since the optimizer's millisecond is not divided and a ring of more
/// ranks takes longer.
#[test]
fn what_is_not_divided_bounds_strong_scaling() {
    let spec =
        ModelSpec { layers: 12, hidden: 768, heads: 12, ffn: 3072, vocab: 50_304, tied: true, ..ModelSpec::default() };
    let model = spec.check().unwrap();
    let time = |nodes: u32, efficiency| {
        let gpus = u64::from(nodes) * 8;
        let sizes = SizesSpec { micro_batch: 3, sequence: 1024, ..data_parallel(gpus, 768, Zero::Replicated) };
        let overlap = Overlap { gradients: false, parameters: false, ..Overlap::default() };
        let asked = Asked { overlap, efficiency, ..Asked::new(model.clone(), sizes) };
        let cluster = Cluster::of("hgx-h100", nodes);
        let played = asked.on(&cluster);
        let update = played.outcome.ranks[0].optimizer.as_us() / 1e3;
        (played.seconds() * 1e3, played.communication() * played.seconds() * 1e3, update)
    };
    // Kernels of so many sequences take near 112 ms on two nodes: the rest is fitted.
    let mut efficiency = 1_000_000;
    for _ in 0..3 {
        let (whole, messages, _) = time(2, efficiency);
        efficiency = (efficiency as f64 * (whole - messages) / 112.0) as u64;
    }
    assert!(efficiency > 850_000 && efficiency < 1_150_000, "{efficiency}");
    let (two, eight, many) = (time(2, efficiency), time(8, efficiency), time(32, efficiency));
    println!("ms on 2, 8, 32 nodes, of these messages, optimizer: {two:.2?}, {eight:.2?}, {many:.2?}");
    assert!((two.0 / 115.0 - 1.0).abs() < 0.03, "{two:?}");
    assert!((eight.0 / 30.5 - 1.0).abs() < 0.05, "{eight:?}");
    let efficiency = two.0 / 16.0 / many.0;
    let divided = many.0 - many.2 - (many.1 - two.1);
    println!("32 nodes: {efficiency:.3}; without what is not divided {:.3}", two.0 / 16.0 / divided);
    assert!(efficiency < 0.72 && efficiency > 0.55, "{efficiency}");
    assert!((two.0 / 16.0 / divided / 0.72 - 1.0).abs() < 0.05, "{divided}");
}

/// Where ranks do the same, a rank that begins late holds up the step by as long as it is late, whatever their parallelism and whichever
/// it is; the chain of work that the end waited for tells which.
#[test]
fn a_late_rank_holds_up_the_step_by_as_long() {
    let cluster = Cluster::of("hgx-h100", 2);
    let none = Overlap { gradients: false, parameters: false, ..Overlap::default() };
    let sizes = |zero| SizesSpec { sequence: 2048, ..data_parallel(16, 32, zero) };
    let cases = [
        ("replicated", sizes(Zero::Replicated), Overlap::default()),
        ("FSDP", sizes(Zero::Parameters), Overlap::default()),
        ("FSDP, nothing hidden", sizes(Zero::Parameters), none),
        ("TP, nothing hidden", SizesSpec { tensor: 8, ..sizes(Zero::Optimizer) }, none),
        ("TP, replicated", SizesSpec { tensor: 8, ..sizes(Zero::Replicated) }, Overlap::default()),
    ];
    for (name, sizes, overlap) in cases {
        let asked = Asked { overlap, ..Asked::new(dense(1), sizes) };
        let well = asked.on(&cluster);
        let ranks = if asked.sizes.zero == Zero::Parameters { 1..2 } else { 0..3 };
        for (rank, ms) in [(0u32, 2.0), (5, 5.0), (15, 40.0)][ranks].iter().copied() {
            let late = Span::from_us_f64(ms * 1e3);
            let options = Options { late: vec![(rank, late)], ..asked.options.clone() };
            let held = Asked { options, model: dense(1), sizes: asked.sizes.clone(), ..asked }.on(&cluster);
            let increase = (held.seconds() - well.seconds()) * 1e3 / ms;
            println!("{name}, rank {rank} late by {ms} ms: the step by {increase:.4} of it");
            assert!((increase - 1.0).abs() < 0.05, "{name}, rank {rank}, {ms} ms: {increase}");
            // All ranks are held up, not only the late one.
            for (was, is) in well.outcome.ends.iter().zip(&held.outcome.ends) {
                let more = is.since(*was).as_us() / 1e3 / ms;
                assert!((more - 1.0).abs() < 0.05, "{name}, rank {rank}, {ms} ms: {more}");
            }
            // The chain of work that the end waited for begins with it.
            let first = held.outcome.path[0];
            assert_eq!((first.rank, first.kind, first.to), (rank, PieceKind::Late, Time::ZERO + late), "{name}");
        }
    }
}

/// What a rank would have waited for in any case hides its delay: a stage that would still wait for its first activation may be late by
/// as long, and the first stage may not.
#[test]
fn slack_hides_a_part_of_a_delay() {
    let cluster = Cluster::of("hgx-h100", 2);
    let sizes = SizesSpec { tensor: 8, pipeline: 2, sequence: 2048, ..data_parallel(16, 8, Zero::Replicated) };
    let time = |late: Vec<(u32, Span)>| {
        let mut asked = Asked::new(dense(8), sizes.clone());
        asked.options.late = late;
        asked.on(&cluster).seconds() * 1e3
    };
    let well = time(Vec::new());
    // The second stage waits for a forward pass of four layers: some milliseconds.
    assert_eq!(time(vec![(9, Span::from_us(1000))]).to_bits(), well.to_bits());
    let (far, farther) = (time(vec![(9, Span::from_us(50_000))]), time(vec![(9, Span::from_us(80_000))]));
    assert!(far > well && far - well < 50.0, "{well} {far}");
    assert!((farther - far - 30.0).abs() < 0.3, "{far} {farther}");
    // The first stage has no slack.
    let first = time(vec![(3, Span::from_us(50_000))]) - well;
    assert!((first / 50.0 - 1.0).abs() < 0.05, "{first}");
}
