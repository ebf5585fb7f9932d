//! Messages with a window: alone they take as long as without; beside others in one queue they take turns.

use sim_collectives::step_graph::{Message, Node, StepGraph, Window, Work};
use sim_core::engine::Limits;
use sim_core::ids::LinkId;
use sim_core::network::{LinkSpec, Network};
use sim_core::units::{Bytes, Rate, Span};

/// A fast link into a slower one, both with queues in order of arrival.
fn network() -> Network {
    Network::new([400, 100].map(|gbit| LinkSpec::ideal(Rate::gbit(gbit), Span::from_us(1))).to_vec())
}

fn message(mib: u64, start: Span, window: Option<Window>) -> Message {
    let route = vec![LinkId::new(0), LinkId::new(1)];
    Message { window, ..Message::new(route, Bytes::mib(mib), start) }
}

/// When each message has arrived, in µs.
fn ends(messages: Vec<Message>) -> Vec<f64> {
    let mut graph = StepGraph::default();
    graph.add(Node { work: Work::Transfers(messages), after: Vec::new(), start: Span::ZERO }).unwrap();
    let executed = graph.execute(&network(), Bytes::kib(4), &[], Limits::default()).unwrap();
    let mut parts: Vec<_> = executed.nodes.iter().flat_map(|node| &node.parts).collect();
    parts.sort_by_key(|part| part.index);
    parts.iter().map(|part| part.ended.as_us()).collect()
}

#[test]
fn a_window_above_the_path_costs_nothing() {
    let (whole, parts) =
        (ends(vec![message(64, Span::ZERO, None)]), ends(vec![message(64, Span::ZERO, Some(Window::NCCL))]));
    assert!((parts[0] / whole[0] - 1.0).abs() < 1e-3, "{whole:?} {parts:?}");
    // A part at a time waits for each to arrive.
    let one = Window { part: Bytes::kib(64), parts: 1 };
    let alone = ends(vec![message(64, Span::ZERO, Some(one))]);
    assert!(alone[0] > whole[0] * 1.2, "{whole:?} {alone:?}");
}

#[test]
fn a_later_message_gets_its_turn() {
    let late = message(1, Span::from_us(2000), None);
    let behind = |window| ends(vec![message(256, Span::ZERO, window), late.clone()])[1] - 2000.0;
    let alone = ends(vec![late.clone()])[0] - 2000.0;
    // Without a window three quarters of what was sent till then stand in the queue: some 75 MB of 100 Gbit/s.
    assert!(behind(None) > 5000.0, "{}", behind(None));
    let turns = behind(Some(Window::NCCL));
    let window = (4 << 20) as f64 * 8.0 / 100e3;
    assert!(turns < alone + 1.2 * window, "{turns} {alone} {window}");
}
