use std::collections::BTreeMap;

use super::*;
use crate::testing::{build, cluster, node, system};
use crate::{FabricKind, FabricSpec, RouteRequest, Via};

#[test]
fn four_nodes_of_eight() {
    let fabric = cluster("hgx-h100", 4);
    let without = Pairs { nvlink: 224, pcie: 0, same_rail: 96, pxn: 0, cross_rail: 672 };
    assert_eq!(pairs(&fabric, false), without);
    assert_eq!(pairs(&fabric, true), Pairs { pxn: 672, cross_rail: 0, ..without });
}

#[test]
fn pair_counts_are_closed_forms() {
    for n in 1..=16u64 {
        for g in 1..=16u64 {
            let fabric = build(&FabricSpec::new(node(g as u32), n as u32));
            let got = pairs(&fabric, false);
            let cross = g * (g - 1) * n * (n - 1);
            let want =
                Pairs { nvlink: n * g * (g - 1), pcie: 0, same_rail: g * n * (n - 1), pxn: 0, cross_rail: cross };
            assert_eq!(got, want, "{n} x {g}");
            assert_eq!(pairs(&fabric, true), Pairs { pxn: cross, cross_rail: 0, ..want }, "{n} x {g}");
            assert_eq!(got.total(), n * g * (n * g - 1));
        }
    }
}

/// By looking at every pair.
fn counted(fabric: &Fabric, pxn: bool) -> (Pairs, BTreeMap<u32, u64>) {
    let mut all = Pairs::default();
    let mut hops = BTreeMap::new();
    for &a in fabric.gpus() {
        for &b in fabric.gpus().iter().filter(|&&b| b != a) {
            match pair_kind(fabric, a, b, pxn) {
                crate::PairKind::NvLink => all.nvlink += 1,
                crate::PairKind::Pcie => all.pcie += 1,
                crate::PairKind::SameRail => all.same_rail += 1,
                crate::PairKind::Pxn => all.pxn += 1,
                crate::PairKind::CrossRail => all.cross_rail += 1,
            }
            let route = fabric.route(&RouteRequest::auto(a, b)).unwrap();
            *hops.entry(route.links.len() as u32).or_insert(0) += 1;
        }
    }
    (all, hops)
}

#[test]
fn representatives_give_what_counting_gives() {
    let mut specs = vec![
        FabricSpec::new(system("hgx-h100"), 5),
        FabricSpec::new(system("aws-p4d"), 3),
        FabricSpec::new(system("dgx-1v"), 2),
        FabricSpec::new(system("pcie-l40s-8"), 3),
        FabricSpec::new(system("nvl72-gb200"), 20),
        FabricSpec::new(system("nvl72-gb300"), 9),
        FabricSpec::new(node(4), 40),
    ];
    let mut tree = FabricSpec::new(node(4), 21);
    tree.fabric = FabricKind::LeafSpine;
    specs.push(tree);
    specs[5].nodes_per_domain = Some(3);
    for spec in specs {
        let fabric = build(&spec);
        for pxn in [false, true] {
            let (all, hops) = counted(&fabric, pxn);
            assert_eq!(pairs(&fabric, pxn), all, "{} x {}", spec.node.gpu, spec.nodes);
            assert_eq!(hop_histogram(&fabric), hops, "{} x {}", spec.node.gpu, spec.nodes);
        }
    }
}

