//! Algorithms on ideal ports: the simulated time of one chunk is the closed form that the algorithm states, bytes through
//! ports are the closed form's, and the crossovers of small all-reduces are where the forms put them.

use sim_collectives::algorithms::{self, Algorithm};
use sim_collectives::call::{Call, ChannelWork, Group, PointToPoint, Routed};
use sim_collectives::ideal::{Ports, play};
use sim_collectives::nccl::Operation;
use sim_core::outcome::StopReason;
use sim_core::units::{Rate, Span};

const ALPHA_US: f64 = 1.0;
const BETA: f64 = 450e9;

fn ports() -> Ports {
    Ports { alpha: Span::from_us_f64(ALPHA_US), beta: Rate::from_gbyte_f64(BETA / 1e9) }
}

/// A call in one chunk of one channel: `bytes` of the buffer, of a rank's part, or of a message.
fn whole(group: Group, bytes: u64) -> Call {
    let n = u64::from(group.ranks());
    let heads = group.nodes()[0].len() as u32;
    let work = ChannelWork { channel: 0, bytes, chunk: bytes * n, slices: 1, min_slice: 0, slots: 8 };
    let p2p = PointToPoint {
        message: bytes,
        matrix: Vec::new(),
        part: bytes,
        channels: 1,
        first_channel: vec![0; n as usize + 1],
        step: bytes * n,
        slots: 8,
        batch: n as u32,
        relay: false,
    };
    let routed = Routed::even(group.nodes().len() as u32, group.ranks(), [bytes; 3]);
    Call { group, channels: vec![work], root: 0, second_tree: 1, heads, p2p, routed }
}

fn time_us(name: &str, operation: Operation, call: &Call) -> f64 {
    let played = play(algorithms::by_name(name).unwrap(), operation, call, ports()).unwrap();
    assert_eq!(played.outcome.reason, StopReason::Finished, "{name}");
    assert!(played.outcome.faults.is_empty(), "{name}: {:?}", played.outcome.faults);
    played.time.as_us()
}

#[test]
fn simulated_times_are_the_closed_forms() {
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    for n in 1..=64u32 {
        for nodes in (1..=n).filter(|nodes| n % nodes == 0 && [1, 2, 4, n].contains(nodes)) {
            // A multiple of every n's parts, so that no chunk is rounded.
            let bytes = 16 * u64::from(n) * 4096;
            let call = whole(Group::regular(nodes, n / nodes), bytes);
            for algorithm in algorithms::ALL {
                for operation in Operation::ALL.into_iter().filter(|op| algorithm.can(*op, &call)) {
                    let Some(form) = algorithm.closed_form(operation, &call) else { continue };
                    let stated = f64::from(form.steps) * ALPHA_US + form.bytes as f64 / BETA * 1e6;
                    let simulated = time_us(algorithm.name(), operation, &call);
                    // A picosecond a message, for rounding up.
                    let rounding = 1e-6 * f64::from(2 * n + 2 * form.steps) * 2.0;
                    assert!(
                        (simulated - stated).abs() <= rounding + stated * 1e-9,
                        "{} {operation} on {nodes} x {}: {simulated} us simulated, {stated} stated",
                        algorithm.name(),
                        n / nodes
                    );
                    *seen.entry(algorithm.name()).or_default() += 1;
                }
            }
        }
    }
    for name in [
        "ring",
        "pat",
        "collnet_direct",
        "collnet_chain",
        "halving_doubling",
        "one_shot",
        "two_shot",
        "copy_engine",
        "dissemination",
        "pairwise",
        "hierarchical",
        "low_latency",
        "sendrecv",
        "gather",
        "scatter",
    ] {
        assert!(seen.get(name).is_some_and(|count| *count >= 6), "{name}: {seen:?}");
    }
}

