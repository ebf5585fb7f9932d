//! Every worked figure of `data/nccl-worked-examples.toml` within its tolerance.

use sim_collectives::nccl::{
    Algorithm, Buffers, ChannelSplit, Chunking, Communicator, CrossNic, Facts, Graph, Graphs, HostCpu, Knobs,
    Operation, PathType, Pattern, Protocol, TreeNode, Version, algorithm_bandwidth, bus_bandwidth, double_binary_tree,
    p2p_rounds, qp_split, ring_loops, search, split, test_count,
};
use toml::{Table, Value};

const DATA: &str = include_str!("data/nccl-worked-examples.toml");

/// One example with its way to report a difference.
struct Example {
    id: String,
    tolerance: f64,
    input: Table,
    expect: Table,
}

fn examples() -> Vec<Example> {
    let data: Table = DATA.parse().expect("the data file is TOML");
    data["example"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| Example {
            id: e["id"].as_str().expect("an id").to_owned(),
            tolerance: real(&e["tolerance"]),
            input: e["input"].as_table().expect("input").clone(),
            expect: e["expect"].as_table().expect("expect").clone(),
        })
        .collect()
}

fn real(value: &Value) -> f64 {
    value.as_float().or_else(|| value.as_integer().map(|i| i as f64)).expect("a number")
}

fn int(value: &Value) -> u64 {
    value.as_integer().and_then(|i| u64::try_from(i).ok()).expect("a whole number")
}

