//! What is counted and sampled, roots of congestion and their victims, and looks that are not events.

use super::*;
use crate::net::{NetOutcome, OCTAVES, octave};
use crate::rate_control::AnyRateControl;

fn paused() -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 1 << 40,
        ports: None,
        threshold: Threshold::Static { xoff: 15 * 4160, xon: 12 * 4160 },
        reserve: 0,
        headroom: 1 << 20,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 65_535 },
        freed: Freed::AtEnd,
    })
}

fn us(us: u64) -> Time {
    Time::from_ps(us * 1_000_000)
}

/// Eight senders at one node, 1 MiB each; events, and what was measured.
fn incast(change: impl Fn(&mut NetSpec)) -> (u64, Time, NetOutcome) {
    let fabric = star(9, 100);
    let mut spec = fabric.spec(64, paused());
    change(&mut spec);
    let mut run = Run::new(spec).unwrap();
    for sender in 1..9 {
        let (forth, back) = fabric.path(&[sender, 9, 0]);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 1 << 20);
    }
    run.run(Time::MAX);
    (run.events(), run.now(), run.outcome())
}

/// The port to the receiver.
fn to_receiver() -> usize {
    star(9, 100).path(&[9, 0]).0[0] as usize
}

#[test]
fn depths_are_counted_over_all_of_the_time() {
    let (_, end, outcome) = incast(|_| {});
    for port in outcome.ports.iter().flatten() {
        // Whole nanoseconds of each octave.
        let counted = port.observed_ns() as f64;
        assert!((end.as_ps() as f64 / 1e3 - counted).abs() <= 2.0 + OCTAVES as f64, "{counted} of {end}");
        let (mut low, mut high) = (0.0, 0.0);
        for (octave, ns) in port.histogram.iter().enumerate() {
            low += if octave == 0 { 0.0 } else { (32u64 << octave) as f64 } * *ns as f64;
            high += (64u64 << octave) as f64 * *ns as f64;
        }
        assert!(low <= port.byte_ns as f64 * 1.001 && port.byte_ns as f64 <= high, "{low} {} {high}", port.byte_ns);
        assert!(
            port.quantile(0.5) <= port.quantile(0.99) && port.quantile(1.0) <= port.peak.next_power_of_two().max(64)
        );
        assert_eq!(port.histogram[octave(port.peak) + 1..].iter().sum::<u64>(), 0);
    }
    let bottleneck = &outcome.ports[to_receiver()][0];
    // 8 inputs of up to 15 packets and what comes after a pause; most of the time most of it is there.
    assert!(bottleneck.mean() > 0.5 * bottleneck.peak as f64, "{} of {}", bottleneck.mean(), bottleneck.peak);
    assert_eq!(bottleneck.bytes, 8 * 256 * 4160);
    // What nodes asked for is what ports were held for, but for the flight of the frames.
    let asked: u64 = outcome.ports.iter().map(|port| port[0].asked).sum();
    assert_eq!(asked, outcome.totals.pauses);
    for port in outcome.ports.iter().filter(|port| port[0].asked > 0) {
        near(port[0].asked_for.as_us(), port[0].held.as_us(), 0.01);
        assert_eq!((port[0].input_peak > 0, port[0].refreshes), (true, 0));
    }
    // Acknowledgements: 64 B each over two links.
    let control: u64 = outcome.ports.iter().map(|port| port[0].control_bytes).sum();
    assert_eq!(control, 64 * outcome.totals.control_hops);
}

#[test]
fn samples_change_nothing_and_agree_with_the_counters() {
    let plain = incast(|_| {});
    let port = to_receiver() as u32;
    let sampled = incast(|spec| {
        spec.observe =
            Observe { interval: Span::from_us(1), ports: vec![port], flows: vec![0, 7], ..Observe::default() };
    });
    assert_eq!((plain.0, plain.1), (sampled.0, sampled.1));
    assert_eq!((&plain.2.ports, &plain.2.flows), (&sampled.2.ports, &sampled.2.flows));
    let series = &sampled.2.series;
    assert_eq!(series.at.len() as u64, sampled.1.as_ps() / 1_000_000 + 1);
    assert_eq!(series.at[17], us(17));
    let (queued, sent) = (&series.ports[0].queued, &series.ports[0].sent);
    let counters = &sampled.2.ports[port as usize][0];
    assert!(queued.iter().max().copied().unwrap() <= counters.peak);
    let mean = queued.iter().sum::<u64>() as f64 / queued.len() as f64;
    near(mean, counters.mean(), 0.01);
    assert_eq!(sent.last().copied(), Some(counters.bytes));
    assert_eq!(series.flows[1].arrived.last().copied(), Some(1 << 20));
    // An interval of next to nothing is widened until the samples fit.
    let dense = incast(|spec| {
        spec.observe = Observe { interval: Span::from_ps(1), ports: vec![port], ..Observe::default() };
    });
    assert!(dense.2.series.at.len() <= 1 << 16 && dense.2.series.interval > Span::from_ns(5));
    assert_eq!(dense.2.series.at.len(), dense.2.series.ports[0].queued.len());
    assert!(dense.2.series.at.windows(2).all(|pair| pair[1].since(pair[0]) == dense.2.series.interval));
}

