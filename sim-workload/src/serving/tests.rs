//! Steps, requests and caches against closed forms and figures that follow from them.

#[path = "../../tests/serving_common/closed.rs"]
mod closed;

use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use sim_core::units::{Bytes, Rate, Span, Time};

use closed::{Choice, Closed, Link, Reach};

use super::cache_transfer::{NicChoice, Side, Transport, pieces};
use super::goodput::{Goal, find};
use super::report::{Report, Slo};
use super::requests::{Arrivals, Demand, Lengths};
use super::server::{Deployment, Handover, Limits, Load, Order, Pool, serve};
use super::step::Steps;
use super::*;
use crate::compute::Figures;
use crate::model::Models;
use crate::parallel::Group;
use crate::units::FlopRate;

fn model(name: &str) -> &'static Model {
    &Models::builtin().get(name).unwrap().model
}

fn shape(name: &str, tensor: u64, pipeline: u64, data: u64) -> Shape {
    ShapeSpec { tensor, pipeline, data, expert: None }.check(model(name)).unwrap()
}

/// Peaks only, no launches.
fn ideal(name: &str, shape: Shape) -> Instance<'static> {
    let machine = Machine::ideal(FlopRate::from_tera(989.4), Rate::gbyte(3350));
    let still = Launch::Graph(Span::ZERO);
    Instance { launch: still, launch_prefill: still, ..Instance::new(model(name), shape, machine) }
}

fn h100(name: &str, shape: Shape) -> Instance<'static> {
    let figures = Figures::builtin();
    let machine = Machine::of(figures.device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures);
    Instance::new(model(name), shape, machine)
}

/// A tensor group of `ranks` in one domain; each message takes `latency` at a rate that does not count.
fn flat(ranks: u64, latency: Span) -> Closed {
    let link = Link { latency, rate: Rate::gbyte(1_000_000) };
    let reach = Reach { ranks, together: ranks, inside: link, outside: link };
    Closed { reach: BTreeMap::from([(Group::Tensor, reach)]), choice: Choice::OneShot }
}

#[test]
fn decoding_reads_all_weights_and_the_cache() {
    // 70e9·2/(8·3.35e12) = 5.2 ms on 8 GPUs; 160 messages of 131 KB (N = 8), at 10 µs each 1.6 ms.
    let instance = ideal("llama3-70b", shape("llama3-70b", 8, 1, 1));
    let messages = flat(8, Span::from_us(10));
    let steps = Steps::new(&instance, &messages);
    let batch = Batch::decode(8, 1);
    let parts = steps.time(&batch);
    assert!((parts.kernels.as_us() / 5.2e3 - 1.0).abs() < 0.03, "{}", parts.kernels.as_us());
    let counted = instance.calls(&batch);
    let sums: u64 = counted.iter().filter(|c| c.call.name.starts_with("sum of ") && c.count > 1).map(|c| c.count).sum();
    assert_eq!(sums, 160);
    assert!(counted.iter().filter(|c| c.count > 1).all(|c| c.call.bytes == Bytes::new(131_072)));
    assert!((parts.messages.as_us() / 1620.0 - 1.0).abs() < 0.01, "{}", parts.messages.as_us());
    // The cache: 327,680 B a token, an eighth on each GPU.
    let long = steps.time(&Batch::decode(8, 32_769)).kernels - parts.kernels;
    let read = Rate::gbyte(3350).time_for(Bytes::new(8 * 32_768 * 327_680 / 8));
    assert!((long.as_us() / read.as_us() - 1.0).abs() < 1e-3, "{} {}", long.as_us(), read.as_us());
}

