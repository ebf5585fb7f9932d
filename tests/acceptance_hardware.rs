//! The acceptance cases on hardware and paths, by the ids of the table that users hold the program against. Figures are
//! that table's. Cases that other files hold: S1-09, S1-11, S2-04, S3-22, S3-30, S3-33 and S3-35 are in `tests/hardware.rs`
//! (shared uplinks, bounces, training, policies, GPUDirect levels, drives).

use std::fmt::Write as _;

use fabricsim::scenario::{Input, Loaded, Scenario};
use sim_core::units::Rate;
use sim_topology::topo::pairs;
use sim_topology::{Catalogue, DeviceId, DeviceKind, Fabric, FabricSpec, PairKind, PathClass, RouteRequest, Via};

/// A scenario of these keys that moves 128 MiB between each two ranks.
fn load(head: &str, transfers: &[(usize, usize)]) -> Loaded {
    let mut text = format!("{head}\n[[workload]]\nkind = \"transfer\"\nlist = [\n");
    for (src, dst) in transfers {
        let _ = writeln!(text, "  {{ src = {src}, dst = {dst}, bytes = \"128 MiB\" }},");
    }
    text += "]\n";
    Scenario::load(&Input::Text { name: "test.toml".into(), text }, &[]).unwrap_or_else(|faults| {
        panic!("{}", fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain))
    })
}

fn rates(head: &str, transfers: &[(usize, usize)]) -> Vec<f64> {
    load(head, transfers).run().unwrap().results.transfers.iter().map(|t| t.rate).collect()
}

fn fabric(system: &str, nodes: u32) -> Fabric {
    let catalogue = Catalogue::builtin();
    Fabric::build(&FabricSpec::new(catalogue.system(system).unwrap().node.clone(), nodes), catalogue).unwrap()
}

fn near(got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() <= tolerance, "{got} for {want}");
}

/// A GPU's NVLinks together, GB/s in one direction.
fn nvlink(gpu: &str) -> f64 {
    let catalogue = Catalogue::builtin();
    let gpu = catalogue.gpu(gpu).unwrap();
    f64::from(gpu.nvlinks) * catalogue.gpu_link(gpu).unwrap().unwrap().link_rate.as_gbyte()
}

fn pcie16(generation: u32) -> f64 {
    Catalogue::builtin().pcie(generation).unwrap().lane_rate.as_gbyte() * 16.0
}

#[test]
fn s1_01_s2_01_s2_03_nvlink_rates_are_of_one_direction() {
    near(nvlink("h100-sxm"), 450.0, 1e-9);
    near(nvlink("b200-sxm"), 900.0, 1e-9);
    near(nvlink("a100-sxm4-80"), 300.0, 1e-9);
    let memory = |gpu: &str| Catalogue::builtin().gpu(gpu).unwrap().memory_rate.as_gbyte();
    near(memory("a100-pcie-80"), 1935.0, 1e-3);
    near(memory("a100-sxm4-80"), 2039.0, 1e-3);
    let loaded = load("system = \"hgx-h100\"\nnvlink = \"900 GB/s\"", &[(0, 1)]);
    let text = fabricsim::diagnostic::text(&loaded.diagnostics, fabricsim::diagnostic::Style::Plain);
    assert!(text.contains("W003") && text.contains("450 GB/s in each direction"), "{text}");
}

#[test]
fn s1_02_a_port_of_400_gbit_carries_50_gbytes() {
    near("400 Gbps".parse::<Rate>().unwrap().as_gbyte(), 50.0, 1e-9);
    near(Catalogue::builtin().nic("connectx-7").unwrap().port_rate.as_gbyte(), 50.0, 1e-9);
}

#[test]
fn s1_04_s3_12_pcie_has_its_encoding_taken_off() {
    near(pcie16(4), 31.5, 1e-3);
    near(pcie16(5), 63.0, 1e-3);
    near(pcie16(6), 118.0, 1e-3);
    near(Catalogue::builtin().gpu("h100-sxm").unwrap().memory_rate.as_gbyte(), 3350.0, 1e-3);
}