#[test]
fn a_window_counts_what_lies_within_it() {
    let (_, end, all) = incast(|_| {});
    let port = to_receiver();
    let part = |from: Time, to: Time| {
        let outcome = incast(|spec| spec.observe = Observe { from, to, ..Observe::default() }).2;
        outcome.ports[port][0]
    };
    let (first, second) = (part(Time::ZERO, us(300)), part(us(300), Time::MAX));
    near(first.observed_ns() as f64, 300_000.0, 1e-3);
    near((first.byte_ns + second.byte_ns) as f64, all.ports[port][0].byte_ns as f64, 1e-4);
    near(second.observed_ns() as f64, end.as_us() * 1e3 - 300_000.0, 1e-3);
    assert_eq!(first.bytes, second.bytes);
    // The queue begins empty and ends empty: the peak lies in one of them.
    assert_eq!(first.peak.max(second.peak), all.ports[port][0].peak);
}

/// Endpoints 0 (the hot receiver), 1 (another), senders 2 to 5 at node 7, the victim 6 there too; receivers at node 8.
fn tree(victim_class: u8, credits: bool) -> NetOutcome {
    let mut fabric = Fabric::new(7, 2, 100, Span::from_us(1));
    for (host, node) in [(0, 8), (1, 8), (2, 7), (3, 7), (4, 8), (5, 8), (6, 7)] {
        fabric.join(host, node);
    }
    fabric.join(7, 8);
    let scheme = if credits {
        FlowControlSpec::Credits(CreditSpec {
            buffer: crate::units::Bytes::kib(64),
            release: Span::from_ns(300),
            wire: 8,
        })
    } else {
        paused()
    };
    let mut spec = fabric.spec(64, scheme);
    spec.inputs = Inputs::RoundRobin;
    spec.classes = vec![red_off(true); 2];
    let mut run = Run::new(spec).unwrap();
    let paths: [(&[usize], u8); 5] =
        [(&[2, 7, 8, 0], 0), (&[3, 7, 8, 0], 0), (&[4, 8, 0], 0), (&[5, 8, 0], 0), (&[6, 7, 8, 1], victim_class)];
    for (nodes, class) in paths {
        let (forth, back) = fabric.path(nodes);
        let how = FlowSpec { class, ..FlowSpec::default() };
        let flow = run.open(&forth, &back, how, AnyRateControl::default()).unwrap();
        run.post(flow, 4 << 20);
    }
    assert!(!run.run(Time::MAX));
    run.outcome()
}

#[test]
fn a_victim_is_named_with_the_root_that_held_it_up() {
    for credits in [false, true] {
        let outcome = tree(0, credits);
        let root = (outcome.routes[0][2], 0);
        assert_eq!(outcome.roots, [root], "credits {credits}");
        let flows: Vec<u32> = outcome.victims.iter().map(|victim| victim.flow).collect();
        assert_eq!(flows, [4], "credits {credits}");
        assert_eq!(outcome.victims[0].root, Some(root));
        let flow = &outcome.flows[4];
        assert_eq!((outcome.victims[0].held, outcome.victims[0].busy), (flow.behind_held, flow.busy));
        assert_eq!(flow.acked_at.since(flow.started_at), flow.busy);
        // In a class of its own it meets nothing but the share of the link.
        assert!(tree(1, credits).victims.is_empty(), "credits {credits}");
    }
}