#[test]
fn weights_and_room() {
    let p = model("llama3-70b").parameters();
    let one = ideal("llama3-70b", shape("llama3-70b", 8, 1, 1));
    assert!((one.weights().get() as f64 / (2.0 * p as f64 / 8.0) - 1.0).abs() < 1e-3);
    assert_eq!(one.cache_per_token(), Bytes::new(40_960));
    assert_eq!(one.room(one.weights() + Bytes::new(40_960 * 1000)), 1000);
    assert_eq!(one.room(Bytes::ZERO), 0);
    // Eight ranks share DeepSeek's experts, attention is whole on each.
    let wide = ideal("deepseek-v3", shape("deepseek-v3", 1, 1, 8));
    let v3 = model("deepseek-v3");
    let experts: u64 = (0..v3.layers).map(|l| v3.layer_parameters(v3.kind(l)).experts).sum();
    let expected = 2 * (v3.parameters() - experts + experts / 8);
    assert!((wide.weights().get() as f64 / expected as f64 - 1.0).abs() < 1e-3);
    assert_eq!(wide.cache_per_token(), Bytes::new(70_272));
}

#[test]
fn prefill_is_bound_by_operations() {
    let instance = ideal("llama3-70b", shape("llama3-70b", 4, 1, 1));
    let nothing = Closed::default();
    let time = Steps::new(&instance, &nothing).time(&Batch::prefill(1, 4096)).kernels;
    // 2·P·S without the embedding, and the head for one token; 2·L·a·d·S² of attention. Norms and activations pass over memory besides.
    let m = model("llama3-70b");
    let layers = m.parameters() - 2 * m.vocab * m.hidden;
    let flops = 2.0 * layers as f64 * 4096.0 + 2.0 * 80.0 * 8192.0 * 4096.0 * 4096.0;
    let bound = flops / (4.0 * 989.4e12) * 1e6;
    assert!(time.as_us() > bound && time.as_us() < bound * 1.2, "{} {bound}", time.as_us());
    // Chunks take as long in all, but for weights and cache that are read again.
    let chunks: f64 = (0..4)
        .map(|i| Batch {
            prefills: vec![Chunk { new: 1024, past: 1024 * i }],
            finished: u64::from(i == 3),
            ..Batch::default()
        })
        .map(|b| Steps::new(&instance, &nothing).time(&b).kernels.as_us())
        .sum();
    assert!(chunks >= time.as_us() && chunks < time.as_us() * 1.15, "{chunks} {}", time.as_us());
}

#[test]
fn only_touched_experts_are_read() {
    use super::kernels::touched;
    assert_eq!(touched(256, 8, 1), 8);
    assert_eq!(touched(256, 8, 100_000), 256);
    assert_eq!(touched(256, 8, 0), 0);
    let instance = ideal("deepseek-v3", shape("deepseek-v3", 8, 1, 1));
    let bytes =
        |n| instance.layer_kernels(crate::model::LayerKind::Experts, None, &Batch::decode(n, 1000)).bytes().get();
    assert!(bytes(256) > 10 * bytes(1), "{} {}", bytes(256), bytes(1));
}

#[test]
fn shared_experts_over_tensor_ranks_are_summed() {
    let calls = |name: &str, expert: u64| {
        let spec = ShapeSpec { tensor: 4, expert: Some(expert), ..ShapeSpec::default() };
        let instance = ideal(name, spec.check(model(name)).unwrap());
        let all = instance.layer_calls(crate::model::LayerKind::Experts, &Batch::decode(16, 1000));
        all.into_iter().map(|call| (call.name, call.bytes.get())).collect::<Vec<_>>()
    };
    let whole = 16 * 7168 * 2;
    let found = calls("deepseek-v3", 4);
    assert!(found.contains(&("sum of shared experts", whole)), "{found:?}");
    assert!(found.contains(&("tokens of the tensor group", whole)), "{found:?}");
    // All in one sum where experts have no ranks to themselves; no shared experts, no sum of them.
    assert_eq!(calls("deepseek-v3", 1), [("sum of attention", whole), ("sum of FFN", whole)]);
    assert!(calls("qwen3-235b-a22b", 4).iter().all(|(name, _)| *name != "sum of shared experts"));
}

