//! Controllers one by one, driven by hand: exact traces and closed forms.

mod driver;
mod fixed_points;
mod one_queue;
mod properties;

use std::sync::Arc;

use super::*;

const fn us(us: u64) -> Time {
    Time::from_ps(us * 1_000_000)
}

/// The paper's parameters without its byte counter.
fn paper() -> DcqcnParams {
    let mut params = DcqcnParams::paper();
    params.recovery.byte_counter = 0;
    params
}

fn published(line: u64, params: DcqcnParams) -> Dcqcn {
    Dcqcn::new(Rate::gbit(line), Arc::new(params))
}

/// Firmware with the published timers and none of its three differences.
fn no_difference() -> DcqcnFirmwareParams {
    let DcqcnParams { alpha_timer, gain, initial_alpha, recovery } = paper();
    DcqcnFirmwareParams {
        free_alpha: false,
        cut_gate: Span::ZERO,
        keep_target: false,
        alpha_timer,
        gain,
        initial_alpha,
        first_rate: None,
        recovery,
    }
}

/// Serves all timers up to `until`, and says how many there were.
fn run(flow: &mut impl RateControl, until: Time) -> u64 {
    let mut served = 0;
    while flow.next_timer() <= until {
        flow.on_timer(flow.next_timer());
        served += 1;
    }
    served
}

#[test]
fn d1_one_cnp() {
    let mut flow = published(100, paper());
    assert_eq!(flow.next_timer(), Time::MAX, "no timer at full rate");
    flow.on_notice(us(0));
    // Gb/s at 0, 55, … 275 µs.
    for (at, gbit) in [(0, 50.0), (55, 75.0), (110, 87.5), (165, 93.75), (220, 96.875), (275, 98.4375)] {
        run(&mut flow, us(at));
        assert_eq!(flow.rate().get() as f64 * 8.0, gbit * 1e9, "at {at} µs");
        assert_eq!(flow.target(), Rate::gbit(100));
        assert_eq!(flow.pace(), flow.rate().ps_per_byte());
    }
    // The gap halves each time; whole bytes a second make an end of it.
    let steps = run(&mut flow, us(10_000));
    assert_eq!((flow.rate(), flow.next_timer()), (Rate::gbit(100), Time::MAX));
    assert!((25..30).contains(&steps), "{steps}: log2 of 195 MB/s is 27.5");
}

#[test]
fn d2_cnps_every_50us() {
    let mut flow = published(100, paper());
    let mut params = no_difference();
    params.keep_target = true;
    let mut firmware = DcqcnFirmware::new(Rate::gbit(100), Arc::new(params));
    for (k, target) in [(0, 100), (1, 50), (2, 25)] {
        run(&mut flow, us(k * 50));
        run(&mut firmware, us(k * 50));
        flow.on_notice(us(k * 50));
        firmware.on_notice(us(k * 50));
        assert_eq!(flow.rate().get(), Rate::gbit(100).get() >> (k + 1));
        assert_eq!((flow.target(), flow.alpha(us(k * 50))), (Rate::gbit(target), Fraction::ONE));
        assert_eq!((firmware.rate(), firmware.target()), (flow.rate(), Rate::gbit(100)));
        assert_eq!(firmware.alpha(us(k * 50)), Fraction::ONE);
    }
    flow.on_notice(us(150));
    firmware.on_notice(us(150));
    assert_eq!(flow.rate().get() * 8, 6_250_000_000);
    assert_eq!(flow.target().get() * 8, 12_500_000_000);
    assert_eq!((firmware.rate(), firmware.target()), (flow.rate(), Rate::gbit(100)));
}

#[test]
fn d3_alpha_decay() {
    let mut flow = published(100, paper());
    flow.on_notice(us(0));
    let mut firmware = DcqcnFirmware::new(
        Rate::gbit(100),
        Arc::new(DcqcnFirmwareParams {
            alpha_timer: Span::from_us(55),
            gain: Fraction::ratio(1, 256),
            initial_alpha: Fraction::ONE,
            ..DcqcnFirmwareParams::shipped()
        }),
    );
    firmware.on_notice(us(0));
    for (periods, alpha) in [(10, 0.9616), (100, 0.6761), (177, 0.5002), (256, 0.3672)] {
        let exact = (255.0f64 / 256.0).powi(periods);
        for got in [flow.alpha(us(55 * periods as u64)), firmware.alpha(us(55 * periods as u64))] {
            assert!((got.as_f64() - alpha).abs() < 1e-4, "{got:?} for {alpha} after {periods}");
            assert!((got.as_f64() - exact).abs() < 1e-8, "{got:?} for {exact} after {periods}");
        }
    }
}

