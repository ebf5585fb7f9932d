//! Messages of serving: caches on their way, small sums of a token, and in which regime a message is.

use std::collections::BTreeMap;

use sim_collectives::step_graph::{Node, StepGraph, Work};
use sim_core::engine::Limits;
use sim_core::units::{Bytes, Rate, Span, Time};
use sim_topology::{Fabric, LinkClass, RouteRequest, Via};
use sim_workload::compute::{Machine, Number};
use sim_workload::messages::Operation;
use sim_workload::model::{Model, ModelSpec};
use sim_workload::parallel::Group;
use sim_workload::serving::cache_transfer::{NicChoice, Side, Transport, pieces};
use sim_workload::serving::messages::Messages;
use sim_workload::serving::step::Steps;
use sim_workload::serving::{Batch, Instance, Launch, ShapeSpec};
use sim_workload::step::plan::Call;
use sim_workload::units::FlopRate;

use crate::closed::{Choice, Closed, Link, Reach};
use crate::cluster::{Cluster, named};

/// So many NICs that carry `rate` GB/s each, blocks without a cost.
fn nics(count: u64, rate: f64) -> Transport {
    Transport {
        nic: Rate::from_gbyte_f64(rate),
        share: 1_000_000,
        nics: count,
        per_block: Span::ZERO,
        block: Bytes::mib(1),
        base: Span::ZERO,
        gpu: None,
        host: None,
    }
}

/// What a cache of `tokens` tokens takes over a fabric of two nodes, in µs.
fn over(fabric: &Fabric, model: &Model, tokens: u64, choice: NicChoice) -> f64 {
    let side = Side { tensor: 8, pipeline: 1 };
    let transport = nics(8, fabric.plan().nic_rate().as_gbyte());
    let nic = |rank: u64| fabric.nics_of(fabric.gpus()[rank as usize])[0];
    let route = |from: u64, by: u64, to: u64| {
        let (src, dst) = (fabric.gpus()[from as usize], fabric.gpus()[8 + to as usize]);
        let into = if choice == NicChoice::Affine { nic(8 + to) } else { nic(8 + by) };
        fabric
            .route(&RouteRequest::auto(src, dst).via(Via::Nics { src: nic(by), dst: into }))
            .map(|r| (r.links, Some(nic(by))))
    };
    let pieces = pieces(model, tokens, Number::Bf16, side, side);
    let messages = transport.messages(&pieces, choice, model.layers, None, route).unwrap();
    let mut graph = StepGraph::default();
    graph.add(Node { work: Work::Transfers(messages), after: Vec::new(), start: Span::ZERO }).unwrap();
    let run = graph.execute(&fabric.network(), fabric.mtu(), &[], Limits::default()).unwrap();
    run.nodes[0].ended.unwrap().since(Time::ZERO).as_us()
}

/// All caches pinned to one of eight NICs take eight times as long (sgl-project/sglang, pull request 34346), for every model and length.
#[test]
fn one_of_eight_nics_takes_eight_times_as_long() {
    let fabric = Cluster::of("hgx-h100", 2).fabric;
    for (model, tokens) in [("qwen3-8b", 8192), ("qwen3-8b", 65_536), ("llama3-70b", 8192)] {
        let model = named(model);
        let ratio =
            over(&fabric, &model, tokens, NicChoice::Pinned(0)) / over(&fabric, &model, tokens, NicChoice::Affine);
        println!("{} {tokens}: {ratio:.3}", model.name);
        assert!((ratio / 8.0 - 1.0).abs() < 0.06, "{tokens}: {ratio}");
    }
}

/// "1 NIC 48.3 GB/s, 3 NICs 135, 8 NICs 118" (kvcache-ai/Mooncake, issue 1617): ideal are 145 and 386, of which these are 0.93 and 0.305; a
/// wall of host memory that all share gives what comes out at eight, whatever their number.
#[test]
fn nics_add_up_to_the_wall_that_they_share() {
    let model = named("qwen3-8b");
    let one = Side { tensor: 1, pipeline: 1 };
    let list = pieces(&model, 262_144, Number::Bf16, one, one);
    let bytes: u64 = list.iter().map(|piece| piece.bytes().get()).sum();
    let rate = |transport: Transport| bytes as f64 / transport.time(&list, NicChoice::Striped).as_us() / 1e3;
    let (three, eight) = (rate(nics(3, 48.3)), rate(nics(8, 48.3)));
    assert!((three / 145.0 - 1.0).abs() < 0.03 && (eight / 386.0 - 1.0).abs() < 0.03, "{three} {eight}");
    assert!((135.0 / three / 0.93 - 1.0).abs() < 0.03, "{three}");
    assert!((118.0 / eight / 0.305 - 1.0).abs() < 0.05, "{eight}");
    for count in [1u64, 2, 3, 4, 8] {
        let walled = rate(Transport { host: Some(Rate::gbyte(118)), ..nics(count, 48.3) });
        let rule = (count as f64 * 48.3).min(118.0);
        assert!((walled / rule - 1.0).abs() < 0.01, "{count}: {walled} {rule}");
    }
}

