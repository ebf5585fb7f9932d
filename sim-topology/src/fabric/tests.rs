mod broken;
mod kinds;
mod min_hop;
mod properties;
mod published;

use super::*;
use crate::testing::{build, cluster, node, system};
use crate::{Catalogue, DeviceKind, RouteRequest};

fn refused(spec: &FabricSpec) -> BuildError {
    match Fabric::build(spec, Catalogue::builtin()) {
        Err(error) => error,
        Ok(_) => panic!("built"),
    }
}

#[test]
fn every_system_builds_and_routes_between_all_its_gpus() {
    for system in Catalogue::builtin().systems() {
        for nodes in [1, 2, 3] {
            if nodes > 1 && system.node.nics == 0 {
                continue;
            }
            let mut spec = FabricSpec::new(system.node.clone(), nodes);
            spec.transport = system.transport.unwrap_or_default();
            let fabric = build(&spec);
            for &a in fabric.gpus() {
                for &b in fabric.gpus().iter().filter(|&&b| b != a) {
                    let route = fabric.route(&RouteRequest::auto(a, b));
                    assert!(route.is_ok_and(|r| !r.links.is_empty()), "{} x {nodes}", system.name);
                }
            }
        }
    }
}

/// Leaves, spines and uplinks of a leaf.
fn size(fabric: &Fabric) -> (u32, u32, u32) {
    (fabric.plan().leaves, fabric.plan().spines, fabric.plan().uplinks)
}

#[test]
fn published_sizes_of_rail_optimized_pods() {
    // 64 ports: 8 leaves and 4 spines for 32 nodes of 8 NICs, 32 and 16 for 128, 64 and 32 for 256.
    assert_eq!(size(&cluster("hgx-h100", 32)), (8, 4, 32));
    assert_eq!(size(&cluster("hgx-h100", 128)), (32, 16, 32));
    assert_eq!(size(&cluster("hgx-h100", 256)), (64, 32, 32));
    assert_eq!(size(&cluster("hgx-h100", 4)), (8, 1, 4));
}

#[test]
fn a_thousand_gpus() {
    let fabric = cluster("hgx-h100", 128);
    assert_eq!(fabric.gpus().len(), 1024);
    let count = |kind| fabric.devices().iter().filter(|d| d.kind == kind).count();
    assert_eq!((count(DeviceKind::Nic), count(DeviceKind::Leaf), count(DeviceKind::Spine)), (1024, 32, 16));
    // Every leaf is full: 32 NICs and 32 uplinks; every spine too.
    assert!(fabric.devices().iter().filter(|d| d.kind.is_network_switch()).all(|d| d.ports_used == 64));
    assert_eq!(fabric.find("node127.gpu7").unwrap(), fabric.gpus()[1023]);
    assert_eq!(fabric.rank_of(fabric.gpus()[777]), Some(777));
}

#[test]
fn leaf_spine_holds_all_nics_of_a_node_on_one_leaf() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 16);
    spec.fabric = FabricKind::LeafSpine;
    let fabric = build(&spec);
    assert_eq!(size(&fabric), (4, 2, 32));
    for node in fabric.nodes() {
        let leaf = fabric.leaf_of(node.nics[0]);
        assert!(leaf.is_some() && node.nics.iter().all(|&nic| fabric.leaf_of(nic) == leaf));
    }
    spec.oversubscription = Some(2.0);
    assert_eq!(size(&build(&spec)), (4, 1, 16), "4 leaves of 4 nodes still");
    spec.nodes = 4;
    assert_eq!(size(&build(&spec)), (1, 0, 0), "one leaf needs no spine");
}

#[test]
fn rails_go_to_their_leaves() {
    let fabric = cluster("hgx-h100", 64);
    for (n, node) in fabric.nodes().iter().enumerate() {
        for (rail, &nic) in node.nics.iter().enumerate() {
            let leaf = fabric.device(fabric.leaf_of(nic).unwrap()).index;
            assert_eq!(leaf as usize, rail * 2 + n / 32);
        }
    }
    assert_eq!(fabric.leaf_rails(), (0..16).map(|leaf| Some(leaf / 2)).collect::<Vec<_>>());
    let mut spec = FabricSpec::new(system("hgx-h100"), 4);
    spec.leaves = Some(4);
    let fabric = build(&spec);
    let nics = &fabric.nodes()[0].nics;
    assert_eq!(fabric.leaf_of(nics[0]), fabric.leaf_of(nics[1]), "two rails share a leaf");
    assert_eq!(fabric.leaf_rails(), [None; 4]);
    assert_ne!(fabric.leaf_of(nics[1]), fabric.leaf_of(nics[2]));
}

