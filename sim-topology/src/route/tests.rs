use proptest::prelude::*;

use super::*;
use crate::testing::{build, cluster, node, system};
use crate::{FabricKind, FabricSpec, LinkClass, TransportKind};

fn alpha_us(fabric: &Fabric, from: &str, to: &str, via: Via) -> f64 {
    let request = RouteRequest::auto(fabric.find(from).unwrap(), fabric.find(to).unwrap()).via(via);
    let route = fabric.route(&request).unwrap();
    route.links.iter().map(|&l| fabric.link(l).latency.as_us()).sum()
}

fn assert_near(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() < 0.006, "{what}: {got} us, not {want}");
}

#[test]
fn hop_latencies_inside_a_node() {
    let hgx = cluster("hgx-h100", 1);
    assert_near(alpha_us(&hgx, "node0.gpu0", "node0.gpu7", Via::Auto), 0.6, "NVLink through one NVSwitch");
    assert_near(alpha_us(&hgx, "node0.gpu0", "node0.gpu1", Via::NoNvlink), 1.07, "two switches, one socket");
    assert_near(alpha_us(&hgx, "node0.gpu0", "node0.gpu4", Via::NoNvlink), 1.15, "across sockets");
    let shared = cluster("hgx-h100-4sw", 1);
    assert_near(alpha_us(&shared, "node0.gpu0", "node0.gpu1", Via::NoNvlink), 0.68, "one switch");
    let direct = cluster("pcie-rtxpro6000-8", 1);
    assert_near(alpha_us(&direct, "node0.gpu0", "node0.gpu1", Via::Auto), 0.8, "root ports of one socket");
    let mesh = cluster("dgx-1v", 1);
    assert_near(alpha_us(&mesh, "node0.gpu0", "node0.gpu1", Via::Auto), 0.5, "direct NVLink");
}

#[test]
fn hop_latencies_between_nodes() {
    let ib = cluster("hgx-h100", 4);
    assert_near(alpha_us(&ib, "node0.gpu3", "node2.gpu3", Via::Auto), 2.06, "NDR, one switch");
    assert_near(alpha_us(&ib, "node0.gpu3", "node2.gpu4", Via::Auto), 2.85, "NDR, three switches");
    let mut spec = FabricSpec::new(system("hgx-h100"), 4);
    spec.transport = TransportKind::Roce;
    let roce = build(&spec);
    assert_near(alpha_us(&roce, "node0.gpu3", "node2.gpu3", Via::Auto), 2.33, "RoCE, one switch");
    assert_near(alpha_us(&roce, "node0.gpu3", "node2.gpu4", Via::Auto), 3.66, "RoCE, three switches");
    spec.transport = TransportKind::Tcp;
    assert_near(alpha_us(&build(&spec), "node0.gpu0", "node1.gpu0", Via::Auto), 20.13, "half a TCP round trip");
}

#[test]
fn pxn_takes_nvlink_and_then_the_receivers_rail() {
    let fabric = cluster("hgx-h100", 4);
    let (from, to) = (fabric.find("node0.gpu1").unwrap(), fabric.find("node3.gpu6").unwrap());
    let relay = fabric.pxn_relay(from, to).unwrap();
    assert_eq!(fabric.device(relay.relay).name, "node0.gpu6");
    let route = fabric.route(&RouteRequest::auto(from, to).via(relay.via())).unwrap();
    assert_eq!(route.kind, PairKind::Pxn);
    let classes: Vec<_> = route.links.iter().map(|&l| fabric.link(l).class).collect();
    use LinkClass::{Network, NvLink, Pcie};
    assert_eq!(classes, [NvLink, NvLink, Pcie, Pcie, Network, Network, Pcie, Pcie]);
    assert_eq!(fabric.route(&RouteRequest::auto(from, to)).unwrap().kind, PairKind::CrossRail);
    assert_eq!(fabric.pxn_relay(from, fabric.find("node3.gpu1").unwrap()), None, "already on the rail");
}