/// A cache's transfer follows latency and what bounds each block, and nothing of how a library would sum: one block more is its
/// cost more, and no algorithm or protocol has a part in it.
#[test]
fn caches_follow_blocks_and_latency() {
    let model = named("qwen3-8b");
    let side = Side { tensor: 8, pipeline: 1 };
    let time = |tokens: u64, transport: Transport| {
        transport.time(&pieces(&model, tokens, Number::Bf16, side, side), NicChoice::Affine).as_us()
    };
    let slow = Transport { per_block: Span::from_us(10), block: Bytes::kib(16), ..nics(8, 50.0) };
    // 147,456 B a token, an eighth on each NIC: nine tokens are ten blocks and an eighth of 16 KiB.
    assert!((time(8192, slow) / (8192.0 * 147_456.0 / 8.0 / 16_384.0 * 10.0) - 1.0).abs() < 0.01);
    assert!((time(8192, slow) / time(4096, slow) - 2.0).abs() < 0.01);
    let based = Transport { base: Span::from_us(500), ..nics(8, 50.0) };
    assert!((time(64, based) - time(64, nics(8, 50.0)) - 500.0).abs() < 0.01);
}

/// Within a rack of NVL72 a cache needs no NIC: between its trays there is NVLink, between racks there is not.
#[test]
fn caches_stay_in_the_rack() {
    let racks = Cluster::of("nvl72-gb200", 36).fabric;
    let classes = |from: usize, to: usize| -> Vec<LinkClass> {
        let route = racks.route(&RouteRequest::auto(racks.gpus()[from], racks.gpus()[to])).unwrap();
        route.links.iter().map(|link| racks.link(*link).class).collect()
    };
    for (from, to) in [(0, 4), (3, 71), (10, 40)] {
        assert!(classes(from, to).iter().all(|class| *class == LinkClass::NvLink), "{from} {to}");
    }
    assert!(classes(0, 72).iter().any(|class| class.is_network()));
}

fn llama() -> Model {
    named("llama3-70b")
}

fn decode(model: &Model, tensor: u64, memory: Rate) -> Instance<'_> {
    let machine = Machine::ideal(FlopRate::from_tera(990.0), memory);
    let still = Launch::Graph(Span::ZERO);
    let shape = ShapeSpec { tensor, ..ShapeSpec::default() }.check(model).unwrap();
    Instance { launch: still, launch_prefill: still, ..Instance::new(model, shape, machine) }
}

/// Sums that take so long, whatever is summed.
fn sums(ranks: u64, us: f64) -> Closed {
    let link = Link { latency: Span::from_us_f64(us), rate: Rate::from_gbyte_f64(1e6) };
    let reach = Reach { ranks, together: ranks, inside: link, outside: link };
    Closed { reach: BTreeMap::from([(Group::Tensor, reach)]), choice: Choice::OneShot }
}

/// Sixteen GPUs read 70B's weights 2.61 ms sooner than eight, and pay it back if each of 160 sums takes 16.3 µs longer. Small
/// sums over two nodes take 46 µs (NVIDIA/nccl, issue 1244), so they do. Llama 3's eight heads of keys and values are held twice
/// by sixteen, which saves less.
#[test]
fn tensor_parallelism_over_two_nodes_breaks_even_at_sixteen_microseconds() {
    let even = |kv_heads| {
        let spec = ModelSpec {
            layers: 80,
            hidden: 8192,
            heads: 64,
            kv_heads: Some(kv_heads),
            ffn: 28_672,
            gated: true,
            vocab: 128_256,
            ..ModelSpec::default()
        };
        let model = spec.check().unwrap();
        let token = |ranks, us| {
            let instance = decode(&model, ranks, Rate::gbyte(3350));
            Steps::new(&instance, &sums(ranks, us)).time(&Batch::decode(1, 1)).total().as_us()
        };
        let saved = token(8, 0.0) - token(16, 0.0);
        let each = (token(16, 10.0) - token(16, 0.0)) / 10.0;
        println!("{kv_heads} heads: saved {saved:.0} µs, {each:.0} sums: even at {:.2} µs more", saved / each);
        assert!(token(16, 46.0) > token(8, 8.0));
        saved / each
    };
    let (eight, sixteen) = (even(8), even(16));
    assert!((sixteen / 16.3 - 1.0).abs() < 0.03, "{sixteen}");
    assert!(eight < sixteen && eight > 15.0, "{eight}");
}