#[test]
fn bisections() {
    let hgx = bisection(&cluster("hgx-h100", 1));
    assert_eq!((hgx.domain_gbyte, hgx.overall_gbyte, hgx.nic_gbyte), (1800.0, 1800.0, None));
    let rack = bisection(&cluster("nvl72-gb200", 18));
    assert!((rack.domain_gbyte - 32_400.0).abs() < 1e-6, "36 x 900 GB/s each way");
    let pod = bisection(&cluster("hgx-h100", 4));
    // Two nodes on each side, joined by the leaves of the eight rails.
    assert_eq!((pod.nic_gbyte, pod.uplink_gbyte, pod.overall_gbyte), (Some(800.0), Some(800.0), 800.0));
    let mut spec = FabricSpec::new(system("hgx-h100"), 64);
    spec.oversubscription = Some(4.0);
    let thin = bisection(&build(&spec));
    // Each half has eight leaves of its own, of 32 NICs and 8 uplinks.
    assert_eq!((thin.nic_gbyte, thin.uplink_gbyte, thin.overall_gbyte), (Some(12_800.0), Some(3200.0), 3200.0));
    let mesh = bisection(&cluster("dgx-1v", 1));
    assert_eq!(mesh.overall_gbyte, 150.0, "six links of 25 GB/s between the two cubes");
    let none = bisection(&build(&FabricSpec::new(node(1), 1)));
    assert_eq!(none.overall_gbyte, 0.0, "one GPU has no halves");
}

#[test]
fn bisection_of_pcie_boxes_is_a_flow() {
    // Four GPUs behind each of two switches: one uplink carries it all.
    let fabric = cluster("pcie-l40s-8", 1);
    let uplink = 31.5077;
    assert!((bisection(&fabric).overall_gbyte - uplink).abs() < 0.01, "{:?}", bisection(&fabric));
}

#[test]
fn network_bisection_is_the_largest_flow() {
    use petgraph::graph::{DiGraph, NodeIndex};
    for (nodes, ratio, kind) in [
        (6, 1.0, FabricKind::RailOptimized),
        (7, 3.0, FabricKind::RailOptimized),
        (40, 2.0, FabricKind::LeafSpine),
        (41, 0.7, FabricKind::RailOptimized),
        (40, 1.5, FabricKind::RailOnly),
        (40, 1.0, FabricKind::FatTree),
        (36, 1.0, FabricKind::Dragonfly),
        // Three tiers, with a last pod that is smaller.
        (41, 2.0, FabricKind::MultiPlane),
        (48, 1.0, FabricKind::LeafSpine),
    ] {
        let mut spec = FabricSpec::new(node(2), nodes);
        (spec.fabric, spec.oversubscription) = (kind, Some(ratio));
        if nodes >= 41 && ratio != 0.7 {
            (spec.pod_nodes, spec.core_oversubscription) = (Some(12), Some(3.0));
        }
        let fabric = build(&spec);
        let mut graph: DiGraph<(), u64> = DiGraph::new();
        let ids: Vec<NodeIndex> = fabric.devices().iter().map(|_| graph.add_node(())).collect();
        for link in fabric.links().iter().filter(|l| l.class.is_network()) {
            graph.add_edge(ids[link.from.index()], ids[link.to.index()], link.rate.get());
        }
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        for (i, node) in fabric.nodes().iter().enumerate() {
            for nic in &node.nics {
                let nic = ids[nic.index()];
                let first = i < fabric.nodes().len() / 2;
                graph.add_edge(if first { source } else { nic }, if first { nic } else { sink }, u64::MAX / 4096);
            }
        }
        let (flow, _) = petgraph::algo::ford_fulkerson(&graph, source, sink);
        let got = bisection(&fabric).overall_gbyte;
        assert!((got - flow as f64 / 1e9).abs() < 1e-6, "{nodes} nodes {kind}: {got}, but a flow of {flow} B/s");
    }
}

#[test]
fn bill_of_a_pod() {
    let fabric = cluster("hgx-h100", 32);
    let bill = bill_of_materials(&fabric, Catalogue::builtin()).unwrap();
    let count = |role: &str| bill.iter().filter(|b| b.role == role).map(|b| b.count).sum::<u64>();
    let roles = ["gpu", "nvswitch", "nic", "leaf", "spine", "nic cable", "uplink cable", "transceiver"];
    assert_eq!(roles.map(count), [256, 128, 256, 8, 4, 256, 256, 512]);
    let leaf = bill.iter().find(|b| b.role == "leaf").unwrap();
    assert_eq!((leaf.unit_power_w, leaf.unit_price_usd), (Some(750.0), Some(36_000.0)));
    // A node's power as a whole has that of its GPUs and NICs in it.
    let node = bill.iter().find(|b| b.role == "node").unwrap();
    assert_eq!((node.count, node.power_w), (32, Some(326_400.0)));
    let sums = totals(&bill, 256);
    let outside = 12.0 * 750.0 + 512.0 * 8.0;
    assert_eq!(sums.power_w, 326_400.0 + outside);
    assert_eq!(sums.network_power_w, 256.0 * 25.0 + outside);
    assert!(sums.without_power.is_empty(), "{:?}", sums.without_power);
    assert!(sums.without_price.contains(&"gpu"));
}

