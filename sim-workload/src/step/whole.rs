//! Carries calls in one engine over the whole network: nothing is reused.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use sim_core::engine::{Engine, Limits, Notice};
use sim_core::outcome::{Outcome, StopReason};
use sim_core::program::Program;
use sim_core::units::Time;

use super::calls::Calls;
use super::carrier::{Carrier, CarryError, End, Start};

/// Carries calls in one engine.
#[derive(Debug)]
pub struct Whole<'a> {
    calls: Calls<'a>,
    engine: Engine,
    programs: FxHashMap<(u32, u32), Program>,
    /// The call of each program of the engine.
    starts: Vec<Start>,
    /// Ends that are settled.
    told: BinaryHeap<Reverse<End>>,
    heard: Vec<Notice>,
    /// Members that have not ended, or whose ends were not taken.
    members: u64,
    /// Why it stopped before its end: an engine that was stopped has let go of an event and can't go on.
    stopped: Option<StopReason>,
}

impl<'a> Whole<'a> {
    /// Carries these calls.
    ///
    /// # Errors
    /// If the part of the network that carries packets is not described consistently.
    pub fn new(calls: Calls<'a>, limits: Limits) -> Result<Self, CarryError> {
        let limits = Limits { open: true, one_program: false, ..limits };
        let mut engine = Engine::new(calls.network(), calls.fabric().mtu(), limits);
        if let Some(plan) = calls.network().packets() {
            let fault = |e: sim_core::net::SpecError| CarryError::Impossible {
                what: "a network of packets".into(),
                why: e.to_string(),
            };
            engine.set_net(plan.clone()).map_err(fault)?;
        }
        Ok(Self {
            calls,
            engine,
            programs: FxHashMap::default(),
            starts: Vec::new(),
            told: BinaryHeap::new(),
            heard: Vec::new(),
            members: 0,
            stopped: None,
        })
    }

    /// What the engine measured, when all that is left is at rest, or up to where it was stopped.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let reason = self.stopped.unwrap_or_else(|| self.engine.run(|_, _| {}));
        self.engine.finish(reason)
    }

    /// Events that were played.
    #[must_use]
    pub fn events(&self) -> u64 {
        let (events, repeated) = self.engine.events();
        events - repeated
    }

    /// The call that began last.
    fn last(&self) -> String {
        self.starts.last().map_or_else(|| "a call".into(), |s| self.calls.describe(s.communicator, s.call))
    }
}

