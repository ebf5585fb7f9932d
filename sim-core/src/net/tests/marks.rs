//! Marks, notices, classes.

use super::*;
use crate::net::marking::{Draws, marks};
use crate::rate_control::AnyRateControl;

#[test]
fn d5_marks_by_depth() {
    let (kmin, kmax, pmax) = (400_000, 1_600_000, (0.2 * (1u64 << 32) as f64) as u32);
    let red = Marking::Red { kmin, kmax, pmax, at: MarkAt::Dequeue };
    let mut draws = Draws::new(1, 1);
    let mut count = |depth: u64, n: u32| (0..n).filter(|_| marks(red, depth, true, 0, &mut draws)).count() as f64;
    assert_eq!(count(400_000, 1_000), 0.0);
    assert_eq!(count(1_600_001, 1_000), 1_000.0);
    for (depth, p) in [(1_000_000, 0.1), (1_600_000, 0.2)] {
        let (n, got) = (1e6, count(depth, 1_000_000));
        assert!((got - n * p).abs() <= 3.0 * (n * p * (1.0 - p)).sqrt(), "{got} of {n} at {depth}");
    }
}

#[test]
fn i6_a_root_of_congestion_marks_and_a_victim_does_not() {
    let mut draws = Draws::new(1, 1);
    let mut mark =
        |credited, victims| marks(Marking::Root { threshold: 1_000, victims }, 2_000, credited, 0, &mut draws);
    assert!(mark(true, false) && !mark(false, false) && mark(false, true));
}

/// Two senders to one receiver, all marked as soon as something waits.
#[test]
fn d6_a_notice_at_once_and_then_one_an_interval() {
    let fabric = star(3, 100);
    let mut spec = fabric.spec(48, FlowControlSpec::Unlimited);
    spec.classes[0].marking = Marking::Red { kmin: 0, kmax: 0, pmax: 0, at: MarkAt::Dequeue };
    let mut run = Run::new(spec).unwrap();
    let how =
        FlowSpec { notice: Notice::Packet { interval: Span::from_us(50), delay: Span::ZERO }, ..FlowSpec::default() };
    for sender in 1..3 {
        let (forth, back) = fabric.path(&[sender, 3, 0]);
        let flow = run.open(&forth, &back, how, AnyRateControl::default()).unwrap();
        run.post(flow, 64 << 20);
    }
    run.run(Time::from_ps(1_000_000_000));
    for flow in run.outcome().flows {
        assert!((19..=21).contains(&flow.notices), "{}", flow.notices);
        assert!(flow.marked > 1_000);
    }
}

/// Shares of two classes that meet at a port.
fn classes(first: ClassSpec, second: ClassSpec) -> Vec<f64> {
    let fabric = star(3, 100);
    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
    spec.classes = vec![first, second];
    let paths: [(&[usize], u8); 2] = [(&[1, 3, 0], 0), (&[2, 3, 0], 1)];
    fabric.shares(spec, &paths, Time::from_ps(100_000_000), Time::from_ps(1_100_000_000))
}

#[test]
fn classes_share_by_priority_and_weight() {
    let class = |priority, weight| ClassSpec { priority, weight, ..red_off(true) };
    for (first, second, share) in
        [(class(1, 1), class(0, 1), 1.0), (class(0, 1), class(0, 1), 0.5), (class(0, 3), class(0, 1), 0.75)]
    {
        let shares = classes(first, second);
        near(shares[0], share, 0.01);
        near(shares[0] + shares[1], 1.0, 0.01);
    }
}