#[test]
fn two_halves_in_turn_hide_what_is_shorter_but_at_one_end() {
    // n layers of two halves: 2·n of what is longer, and once the shorter, at the start or at the end.
    let v3 = "deepseek-v3";
    let reach = |us: u64| {
        let link = Link { latency: Span::from_us(us), rate: Rate::gbyte(1_000_000) };
        let reach = Reach { ranks: 8, together: 8, inside: link, outside: link };
        Closed { reach: BTreeMap::from([(Group::Expert, reach)]), choice: Choice::OneShot }
    };
    for us in [1, 5000] {
        let messages = reach(us);
        let plain = ideal(v3, shape(v3, 1, 1, 8));
        let both = Instance { two_batches: true, ..plain.clone() };
        let batch = Batch::decode(8 * 64, 1000);
        let share = batch.share(8);
        let kernels = |layer: crate::model::LayerKind| {
            plain.time_of(&plain.layer_kernels(layer, None, &share.halves()[0]), plain.launch)
        };
        let (experts, dense) = (kernels(crate::model::LayerKind::Experts), kernels(crate::model::LayerKind::Dense));
        let sent: Span = plain
            .layer_calls(crate::model::LayerKind::Experts, &share.halves()[0])
            .iter()
            .map(|c| messages.time(c))
            .sum();
        let ends = plain.time_of(&plain.first_kernels(&share), plain.launch)
            + plain.time_of(&plain.last_kernels(&share), plain.launch);
        let expected = experts.max(sent) * (2 * 58) + dense * (2 * 3) + experts.min(sent) + ends;
        assert_eq!(Steps::new(&both, &messages).time(&batch).total(), expected, "{us}");
    }
}

#[test]
fn larger_tensor_groups_decode_faster_until_messages_take_over() {
    // TP16 saves 140 GB/8 − 140 GB/16 over 3.35 TB/s, 2.6 ms of weights, and pays 160 all-reduces: 16.3 µs each break even.
    let at = |tensor: u64, us: u64| {
        let instance = ideal("llama3-70b", shape("llama3-70b", tensor, 1, 1));
        let messages = flat(tensor, Span::from_us(us));
        Steps::new(&instance, &messages).time(&Batch::decode(1, 1)).total().as_us()
    };
    let saved = at(8, 0) - at(16, 0);
    assert!((saved / 160.0 - 16.3).abs() < 0.5, "{}", saved / 160.0);
    assert!(at(16, 10 + 14) < at(8, 10) && at(16, 10 + 19) > at(8, 10));
    // The published 46 µs of a small all-reduce over two nodes: TP8 is faster.
    assert!(at(16, 46) > at(8, 10));
}

#[test]
fn a_faster_all_reduce_gives_more_tokens() {
    // 95 tokens a second with 100 all-reduces of 19.4 µs: with 4 µs it would be 111.
    let before = 1e6 / 95.0;
    let messages = |us: f64| flat(4, Span::from_us_f64(us));
    let call = |closed: &Closed| {
        let call = crate::step::plan::Call {
            name: "sum",
            operation: crate::messages::Operation::AllReduce,
            bytes: Bytes::kib(4),
            group: Group::Tensor,
            exchange: None,
        };
        closed.time(&call).as_us()
    };
    let after = before - 100.0 * (call(&messages(19.4)) - call(&messages(4.0)));
    assert!((1e6 / after - 111.0).abs() < 1.0, "{}", 1e6 / after);
}

#[test]
fn absorbed_latent_attention_reads_the_latent_vectors_once() {
    let instance = ideal("deepseek-v3", shape("deepseek-v3", 1, 1, 1));
    let kernels = instance.layer_kernels(crate::model::LayerKind::Dense, None, &Batch::decode(4, 10_000));
    let (_, bytes) = kernels.all().iter().find(|(k, _)| k.name == "attention of decoding").unwrap();
    let cache = 4 * 10_000 * (512 + 64) * 2;
    let queries = 4 * 128 * (576 + 512) * 2;
    assert_eq!(bytes.get(), cache + queries);
}