#[test]
fn an_nvl72_is_one_domain() {
    let fabric = cluster("nvl72-gb200", 36);
    let (a, b) = (fabric.find("node0.gpu0").unwrap(), fabric.find("node17.gpu3").unwrap());
    let route = fabric.route(&RouteRequest::auto(a, b)).unwrap();
    assert_eq!(route.kind, PairKind::NvLink);
    assert_eq!(fabric.link_name(route.links[0]), "node0.gpu0->domain0.nvswitch");
    let c = fabric.find("node18.gpu0").unwrap();
    assert!(!fabric.same_domain(a, c));
    let route = fabric.route(&RouteRequest::auto(a, c)).unwrap();
    assert_eq!(route.kind, PairKind::SameRail);
    assert_eq!(fabric.link(route.links[0]).class, LinkClass::C2c, "NICs hang on Grace");
}

#[test]
fn host_memory_and_nics_are_ends_too() {
    let fabric = cluster("hgx-h100", 2);
    let find = |name: &str| fabric.find(name).unwrap();
    let names = |from, to| -> Vec<String> {
        let route = fabric.route(&RouteRequest::auto(find(from), find(to))).unwrap();
        route.links.iter().map(|&l| fabric.link_name(l)).collect()
    };
    assert_eq!(
        names("node0.gpu0", "node0.memory0"),
        [
            "node0.gpu0->node0.pcie0",
            "node0.pcie0->node0.socket0",
            "node0.socket0 (memory)",
            "node0.socket0->node0.memory0"
        ]
    );
    assert_eq!(names("node0.nic2", "node1.nic2"), ["node0.nic2->leaf2", "leaf2->node1.nic2"]);
    assert_eq!(names("node0.memory1", "node1.memory1").len(), 10);
    assert_eq!(names("node0.gpu0", "node0.nvswitch"), ["node0.gpu0->node0.nvswitch"]);
}

#[test]
fn what_cannot_be_routed_says_why() {
    let fabric = cluster("hgx-h100", 2);
    let find = |name: &str| fabric.find(name).unwrap();
    let error = |from, to, via| fabric.route(&RouteRequest::auto(from, to).via(via)).unwrap_err().to_string();
    let (a, b) = (find("node0.gpu0"), find("node1.gpu0"));
    assert_eq!(error(a, a, Via::Auto), "node0.gpu0 to itself: nothing crosses a link");
    assert_eq!(error(a, DeviceId(u32::MAX), Via::Auto), "there is no device number 4294967295");
    let nics = |src, dst| Via::Nics { src: find(src), dst: find(dst) };
    assert_eq!(error(a, b, nics("node1.nic0", "node1.nic0")), "node1.nic0 is not on the node of node0.gpu0");
    assert_eq!(error(a, b, nics("node0.gpu1", "node1.nic0")), "node0.gpu1 is no nic");
    let relay = Via::Pxn { relay: b, src: find("node1.nic0"), dst: find("node1.nic0") };
    assert_eq!(error(a, b, relay), "no NVLink from node0.gpu0 to the relay node1.gpu0");
    assert_eq!(error(a, find("leaf0"), Via::Auto), "no path from node0.gpu0 to leaf0");
    let suggestion = fabric.find("node0.gpu").unwrap_err().suggestion.unwrap();
    assert!(suggestion.starts_with("node0.gpu"), "{suggestion}");
    assert!(fabric.find("node99.gpu0").is_err());
}

#[test]
fn static_routing_spreads_a_permutation_without_collision() {
    // 64 nodes: two leaves a rail; every node of the first half sends across to the second half, rails shifted by one.
    let fabric = cluster("hgx-h100", 64);
    assert_eq!((fabric.plan().leaves, fabric.plan().spines), (16, 8));
    let mut load = vec![0u32; fabric.links().len()];
    for node in 0..64 {
        for gpu in 0..8 {
            let from = fabric.nodes()[node].gpus[gpu];
            let to = fabric.nodes()[(node + 32) % 64].gpus[(gpu + 1) % 8];
            for link in fabric.route(&RouteRequest::auto(from, to)).unwrap().links {
                load[link.index()] += 1;
            }
        }
    }
    assert_eq!(load.iter().max(), Some(&1), "no link carries two flows");
}

