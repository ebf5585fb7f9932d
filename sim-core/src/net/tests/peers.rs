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

#[test]
fn csg_incast_of_8_to_the_byte() {
    let outcome = incast(8, 1 << 20, 100, true);
    eprintln!("{}", line("csg 8", &outcome));
    let egress = outcome.ports.iter().map(|port| port[0].peak).max().unwrap();
    assert_eq!((egress, outcome.input_peak, outcome.totals.pauses), (607_360, 79_040, 208));
}