#[test]
fn an_endpoint_that_pauses_is_a_root_while_it_lasts_and_its_flow_goes_on_then() {
    let fabric = star(4, 100);
    let port = fabric.path(&[4, 0]).0[0];
    let play = |until: Time| {
        let mut spec = fabric.spec(64, paused());
        spec.storms = vec![Storm { port, class: 0, from: us(20), until }];
        let mut run = Run::new(spec).unwrap();
        for (from, to) in [(1, 0), (2, 3)] {
            let (forth, back) = fabric.path(&[from, 4, to]);
            let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
            run.post(flow, 1 << 20);
        }
        assert!(!run.run(Time::MAX), "events are left");
        run.outcome()
    };
    let alone = Time::from_ps(257 * 332_800 + 2_000_000);
    let outcome = play(us(500));
    assert_eq!(outcome.flows.iter().map(|flow| flow.messages).collect::<Vec<_>>(), [1, 1]);
    // What the storm takes is its length, but for what was in service when it began and the packets that queued meanwhile.
    let late = outcome.flows[0].delivered_at.since(alone).as_us();
    assert!((478.0..=481.0).contains(&late), "{late}");
    assert_eq!(outcome.flows[1].delivered_at, alone);
    assert_eq!(
        (outcome.ports[port as usize][0].held, outcome.roots.as_slice()),
        (Span::from_us(480), &[(port, 0)][..])
    );
    assert!(outcome.victims.is_empty());
    let outcome = play(Time::MAX);
    assert_eq!(outcome.flows.iter().map(|flow| flow.messages).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(outcome.flows[1].delivered_at, alone);
}

#[test]
fn a_storm_in_idle_time_is_counted_and_met_by_nobody() {
    let fabric = star(2, 100);
    let port = fabric.path(&[2, 1]).0[0];
    let mut spec = fabric.spec(64, paused());
    spec.watchdog = Some(Span::from_us(10));
    spec.storms = vec![
        Storm { port, class: 0, from: us(200), until: us(300) },
        // This one is still there when the next message comes.
        Storm { port, class: 0, from: us(400), until: us(1_100) },
    ];
    let mut run = Run::new(spec).unwrap();
    let (forth, back) = fabric.path(&[0, 2, 1]);
    let how = FlowSpec { recovery: Recovery::GoBackN, timeout: Some(Span::from_us(1_000)), ..FlowSpec::default() };
    let flow = run.open(&forth, &back, how, AnyRateControl::default()).unwrap();
    run.post(flow, 4096);
    // The timeout of the first message, which is long acknowledged, comes at 1 ms; then there is a second one.
    assert!(!run.run(Time::MAX));
    assert!(run.now() >= us(1_000), "{}", run.now());
    run.post(flow, 4096);
    assert!(!run.run(Time::MAX));
    let outcome = run.outcome();
    assert_eq!((outcome.flows[0].messages, outcome.flows[0].failed), (2, false));
    near(outcome.ports[port as usize][0].held.as_us(), 100.0 + 700.0, 0.01);
}

#[test]
fn a_pause_that_goes_on_is_asked_for_again() {
    // The longest pause of 65,535 quanta of 512 bits at 100 Gb/s is 335.5 us.
    let fabric = star(2, 100);
    let mut spec = fabric.spec(64, paused());
    spec.storms = vec![Storm { port: fabric.path(&[2, 1]).0[0], class: 0, from: Time::ZERO, until: us(2_000) }];
    let mut run = Run::new(spec).unwrap();
    let (forth, back) = fabric.path(&[0, 2, 1]);
    let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
    run.post(flow, 1 << 20);
    assert!(!run.run(Time::MAX));
    let port = run.outcome().ports[forth[0] as usize][0];
    let quantum = 512.0 / 100e3;
    near(65_535.0 * quantum, 335.5, 1e-3);
    assert_eq!(port.refreshes, (port.asked_for.as_us() / (65_535.0 * quantum / 2.0)) as u64);
    assert!(port.refreshes >= 11);
}

#[test]
fn a_run_in_which_nothing_arrives_is_given_up() {
    let mut fabric = Fabric::new(2, 0, 100, Span::from_us(1));
    fabric.join(0, 1);
    fabric.ports[0].lose_per_2_32 = u32::MAX;
    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
    spec.no_progress = Some(Span::from_us(5_000));
    let mut run = Run::new(spec).unwrap();
    let how = FlowSpec {
        recovery: Recovery::GoBackN,
        timeout: Some(Span::from_us(100)),
        retries: u8::MAX,
        ..FlowSpec::default()
    };
    let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
    run.post(flow, 100_000);
    assert!(run.run(Time::MAX), "it ended");
    let outcome = run.outcome();
    assert!(outcome.no_progress && (us(5_000)..us(5_200)).contains(&run.now()), "{}", run.now());
    assert_eq!(outcome.flows[0].arrived, 0);
}

#[test]
fn queue_pairs_are_sampled_by_their_ends_within_what_fits() {
    let port = to_receiver() as u32;
    let ends = |from: u32, to: u32| {
        let one = |node: u32| (0..10).map(|other| other == node).collect();
        Between { from: one(from), to: one(to) }
    };
    let sampled = incast(|spec| {
        spec.observe = Observe {
            interval: Span::from_us(1),
            ports: vec![port],
            between: vec![ends(3, 0), ends(5, 0), ends(0, 5)],
            most: 300,
            ..Observe::default()
        };
    });
    let series = &sampled.2.series;
    assert_eq!(series.flows.iter().map(|flow| flow.flow).collect::<Vec<_>>(), [2, 4]);
    // A hundred of each of three, of the 1,007 until the last look for a circle: every sixteenth is left.
    assert_eq!((series.interval, series.at.len()), (Span::from_us(16), 63));
    for flow in &series.flows {
        assert_eq!(
            (flow.arrived.len(), flow.out.len(), flow.pace.len()),
            (series.at.len(), series.at.len(), series.at.len())
        );
        assert!(flow.arrived.is_sorted() && *flow.arrived.last().unwrap() > 1_000_000, "{:?}", flow.arrived.last());
    }
    // One that is opened later has nothing before.
    let fabric = star(3, 100);
    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
    let all = Between { from: vec![true; 4], to: vec![true; 4] };
    spec.observe = Observe { interval: Span::from_us(10), between: vec![all], ..Observe::default() };
    let mut run = Run::new(spec).unwrap();
    for (from, to) in [(0, 1), (2, 1)] {
        let (forth, back) = fabric.path(&[from, 3, to]);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 1 << 20);
        assert!(!run.run(Time::MAX));
    }
    let series = run.outcome().series;
    assert_eq!(series.flows.len(), 2);
    assert!(series.flows.iter().all(|flow| flow.arrived.len() == series.at.len()));
    // The last sample is less than ten microseconds, 31 packets, before the end.
    let left = (1 << 20) - series.flows[1].arrived.last().unwrap();
    assert!(series.flows[1].arrived[3] == 0 && left <= 31 * 4096, "{left}");
}