#[test]
fn hashed_paths_use_all_and_collide_sometimes() {
    let mut spec = FabricSpec::new(node(8), 64);
    spec.transport = TransportKind::Roce;
    let fabric = build(&spec);
    let (a, b) = (fabric.gpus()[0], fabric.gpus()[8 * 63 + 3]);
    let all = fabric.equal_routes(&RouteRequest::auto(a, b)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for entropy in 0..20_000 {
        let route = fabric.route(&RouteRequest::auto(a, b).entropy(entropy)).unwrap();
        seen.insert(route.links);
    }
    assert_eq!(seen.len(), all.len());
    assert_eq!(all.len() as u32, all[0].equal_paths);
}

/// Equal flows from one leaf to another, hashed on their uplinks: balls in boxes (exact multinomial). Per row: flows, uplinks,
/// probability of no collision, mean of the fullest uplink, mean share of uplinks in use, probability of at most two on one.
#[test]
fn hashed_flows_fall_like_balls_in_boxes() {
    let rows = [
        (2, 2, 0.500, 1.500, 0.750, 1.000),
        (4, 4, 0.0938, 2.125, 0.684, 0.797),
        (8, 8, 2.40e-3, 2.597, 0.656, 0.501),
        (16, 16, 1.1e-6, 3.078, 0.644, 0.195),
        (32, 32, 1.8e-13, 3.533, 0.638, 0.029),
        (8, 32, 0.386, 1.665, 0.224, 0.952),
    ];
    for (flows, uplinks, apart, fullest, used, two) in rows {
        let mut spec = FabricSpec::new(node(1), 2 * flows.max(uplinks));
        (spec.fabric, spec.transport) = (FabricKind::LeafSpine, TransportKind::Roce);
        (spec.leaves, spec.spines) = (Some(2), Some(uplinks));
        let fabric = build(&spec);
        let gpus = fabric.gpus();
        let seeds = 10_000;
        let mut sums = [[0.0; 2]; 4];
        for seed in 0..seeds {
            let mut load = std::collections::BTreeMap::new();
            for flow in 0..flows as usize {
                let request =
                    RouteRequest::auto(gpus[flow], gpus[gpus.len() / 2 + flow]).entropy(sim_core::random::mix(seed));
                let links = fabric.route(&request).unwrap().links;
                let up = links.iter().find(|&&link| fabric.link(link).class == LinkClass::Uplink).unwrap();
                *load.entry(*up).or_insert(0u32) += 1;
            }
            let most = *load.values().max().unwrap();
            let share = load.len() as f64 / f64::from(uplinks);
            let seen = [f64::from(u8::from(most == 1)), f64::from(most), share, f64::from(u8::from(most <= 2))];
            for (sum, seen) in sums.iter_mut().zip(seen) {
                sum[0] += seen;
                sum[1] += seen * seen;
            }
        }
        for (sum, (want, last_digit)) in sums.iter().zip([(apart, 5e-4), (fullest, 5e-4), (used, 5e-4), (two, 5e-4)]) {
            let n = seeds as f64;
            let mean = sum[0] / n;
            let deviation = ((sum[1] / n - mean * mean).max(0.0) / n).sqrt();
            // The table is rounded; where nothing was seen at all the bound is that of three events.
            assert!((mean - want).abs() <= 3.0 * deviation + last_digit, "{flows} on {uplinks}: {mean} for {want}");
        }
    }
}

fn fabrics() -> impl Strategy<Value = FabricSpec> {
    let kinds =
        prop_oneof![Just(FabricKind::SingleSwitch), Just(FabricKind::LeafSpine), Just(FabricKind::RailOptimized)];
    let transports = prop_oneof![Just(TransportKind::Infiniband), Just(TransportKind::Roce)];
    let ratios = prop_oneof![Just(1.0), Just(2.0), Just(0.5), 0.3..5.0f64];
    (1u32..7, 1u32..70, kinds, transports, ratios).prop_map(|(gpus, nodes, kind, transport, ratio)| {
        let mut spec = FabricSpec::new(node(gpus), nodes);
        spec.fabric = kind;
        spec.transport = transport;
        spec.oversubscription = Some(ratio);
        spec
    })
}

/// The links of a chain lead from `from` to `to`.
fn is_chain(fabric: &Fabric, links: &[LinkId], from: DeviceId, to: DeviceId) -> bool {
    let end = links.iter().try_fold(from, |at, &link| (fabric.link(link).from == at).then(|| fabric.link(link).to));
    end == Some(to)
}

/// Fewest links between two devices over all links but NVLink, by breadth-first search; only switches forward.
fn fewest(fabric: &Fabric, from: DeviceId, to: DeviceId) -> usize {
    let mut distance = vec![usize::MAX; fabric.devices().len()];
    distance[from.index()] = 0;
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        let kind = fabric.device(at).kind;
        let forwards =
            at == from || matches!(kind, DeviceKind::Nic) || kind.forwards_in_node() || kind.is_network_switch();
        for link in fabric.links().iter().filter(|l| l.from == at && l.class != LinkClass::NvLink && forwards) {
            if distance[link.to.index()] == usize::MAX {
                distance[link.to.index()] = distance[at.index()] + 1;
                queue.push_back(link.to);
            }
        }
    }
    distance[to.index()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn routes_are_minimal_chains(spec in fabrics(), pick in any::<(u64, u64)>(), entropy in any::<u64>()) {
        let Ok(fabric) = Fabric::build(&spec, crate::Catalogue::builtin()) else { return Ok(()) };
        let gpus = fabric.gpus();
        let (a, b) = (gpus[(pick.0 % gpus.len() as u64) as usize], gpus[(pick.1 % gpus.len() as u64) as usize]);
        prop_assume!(a != b);
        let there = RouteRequest::auto(a, b).entropy(entropy);
        let route = fabric.route(&there).unwrap();
        prop_assert!(is_chain(&fabric, &route.links, a, b));
        let back = fabric.route(&RouteRequest::auto(b, a).entropy(entropy)).unwrap();
        // Limits inside sockets are not the same both ways.
        let wires = |links: &[LinkId]| links.iter().map(|&l| fabric.link(l)).filter(|l| l.from != l.to).count();
        prop_assert_eq!(wires(&route.links), wires(&back.links));
        let plain = fabric.route(&there.via(Via::NoNvlink)).unwrap();
        prop_assert!(is_chain(&fabric, &plain.links, a, b));
        if fabric.device(a).node == fabric.device(b).node {
            prop_assert_eq!(wires(&plain.links), fewest(&fabric, a, b));
        } else {
            // Only the network is chosen by length: the NICs are given.
            let (src, dst) = fabric.auto_nics(a, b).unwrap();
            let (network, _) = (fewest(&fabric, src, dst), ());
            let nic_to_nic = plain.links.iter().filter(|&&l| fabric.link(l).class.is_network()).count();
            prop_assert_eq!(nic_to_nic, network);
        }
    }

    #[test]
    fn equal_paths_are_different_equal_and_hold_the_chosen_one(spec in fabrics(), pick in any::<(u64, u64)>(), entropy in any::<u64>()) {
        let Ok(fabric) = Fabric::build(&spec, crate::Catalogue::builtin()) else { return Ok(()) };
        let gpus = fabric.gpus();
        let (a, b) = (gpus[(pick.0 % gpus.len() as u64) as usize], gpus[(pick.1 % gpus.len() as u64) as usize]);
        prop_assume!(a != b);
        let request = RouteRequest::auto(a, b).entropy(entropy);
        let all = fabric.equal_routes(&request).unwrap();
        let chosen = fabric.route(&request).unwrap();
        prop_assert!(all.iter().all(|r| r.links.len() == chosen.links.len() && is_chain(&fabric, &r.links, a, b)));
        let different: std::collections::BTreeSet<_> = all.iter().map(|r| &r.links).collect();
        prop_assert_eq!(different.len(), all.len());
        prop_assert_eq!(all.len() as u32, chosen.equal_paths);
        prop_assert!(different.contains(&chosen.links));
    }

    #[test]
    fn ports_are_within_the_radix(spec in fabrics()) {
        let Ok(fabric) = Fabric::build(&spec, crate::Catalogue::builtin()) else { return Ok(()) };
        for device in fabric.devices().iter().filter(|d| d.kind.is_network_switch()) {
            prop_assert!(device.ports_used <= device.ports, "{}: {} of {}", device.name, device.ports_used, device.ports);
            prop_assert!(device.ports_used > 0, "{} is idle", device.name);
        }
        let links = fabric.network();
        prop_assert_eq!(links.links().len(), fabric.links().len());
    }
}
