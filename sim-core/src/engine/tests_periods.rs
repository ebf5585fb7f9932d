//! Periods that are counted and not played: nothing that is measured changes by it.

use proptest::prelude::*;

use super::*;
use crate::network::{Forwarding, LinkSpec};
use crate::outage::Outage;
use crate::outcome::{Outcome, Repeated};
use crate::program::{Layout, Program, Spacing};
use crate::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use crate::queue::heap::HeapStore;
use crate::units::Rate;

pub(super) const MTU: Bytes = Bytes::kib(4);

/// All that a driver hears, and the outcome.
fn play<S: Store>(network: &Network, program: &Program, fast: bool, limits: &Limits) -> (Vec<Notice>, Outcome) {
    let mut engine = Engine::<S>::new(network, MTU, Limits { play_all: !fast, ..limits.clone() });
    engine.load(program.clone(), Time::ZERO).unwrap();
    let mut heard = Vec::new();
    let reason = engine.run(|_, notice| heard.push(notice));
    // Those of one instant may be heard in another order.
    heard.sort_by_key(|n| match *n {
        Notice::Kernel { kernel, iteration, .. } => (0, iteration, kernel),
        Notice::Program { .. } => (1, 0, 0),
        Notice::Timer { number, .. } => (2, number, 0),
    });
    (heard, engine.finish(reason))
}

/// Plays it both ways and compares all; returns what was not played.
fn compare(network: &Network, program: &Program, limits: &Limits) -> Repeated {
    let (heard, whole) = play::<RadixStore>(network, program, false, limits);
    assert_eq!(whole.repeated, Repeated::default());
    let (heard_fast, fast) = play::<RadixStore>(network, program, true, limits);
    assert_eq!(heard, heard_fast);
    assert_eq!(whole, Outcome { repeated: Repeated::default(), ..fast.clone() });
    let (heard_heap, heap) = play::<HeapStore>(network, program, true, limits);
    assert_eq!(heard, heard_heap);
    assert_eq!(fast, heap);
    fast.repeated
}

/// What a random program is made of.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) devices: u32,
    pub(super) channels: u32,
    pub(super) total: u64,
    pub(super) chunk: u64,
    pub(super) slices: u32,
    pub(super) slots: u16,
    pub(super) iterations: u32,
    pub(super) hold_ns: u64,
    pub(super) per_byte: u64,
    pub(super) rates: Vec<u64>,
    pub(super) uneven: u64,
    pub(super) segment: u64,
    pub(super) kind: u8,
    pub(super) clear_to_send: bool,
    pub(super) flows: u32,
    pub(super) split: bool,
    pub(super) apart: bool,
}

pub(super) fn recipe() -> impl Strategy<Value = Recipe> {
    let shape = (
        2u32..6,
        1u32..4,
        200_000u64..6_000_000,
        prop::sample::select(vec![4096u64, 10_000, 65_536, 131_072, 1_000_000]),
    );
    let lanes =
        (prop::sample::select(vec![1u32, 2, 3, 30]), prop::sample::select(vec![1u16, 2, 4, 8]), 1u32..8, 0u64..3000);
    let wires = (
        prop::sample::select(vec![0u64, 3, 40]),
        prop::collection::vec(prop::sample::select(vec![25u64, 50, 63, 450]), 1..5),
        0u64..3,
    );
    let more = (
        prop::sample::select(vec![4096u64, 20_000, 131_072]),
        0u8..4,
        any::<bool>(),
        1u32..4,
        any::<bool>(),
        any::<bool>(),
    );
    (shape, lanes, wires, more).prop_map(|(s, l, w, m)| Recipe {
        devices: s.0,
        channels: s.1,
        total: s.2,
        chunk: s.3,
        slices: l.0,
        slots: l.1,
        iterations: l.2,
        hold_ns: l.3,
        per_byte: w.0,
        rates: w.1,
        uneven: w.2,
        segment: m.0,
        kind: m.1,
        clear_to_send: m.2,
        flows: m.3,
        split: m.4,
        apart: m.5,
    })
}

impl Recipe {
    /// Devices on one switch: link 2r up, 2r + 1 down.
    pub(super) fn network(&self) -> Network {
        let ct = Forwarding::CutThrough { header: Bytes::new(64) };
        let link = |i: u32| {
            let rate = self.rates[i as usize / 2 % self.rates.len()];
            let spec = LinkSpec::ideal(Rate::gbyte(rate), Span::from_ns(300 + u64::from(i % 3) * self.uneven * 17));
            spec.overhead(Bytes::new(30)).forwarding(ct, Forwarding::StoreAndForward)
        };
        Network::new((0..2 * self.devices).map(link).collect())
    }