/// All-reduce of S bytes over 8 ranks with 1 µs and 450 GB/s: T₁ = α + 7S/β, T₂ = 2α + 1.75 S/β, ring 14α + 1.75 S/β.
#[test]
fn small_all_reduces_of_eight_ranks() {
    let time = |name: &str, bytes: u64| time_us(name, Operation::AllReduce, &whole(Group::regular(1, 8), bytes));
    let at = |name: &str| time(name, 512 << 10);
    for (name, us) in [("one_shot", 9.16), ("two_shot", 4.04), ("ring", 16.04)] {
        assert!((at(name) - us).abs() < 0.005, "{name}: {} us", at(name));
    }
    // The share of α: 87 % of the ring, 50 % of two-shot, 11 % of one-shot.
    for (name, steps, share) in [("ring", 14.0, 0.87), ("two_shot", 2.0, 0.50), ("one_shot", 1.0, 0.11)] {
        assert!((steps * ALPHA_US / at(name) - share).abs() < 0.006, "{name}");
    }
    // The size from which `other` is faster, by bisection over multiples of 128 B.
    let crossover = |other: &str| {
        let (mut below, mut above) = (8u64, 1 << 16);
        while above - below > 1 {
            let middle = u64::midpoint(below, above);
            if time("one_shot", middle * 128) < time(other, middle * 128) { below = middle } else { above = middle }
        }
        (above * 128) as f64
    };
    let (two, ring) = (crossover("two_shot") / 1024.0, crossover("ring") / 1024.0 / 1024.0);
    assert!((two - 83.7).abs() < 0.15, "{two} KiB");
    assert!((ring - 1.06).abs() < 0.005, "{ring} MiB");
}

/// What goes out of the ports comes in at others, and the busiest port carries no less than the closed form divided by
/// what can overlap.
#[test]
fn bytes_are_conserved() {
    for (nodes, per_node) in [(1, 8), (2, 4), (3, 5), (4, 1)] {
        let call = whole(Group::regular(nodes, per_node), 1 << 16);
        for algorithm in algorithms::ALL {
            for operation in Operation::ALL.into_iter().filter(|op| algorithm.can(*op, &call)) {
                let played = play(*algorithm, operation, &call, ports()).unwrap();
                let name = algorithm.name();
                assert!(played.outcome.faults.is_empty(), "{name} {operation}: {:?}", played.outcome.faults);
                let (out, into) = played.bytes.iter().fold((0, 0), |sum, (o, i)| (sum.0 + o, sum.1 + i));
                // In-switch reduction takes in more than it hands out, multicast the other way round.
                let switches = ["nvls", "nvls_tree", "symmetric", "collnet_direct", "collnet_chain"];
                assert!(switches.contains(&name) || out == into, "{name} {operation}: {out} out, {into} in");
            }
        }
    }
}

/// All-gather and reduce-scatter with reduction in the network: a port carries all parts on the side of the whole; on the
/// other its own part to, or from, the network, and the parts of its place for the multicast, or for each of its peers.
#[test]
fn parts_of_equal_place_go_through_a_port_once() {
    for (nodes, g) in [(2, 2), (2, 8), (4, 4), (8, 8), (3, 1)] {
        let part = 1 << 16;
        let call = whole(Group::regular(nodes, g), part);
        for name in ["nvls", "collnet_direct"] {
            let algorithm = algorithms::by_name(name).unwrap();
            for operation in [Operation::AllGather, Operation::ReduceScatter] {
                if !algorithm.can(operation, &call) {
                    continue;
                }
                let played = play(algorithm, operation, &call, ports()).unwrap();
                let (n, nodes, g) = (u64::from(nodes * g), u64::from(nodes), u64::from(g));
                // The parts of its place come from the network; a multicast comes back to its sender, a copy doesn't.
                let (whole, copies) = if name == "nvls" { (n + nodes, nodes) } else { (n, nodes * (g - 1)) };
                let (whole, rest) = (whole * part, (1 + copies) * part);
                let stated = if operation == Operation::AllGather { (rest, whole) } else { (whole, rest) };
                assert_eq!(played.bytes, vec![stated; n as usize], "{name} {operation}, {nodes} x {g}");
                // Three steps at most, and what flows through the two stages overlaps.
                let floor = ALPHA_US + whole as f64 / BETA * 1e6;
                let time = played.time.as_us();
                let (most, one) = (2.0 * ALPHA_US + ((nodes + 2) * part) as f64 / BETA * 1e6, 1e-3);
                assert!(
                    (floor - one..=floor + most + one).contains(&time),
                    "{name} {operation}, {nodes} x {g}: {time} us, at least {floor}"
                );
            }
        }
    }
}

