//! What holds for any sequence of events.

use std::sync::Arc;

use proptest::prelude::*;

use super::{no_difference, paper, run};
use crate::rate_control::*;
use crate::units::{Rate, Span, Time};

/// After `gap` ns: 0 notice, 1 a loss, 2 an acknowledgement, 3 a packet sent.
type Step = (u64, u8, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u64..200_000, 0u8..4, 0u32..1000), 1..150)
}

fn all(line: Rate) -> Vec<AnyRateControl> {
    let rtt = Span::from_us(8);
    vec![
        LineRate.into(),
        Fixed { pace: line.ps_per_byte(), window: crate::units::Bytes::kib(64) }.into(),
        Dcqcn::new(line, Arc::default()).into(),
        DcqcnFirmware::new(line, Arc::default()).into(),
        DcqcnFirmware::new(line, Arc::new(DcqcnFirmwareParams::simulated(line))).into(),
        Dctcp::new(Arc::new(DctcpParams::new(line, rtt, 4096))).into(),
        Hpcc::new(line, Arc::new(HpccParams::new(line, rtt, 4096))).into(),
        Swift::new(line, 3, Arc::new(SwiftParams::new(4096, 100))).into(),
        Timely::new(line, Arc::default()).into(),
        Receiver::new(0).into(),
        Fecn::new(line, Arc::default()).into(),
    ]
}

fn apply(flow: &mut impl RateControl, now: Time, (_, what, value): Step) {
    run(flow, Time::from_ps(now.as_ps().saturating_sub(1)));
    let telemetry =
        [HopTelemetry { queue: u64::from(value) << 10, sent: now.as_ps() / 100, at: now, rate: Rate::gbit(100) }];
    match what {
        0 => flow.on_notice(now),
        1 => flow.on_loss(now, value % 2 == 0),
        2 => flow.on_ack(
            now,
            &Ack {
                bytes: 4096,
                packets: 1,
                marked: value % 2,
                rtt: Span::from_ns(8000 + 100 * u64::from(value)),
                telemetry: &telemetry,
            },
        ),
        _ => flow.on_send(now, value << 7),
    }
    run(flow, now);
}

fn play(flow: &mut impl RateControl, steps: &[Step]) -> Time {
    let mut now = Time::ZERO;
    for step in steps {
        now += Span::from_ns(step.0);
        apply(flow, now, *step);
    }
    now
}

/// Firmware as the public simulator writes it, with an event for every period of α and of the gate, in floating point.
/// Returns rate (B/s), target and α after the notices at these instants (ns) and all until `end`.
fn with_an_event_each_period(line: f64, params: &DcqcnFirmwareParams, notices: &[u64], end: u64) -> [f64; 3] {
    let (g, min) = (params.gain.as_f64(), params.recovery.min.get() as f64);
    let (additive, hyper) = (params.recovery.additive.get() as f64, params.recovery.hyper.get() as f64);
    let (mut rate, mut target, mut alpha) = (line, line, params.initial_alpha.as_f64());
    let (mut noticed, mut owed, mut stage) = (false, false, 0);
    let never = u64::MAX;
    // Instants of α, of the next notice, of the raise, of the cut: so ordered where they are equal.
    let mut due = [never; 4];
    let mut left = notices.iter().copied();
    due[1] = left.next().unwrap_or(never);
    loop {
        let which = (0..4).min_by_key(|k| due[*k]).unwrap();
        let now = due[which];
        if now > end {
            return [rate, target, alpha];
        }
        match which {
            0 => {
                alpha = (1.0 - g) * alpha + if noticed { g } else { 0.0 };
                noticed = false;
                due[0] += 1000;
            }
            1 => {
                owed = true;
                if due[0] == never {
                    (due[0], due[3]) = (now + 1000, now + 4000);
                } else {
                    noticed = true;
                }
                due[1] = left.next().unwrap_or(never);
            }
            2 => {
                target = (target + [0.0, additive, hyper][usize::min(stage, 2)]).min(line);
                rate = (rate + target) / 2.0;
                stage += 1;
                due[2] += 300_000;
            }
            _ => {
                if owed {
                    if stage > 0 {
                        target = rate;
                    }
                    rate = (rate * (1.0 - alpha / 2.0)).max(min);
                    (owed, stage) = (false, 0);
                    due[2] = now + 300_000;
                }
                due[3] += 4000;
            }
        }
    }
}