#[test]
fn bill_of_nodes_that_are_no_system() {
    let fabric = build(&FabricSpec::new(system("hgx-h100"), 4));
    let bill = bill_of_materials(&fabric, Catalogue::builtin()).unwrap();
    assert!(bill.iter().all(|b| b.within.is_none() && b.role != "node"));
    let sums = totals(&bill, 32);
    assert!(sums.power_w >= 32.0 * 725.0);
    assert_eq!(sums.without_power, ["nvswitch", "cpu, memory, fans"]);
}

#[test]
fn path_names_its_bottleneck() {
    let fabric = cluster("hgx-h100", 2);
    let (a, b) = (fabric.gpus()[0], fabric.gpus()[8]);
    let report = path(&fabric, &fabric.route(&RouteRequest::auto(a, b)).unwrap(), false);
    assert_eq!(report.hops.len(), 6);
    assert_eq!(report.bottleneck.as_deref(), Some("node0.nic0->leaf0"));
    assert_eq!(report.bandwidth_gbyte, 50.0);
    assert!((report.effective_gbyte - 49.68).abs() < 0.01);
    assert!((report.latency_ns - 2064.6).abs() < 0.2, "{}", report.latency_ns);
    let sum: f64 = report.hops.iter().map(|h| h.latency_ns).sum();
    assert!((report.latency_ns - sum).abs() < 1e-6);
    let inside = fabric.route(&RouteRequest::auto(a, fabric.gpus()[7]).via(Via::NoNvlink)).unwrap();
    let classes: Vec<&str> = path(&fabric, &inside, false).hops.iter().map(|h| h.class).collect();
    assert_eq!(classes, ["pcie", "pcie", "peer", "socket-link", "peer", "pcie", "pcie"]);
}

#[test]
fn report_of_a_pod() {
    let fabric = cluster("hgx-h100", 4);
    let report = report(&fabric, Catalogue::builtin(), true).unwrap();
    assert_eq!((report.nodes, report.gpus, report.pairs.pxn), (4, 32, 672));
    assert_eq!(report.links[&LinkClass::Network].count, 64);
    assert_eq!(report.links[&LinkClass::NvLink].max_gbyte, 450.0);
    assert_eq!(report.devices[&DeviceKind::Leaf], 8);
    assert_eq!(report.oversubscription, Some(1.0));
    assert_eq!(report.hops.values().sum::<u64>(), 32 * 31);
}

#[test]
fn matrix_as_nvidia_smi_lays_it_out() {
    let fabric = cluster("hgx-h100", 1);
    let matrix = matrix(&fabric, 0).unwrap();
    let text = matrix.to_string();
    let line = |n: usize| text.lines().nth(n).unwrap().split('\t').collect::<Vec<_>>();
    let gpus = (0..8).map(|i| format!("GPU{i}"));
    let names: Vec<String> = gpus.chain((0..8).map(|i| format!("NIC{i}"))).collect();
    assert_eq!(line(0)[1..17], names);
    assert_eq!(line(0)[17..], ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]);
    let nv = ["NV18"; 7];
    assert_eq!(line(1)[1..9], [&[" X "], &nv[..]].concat());
    assert_eq!(line(1)[9..17], ["PIX", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]);
    assert_eq!(line(1)[17..], ["0-55,112-167", "0", "", "N/A"]);
    assert_eq!(line(8)[17], "56-111,168-223");
    assert_eq!(line(9)[1], "PIX");
    assert_eq!(line(9)[9], " X ");
    for (i, row) in matrix.rows.iter().enumerate() {
        for (j, cell) in row.cells.iter().enumerate() {
            assert_eq!(*cell, matrix.rows[j].cells[i], "the matrix is symmetric");
        }
    }
    assert!(text.contains("NIC0: node0.nic0"));
    assert!(super::matrix(&fabric, 1).is_none());
}