#[test]
fn d4_state_is_per_flow() {
    let params = Arc::new(paper());
    let mut marked = Dcqcn::new(Rate::gbit(100), params.clone());
    let mut other = Dcqcn::new(Rate::gbit(100), params);
    let before = other.clone();
    marked.on_notice(us(3));
    run(&mut other, us(1000));
    assert_eq!(other, before);
    assert_ne!(marked, other);
}

#[test]
fn d9_byte_counter_counts_bytes() {
    let mut params = DcqcnParams::paper();
    params.recovery.timer = Span::ZERO;
    let mut flow = published(100, params);
    flow.on_notice(us(0));
    let (mut sent, mut raises, mut rate) = (0u64, 0, flow.rate());
    for wire in [64u32, 1048, 4178, 9216, 1500].into_iter().cycle().take(40_000) {
        flow.on_send(us(1), wire);
        sent += u64::from(wire);
        if flow.rate() != rate {
            (raises, rate) = (raises + 1, flow.rate());
        }
        assert_eq!(raises, sent / 10_000_000, "after {sent} B");
    }
    assert_eq!((raises, flow.next_timer()), (12, Time::MAX));
}

#[test]
fn slow_additive_phase() {
    // Two notices at once: the rate is a quarter of the line and the target half of it.
    let mut flow = published(400, paper());
    flow.on_notice(us(0));
    flow.on_notice(us(0));
    run(&mut flow, us(4 * 55));
    assert_eq!(flow.target(), Rate::gbit(200), "four raises leave the target");
    run(&mut flow, us(4 * 55 + 27_500 - 1));
    assert!(flow.target() < Rate::gbit(220));
    run(&mut flow, us(4 * 55 + 27_500));
    assert_eq!(flow.target(), Rate::gbit(220));
    run(&mut flow, us(4 * 55 + 275_000 - 1));
    assert!(flow.target() < Rate::gbit(400));
    run(&mut flow, us(4 * 55 + 275_000));
    assert_eq!(flow.target(), Rate::gbit(400));

    // Firmware's step and timer, without the byte counter and so without hyper increase.
    let mut params = DcqcnFirmwareParams { keep_target: false, cut_gate: Span::ZERO, ..DcqcnFirmwareParams::shipped() };
    params.recovery.byte_counter = 0;
    params.initial_alpha = Fraction::ONE;
    let mut flow = DcqcnFirmware::new(Rate::gbit(400), Arc::new(params));
    flow.on_notice(us(0));
    flow.on_notice(us(0));
    assert_eq!(flow.target(), Rate::gbit(200));
    run(&mut flow, us(12_000_000 - 1));
    assert!(flow.target() < Rate::gbit(400));
    run(&mut flow, us(12_000_000));
    assert_eq!(flow.target(), Rate::gbit(400));
}

#[test]
fn hyper_increase_needs_both_counters() {
    let mut params = DcqcnParams::paper();
    params.recovery.byte_counter = 1000;
    params.recovery.threshold = 1;
    let mut flow = published(400, params);
    flow.on_notice(us(0));
    flow.on_notice(us(0));
    let target = |flow: &Dcqcn| (flow.target().get() - Rate::gbit(200).get()) / 125_000;
    flow.on_send(us(1), 3000);
    assert_eq!(target(&flow), 3 * 40, "bytes alone add");
    run(&mut flow, us(55));
    assert_eq!(target(&flow), 4 * 40, "at the threshold");
    run(&mut flow, us(110));
    assert_eq!(target(&flow), 4 * 40 + 400, "one past it");
    run(&mut flow, us(165));
    assert_eq!(target(&flow), 4 * 40 + 400 + 800, "two past it");
}

