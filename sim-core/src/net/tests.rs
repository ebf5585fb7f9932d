//! Networks of packets against closed forms and against figures of public packet-level simulators.

mod coarse;
mod control_laws;
mod credits;
mod dcqcn;
mod deadlock;
mod incasts;
mod inputs;
mod loss;
mod marks;
mod observe;
mod paths;
mod pauses;
mod peers;
mod properties;
mod recovery;
mod units;
mod victims;
mod wire;

use super::spec::*;
use crate::network::Forwarding;
use crate::queue::radix::RadixStore;
use crate::units::{Rate, Span, Time};

pub(super) type Run = super::PacketRun<RadixStore>;

pub(crate) fn red_off(lossless: bool) -> ClassSpec {
    ClassSpec { priority: 0, weight: 1, lossless, marking: Marking::Off }
}

/// Nodes and pairs of links between them, all alike.
pub(crate) struct Fabric {
    pub(crate) endpoints: Vec<bool>,
    pub(crate) ports: Vec<PortSpec>,
    pub(crate) rate: Rate,
    pub(crate) latency: Span,
    pub(crate) forwarding: Forwarding,
}

impl Fabric {
    pub(crate) fn new(endpoints: usize, nodes: usize, gbit: u64, latency: Span) -> Self {
        let endpoints = (0..endpoints + nodes).map(|node| node < endpoints).collect();
        Self { endpoints, ports: Vec::new(), rate: Rate::gbit(gbit), latency, forwarding: Forwarding::StoreAndForward }
    }

    pub(crate) fn join(&mut self, a: usize, b: usize) {
        let first = self.ports.len() as u32;
        for (near, far, twin) in [(a, b, first + 1), (b, a, first)] {
            self.ports.push(PortSpec {
                rate: self.rate,
                latency: self.latency,
                near: near as u32,
                far: far as u32,
                twin,
                forwarding: self.forwarding,
                lose_every: 0,
                lose_per_2_32: 0,
            });
        }
    }

    /// The links along nodes, and back.
    pub(crate) fn path(&self, nodes: &[usize]) -> (Vec<u32>, Vec<u32>) {
        let find = |a: usize, b: usize| {
            let same = |port: &PortSpec| port.near as usize == a && port.far as usize == b;
            self.ports.iter().position(same).unwrap() as u32
        };
        let forth: Vec<u32> = nodes.windows(2).map(|pair| find(pair[0], pair[1])).collect();
        let back = nodes.windows(2).rev().map(|pair| find(pair[1], pair[0])).collect();
        (forth, back)
    }

    pub(crate) fn spec(&self, overhead: u32, flow_control: FlowControlSpec) -> NetSpec {
        NetSpec {
            seed: 1,
            mtu: 4096,
            overhead,
            control_size: 64,
            endpoints: self.endpoints.clone(),
            ports: self.ports.clone(),
            classes: vec![red_off(true)],
            flow_control,
            ..NetSpec::default()
        }
    }
}

/// `hosts` endpoints at one node.
pub(crate) fn star(hosts: usize, gbit: u64) -> Fabric {
    let mut fabric = Fabric::new(hosts, 1, gbit, Span::from_us(1));
    (0..hosts).for_each(|host| fabric.join(host, hosts));
    fabric
}

/// 64 endpoints at 8 leaves under 8 spines.
pub(crate) fn leaf_spine(gbit: u64) -> Fabric {
    let mut fabric = Fabric::new(64, 16, gbit, Span::from_us(1));
    (0..64).for_each(|host| fabric.join(host, 64 + host / 8));
    for leaf in 64..72 {
        (72..80).for_each(|spine| fabric.join(leaf, spine));
    }
    fabric
}

/// Completion times at the senders in microseconds, sorted.
pub(super) fn acked_us(flows: &[super::FlowOutcome]) -> Vec<f64> {
    let mut times: Vec<Time> = flows.iter().map(|flow| flow.acked_at).collect();
    times.sort();
    times.iter().map(|at| at.as_us()).collect()
}

#[track_caller]
pub(super) fn near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= want.abs() * share, "{got} for {want}");
}

impl Fabric {
    /// Runs queue pairs along `paths` with endless messages; their shares of the line between two instants.
    pub(super) fn shares(&self, spec: NetSpec, paths: &[(&[usize], u8)], from: Time, to: Time) -> Vec<f64> {
        let full = f64::from(spec.mtu + spec.overhead);
        let mut run = Run::new(spec).unwrap();
        for (nodes, class) in paths {
            let (forth, back) = self.path(nodes);
            let how = FlowSpec { class: *class, ack_every: 1 << 20, ..FlowSpec::default() };
            let flow = run.open(&forth, &back, how, crate::rate_control::AnyRateControl::default()).unwrap();
            run.post(flow, 1 << 40);
        }
        assert!(run.run(from));
        let before = run.outcome().flows;
        assert!(run.run(to));
        let outcome = run.outcome();
        assert_eq!(outcome.totals.drops, 0);
        let line = to.since(from).as_ps() as f64 * self.rate.get() as f64 / 1e12;
        let packets = outcome.flows.iter().zip(before).map(|(after, before)| after.arrived - before.arrived);
        packets.map(|packets| packets as f64 * full / line).collect()
    }
}
