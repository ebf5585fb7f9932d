//! Recovery with timeouts that come too early and gaps that are no losses: what was posted arrives, each byte once, and all ends.

use proptest::prelude::*;

use super::*;
use crate::net::spec::Recovery;
use crate::rate_control::{AnyRateControl, Fixed};
use crate::units::{Bytes, PsPerByte};

#[derive(Clone, Debug)]
struct Case {
    /// Of each queue pair: its messages in bytes, and its window in packets.
    flows: Vec<(Vec<u64>, u64)>,
    recovery: u8,
    /// Timeout in ns; the round trip is above 4,700 ns.
    rto: u64,
    reorder: u32,
    ack_every: u32,
    spray: bool,
    loses: bool,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let flow = (prop::collection::vec(0u64..60_000, 1..6), 0u64..20);
    let flows = prop::collection::vec(flow, 1..4);
    (flows, 0u8..3, 3_000u64..12_000, 1u32..=4, 1u32..4, any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(flows, recovery, rto, reorder, ack_every, spray, loses, seed)| Case {
            flows,
            recovery,
            rto,
            reorder,
            ack_every,
            spray,
            loses,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn early_timeouts_and_false_gaps_cost_time_and_no_byte(case in case()) {
        // One endpoint sends to two, whose ways part at the first node and meet at the second.
        let mut fabric = Fabric::new(3, 4, 100, Span::from_ns(500));
        for (a, b) in [(0, 3), (3, 4), (3, 5), (4, 6), (5, 6), (6, 1), (6, 2)] {
            fabric.join(a, b);
        }
        if case.loses {
            fabric.ports[0].lose_per_2_32 = 1 << 26;
        }
        let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
        spec.seed = case.seed;
        let mut run = Run::new(spec).unwrap();
        let recovery = [Recovery::GoBackN, Recovery::Selective, Recovery::GoBack0][usize::from(case.recovery)];
        let spray = case.spray && recovery == Recovery::Selective;
        for (index, (messages, window)) in case.flows.iter().enumerate() {
            let (forth, back) = fabric.path(&[0, 3, 4 + index % 2, 6, 1 + index % 2]);
            let how = FlowSpec {
                recovery,
                ack_every: case.ack_every,
                // What begins a message again has to get through with it before it is due.
                timeout: Some(Span::from_ns(case.rto)),
                retries: 255,
                paths: if spray { Paths::Spray } else { Paths::Pinned },
                reorder: if recovery == Recovery::Selective { case.reorder } else { 1 },
                ..FlowSpec::default()
            };
            let window = if *window == 0 { u64::MAX } else { (window + u64::from(case.ack_every)) * 4096 };
            let rate: AnyRateControl = Fixed { pace: PsPerByte::FREE, window: Bytes::new(window) }.into();
            let flow = run.open(&forth, &back, how, rate).unwrap();
            messages.iter().for_each(|bytes| run.post(flow, payload(recovery, *bytes)));
        }
        prop_assert!(!run.run(Time::from_ps(1_000_000_000_000)), "something is left to happen");
        let outcome = run.outcome();
        prop_assert_eq!(outcome.packets_left, 0);
        for (flow, (messages, _)) in outcome.flows.iter().zip(&case.flows) {
            let posted: u64 = messages.iter().map(|bytes| payload(recovery, *bytes)).sum();
            prop_assert_eq!((flow.payload, flow.messages, flow.failed), (posted, messages.len() as u64, false));
            let packets: u64 = messages.iter().map(|b| payload(recovery, *b).div_ceil(4096).max(1)).sum();
            prop_assert!(flow.arrived - flow.duplicates >= packets, "{flow:?}");
        }
    }
}

/// Messages that begin again from their start must be short, or they never get through before the next timeout.
fn payload(recovery: Recovery, bytes: u64) -> u64 {
    if recovery == Recovery::GoBack0 { bytes % 8_000 } else { bytes }
}
