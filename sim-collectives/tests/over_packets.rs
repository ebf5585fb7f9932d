//! Collectives whose network carries packets: they end, move the same bytes, and take the time that virtual links take where
//! nothing but the packets differs.

use sim_collectives::bench::time;
use sim_collectives::nccl::{Algorithm, Operation, Protocol};
use sim_collectives::{Machine, Request, Software};
use sim_core::engine::Limits;
use sim_core::ids::LinkId;
use sim_core::net::spec::{
    ClassSpec, CreditSpec, FlowControlSpec, FlowSpec, Freed, Marking, NetSpec, PauseSpec, PortSpec, SharedSpec,
    Threshold,
};
use sim_core::net::{Drain, NetPlan};
use sim_core::network::{Forwarding, Network};
use sim_core::outcome::{Outcome, StopReason};
use sim_core::rate_control::RateSpec;
use sim_core::units::{Bytes, Span};
use sim_topology::{Catalogue, DeviceKind, Fabric, FabricSpec};

fn fabric(nodes: u32) -> Fabric {
    let catalogue = Catalogue::builtin();
    let node = catalogue.system("hgx-h100").unwrap().node.clone();
    Fabric::build(&FabricSpec::new(node, nodes), catalogue).unwrap()
}

/// The links between NICs and switches as ports, under a flow control.
fn plan(fabric: &Fabric, network: &Network, flow_control: FlowControlSpec) -> NetPlan {
    let links: Vec<LinkId> =
        (0..fabric.links().len()).map(LinkId::new).filter(|link| fabric.link(*link).class.is_network()).collect();
    let ends: Vec<_> = links.iter().map(|link| (fabric.link(*link).from, fabric.link(*link).to)).collect();
    let mut devices: Vec<_> = ends.iter().map(|(from, _)| *from).collect();
    devices.sort_unstable();
    devices.dedup();
    let place = |device| devices.binary_search(&device).unwrap() as u32;
    let overhead = network.link(links[0]).packet_overhead.get() as u32;
    let ports = ends.iter().enumerate().map(|(port, (from, to))| PortSpec {
        rate: network.link(links[port]).rate,
        latency: network.link(links[port]).latency,
        near: place(*from),
        far: place(*to),
        // Of several cables between two devices each has its own other direction.
        twin: (0..ends.len()).filter(|other| ends[*other] == (*to, *from)).min_by_key(|o| o.abs_diff(port)).unwrap()
            as u32,
        forwarding: Forwarding::StoreAndForward,
        lose_every: 0,
        lose_per_2_32: 0,
    });
    let spec = NetSpec {
        seed: 1,
        mtu: fabric.mtu().get() as u32,
        overhead,
        control_size: 64,
        endpoints: devices.iter().map(|device| fabric.device(*device).kind == DeviceKind::Nic).collect(),
        ports: ports.collect(),
        classes: vec![ClassSpec { priority: 0, weight: 1, lossless: true, marking: Marking::Off }],
        flow_control,
        ..NetSpec::default()
    };
    let drain = Some(Drain { xoff: Bytes::kib(512), xon: Bytes::kib(256) });
    let flow = FlowSpec { ack_every: 4, ..FlowSpec::default() };
    NetPlan { spec, links, flow, rate: RateSpec::None, others: Vec::new(), fetch: NetPlan::FETCH, drain }
}

fn play(fabric: &Fabric, network: &Network, request: &Request) -> (Span, Outcome) {
    let machine = Machine::new(fabric, Catalogue::builtin(), &Software::default(), &[]).unwrap();
    let timed = time(&machine, network, request, 1, 1, Limits::default()).unwrap();
    assert_eq!(timed.outcome.reason, StopReason::Finished);
    assert_eq!(timed.outcome.faults, []);
    (timed.time, timed.outcome)
}

fn schemes() -> [(&'static str, FlowControlSpec); 3] {
    let pauses = SharedSpec {
        size: 64 << 20,
        ports: None,
        threshold: Threshold::Static { xoff: 256 << 10, xon: 192 << 10 },
        reserve: 0,
        headroom: 256 << 10,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    };
    [
        ("unlimited", FlowControlSpec::Unlimited),
        ("pauses", FlowControlSpec::Shared(pauses)),
        (
            "credits",
            FlowControlSpec::Credits(CreditSpec { buffer: Bytes::kib(128), release: Span::from_ns(300), wire: 8 }),
        ),
    ]
}

#[test]
fn a_ring_over_packets_takes_what_it_takes_over_virtual_links() {
    let fabric = fabric(4);
    let virtual_links = fabric.network();
    let mut request = Request::new(Operation::AllReduce, Bytes::mib(32));
    (request.algorithm, request.protocol) = (Some(Algorithm::Ring.into()), Some(Protocol::Simple));
    let (expected, plain) = play(&fabric, &virtual_links, &request);
    for (name, scheme) in schemes() {
        let network = virtual_links.clone().with_packets(plan(&fabric, &virtual_links, scheme));
        let (got, outcome) = play(&fabric, &network, &request);
        assert!((got.as_us() / expected.as_us() - 1.0).abs() < 0.02, "{name}: {got} for {expected}");
        assert_eq!(outcome.engine.bytes_delivered, plain.engine.bytes_delivered);
        let payload = |o: &Outcome| o.links.iter().map(|l| l.payload).collect::<Vec<_>>();
        assert_eq!(payload(&outcome), payload(&plain), "{name}");
        let net = outcome.net.unwrap();
        assert_eq!((net.totals.drops, net.packets_left), (0, 0), "{name}");
        let again = play(&fabric, &network, &request);
        assert_eq!((again.0, again.1.fingerprint), (got, outcome.fingerprint), "{name}");
    }
}

#[test]
fn an_all_to_all_over_packets_moves_all_bytes_and_no_faster() {
    let fabric = fabric(2);
    let virtual_links = fabric.network();
    let request = Request::new(Operation::AllToAll, Bytes::mib(16));
    let (expected, plain) = play(&fabric, &virtual_links, &request);
    for (name, scheme) in schemes() {
        let network = virtual_links.clone().with_packets(plan(&fabric, &virtual_links, scheme));
        let (got, outcome) = play(&fabric, &network, &request);
        assert_eq!(outcome.engine.bytes_delivered, plain.engine.bytes_delivered, "{name}");
        let ratio = got.as_us() / expected.as_us();
        assert!((0.97..1.5).contains(&ratio), "{name}: {got} for {expected}");
    }
}
