//! Published times of prefills, transfers of caches and serving, beside what the models say. `docs/inference.md` has the tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use sim_collectives::experts::Experts;
use sim_collectives::step_graph::{Node, StepGraph, Work};
use sim_collectives::{Machine as Communicator, Software};
use sim_core::engine::Limits;
use sim_core::units::{Bytes, Rate, Span, Time};
use sim_topology::{Catalogue, Fabric, FabricSpec, PathClass, RouteRequest, Via};
use sim_workload::compute::{Figures, Machine, Number};
use sim_workload::experts::Payload;
use sim_workload::model::Models;
use sim_workload::parallel::Group;
use sim_workload::serving::cache_transfer::{NicChoice, Side, Transport, exposed, pieces};
use sim_workload::serving::messages::Messages;
use sim_workload::serving::played::Played;
use sim_workload::serving::report::Report;
use sim_workload::serving::requests::{Arrivals, Demand, Lengths};
use sim_workload::serving::server::{self, Deployment, Order, Pool, serve};
use sim_workload::serving::step::Steps;
use sim_workload::serving::{Batch, Instance, Numbers, ShapeSpec};

#[derive(Deserialize)]
struct File {
    row: Vec<Row>,
}

#[derive(Clone, Deserialize)]
struct Row {
    id: String,
    value: f64,
    metric: String,
    #[serde(rename = "use")]
    taken: Option<String>,
    model: Option<String>,
    gpu: Option<String>,
    parallelism: Option<String>,
    precision: Option<String>,
    prompt_tokens: Option<u64>,
    input_len: Option<u64>,
    output_len: Option<u64>,
    block_kib: Option<u64>,
}

fn rows(text: &str) -> Vec<Row> {
    toml::from_str::<File>(text).unwrap().row
}

fn caches() -> Vec<Row> {
    rows(include_str!("data/kv-transfer.toml"))
}

fn row(all: &[Row], id: &str) -> Row {
    all.iter().find(|r| r.id == id).unwrap().clone()
}

/// Signed errors of a time: positive where more is predicted than was measured.
struct Errors(Vec<(String, f64)>);

impl Errors {
    fn add(&mut self, id: &str, predicted: f64, measured: f64) {
        println!(
            "{id:45} measured {measured:10.3}  predicted {predicted:10.3}  {:+.1} %",
            (predicted / measured - 1.0) * 100.0
        );
        self.0.push((id.to_owned(), predicted / measured - 1.0));
    }

    /// Of a rate: the error of the time, which is inverse to it.
    fn rate(&mut self, id: &str, predicted: f64, measured: f64) {
        println!(
            "{id:50} measured {measured:8.1}  predicted {predicted:8.1}  {:+.1} % of the time",
            (measured / predicted - 1.0) * 100.0
        );
        self.0.push((id.to_owned(), measured / predicted - 1.0));
    }