fn small(value: &Value) -> u32 {
    u32::try_from(int(value)).expect("a small whole number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn ints(value: &Value) -> Vec<u64> {
    list(value).iter().map(int).collect()
}

impl Example {
    fn number(&self, key: &str) -> u32 {
        small(&self.input[key])
    }

    fn close(&self, what: &str, got: f64, want: f64) {
        let error = (got - want).abs();
        assert!(error <= self.tolerance * want.abs(), "{}: {what}: {got}, expected {want}", self.id);
    }

    fn operation(&self) -> Operation {
        self.input["collective"].as_str().expect("a name").parse().expect("an operation")
    }

    fn graph(&self, key: &str) -> Option<Graph> {
        let graph = self.input.get(key)?;
        let class = |key: &str| graph[key].as_str().expect("a class").parse::<PathType>().expect("a path type");
        let pattern = if graph["pattern"].as_str() == Some("TREE") { Pattern::Tree } else { Pattern::BalancedTree };
        Some(Graph {
            channels: small(&graph["channels"]),
            bw_intra: real(&graph["bw_intra"]),
            bw_inter: real(&graph["bw_inter"]),
            type_intra: class("type_intra"),
            type_inter: class("type_inter"),
            pattern,
            same_channels: true,
            cross_nic: false,
        })
    }

    fn communicator(&self) -> Communicator {
        let cpu: HostCpu = self.input["cpu"].as_str().expect("a name").parse().expect("a CPU");
        let (cap, gpus, nodes) = (self.number("compute_cap"), self.number("gpus_per_node"), self.number("nodes"));
        let facts = Facts { cpu, ..Facts::nvswitch(cap, gpus, nodes) };
        let tree = self.graph("graph_tree").expect("a tree graph");
        let graphs = Graphs {
            ring: self.graph("graph_ring").unwrap_or(tree),
            tree,
            nvls: self.graph("graph_nvls"),
            nvls_tree: self.graph("graph_nvls_tree"),
            pat: self.graph("graph_pat"),
            collnet: None,
        };
        let channels = Some(self.number("channels_total"));
        Communicator::from_graphs(facts, graphs, channels, Version::NEWEST, Knobs::default()).expect("a machine")
    }
}

#[test]
fn all_examples() {
    let examples = examples();
    for example in &examples {
        let id = example.id.as_str();
        match id {
            _ if id.ends_with("-table") => table(example),
            _ if id.contains("-select") => selection(example),
            _ if id.starts_with("dbtree-") => tree(example),
            _ if id.starts_with("p2p-order-") => rounds(example),
            "log-check-3x8-tree-ll-128" => log_line(example),
            "tree-ring-crossover" => crossover(example),
            "p2p-channel-base" => first_channels(example),
            "channels-ring-ll-h100x8" => launches(example, Protocol::Ll),
            "channels-ring-simple-h100x8" => launches(example, Protocol::Simple),
            "channel-split-allreduce" => splits(example),
            "ring-allreduce-loops" => loops(example),
            "buffers" => buffers(example),
            "ib-qp-split" => queue_pairs(example),
            "nvls-search" => nvls_search(example),
            "ring-search-single-node" => ring_search(example),
            "nccl-tests-bw" => printed_bandwidths(example),
            "nccl-tests-count" => printed_counts(example),
            _ => panic!("no test knows the example `{id}`"),
        }
    }
    assert_eq!(examples.len(), 42);
}

/// The table holds exactly the expected combinations.
fn table(example: &Example) {
    let comm = example.communicator();
    let table = comm.table(example.operation());
    let mut offered = 0;
    for (algorithm, protocol, entry) in table.entries() {
        let key = format!("{algorithm}_{}", protocol.to_string().to_lowercase());
        match (entry, example.expect.get(&key)) {
            (Ok(cost), Some(want)) => {
                let want = list(want);
                example.close(&format!("{key} latency"), cost.latency_us, real(&want[0]));
                example.close(&format!("{key} bandwidth"), cost.bandwidth_gbps, real(&want[1]));
                offered += 1;
            }
            (Ok(cost), None) => panic!("{}: {key} is offered: {cost:?}", example.id),
            (Err(reason), Some(_)) => panic!("{}: {key} is not offered: {reason}", example.id),
            (Err(_), None) => {}
        }
    }
    assert_eq!(offered, example.expect.len(), "{}", example.id);
}

fn selection(example: &Example) {
    let comm = example.communicator();
    let rows = ints(&example.input["sizes"]);
    for (i, &bytes) in rows.iter().enumerate() {
        let choice = comm.choose(example.operation(), bytes).expect("a choice");
        let text = |key: &str| list(&example.expect[key])[i].as_str().expect("a name").to_owned();
        let algorithm: Algorithm = text("algo").parse().expect("an algorithm");
        let protocol: Protocol = text("proto").parse().expect("a protocol");
        assert_eq!((choice.algorithm, choice.protocol), (algorithm, protocol), "{} at {bytes} B", example.id);
        example.close(&format!("{bytes} B"), choice.time_us, real(&list(&example.expect["time_us"])[i]));
    }
}

fn log_line(example: &Example) {
    let comm = example.communicator();
    let (operation, bytes) = (example.operation(), int(&example.input["size"]));
    let time = comm.predict_us(operation, Algorithm::Tree, Protocol::Ll, bytes).expect("offered");
    example.close("computed", time, real(&example.expect["time_us"]));
    example.close("logged", time, real(&example.expect["log_time_us"]));
}

fn crossover(example: &Example) {
    for (key, want) in &example.expect {
        let nodes: u32 = key.trim_start_matches("nodes_").parse().expect("nodes_N");
        let bw = real(&example.input["bw"]);
        let graph = |pattern| Graph {
            channels: example.number("channels"),
            bw_intra: bw,
            bw_inter: bw,
            type_intra: PathType::Nvl,
            type_inter: PathType::Pxn,
            pattern,
            same_channels: true,
            cross_nic: false,
        };
        let graphs = Graphs {
            ring: graph(Pattern::Ring),
            tree: graph(Pattern::Tree),
            nvls: None,
            nvls_tree: None,
            pat: None,
            collnet: None,
        };
        let facts = Facts::nvswitch(90, example.number("gpus_per_node"), nodes);
        let comm =
            Communicator::from_graphs(facts, graphs, None, Version::NEWEST, Knobs::default()).expect("a machine");
        assert_eq!(comm.channels(), 16);
        let ring_wins =
            |power: u32| comm.choose(Operation::AllReduce, 1 << power).expect("a choice").algorithm == Algorithm::Ring;
        let first = (0..=40).rev().take_while(|&power| ring_wins(power)).last().expect("rings win at last");
        assert_eq!(1 << first, int(want), "{}: {nodes} nodes", example.id);
    }
}

fn tree(example: &Example) {
    let trees = double_binary_tree(example.number("n"));
    for (key, tree) in ["tree0", "tree1"].into_iter().zip(&trees) {
        let id = |v: &Value| v.as_integer().and_then(|i| u32::try_from(i).ok());
        let want: Vec<TreeNode> = list(&example.expect[key])
            .iter()
            .map(|node| {
                let node = list(node);
                TreeNode { parent: id(&node[0]), children: [id(&node[1]), id(&node[2])] }
            })
            .collect();
        assert_eq!(*tree, want, "{} {key}", example.id);
    }
}

fn rounds(example: &Example) {
    let (nodes, gpus, rank) = (example.number("nodes"), example.number("gpus_per_node"), example.number("rank"));
    let got = p2p_rounds(nodes, gpus, rank);
    let want: Vec<(u32, u32)> =
        list(&example.expect["rounds"]).iter().map(|round| (small(&list(round)[0]), small(&list(round)[1]))).collect();
    assert_eq!(got[..want.len()], want[..], "{}", example.id);
    if let Some(order) = example.expect.get("node_delta_order") {
        let order: Vec<u32> = list(order).iter().map(small).collect();
        let got: Vec<u32> = got.chunks(gpus as usize).map(|rounds| rounds[0].0 / gpus).collect();
        assert_eq!(got, order, "{}", example.id);
    }
}

fn first_channels(example: &Example) {
    let channels = example.number("p2p_channels");
    let group = example.number("multi_node_group_size");
    for (key, nodes, gpus, rounds) in [
        ("single_node", 1, example.number("single_node_rounds"), example.number("single_node_rounds")),
        ("multi_node", example.number("multi_node_rounds") / group, group, example.number("multi_node_rounds")),
    ] {
        let mut knobs = Knobs::default();
        knobs.set("NCCL_MIN_P2P_NCHANNELS", &channels.to_string()).expect("a count");
        let comm = Communicator::new(Facts::nvswitch(90, gpus, nodes), Version::NEWEST, knobs).expect("a machine");
        let plan = comm.p2p();
        assert_eq!(plan.channels, channels);
        let got: Vec<u64> = (0..rounds).map(|round| u64::from(plan.first_channel(round))).collect();
        assert_eq!(got, ints(&example.expect[key]), "{} {key}", example.id);
    }
}

fn launches(example: &Example, protocol: Protocol) {
    let facts = Facts::nvswitch(90, 8, 1);
    let comm = Communicator::new(facts, Version::NEWEST, Knobs::default()).expect("a machine");
    assert_eq!(comm.channels(), example.number("channels"));
    let threshold = sim_collectives::nccl::threshold(Algorithm::Ring, protocol, comm.ranks());
    assert_eq!(threshold, int(&example.input["threshold"]));
    for row in list(&example.expect["rows"]) {
        let row = ints(row);
        let blocks = sim_collectives::nccl::blocks(&comm, Algorithm::Ring, protocol, row[0]);
        assert_eq!([u64::from(blocks.channels), u64::from(blocks.threads)], row[1..], "{} {} B", example.id, row[0]);
    }
}

fn splits(example: &Example) {
    for row in list(&example.expect["rows"]) {
        let row = ints(row);
        let protocol = if row[1] == 1 { Protocol::Ll } else { Protocol::Simple };
        let (element, traffic) = (int(&example.input["elt_size"]), int(&example.input["traffic_per_byte"]));
        let channels = u32::try_from(row[2]).expect("a count");
        let ChannelSplit { channels, first, middle, last, .. } = split(row[0], element, traffic, protocol, channels);
        assert_eq!([u64::from(channels), first, middle, last], row[3..], "{} {} B", example.id, row[0]);
    }
}

fn loops(example: &Example) {
    for row in list(&example.expect["rows"]) {
        let row = ints(row);
        let loops = ring_loops(row[0], row[1], example.number("nranks"));
        assert_eq!([loops.loops, loops.last_chunk, loops.transfers()], row[2..], "{} {} B", example.id, row[0]);
    }
}

fn buffers(example: &Example) {
    let want = |key: &str| int(&example.expect[key]);
    let buffers = Buffers::DEFAULT;
    for (name, protocol) in [("ll", Protocol::Ll), ("ll128", Protocol::Ll128), ("simple", Protocol::Simple)] {
        assert_eq!(buffers.bytes(protocol), want(&format!("{name}_buffer")));
        assert_eq!(buffers.step(protocol), want(&format!("{name}_step")));
        if protocol != Protocol::Simple {
            assert_eq!(buffers.step_data(protocol), want(&format!("{name}_data_per_step")));
        }
    }
    let comm = Communicator::new(Facts::nvswitch(90, 8, 1), Version::NEWEST, Knobs::default()).expect("a machine");
    let Chunking { chunk, slice, min_slice, steps, .. } =
        comm.chunking(Operation::AllReduce, Algorithm::Ring, Protocol::Simple, 1 << 30, 24);
    assert_eq!(chunk, want("ring_simple_chunk"));
    assert_eq!(slice, want("ring_simple_slice"));
    assert_eq!(min_slice, want("ring_simple_min_slice"));
    assert_eq!(steps, example.number("steps"));
}

fn queue_pairs(example: &Example) {
    for (request, want) in list(&example.input["requests"]).iter().zip(list(&example.expect["split"])) {
        let request = ints(request);
        assert_eq!(qp_split(request[0], u32::try_from(request[1]).expect("a count")), ints(want), "{request:?}");
    }
}

fn nvls_search(example: &Example) {
    for (key, cap) in [("h100", 90), ("b200", 100), ("nvl72", 100)] {
        let machine = &example.input[key];
        let (heads, total) = (small(&machine["heads"]), real(&machine["nvlink_total"]));
        let gpus = if key == "nvl72" { 72 } else { heads };
        let facts = Facts { nvlink_total_gbps: total, intra_gbps: total, ..Facts::nvswitch(cap, gpus, 1) };
        let graph = search(&facts).nvls.expect("a graph");
        let want: Vec<f64> = list(&example.expect[key]).iter().map(real).collect();
        assert_eq!(graph.channels, heads, "{key}");
        assert_eq!(vec![graph.bw_intra, graph.bw_inter], want, "{key}");
    }
}

fn ring_search(example: &Example) {
    for (key, cap) in [("a100", 80), ("h100", 90), ("b200", 100)] {
        let total = real(&list(&example.input[key])[0]);
        let facts = Facts { nvlink_total_gbps: total, intra_gbps: total, ..Facts::nvswitch(cap, 8, 1) };
        let ring = search(&facts).ring;
        let comm = Communicator::new(facts, Version::NEWEST, Knobs::default()).expect("a machine");
        let want: Vec<f64> = list(&example.expect[key]).iter().map(real).collect();
        // Before duplication there were half the channels of twice the speed.
        let got = [
            f64::from(ring.channels) / 2.0,
            ring.bw_intra * 2.0,
            f64::from(ring.channels),
            ring.bw_intra,
            f64::from(comm.channels()),
        ];
        assert_eq!(got.to_vec(), want, "{key}");
    }
}

fn printed_bandwidths(example: &Example) {
    for (key, want) in &example.expect {
        let operation: Operation = key.parse().expect("an operation");
        let row = list(want);
        let (ranks, bytes, time) = (small(&row[0]), int(&row[1]), real(&row[2]));
        example.close(&format!("{key} algbw"), algorithm_bandwidth(bytes, time), real(&row[3]));
        example.close(&format!("{key} busbw"), bus_bandwidth(operation, ranks, bytes, time), real(&row[4]));
    }
}

fn printed_counts(example: &Example) {
    let divided =
        [Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll, Operation::Gather, Operation::Scatter];
    for row in list(&example.expect["rows"]) {
        let row = ints(row);
        for operation in divided {
            let count = test_count(operation, row[0], row[1], u32::try_from(row[2]).expect("ranks"));
            assert_eq!([count.count, count.bytes], row[3..], "{operation} {row:?}");
        }
    }
}

/// Machines for which figures were published, through the whole pipeline instead of from given graphs.
#[test]
fn searched_machines_reach_the_same_tables() {
    let comm = |cap, gpus, nodes| {
        let facts = Facts { cross_nic: CrossNic::Never, ..Facts::nvswitch(cap, gpus, nodes) };
        Communicator::new(facts, Version::NEWEST, Knobs::default()).expect("a machine")
    };
    let time = |comm: &Communicator, algorithm, protocol, bytes| {
        comm.predict_us(Operation::AllReduce, algorithm, protocol, bytes).expect("offered")
    };
    let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-3, "{got}, expected {want}");
    let h100 = comm(90, 8, 1);
    near(time(&h100, Algorithm::Nvls, Protocol::Simple, 1 << 30), 3972.5802);
    near(time(&h100, Algorithm::Ring, Protocol::Ll, 1 << 20), 28.0142);
    let two = comm(90, 8, 2);
    near(time(&two, Algorithm::NvlsTree, Protocol::Simple, 1 << 30), 4428.2946);
    near(time(&two, Algorithm::Tree, Protocol::Ll, 8), 25.2005);
    let rack = comm(100, 72, 1);
    near(time(&rack, Algorithm::Nvls, Protocol::Simple, 1 << 30), 2332.822);
}