#[test]
fn s2_02_s3_13_ratios_compare_one_direction_with_one() {
    near(nvlink("h100-sxm") / 50.0, 9.0, 1e-9);
    // 8.2 of what transfers make of PCIe (55 GB/s; 57.6 here before acknowledgements), 7.1 of the net rate; never 14.
    near(nvlink("h100-sxm") / pcie16(5), 7.14, 1e-3);
}

#[test]
fn s1_10_across_sockets_is_farther_in_class_and_latency() {
    let fabric = fabric("hgx-h100", 1);
    let (gpu, nics) = (fabric.gpus()[0], &fabric.nodes()[0].nics);
    assert_eq!((fabric.path_class(gpu, nics[0]), fabric.path_class(gpu, nics[7])), (PathClass::Pix, PathClass::Sys));
    let latency = |nic: DeviceId| -> f64 {
        let route = fabric.route(&RouteRequest::auto(gpu, nic).host(sim_topology::HostUse::Never)).unwrap();
        route.links.iter().map(|&l| fabric.link(l).latency.as_us()).sum()
    };
    assert!(latency(nics[7]) > latency(nics[0]) * 1.5, "{} {}", latency(nics[0]), latency(nics[7]));
}

#[test]
fn s2_05_s2_06_nv_counts_are_those_of_the_board() {
    let class = |system: &str| {
        let fabric = fabric(system, 1);
        fabric.path_class(fabric.gpus()[0], fabric.gpus()[1]).to_string()
    };
    assert_eq!(["hgx-h100", "hgx-a100", "a100-4gpu"].map(class), ["NV18", "NV12", "NV4"]);
    // Four links of a direct pair: 100 GB/s before headers, and to all three neighbours 300.
    let header = 300.0 / 266.3;
    near(rates("system = \"a100-4gpu\"", &[(0, 1)])[0] * header, 100.0, 0.01);
    near(rates("system = \"a100-4gpu\"", &[(0, 1), (0, 2), (0, 3)]).iter().sum::<f64>() * header, 300.0, 0.01);
}

#[test]
fn s2_07_s3_15_sys_is_the_worst_of_a_box() {
    use PathClass::{Net, Node, Nvl, Phb, Pix, Pxb, Sys, X};
    let order = [X, Nvl(18), Pix, Pxb, Phb, Node, Sys, Net];
    assert!(order.windows(2).all(|w| w[0].rank() < w[1].rank()));
    let fabric = fabric("pcie-rtxpro6000-8", 1);
    let class = |b: usize| fabric.path_class(fabric.gpus()[0], fabric.gpus()[b]);
    assert_eq!((class(1), class(4)), (Node, Sys));
    let of = |b| rates("system = \"pcie-rtxpro6000-8\"", &[(0, b)])[0];
    assert!(of(4) < of(1), "{} {}", of(4), of(1));
}

#[test]
fn s2_18_only_some_paths_go_through_the_root_complex() {
    let sockets = |head: &str, from: usize, to: usize| {
        let loaded = load(head, &[(0, 1)]);
        let fabric = &loaded.fabric;
        let request = RouteRequest::auto(fabric.gpus()[from], fabric.gpus()[to]);
        let links = fabric.route(&request).unwrap().links;
        links.iter().filter(|&&l| fabric.device(fabric.link(l).to).kind == DeviceKind::Socket).count()
    };
    let system = "system = \"pcie-rtxpro6000-8-1s\"";
    assert_eq!(sockets(system, 0, 1), 0, "below one switch");
    assert!(sockets(system, 0, 4) > 0 && sockets(&format!("{system}\nacs = true"), 0, 1) > 0);
}