/// Bytes that leave the nodes.
fn between_nodes(algorithm: &dyn Algorithm, operation: Operation, call: &Call, per_node: u32) -> u64 {
    let mut lanes = sim_collectives::lanes::Lanes::new(call.group.ranks());
    algorithm.write(operation, call, &mut lanes);
    let crosses = |connection: &sim_collectives::lanes::Connection| {
        use sim_collectives::lanes::Peers;
        matches!(connection.peers, Peers::Pair { from, to, .. } if from / per_node != to / per_node)
    };
    let mut bytes = 0;
    for lane in &lanes.lanes {
        let layout = &lanes.layouts[lane.layout as usize];
        for op in &lane.ops {
            let far = op.send.iter().filter(|e| crosses(&lanes.connections[e.connection as usize])).count() as u64;
            for turn in 0..layout.loops() {
                for i in 0..op.repeat {
                    let chunk = (op.chunk + i * op.stride) % layout.chunks;
                    bytes += far * layout.span_bytes(turn, chunk, op.span);
                }
            }
        }
    }
    bytes
}

/// A relay at the source (PXN) leaves the bytes on the network as they are; one at the destination takes one copy of a
/// token per node, whatever the number of its experts there.
#[test]
fn a_relay_at_the_destination_sends_one_copy_a_node() {
    use sim_collectives::experts::Experts;
    let (nodes, per_node, tokens) = (4, 8, 64 << 20);
    let bytes = |top_k: u32, top_nodes: Option<u32>, name: &str| {
        let experts = Experts { top_nodes, ..Experts::free(256, top_k) };
        let routed = experts.routed(tokens, nodes, nodes * per_node, None);
        let mut call = whole(Group::regular(nodes, per_node), tokens);
        call.p2p = PointToPoint { message: routed.to_rank[0], part: routed.to_rank[0], ..call.p2p };
        call.routed = routed;
        let algorithm = algorithms::by_name(name).unwrap();
        let sent = between_nodes(algorithm, Operation::Dispatch, &call, per_node);
        let back = between_nodes(algorithm, Operation::Combine, &call, per_node);
        assert_eq!(sent, back, "{name}");
        sent as f64 / f64::from(nodes * per_node) / tokens as f64
    };
    // Copies of a token that leave its node: the expected distinct nodes among the other three, and ranks among 24.
    let missed = |held: f64| (0..8).map(|k| (256.0 - held - f64::from(k)) / (256.0 - f64::from(k))).product::<f64>();
    assert!((bytes(8, None, "deepep") - 3.0 * (1.0 - missed(64.0))).abs() < 1e-4);
    assert!((bytes(8, None, "pairwise") - 24.0 * (1.0 - missed(8.0))).abs() < 1e-4);
    assert!((bytes(8, None, "low_latency") - 24.0 * 8.0 / 32.0).abs() < 1e-4);
    // Bound to one node, a token crosses the network in three cases of four, however many experts it has.
    for top_k in [2, 8, 32] {
        assert!((bytes(top_k, Some(1), "deepep") - 0.75).abs() < 1e-4);
        assert!(bytes(top_k, Some(1), "pairwise") > 1.3);
    }
}