#[test]
fn closed_forms_of_the_reference() {
    // α = 1 µs, β = 450 GB/s, n = 8, 512 KiB: ring 16.04 µs, two shots 4.04, one shot 9.16.
    let link = Link { latency: Span::from_us(1), rate: Rate::gbyte(450) };
    let reach = Reach { ranks: 8, together: 8, inside: link, outside: link };
    let time = |choice, bytes| {
        let closed = Closed { reach: BTreeMap::from([(Group::Tensor, reach)]), choice };
        let (name, operation, group) = ("sum", crate::messages::Operation::AllReduce, Group::Tensor);
        closed.time(&crate::step::plan::Call { name, operation, bytes, group, exchange: None }).as_us()
    };
    let half = Bytes::kib(512);
    assert_eq!(format!("{:.2}", time(Choice::Ring, half)), "16.04");
    assert_eq!(format!("{:.2}", time(Choice::TwoShot, half)), "4.04");
    assert_eq!(format!("{:.2}", time(Choice::OneShot, half)), "9.16");
    // One shot is below two below 83.7 KiB, and below the ring below 1.06 MiB.
    assert!(time(Choice::OneShot, Bytes::kib(83)) < time(Choice::TwoShot, Bytes::kib(83)));
    assert!(time(Choice::OneShot, Bytes::kib(84)) > time(Choice::TwoShot, Bytes::kib(84)));
    assert!(time(Choice::OneShot, Bytes::kib(1080)) < time(Choice::Ring, Bytes::kib(1080)));
    assert!(time(Choice::OneShot, Bytes::kib(1090)) > time(Choice::Ring, Bytes::kib(1090)));
    // The engine's rule: one shot below 256 KiB on 8 GPUs, NCCL from 8 MiB on.
    assert!((time(Choice::Vllm, Bytes::kib(128)) - time(Choice::OneShot, Bytes::kib(128))).abs() < 1e-9);
    assert!((time(Choice::Vllm, Bytes::mib(16)) - time(Choice::Ring, Bytes::mib(16))).abs() < 1e-9);
}

fn pool<'a>(instance: &'a Instance<'a>, messages: &'a dyn Messages, limits: Limits, order: Order) -> Pool<'a> {
    Pool { steps: Steps::new(instance, messages), count: 1, limits, order }
}

fn demand(rate: f64, prompt: u64, output: u64, count: u64) -> Demand {
    let arrivals = Arrivals::Poisson { rate };
    Demand { arrivals, prompts: Lengths::Fixed(prompt), outputs: Lengths::Fixed(output), count, seed: 11 }
}

const WIDE: Limits = Limits { sequences: 256, tokens: 8192, cache: 10_000_000 };

#[test]
fn one_request_takes_its_prefill_and_its_steps() {
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    for order in [Order::PrefillFirst, Order::Chunked] {
        let pool = pool(&instance, &messages, WIDE, order);
        let run = serve(&Deployment::Together(&pool), &demand(1.0, 2000, 3, 1).draw()).unwrap();
        let prefill = pool.steps.time(&Batch::prefill(1, 2000)).total();
        assert_eq!(run.served[0].first.since(run.served[0].request.at), prefill);
        let steps = pool.steps.time(&Batch::decode(1, 2001)).total() + pool.steps.time(&Batch::decode(1, 2002)).total();
        assert_eq!(run.served[0].last.since(run.served[0].first), steps);
    }
}

#[test]
fn one_at_a_time_is_the_queue_of_the_textbook() {
    // Fixed service, Poisson arrivals, one server: mean waiting ρ·S/(2·(1 − ρ)) (Pollaczek and Khinchine).
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let pool = pool(&instance, &messages, Limits { sequences: 1, ..WIDE }, Order::PrefillFirst);
    let service = pool.steps.time(&Batch::prefill(1, 4000)).total().as_us() / 1e6;
    for load in [0.3, 0.7] {
        let deployment = Deployment::Together(&pool);
        let run = serve(&deployment, &demand(load / service, 4000, 1, 40_000).draw()).unwrap();
        let report = Report::of(&run, &deployment, 0);
        let expected = load * service / (2.0 * (1.0 - load)) * 1e3;
        assert!((report.waiting.mean / expected - 1.0).abs() < 0.06, "{load}: {} {expected}", report.waiting.mean);
        assert!((report.busy[0] - load).abs() < 0.02);
    }
}