/// Sums of 19.4 µs, 100 of them a token, at 95 tokens/s: with sums of 4 µs 111 tokens/s (haohervchb/sglang-V100, pull request 2; measured 117).
#[test]
fn faster_sums_give_as_many_more_tokens() {
    let model = llama();
    let batch = Batch::decode(1, 1);
    let sums_of = |us| sums(4, us);
    let (fast, slow) = (sums_of(4.0), sums_of(19.4));
    // A memory so fast that 100 sums' share of 80 layers' 162 is as long as it was there: 95 tokens/s.
    let count = 162.0;
    let kernels = 1e6 / 95.0 * count / 100.0 - count * 19.4;
    let probe = Steps::new(&decode(&model, 4, Rate::gbyte(1000)), &sums_of(0.0)).time(&batch).total().as_us();
    let instance = decode(&model, 4, Rate::from_gbyte_f64(1000.0 * probe / kernels));
    let time = |messages: &Closed| Steps::new(&instance, messages).time(&batch).total().as_us();
    let (before, after) = (1e6 / (time(&slow) * 100.0 / count), 1e6 / (time(&fast) * 100.0 / count));
    println!("{before:.1} and {after:.1} tokens/s");
    assert!((before / 95.0 - 1.0).abs() < 0.02 && (after / 111.0 - 1.0).abs() < 0.06, "{before} {after}");
}

/// At α·β a link gives half of its rate; at a tenth of that size 9 %, at nine times 90 %. NVLink 439 KiB, PCIe 5 107, InfiniBand 146: 512 KiB, which
/// a decode of 32 sequences of 70B sends, is a little above the first, and 27.5 sequences send as much.
#[test]
fn messages_are_in_the_regime_of_latency_below_alpha_times_beta() {
    for (us, rate, kib) in [(1.0, 450.0, 439), (2.0, 55.0, 107), (3.0, 50.0, 146)] {
        let half = us * 1e-6 * rate * 1e9;
        assert_eq!((half / 1024.0) as u64, kib);
        let link = Link { latency: Span::from_us_f64(us), rate: Rate::from_gbyte_f64(rate) };
        let reach = Reach { ranks: 2, together: 2, inside: link, outside: link };
        let closed = Closed { reach: BTreeMap::from([(Group::Tensor, reach)]), choice: Choice::OneShot };
        let efficiency = |part: f64| {
            let bytes = Bytes::new((half * part) as u64);
            let call =
                Call { name: "sum", operation: Operation::AllReduce, bytes, group: Group::Tensor, exchange: None };
            bytes.get() as f64 / closed.time(&call).as_us() / 1e3 / rate
        };
        for (part, known) in [(0.1, 0.0909), (1.0, 0.5), (9.0, 0.9)] {
            assert!((efficiency(part) / known - 1.0).abs() < 0.01, "{rate} {part}: {}", efficiency(part));
        }
    }
    let model = llama();
    let instance = decode(&model, 8, Rate::gbyte(3350));
    let sum = |batch| {
        let counted = instance.calls(&Batch::decode(batch, 1));
        counted.iter().find(|c| c.count == 80).unwrap().call.bytes.get()
    };
    assert_eq!(sum(32), 512 << 10);
    assert!((450_000.0 / sum(1) as f64 - 27.5).abs() < 0.1, "{}", sum(1));
    // Played on eight H100: below that size time hardly follows the bytes, above it does.
    let cluster = Cluster::of("hgx-h100", 1);
    let groups = vec![(0..8).collect::<Vec<u32>>()];
    let time = |bytes: u64| {
        let call = Call {
            name: "sum",
            operation: Operation::AllReduce,
            bytes: Bytes::new(bytes),
            group: Group::Tensor,
            exchange: None,
        };
        cluster.alone(groups.clone(), call, |_| {}).0.as_us()
    };
    let (small, large) = (time(16 << 10) / time(8 << 10), time(512 << 20) / time(256 << 20));
    println!("twice the bytes: {small:.3} times at 8 KiB, {large:.3} times at 256 MiB");
    assert!(small < 1.15 && large > 1.9, "{small} {large}");
}