#[test]
fn firmware_cuts_on_its_grid_and_keeps_the_target() {
    let line = Rate::gbit(100);
    let params = DcqcnFirmwareParams::simulated(line);
    assert_eq!((params.recovery.additive, params.recovery.hyper), (mbit(20), mbit(200)));
    let mut flow = DcqcnFirmware::new(line, Arc::new(params));
    // Notices each µs: a cut each 4 µs, not one each.
    flow.on_notice(us(10));
    assert_eq!((flow.rate(), flow.next_timer()), (line, us(14)));
    for at in 11..=13 {
        flow.on_notice(us(at));
    }
    flow.on_timer(us(14));
    // α: 1, down in the period that the first notice begins, up in three.
    let down = 255.0f64 / 256.0;
    let first = 1.0 - down.powi(3) / 256.0;
    let rate = 12.5e9 * (1.0 - first / 2.0);
    assert!((flow.rate().get() as f64 / rate - 1.0).abs() < 1e-8, "{flow:?}");
    assert_eq!(flow.target(), line);
    assert_eq!(flow.next_timer(), us(314), "no cut is owed, so only the raise is due");
    // Off the grid: the cut waits for it. α has fallen in the periods without a notice.
    flow.on_notice(Time::from_ps(20_300_000));
    assert_eq!(flow.next_timer(), us(22));
    let alpha = flow.alpha(us(22)).as_f64();
    let exact = (first * down.powi(7) + 1.0 / 256.0) * down;
    assert!((alpha - exact).abs() < 1e-8, "{alpha} for {exact}: 6 down, 1 up, 1 down");
    flow.on_timer(us(22));
    assert!((flow.rate().get() as f64 / (rate * (1.0 - exact / 2.0)) - 1.0).abs() < 1e-8);
    assert_eq!(flow.target(), line);
    // After a raise by the timer the next cut takes the rate for the target.
    run(&mut flow, us(322));
    let raised = flow.rate();
    flow.on_notice(us(323));
    run(&mut flow, us(326));
    assert_eq!(flow.target(), raised);
}

#[test]
fn firmware_may_start_from_a_set_rate() {
    let params = DcqcnFirmwareParams { first_rate: Some(Rate::gbit(10)), ..DcqcnFirmwareParams::shipped() };
    let mut flow = DcqcnFirmware::new(Rate::gbit(100), Arc::new(params));
    flow.on_notice(us(0));
    assert_eq!((flow.rate(), flow.target()), (Rate::gbit(10), Rate::gbit(10)));
}

#[test]
fn i7_ccti() {
    let params = Arc::new(FecnParams { timer: 100, ..FecnParams::linear(64) });
    let period = params.period();
    assert_eq!(period, Span::from_ps(102_400_000));
    let line = Rate::gbit(400);
    let mut flow = Fecn::new(line, params);
    for _ in 0..20 {
        flow.on_notice(us(0));
    }
    // A wait of 20/8 packet times: 2/7 of the line.
    assert_eq!(flow.pace(), line.ps_per_byte().scaled(3_500_000));
    for left in (0..20).rev() {
        let at = Time::ZERO + period * (20 - left);
        flow.on_timer(Time::from_ps(at.as_ps() - 1));
        assert_eq!(u64::from(flow.index()), left + 1);
        assert_eq!(flow.next_timer(), at);
        flow.on_timer(at);
        assert_eq!(u64::from(flow.index()), left);
    }
    assert_eq!((flow.pace(), flow.next_timer()), (line.ps_per_byte(), Time::MAX));
    // The limit, and the specification's shifts.
    for _ in 0..100 {
        flow.on_notice(us(3000));
    }
    assert_eq!(flow.index(), 63);
    let table = vec![0, FecnParams::entry(0, 1), FecnParams::entry(1, 1), FecnParams::entry(2, 6)];
    let mut flow = Fecn::new(line, Arc::new(FecnParams { table, limit: 3, ..FecnParams::default() }));
    for millionths in [2_000_000, 1_500_000, 2_500_000, 2_500_000] {
        flow.on_notice(us(0));
        assert_eq!(flow.pace(), line.ps_per_byte().scaled(millionths));
    }
}

#[test]
fn ccti_holds_where_notices_come_as_often_as_the_timer() {
    // b · increase = 1 / timer: below it the index ends at the bottom, above it at the limit.
    let drift = |percent: u64| {
        let params = FecnParams { increase: 2, ..FecnParams::default() };
        let period = params.period().as_ps();
        let mut flow = Fecn::new(Rate::gbit(200), Arc::new(params));
        (0..10).for_each(|_| flow.on_notice(us(0)));
        let start = i32::from(flow.index());
        for k in 1..=20u64 {
            let at = Time::from_ps(k * 2 * period * 100 / percent);
            run(&mut flow, at);
            flow.on_notice(at);
        }
        i32::from(flow.index()) - start
    };
    assert!(drift(100).abs() <= 2, "{}", drift(100));
    assert_eq!((drift(125).signum(), drift(80).signum()), (1, -1), "{} {}", drift(125), drift(80));
}