    fn median(&self) -> f64 {
        let mut sizes: Vec<f64> = self.0.iter().map(|e| e.1.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes[sizes.len() / 2]
    }
}

/// 8 NICs of 200 Gb/s, as the source counts; base and share come from the shortest and the longest prompt.
fn mooncake(tokens: u64, base: Span, share: u64) -> Span {
    let model = &Models::builtin().get("qwen3-8b").unwrap().model;
    let side = Side { tensor: 8, pipeline: 1 };
    let transport = Transport {
        nic: Rate::gbyte(25),
        share,
        nics: 8,
        per_block: Span::ZERO,
        block: Bytes::kib(64),
        base,
        gpu: None,
        host: None,
    };
    transport.time(&pieces(model, tokens, Number::Bf16, side, side), NicChoice::Affine)
}

/// Bulk data over all NICs, in GB/s.
fn bulk(transport: Transport) -> f64 {
    let bytes = 40_000_000_000u64;
    let model = &Models::builtin().get("qwen3-8b").unwrap().model;
    let side = Side { tensor: 1, pipeline: 1 };
    let tokens = bytes / 147_456;
    let time = transport.time(&pieces(model, tokens, Number::Bf16, side, side), NicChoice::Striped);
    (tokens * 147_456) as f64 / time.as_us() / 1e3
}

#[test]
fn caches_take_as_long_as_published() {
    let all = caches();
    let mut errors = Errors(Vec::new());
    // Two parameters from the shortest and the longest prompt: what is agreed on, and the share of the wire that payload gets.
    let (short, long) = (row(&all, "mooncake-qwen3-8b-tp8-128"), row(&all, "mooncake-qwen3-8b-tp8-32768"));
    let tokens = |r: &Row| r.prompt_tokens.unwrap();
    let slope = (long.value - short.value) / (tokens(&long) - tokens(&short)) as f64;
    let base = Span::from_us_f64((short.value - slope * tokens(&short) as f64) * 1e3);
    let share = (147_456.0 / (slope * 1e-3) / 200e9 * 1e6) as u64;
    println!("base {:.0} µs, share {:.3}", base.as_us(), share as f64 / 1e6);
    for r in all.iter().filter(|r| r.metric == "transfer_time_ms" && r.taken.as_deref() == Some("proof")) {
        errors.add(&r.id, mooncake(tokens(r), base, share).as_us() / 1e3, r.value);
    }
    // 16 NICs of 200 Gb/s with a thread each: the least time of a block from blocks of 64 KiB, the share from those of 2 MiB.
    let (small, large) = (row(&all, "mooncake-efa-p5en-64k"), row(&all, "mooncake-efa-p5en-2048k"));
    let efa = Transport {
        nic: Rate::gbyte(25),
        share: (large.value / 400.0 * 1e6) as u64,
        nics: 16,
        per_block: Span::from_us_f64(65_536.0 / (small.value / 16.0 * 1e3)),
        block: Bytes::kib(64),
        base: Span::ZERO,
        gpu: None,
        host: None,
    };
    println!("block {:.2} µs, share {:.3}", efa.per_block.as_us(), efa.share as f64 / 1e6);
    assert!((bulk(efa) / small.value - 1.0).abs() < 0.01);
    for r in all.iter().filter(|r| r.metric == "write_bandwidth_GBps" && r.taken.as_deref() == Some("proof")) {
        errors.rate(&r.id, bulk(Transport { block: Bytes::kib(r.block_kib.unwrap()), ..efa }), r.value);
    }
    // Buffers in host memory, one process: the memory of one socket (the catalogue's, 90 % of it as kernels reach) bounds eight NICs of
    // 400 Gb/s, not four of 200.
    let catalogue = Catalogue::builtin();
    let memory = catalogue.constant("memory-of-a-socket").unwrap() * 0.9;
    let host = Some(Rate::from_gbyte_f64(memory));
    let four = Transport { nics: 4, per_block: Span::ZERO, host, ..efa };
    let eight = Transport { nics: 8, nic: Rate::gbyte(50), ..four };
    for (id, transport) in [("mooncake-te-4nic", four), ("mooncake-te-8nic", eight)] {
        errors.rate(id, bulk(transport), row(&all, id).value);
    }
    println!("median {:.1} %", errors.median() * 100.0);
    assert_eq!(errors.0.len(), 7);
    assert!(errors.median() < 0.15);
}

/// What a cache takes over a fabric whose nodes face each other, by the engine.
#[test]
fn the_engine_moves_caches_as_the_closed_form_says() {
    let fabric = fabric("hgx-h100", 2);
    let network = fabric.network();
    let model = &Models::builtin().get("llama3-70b").unwrap().model;
    let side = |tensor| Side { tensor, pipeline: 1 };
    let transport = Transport {
        nic: fabric.plan().nic_rate(),
        share: 1_000_000,
        nics: 8,
        per_block: Span::ZERO,
        block: Bytes::mib(1),
        base: Span::ZERO,
        gpu: Some(Rate::from_gbyte_f64(57.6)),
        host: None,
    };
    let nic = |rank: u64| fabric.nics_of(fabric.gpus()[rank as usize])[0];
    let played = |from: u64, to: u64, choice, transport: Transport, prefill| {
        let pieces = pieces(model, 20_000, Number::Bf16, side(from), side(to));
        let closed = transport.time(&pieces, choice);
        let messages = transport
            .messages(&pieces, choice, model.layers, prefill, |from, by, to| {
                let (src, dst) = (fabric.gpus()[from as usize], fabric.gpus()[8 + to as usize]);
                let into = if choice == NicChoice::Affine { nic(8 + to) } else { nic(8 + by) };
                let via = Via::Nics { src: nic(by), dst: into };
                fabric.route(&RouteRequest::auto(src, dst).via(via)).map(|route| (route.links, Some(nic(by))))
            })
            .unwrap();
        let mut graph = StepGraph::default();
        graph.add(Node { work: Work::Transfers(messages), after: Vec::new(), start: Span::ZERO }).unwrap();
        let run = graph.execute(&network, fabric.mtu(), &[], Limits::default()).unwrap();
        (run.nodes[0].ended.unwrap().since(Time::ZERO).as_us(), closed.as_us())
    };
    // 16 lanes of the fifth generation carry 63 GB/s, 57.6 of them payload in packets of 256 bytes: what one GPU sends at most,
    // however many NICs it stripes over.
    for (from, to, choice) in [
        (8, 8, NicChoice::Affine),
        (8, 2, NicChoice::Affine),
        (8, 8, NicChoice::Pinned(3)),
        (2, 8, NicChoice::Striped),
        (8, 8, NicChoice::RoundRobin),
    ] {
        let (engine, closed) = played(from, to, choice, transport, None);
        let ratio = engine / closed;
        println!("{from} to {to}, {choice:?}: engine {engine:.0} µs, closed form {closed:.0} µs");
        assert!(ratio > 0.999 && ratio < 1.12, "{from} {to} {choice:?}: {engine} {closed}");
    }
    // Small blocks: the least time of a block holds for all that is posted to a NIC, on the engine too.
    let slow = Transport { per_block: Span::from_us(5), block: Bytes::kib(64), ..transport };
    for (to, choice) in [(8, NicChoice::Affine), (8, NicChoice::Pinned(3)), (2, NicChoice::Affine)] {
        let (engine, closed) = played(8, to, choice, slow, None);
        assert!((engine / closed - 1.0).abs() < 0.02, "{to} {choice:?}: {engine} {closed}");
    }
    // Stripes are posted piece by piece, so the last GPU's are sent alone, and eight queues take more than its own link carries.
    let (engine, closed) = played(8, 8, NicChoice::Striped, slow, None);
    let alone = 20_000.0 * 327_680.0 / 8.0 / 57.6e3;
    let expected = closed * 7.0 / 8.0 + alone;
    assert!((engine / expected - 1.0).abs() < 0.02, "{engine} {expected}");
    // Layer by layer: what is left after the prefill is the last layer, or what the transfer takes longer.
    let (bulk, _) = played(8, 8, NicChoice::Affine, transport, None);
    for prefill in [Span::from_us(2000), Span::from_us(500_000)] {
        let (engine, _) = played(8, 8, NicChoice::Affine, transport, Some(prefill));
        let rule = prefill.as_us() + exposed(Span::from_us_f64(bulk), prefill, model.layers).as_us();
        assert!((engine / rule - 1.0).abs() < 0.03, "{engine} {rule}");
    }
}

fn fabric(system: &str, nodes: u32) -> Fabric {
    let catalogue = Catalogue::builtin();
    let node = catalogue.system(system).unwrap().node.clone();
    Fabric::build(&FabricSpec::new(node, nodes), catalogue).unwrap()
}

#[test]
fn a_prefill_over_four_gpus() {
    let all = rows(include_str!("data/inference-tp.toml"));
    let mut errors = Errors(Vec::new());
    let model = &Models::builtin().get("llama3-70b").unwrap().model;
    let figures = Figures::builtin();
    let machine = Machine::of(figures.device("a100-sxm4-80").unwrap(), Number::Bf16, Rate::gbyte(2039), figures);
    let instance = Instance::new(model, ShapeSpec { tensor: 4, ..ShapeSpec::default() }.check(model).unwrap(), machine);
    let reduce_on = |system: &str, peers: bool| {
        let mut node = Catalogue::builtin().system(system).unwrap().node.clone();
        if !peers {
            node.peers_up_to = PathClass::X;
        }
        let fabric = Fabric::build(&FabricSpec::new(node, 1), Catalogue::builtin()).unwrap();
        let network = fabric.network();
        let mut software = Software::default();
        if !peers {
            software.knobs.set("NCCL_P2P_DISABLE", "1").unwrap();
        }
        let group = Communicator::new(&fabric, Catalogue::builtin(), &software, &[0, 1, 2, 3]).unwrap();
        let played =
            Played::new(&network, BTreeMap::from([(Group::Tensor, group)])).all_reduce("vllm".parse().unwrap());
        let call = instance.layer_calls(sim_workload::model::LayerKind::Dense, &Batch::prefill(1, 4096))[0];
        assert_eq!(call.bytes, Bytes::mib(64));
        let reduce = played.time(&call).as_us();
        let whole = Steps::new(&instance, &played).time(&Batch::prefill(1, 4096));
        assert_eq!(played.fault(), None);
        (reduce, whole)
    };
    let reduce = |peers| reduce_on("hgx-a100", peers);
    let (near, whole) = reduce(true);
    println!("kernels {:.1} ms, messages {:.1} ms", whole.kernels.as_us() / 1e3, whole.messages.as_us() / 1e3);
    errors.add(
        "llama3-70b-prefill-4xa100-nvlink",
        whole.total().as_us() / 1e3,
        row(&all, "llama3-70b-prefill-4xa100-nvlink").value,
    );
    errors.add("allreduce-64mib-4xa100-nvlink", near, row(&all, "allreduce-64mib-4xa100-nvlink").value);
    // One page of one author; its all-reduce reaches 167 GB/s where other runs of the machine reach 230.
    assert!(errors.0.iter().all(|e| e.1.abs() < 0.25), "{:?}", errors.0);
    // "PCIe through the host" may be buffers in host memory, or peers behind one root: the published time lies between the two.
    let measured = row(&all, "allreduce-64mib-4xa100-pcie").value;
    let (through, (peers, _)) = (reduce(false).0, reduce_on("pcie-a100-4", true));
    errors.add("allreduce-64mib-4xa100-pcie (host memory)", through, measured);
    errors.add("allreduce-64mib-4xa100-pcie (peers)", peers, measured);
    assert!(peers < measured && measured < through);
}

/// A row as it is published: model and numbers, GPUs, tokens in and out.
fn described(r: &Row) -> (String, String, String) {
    let (input, output) = (r.input_len.unwrap(), r.output_len.unwrap());
    let what = format!("{} {}", r.model.as_deref().unwrap(), r.precision.as_deref().unwrap());
    (what, format!("{} {}", r.gpu.as_deref().unwrap(), r.parallelism.as_deref().unwrap()), format!("{input}/{output}"))
}

/// Tokens of answers a second and GPU, with every call played over the system's fabric, as `kind = "inference"` plays them.
fn throughput(r: &Row) -> f64 {
    let name = match r.model.as_deref().unwrap() {
        "llama3.3-70b" => "llama3-70b",
        "deepseek-r1" => "deepseek-v3",
        other => other,
    };
    let model = &Models::builtin().get(name).unwrap().model;
    let system = match r.gpu.as_deref().unwrap() {
        "H100" => "hgx-h100",
        "H200" => "hgx-h200",
        "B200" => "hgx-b200",
        "GB200" => "nvl72-gb200",
        other => panic!("{other}"),
    };
    let fabric = fabric(system, 1);
    let gpu = Catalogue::builtin().gpu(&fabric.node_spec().gpu).unwrap();
    let kind = r.parallelism.as_deref().unwrap();
    let (spec, group, ranks) = match (kind.strip_prefix("TP"), kind.strip_prefix("DEP")) {
        (Some(n), _) => (ShapeSpec { tensor: n.parse().unwrap(), ..ShapeSpec::default() }, Group::Tensor, n),
        (_, Some(n)) => (ShapeSpec { data: n.parse().unwrap(), ..ShapeSpec::default() }, Group::Expert, n),
        _ => panic!("{kind}"),
    };
    let ranks: Vec<u32> = (0..ranks.parse().unwrap()).collect();
    let number = if r.precision.as_deref() == Some("fp4") { Number::Fp4 } else { Number::Fp8 };
    let figures = Figures::builtin();
    let machine = Machine::of(figures.device(&gpu.name).unwrap(), number, gpu.memory_rate, figures);
    let instance = Instance {
        numbers: Numbers { weights: number, cache: Number::Fp8 },
        dispatch: Payload::FP8,
        ..Instance::new(model, spec.check(model).unwrap(), machine)
    };
    let network = fabric.network();
    let mut groups = BTreeMap::new();
    if ranks.len() > 1 {
        let mut group_of = Communicator::new(&fabric, Catalogue::builtin(), &Software::default(), &ranks).unwrap();
        group_of.launch.graph = true;
        groups.insert(group, group_of);
    }
    let mut messages = Played::new(&network, groups).all_reduce("tensorrt_llm".parse().unwrap());
    if let Some(layer) = model.experts {
        let number = |n: u64| u32::try_from(n).unwrap();
        let experts =
            Experts { experts: number(layer.experts), top_k: number(layer.top_k), top_nodes: None, groups: None };
        messages = messages.experts(experts, ["low_latency", "deepep"].map(|name| name.parse().ok()));
    }
    let room = instance.room(Bytes::new((gpu.memory_gb * 0.9e9) as u64));
    let limits =
        server::Limits { sequences: 1024 * instance.shape.data, tokens: 8192 * instance.shape.data, cache: room };
    let pool = Pool { steps: Steps::new(&instance, &messages), count: 1, limits, order: Order::Chunked };
    let (prompt, output) = (r.input_len.unwrap(), r.output_len.unwrap());
    let count = (3 * room / (prompt + output)).clamp(16, 3 * limits.sequences);
    let demand = Demand {
        arrivals: Arrivals::AtOnce,
        prompts: Lengths::Fixed(prompt),
        outputs: Lengths::Fixed(output),
        count,
        seed: 1,
    };
    let deployment = Deployment::Together(&pool);
    let run = serve(&deployment, &demand.draw()).unwrap();
    assert_eq!((messages.fault(), messages.stopped()), (None, None), "{}", r.id);
    Report::of(&run, &deployment, 0).output_per_gpu()
}

/// The table in `docs/inference.md` between its marks: with `UPDATE_DOCS=1` written, else held to what comes out.
fn in_the_docs(table: &str) {
    const BEGIN: &str =
        "<!-- throughput: written by `UPDATE_DOCS=1 cargo test -p sim-workload --test published_serving` -->\n";
    const END: &str = "<!-- end of throughput -->\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/inference.md");
    let text = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let (head, rest) = text.split_once(BEGIN).expect("docs/inference.md has the first mark");
    let (old, tail) = rest.split_once(END).expect("docs/inference.md has the second mark");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
    } else {
        assert!(
            old == table,
            "docs/inference.md: UPDATE_DOCS=1 cargo test -p sim-workload --test published_serving\n{table}"
        );
    }
}