#[test]
fn too_few_spines_state_the_inequality() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 64);
    spec.spines = Some(3);
    let error = refused(&spec);
    assert_eq!(error.to_string(), "16 leaves x 32 uplinks = 512 ports, but 3 spines x 64 = 192");
    let hint = "8 spines carry it; 3 spines give 2.67:1: set oversubscription = 2.67 if that is meant";
    assert_eq!(error.hint().unwrap(), hint);
    spec.oversubscription = Some(2.67);
    let fabric = build(&spec);
    assert_eq!(size(&fabric), (16, 3, 12));
    assert!((fabric.plan().oversubscription - 32.0 / 12.0).abs() < 1e-12);
    spec.spines = Some(32);
    spec.oversubscription = None;
    assert_eq!(size(&build(&spec)), (16, 32, 32), "more spines than needed are fine");
    spec.spines = Some(33);
    assert_eq!(refused(&spec).to_string(), "33 spines, but a leaf has 32 uplinks: some leaves would share no spine");
}

#[test]
fn other_impossible_fabrics() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 64);
    let message = |spec: &FabricSpec| refused(spec).to_string();
    spec.fabric = FabricKind::SingleSwitch;
    assert_eq!(message(&spec), "the one switch: 64 nodes x 8 NICs = 512 ports, but qm9700 has 64 at 50 GB/s");
    spec.fabric = FabricKind::RailOptimized;
    (spec.nodes, spec.tiers) = (300, Some(2));
    assert!(message(&spec).starts_with("80 leaves, but a spine of 64 ports reaches 64 at most: 2400 NICs"));
    (spec.nodes, spec.tiers) = (0, None);
    assert_eq!(message(&spec), "nodes is 0; from 1 to 131072");
    spec.nodes = 64;
    spec.leaves = Some(12);
    assert_eq!(message(&spec), "12 leaves for 8 rails: one must be a multiple of the other");
    spec.leaves = Some(8);
    assert_eq!(
        message(&spec),
        "a leaf: 64 nodes x 1 NICs + 64 uplinks at 1:1 = 128 ports, but qm9700 has 64 at 50 GB/s"
    );
    spec.leaves = None;
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        spec.oversubscription = Some(bad);
        assert!(message(&spec).starts_with("oversubscription is "), "{bad}");
    }
    spec.oversubscription = None;
    spec.switch = Some("qm97000".into());
    assert!(message(&spec).contains("did you mean `qm9700`"));
    spec.switch = None;
    spec.nic_cable_m = f64::NAN;
    assert!(message(&spec).starts_with("nic_cable_m"));
    spec.nic_cable_m = 3.0;
    spec.gpus_per_node = Some(9);
    assert_eq!(message(&spec), "gpus_per_node is 9; the node has 8 GPUs");
    spec.gpus_per_node = None;
    spec.nodes_per_domain = Some(2);
    assert_eq!(message(&spec), "nodes_per_domain is 2; an NVLink domain of these nodes spans 1 to 1");
    let spec = FabricSpec::new(system("pcie-4090-8"), 2);
    assert!(message(&spec).contains("a node has no NIC"));
}

#[test]
fn domains_are_as_large_as_asked() {
    let mut spec = FabricSpec::new(system("nvl72-gb200"), 36);
    let domains = |spec: &FabricSpec| build(spec).nodes().last().unwrap().domain + 1;
    assert_eq!(domains(&spec), 2);
    spec.nodes_per_domain = Some(9);
    assert_eq!(domains(&spec), 4);
    spec.nodes_per_domain = Some(1);
    assert_eq!(domains(&spec), 36);
    spec.nodes_per_domain = Some(8);
    assert_eq!(refused(&spec).to_string(), "36 nodes do not divide into NVLink domains of 8");
    spec.nodes_per_domain = Some(19);
    assert!(refused(&spec).to_string().contains("spans 1 to 18"));
}

#[test]
fn one_node_has_no_network() {
    let fabric = cluster("hgx-h100", 1);
    assert!(fabric.devices().iter().all(|d| !d.kind.is_network_switch()));
    assert_eq!(fabric.plan().leaves, 0);
}

#[test]
fn headers_of_the_transports() {
    let mut spec = FabricSpec::new(node(2), 2);
    for (transport, goodput) in
        [(TransportKind::Infiniband, 49.68), (TransportKind::Roce, 49.02), (TransportKind::Efa, 48.45)]
    {
        spec.transport = transport;
        let fabric = build(&spec);
        let link = fabric.links().iter().find(|l| l.class.is_network()).unwrap();
        assert!((link.goodput(fabric.mtu()).as_gbyte() - goodput).abs() < 0.01, "{transport}");
    }
}

#[test]
fn a_specification_survives_its_text_form() {
    let mut spec = FabricSpec::new(system("hgx-h100"), 8);
    spec.nics = Some("16x200Gb/s".parse().unwrap());
    spec.oversubscription = Some(1.5);
    let text = toml::to_string(&spec).unwrap();
    assert_eq!(toml::from_str::<FabricSpec>(&text).unwrap(), spec);
    assert_eq!("IB".parse::<TransportKind>().unwrap(), TransportKind::Infiniband);
    assert_eq!("rail_optimized".parse::<FabricKind>().unwrap(), FabricKind::RailOptimized);
    let error = "rail-optimised".parse::<FabricKind>().unwrap_err();
    assert_eq!(error.suggestion.as_deref(), Some("rail-optimized"));
}