#[test]
fn batches_raise_throughput_and_lengthen_steps() {
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let at = |sequences: u64| {
        let pool = pool(&instance, &messages, Limits { sequences, ..WIDE }, Order::Chunked);
        let deployment = Deployment::Together(&pool);
        let all = Demand { arrivals: Arrivals::AtOnce, ..demand(1.0, 500, 200, 256) };
        let run = serve(&deployment, &all.draw()).unwrap();
        Report::of(&run, &deployment, 0)
    };
    let (few, many) = (at(4), at(128));
    assert!(many.output_per_s > 5.0 * few.output_per_s, "{} {}", many.output_per_s, few.output_per_s);
    assert!(many.tpot.p50 > few.tpot.p50);
    assert!(many.batch > 60.0 && few.batch <= 4.0);
}

struct After(Span, bool);

impl Handover for After {
    fn time(&self, _from: u32, _to: u32, _tokens: u64) -> Span {
        self.0
    }
    fn loads(&self, from: u32, to: u32) -> Rc<[Load]> {
        // A NIC of each instance, which is busy all the time with 4000 tokens.
        [from, 1000 + to].map(|link| Load { link, ps_per_token: self.0.as_ps() as f64 / 4000.0 }).into()
    }
    fn by_layer(&self) -> bool {
        self.1
    }
}

#[test]
fn two_pools_add_the_transfer_to_the_first_token() {
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let one = pool(&instance, &messages, WIDE, Order::PrefillFirst);
    let two = pool(&instance, &messages, WIDE, Order::Chunked);
    let first = |handover: &dyn Handover| {
        let deployment = Deployment::Apart { prefill: &one, decode: &two, handover };
        let run = serve(&deployment, &demand(1.0, 4000, 10, 1).draw()).unwrap();
        (run.served[0].ttft_ms(), run.served[0].landed.since(run.served[0].filled))
    };
    let (prefill, step) = (one.steps.time(&Batch::prefill(1, 4000)), two.steps.time(&Batch::decode(1, 4001)));
    let (ttft, sent) = first(&After(Span::from_us(5000), false));
    assert_eq!(sent, Span::from_us(5000));
    assert!((ttft - (prefill.total() + step.total()).as_us() / 1e3 - 5.0).abs() < 1e-6);
    // Layer by layer only the last of 32 layers is left.
    let (_, sent) = first(&After(Span::from_us(3200), true));
    assert_eq!(sent, Span::from_us(100));
}

#[test]
fn caches_share_the_links_of_senders_and_receivers() {
    // Prompts that all come at once to four instances, each with one: their caches go into one instance, or into four.
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let with = |prefill: u32, decode: u32| {
        let one = Pool { count: prefill, ..pool(&instance, &messages, WIDE, Order::PrefillFirst) };
        let two = Pool { count: decode, ..pool(&instance, &messages, WIDE, Order::Chunked) };
        let handover = After(Span::from_us(5000), false);
        let deployment = Deployment::Apart { prefill: &one, decode: &two, handover: &handover };
        let all = Demand { arrivals: Arrivals::AtOnce, ..demand(1.0, 4000, 10, 4) };
        let run = serve(&deployment, &all.draw()).unwrap();
        let took = run.served.iter().map(|s| s.landed.since(s.filled).as_us() / 1e3);
        took.map(|ms| (ms * 1e3).round() / 1e3).collect::<Vec<_>>()
    };
    assert_eq!(with(4, 4), [5.0; 4]);
    assert_eq!(with(4, 1), [20.0; 4]);
    assert_eq!(with(4, 2), [10.0; 4]);
    // One sender makes two prompts in a step and sends them to two receivers.
    assert_eq!(with(2, 4), [10.0; 4]);
}

#[test]
fn a_run_is_stopped_from_outside() {
    use super::server::{ServeError, serve_until};
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let pool = pool(&instance, &messages, WIDE, Order::Chunked);
    let deployment = Deployment::Together(&pool);
    let asked = demand(10.0, 100, 100, 5000);
    let looks = std::cell::Cell::new(0);
    let stop = || {
        looks.set(looks.get() + 1);
        looks.get() > 3
    };
    assert_eq!(serve_until(&deployment, &asked.draw(), &stop).unwrap_err(), ServeError::Stopped);
    assert_eq!(looks.replace(0), 4);
    let goal = Goal { slo: Slo { ttft_ms: 1e3, tpot_ms: 30.0 }, share: 0.9, warm: 0 };
    assert_eq!(find(&deployment, &asked, goal, &stop).unwrap_err(), ServeError::Stopped);
    looks.set(9);
    assert_eq!(asked.draw_until(&stop), None);
}