proptest! {
    #[test]
    fn firmware_is_what_an_event_each_period_gives(
        gaps in prop::collection::vec(prop_oneof![0u64..9000, Just(1000), Just(4000), 0u64..900_000], 1..60),
        more in 0u64..900_000,
    ) {
        let line = Rate::gbit(100);
        let params = DcqcnFirmwareParams::simulated(line);
        let mut flow = DcqcnFirmware::new(line, Arc::new(params));
        let notices: Vec<u64> = gaps.iter().scan(0, |now, gap| { *now += gap; Some(*now) }).collect();
        let at = |ns: u64| Time::ZERO + Span::from_ns(ns);
        for notice in &notices {
            run(&mut flow, Time::from_ps(at(*notice).as_ps().saturating_sub(1)));
            flow.on_notice(at(*notice));
        }
        let end = notices.last().unwrap() + more;
        run(&mut flow, at(end));
        let [rate, target, alpha] = with_an_event_each_period(line.get() as f64, &params, &notices, end);
        prop_assert!((flow.rate().get() as f64 / rate - 1.0).abs() < 1e-5, "{flow:?}, {rate}");
        prop_assert!((flow.target().get() as f64 / target - 1.0).abs() < 1e-5, "{flow:?}, {target}");
        prop_assert!((flow.alpha(at(end)).as_f64() - alpha).abs() < 1e-6, "{flow:?}, {alpha}");
    }

    #[test]
    fn rates_stay_between_the_least_and_the_line(steps in steps()) {
        let line = Rate::gbit(100);
        for mut flow in all(line) {
            let mut now = Time::ZERO;
            for step in &steps {
                now += Span::from_ns(step.0);
                apply(&mut flow, now, *step);
                let pace = flow.pace();
                prop_assert!(pace == crate::units::PsPerByte::FREE || pace >= line.ps_per_byte(), "{flow:?}");
                // Swift's least is 0.001 packets in the longest round trip here.
                let least = if matches!(flow, AnyRateControl::Swift(_)) { 37_000 } else { 125_000 };
                prop_assert!(pace <= Rate::bytes_per_sec(least).ps_per_byte(), "{flow:?}");
                prop_assert!(flow.window() > 0 || flow.facts().asks_for_grants, "{flow:?}");
                prop_assert!(flow.next_timer() > now);
                if let AnyRateControl::Dcqcn(flow) = &flow {
                    prop_assert!(flow.target() >= flow.rate() && flow.alpha(now) <= Fraction::ONE);
                }
            }
            // No timer once there is nothing to send.
            flow.stop(now);
            prop_assert_eq!(flow.next_timer(), Time::MAX);
        }
    }

    #[test]
    fn without_notices_rates_rise_to_the_line_and_timers_end(steps in steps()) {
        let line = Rate::gbit(100);
        for mut flow in all(line) {
            let pauses = matches!(flow, AnyRateControl::Dcqcn(_) | AnyRateControl::DcqcnFirmware(_) | AnyRateControl::Fecn(_));
            let now = play(&mut flow, &steps);
            // A cut that a notice before the end owes comes within its gate.
            run(&mut flow, now + Span::from_us(4));
            let (mut pace, mut events) = (flow.pace(), 0);
            while flow.next_timer() < Time::MAX {
                flow.on_timer(flow.next_timer());
                prop_assert!(flow.pace() <= pace, "{flow:?}");
                pace = flow.pace();
                events += 1;
                prop_assert!(events < 200_000, "{flow:?}");
            }
            prop_assert!(!pauses || pace == line.ps_per_byte(), "{flow:?}");
        }
    }

    #[test]
    fn an_idle_flow_is_where_its_timers_would_have_brought_it(steps in steps(), idle in 0u64..50_000_000) {
        for mut flow in all(Rate::gbit(100)) {
            let now = play(&mut flow, &steps);
            let mut busy = flow.clone();
            let later = now + Span::from_ns(idle);
            flow.stop(now);
            prop_assert_eq!(flow.next_timer(), Time::MAX);
            flow.start(later);
            prop_assert!(flow.next_timer() >= later, "the past is made up for at once: {flow:?}");
            run(&mut flow, later);
            run(&mut busy, later);
            prop_assert_eq!(flow, busy);
        }
    }

    #[test]
    fn firmware_without_its_differences_is_the_published_rule(steps in steps(), bytes in 0u64..3) {
        let (mut old, mut new) = (paper(), no_difference());
        old.recovery.byte_counter = bytes * 50_000;
        new.recovery = old.recovery;
        let line = Rate::gbit(100);
        let (mut old, mut new) = (Dcqcn::new(line, Arc::new(old)), DcqcnFirmware::new(line, Arc::new(new)));
        let mut now = Time::ZERO;
        for step in &steps {
            now += Span::from_ns(step.0);
            apply(&mut old, now, *step);
            apply(&mut new, now, *step);
            prop_assert_eq!((old.rate(), old.target()), (new.rate(), new.target()));
            prop_assert_eq!(old.next_timer(), new.next_timer());
            prop_assert_eq!(old.alpha(now), new.alpha(now));
        }
    }

    #[test]
    fn powers_of_fractions_are_near_and_never_above(n in 0u64..5000, g in 1u64..1024) {
        let rest = Fraction::ratio(g, 1024).rest();
        let exact = (1.0 - g as f64 / 1024.0).powi(n as i32);
        let got = rest.power(n).as_f64();
        prop_assert!(got <= exact + 1e-15 && exact - got < 2e-8, "{got} for {exact}");
    }
}

