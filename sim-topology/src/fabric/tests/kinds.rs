//! Each kind of fabric by itself.

use super::*;
use crate::{PairKind, Via};

#[test]
fn a_fat_tree_is_its_k() {
    let mut spec = FabricSpec::new(node(1), 16);
    spec.fabric = FabricKind::FatTree;
    let fabric = build(&spec);
    // k = 4 holds 16: 8 leaves, 8 spines, 4 cores.
    assert_eq!((fabric.plan().leaves, fabric.plan().spines, fabric.plan().cores), (8, 8, 4));
    assert_eq!(fabric.plan().cables.leaf_spine + fabric.plan().cables.spine_core, 32);
    let paths = |a: usize, b: usize| {
        let route = fabric.route(&RouteRequest::auto(fabric.gpus()[a], fabric.gpus()[b])).unwrap();
        (route.links.iter().filter(|&&l| fabric.link(l).class == crate::LinkClass::Uplink).count(), route.equal_paths)
    };
    assert_eq!([paths(0, 1), paths(0, 2), paths(0, 15)], [(0, 1), (2, 2), (4, 4)]);
    spec.k = Some(5);
    assert!(refused(&spec).to_string().starts_with("k is 5; even"));
    spec.k = Some(2);
    assert_eq!(refused(&spec).to_string(), "a fat tree of k = 2 holds k^3/4 = 2 NIC ports, but there are 16");
    spec.k = Some(66);
    assert_eq!(refused(&spec).to_string(), "k = 66, but qm9700 has 64 ports");
}

#[test]
fn rails_without_spines_need_a_relay() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 16);
    spec.fabric = FabricKind::RailOnly;
    let fabric = build(&spec);
    assert_eq!((fabric.plan().leaves, fabric.plan().spines), (8, 0));
    let (a, b) = (fabric.find("node0.gpu1").unwrap(), fabric.find("node9.gpu6").unwrap());
    let error = fabric.route(&RouteRequest::auto(a, b)).unwrap_err().to_string();
    assert!(error.starts_with("no path from node0.gpu1 to node9.gpu6"), "{error}");
    let relay = fabric.pxn_relay(a, b).unwrap();
    assert_eq!(fabric.route(&RouteRequest::auto(a, b).via(relay.via())).unwrap().kind, PairKind::Pxn);
    // A rail that one switch doesn't hold is a leaf-spine network of its own.
    spec.nodes = 128;
    let fabric = build(&spec);
    assert_eq!((fabric.plan().leaves, fabric.plan().spines), (32, 16));
    let (a, b) = (fabric.find("node0.gpu1").unwrap(), fabric.find("node127.gpu1").unwrap());
    assert_eq!(fabric.route(&RouteRequest::auto(a, b)).unwrap().links.len(), 8);
}

#[test]
fn planes_meet_in_the_nics_only() {
    let mut spec = FabricSpec::new(system("hgx-b300"), 128);
    spec.fabric = FabricKind::MultiPlane;
    spec.transport = TransportKind::Roce;
    let fabric = build(&spec);
    assert_eq!(fabric.ports_per_nic(), 2);
    let (a, b) = (fabric.find("node0.gpu0").unwrap(), fabric.find("node127.gpu5").unwrap());
    let mut seen = [false; 2];
    for entropy in 0..64 {
        let route = fabric.route(&RouteRequest::auto(a, b).entropy(entropy)).unwrap();
        let planes: Vec<u32> = route
            .links
            .iter()
            .filter_map(|&l| fabric.switch_place(fabric.link(l).to))
            .map(|place| place.plane)
            .collect();
        assert!(planes.iter().all(|&p| p == planes[0]), "{planes:?}");
        assert_eq!(planes[0], entropy as u32 % 2);
        seen[planes[0] as usize] = true;
    }
    assert_eq!(seen, [true; 2]);
    // A card has the ports of its row; NICs that are stated by their rate have lanes of 100 Gb/s.
    spec.planes = Some(4);
    let error = refused(&spec);
    assert_eq!(error.to_string(), "4 planes, but ConnectX-8 SuperNIC splits into 2 ports at most");
    assert!(error.hint().unwrap().contains("[catalogue.nic.connectx-8] max_ports = 4"));
    spec.nics = Some("8x800Gb/s".parse().unwrap());
    assert_eq!(build(&spec).ports_per_nic(), 4);
    spec.planes = Some(9);
    assert_eq!(refused(&spec).to_string(), "9 planes, but a NIC of 100 GB/s splits into 8 ports at most");
}

#[test]
fn a_pair_of_leaves_under_one_set_of_spines() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 64);
    (spec.fabric, spec.planes) = (FabricKind::DualTor, Some(1));
    let fabric = build(&spec);
    assert_eq!((fabric.plan().planes, fabric.plan().ports), (1, 2));
    let nic = fabric.find("node3.nic2").unwrap();
    let leaves: Vec<_> = fabric.leaves_of(nic).collect();
    assert_eq!(leaves.len(), 2);
    assert_ne!(leaves[0], leaves[1]);
}