#[test]
fn a_full_pool_of_decoding_holds_prompts_back() {
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let one = pool(&instance, &messages, WIDE, Order::PrefillFirst);
    let two = pool(&instance, &messages, Limits { cache: 1200, ..WIDE }, Order::Chunked);
    let handover = After(Span::from_us(10), false);
    let deployment = Deployment::Apart { prefill: &one, decode: &two, handover: &handover };
    let all = Demand { arrivals: Arrivals::AtOnce, ..demand(1.0, 1000, 100, 5) };
    let run = serve(&deployment, &all.draw()).unwrap();
    // One after the other: room for a single request.
    for pair in run.served.windows(2) {
        assert!(pair[1].landed > pair[0].last);
    }
    let error = serve(&deployment, &demand(1.0, 1000, 300, 1).draw()).unwrap_err();
    assert!(error.to_string().contains("room for 1200"), "{error}");
}

#[test]
fn stages_are_filled_by_several_lanes() {
    let messages = Closed::default();
    let rate = |pipeline: u64| {
        let instance = h100("llama3-70b", shape("llama3-70b", 4, pipeline, 1));
        let pool = pool(&instance, &messages, Limits { sequences: 64, ..WIDE }, Order::Chunked);
        let deployment = Deployment::Together(&pool);
        let all = Demand { arrivals: Arrivals::AtOnce, ..demand(1.0, 100, 200, 128) };
        let report = Report::of(&serve(&deployment, &all.draw()).unwrap(), &deployment, 0);
        (report.output_per_s, report.tpot.p50, report.busy[0])
    };
    let (one, two) = (rate(1), rate(2));
    // Each of two lanes of 32 passes two stages of half the layers: as long as 64 in one, less what half the batch saves.
    assert!(two.0 > one.0 * 0.95 && two.1 < one.1 * 1.05, "{one:?} {two:?}");
    assert!(two.2 > 0.85, "{two:?}");
}

#[test]
fn goodput_is_where_requests_begin_to_be_late() {
    let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, 1, 1));
    let messages = Closed::default();
    let pool = pool(&instance, &messages, WIDE, Order::Chunked);
    let deployment = Deployment::Together(&pool);
    let goal = |ttft_ms: f64| Goal { slo: Slo { ttft_ms, tpot_ms: 30.0 }, share: 0.9, warm: 20 };
    let found = |ttft| find(&deployment, &demand(1.0, 2000, 100, 300), goal(ttft), &|| false).unwrap();
    let (tight, loose) = (found(200.0), found(1000.0));
    assert!(tight.rate > 0.5 && tight.rate < loose.rate, "{} {}", tight.rate, loose.rate);
    let above: Vec<_> = loose.tried.iter().filter(|t| t.0 > loose.rate).collect();
    assert!(above.iter().all(|t| t.1 < 0.9) && !above.is_empty(), "{:?}", loose.tried);
    assert_eq!(found(1e-3).rate.to_bits(), 0.0f64.to_bits());
    // Forty that all come at once are served in time; as many as come in an hour are not.
    let of = |count| {
        let goal = Goal { warm: 0, ..goal(10_000.0) };
        find(&deployment, &demand(1.0, 2000, 100, count), goal, &|| false).unwrap()
    };
    let (few, many) = (of(40), of(10_000));
    assert!(!few.unbounded && few.requests > 40, "{few:?}");
    assert!((few.rate / many.rate - 1.0).abs() < 0.1, "{} {}", few.rate, many.rate);
}

