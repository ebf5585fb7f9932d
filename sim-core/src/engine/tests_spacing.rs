//! Messages of a queue pair that begin apart.

use super::tests::{chain, play_with};
use super::*;
use crate::network::LinkSpec;
use crate::program::{Layout, Spacing};
use crate::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use crate::units::Rate;

const US: Span = Span::from_us(1);

/// When `messages` of `bytes` each, in each of `iterations`, are there, over a link of 1 GB/s and no latency.
fn play(messages: u64, bytes: u64, iterations: u32, spacing: Spacing) -> Span {
    play_over(1, false, messages, bytes, iterations, spacing)
}

/// The same over several flows, that take turns or have a part of each message.
fn play_over(flows: usize, split: bool, messages: u64, bytes: u64, iterations: u32, spacing: Spacing) -> Span {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(1), Span::ZERO)]);
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let credit = CreditShape::After(Span::ZERO);
    let ends = b.connect(
        &vec![&route[..]; flows],
        split,
        8,
        &ConnShape { segment: Bytes::kib(4), latency: Span::ZERO, credit, spacing },
    );
    let (from, to) = (b.kernel(Span::ZERO, Span::ZERO), b.kernel(Span::ZERO, Span::ZERO));
    let layout = b.layout(Layout {
        total: messages * bytes,
        chunk: bytes,
        last_chunk: bytes,
        chunks: 1,
        slices: 1,
        min_slice: 0,
    });
    b.lane(from, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
    b.lane(to, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
    b.iterate(iterations, Span::ZERO);
    play_with(&network, &b.finish(), None).0[1]
}

#[test]
fn messages_begin_apart_or_follow_each_other() {
    let apart = |us| Spacing { above: Bytes::new(999), time: Span::from_us(us), turn: Span::ZERO };
    assert_eq!(play(5, 1000, 1, Spacing::NONE), US * 5);
    // The wire sets the pace where it is slower; else the beginnings are that far apart.
    assert_eq!(play(5, 8000, 1, apart(7)), US * 40);
    assert_eq!(play(5, 1000, 1, apart(7)), US * (4 * 7 + 1));
    // Messages of the limit or less do not count.
    assert_eq!(play(5, 999, 1, apart(7)), Span::from_ns(5 * 999));
}

#[test]
fn the_first_message_of_an_iteration_waits_for_the_turn() {
    let spacing = Spacing { above: Bytes::ZERO, time: US * 7, turn: US * 13 };
    // n messages and k iterations: the last begins after (n·k − 1) spacings and k − 1 turns.
    for (n, k) in [(1, 1), (1, 4), (3, 1), (3, 5), (20, 2)] {
        let last = US * 7 * (n * k - 1) + US * 13 * (k - 1);
        assert_eq!(play(n, 1000, k as u32, spacing), last + US, "{n} messages, {k} iterations");
    }
    // Where messages are small, only the turn is left.
    let small = Spacing { above: Bytes::new(1000), ..spacing };
    assert_eq!(play(1, 1000, 4, small), US * (3 * 13 + 1));
}

#[test]
fn flows_of_one_sender_share_its_pace() {
    let spacing = Spacing { above: Bytes::new(999), time: US * 7, turn: US * 13 };
    for (n, k) in [(1, 4), (3, 5), (8, 2)] {
        let one = play(n, 1000, k, spacing);
        for flows in 2..5 {
            assert_eq!(play_over(flows, false, n, 1000, k, spacing), one, "{flows} flows in turn");
            // A part of each message on every flow: parts below the limit count as the message that they are of.
            assert_eq!(play_over(flows, true, n, 1000, k, spacing), one, "{flows} flows with parts");
        }
    }
}