#[test]
fn what_makes_a_queue_pair_wait_is_counted() {
    use crate::rate_control::Fixed;
    use crate::units::{Bytes, PsPerByte, Rate};
    let fabric = star(2, 100);
    let play = |pace: PsPerByte, window: u64, cut: u64| {
        let mut run = Run::new(fabric.spec(64, FlowControlSpec::Unlimited)).unwrap();
        let (forth, back) = fabric.path(&[0, 2, 1]);
        let rate: AnyRateControl = Fixed { pace, window: Bytes::new(window) }.into();
        let flow = run.open(&forth, &back, FlowSpec::default(), rate).unwrap();
        run.post(flow, 1 << 20);
        run.run(Time::from_ps(cut));
        (run.outcome().flows[0], run.outcome())
    };
    let (free, _) = play(PsPerByte::FREE, u64::MAX, u64::MAX - 1);
    assert_eq!((free.windowed, free.paced), (Span::ZERO, Span::ZERO));
    // At a quarter of the line, three quarters of 255 packets' times are spent waiting.
    let (slow, outcome) = play(Rate::gbit(25).ps_per_byte(), u64::MAX, u64::MAX - 1);
    near(slow.paced.as_us(), 255.0 * 0.3328 * 3.0, 1e-3);
    assert_eq!((slow.windowed, outcome.ports[0][0].resent), (Span::ZERO, 0));
    // One packet at a time: the round trip less its own time on the wire, but for the last packet.
    let (held, _) = play(PsPerByte::FREE, 1, u64::MAX - 1);
    near(held.windowed.as_us(), 255.0 * (2.0 * 0.3328 + 4.0 + 2.0 * 0.00512), 1e-3);
    assert_eq!(held.paced, Span::ZERO);
    // It counts while it lasts.
    let (part, _) = play(Rate::gbit(25).ps_per_byte(), u64::MAX, 100_000_000);
    near(part.paced.as_us(), 75.0, 0.01);
}