#[test]
fn a_dragonfly_goes_local_global_local() {
    let mut spec = FabricSpec::new(node(1), 72);
    spec.fabric = FabricKind::Dragonfly;
    let fabric = build(&spec);
    // p = 2, a = 4, h = 2: nine groups of four routers hold 72.
    assert_eq!((fabric.plan().leaves, fabric.plan().pods), (36, 9));
    assert_eq!(fabric.plan().cables.global, 36);
    assert_eq!(fabric.plan().cables.local, 9 * 6);
    let mut longest = 0;
    for &a in fabric.gpus() {
        for &b in fabric.gpus().iter().filter(|&&b| b != a) {
            let route = fabric.route(&RouteRequest::auto(a, b)).unwrap();
            let places: Vec<_> =
                route.links.iter().filter_map(|&l| fabric.switch_place(fabric.link(l).to)).map(|p| p.pod).collect();
            let turns = places.windows(2).filter(|w| w[0] != w[1]).count();
            assert!(turns <= 1, "{places:?}");
            longest = longest.max(places.len());
        }
    }
    assert_eq!(longest, 4, "three links between four routers");
    spec.dragonfly = Some(DragonflySpec { p: 2, a: 4, h: 2, groups: Some(10) });
    let text = "10 groups, but a x h + 1 = 4 x 2 + 1 = 9 is the most that see each other";
    assert_eq!(refused(&spec).to_string(), text);
    spec.dragonfly = Some(DragonflySpec { p: 2, a: 4, h: 2, groups: Some(3) });
    assert_eq!(refused(&spec).to_string(), "3 groups x 4 routers x 2 = 24 NIC ports, but there are 72");
    spec.dragonfly = Some(DragonflySpec { p: 40, a: 20, h: 20, groups: None });
    assert!(
        refused(&spec).to_string().starts_with("a router: p + a - 1 + h = 40 + 20 - 1 + 20 = 79 ports, but qm9700")
    );
}

#[test]
fn what_three_tiers_cannot_do() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 8192);
    assert_eq!(build(&spec).plan().leaves, 2048, "64^3/4 NICs are the most");
    spec.nodes = 8193;
    let error = refused(&spec);
    assert!(error.to_string().starts_with("65 pods, but a core of 64 ports reaches 64 at most"), "{error}");
    assert!(error.hint().is_some());
    spec.nodes = 512;
    spec.pods = Some(2);
    let error = refused(&spec);
    assert!(error.to_string().starts_with("a pod of 64 leaves, but a spine of 64 ports (qm9700) has 32"), "{error}");
    assert_eq!(error.hint().unwrap(), "pods of at most 128 nodes fit; or use a spine of more ports, or a higher ratio");
    spec.pods = Some(5);
    assert_eq!(build(&spec).plan().pods, 5);
    spec.pods = None;
    spec.cores = Some(63);
    assert_eq!(refused(&spec).to_string(), "4096 uplinks of all spines, but 63 cores x 64 = 4032");
    spec.cores = Some(2048);
    assert!(refused(&spec).to_string().starts_with("2048 cores, but the spines of a pod have 1024 uplinks"));
    spec.cores = None;
    spec.spines = Some(129);
    assert!(refused(&spec).to_string().starts_with("spines is 129; a multiple of 4"));
}

#[test]
fn a_shift_across_pods_does_not_collide() {
    // Four pods of 128 nodes: pod p sends to pod p + 1, rails shifted by one; d-mod-k gives each flow links of its own.
    let fabric = cluster("hgx-h100", 512);
    let mut load = vec![0u32; fabric.links().len()];
    for node in 0..512 {
        for gpu in 0..8 {
            let from = fabric.nodes()[node].gpus[gpu];
            let to = fabric.nodes()[(node + 128) % 512].gpus[(gpu + 1) % 8];
            let (src, dst) = (fabric.nics_of(from)[0], fabric.nics_of(to)[0]);
            for link in fabric.route(&RouteRequest::auto(from, to).via(Via::Nics { src, dst })).unwrap().links {
                load[link.index()] += 1;
            }
        }
    }
    assert_eq!(load.iter().max(), Some(&1), "no link carries two flows");
}

#[test]
fn dead_switches_are_passed_over() {
    let mut fabric = cluster("hgx-h100", 64);
    let (a, b) = (fabric.find("node0.gpu0").unwrap(), fabric.find("node40.gpu3").unwrap());
    let request = RouteRequest::auto(a, b);
    let before = fabric.route(&request).unwrap();
    assert_eq!(before.equal_paths, 32 * 4, "32 uplinks, 4 downlinks each");
    let dead = fabric.find("spine0").unwrap();
    let (devices, links) = fabric.parts_mut();
    devices[dead.index()].alive = false;
    for link in links.iter_mut().filter(|l| l.from == dead || l.to == dead) {
        link.alive = false;
    }
    let all = fabric.equal_routes(&request).unwrap();
    assert_eq!(all.len(), 28 * 4);
    for route in all {
        assert!(route.links.iter().all(|&l| fabric.link(l).alive));
    }
    let (_, links) = fabric.parts_mut();
    let up = links.iter_mut().filter(|l| l.class == crate::LinkClass::Uplink);
    up.for_each(|l| l.alive = false);
    assert!(fabric.route(&request).unwrap_err().to_string().starts_with("no path"));
}

#[test]
fn hops_are_counted_right_beside_dead_parts() {
    let mut spec = FabricSpec::new(node(2), 24);
    (spec.pod_nodes, spec.spines) = (Some(12), Some(4));
    let mut fabric = build(&spec);
    let dead = ["leaf1", "spine2"].map(|name| fabric.find(name).unwrap());
    let nic = fabric.find("node5.nic1").unwrap();
    let (devices, links) = fabric.parts_mut();
    for device in dead {
        devices[device.index()].alive = false;
    }
    for link in links.iter_mut() {
        link.alive = ![link.from, link.to].iter().any(|end| dead.contains(end) || *end == nic);
    }
    let mut hops = std::collections::BTreeMap::new();
    for &a in fabric.gpus() {
        for &b in fabric.gpus().iter().filter(|&&b| b != a) {
            if let Ok(route) = fabric.route(&RouteRequest::auto(a, b)) {
                *hops.entry(route.links.len() as u32).or_insert(0u64) += 1;
            }
        }
    }
    assert_eq!(crate::topo::hop_histogram(&fabric), hops);
}
