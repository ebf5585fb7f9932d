//! Inputs of a node: heads that block what is behind them, and what that costs under a uniform load.

use rand::Rng;

use super::*;
use crate::net::Effect;
use crate::rate_control::AnyRateControl;
use crate::units::Bytes;

/// Sixteen endpoints at one node with credits, each with packets to random others at all times; the share of their lines
/// that is carried.
fn uniform(inputs: Inputs, kib: u64) -> f64 {
    const HOSTS: usize = 16;
    let mut fabric = Fabric::new(HOSTS, 1, 100, Span::from_ns(100));
    (0..HOSTS).for_each(|host| fabric.join(host, HOSTS));
    let credits = CreditSpec { buffer: Bytes::kib(kib), release: Span::from_ns(300), wire: 8 };
    let mut spec = fabric.spec(26, FlowControlSpec::Credits(credits));
    spec.inputs = inputs;
    let mut run = Run::new(spec).unwrap();
    for from in 0..HOSTS {
        for to in 0..HOSTS {
            // A queue pair to oneself keeps the numbers simple; it is never used.
            let (forth, back) = fabric.path(&[from, HOSTS, if to == from { (to + 1) % HOSTS } else { to }]);
            run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        }
    }
    let mut draws = crate::random::stream(7, "uniform", 0);
    let mut post = |run: &mut Run, from: usize| {
        let step = 1 + (draws.next_u64() % (HOSTS as u64 - 1)) as usize;
        run.post((from * HOSTS + (from + step) % HOSTS) as u32, 4096);
    };
    // More packets than a buffer holds wait at each endpoint.
    for from in 0..HOSTS {
        (0..64).for_each(|_| post(&mut run, from));
    }
    let mut carried = 0u64;
    let (from, to) = (Time::from_ps(200_000_000), Time::from_ps(2_200_000_000));
    run.run_with(to, |run, effect| {
        if let Effect::Delivered { qp, at } = effect {
            carried += u64::from(at >= from);
            post(run, qp as usize / HOSTS);
        }
    });
    let seconds = to.since(from).as_ps() as f64 / 1e12;
    carried as f64 * f64::from(4096 + 26) / (HOSTS as f64 * 12.5e9 * seconds)
}

/// Karol, Hluchyj, Morgan: Input versus output queueing on a space-division packet switch, IEEE Trans. Comm. 35, 1987:
/// 2 − √2 = 0.586 of the line for many inputs, 0.60 for 16.
#[test]
fn heads_that_block_cap_a_uniform_load_and_queues_of_outputs_do_not() {
    let blocked = uniform(Inputs::HeadOfLine, 32);
    assert!((0.586..0.66).contains(&blocked), "{blocked}");
    let free = uniform(Inputs::RoundRobin, 128);
    assert!(free >= 0.95, "{free}");
}

/// Two senders at node 4; the first has packets for the slow output in front of those for the free one.
#[test]
fn a_head_that_is_held_blocks_what_is_behind_it() {
    let fabric = star(4, 100);
    let play = |inputs: Inputs| {
        let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
        spec.inputs = inputs;
        let mut run = Run::new(spec).unwrap();
        run.storm(fabric.path(&[4, 2]).0[0], 0);
        for to in [2, 3] {
            let (forth, back) = fabric.path(&[0, 4, to]);
            let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
            run.post(flow, 64 << 10);
        }
        let (forth, back) = fabric.path(&[1, 4, 3]);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 64 << 10);
        assert!(!run.run(Time::MAX));
        run.outcome().flows.iter().map(|flow| flow.messages).collect::<Vec<_>>()
    };
    assert_eq!(play(Inputs::Fifo), [0, 1, 1]);
    assert_eq!(play(Inputs::HeadOfLine), [0, 0, 1]);
}
