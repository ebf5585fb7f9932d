//! Incasts under DCQCN: what the rate control does to pauses, a window beside it, and notices that come late.

use std::sync::Arc;

use super::*;
use crate::net::NetOutcome;
use crate::rate_control::{AnyRateControl, Dcqcn, DcqcnFirmware, DcqcnFirmwareParams, DcqcnParams};

fn ms(ms: u64) -> Time {
    Time::from_ps(ms * 1_000_000_000)
}

fn dynamic(mib: u64, headroom: u64) -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: mib << 20,
        ports: None,
        threshold: Threshold::Dynamic { alpha: 1 << 13, offset: 3072 },
        reserve: 4096,
        headroom,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    })
}

/// The paper's timers with the target rule of firmware at 40 Gb/s.
fn firmware_40() -> AnyRateControl {
    let mut params = DcqcnFirmwareParams::simulated(Rate::gbit(40));
    (params.alpha_timer, params.cut_gate) = (Span::from_us(50), Span::from_us(50));
    (params.recovery.timer, params.recovery.threshold) = (Span::from_us(55), 5);
    (params.recovery.additive, params.recovery.hyper) =
        (Rate::bytes_per_sec(5_000_000), Rate::bytes_per_sec(25_000_000));
    params.recovery.min = Rate::bytes_per_sec(1_250_000);
    DcqcnFirmware::new(Rate::gbit(40), Arc::new(params)).into()
}

/// 32 flows that begin at line rate at 40 Gb/s fill the buffer, and drain it. When is chaotic: by seed and by details of
/// accounts 5 to 46 ms here; where a changed rate does not move the packet that waits, as in the public simulator, not before
/// 156 ms. One run of that took 60 to 75 ms, which no setting found here gives. What is held is that all drain, and where the
/// queue stands then (about 125 KB there).
#[test]
fn q4_the_first_burst_of_32_flows_drains() {
    let fabric = star(33, 40);
    let port = fabric.path(&[33, 0]).0[0];
    let drain = |seed: u64| {
        let mut spec = fabric.spec(48, dynamic(12, 15_000));
        let FlowControlSpec::Shared(shared) = &mut spec.flow_control else { unreachable!() };
        (shared.freed, shared.pause.acts_after) = (Freed::AtStart, Some(Span::from_us(1)));
        (spec.mtu, spec.seed) = (1000, seed);
        let pmax = ((1u64 << 32) / 100) as u32;
        spec.classes[0].marking = Marking::Red { kmin: 5_000, kmax: 200_000, pmax, at: MarkAt::Dequeue };
        spec.observe = Observe { interval: Span::from_us(100), ports: vec![port], ..Observe::default() };
        let mut run = Run::new(spec).unwrap();
        for sender in 1..33 {
            let (forth, back) = fabric.path(&[sender, 33, 0]);
            let flow = run.open(&forth, &back, FlowSpec::default(), firmware_40()).unwrap();
            run.post(flow, 1 << 40);
        }
        assert!(run.run(ms(150)));
        let outcome = run.outcome();
        assert_eq!(outcome.totals.drops, 0);
        let queued = &outcome.series.ports[0].queued;
        let peak = queued.iter().copied().max().unwrap();
        assert!((6_000_000..11_000_000).contains(&peak), "{peak}");
        let late = &queued[1_000..];
        let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
        (queued.iter().rposition(|bytes| *bytes > 1_000_000).map_or(0.0, |at| at as f64 / 10.0), mean)
    };
    for seed in 1..=4 {
        let (drained, mean) = drain(seed);
        assert!((1.0..100.0).contains(&drained), "seed {seed}: {drained} ms");
        assert!((60e3..200e3).contains(&mean), "seed {seed}: {mean} B from 100 ms on");
    }
}

/// Set A with DCQCN: marks from 25 packets on, `R_AI` of C/20.
#[test]
fn q9_rate_control_is_never_faster_than_the_ideal_and_pauses_less() {
    let fabric = star(9, 100);
    let play = |control: bool| -> NetOutcome {
        let shared = SharedSpec {
            size: 1 << 40,
            ports: None,
            threshold: Threshold::Static { xoff: 15 * 4160, xon: 12 * 4160 },
            reserve: 0,
            headroom: 1 << 30,
            lossy_alpha: 1 << 16,
            lossy_limit: u64::MAX,
            pause: PauseSpec { wire: 0, acts_after: Some(Span::from_us(1)), response: Span::ZERO, quanta: 0 },
            freed: Freed::AtEnd,
        };
        let mut spec = fabric.spec(64, FlowControlSpec::Shared(shared));
        let mut rate = AnyRateControl::default();
        if control {
            let k = 25 * 4160;
            spec.classes[0].marking = Marking::Red { kmin: k, kmax: k, pmax: u32::MAX, at: MarkAt::Dequeue };
            let mut params = DcqcnParams::paper();
            params.recovery.additive = Rate::gbit(5);
            params.recovery.hyper = Rate::gbit(10);
            rate = Dcqcn::new(Rate::gbit(100), Arc::new(params)).into();
        }
        let mut run = Run::new(spec).unwrap();
        let how = FlowSpec {
            notice: Notice::Packet { interval: Span::from_us(50), delay: Span::ZERO },
            ..FlowSpec::default()
        };
        for sender in 1..9 {
            let (forth, back) = fabric.path(&[sender, 9, 0]);
            let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
            run.post(flow, 1 << 20);
        }
        assert!(!run.run(Time::MAX));
        run.outcome()
    };
    let (plain, controlled) = (play(false), play(true));
    let times = acked_us(&controlled.flows);
    assert!(times[7] >= 685.9, "{times:?}");
    times.iter().for_each(|time| near(*time, times[4], 0.35));
    assert!(controlled.totals.pauses < plain.totals.pauses, "{} {}", controlled.totals.pauses, plain.totals.pauses);
}

