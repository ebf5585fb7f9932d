//! Ports that wait for each other.

use super::*;
use crate::rate_control::AnyRateControl;

fn flow_control() -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 1 << 40,
        ports: None,
        threshold: Threshold::Static { xoff: 4 * 4160, xon: 2 * 4160 },
        reserve: 0,
        headroom: 1 << 30,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    })
}

/// Three nodes in a ring with two endpoints each; every flow goes two links around.
#[test]
fn p9_a_ring_of_buffers_is_reported_with_its_links() {
    for credits in [false, true] {
        let mut fabric = Fabric::new(6, 3, 100, Span::from_us(1));
        (0..6).for_each(|host| fabric.join(host, 6 + host % 3));
        (0..3).for_each(|node| fabric.join(6 + node, 6 + (node + 1) % 3));
        let scheme = if credits {
            let credits = CreditSpec { buffer: crate::units::Bytes::kib(16), release: Span::from_ns(300), wire: 8 };
            FlowControlSpec::Credits(credits)
        } else {
            flow_control()
        };
        let mut run = Run::new(fabric.spec(64, scheme)).unwrap();
        for host in 0..6 {
            let at = |k: usize| 6 + (host + k) % 3;
            let (forth, back) = fabric.path(&[host, at(0), at(1), at(2), (host + 2) % 3 + 3 * (host / 3)]);
            let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
            run.post(flow, 16 << 20);
        }
        assert!(run.run(Time::MAX), "nothing stalled");
        let ring: Vec<(u32, u8)> = (0..3).map(|k| (fabric.path(&[6 + k, 6 + (k + 1) % 3]).0[0], 0)).collect();
        assert_eq!(run.outcome().cycle, ring);
        // At most two looks after the last packet moved, and the run is bounded.
        assert!(run.now() < Time::from_ps(20_000_000_000), "{}", run.now());
    }
}

/// The same ring with a line behind which packets go on in the next class: no circle of one class is left.
#[test]
fn a_class_of_their_own_behind_a_line_undoes_the_circle() {
    let mut fabric = Fabric::new(6, 3, 100, Span::from_us(1));
    (0..6).for_each(|host| fabric.join(host, 6 + host % 3));
    (0..3).for_each(|node| fabric.join(6 + node, 6 + (node + 1) % 3));
    let credits = CreditSpec { buffer: crate::units::Bytes::kib(16), release: Span::from_ns(300), wire: 8 };
    for scheme in [FlowControlSpec::Credits(credits), flow_control()] {
        for control in [Control::Express, Control::WithData] {
            for inputs in [Inputs::Fifo, Inputs::RoundRobin, Inputs::HeadOfLine] {
                let line = fabric.path(&[8, 6]);
                let mut spec = NetSpec { control, inputs, ..fabric.spec(64, scheme.clone()) };
                spec.raises = vec![line.0[0], line.1[0]];
                let route = |host: usize| {
                    let at = |k: usize| 6 + (host + k) % 3;
                    fabric.path(&[host, at(0), at(1), at(2), (host + 2) % 3 + 3 * (host / 3)])
                };
                let mut one = Run::new(spec.clone()).unwrap();
                let open = |run: &mut Run, host| {
                    let (forth, back) = route(host);
                    run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default())
                };
                assert_eq!(open(&mut one, 1), Err(crate::net::SpecError::NoClass(1)), "there is no class above");
                spec.classes = vec![red_off(true); 2];
                let mut run = Run::new(spec).unwrap();
                for host in 0..6 {
                    let flow = open(&mut run, host).unwrap();
                    run.post(flow, 16 << 20);
                }
                assert!(!run.run(Time::MAX), "{control:?} {inputs:?}");
                let outcome = run.outcome();
                assert!(outcome.flows.iter().all(|flow| flow.messages == 1) && outcome.cycle.is_empty());
                assert_eq!((outcome.totals.drops, outcome.packets_left, outcome.outstanding_blocks), (0, 0, 0));
                assert_eq!(outcome.totals.pauses, outcome.totals.resumes);
                // What went over the line went on in the class above.
                let behind = fabric.path(&[6, 7]).0[0] as usize;
                assert!(outcome.ports[behind].iter().all(|class| class.packets > 0));
                assert_eq!(outcome.ports[line.0[0] as usize][1].packets, 0);
            }
        }
    }
}

#[test]
fn p10_up_and_down_there_is_no_circle() {
    let fabric = leaf_spine(100);
    let mut run = Run::new(fabric.spec(64, flow_control())).unwrap();
    for host in 0..64 {
        let to = (host * 5 + 9) % 64;
        let (a, b) = (64 + host / 8, 64 + to / 8);
        let nodes = if a == b { vec![host, a, to] } else { vec![host, a, 72, b, to] };
        let (forth, back) = fabric.path(&nodes);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 1 << 20);
    }
    assert!(!run.run(Time::MAX));
    let outcome = run.outcome();
    assert!(outcome.cycle.is_empty() && outcome.totals.pauses > 0);
    assert!(outcome.flows.iter().all(|flow| flow.messages == 1));
}