impl Carrier for Whole<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            let key = (start.communicator, start.call);
            if !self.programs.contains_key(&key) {
                let program = self.calls.program(start.communicator, start.call)?;
                self.programs.insert(key, program);
            }
            let program = self.programs[&key].clone();
            let kernels = program.kernels.len() as u64;
            match self.engine.load(program, at) {
                Ok(number) => debug_assert_eq!(number as usize, self.starts.len()),
                Err(fault) => return Err(CarryError::Endless { what: self.last(), why: fault.to_string() }),
            }
            self.members += kernels;
            self.starts.push(*start);
        }
        Ok(())
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        loop {
            let told = self.told.peek().map(|Reverse(end)| end.at).filter(|at| *at <= until);
            let limit = told.unwrap_or(until);
            // What is left when all members have ended may wait.
            let over = self.told.len() as u64 == self.members;
            let stop = if over { None } else { self.engine.go_to(limit, &mut self.heard) };
            if self.heard.is_empty() {
                return match stop {
                    Some(StopReason::Finished) | None => Ok(told),
                    Some(reason) => {
                        self.stopped = Some(reason);
                        Err(CarryError::Stopped { what: self.last(), reason })
                    }
                };
            }
            for notice in self.heard.drain(..) {
                if let Notice::Kernel { program, kernel, ended, .. } = notice {
                    let token = self.starts[program as usize].token;
                    self.told.push(Reverse(End { at: ended, token, member: kernel }));
                }
            }
        }
    }

    fn take(&mut self, out: &mut Vec<End>) {
        let Some(Reverse(End { at: now, .. })) = self.told.peek().copied() else { return };
        while let Some(Reverse(end)) = self.told.peek()
            && end.at == now
        {
            out.push(*end);
            self.told.pop();
            self.members -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use sim_collectives::{Machine, Software};
    use sim_core::ids::LinkId;
    use sim_core::net::NetPlan;
    use sim_core::net::spec::{ClassSpec, FlowControlSpec, FlowSpec, Marking, NetSpec, PortSpec};
    use sim_core::network::{Forwarding, Network};
    use sim_core::rate_control::RateSpec;
    use sim_core::units::Bytes;
    use sim_topology::{Catalogue, DeviceKind, Fabric, FabricSpec};

    use super::super::islands::{Reuse, reuse};
    use super::super::plan::Call;
    use super::*;
    use crate::messages::Operation;
    use crate::parallel::Group;

    /// The links between NICs and switches as ports with unlimited buffers.
    fn packets(fabric: &Fabric, network: &Network) -> NetPlan {
        let links: Vec<LinkId> =
            (0..fabric.links().len()).map(LinkId::new).filter(|link| fabric.link(*link).class.is_network()).collect();
        let ends: Vec<_> = links.iter().map(|link| (fabric.link(*link).from, fabric.link(*link).to)).collect();
        let mut devices: Vec<_> = ends.iter().map(|(from, _)| *from).collect();
        devices.sort_unstable();
        devices.dedup();
        let place = |device| devices.binary_search(&device).unwrap() as u32;
        let twin = |port: usize, from, to| {
            (0..ends.len()).filter(|o| ends[*o] == (to, from)).min_by_key(|o| o.abs_diff(port)).unwrap() as u32
        };
        let ports = ends.iter().enumerate().map(|(port, (from, to))| PortSpec {
            rate: network.link(links[port]).rate,
            latency: network.link(links[port]).latency,
            near: place(*from),
            far: place(*to),
            twin: twin(port, *from, *to),
            forwarding: Forwarding::StoreAndForward,
            lose_every: 0,
            lose_per_2_32: 0,
        });
        let spec = NetSpec {
            seed: 1,
            mtu: fabric.mtu().get() as u32,
            overhead: network.link(links[0]).packet_overhead.get() as u32,
            control_size: 64,
            endpoints: devices.iter().map(|device| fabric.device(*device).kind == DeviceKind::Nic).collect(),
            ports: ports.collect(),
            classes: vec![ClassSpec { priority: 0, weight: 1, lossless: true, marking: Marking::Off }],
            flow_control: FlowControlSpec::Unlimited,
            ..NetSpec::default()
        };
        let flow = FlowSpec { ack_every: 4, ..FlowSpec::default() };
        NetPlan { spec, links, flow, rate: RateSpec::None, others: Vec::new(), fetch: NetPlan::FETCH, drain: None }
    }

    const fn start(communicator: u32, call: u32, token: u32) -> Start {
        Start { communicator, call, token }
    }

    /// Two sends of 8 MiB that share a NIC, and a gather of 4 MiB beside them, begun at once, or of so many times that.
    fn begun(fabric: &Fabric, network: Network, limits: Limits, times: u64) -> Whole<'_> {
        let make = |ranks: &[u32]| {
            Machine::new(fabric, Catalogue::builtin(), &Software::default(), ranks).map_err(|e| e.to_string())
        };
        let call = |operation, bytes, group| Call::new("message", operation, Bytes::mib(bytes * times), group);
        let calls = vec![call(Operation::Send, 8, Group::Pipeline), call(Operation::AllGather, 4, Group::Data)];
        let groups = vec![vec![0, 8], vec![0, 16], (0..24).step_by(8).collect()];
        let mut whole = Whole::new(Calls::new(fabric, network, Box::new(make), groups, calls), limits).unwrap();
        whole.start(&[start(0, 0, 0), start(1, 0, 1), start(2, 1, 2)], Time::ZERO).unwrap();
        whole
    }

    /// All ends of these, and of a send later.
    fn ends(fabric: &Fabric, network: Network) -> Vec<End> {
        let mut whole = begun(fabric, network, Limits::default(), 1);
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        let mut later = Some(Time::from_ps(900_000_000_000));
        loop {
            match (whole.next(later.unwrap_or(Time::MAX)).unwrap(), later) {
                (Some(at), _) => {
                    whole.take(&mut ends);
                    assert!(ends.iter().all(|end| end.at == at));
                    all.append(&mut ends);
                }
                (None, Some(at)) => {
                    whole.start(&[start(0, 0, 3)], at).unwrap();
                    later = None;
                }
                (None, None) => break,
            }
        }
        assert_eq!(whole.finish().faults, []);
        all
    }

    #[test]
    fn calls_go_over_packets_too() {
        let node = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
        let fabric = Fabric::build(&FabricSpec::new(node, 3), Catalogue::builtin()).unwrap();
        let network = fabric.network();
        let plan = packets(&fabric, &network);
        assert_eq!(reuse(&network), Reuse::Exact);
        let with_packets = network.clone().with_packets(plan);
        assert!(matches!(reuse(&with_packets), Reuse::Off { .. }));
        let (plain, packets) = (ends(&fabric, network), ends(&fabric, with_packets));
        let token = |ends: &[End], token| ends.iter().filter(|end| end.token == token).count();
        for (of, members) in [(0, 2), (1, 2), (2, 3), (3, 2)] {
            assert_eq!((token(&plain, of), token(&packets, of)), (members, members));
        }
        // A lone send takes about the same.
        let last = |ends: &[End]| ends[ends.len() - 1].at.as_ps() as f64 - 9e11;
        assert!((last(&packets) / last(&plain) - 1.0).abs() < 0.1, "{} {}", last(&packets), last(&plain));
    }

    #[test]
    fn what_was_stopped_is_told_up_to_there() {
        let node = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
        let fabric = Fabric::build(&FabricSpec::new(node, 3), Catalogue::builtin()).unwrap();
        let network = fabric.network();
        let with_packets = network.clone().with_packets(packets(&fabric, &network));
        for network in [network, with_packets] {
            let interrupt = Some(Arc::new(AtomicBool::new(true)));
            let mut whole = begun(&fabric, network, Limits { interrupt, ..Limits::default() }, 512);
            let mut ended = Vec::new();
            let stopped = loop {
                match whole.next(Time::MAX) {
                    Ok(Some(_)) => whole.take(&mut ended),
                    Ok(None) => panic!("it ended before"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(stopped, CarryError::Stopped { reason: StopReason::Interrupted, .. }), "{stopped}");
            let outcome = whole.finish();
            assert_eq!((outcome.reason, outcome.faults), (StopReason::Interrupted, Vec::new()));
        }
    }
}
