//! Incasts and all-to-alls that public packet-level simulators were run for. "Set A": 4096 + 64 B, pauses at 15 full
//! packets of an input, resumes below 12, no marks. "Set B": 4096 + 48 B, a shared buffer with a dynamic threshold.

use super::*;
use crate::net::NetOutcome;
use crate::rate_control::AnyRateControl;

/// Static thresholds; `instant` says that a pause takes effect when it is decided.
fn set_a(instant: bool) -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 1 << 40,
        ports: None,
        threshold: Threshold::Static { xoff: 15 * 4160, xon: 12 * 4160 },
        reserve: 0,
        headroom: 1 << 30,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec {
            wire: 0,
            acts_after: Some(if instant { Span::ZERO } else { Span::from_us(1) }),
            response: Span::ZERO,
        },
    })
}

fn incast(senders: usize, bytes: u64, gbit: u64, instant: bool) -> NetOutcome {
    let fabric = star(64, gbit);
    let mut run = Run::new(fabric.spec(64, set_a(instant))).unwrap();
    for sender in 1..=senders {
        let (forth, back) = fabric.path(&[sender, 64, 0]);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, bytes);
    }
    assert!(!run.run(Time::MAX));
    let outcome = run.outcome();
    assert_eq!((outcome.totals.drops, outcome.packets_left), (0, 0));
    outcome
}

fn line(name: &str, outcome: &NetOutcome) -> String {
    let times = acked_us(&outcome.flows);
    let egress = outcome.ports.iter().map(|port| port[0].peak).max().unwrap();
    format!(
        "{name}: p50 {:.1} max {:.1} egress {egress} input {} pauses {} marks {}",
        times[times.len() / 2],
        times[times.len() - 1],
        outcome.input_peak,
        outcome.totals.pauses,
        outcome.totals.marks
    )
}

/// (median, last) at the senders in us, deepest egress queue, largest input and pauses.
fn figures(outcome: &NetOutcome) -> (f64, f64, u64, u64, u64) {
    let times = acked_us(&outcome.flows);
    let egress = outcome.ports.iter().map(|port| port[0].peak).max().unwrap();
    (times[times.len() / 2], times[times.len() - 1], egress, outcome.input_peak, outcome.totals.pauses)
}

#[test]
fn csg_incast_of_8_to_the_byte() {
    let (p50, last, egress, input, pauses) = figures(&incast(8, 1 << 20, 100, true));
    assert_eq!((egress, input, pauses), (607_360, 79_040, 208));
    near(p50, 684.9, 0.001);
    near(last, 685.9, 0.001);
}

/// Per row: senders, MiB, Gb/s, whether pauses act at once; reference p50, last, egress, input, pauses (0: not given).
#[test]
fn q6_q7_q8_incasts_with_pauses_alone() {
    let rows = [
        (8, 1, 100, false, [675.3, 688.2, 694_720.0, 91_520.0, 103.0]),
        (32, 1, 100, true, [2715.7, 2730.6, 2_504_320.0, 0.0, 849.0]),
        (32, 1, 100, false, [0.0, 2740.6, 2_891_200.0, 0.0, 723.0]),
        (8, 16, 100, true, [0.0, 0.0, 0.0, 0.0, 3443.0]),
        (8, 16, 100, false, [10_907.0, 0.0, 0.0, 0.0, 1499.0]),
        (8, 1, 400, false, [0.0, 175.1, 1_218_880.0, 166_400.0, 56.0]),
    ];
    for (senders, mib, gbit, instant, want) in rows {
        let outcome = incast(senders, mib << 20, gbit, instant);
        eprintln!("{}", line(&format!("{senders} x {mib} MiB at {gbit}, instant {instant}"), &outcome));
        let got = figures(&outcome);
        let got = [got.0, got.1, got.2 as f64, got.3 as f64, got.4 as f64];
        for (i, tolerance) in [0.05, 0.05, 0.15, 0.15, 0.15].into_iter().enumerate() {
            if want[i] > 0.0 {
                near(got[i], want[i], tolerance);
            }
        }
    }
}

/// All pairs of 64 endpoints, each over a spine drawn from the seed.
fn all_to_all(bytes: u64, seed: u64, spec: NetSpec, how: FlowSpec, rate: &AnyRateControl) -> (NetOutcome, u64) {
    let fabric = leaf_spine(100);
    let mut run = Run::new(spec).unwrap();
    for from in 0..64usize {
        for step in 1..64 {
            let to = (from + step) % 64;
            let (a, b) = (64 + from / 8, 64 + to / 8);
            let draw = crate::random::mix(seed ^ (from * 64 + to) as u64);
            let nodes = if a == b { vec![from, a, to] } else { vec![from, a, 72 + (draw % 8) as usize, b, to] };
            let (forth, back) = fabric.path(&nodes);
            let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
            run.post(flow, bytes);
        }
    }
    assert!(!run.run(Time::MAX));
    let events = run.events();
    (run.outcome(), events)
}

#[test]
fn e5_all_to_all_of_64_kib_with_pauses_alone() {
    for seed in 1..=2 {
        let spec = leaf_spine(100).spec(64, set_a(true));
        let started = std::time::Instant::now();
        let (outcome, events) = all_to_all(64 << 10, seed, spec, FlowSpec::default(), &AnyRateControl::default());
        let hops = outcome.totals.data_hops + outcome.totals.control_hops;
        eprintln!("{} hops {hops} events {events} in {:?}", line("all-to-all", &outcome), started.elapsed());
        assert_eq!(outcome.totals.data_hops, 243_712);
        assert_eq!(outcome.totals.drops, 0);
        let last = figures(&outcome).1;
        assert!((1.15 * 335.0..1.60 * 335.0).contains(&last), "{last}");
    }
}