#[test]
fn caches_are_divided_anew() {
    let qwen = model("qwen3-8b");
    let side = |tensor, pipeline| Side { tensor, pipeline };
    let all = |from, to| pieces(qwen, 32_768, Number::Bf16, from, to);
    // 147,456 B a token: 4.83 GB, whatever the sides.
    for (from, to) in
        [(side(8, 1), side(8, 1)), (side(8, 1), side(2, 1)), (side(2, 2), side(4, 1)), (side(1, 4), side(8, 2))]
    {
        let sum: u64 = all(from, to).iter().map(|p| p.bytes().get()).sum();
        assert_eq!(sum, 147_456 * 32_768, "{from:?} {to:?}");
        let pieces = all(from, to);
        for rank in 0..to.ranks() {
            let got: u64 = pieces.iter().filter(|p| p.to == rank).map(|p| p.bytes().get()).sum();
            assert_eq!(got, 147_456 * 32_768 / to.ranks(), "{from:?} {to:?} {rank}");
        }
    }
    // Each of two decoding ranks reads from four.
    assert_eq!(all(side(8, 1), side(2, 1)).iter().filter(|p| p.to == 0).count(), 4);
    // 16 ranks of 8 heads: copies, of which each receiver takes one.
    assert_eq!(all(side(16, 1), side(8, 1)).len(), 8);
    let doubled: u64 = all(side(8, 1), side(16, 1)).iter().map(|p| p.bytes().get()).sum();
    assert_eq!(doubled, 2 * 147_456 * 32_768);
    // Latent vectors are whole on each rank.
    let v3 = pieces(model("deepseek-v3"), 1000, Number::Bf16, side(2, 1), side(4, 1));
    assert!(v3.iter().all(|p| p.bytes().get() == 70_272_000) && v3.len() == 4);
}