#[test]
fn dctcp_falls_by_half_the_marked_share() {
    let params = DctcpParams { initial: 100_000, ..DctcpParams::new(Rate::gbit(100), Span::from_us(8), 1000) };
    let mut flow = Dctcp::new(Arc::new(params));
    let rtt = Span::from_us(8);
    let ack = |marked| Ack { bytes: 1000, packets: 1, marked, rtt, telemetry: &[] };
    // A round trip: the first packet sent after the last update ends it.
    let mut now = us(0);
    let mut round = |flow: &mut Dctcp, marked: u32| {
        for k in 0..10 {
            now += Span::from_ps(800_000);
            flow.on_ack(now, &ack(u32::from(k < marked)));
        }
    };
    round(&mut flow, 0);
    assert_eq!(flow.window(), 100_000, "the first round trip is not over");
    round(&mut flow, 0);
    round(&mut flow, 0);
    assert_eq!(flow.window(), 102_000, "a packet a round trip");
    let before = flow.window();
    round(&mut flow, 10);
    round(&mut flow, 10);
    // α is 1/16 and then 31/256 of a full share but for where the rounds are cut.
    assert!(flow.window() < before && flow.window() > before * 85 / 100, "{}", flow.window());
    flow.on_loss(us(0), true);
    assert_eq!(flow.window(), 1000);
}

#[test]
fn swift_follows_its_target() {
    let params = Arc::new(SwiftParams { flow_range: Span::ZERO, ..SwiftParams::new(1000, 64) });
    let mut flow = Swift::new(Rate::gbit(100), 5, params.clone());
    assert_eq!(flow.target(), Span::from_us(35));
    let ack = |rtt| Ack { bytes: 1000, packets: 1, marked: 0, rtt: Span::from_us(rtt), telemetry: &[] };
    // Twice the target: the cut is 0.8 · 35/70 = 0.4, and only one in a round trip.
    flow.on_ack(us(100), &ack(70));
    flow.on_ack(us(101), &ack(70));
    assert!((flow.packets().as_f64() - 64.0 * 0.6).abs() < 1e-6);
    // Ten times the target: half at most.
    flow.on_ack(us(1000), &ack(350));
    assert!((flow.packets().as_f64() - 64.0 * 0.3).abs() < 1e-6);
    let before = flow.packets().as_f64();
    flow.on_ack(us(1001), &ack(20));
    assert!((flow.packets().as_f64() - before - 1.0 / before).abs() < 1e-6);
    // Below one packet it paces: one packet each rtt / window.
    for k in 2..20 {
        flow.on_ack(us(1000 * k), &ack(350));
    }
    assert!(flow.packets() < Fraction::ONE && flow.window() == 1000);
    let gap = flow.pace().cost(crate::units::Bytes::new(1000)).as_us();
    assert!((gap * flow.packets().as_f64() / 350.0 - 1.0).abs() < 1e-3, "{gap}");
    // Flow scaling: the whole range at 0.1 packets, nothing at 100.
    let scaled = SwiftParams { min: Fraction::ratio(1, 10), ..SwiftParams::new(1000, 100) };
    let mut flow = Swift::new(Rate::gbit(100), 5, Arc::new(scaled));
    assert_eq!(flow.target(), Span::from_us(35));
    flow.on_loss(us(1000), true);
    flow.on_loss(us(2000), true);
    assert_eq!(flow.packets(), Fraction::ratio(1, 10));
    assert!((flow.target().as_us() - 160.0).abs() < 0.01, "{}", flow.target());
}

#[test]
fn timely_follows_the_gradient() {
    let params = TimelyParams { gain: Fraction::ONE, ..TimelyParams::default() };
    let mut flow = Timely::new(Rate::gbit(10), Arc::new(params)).at(Rate::gbit(5));
    let mut sample = |rtt: u64| {
        let ack = Ack { bytes: 16 << 10, packets: 16, marked: 0, rtt: Span::from_us(rtt), telemetry: &[] };
        flow.on_ack(us(0), &ack);
        flow.rate().get() as f64 * 8e-6
    };
    assert_eq!(sample(30), 5010.0, "below the low mark: one step");
    assert_eq!(sample(49), 5020.0, "whatever the gradient");
    let fallen = 5020.0 * (1.0 - 0.8 * 11.0 / 20.0);
    assert!((sample(60) - fallen).abs() < 1e-3, "β times the gradient of 11 in 20 µs");
    (0..4).for_each(|k| assert!((sample(60) - fallen - 10.0 * f64::from(k + 1)).abs() < 1e-3));
    assert!((sample(60) - fallen - 90.0).abs() < 1e-3, "five calm samples: five steps");
    let before = fallen + 90.0;
    assert!((sample(1000) - before * 0.6).abs() < 1e-3, "above the high mark: β · (1 − 500/1000)");
}

#[test]
fn controllers_are_small() {
    for (name, size) in SIZES {
        assert!(*size <= 96, "{name}: {size} bytes");
    }
    assert!(size_of::<AnyRateControl>() <= 112, "{}", size_of::<AnyRateControl>());
}
