//! Runs that are played region by region: nothing that is measured changes by it.

use proptest::prelude::*;

use super::tests_periods::{MTU, Recipe, recipe};
use super::*;
use crate::network::{Forwarding, LinkSpec};
use crate::outcome::{Outcome, Repeated};
use crate::program::{Layout, Program, Slice, Spacing};
use crate::program_builder::{ConnShape, CreditShape, Ends, ProgramBuilder};
use crate::queue::heap::HeapStore;
use crate::units::Rate;

/// When a run goes on region by region.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Apart {
    Never,
    AtOnce,
    /// When a kernel has ended an iteration.
    Later,
}

/// All that a driver hears, the outcome, and whether regions were played.
fn play<S: Store>(network: &Network, program: &Program, apart: Apart, limits: &Limits) -> (Vec<Notice>, Outcome, bool) {
    let limits = Limits { play_all: apart != Apart::Later, one_program: true, ..limits.clone() };
    let mut engine = Engine::<S>::new(network, MTU, limits);
    engine.load(program.clone(), Time::ZERO).unwrap();
    engine.apart = apart == Apart::AtOnce;
    let mut heard = Vec::new();
    let reason = engine.run(|engine, notice| {
        engine.apart |= apart == Apart::Later && heard.is_empty();
        heard.push(notice);
    });
    heard.sort_by_key(|n| match *n {
        Notice::Kernel { kernel, iteration, .. } => (0, iteration, kernel),
        Notice::Program { .. } => (1, 0, 0),
        Notice::Timer { number, .. } => (2, number, 0),
    });
    let played = engine.peak_apart > 0;
    (heard, engine.finish(reason), played)
}

/// Plays it whole and in regions, and compares all; returns whether there were any.
fn compare(network: &Network, program: &Program, limits: &Limits) -> bool {
    let same = |outcome: Outcome| Outcome { repeated: Repeated::default(), peak_pending: 0, ..outcome };
    let (heard, whole, _) = play::<RadixStore>(network, program, Apart::Never, limits);
    let whole = same(whole);
    let mut any = false;
    for apart in [Apart::AtOnce, Apart::Later] {
        let (heard_apart, outcome, played) = play::<RadixStore>(network, program, apart, limits);
        assert_eq!(heard, heard_apart);
        assert_eq!(whole, same(outcome));
        any |= played;
    }
    let (heard_heap, heap, _) = play::<HeapStore>(network, program, Apart::AtOnce, limits);
    assert_eq!(heard, heard_heap);
    assert_eq!(whole, same(heap));
    any
}

/// Nodes of devices on a switch that reduces and multicasts, joined in a chain by wires of their own: sums go up it, and
/// come down again.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    nodes: u32,
    devices: u32,
    channels: u32,
    total: u64,
    chunk: u64,
    slots: u16,
    iterations: u32,
    hold_ns: u64,
    pub(super) stage_ns: u64,
    per_byte: bool,
    rate: u64,
    segment: u64,
    flows: u32,
    split: bool,
    latency_ns: u64,
    shared: bool,
    skew: u64,
}

pub(super) fn nodes() -> impl Strategy<Value = Nodes> {
    let shape = (
        2u32..5,
        2u32..4,
        1u32..4,
        prop_oneof![Just(6 * 65_536u64), 100_000u64..1_500_000],
        prop::sample::select(vec![4096u64, 16_384, 65_536]),
    );
    let lanes = (prop::sample::select(vec![1u16, 2, 8]), 1u32..5, prop_oneof![Just(0u64), 0u64..6000], any::<bool>());
    let wires = (
        prop::sample::select(vec![25u64, 50, 63]),
        prop::sample::select(vec![4096u64, 20_000, 131_072]),
        1u32..3,
        any::<bool>(),
    );
    let more =
        (prop::sample::select(vec![0u64, 3_000]), prop::sample::select(vec![0u64, 500, 7_000]), any::<bool>(), 0u64..3);
    (shape, lanes, wires, more).prop_map(|(s, l, w, m)| Nodes {
        nodes: s.0,
        devices: s.1,
        channels: s.2,
        total: s.3,
        chunk: s.4,
        slots: l.0,
        iterations: l.1,
        hold_ns: l.2,
        per_byte: l.3,
        rate: w.0,
        segment: w.1,
        flows: w.2,
        split: w.3,
        stage_ns: m.0,
        latency_ns: m.1,
        shared: m.2,
        skew: m.3,
    })
}

impl Nodes {
    /// Two nodes with many equal loops, in which an operation sends to several switches' reductions.
    pub(super) fn long() -> Self {
        Self {
            nodes: 2,
            devices: 3,
            channels: 1,
            total: 3 * 65_536 * 400,
            chunk: 65_536,
            slots: 8,
            iterations: 2,
            hold_ns: 500,
            stage_ns: 4_000,
            per_byte: false,
            rate: 50,
            segment: 131_072,
            flows: 1,
            split: false,
            latency_ns: 500,
            shared: false,
            skew: 0,
        }
    }

