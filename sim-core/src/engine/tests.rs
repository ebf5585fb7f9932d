//! The engine against closed forms, on networks small enough to work out by hand.

use proptest::prelude::*;

use super::*;
use crate::net::NetPlan;
use crate::network::{Forwarding, LinkSpec};
use crate::program::{Layout, Program, Spacing};
use crate::program_builder::{ConnShape, CreditShape, Onward, ProgramBuilder};
use crate::queue::heap::HeapStore;
use crate::units::{Rate, Span};

const MTU: Bytes = Bytes::kib(4);

fn shape(segment: Bytes) -> ConnShape<'static> {
    ConnShape { segment, latency: Span::ZERO, credit: CreditShape::After(Span::ZERO), spacing: Spacing::NONE }
}

/// One kernel a message, that ends when the message is there.
pub(super) fn transfers(list: &[(Vec<LinkId>, Bytes)], segment: Bytes) -> Program {
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    for (route, bytes) in list {
        let ends = b.connect(&[route], false, 1, &shape(segment));
        let k = b.kernel(Span::ZERO, Span::ZERO);
        let layout = b.layout(Layout::whole(bytes.get()));
        b.lane(k, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
        b.lane(k, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
    }
    b.finish()
}

/// When each kernel ended, and the outcome.
fn play<S: Store>(network: &Network, program: &Program) -> (Vec<Span>, crate::outcome::Outcome) {
    finish(Engine::<S>::new(network, MTU, Limits::default()), program)
}

/// The same with packets on some of the links.
pub(super) fn play_with(
    network: &Network,
    program: &Program,
    packets: Option<NetPlan>,
) -> (Vec<Span>, crate::outcome::Outcome) {
    let mut engine = Engine::<RadixStore>::new(network, MTU, Limits::default());
    packets.into_iter().for_each(|plan| engine.set_net(plan).unwrap());
    finish(engine, program)
}

fn finish<S: Store>(mut engine: Engine<S>, program: &Program) -> (Vec<Span>, crate::outcome::Outcome) {
    engine.load(program.clone(), Time::ZERO).unwrap();
    let mut ends = vec![Span::ZERO; program.kernels.len()];
    let reason = engine.run(|_, notice| {
        if let Notice::Kernel { kernel, ended, .. } = notice {
            ends[kernel as usize] = ended.since(Time::ZERO);
        }
    });
    assert_eq!(reason, StopReason::Finished);
    let outcome = engine.finish(reason);
    assert_eq!(outcome.faults, []);
    (ends, outcome)
}

pub(super) fn chain(links: &[LinkSpec]) -> (Network, Vec<LinkId>) {
    (Network::new(links.to_vec()), (0..links.len()).map(LinkId::new).collect())
}

/// Σα + max(wire/β) + Σ u_out before the bottleneck + Σ u_in after it.
fn closed_form(links: &[LinkSpec], bytes: Bytes) -> f64 {
    let wire = |l: &LinkSpec, n: u64| n as f64 + n.div_ceil(MTU.get()) as f64 * l.packet_overhead.get() as f64;
    let ps = |l: &LinkSpec, n: f64| n * 1e12 / l.rate.get() as f64;
    let hold = |l: &LinkSpec, f: Forwarding| {
        let whole = wire(l, bytes.get());
        ps(
            l,
            match f {
                Forwarding::CutThrough { header } => (header.get() as f64).min(whole),
                Forwarding::StoreAndForward => wire(l, MTU.get()).min(whole),
                Forwarding::Relay => whole,
            },
        )
    };
    let all: Vec<f64> = links.iter().map(|l| ps(l, wire(l, bytes.get()))).collect();
    let alpha: f64 = links.iter().map(|l| l.latency.as_ps() as f64).sum();
    // The bottleneck's sum is the largest of the candidates' sums.
    let candidates = (0..links.len()).map(|i| {
        all[i]
            + links[..i].iter().map(|l| hold(l, l.far)).sum::<f64>()
            + links[i + 1..].iter().map(|l| hold(l, l.near)).sum::<f64>()
    });
    alpha + candidates.fold(0.0, f64::max)
}

fn link(gb: u64, overhead: u64) -> LinkSpec {
    LinkSpec::ideal(Rate::gbyte(gb), Span::from_ns(500)).overhead(Bytes::new(overhead))
}

fn with_devices(rates: &[u64], forwarding: &[Forwarding]) -> Vec<LinkSpec> {
    rates.iter().enumerate().map(|(i, gb)| link(*gb, 26).forwarding(forwarding[i], forwarding[i + 1])).collect()
}

const SF: Forwarding = Forwarding::StoreAndForward;
const CT: Forwarding = Forwarding::CutThrough { header: Bytes::new(64) };

#[test]
fn a_message_over_a_chain_takes_the_closed_form_at_any_segment_size() {
    for rates in [[50, 50, 50], [450, 50, 450], [50, 450, 50], [450, 63, 50], [50, 63, 450], [100, 100, 50]] {
        for devices in [[SF; 4], [CT; 4], [SF, CT, SF, CT], [CT, SF, CT, SF]] {
            let links = with_devices(&rates, &devices);
            let (network, route) = chain(&links);
            let bytes = Bytes::mib(1);
            let expected = closed_form(&links, bytes);
            for segment in [4, 8, 32, 64, 128, 1024].map(Bytes::kib) {
                let (ends, outcome) = play::<RadixStore>(&network, &transfers(&[(route.clone(), bytes)], segment));
                let error = ends[0].as_ps() as f64 / expected - 1.0;
                assert!(error.abs() < 1e-3, "{rates:?} {devices:?} {segment}: {} for {expected}", ends[0]);
                assert_eq!(outcome.engine.segment_hops, 3 * bytes.get() / segment.get());
            }
        }
    }
}

proptest! {
    #[test]
    fn cutting_finer_changes_the_total_by_at_most_a_packet_a_hop(
        rates in prop::collection::vec(prop::sample::select(vec![12u64, 25, 50, 63, 450, 900]), 1..6),
        kinds in prop::collection::vec(prop::sample::select(vec![SF, CT]), 7),
        bytes in 1u64..3_000_000,
    ) {
        let links = with_devices(&rates, &kinds[..=rates.len()]);
        let (network, route) = chain(&links);
        let packet: u64 = links.iter().map(|l| l.rate.time_for(MTU + l.packet_overhead).as_ps()).sum();
        let times: Vec<u64> = [4, 16, 128, 4096].iter().map(|kib| {
            let program = transfers(&[(route.clone(), Bytes::new(bytes))], Bytes::kib(*kib));
            play::<RadixStore>(&network, &program).0[0].as_ps()
        }).collect();
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        prop_assert!(most - least <= packet, "{times:?}, a packet on each hop is {packet}");
        let bound = closed_form(&links, Bytes::new(bytes));
        prop_assert!(times.iter().all(|t| (*t as f64 - bound).abs() <= packet as f64 + 4.0), "{times:?} for {bound}");
    }

    #[test]
    fn queues_agree_on_random_traffic(
        flows in prop::collection::vec((0usize..6, 1usize..5, 1u64..400_000), 1..12),
    ) {
        let links: Vec<_> = (0..10).map(|i| with_devices(&[[50, 450, 63, 25][i % 4]], &[CT, CT])[0]).collect();
        let list: Vec<_> = flows.iter()
            .map(|(first, n, bytes)| ((*first..first + n).map(LinkId::new).collect(), Bytes::new(*bytes)))
            .collect();
        let program = transfers(&list, Bytes::kib(16));
        let network = Network::new(links);
        let (radix, a) = play::<RadixStore>(&network, &program);
        let (heap, b) = play::<HeapStore>(&network, &program);
        prop_assert_eq!(&radix, &heap);
        prop_assert_eq!(a.fingerprint, b.fingerprint);
        prop_assert!(a.links.iter().all(|l| l.busy <= a.ended.since(Time::ZERO)));
        let total: u64 = list.iter().map(|(r, b)| r.len() as u64 * b.get()).sum();
        prop_assert_eq!(a.links.iter().map(|l| l.payload).sum::<u64>(), total);
    }
}

#[test]
fn more_segments_than_a_window_has_numbers_wait_at_the_source() {
    let links = [Rate::gbyte(100), Rate::gbyte(1)].map(|r| LinkSpec::ideal(r, Span::from_us(1)));
    let (network, route) = chain(&links);
    for segments in [(1u64 << 14) - 1, 1 << 14, (1 << 14) + 1, 50_000] {
        let bytes = Bytes::new(segments * 64);
        let program = transfers(&[(route.clone(), bytes)], Bytes::new(64));
        let (ends, outcome) = play_with(&network, &program, None);
        let expected = Rate::gbyte(1).time_for(bytes).as_us() + 2.0;
        assert!((ends[0].as_us() / expected - 1.0).abs() < 1e-3, "{segments}: {} for {expected}", ends[0]);
        assert_eq!(outcome.links[1].payload, bytes.get());
    }
}

#[test]
fn flows_of_one_port_share_it_round_robin() {
    let (network, route) = chain(&with_devices(&[50], &[CT, CT]));
    let bytes = Bytes::mib(8);
    let program = transfers(&vec![(route, bytes); 4], Bytes::kib(64));
    let (ends, outcome) = play::<RadixStore>(&network, &program);
    let all = ends.iter().max().unwrap();
    // They end within a segment each of one another: none is served before the others.
    assert!(ends.iter().all(|t| *all - *t <= Rate::gbyte(50).time_for(Bytes::kib(4 * 66))), "{ends:?}");
    assert!((outcome.links[0].utilization(*all) - 1.0).abs() < 1e-3);
    assert!(outcome.links[0].peak_queue(Rate::gbyte(50).ps_per_byte()) <= Bytes::kib(3 * 66));
}

#[test]
fn at_one_instant_a_link_serves_what_begins_there_then_the_lower_flow_then_what_lanes_begin() {
    let rate = Rate::gbyte(50);
    let (far, near) = (LinkSpec::ideal(rate, Span::from_us(1)), LinkSpec::ideal(rate, Span::ZERO));
    let network = Network::new(vec![far, near, far]);
    let segment = Bytes::new(50_000);
    // Two come from afar and are at link 1 after 1 µs, when a third has sent one segment there and has another, and a lane
    // begins to send there.
    for (first, second) in [(0, 2), (2, 0)] {
        let mut b = ProgramBuilder::new();
        let cost = b.cost(Cost::default());
        let far = |link| vec![LinkId(link), LinkId(1)];
        let near = || vec![LinkId(1)];
        for (route, start, segments) in [(far(first), 0, 1), (far(second), 0, 1), (near(), 0, 2), (near(), 1, 1)] {
            let layout = b.layout(Layout::whole(segments * segment.get()));
            let ends = b.connect(&[&route], false, 1, &shape(segment));
            let k = b.kernel(Span::from_us(start), Span::ZERO);
            b.lane(k, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
            b.lane(k, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
        }
        let (ends, _) = play::<RadixStore>(&network, &b.finish());
        assert_eq!(ends, [3, 4, 2, 5].map(Span::from_us));
    }
}

/// A ring over direct links, `slices` a chunk.
fn ring(n: u32, total: u64, slices: u32) -> (Network, Program) {
    let rate = Rate::gbyte(50);
    let network = Network::new(vec![LinkSpec::ideal(rate, Span::from_us(1)); n as usize]);
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let ends: Vec<_> = (0..n).map(|i| b.connect(&[&[LinkId(i)]], false, 8, &shape(Bytes::new(total)))).collect();
    let chunk = total / u64::from(n);
    let layout = b.layout(Layout { total, chunk, last_chunk: chunk, chunks: n, slices, min_slice: 0 });
    for i in 0..n {
        let k = b.kernel(Span::ZERO, Span::ZERO);
        let (send, recv) = (ends[i as usize].send, ends[((i + n - 1) % n) as usize].recv);
        b.lane(k, layout, |l| {
            l.step(&[], &[send], cost, 1, (i + n - 1) % n, 0);
            l.step(&[recv], &[send], cost, 2 * n - 3, (i + 2 * n - 2) % n, n - 1);
            l.step(&[recv], &[], cost, 1, (i + 1) % n, 0);
        });
    }
    (network, b.finish())
}

#[test]
fn a_ring_takes_2_n_minus_1_times_alpha_plus_chunk_over_beta() {
    for n in [2u32, 3, 8, 16] {
        let chunk = 1_000_000u64;
        let (network, program) = ring(n, chunk * u64::from(n), 1);
        let (ends, _) = play::<RadixStore>(&network, &program);
        let step = Span::from_us(1) + Rate::gbyte(50).time_for(Bytes::new(chunk));
        assert!(ends.iter().all(|t| *t == step * u64::from(2 * (n - 1))), "{n}: {ends:?}");
    }
}

#[test]
fn two_slices_a_chunk_hide_the_latency() {
    let (n, chunk) = (8u32, 16_000_000u64);
    let (network, program) = ring(n, chunk * u64::from(n), 2);
    let (ends, _) = play::<RadixStore>(&network, &program);
    let wire = Rate::gbyte(50).time_for(Bytes::new(chunk)) * u64::from(2 * (n - 1));
    // The link is never idle after the first slice: only one α is left.
    assert!(ends.iter().all(|t| *t >= wire && *t <= wire + Span::from_us(2)), "{ends:?} for {wire}");
}

#[test]
fn slots_bound_how_far_a_sender_runs_ahead() {
    // One slot: each of 4 slices waits for the whole round trip of the one before.
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(1), Span::from_us(3))]);
    for (slots, trips) in [(1u16, 4u64), (4, 1)] {
        let mut b = ProgramBuilder::new();
        let cost = b.cost(Cost::default());
        let spec = ConnShape { credit: CreditShape::After(Span::from_us(2)), ..shape(MTU) };
        let ends = b.connect(&[&route], false, slots, &spec);
        let k = b.kernel(Span::ZERO, Span::ZERO);
        let layout =
            b.layout(Layout { total: 4000, chunk: 1000, last_chunk: 1000, chunks: 1, slices: 1, min_slice: 0 });
        b.lane(k, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
        b.lane(k, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
        let (ends, _) = play::<RadixStore>(&network, &b.finish());
        let serial = if slots == 1 { Span::from_us(1) * trips } else { Span::from_us(4) };
        assert_eq!(ends[0], serial + Span::from_us(3) * trips + Span::from_us(2) * (trips - 1), "{slots} slots");
    }
}

#[test]
fn a_clear_to_send_travels_the_reverse_link() {
    let links = vec![LinkSpec::ideal(Rate::gbyte(1), Span::from_us(3)); 2];
    let (network, _) = chain(&links);
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let credit = CreditShape::ClearToSend { route: &[LinkId(1)], bytes: Bytes::new(64), delay: Span::ZERO };
    let ends = b.connect(&[&[LinkId(0)]], false, 1, &ConnShape { credit, ..shape(MTU) });
    let k = b.kernel(Span::ZERO, Span::ZERO);
    let layout = b.layout(Layout { total: 3000, chunk: 1000, last_chunk: 1000, chunks: 1, slices: 1, min_slice: 0 });
    b.lane(k, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
    b.lane(k, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
    let (ends, outcome) = play::<RadixStore>(&network, &b.finish());
    let trip = Span::from_us(4);
    let clear = Span::from_us(3) + Span::from_ns(64);
    assert_eq!(ends[0], trip * 3 + clear * 2);
    assert_eq!(outcome.links[1].payload, 3 * 64);
}

#[test]
fn a_switch_reduces_and_multicasts() {
    // Four devices, up links 0..4 and down links 4..8: reduce to device 0, then multicast from it.
    let rate = Rate::gbyte(100);
    let network = Network::new(vec![LinkSpec::ideal(rate, Span::from_us(1)); 8]);
    let (up, down): (Vec<_>, Vec<_>) = ((0..4).map(|i| [LinkId(i)]).collect(), (4..8).map(|i| [LinkId(i)]).collect());
    let (ups, downs): (Vec<&[LinkId]>, Vec<&[LinkId]>) =
        (up.iter().map(|r| &r[..]).collect(), down.iter().map(|r| &r[..]).collect());
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let (reduce_send, reduce_recv) = b.connect_junction(&ups, &downs[..1], 2, &shape(Bytes::kib(64)));
    let (cast_send, cast_recv) = b.connect_junction(&ups[..1], &downs, 2, &shape(Bytes::kib(64)));
    let bytes = 1 << 20;
    let layout = b.layout(Layout::whole(bytes));
    for i in 0..4 {
        let k = b.kernel(Span::ZERO, Span::ZERO);
        b.lane(k, layout, |l| l.step(&[], &[reduce_send.start + i], cost, 1, 0, 0));
        if i == 0 {
            b.lane(k, layout, |l| l.step(&[reduce_recv.start], &[cast_send.start], cost, 1, 0, 0));
        }
        b.lane(k, layout, |l| l.step(&[cast_recv.start + i], &[], cost, 1, 0, 0));
    }
    let (ends, outcome) = play::<RadixStore>(&network, &b.finish());
    let once = rate.time_for(Bytes::new(bytes)) + Span::from_us(2);
    assert!(ends.iter().all(|t| *t >= once * 2 && *t <= once * 2 + Span::from_ns(1)), "{ends:?} for {}", once * 2);
    let payload: Vec<u64> = outcome.links.iter().map(|l| l.payload / bytes).collect();
    assert_eq!(payload, [2, 1, 1, 1, 2, 1, 1, 1]);
}

#[test]
fn a_tree_of_switches_reduces_upwards_and_copies_downwards() {
    // Four devices with links up (0..4) and down (4..8) on two switches, these below a root: up 8, 9 and down 10, 11.
    let rate = Rate::gbyte(100);
    let network = Network::new(vec![LinkSpec::ideal(rate, Span::from_us(1)); 12]);
    let link: Vec<[LinkId; 1]> = (0..12).map(|i| [LinkId(i)]).collect();
    let route = |i: usize| &link[i][..];
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let inputs: Vec<(&[LinkId], usize)> = (0..4).map(|i| (route(i), 1 + i / 2)).collect();
    let meetings = [
        vec![(route(10), Onward::Meeting(3)), (route(11), Onward::Meeting(4))],
        vec![(route(8), Onward::Meeting(0))],
        vec![(route(9), Onward::Meeting(0))],
        vec![(route(4), Onward::Receiver(0)), (route(5), Onward::Receiver(1))],
        vec![(route(6), Onward::Receiver(2)), (route(7), Onward::Receiver(3))],
    ];
    let (send, recv) = b.connect_meetings(&inputs, &meetings, 2, &shape(Bytes::kib(64)));
    let bytes = 1 << 20;
    let layout = b.layout(Layout::whole(bytes));
    for i in 0..4 {
        let k = b.kernel(Span::ZERO, Span::ZERO);
        b.lane(k, layout, |l| l.step(&[], &[send.start + i], cost, 1, 0, 0));
        b.lane(k, layout, |l| l.step(&[recv.start + i], &[], cost, 1, 0, 0));
    }
    let (ends, outcome) = play::<RadixStore>(&network, &b.finish());
    // Four links in a pipeline; every one carries the data once.
    let once = rate.time_for(Bytes::new(bytes)) + Span::from_us(4);
    assert!(ends.iter().all(|t| *t >= once && *t <= once + Span::from_ns(1)), "{ends:?} for {once}");
    assert!(outcome.links.iter().all(|l| l.payload == bytes));
    assert!(outcome.faults.is_empty());
}

#[test]
fn a_cycle_of_waits_is_a_deadlock_and_not_a_hang() {
    let (network, _) = chain(&[link(50, 0), link(50, 0)]);
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let there = b.connect(&[&[LinkId(0)]], false, 1, &shape(MTU));
    let back = b.connect(&[&[LinkId(1)]], false, 1, &shape(MTU));
    let layout = b.layout(Layout::whole(100));
    let k = b.kernel(Span::ZERO, Span::ZERO);
    b.lane(k, layout, |l| l.step(&[back.recv], &[there.send], cost, 1, 0, 0));
    b.lane(k, layout, |l| l.step(&[there.recv], &[back.send], cost, 1, 0, 0));
    let mut engine = Engine::<RadixStore>::new(&network, MTU, Limits::default());
    engine.load(b.finish(), Time::ZERO).unwrap();
    let reason = engine.run(|_, _| {});
    let outcome = engine.finish(reason);
    assert_eq!(reason, StopReason::Deadlock);
    assert_eq!(outcome.blocked.len(), 2);
}

#[test]
fn kernels_repeat_back_to_back_and_programs_can_follow() {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(1), Span::from_us(1))]);
    let mut program = transfers(&[(route, Bytes::new(1000))], MTU);
    program.iterations = 3;
    program.kernels[0].launch = Span::from_us(5);
    let mut engine = Engine::<RadixStore>::new(&network, MTU, Limits::default());
    engine.load(program.clone(), Time::ZERO).unwrap();
    let mut ends = Vec::new();
    let mut more = 1;
    let reason = engine.run(|engine, notice| match notice {
        Notice::Kernel { ended, .. } => ends.push(ended.as_us()),
        Notice::Program { ended, .. } if more > 0 => {
            more -= 1;
            engine.load(program.clone(), ended + Span::from_us(10)).unwrap();
        }
        _ => {}
    });
    assert_eq!(reason, StopReason::Finished);
    assert_eq!(ends, [7.0, 14.0, 21.0, 38.0, 45.0, 52.0]);
}

#[test]
fn limits_stop_a_run() {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(1), Span::from_us(1))]);
    let program = transfers(&[(route, Bytes::mib(64))], MTU);
    let run = |limits| {
        let mut engine = Engine::<RadixStore>::new(&network, MTU, limits);
        engine.load(program.clone(), Time::ZERO).unwrap();
        let reason = engine.run(|_, _| {});
        (reason, engine.finish(reason))
    };
    let (reason, outcome) = run(Limits { events: 100, ..Limits::default() });
    assert_eq!((reason, outcome.engine.events, outcome.faults.len()), (StopReason::EventLimit, 100, 0));
    let (reason, _) = run(Limits { time: Time::from_ps(1_000_000), ..Limits::default() });
    assert_eq!(reason, StopReason::TimeLimit);
}
