use super::*;
use crate::testing::{build, cluster, node, system};
use crate::{Catalogue, DeviceKind, Fabric, FabricSpec, LinkClass, PathClass, RouteRequest};

fn refused(node: NodeSpec) -> String {
    Fabric::build(&FabricSpec::new(node, 1), Catalogue::builtin()).unwrap_err().to_string()
}

#[test]
fn nvlink_of_each_system() {
    for (name, chips, gbyte, links) in [
        ("hgx-a100", 6, 300.0, 12),
        ("hgx-h100", 4, 450.0, 18),
        ("hgx-h200", 4, 450.0, 18),
        ("hgx-h20", 4, 450.0, 18),
        ("hgx-h800", 4, 200.0, 8),
        ("hgx-b200", 2, 900.0, 18),
        ("hgx-b300", 2, 900.0, 18),
        ("nvl72-gb200", 18, 900.0, 18),
        ("nvl72-gb300", 18, 900.0, 18),
    ] {
        let fabric = cluster(name, 1);
        assert_eq!(fabric.nvswitch_chips(), chips, "{name}");
        let nvlinks: Vec<_> = fabric.links().iter().filter(|l| l.class == LinkClass::NvLink).collect();
        assert_eq!(nvlinks.len(), 2 * fabric.gpus().len(), "{name}: one bundle a GPU and direction");
        assert!(nvlinks.iter().all(|l| l.rate.as_gbyte() == gbyte && l.width == links), "{name}");
        assert_eq!(fabric.path_class(fabric.gpus()[0], fabric.gpus()[3]), PathClass::Nvl(links), "{name}");
    }
}

#[test]
fn xgmi_is_a_mesh_of_single_links() {
    for (name, island, gbyte) in
        [("mi300x-8", 8, 64.0), ("mi325x-8", 8, 64.0), ("mi355x-8", 8, 76.5), ("mi100-8", 4, 46.0)]
    {
        let fabric = cluster(name, 1);
        let gpus = fabric.gpus();
        let links: Vec<_> = fabric.links().iter().filter(|l| l.class == LinkClass::Xgmi).collect();
        assert_eq!(links.len(), gpus.len() * (island - 1), "{name}");
        assert!(links.iter().all(|l| l.rate.as_gbyte() == gbyte && l.width == 1), "{name}");
        for (i, &gpu) in gpus.iter().enumerate() {
            assert_eq!(links.iter().filter(|l| l.from == gpu).count(), island - 1, "{name}");
            let class = fabric.path_class(gpus[0], gpu);
            assert_eq!(class == PathClass::Xgmi(1), i > 0 && i < island, "{name} {i}: {class}");
            assert!(i < island || class == PathClass::Sys, "{name} {i}: {class}");
        }
        let printed = crate::topo::matrix(&fabric, 0).unwrap().to_string();
        assert!(printed.contains("\tXGMI\t") && printed.contains("  XGMI = xGMI"), "{printed}");
    }
}

#[test]
fn a_stated_nvlink_rate_is_that_of_all_links_together() {
    for (name, each) in [("hgx-h100", 300.0), ("a100-4gpu", 100.0)] {
        let mut spec = system(name);
        if let Some(nvlink) = &mut spec.nvlink {
            nvlink.rate = Some(Rate::gbyte(300));
        }
        let fabric = build(&FabricSpec::new(spec, 1));
        let mut nvlinks = fabric.links().iter().filter(|l| l.class == LinkClass::NvLink);
        assert!(nvlinks.all(|l| l.rate.as_gbyte() == each), "{name}");
    }
}

#[test]
fn packets_leave_what_copies_reach() {
    let fabric = cluster("hgx-h100", 1);
    let goodput = |class| {
        let link = fabric.links().iter().find(|l| l.class == class).unwrap();
        link.goodput(fabric.mtu()).as_gbyte()
    };
    assert!((goodput(LinkClass::NvLink) - 400.0).abs() < 0.01, "a 16 B header on 128 B of 450 GB/s");
    assert!((goodput(LinkClass::Pcie) - 57.6).abs() < 0.05, "24 B on 256 B of 63.0 GB/s");
}

#[test]
fn pcie_trains_to_the_lesser_end() {
    // A PCIe 4 GPU in PCIe 5 slots.
    let mut spec = system("hgx-h100");
    spec.gpu = "a100-sxm4-80".into();
    spec.nvlink = None;
    let fabric = build(&FabricSpec::new(spec, 1));
    let rate = |name: &str| {
        let id = fabric.find(name).unwrap();
        fabric.links().iter().find(|l| l.from == id).unwrap().rate.as_gbyte()
    };
    assert!((rate("node0.gpu0") - 31.5).abs() < 0.01);
    assert!((rate("node0.nic0") - 63.0).abs() < 0.02);
}