#[test]
fn s3_14_nvswitch_carries_every_pair_and_any_permutation() {
    let pairs: Vec<(usize, usize)> = (0..8).flat_map(|a| (a + 1..8).map(move |b| (a, b))).collect();
    assert_eq!(pairs.len(), 28);
    let fabric = fabric("hgx-h100", 1);
    for &(a, b) in &pairs {
        let route = fabric.route(&RouteRequest::auto(fabric.gpus()[a], fabric.gpus()[b])).unwrap();
        let rate = route.links.iter().map(|&l| fabric.link(l).rate).min().unwrap();
        near(rate.as_gbyte(), 450.0, 1e-9);
    }
    let alone = rates("system = \"hgx-h100\"", &[(0, 1)])[0];
    let all: Vec<(usize, usize)> = (0..8).map(|i| (i, (i + 3) % 8)).collect();
    for rate in rates("system = \"hgx-h100\"", &all) {
        near(rate, alone, 1e-3);
    }
}

#[test]
fn s3_16_s2_17_a_rack_is_one_nvlink_domain() {
    near(72.0 * 2.0 * nvlink("gb200") / 1000.0, 129.6, 1e-9);
    let head = "system = \"nvl72-gb200\"\nnodes = 18";
    let alone = rates(head, &[(0, 71)])[0];
    let all: Vec<(usize, usize)> = (0..72).map(|i| (i, (i + 37) % 72)).collect();
    for rate in rates(head, &all) {
        near(rate, alone, 1e-3);
    }
}

#[test]
fn a_gpu_that_lost_its_nvlink_leaves_its_domain() {
    let mut node = Catalogue::builtin().system("nvl72-gb200").unwrap().node.clone();
    let most = node.gpus as usize;
    node.nvlink.as_mut().unwrap().lost = vec![1];
    let fabric = Fabric::build(&FabricSpec::new(node, 2), Catalogue::builtin()).unwrap();
    let kind = |a: usize, b: usize| fabric.route(&RouteRequest::auto(fabric.gpus()[a], fabric.gpus()[b])).unwrap().kind;
    assert_eq!(kind(0, most), PairKind::NvLink, "others reach the other node");
    assert_eq!((kind(0, 1), kind(1, 0)), (PairKind::Pcie, PairKind::Pcie), "within the node");
    for (a, b) in [(1, most), (most, 1), (0, most + 1), (1, most + 1)] {
        assert!(matches!(kind(a, b), PairKind::SameRail | PairKind::CrossRail), "{a} {b}: {}", kind(a, b));
    }
    assert_eq!(fabric.path_class(fabric.gpus()[1], fabric.gpus()[most]), PathClass::Net);
}

#[test]
fn s3_17_to_s3_21_pairs_by_kind() {
    for (nodes, gpus) in [(1, 8), (2, 3), (4, 8), (16, 1), (7, 5)] {
        let mut spec = FabricSpec::new(Catalogue::builtin().system("hgx-h100").unwrap().node.clone(), nodes);
        spec.gpus_per_node = Some(gpus);
        let fabric = Fabric::build(&spec, Catalogue::builtin()).unwrap();
        let (n, g) = (u64::from(nodes), u64::from(gpus));
        let (without, with) = (pairs(&fabric, false), pairs(&fabric, true));
        assert_eq!((without.nvlink, without.same_rail), (n * g * (g - 1), g * n * (n - 1)));
        assert_eq!((without.cross_rail, without.pxn), (g * (g - 1) * n * (n - 1), 0));
        assert_eq!((with.cross_rail, with.pxn), (0, without.cross_rail));
    }
}

#[test]
fn s3_32_one_switch_on_a_rail_three_between_rails() {
    let loaded = load("system = \"hgx-h100\"\nnodes = 64\n[fabric]\nkind = \"rail-optimized\"", &[(0, 8)]);
    let fabric = &loaded.fabric;
    let switches = |a: usize, b: usize| {
        let (from, to) = (fabric.gpus()[a], fabric.gpus()[b]);
        let via = Via::Nics { src: fabric.nics_of(from)[0], dst: fabric.nics_of(to)[0] };
        let route = fabric.route(&RouteRequest::auto(from, to).via(via)).unwrap();
        route.links.iter().filter(|&&l| fabric.device(fabric.link(l).to).kind.is_network_switch()).count()
    };
    assert_eq!((switches(3, 11), switches(3, 12)), (1, 3));
}