/// Pace and window after twenty packets, each acknowledged a round trip later, as `hear` has it told.
fn heard(mut flow: AnyRateControl, hear: impl Fn(&mut AnyRateControl, Time, Ack<'_>)) -> (u64, u64) {
    let mut now = Time::ZERO;
    flow.start(now);
    flow.on_grant(now, 1 << 20);
    for _ in 0..20 {
        now += Span::from_us(50);
        run(&mut flow, now);
        flow.on_send(now, 4178);
        now += Span::from_us(8);
        run(&mut flow, now);
        hear(&mut flow, now, Ack { bytes: 4096, packets: 1, rtt: Span::from_us(8), ..Ack::default() });
    }
    (flow.pace().cost(crate::units::Bytes::mib(1)).as_ps(), flow.window())
}

/// Controllers say themselves what they go by; it shows in what they do.
#[test]
fn facts_are_true() {
    for flow in all(Rate::gbit(100)) {
        let facts = flow.facts();
        let plain = heard(flow.clone(), |flow, now, ack| flow.on_ack(now, &ack));
        let marked = heard(flow.clone(), |flow, now, ack| {
            flow.on_notice(now);
            flow.on_ack(now, &Ack { marked: 1, ..ack });
        });
        assert_eq!(plain != marked, facts.hears_marks, "{flow:?}");
        let full = HopTelemetry { queue: 1 << 20, sent: 0, at: Time::ZERO, rate: Rate::gbit(100) };
        let read = heard(flow.clone(), |flow, now, ack| {
            let hop = [HopTelemetry { sent: now.as_ps() / 80, at: now, ..full }];
            flow.on_ack(now, &Ack { telemetry: &hop, ..ack });
        });
        assert_eq!(plain != read, facts.reads_telemetry, "{flow:?}");
        let late = heard(flow.clone(), |flow, now, ack| flow.on_ack(now, &Ack { rtt: Span::from_us(900), ..ack }));
        let moves = plain != late || plain != marked || plain != read || facts.asks_for_grants;
        assert_eq!(moves, facts.slows_down, "{flow:?}");
        assert_eq!(flow.window() == 0, facts.asks_for_grants, "{flow:?}");
        let mut acked = flow.clone();
        acked.on_grant(Time::ZERO, 1 << 20);
        let before = acked.clone();
        let ack = Ack { bytes: 4096, packets: 1, rtt: Span::from_us(8), telemetry: &[full], ..Ack::default() };
        acked.on_ack(Time::ZERO + Span::from_us(50), &ack);
        assert_eq!(acked != before, facts.hears_acks, "{flow:?}");
    }
}
