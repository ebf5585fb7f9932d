//! Counts that builders of clusters have published.

use super::*;

fn counts(fabric: &Fabric) -> [u32; 3] {
    let plan = fabric.plan();
    [plan.leaves, plan.spines, plan.cores]
}

#[test]
fn three_tiers_of_rails() {
    // Scalable units of 32 nodes on 64-port switches: (nodes, leaves, spines, cores, cables above the leaves and spines).
    for (nodes, want, cables) in
        [(512, [128, 128, 64], 4096), (1024, [256, 256, 128], 8192), (2048, [512, 512, 256], 16_384)]
    {
        let fabric = cluster("hgx-h100", nodes);
        assert_eq!(counts(&fabric), want, "{nodes} nodes");
        let plan = fabric.plan();
        assert_eq!((plan.cables.nic_leaf, plan.cables.leaf_spine, plan.cables.spine_core), (cables, cables, cables));
        assert_eq!((plan.oversubscription, plan.core_oversubscription, plan.tiers), (1.0, 1.0, 3));
        assert!(fabric.devices().iter().filter(|d| d.kind.is_network_switch()).all(|d| d.ports_used == 64));
    }
}

#[test]
fn dual_tor_with_two_planes() {
    // 15 segments of 128 nodes; 51.2 Tb/s switches with 128 x 200 Gb/s down and 60 x 400 Gb/s up.
    let mut spec = FabricSpec::new(system("hgx-h100"), 1920);
    spec.fabric = FabricKind::DualTor;
    spec.transport = TransportKind::Roce;
    spec.switch = Some("th5".into());
    spec.uplink_rate = Some("400 Gb/s".parse().unwrap());
    spec.oversubscription = Some(16.0 / 15.0);
    let fabric = build(&spec);
    let plan = fabric.plan();
    assert_eq!(counts(&fabric)[..2], [240, 120]);
    assert_eq!((plan.planes, plan.downlinks, plan.uplinks, plan.nodes_per_leaf), (2, 128, 60, 128));
    assert_eq!(plan.cables.leaf_spine, 240 * 60);
    let rate = |text: &str| text.parse().unwrap();
    assert_eq!((plan.rate, plan.uplink_rate), (rate("200 Gb/s"), rate("400 Gb/s")));
}

#[test]
fn split_ports_below_full_ones_above() {
    // 64 x 400 Gb/s: 32 ports down, each split in two, and 32 up.
    let mut spec = FabricSpec::new(system("hgx-a100"), 1536);
    spec.switch = Some("th4".into());
    spec.transport = TransportKind::Roce;
    spec.nics = Some("8x200Gb/s".parse().unwrap());
    spec.uplink_rate = Some("400 Gb/s".parse().unwrap());
    let plan = build(&spec).plan().clone();
    assert_eq!((plan.downlinks, plan.uplinks, plan.leaves, plan.oversubscription), (64, 32, 192, 1.0));
}

#[test]
fn two_planes_of_800_gbit() {
    // 128 x 400 Gb/s switches: 8 leaves and 4 spines a plane and 64 nodes.
    for (units, want) in [(1, [16, 8, 0]), (4, [64, 32, 0]), (16, [256, 128, 0])] {
        let mut spec = FabricSpec::new(system("hgx-b300"), 64 * units);
        spec.fabric = FabricKind::MultiPlane;
        spec.switch = Some("sn5600".into());
        spec.transport = TransportKind::Roce;
        let fabric = build(&spec);
        assert_eq!(counts(&fabric), want, "{units} units");
        assert_eq!((fabric.plan().downlinks, fabric.plan().uplinks), (64, 64));
        // Two links are one cable of 2 x 400 Gb/s.
        assert_eq!(fabric.plan().cables.nic_leaf / 2, 512 * u64::from(units));
    }
}

#[test]
fn ratios_per_tier() {
    // 64 x 400 Gb/s, 7:1 above the spines: 8 pods of 1792.
    let mut spec = FabricSpec::new(system("hgx-h100"), 1792);
    spec.fabric = FabricKind::LeafSpine;
    spec.core_oversubscription = Some(7.0);
    let fabric = build(&spec);
    assert_eq!(counts(&fabric), [448, 256, 32]);
    assert_eq!((fabric.plan().pods, fabric.plan().core_oversubscription), (8, 7.0));
    assert_eq!(fabric.plan().cables.spine_core, 2048);
    // 2:1 at the leaf: 42 down and 21 up.
    let mut spec = FabricSpec::new(system("hgx-h100"), 336);
    spec.oversubscription = Some(2.0);
    let fabric = build(&spec);
    assert_eq!(counts(&fabric), [64, 21, 0]);
    assert_eq!((fabric.plan().downlinks, fabric.plan().uplinks), (42, 21));
}