/// Faults that kill these targets.
fn without(fabric: Fabric, targets: &[&str]) -> Fabric {
    let dead = |target: &&str| crate::faults::Fault {
        target: (*target).to_owned(),
        pick: None,
        kind: crate::faults::FaultKind::Dead(crate::faults::Dead),
    };
    let faults: Vec<_> = targets.iter().map(dead).collect();
    fabric.with_faults(&faults, 1, true, Catalogue::builtin()).unwrap_or_else(|e| panic!("{e:?}")).0
}

#[test]
fn figures_beside_faults_are_those_of_what_works() {
    let catalogue = Catalogue::builtin();
    let mut spec = FabricSpec::new(node(8), 8);
    (spec.leaves, spec.spines) = (Some(16), Some(4));
    spec.node.max_nodes_per_domain = 1;
    let well = report(&build(&spec), catalogue, true).unwrap();
    assert_eq!((well.oversubscription, well.unreachable), (Some(1.0), 0));
    assert!(well.dead_devices.is_empty() && well.dead_links.is_empty());
    // One of four spines: the rest carries 3/4, a leaf is 4:3.
    let ill = report(&without(build(&spec), &["spine1"]), catalogue, true).unwrap();
    let ratio = |ill: f64, well: f64, want: f64| assert!((ill / well - want).abs() < 1e-9, "{ill} of {well}");
    ratio(ill.bisection.uplink_gbyte.unwrap(), well.bisection.uplink_gbyte.unwrap(), 0.75);
    ratio(ill.bisection_gbyte, well.bisection_gbyte, 0.75);
    ratio(ill.oversubscription.unwrap(), 1.0, 4.0 / 3.0);
    let tier = &ill.network.as_ref().unwrap().tier;
    assert_eq!((tier[1].switches, tier[1].working), (4, 3));
    ratio(tier[0].oversubscription.unwrap(), 1.0, 4.0 / 3.0);
    assert_eq!(ill.devices[&DeviceKind::Spine], 3);
    assert_eq!(ill.dead_devices[&DeviceKind::Spine], 1);
    // 16 leaves of one link to each spine, both directions.
    assert_eq!(ill.dead_links[&LinkClass::Uplink], 32);
    assert_eq!(well.links[&LinkClass::Uplink].count - 32, ill.links[&LinkClass::Uplink].count);
    let spine = |r: &TopoReport| r.bill_of_materials.iter().find(|b| b.role == "spine").cloned().unwrap();
    let (before, after) = (spine(&well), spine(&ill));
    assert_eq!((before.count, after.count, after.working), (4, 4, Some(3)));
    ratio(after.power_w.unwrap(), before.power_w.unwrap(), 0.75);
    // A NIC of the first half is dead: 31 of 32 inject.
    let nic = report(&without(build(&spec), &["node0.nic3"]), catalogue, true).unwrap();
    ratio(nic.bisection.nic_gbyte.unwrap(), well.bisection.nic_gbyte.unwrap(), 31.0 / 32.0);
    // A GPU of the last node lost its NVLink: the worst domain is that one.
    let lost = report(&without(build(&spec), &["node7.gpu0<->node7.nvswitch"]), catalogue, true).unwrap();
    ratio(lost.bisection.domain_gbyte, well.bisection.domain_gbyte, 0.75);
}

#[test]
fn pairs_without_a_path_are_counted_as_such() {
    let mut spec = FabricSpec::new(node(4), 6);
    spec.fabric = FabricKind::RailOnly;
    let report = report(&build(&spec), Catalogue::builtin(), true).unwrap();
    assert_eq!(report.unreachable, report.pairs.pxn);
    assert_eq!(report.unreachable, 6 * 5 * 4 * 3);
    assert_eq!(report.hops.values().sum::<u64>() + report.unreachable, report.pairs.total());
}
