//! One port that several sources share: packets in a fluid queue with marks, acknowledgements and notices after a round trip.
//!
//! A packet joins the queue when it is sent; it leaves after what was before it, and a fixed way later its acknowledgement, and
//! its notice if it is due, are at the source. Nothing is lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::Rng;

use crate::random;
use crate::rate_control::{Ack, AnyRateControl, HopTelemetry, RateControl};
use crate::units::{Bytes, Rate, Span, Time};

/// Marks by the depth of the queue: none up to `kmin`, `pmax` at `kmax`, all above.
#[derive(Clone, Copy)]
pub(super) struct Red {
    pub(super) kmin: f64,
    pub(super) kmax: f64,
    pub(super) pmax: f64,
}

impl Red {
    fn probability(self, depth: f64) -> f64 {
        match depth {
            d if d > self.kmax => 1.0,
            d if d <= self.kmin => 0.0,
            d => self.pmax * (d - self.kmin) / (self.kmax - self.kmin),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Send { generation: u32 },
    Acked { sent: Time, marked: bool, telemetry: u32 },
    Notice,
    Timer,
}

struct Source {
    rate: AnyRateControl,
    under_way: u64,
    last: Option<Time>,
    generation: u32,
    timer: Time,
    noticed: Option<Time>,
    acked: u64,
}

pub(super) struct Shared {
    line: Rate,
    wire: u32,
    way: Span,
    red: Red,
    notices: Span,
    sources: Vec<Source>,
    events: BinaryHeap<Reverse<(Time, What, usize)>>,
    telemetry: Vec<HopTelemetry>,
    depth: f64,
    drained: Time,
    sent: u64,
    depths: Vec<f64>,
    window: (Time, Time),
    rng: rand_xoshiro::Xoshiro256PlusPlus,
}

/// What came out between `from` and `to`.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Each source's share of the line.
    pub(super) shares: Vec<f64>,
    /// Mean depth that packets found, bytes.
    pub(super) depth: f64,
    /// The depth that 95 % didn't exceed.
    pub(super) depth_p95: f64,
}

impl Shared {
    /// Sources of `line` that share a port of the same rate; `way` is the unloaded round trip without the packet itself, and
    /// `notices` the least time between two of a flow.
    pub(super) fn new(line: Rate, wire: u32, way: Span, red: Red, notices: Span, sources: Vec<AnyRateControl>) -> Self {
        let source =
            |rate| Source { rate, under_way: 0, last: None, generation: 0, timer: Time::MAX, noticed: None, acked: 0 };
        Self {
            line,
            wire,
            way,
            red,
            notices,
            sources: sources.into_iter().map(source).collect(),
            events: BinaryHeap::new(),
            telemetry: Vec::new(),
            depth: 0.0,
            drained: Time::ZERO,
            sent: 0,
            depths: Vec::new(),
            window: (Time::ZERO, Time::MAX),
            rng: random::stream(1, "mark", 0),
        }
    }

    pub(super) fn run(mut self, from: Span, to: Span) -> Outcome {
        self.window = (Time::ZERO + from, Time::ZERO + to);
        for index in 0..self.sources.len() {
            self.sources[index].rate.start(Time::ZERO);
            self.offer(index, Time::ZERO);
        }
        while let Some(Reverse((now, what, index))) = self.events.pop() {
            if now >= self.window.1 {
                break;
            }
            self.handle(now, what, index);
        }
        let span = (to - from).as_secs() * self.line.get() as f64;
        self.depths.sort_unstable_by(f64::total_cmp);
        Outcome {
            shares: self.sources.iter().map(|s| s.acked as f64 / span).collect(),
            depth: self.depths.iter().sum::<f64>() / self.depths.len() as f64,
            depth_p95: self.depths[self.depths.len() * 95 / 100],
        }
    }

    fn handle(&mut self, now: Time, what: What, index: usize) {
        let wire = u64::from(self.wire);
        let source = &mut self.sources[index];
        match what {
            What::Send { generation } if generation == source.generation => self.send(index, now),
            What::Send { .. } => return,
            What::Acked { sent, marked, telemetry } => {
                source.under_way -= wire;
                source.acked += if now >= self.window.0 { wire } else { 0 };
                source.rate.on_ack(
                    now,
                    &Ack {
                        bytes: wire,
                        packets: 1,
                        marked: u32::from(marked),
                        rtt: now.since(sent),
                        telemetry: &self.telemetry[telemetry as usize..=telemetry as usize],
                    },
                );
            }
            What::Notice => source.rate.on_notice(now),
            What::Timer => {
                if source.timer != now {
                    return;
                }
                source.timer = Time::MAX;
                source.rate.on_timer(now);
            }
        }
        self.offer(index, now);
    }

    /// The next packet goes when the pace and the window let it.
    fn offer(&mut self, index: usize, now: Time) {
        let wire = u64::from(self.wire);
        let source = &mut self.sources[index];
        let timer = source.rate.next_timer();
        if timer < source.timer {
            source.timer = timer;
            self.events.push(Reverse((timer, What::Timer, index)));
        }
        source.generation += 1;
        if source.under_way > 0 && source.under_way + wire > source.rate.window() {
            return;
        }
        let gap = source.rate.pace().max(self.line.ps_per_byte()).cost(Bytes::new(wire));
        let at = source.last.map_or(now, |last| (last + gap).max(now));
        self.events.push(Reverse((at, What::Send { generation: source.generation }, index)));
    }

    fn send(&mut self, index: usize, now: Time) {
        let line = self.line.get() as f64;
        self.depth = (self.depth - now.since(self.drained).as_secs() * line).max(0.0);
        self.drained = now;
        let found = self.depth;
        if now >= self.window.0 {
            self.depths.push(found);
        }
        self.depth += f64::from(self.wire);
        self.sent += u64::from(self.wire);
        let draw = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let marked = draw < self.red.probability(found);
        let left = now + Span::from_us_f64(self.depth / line * 1e6);
        let (queue, sent, at) = (found as u64, self.sent, left);
        self.telemetry.push(HopTelemetry { queue, sent, at, rate: self.line });
        let source = &mut self.sources[index];
        source.last = Some(now);
        source.under_way += u64::from(self.wire);
        source.rate.on_send(now, self.wire);
        let back = left + self.way;
        let telemetry = self.telemetry.len() as u32 - 1;
        self.events.push(Reverse((back, What::Acked { sent: now, marked, telemetry }, index)));
        if marked && source.noticed.is_none_or(|last| left.since(last) >= self.notices) {
            source.noticed = Some(left);
            self.events.push(Reverse((back, What::Notice, index)));
        }
    }
}