#[test]
fn interior_of_an_hgx_h100() {
    let fabric = cluster("hgx-h100", 1);
    let count = |kind| fabric.devices().iter().filter(|d| d.kind == kind).count();
    let kinds = [DeviceKind::Gpu, DeviceKind::PcieSwitch, DeviceKind::Socket, DeviceKind::HostMemory, DeviceKind::Nic];
    assert_eq!(kinds.map(count), [8, 8, 2, 2, 8]);
    assert_eq!(count(DeviceKind::NvSwitch), 1);
    let (gpu0, nic) = (fabric.gpus()[0], |i: usize| fabric.nodes()[0].nics[i]);
    assert_eq!(fabric.path_class(gpu0, nic(0)), PathClass::Pix);
    assert_eq!(fabric.path_class(gpu0, nic(1)), PathClass::Node);
    assert_eq!(fabric.path_class(gpu0, nic(4)), PathClass::Sys);
    assert_eq!(fabric.host_path_class(gpu0, fabric.gpus()[1]), PathClass::Node);
    assert_eq!(fabric.path_class(gpu0, fabric.nodes()[0].memories[0]), PathClass::Phb);
}

#[test]
fn cascaded_switches_are_pxb_and_a_shared_host_bridge_is_phb() {
    let mut spec = node(4);
    spec.nvlink = None;
    spec.pcie[1].parent = Some(0);
    spec.pcie[2].host_bridge = Some(7);
    spec.pcie[3].host_bridge = Some(7);
    let fabric = build(&FabricSpec::new(spec, 1));
    let g = fabric.gpus();
    assert_eq!(fabric.path_class(g[0], g[1]), PathClass::Pxb);
    assert_eq!(fabric.path_class(g[2], g[3]), PathClass::Phb);
    assert_eq!(fabric.path_class(g[0], g[2]), PathClass::Sys);
}

#[test]
fn nics_are_dealt_out_evenly() {
    let own = |name: &str| -> Vec<Vec<u32>> {
        let fabric = cluster(name, 2);
        let own = |&gpu| fabric.nics_of(gpu).iter().map(|&nic| fabric.rail_of(nic)).collect();
        fabric.nodes()[1].gpus.iter().map(own).collect()
    };
    let one_each: Vec<Vec<u32>> = (0..8).map(|i| vec![i]).collect();
    assert_eq!(own("hgx-h100"), one_each);
    assert_eq!(own("hgx-b200"), one_each, "two GPUs and two NICs on a switch");
    assert_eq!(own("nvl72-gb200"), one_each[..4]);
    assert_eq!(own("aws-p4d"), [0, 0, 1, 1, 2, 2, 3, 3].map(|i| vec![i]));
    assert_eq!(own("aws-p5")[1], [4, 5, 6, 7]);
    assert_eq!(own("pcie-a100-4"), [[0], [0], [0], [0]], "all share the one NIC");
    let fabric = cluster("aws-p4d", 2);
    assert_eq!(fabric.gpu_of_nic(fabric.nodes()[0].nics[1]), Some(fabric.gpus()[2]));
}

#[test]
fn fewer_gpus_and_other_nics() {
    let catalogue = Catalogue::builtin();
    let mut spec = FabricSpec::new(system("hgx-h100"), 2);
    spec.gpus_per_node = Some(3);
    let fabric = Fabric::build(&spec, catalogue).unwrap();
    assert_eq!(fabric.gpus().len(), 6);
    assert_eq!(fabric.nodes()[0].nics.len(), 8, "NICs stay");
    spec.gpus_per_node = None;
    spec.nics = Some("16x200Gb/s".parse().unwrap());
    let fabric = Fabric::build(&spec, catalogue).unwrap();
    let rails: Vec<u32> = fabric.nics_of(fabric.gpus()[3]).iter().map(|&n| fabric.rail_of(n)).collect();
    assert_eq!(rails, [6, 7]);
    assert_eq!(fabric.plan().rate, "200 Gb/s".parse().unwrap());
    for bad in ["8", "x400Gb/s", "8x400", "8x", "-1x400Gb/s", ""] {
        assert!(bad.parse::<crate::NicOverride>().is_err(), "{bad}");
    }
}

#[test]
fn copies_are_staged_where_peer_to_peer_is_off() {
    let fabric = cluster("pcie-4090-8", 1);
    let route = fabric.route(&RouteRequest::auto(fabric.gpus()[0], fabric.gpus()[1])).unwrap();
    let names: Vec<_> = route.links.iter().map(|&l| fabric.device(fabric.link(l).to).kind).collect();
    assert!(names.contains(&DeviceKind::HostMemory));
    let alpha: f64 = route.links.iter().map(|&l| fabric.link(l).latency.as_us()).sum();
    assert!((alpha - 14.0).abs() < 0.05, "{alpha}");
}

