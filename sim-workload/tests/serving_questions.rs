//! Statements about serving that were made in public, put to the models: which hold, and which need care.

#[path = "serving_common/closed.rs"]
mod closed;

use std::collections::BTreeMap;

use closed::{Choice, Closed, Link, Reach};

use sim_core::units::{Bytes, Rate, Span};
use sim_workload::compute::Machine;
use sim_workload::messages::Operation;
use sim_workload::model::{Model, ModelSpec, Models};
use sim_workload::parallel::Group;
use sim_workload::serving::messages::Messages;
use sim_workload::serving::report::Report;
use sim_workload::serving::requests::{Arrivals, Demand, Lengths};
use sim_workload::serving::server::{Deployment, Limits, Order, Pool, serve};
use sim_workload::serving::step::Steps;
use sim_workload::serving::{Batch, Instance, Launch, ShapeSpec};
use sim_workload::step::plan::Call;
use sim_workload::units::FlopRate;

fn llama() -> &'static Model {
    &Models::builtin().get("llama3-70b").unwrap().model
}

/// Mistral Small 3: 23.6 billion parameters (its config.json).
fn mistral() -> Model {
    let text = "name = \"mistral-small-24b\"\nlayers = 40\nhidden = 5120\nheads = 32\nkv_heads = 8\nhead_dim = 128\nffn = 32768\n\
                gated = true\nvocab = 131072\n";
    ModelSpec::from_toml(text).unwrap().check().unwrap()
}

/// An instance whose kernels take what memory and operations take at their peaks.
fn ideal<'a>(model: &'a Model, spec: ShapeSpec, gbps: u64) -> Instance<'a> {
    let machine = Machine::ideal(FlopRate::from_tera(312.0), Rate::gbyte(gbps));
    let still = Launch::Graph(Span::ZERO);
    Instance { launch: still, launch_prefill: still, ..Instance::new(model, spec.check(model).unwrap(), machine) }
}

fn over(ranks: u64, latency: f64, gbps: f64, choice: Choice) -> Closed {
    let link = Link { latency: Span::from_us_f64(latency), rate: Rate::from_gbyte_f64(gbps) };
    let reach = |ranks| Reach { ranks, together: ranks, inside: link, outside: link };
    Closed { reach: BTreeMap::from([(Group::Tensor, reach(ranks)), (Group::Pipeline, reach(2))]), choice }
}

fn reduce(bytes: Bytes) -> Call {
    Call { name: "sum", operation: Operation::AllReduce, bytes, group: Group::Tensor, exchange: None }
}

#[test]
fn gradients_of_70b_over_pcie_and_nvlink() {
    // "140 GB of gradients a step" holds (141 with the head of Llama 3). "About two seconds over PCIe 5" is one pass; a ring
    // all-reduce passes 2(n − 1)/n of it: 3.3 s on four GPUs, 3.9 s on eight.
    let bytes = Bytes::new(2 * llama().parameters());
    assert!((bytes.get() as f64 / 140e9 - 1.0).abs() < 0.01);
    let time =
        |ranks, gbps| over(ranks, 0.0, gbps, Choice::Ring).time(&reduce(Bytes::new(140_000_000_000))).as_us() / 1e6;
    assert_eq!(format!("{:.2} {:.2}", time(4, 64.0), time(8, 64.0)), "3.28 3.83");
    // "Near a tenth over NVLink": a seventh, at 450 GB/s of one direction.
    assert_eq!(format!("{:.3}", time(4, 450.0)), "0.467");
    assert!((time(4, 64.0) / time(4, 450.0) - 7.03).abs() < 0.01);
}

#[test]
fn one_hundred_and_sixty_sums_a_token() {
    // "80 synchronisations a token" counts layers: each has two.
    let instance = ideal(llama(), ShapeSpec { tensor: 4, ..ShapeSpec::default() }, 2039);
    let counted = instance.calls(&Batch::decode(1, 1));
    let in_layers: u64 =
        counted.iter().filter(|c| c.call.operation == Operation::AllReduce && c.count == 80).map(|c| c.count).sum();
    assert_eq!(in_layers, 160);
}

#[test]
fn small_batches_pay_the_start_of_every_sum() {
    // As the batch goes to nothing the messages of a step go to their number times the time of an empty one.
    let instance = ideal(llama(), ShapeSpec { tensor: 8, ..ShapeSpec::default() }, 3350);
    let messages = over(8, 3.0, 450.0, Choice::OneShot);
    let time = |batch| Steps::new(&instance, &messages).time(&Batch::decode(batch, 1)).messages.as_us();
    // 160 in layers, embedding, logits.
    let floor = 162.0 * 3.0;
    assert!(time(1) > floor && time(1) < floor * 1.15, "{}", time(1));
    assert!(time(64) > 2.0 * floor);
}