    pub(super) fn program(&self) -> Program {
        let mut b = ProgramBuilder::new();
        let n = self.devices;
        let per_byte = crate::units::Rate::gbyte(1000 / self.per_byte.max(1)).ps_per_byte();
        let cost = b.cost(Cost {
            fixed: Span::from_ns(self.hold_ns),
            per_byte: if self.per_byte == 0 { crate::units::PsPerByte::FREE } else { per_byte },
            ..Cost::default()
        });
        for r in 0..n {
            b.kernel(Span::from_us(3) + Span::from_ns(u64::from(r) * self.uneven * 100), Span::ZERO);
        }
        for channel in 0..self.channels {
            match self.kind {
                0 => self.ring(&mut b, channel, cost),
                1 => self.pairs(&mut b, channel, cost),
                2 => self.switch(&mut b, channel, cost),
                _ => self.chain(&mut b, channel, cost),
            }
        }
        b.iterate(self.iterations, Span::from_us(1));
        b.finish()
    }

    fn spacing(&self) -> Spacing {
        let apart = Spacing { above: Bytes::new(4999), time: Span::from_us(3), turn: Span::from_us(5) };
        if self.apart { apart } else { Spacing::NONE }
    }

    fn total(&self, channel: u32) -> u64 {
        self.total + u64::from(channel) * self.uneven * 70_000
    }

    fn connect(&self, b: &mut ProgramBuilder, from: u32, to: u32) -> crate::program_builder::Ends {
        let there = [LinkId(2 * from), LinkId(2 * to + 1)];
        let back = [LinkId(2 * to), LinkId(2 * from + 1)];
        let credit = if self.clear_to_send {
            CreditShape::ClearToSend { route: &back, bytes: Bytes::new(64), delay: Span::from_ns(200) }
        } else {
            CreditShape::After(Span::from_ns(450))
        };
        let shape = ConnShape {
            segment: Bytes::new(self.segment),
            latency: Span::from_ns(700),
            credit,
            spacing: self.spacing(),
        };
        b.connect(&vec![&there[..]; self.flows as usize], self.split, self.slots, &shape)
    }

    fn layout(&self, channel: u32, chunks: u32, last: u64) -> Layout {
        let slices = self.slices;
        Layout { total: self.total(channel), chunk: self.chunk, last_chunk: last, chunks, slices, min_slice: 512 }
    }

    /// A ring; of one loop with many steps, or of many loops.
    fn ring(&self, b: &mut ProgramBuilder, channel: u32, cost: u32) {
        let n = self.devices;
        let ends: Vec<_> = (0..n).map(|r| self.connect(b, r, (r + 1) % n)).collect();
        let last = (self.total(channel) % (self.chunk * u64::from(n))).div_ceil(u64::from(n)).next_multiple_of(16);
        let layout = if self.uneven == 1 {
            // One loop whose chunks are gone round many times.
            let chunks = 4 * n;
            let chunk = self.total(channel).div_ceil(u64::from(chunks)).next_multiple_of(16);
            b.layout(Layout { chunk, last_chunk: chunk, ..self.layout(channel, chunks, chunk) })
        } else {
            b.layout(self.layout(channel, n, last))
        };
        let (chunks, steps) = if self.uneven == 1 { (4 * n, 40) } else { (n, 2 * n - 3) };
        for r in 0..n {
            let (send, recv) = (ends[r as usize].send, ends[((r + n - 1) % n) as usize].recv);
            let spaced = |i: u32| if self.uneven == 1 { 0 } else { i % chunks };
            b.lane(r, layout, |l| {
                l.step(&[], &[send], cost, 1, spaced(r + chunks - 1), 0);
                l.step(
                    &[recv],
                    &[send],
                    cost,
                    steps,
                    spaced(r + 2 * chunks - 2),
                    if self.uneven == 1 { 0 } else { chunks - 1 },
                );
                l.step(&[recv], &[], cost, 1, spaced(r + 1), 0);
            });
        }
    }