#[test]
fn faults_are_named() {
    let hgx = || system("hgx-h100");
    let with = |change: fn(&mut NodeSpec)| {
        let mut spec = hgx();
        change(&mut spec);
        refused(spec)
    };
    assert_eq!(with(|s| s.gpu = "h10".into()), "node: unknown GPU `h10`; did you mean `h100-sxm`?");
    assert_eq!(with(|s| s.gpus = 0), "node: gpus is 0; a node has 1 to 64");
    assert_eq!(
        with(|s| s.gpus = 9),
        "node: gpu8 hangs nowhere: no row of `pcie` has it under `down` and there is no `c2c`"
    );
    assert_eq!(
        with(|s| s.pcie[0].down.push("gpu9".into())),
        "node: row 0 of `pcie` names gpu9, but the node has 8 of them (gpu0 is the first)"
    );
    assert_eq!(with(|s| s.pcie[1].down.push("nic0".into())), "node: nic0 hangs on two rows of `pcie`: 0 and 1");
    assert!(with(|s| s.pcie[2].down.push("ssd0".into())).contains("write `gpu0`, `nic0`, `nvme0` or a range"));
    assert_eq!(with(|s| s.pcie[3].socket = 2), "node: row 3 of `pcie` hangs on socket 2, but there are 2");
    assert_eq!(with(|s| s.pcie[0].parent = Some(0)), "node: row 0 of `pcie` hangs on switch row 0, but there are 0");
    assert_eq!(with(|s| s.pcie[0].uplink.lanes = 5), "node: row 0 of `pcie`: 5 lanes; a link has 1, 2, 4, 8 or 16");
    assert!(with(|s| s.pcie[0].uplink.generation = 9).contains("unknown PCIe generation `pcie9`"));
    assert_eq!(with(|s| s.socket_link = None), "node: the node has 2 sockets, but no `socket_link` is given");
    assert_eq!(with(|s| s.nic = None), "node: the node has 8 NICs, but no `nic` is given");
    assert_eq!(
        with(|s| s.nvlink.as_mut().unwrap().links = vec![5, 5, 5, 5]),
        "node: the wiring uses 20 NVLinks of gpu0, but h100-sxm has 18"
    );
    assert_eq!(
        with(|s| s.nvlink.as_mut().unwrap().links = vec![18]),
        "node: NVSwitch chip 0: 8 GPUs x 18 links = 144 ports, but nvswitch3 has 64"
    );
    assert!(with(|s| s.nvlink.as_mut().unwrap().pairs = vec![[0, 1, 1]]).contains("either `chip` and `links`"));
    let pairs = |pairs: Vec<[u32; 3]>| {
        let mut spec = hgx();
        spec.nvlink = Some(NvlinkSpec { pairs, ..NvlinkSpec::default() });
        refused(spec)
    };
    assert!(pairs(vec![[0, 0, 1]]).contains("two different GPUs"));
    assert!(pairs(vec![[0, 1, 1], [1, 0, 1]]).contains("[1, 0, 1]"));
}

#[test]
fn a_node_survives_its_text_form() {
    for system in Catalogue::builtin().systems() {
        let text = toml::to_string(&system.node).unwrap();
        assert_eq!(toml::from_str::<NodeSpec>(&text).unwrap(), system.node, "{}", system.name);
    }
    assert!(toml::from_str::<NodeSpec>("gpu = \"h100\"\ngpus = 8\ngpuz = 1").is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    #[test]
    fn no_node_makes_the_builder_panic(
        base in 0usize..8,
        gpus in 0u32..80,
        nics in 0u32..40,
        sockets in 0u32..20,
        rows in proptest::collection::vec((0u32..4, 0u32..9, 0u32..20, "(gpu|nic|x)[0-9]?(-[0-9])?", proptest::option::of(0u32..5)), 0..6),
        links in proptest::collection::vec(0u32..30, 0..8),
        pairs in proptest::collection::vec(proptest::array::uniform3(0u32..10), 0..4),
        nodes in 0u32..70,
        other in proptest::option::of((0u32..300, 1u64..1_000_000_000_000)),
    ) {
        let mut spec = Catalogue::builtin().systems().nth(base).unwrap().node.clone();
        if gpus % 2 == 0 { spec.gpus = gpus; }
        if nics % 2 == 0 { spec.nics = nics; }
        if sockets % 2 == 0 { spec.sockets = sockets; }
        for (socket, generation, lanes, down, parent) in rows {
            let uplink = SlotSpec { generation, lanes };
            let switch = lanes % 2 == 0;
            let down = vec![down];
            spec.pcie.push(PcieSpec { parent, ..PcieSpec::new(socket, switch, uplink, down) });
        }
        if let Some(nvlink) = &mut spec.nvlink {
            if links.len() > 2 { nvlink.links = links; }
            if pairs.len() > 2 { nvlink.pairs = pairs; }
        }
        let mut fabric = FabricSpec::new(spec, nodes);
        fabric.nics = other.map(|(count, rate)| crate::NicOverride { count, rate: Rate::bytes_per_sec(rate) });
        if let Err(error) = Fabric::build(&fabric, Catalogue::builtin()) {
            proptest::prop_assert!(!error.to_string().is_empty());
            let _ = error.hint();
        }
    }
}