#[test]
fn a_pipeline_sends_little_where_tensor_parallelism_sends_much() {
    // Prefill of 2048 tokens over PCIe: messages of TP take more than a fifth of a step, those of PP less than a fiftieth.
    let share = |spec: ShapeSpec| {
        let instance = ideal(llama(), spec, 2039);
        let messages = over(spec.tensor, 10.0, 25.0, Choice::Ring);
        let parts = Steps::new(&instance, &messages).time(&Batch::prefill(1, 2048));
        parts.messages.as_us() / parts.total().as_us()
    };
    let tensor = share(ShapeSpec { tensor: 4, ..ShapeSpec::default() });
    let pipeline = share(ShapeSpec { pipeline: 4, ..ShapeSpec::default() });
    assert!(tensor > 0.2 && pipeline < 0.02, "{tensor} {pipeline}");
}

#[test]
fn what_fits_in_one_gpu_is_faster_on_four_and_less_efficient() {
    // "TP4 is slower than one card": a token comes sooner (24 ms to 8 ms with 80 sums of 20 µs), four copies serve more.
    let model = mistral();
    let messages = over(4, 20.0, 1e6, Choice::OneShot);
    let (one, four) = (ShapeSpec::default(), ShapeSpec { tensor: 4, ..ShapeSpec::default() });
    let (one, four) = (ideal(&model, one, 1935), ideal(&model, four, 1935));
    let token =
        |instance: &Instance<'_>| Steps::new(instance, &messages).time(&Batch::decode(1, 1)).total().as_us() / 1e3;
    assert!((token(&one) - 23.7).abs() < 0.3 && (token(&four) - 7.6).abs() < 0.3, "{} {}", token(&one), token(&four));
    let throughput = |instance: &Instance<'_>, count: u32| {
        let limits = Limits { sequences: 32 * 4 / u64::from(count), tokens: 8192, cache: 1 << 20 };
        let pool = Pool { steps: Steps::new(instance, &messages), count, limits, order: Order::Chunked };
        let deployment = Deployment::Together(&pool);
        let (prompts, outputs) = (Lengths::Fixed(200), Lengths::Fixed(200));
        let demand = Demand { arrivals: Arrivals::AtOnce, prompts, outputs, count: 128, seed: 1 };
        Report::of(&serve(&deployment, &demand.draw()).unwrap(), &deployment, 0).output_per_s
    };
    // The link does not matter where nothing is sent, and four copies give four times as much.
    assert!(one.calls(&Batch::decode(8, 100)).is_empty());
    let copies = throughput(&one, 4);
    let slow = over(4, 20.0, 10.0, Choice::Ring);
    let shared = {
        let limits = Limits { sequences: 128, tokens: 8192, cache: 1 << 20 };
        let pool = Pool { steps: Steps::new(&four, &slow), count: 1, limits, order: Order::Chunked };
        let deployment = Deployment::Together(&pool);
        let (prompts, outputs) = (Lengths::Fixed(200), Lengths::Fixed(200));
        let demand = Demand { arrivals: Arrivals::AtOnce, prompts, outputs, count: 128, seed: 1 };
        Report::of(&serve(&deployment, &demand.draw()).unwrap(), &deployment, 0).output_per_s
    };
    assert!(copies > shared, "{copies} {shared}");
}

#[test]
fn weights_alone_bound_tokens_of_70b_on_four_a100() {
    // Roofline of weights: 18.1 ms a token with PCIe cards (1935 GB/s), 17.2 with SXM (2039); 160 sums of 10 µs on NVLink and of
    // 20 to 30 µs over PCIe make SXM 13 to 22 % faster.
    let time = |gbps, us| {
        let instance = ideal(llama(), ShapeSpec { tensor: 4, ..ShapeSpec::default() }, gbps);
        let messages = over(4, us, 1e6, Choice::OneShot);
        Steps::new(&instance, &messages).time(&Batch::decode(1, 1)).total().as_us() / 1e3
    };
    assert!((time(1935, 0.0) - 18.1).abs() < 0.2 && (time(2039, 0.0) - 17.2).abs() < 0.2);
    let (near, far) = (time(1935, 20.0) / time(2039, 10.0), time(1935, 30.0) / time(2039, 10.0));
    assert!(near > 1.12 && far < 1.23, "{near} {far}");
}

#[test]
fn experts_of_a_rack() {
    // 256 experts on 64 GPUs: four each. On 72 they are not even: some ranks hold four, and places are left for copies.
    use sim_workload::serving::kernels::touched;
    let v3 = &Models::builtin().get("deepseek-v3").unwrap().model;
    let groups = |ranks: u64| touched(256, 8, 100_000).div_ceil(ranks);
    assert_eq!((groups(64), groups(72)), (4, 4));
    let spec = |data| ShapeSpec { data, ..ShapeSpec::default() };
    assert!(spec(64).check(v3).is_ok() && spec(72).check(v3).is_ok());
    assert_eq!(72 * groups(72) - 256, 32);
}