    pub(super) fn network(&self) -> Network {
        let ct = Forwarding::CutThrough { header: Bytes::new(64) };
        let near = LinkSpec::ideal(Rate::gbyte(450), Span::from_ns(250));
        let far = LinkSpec::ideal(Rate::gbyte(self.rate), Span::from_ns(600));
        let far = far.overhead(Bytes::new(30)).forwarding(ct, Forwarding::StoreAndForward);
        let all = self.nodes * self.devices;
        let links = (0..2 * all).map(|_| near).chain((0..2 * all + 2).map(|_| far));
        Network::new(links.collect())
    }

    /// The links of a device to its switch and back, and to the network and back.
    fn links(&self, node: u32, device: u32) -> [LinkId; 4] {
        let (at, all) = (node * self.devices + device, self.nodes * self.devices);
        [2 * at, 2 * at + 1, 2 * (all + at), 2 * (all + at) + 1].map(LinkId)
    }

    /// From the device of one node to that of another; `shared`: over a link that all share.
    fn far(&self, b: &mut ProgramBuilder, from: u32, to: u32, device: u32) -> Ends {
        let way = |from: u32, to: u32| {
            let spine = LinkId(4 * self.nodes * self.devices + u32::from(from < to));
            let (out, into) = (self.links(from, device)[2], self.links(to, device)[3]);
            if self.shared { vec![out, spine, into] } else { vec![out, into] }
        };
        let (there, back) = (way(from, to), way(to, from));
        let credit = CreditShape::ClearToSend { route: &back, bytes: Bytes::new(64), delay: Span::from_ns(300) };
        // Every other recipe has queue pairs whose messages begin apart.
        let apart = Spacing { above: Bytes::new(4999), time: Span::from_us(3), turn: Span::from_us(5) };
        let shape = ConnShape {
            segment: Bytes::new(self.segment),
            latency: Span::from_ns(self.latency_ns + 100),
            credit,
            spacing: if self.latency_ns.is_multiple_of(2) { apart } else { Spacing::NONE },
        };
        b.connect(&vec![&there[..]; self.flows as usize], self.split, self.slots, &shape)
    }

    pub(super) fn program(&self) -> Program {
        let mut b = ProgramBuilder::new();
        let per_byte = Rate::gbyte(40).ps_per_byte();
        let cost = |fixed| Cost {
            fixed,
            per_byte: if self.per_byte { per_byte } else { crate::units::PsPerByte::FREE },
            ..Cost::default()
        };
        let (head, stage) = (b.cost(cost(Span::from_ns(self.hold_ns))), b.cost(cost(Span::from_ns(self.stage_ns))));
        let all = self.nodes * self.devices;
        for device in 0..all {
            b.kernel(Span::from_us(3) + Span::from_ns(u64::from(device) * self.skew * 100), Span::ZERO);
        }
        let heads = self.devices;
        for channel in 0..self.channels {
            let total = self.total + u64::from(channel) * self.skew * 10_000;
            let loop_bytes = self.chunk * u64::from(heads);
            let rest = match total % loop_bytes {
                0 => self.chunk,
                rest => rest.div_ceil(u64::from(heads)).next_multiple_of(16),
            };
            let layout =
                Layout { total, chunk: self.chunk, last_chunk: rest, chunks: heads, slices: 1, min_slice: 512 };
            let layout = b.layout(layout);
            let domains: Vec<Vec<_>> = (0..self.nodes).map(|node| self.domain(&mut b, node)).collect();
            // Per head, the connections between a node and the next, up and down.
            let ways: Vec<Vec<(Ends, Ends)>> = (0..heads)
                .map(|head| {
                    let between =
                        |n: u32, b: &mut ProgramBuilder| (self.far(b, n, n + 1, head), self.far(b, n + 1, n, head));
                    (0..self.nodes - 1).map(|n| between(n, &mut b)).collect()
                })
                .collect();
            for node in 0..self.nodes {
                let domain = &domains[node as usize];
                for device in 0..self.devices {
                    let kernel = node * self.devices + device;
                    let ins: Vec<u32> = domain.iter().map(|d| d.0.start + device).collect();
                    let outs: Vec<u32> = domain.iter().map(|d| d.3.start + device).collect();
                    b.lane(kernel, layout, |l| l.step(&[], &ins, stage, 1, 0, 0));
                    b.lane(kernel, layout, |l| l.step(&outs, &[], stage, 1, 0, 0));
                    let (reduced, cast) = (domain[device as usize].1.start, domain[device as usize].2.start);
                    let ways = &ways[device as usize];
                    let below = node.checked_sub(1).map(|n| ways[n as usize]);
                    let above = ways.get(node as usize);
                    let up_in: Vec<u32> = core::iter::once(reduced).chain(below.map(|w| w.0.recv)).collect();
                    let down_out: Vec<u32> = core::iter::once(cast).chain(below.map(|w| w.1.send)).collect();
                    match above {
                        None => {
                            b.lane(kernel, layout, |l| l.step(&up_in, &down_out, head, 1, device, 0));
                        }
                        Some((up, down)) => {
                            b.lane(kernel, layout, |l| l.step(&up_in, &[up.send], head, 1, device, 0));
                            b.lane(kernel, layout, |l| l.step(&[down.recv], &down_out, head, 1, device, 0));
                        }
                    }
                }
            }
        }
        b.iterate(self.iterations, Span::from_us(1));
        b.finish()
    }