#[test]
fn peers_are_as_far_apart_as_the_library_lets_them() {
    let kind = |system: &str, env: &str, from: usize, to: usize| {
        let loaded = load(&format!("system = \"{system}\"\n[software.env]\n{env}"), &[(0, 1)]);
        let fabric = &loaded.fabric;
        let (from, to) = (fabric.gpus()[from], fabric.gpus()[to]);
        let kind = fabric.route(&RouteRequest::auto(from, to)).unwrap().kind;
        (kind, fabric.bounce(from, to).is_some())
    };
    let box8 = "pcie-rtxpro6000-8-1s";
    // Below one switch, and below two of one CPU (NODE, which is PHB to the library).
    for (level, same, other) in [
        ("NCCL_P2P_LEVEL = \"LOC\"", true, true),
        ("NCCL_P2P_LEVEL = \"NVL\"", true, true),
        ("NCCL_P2P_LEVEL = \"PIX\"", false, true),
        ("NCCL_P2P_LEVEL = 1", false, true),
        ("NCCL_P2P_LEVEL = 2", false, true),
        ("NCCL_P2P_LEVEL = \"PHB\"", false, false),
        ("NCCL_P2P_LEVEL = 5", false, false),
        ("NCCL_P2P_DISABLE = 1", true, true),
        ("NCCL_P2P_DISABLE = 0", false, false),
    ] {
        assert_eq!(kind(box8, level, 0, 1), (PairKind::Pcie, same), "{level}");
        assert_eq!(kind(box8, level, 0, 4), (PairKind::Pcie, other), "{level}");
    }
    // NVLink goes with it only if it is switched off altogether; what hangs where stays.
    assert_eq!(kind("hgx-h100", "NCCL_P2P_LEVEL = \"NVL\"", 0, 1).0, PairKind::NvLink);
    assert_eq!(kind("hgx-h100", "NCCL_P2P_DISABLE = 1", 0, 1), (PairKind::Pcie, true));
    let off = load("system = \"hgx-h100\"\n[software.env]\nNCCL_P2P_DISABLE = 1", &[(0, 1)]);
    assert_eq!(off.fabric.path_class(off.fabric.gpus()[0], off.fabric.gpus()[1]).to_string(), "NV18");
    assert!(off.run().unwrap().results.transfers[0].rate < 60.0);
}

#[test]
fn domains_of_a_socket_are_counted() {
    let node = "[node]\ngpu = \"h100-pcie\"\ngpus = 4\nsockets = 1\nnuma_per_socket = 2\ncpu = { cores = 32 }\npcie = [\n\
        { uplink = { gen = 5 }, down = [\"gpu0-1\"] }, { uplink = { gen = 5 }, down = [\"gpu2\"] }, { parent = 1, uplink = { gen = 5 }, down = [\"gpu3\"] } ]\n";
    let classes = |head: &str| {
        let loaded = load(head, &[(0, 1)]);
        let matrix = sim_topology::topo::matrix(&loaded.fabric, 0).unwrap();
        let numas: Vec<u32> = matrix.rows.iter().filter_map(|r| r.numa_affinity).collect();
        let cpus: Vec<String> = matrix.rows.iter().filter_map(|r| r.cpu_affinity.clone()).collect();
        (numas, cpus[3].clone(), matrix.rows[0].cells[2])
    };
    assert_eq!(classes(node), (vec![0, 0, 1, 1], "16-31,48-63".to_owned(), PathClass::Sys));
    let one = node.replace("numa_per_socket = 2\n", "");
    assert_eq!(classes(&one), (vec![0; 4], "0-31,32-63".to_owned(), PathClass::Node));
}