#[test]
fn throughput_of_serving() {
    let all = rows(include_str!("data/serving-throughput.toml"));
    let mut errors = Errors(Vec::new());
    let mut table = String::from(
        "| model | GPUs | tokens in/out | published | predicted | error of the time |\n|---|---|---|---|---|---|\n",
    );
    for r in all.iter().filter(|r| r.id.starts_with("trtllm")) {
        let predicted = throughput(r);
        errors.rate(&r.id, predicted, r.value);
        let (what, on, tokens) = described(r);
        let error = (r.value / predicted - 1.0) * 100.0;
        let error = format!("{error:+.0} %").replace('-', "−");
        writeln!(table, "| {what} | {on} | {tokens} | {:.0} | {predicted:.0} | {error} |", r.value).unwrap();
    }
    let of = |part: &str| Errors(errors.0.iter().filter(|e| e.0.contains(part)).cloned().collect());
    let (dense, experts) = (of("-tp2-"), of("-dep"));
    let median = |errors: &Errors| errors.median() * 100.0;
    writeln!(
        table,
        "\nMedian of the sizes: {:.0} % of all {}; {:.0} % of dense models with 8-bit weights, {:.0} % of models of experts.",
        median(&errors),
        errors.0.len(),
        median(&dense),
        median(&experts)
    )
    .unwrap();
    in_the_docs(&table);
    // Dense, 8-bit weights, two GPUs: nothing is fitted to any of them.
    assert_eq!(dense.0.len(), 4);
    assert!(dense.median() < 0.15, "{:?}", dense.0);
    // Models of experts come out too fast: loads of experts are even here, and the kernels between them few. Held so that a change
    // is seen.
    for (id, error) in &experts.0 {
        assert!((-0.60..-0.10).contains(error), "{id}: {error}");
    }
}