    /// Per head: the senders and the receiver of the reduction, the sender and the receivers of the multicast.
    fn domain(&self, b: &mut ProgramBuilder, node: u32) -> Vec<(Slice, Slice, Slice, Slice)> {
        let links: Vec<[[LinkId; 1]; 2]> =
            (0..self.devices).map(|d| self.links(node, d)).map(|[up, down, ..]| [[up], [down]]).collect();
        let up: Vec<&[LinkId]> = links.iter().map(|l| &l[0][..]).collect();
        let down: Vec<&[LinkId]> = links.iter().map(|l| &l[1][..]).collect();
        let credit = CreditShape::After(Span::from_ns(450));
        let shape =
            ConnShape { segment: Bytes::new(self.segment), latency: Span::ZERO, credit, spacing: Spacing::NONE };
        let heads = 0..self.devices as usize;
        let reduces: Vec<_> =
            heads.clone().map(|head| b.connect_junction(&up, &down[head..=head], self.slots, &shape)).collect();
        let casts: Vec<_> = heads.map(|head| b.connect_junction(&up[head..=head], &down, self.slots, &shape)).collect();
        reduces.into_iter().zip(casts).map(|((ins, reduced), (cast, outs))| (ins, reduced, cast, outs)).collect()
    }
}

#[test]
fn lanes_that_share_an_end_are_of_one_region() {
    // Two lanes of different kernels take the messages of one connection in turn, and two others send on one.
    let link = LinkSpec::ideal(Rate::gbyte(50), Span::from_ns(600));
    let network = Network::new(vec![link; 8]);
    for shared_sender in [false, true] {
        let mut b = ProgramBuilder::new();
        let cost = b.cost(Cost { fixed: Span::from_us(2), ..Cost::default() });
        let back = [LinkId(2), LinkId(3)];
        let credit = CreditShape::ClearToSend { route: &back, bytes: Bytes::new(64), delay: Span::from_ns(300) };
        let shape = ConnShape { segment: Bytes::kib(16), latency: Span::from_ns(500), credit, spacing: Spacing::NONE };
        let ends = b.connect(&[&[LinkId(0), LinkId(1)]], false, 4, &shape);
        let layout = b.layout(Layout { chunks: 1, chunk: 10_000, last_chunk: 10_000, ..Layout::whole(400_000) });
        let half = b.layout(Layout { chunks: 1, chunk: 10_000, last_chunk: 10_000, ..Layout::whole(200_000) });
        let (senders, receivers) = if shared_sender { (2, 1) } else { (1, 2) };
        for (count, send) in [(senders, true), (receivers, false)] {
            for _ in 0..count {
                let kernel = b.kernel(Span::from_us(1), Span::ZERO);
                let layout = if count == 2 { half } else { layout };
                b.lane(kernel, layout, |l| {
                    if send {
                        l.step(&[], &[ends.send], cost, 1, 0, 0);
                    } else {
                        l.step(&[ends.recv], &[], cost, 1, 0, 0);
                    }
                });
            }
        }
        b.iterate(3, Span::ZERO);
        // Still two regions: those that send, and those that receive.
        assert!(compare(&network, &b.finish(), &Limits::default()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn regions_change_nothing(recipe in recipe()) {
        let recipe = Recipe { clear_to_send: true, ..recipe };
        let apart = compare(&recipe.network(), &recipe.program(), &Limits::default());
        // A barrier of all, and junctions, hold everything together.
        prop_assert_eq!(apart, recipe.kind < 2);
    }

    #[test]
    fn regions_of_nodes_change_nothing(nodes in nodes()) {
        prop_assert!(compare(&nodes.network(), &nodes.program(), &Limits::default()));
    }

    #[test]
    fn the_limit_of_time_is_met_in_regions_too(nodes in nodes(), us in 10u64..2_000) {
        let limits = Limits { time: Time::ZERO + Span::from_us(us), ..Limits::default() };
        compare(&nodes.network(), &nodes.program(), &limits);
    }
}