    /// Everyone to the next two.
    fn pairs(&self, b: &mut ProgramBuilder, channel: u32, cost: u32) {
        let n = self.devices;
        let last = (self.total(channel) % self.chunk).max(1);
        let layout = b.layout(self.layout(channel, 1, last));
        for r in 0..n {
            for d in 1..n.min(3) {
                let ends = self.connect(b, r, (r + d) % n);
                b.lane(r, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
                b.lane((r + d) % n, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
            }
        }
    }

    /// Reduction by the switch to device 0, and multicast from it.
    fn switch(&self, b: &mut ProgramBuilder, channel: u32, cost: u32) {
        let n = self.devices;
        let routes: Vec<[LinkId; 1]> = (0..2 * n).map(|i| [LinkId(i)]).collect();
        let up: Vec<&[LinkId]> = (0..n).map(|r| &routes[2 * r as usize][..]).collect();
        let down: Vec<&[LinkId]> = (0..n).map(|r| &routes[2 * r as usize + 1][..]).collect();
        let credit = CreditShape::After(Span::from_ns(450));
        let shape = ConnShape {
            segment: Bytes::new(self.segment),
            latency: Span::from_ns(700),
            credit,
            spacing: self.spacing(),
        };
        let (reduce, reduced) = b.connect_junction(&up, &down[..1], self.slots, &shape);
        let (cast, copies) = b.connect_junction(&up[..1], &down, self.slots, &shape);
        let last = (self.total(channel) % (2 * self.chunk)).div_ceil(2).next_multiple_of(16);
        let layout = b.layout(self.layout(channel, 2, last));
        for r in 0..n {
            b.lane(r, layout, |l| l.step(&[], &[reduce.start + r], cost, 2, 0, 1));
            b.lane(r, layout, |l| l.step(&[copies.start + r], &[], cost, 2, 0, 1));
        }
        b.lane(0, layout, |l| l.step(&[reduced.start], &[cast.start], cost, 2, 0, 1));
    }

    /// From the first to the last, each sending on what it gets; loops begin together at a barrier of all.
    fn chain(&self, b: &mut ProgramBuilder, channel: u32, cost: u32) {
        let n = self.devices;
        let ends: Vec<_> = (1..n).map(|r| self.connect(b, r - 1, r)).collect();
        let last = (self.total(channel) % self.chunk).max(1);
        let layout = b.layout(self.layout(channel, 1, last));
        let barrier = b.barrier(n);
        for r in 0..n {
            let recv: Vec<u32> = (r > 0).then(|| ends[r as usize - 1].recv).into_iter().collect();
            let send: Vec<u32> = (r + 1 < n).then(|| ends[r as usize].send).into_iter().collect();
            b.lane(r, layout, |l| {
                l.step(&recv, &send, cost, 1, 0, 0);
                if self.uneven == 2 {
                    l.after_barrier(barrier);
                }
            });
        }
    }
}

proptest! {
    #[test]
    fn counting_periods_changes_nothing(recipe in recipe()) {
        compare(&recipe.network(), &recipe.program(), &Limits::default());
    }

    #[test]
    fn limits_are_met_where_they_would_be(recipe in recipe(), events in 500u64..50_000, us in 10u64..2_000) {
        let (network, program) = (recipe.network(), recipe.program());
        compare(&network, &program, &Limits { events, ..Limits::default() });
        compare(&network, &program, &Limits { time: Time::ZERO + Span::from_us(us), ..Limits::default() });
    }
}

/// Plays two programs of the same links at once, the second from `after` on, both ways.
fn beside(network: &Network, programs: [&Program; 2], after: Span, timer: Option<Span>) -> Repeated {
    let run = |play_all: bool| {
        let mut engine = Engine::<RadixStore>::new(network, MTU, Limits { play_all, ..Limits::default() });
        engine.load(programs[0].clone(), Time::ZERO).unwrap();
        engine.load(programs[1].clone(), Time::ZERO + after).unwrap();
        if let Some(at) = timer {
            engine.set_timer(Time::ZERO + at, 7);
        }
        let mut heard = Vec::new();
        let reason = engine.run(|_, notice| heard.push(notice));
        heard.sort_by_key(|n| match *n {
            Notice::Kernel { program, kernel, iteration, .. } => (0, program, iteration, kernel),
            Notice::Program { program, .. } => (1, program, 0, 0),
            Notice::Timer { number, .. } => (2, number, 0, 0),
        });
        (heard, engine.finish(reason))
    };
    let ((heard, whole), (heard_fast, fast)) = (run(true), run(false));
    assert_eq!(heard, heard_fast);
    assert_eq!(whole, Outcome { repeated: Repeated::default(), ..fast.clone() });
    fast.repeated
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_second_program_and_a_timer_are_minded(
        one in recipe(), two in recipe(), us in 0u64..500, timer in prop::option::of(0u64..2_000)
    ) {
        let two = Recipe { devices: one.devices, ..two };
        beside(&one.network(), [&one.program(), &two.program()], Span::from_us(us), timer.map(Span::from_us));
    }

    #[test]
    fn outages_are_minded(recipe in recipe(), us in 1u64..500, down in 1u64..200, every in 400u64..900) {
        let outage = Outage::periodic(Span::from_us(us), Span::from_us(down), Span::from_us(every));
        let mut links = recipe.network().links().to_vec();
        links[1] = links[1].flapping(outage);
        let repeated = compare(&Network::new(links), &recipe.program(), &Limits::default());
        prop_assert_eq!(repeated, Repeated::default());
    }
}

/// A plain case of each kind: most of it is counted.
#[test]
fn long_pipelines_are_mostly_counted() {
    let plain = Recipe {
        devices: 4,
        channels: 3,
        total: 200 << 20,
        chunk: 65_536,
        slices: 2,
        slots: 4,
        iterations: 3,
        hold_ns: 900,
        per_byte: 3,
        rates: vec![50],
        uneven: 0,
        segment: 131_072,
        kind: 0,
        clear_to_send: true,
        flows: 1,
        split: false,
        apart: false,
    };
    for kind in 0..4 {
        let recipe = Recipe { kind, ..plain.clone() };
        let (network, program) = (recipe.network(), recipe.program());
        let repeated = compare(&network, &program, &Limits::default());
        let (_, whole) = play::<RadixStore>(&network, &program, true, &Limits::default());
        let share = repeated.events as f64 / whole.engine.events as f64;
        eprintln!("{kind} {repeated:?} of {}", whole.engine.events);
        assert!(share > 0.9, "kind {kind}: {share}");
    }
}
