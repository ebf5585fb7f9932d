//! Whatever the network: all that was posted arrives once and in order, nothing is left, and both queues of events agree.

use proptest::prelude::*;

use super::*;
use crate::net::{Effect, PacketRun};
use crate::queue::Store;
use crate::queue::heap::HeapStore;
use crate::rate_control::{AnyRateControl, Fixed};
use crate::units::{Bytes, PsPerByte};

#[derive(Clone, Debug)]
struct Case {
    /// (From, to, bytes, window in packets, whether its path is chosen at nodes).
    flows: Vec<(usize, usize, u64, u64, bool)>,
    scheme: u8,
    inputs: u8,
    cut_through: bool,
    /// Acknowledgements wait as data do.
    control: bool,
    ack_every: u32,
    loses: u32,
    /// Packets that move as one, and units of a message.
    grain: (u32, u32),
    /// What goes up goes on in the next class.
    raises: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let flow = (0usize..64, 1usize..64, 0u64..100_000, 0u64..20, any::<bool>());
    let flow = flow.prop_map(|(from, step, bytes, window, chosen)| (from, (from + step) % 64, bytes, window, chosen));
    let flows = prop::collection::vec(flow, 1..24);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>());
    let grain = prop_oneof![Just((1u32, 1u32)), (2u32..20, 1u32..4)];
    (flows, 0u8..4, 0u8..3, switches, 1u32..6, prop_oneof![Just(0u32), 60u32..200], grain).prop_map(
        |(flows, scheme, inputs, (cut_through, control, raises), ack_every, loses, grain)| Case {
            raises,
            flows,
            scheme,
            inputs,
            cut_through,
            control,
            ack_every,
            loses: if scheme == 0 { loses } else { 0 },
            grain,
        },
    )
}

fn play<S: Store>(case: &Case) -> (crate::net::NetOutcome, Vec<Effect>, bool) {
    let mut fabric = leaf_spine(100);
    for port in &mut fabric.ports {
        // One lossy link a path, and more packets between losses than a window has, or a loss could come in step for ever.
        port.lose_every = if port.far < 64 { case.loses } else { 0 };
        if case.cut_through {
            port.forwarding = Forwarding::CutThrough { header: Bytes::new(64) };
        }
    }
    let more = u64::from(case.grain.0 - 1) * 4178;
    let classes: u64 = if case.raises { 3 } else { 2 };
    let shared = SharedSpec {
        // Beside what is set aside for the lossless classes of 16 inputs.
        size: if case.scheme == 2 { (1 << 20) + 16 * more } else { 407_040 + 16 * classes * (40_096 + more) },
        ports: None,
        threshold: Threshold::Dynamic { alpha: 1 << 13, offset: 3072 },
        reserve: 4096,
        headroom: 36_000,
        lossy_alpha: 1 << 14,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    };
    let scheme = match case.scheme {
        0 => FlowControlSpec::Unlimited,
        1 | 2 => FlowControlSpec::Shared(shared),
        _ => FlowControlSpec::Credits(CreditSpec { buffer: Bytes::kib(16), release: Span::from_ns(300), wire: 8 }),
    };
    let mut spec = fabric.spec(82, scheme);
    (spec.grain, spec.least_units) = case.grain;
    spec.inputs = [Inputs::Fifo, Inputs::RoundRobin, Inputs::HeadOfLine][usize::from(case.inputs)];
    spec.control = if case.control { Control::Class(1) } else { Control::Express };
    spec.classes = vec![red_off(case.scheme != 2); 2];
    spec.classes[0].marking = Marking::Red { kmin: 10_000, kmax: 90_000, pmax: 1 << 30, at: MarkAt::Enqueue };
    if case.raises {
        spec.classes.push(spec.classes[1]);
        let up = |port: &PortSpec| (64..72).contains(&port.near) && port.far >= 72;
        spec.raises = (0u32..).zip(&spec.ports).filter(|(_, port)| up(port)).map(|(link, _)| link).collect();
    }
    let mut run = PacketRun::<S>::new(spec).unwrap();
    for (index, (from, to, bytes, window, chosen)) in case.flows.iter().enumerate() {
        let (a, b) = (64 + from / 8, 64 + to / 8);
        let nodes = if a == b { vec![*from, a, *to] } else { vec![*from, a, 72 + index % 8, b, *to] };
        let (forth, back) = fabric.path(&nodes);
        let loses = case.scheme == 2 || case.loses > 0;
        let selective = *chosen || (loses && index % 2 == 0);
        let how = FlowSpec {
            class: (index % 2) as u8,
            recovery: if selective { Recovery::Selective } else { Recovery::GoBackN },
            ack_every: case.ack_every,
            timeout: loses.then_some(Span::from_us(300)),
            retries: 255,
            paths: if *chosen { Paths::LeastQueue } else { Paths::Pinned },
            reorder: if *chosen { 64 } else { 1 },
            notice: Notice::Packet { interval: Span::from_us(50), delay: Span::from_us(u64::from(case.inputs)) },
            ..FlowSpec::default()
        };
        let window = Bytes::new(if *window == 0 { u64::MAX } else { (window + u64::from(case.ack_every)) * 4096 });
        let rate: AnyRateControl = Fixed { pace: PsPerByte::FREE, window }.into();
        let flow = run.open(&forth, &back, how, rate).unwrap();
        run.post(flow, *bytes);
        run.post(flow, bytes / 3);
    }
    let mut effects = Vec::new();
    let pending = run.run_with(Time::from_ps(1_000_000_000_000), |_, effect| effects.push(effect));
    (run.outcome(), effects, pending)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn all_that_was_posted_arrives_once(case in case()) {
        let (outcome, effects, pending) = play::<RadixStore>(&case);
        prop_assert!(!pending, "something is left to happen");
        prop_assert!(outcome.cycle.is_empty());
        prop_assert_eq!(outcome.packets_left, 0);
        prop_assert_eq!(outcome.outstanding_blocks, 0);
        prop_assert_eq!(outcome.totals.headroom_drops, 0);
        prop_assert_eq!(outcome.totals.pauses, outcome.totals.resumes);
        for (flow, (_, _, bytes, ..)) in outcome.flows.iter().zip(&case.flows) {
            let packets = bytes.div_ceil(4096).max(1) + (bytes / 3).div_ceil(4096).max(1);
            prop_assert_eq!((flow.messages, flow.failed), (2, false));
            if case.scheme != 2 && case.loses == 0 {
                prop_assert_eq!((flow.arrived, flow.resent, flow.duplicates), (packets, 0, 0));
            } else {
                prop_assert!(flow.arrived >= packets);
            }
        }
        let delivered = effects.iter().filter(|effect| matches!(effect, Effect::Delivered { .. })).count();
        let known = effects.iter().filter(|effect| matches!(effect, Effect::Acknowledged { .. })).count();
        prop_assert_eq!((delivered, known), (2 * case.flows.len(), 2 * case.flows.len()));
        let by_heap = play::<HeapStore>(&case);
        prop_assert_eq!((outcome, effects, pending), by_heap);
    }
}