/// Flows of 64 KiB from many senders: without a window they begin at line rate together and the node pauses; a bandwidth-delay
/// product each, of 100 Gb/s and 4.4 us, never does.
#[test]
fn q11_a_window_keeps_many_flows_from_pausing() {
    for senders in [50usize, 255] {
        let fabric = star(senders + 1, 100);
        let pauses = |window: u64| {
            let mut spec = fabric.spec(48, dynamic(32, 37_500));
            spec.mtu = 1000;
            let FlowControlSpec::Shared(shared) = &mut spec.flow_control else { unreachable!() };
            // As much is set aside as a node of 32 ports would.
            shared.ports = Some(32);
            let pmax = ((1u64 << 32) / 5) as u32;
            spec.classes[0].marking = Marking::Red { kmin: 400_000, kmax: 1_600_000, pmax, at: MarkAt::Dequeue };
            let mut run = Run::new(spec).unwrap();
            let rate: AnyRateControl =
                DcqcnFirmware::new(Rate::gbit(100), Arc::new(DcqcnFirmwareParams::simulated(Rate::gbit(100)))).into();
            let how = FlowSpec { window, ..FlowSpec::default() };
            for sender in 1..=senders {
                let (forth, back) = fabric.path(&[sender, senders + 1, 0]);
                let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
                run.post(flow, 1 << 20);
            }
            run.run(ms(4));
            let outcome = run.outcome();
            assert_eq!(outcome.totals.drops, 0);
            outcome.totals.pauses
        };
        assert!(pauses(u64::MAX) > 0, "{senders} flows without a window don't pause");
        assert_eq!(pauses(55_000), 0, "{senders} flows");
    }
}

/// Two endpoints, one at 100 Gb/s and one at 25 Gb/s; marks from 400 to 1,625 cells of 208 B with 20 %. On hardware both
/// notices and pauses were seen; a model pauses only if notices come late: the queue peaks at 285 KB, and at 802 KB if they
/// come 55 us later, so any XOFF between shows it.
#[test]
fn q12_late_notices_turn_pauses_on() {
    let mut fabric = star(2, 100);
    for port in &mut fabric.ports {
        if port.near == 1 || port.far == 1 {
            port.rate = Rate::gbit(25);
        }
    }
    let play = |delay: Span| {
        let shared = SharedSpec {
            size: 1 << 40,
            ports: None,
            threshold: Threshold::Static { xoff: 500_000, xon: 490_000 },
            reserve: 0,
            headroom: 1 << 20,
            lossy_alpha: 1 << 16,
            lossy_limit: u64::MAX,
            pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
            freed: Freed::AtEnd,
        };
        let mut spec = fabric.spec(82, FlowControlSpec::Shared(shared));
        spec.mtu = 1024;
        let pmax = ((1u64 << 32) / 5) as u32;
        spec.classes[0].marking = Marking::Red { kmin: 400 * 208, kmax: 1625 * 208, pmax, at: MarkAt::Dequeue };
        let mut run = Run::new(spec).unwrap();
        let rate: AnyRateControl =
            DcqcnFirmware::new(Rate::gbit(100), Arc::new(DcqcnFirmwareParams::simulated(Rate::gbit(100)))).into();
        let how = FlowSpec { notice: Notice::Packet { interval: Span::from_us(4), delay }, ..FlowSpec::default() };
        let (forth, back) = fabric.path(&[0, 2, 1]);
        let flow = run.open(&forth, &back, how, rate).unwrap();
        run.post(flow, 1 << 40);
        run.run(ms(5));
        let outcome = run.outcome();
        (outcome.totals.notices, outcome.totals.pauses)
    };
    let (notices, pauses) = play(Span::ZERO);
    assert!(notices > 0 && pauses == 0, "{notices} {pauses}");
    let (notices, pauses) = play(Span::from_us(55));
    assert!(notices > 0 && pauses > 0, "{notices} {pauses}");
}