#[test]
fn one_nic_for_all_takes_eight_times_as_long() {
    let transport = Transport {
        nic: Rate::gbyte(50),
        share: 1_000_000,
        nics: 8,
        per_block: Span::ZERO,
        block: Bytes::mib(1),
        base: Span::ZERO,
        gpu: None,
        host: None,
    };
    let side = Side { tensor: 8, pipeline: 1 };
    let cache = pieces(model("llama3-70b"), 8000, Number::Bf16, side, side);
    let time = |choice| transport.time(&cache, choice).as_us();
    assert!((time(NicChoice::Pinned(0)) / time(NicChoice::Affine) - 8.0).abs() < 1e-3);
    assert!((time(NicChoice::Striped) / time(NicChoice::Affine) - 1.0).abs() < 1e-3);
    assert!((time(NicChoice::RoundRobin) / time(NicChoice::Affine) - 1.0).abs() < 1e-3);
    // One rank sends all: stripes use all NICs, its own one does not.
    let alone = pieces(
        model("llama3-70b"),
        8000,
        Number::Bf16,
        Side { tensor: 1, pipeline: 1 },
        Side { tensor: 1, pipeline: 1 },
    );
    let ratio = transport.time(&alone, NicChoice::Affine).as_us() / transport.time(&alone, NicChoice::Striped).as_us();
    assert!((ratio - 8.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn the_queue_of_a_nic_is_one_for_all_that_is_posted_to_it() {
    use super::cache_transfer::waits;
    let us = Span::from_us;
    let (a, b) = (Some(("a", us(10))), Some(("b", us(10))));
    // In order of starts, then of the list; what has no queue does not wait.
    let posts = [(us(5), a), (us(0), a), (us(0), b), (us(0), None), (us(30), a)];
    assert_eq!(waits(&posts), [us(5), us(0), us(0), us(0), us(0)]);
    // Blocks of 64 KiB of 100 µs each: eight times as long by one NIC as by eight, as closed form and as messages.
    let transport = Transport {
        nic: Rate::gbyte(50),
        share: 1_000_000,
        nics: 8,
        per_block: us(100),
        block: Bytes::kib(64),
        base: us(3),
        gpu: None,
        host: None,
    };
    let side = |tensor| Side { tensor, pipeline: 1 };
    let last = |to, choice, prefill| {
        let cache = pieces(model("llama3-70b"), 8000, Number::Bf16, side(8), side(to));
        let queue = |_, nic, _| Ok::<_, ()>((Vec::new(), Some(nic)));
        let all = transport.messages(&cache, choice, 80, prefill, queue).unwrap();
        let ends = all.iter().map(|m| (m.start + m.launch + m.pace.unwrap().time_for(m.bytes)).as_us());
        (ends.fold(0.0, f64::max), transport.time(&cache, choice).as_us())
    };
    let own = last(8, NicChoice::Affine, None).0;
    for (choice, factor) in
        [(NicChoice::Affine, 1.0), (NicChoice::Striped, 1.0), (NicChoice::RoundRobin, 1.0), (NicChoice::Pinned(3), 8.0)]
    {
        let (engine, closed) = last(8, choice, None);
        assert!((engine / own / factor - 1.0).abs() < 1e-3, "{choice:?}: {engine} {own}");
        assert!((engine / closed - 1.0).abs() < 1e-3, "{choice:?}: {engine} {closed}");
    }
    // Receivers are bound by their wires alone.
    let (engine, closed) = last(2, NicChoice::Affine, None);
    assert!((engine / own - 1.0).abs() < 1e-3 && (closed / own - 1.0).abs() < 1e-3, "{engine} {closed} {own}");
    // Layers that are made while the queue is behind wait for their turn.
    let (engine, _) = last(8, NicChoice::Affine, Some(us(100)));
    assert!(engine > own && engine < own + 100.0, "{engine} {own}");
}

#[test]
fn shapes_that_are_none_say_what_would_do() {
    let fault = |name: &str, spec: ShapeSpec| {
        let faults = spec.check(model(name)).unwrap_err();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let spec = ShapeSpec::default();
    assert!(fault("llama3-70b", ShapeSpec { tensor: 3, ..spec }).contains("near: tp = 1, 2, 4 or 8"));
    assert!(fault("llama3-70b", ShapeSpec { tensor: 0, ..spec }).contains("`tp = 0`"));
    assert!(fault("llama3-70b", ShapeSpec { data: 2, ..spec }).contains("replicas"));
    assert!(fault("llama3-70b", ShapeSpec { expert: Some(2), ..spec }).contains("no experts"));
    assert!(fault("deepseek-v3", ShapeSpec { tensor: 8, expert: Some(3), ..spec }).contains("near: ep = 1, 2, 4 or 8"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever is asked: each request gets its tokens in order of time, no instance works more than all the time, room is never
    /// exceeded, and one seed gives one run.
    #[test]
    fn runs_are_sound(
        rate in 0.5f64..200.0, prompt in 1u64..3000, output in 1u64..60, sequences in 1u64..40, tokens in 1u64..4000,
        pipeline in 1u64..4, count in 1u32..4, chunked: bool, apart: bool, seed: u64,
    ) {
        let instance = h100("llama3.1-8b", shape("llama3.1-8b", 1, pipeline, 1));
        let messages = Closed::default();
        let limits = Limits { sequences, tokens, cache: 3 * (prompt + output) + 100 };
        let order = if chunked { Order::Chunked } else { Order::PrefillFirst };
        let make = || Pool { steps: Steps::new(&instance, &messages), count, limits, order };
        let (one, two) = (make(), make());
        let handover = After(Span::from_us(700), chunked);
        let deployment = if apart {
            Deployment::Apart { prefill: &one, decode: &two, handover: &handover }
        } else {
            Deployment::Together(&one)
        };
        let asked = Demand { seed, ..demand(rate, prompt, output, 60) }.draw();
        let run = serve(&deployment, &asked).unwrap();
        for s in &run.served {
            prop_assert!(s.request.at <= s.begun && s.begun < s.filled && s.filled <= s.landed);
            prop_assert!(s.landed <= s.first && s.first <= s.last && s.last <= run.end);
            prop_assert!(s.request.output == 1 || s.last > s.first);
        }
        let made: u64 = run.did.iter().map(|d| d.decoded).sum();
        let expected = 60 * if apart { output } else { output - 1 };
        prop_assert_eq!(made, expected);
        for did in &run.did {
            prop_assert!(did.busy <= run.end.since(Time::ZERO) && did.most_cache <= limits.cache);
        }
        let again = serve(&deployment, &asked).unwrap();
        prop_assert_eq!(run.served, again.served);
    }
}
