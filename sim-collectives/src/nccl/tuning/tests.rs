use super::*;

fn cost(minor: u32, facts: Facts, operation: Operation, algorithm: Algorithm, protocol: Protocol) -> Cost {
    let comm = Communicator::new(facts, Version::v2(minor), Knobs::default()).unwrap();
    cost_table(&comm, operation).get(algorithm, protocol).unwrap()
}

fn h100(nodes: u32) -> Facts {
    Facts::nvswitch(90, 8, nodes)
}

#[test]
fn nvls_was_planned_otherwise_before_2_28() {
    let nvls = |minor| cost(minor, h100(1), Operation::AllReduce, Algorithm::Nvls, Protocol::Simple);
    assert_eq!(nvls(20).latency_us, 23.0);
    assert_eq!(nvls(21).latency_us, 25.0);
    // 8 channels of 40 GB/s at 5/6, then 8 of 40 × 0.85 × 7/8 × 2 at 8/14.
    assert!((nvls(27).bandwidth_gbps - 320.0 * 5.0 / 6.0).abs() < 1e-9);
    assert!((nvls(28).bandwidth_gbps - 272.0).abs() < 1e-9);
}

#[test]
fn trees_with_simple_lost_from_2_19_to_2_22() {
    let tree = |minor| cost(minor, h100(2), Operation::AllReduce, Algorithm::Tree, Protocol::Simple).latency_us;
    assert_eq!(tree(18), 8.4 + 2.0 * (7.0 * 4.0 + 14.0));
    assert_eq!(tree(22), 2.0 * (7.0 * 28.0 + 28.0));
    assert_eq!(tree(23), tree(18));
}

#[test]
fn rings_of_older_releases() {
    let ring = |minor, facts, op, protocol| cost(minor, facts, op, Algorithm::Ring, protocol);
    let ll = |minor, op| ring(minor, h100(1), op, Protocol::Ll).bandwidth_gbps;
    // A quarter or a third of 12 × 30, capped at 87.7; half and capped at 141 from 2.21 on.
    assert!((ll(20, Operation::AllReduce) - 87.7 * 8.0 / 14.0).abs() < 1e-9);
    assert!((ll(21, Operation::AllReduce) - 141.0 * 8.0 / 14.0).abs() < 1e-9);
    let steps = |minor| ring(minor, h100(2), Operation::AllReduce, Protocol::Ll).latency_us;
    // Two of the 1 µs steps were counted as network steps of 2.7 µs.
    assert!((steps(22) - steps(23) - 2.0 * 1.7).abs() < 1e-9);
}

#[test]
fn what_came_when() {
    let absent = |minor, facts, operation, algorithm| {
        let comm = Communicator::new(facts, Version::v2(minor), Knobs::default()).unwrap();
        comm.table(operation).get(algorithm, Protocol::Simple).err().cloned()
    };
    let gather = Operation::AllGather;
    assert_eq!(absent(18, h100(1), gather, Algorithm::Nvls), Some(Reason::Since(Version::v2(19))));
    assert_eq!(absent(19, h100(1), gather, Algorithm::Nvls), None);
    assert_eq!(absent(30, Facts::nvswitch(100, 32, 1), gather, Algorithm::Nvls), None);
    assert_eq!(absent(30, Facts::nvswitch(100, 72, 1), gather, Algorithm::Nvls), Some(Reason::HeadPerGpu));
    assert_eq!(absent(30, Facts::nvswitch(100, 72, 1), Operation::AllReduce, Algorithm::Nvls), None);
    let one_gpu = || Facts::nvswitch(90, 1, 8);
    assert_eq!(absent(22, one_gpu(), gather, Algorithm::Pat), Some(Reason::Since(Version::v2(23))));
    assert_eq!(absent(23, one_gpu(), gather, Algorithm::Pat), None);
    assert_eq!(absent(30, h100(2), gather, Algorithm::Pat), Some(Reason::SeveralGpusPerNode));
    assert_eq!(absent(30, h100(2), Operation::AllReduce, Algorithm::Nvls), Some(Reason::NoOffload));
    assert_eq!(absent(30, h100(1), Operation::AllReduce, Algorithm::NvlsTree), Some(Reason::OneNode));
}

#[test]
fn ll128_needs_near_nics() {
    use crate::nccl::PathType;
    let offered = |cap, class, near, knob: Option<&str>| {
        let mut knobs = Knobs::default();
        if let Some(value) = knob {
            knobs.set("NCCL_LL128_C2C", value).unwrap();
        }
        let facts = Facts { nic_path: class, gpus_near_nic: near, ..Facts::nvswitch(cap, 8, 2) };
        let comm = Communicator::new(facts, Version::NEWEST, knobs).unwrap();
        comm.table(Operation::AllReduce).get(Algorithm::Ring, Protocol::Ll128).is_ok()
    };
    assert!(offered(90, PathType::Pix, 1, None));
    assert!(!offered(90, PathType::Phb, 1, None));
    assert!(offered(80, PathType::Pix, 2, None));
    assert!(!offered(80, PathType::Pix, 1, None), "an Ampere ring over PXN");
    assert!(!offered(90, PathType::Pix, 1, Some("0")));
}

#[test]
fn reduction_in_the_network() {
    let facts = || Facts { collnet: true, ..h100(4) };
    let direct = cost(30, facts(), Operation::AllReduce, Algorithm::CollNetDirect, Protocol::Simple);
    assert!((direct.latency_us - (2.0 * (3.7 + 0.4 * 7.0) + 31.0)).abs() < 1e-9);
    let chain = cost(30, facts(), Operation::AllReduce, Algorithm::CollNetChain, Protocol::Simple);
    assert!((chain.latency_us - (2.0 * 7.0 * 2.8 + 30.0)).abs() < 1e-9);
    let nvls = cost(30, facts(), Operation::AllReduce, Algorithm::Nvls, Protocol::Simple);
    assert_eq!(nvls.latency_us, 25.0 + 18.0);
}

/// What each release changed, as (release, figure of the one before, figure since).
#[test]
fn each_release_against_the_one_before() {
    use crate::nccl::{HostCpu, nvlink_gbps, search_as};
    let b200 = |nodes| Facts::nvswitch(100, 8, nodes);
    let on = |cpu, facts: Facts| Facts { cpu, ..facts };
    let all = Operation::AllReduce;
    let bw = |minor, facts, algorithm, protocol| cost(minor, facts, all, algorithm, protocol).bandwidth_gbps;
    let lat = |minor, facts, algorithm, protocol| cost(minor, facts, all, algorithm, protocol).latency_us;
    let near = |what: &str, got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-9, "{what}: {got}, not {want}");

    // 2.19: an NVLink 4 counts 20.6; NVLSTree's ratio is 5/6 in place of 0.70 n / (2 (n − 1)).
    assert_eq!([18, 19].map(|minor| nvlink_gbps(90, Version::v2(minor))), [20.0, 20.6]);
    for (nodes, before) in [(2, 0.7), (4, 0.7 * 4.0 / 6.0)] {
        let tree = |minor| bw(minor, h100(nodes), Algorithm::NvlsTree, Protocol::Simple);
        near("2.19 nvls_tree", tree(18) / tree(19), before / (5.0 / 6.0));
    }
    // 2.21: 11 GB/s is a speed inside a node; LL on several nodes of a fast ring has half of it in place of a quarter.
    let slow = Facts::pcie(90, 4, 1, 22.0, 0.0);
    let ring = |minor| search_as(&slow, Version::v2(minor)).ring;
    assert_eq!([20, 21].map(|minor| (ring(minor).channels, ring(minor).bw_intra)), [(1, 20.0), (2, 11.0)]);
    let narrow = || Facts { nics_per_node: 1, ..h100(2) };
    let ll = |minor| bw(minor, narrow(), Algorithm::Ring, Protocol::Ll);
    near("2.21 ring LL", ll(21) / ll(20), 2.0);
    // 2.23: with one GPU a node LL128 loses its penalty of 0.7 / 0.92, and the network's hop is the tree's.
    let lone = || Facts::nvswitch(90, 1, 8);
    let ll128 =
        |minor| bw(minor, Facts { nic_path: crate::nccl::PathType::Pix, ..lone() }, Algorithm::Ring, Protocol::Ll128);
    near("2.23 ring LL128", ll128(23) / ll128(22), 0.92 / 0.7);
    near("2.23 ring LL", lat(22, lone(), Algorithm::Ring, Protocol::Ll), 6.6 + 14.0 * 2.7);
    near("2.23 ring LL", lat(23, lone(), Algorithm::Ring, Protocol::Ll), 6.6 + 14.0 * 5.0);
    // 2.24: PAT is planned at 0.75 in place of 0.85; hosts of both makers take AMD's row.
    let pat = |minor| cost(minor, lone(), Operation::AllGather, Algorithm::Pat, Protocol::Simple).bandwidth_gbps;
    near("2.24 pat", pat(24) / pat(23), 0.75 / 0.85);
    let mixed = |minor| bw(minor, on(HostCpu::Mixed, h100(2)), Algorithm::Ring, Protocol::Ll);
    near("2.24 mixed hosts", mixed(24) / mixed(23), 22.5 / 39.0);
    // 2.25: Blackwell has rows of its own and 64 channels.
    assert_eq!([24, 25, 26].map(|minor| nvlink_gbps(100, Version::v2(minor))), [20.6, 40.0, 40.1]);
    assert_eq!([24, 25].map(|minor| Version::v2(minor).max_channels()), [32, 64]);
    near("2.25 ring LL", bw(25, b200(1), Algorithm::Ring, Protocol::Ll), 282.0 * 8.0 / 14.0);
    near("2.24 ring LL", bw(24, b200(1), Algorithm::Ring, Protocol::Ll), 141.0 * 8.0 / 14.0);
    // 2.26: NVLS gathers over nodes are held to 0.9 of the NIC.
    let sharp = || Facts { collnet: true, ..h100(4) };
    let gather = |minor| cost(minor, sharp(), Operation::AllGather, Algorithm::Nvls, Protocol::Simple).bandwidth_gbps;
    assert!(gather(26) <= gather(25));
    // 2.28: NVLSTree's hop and caps, Blackwell's LL128 and trees.
    let tree = |minor, nodes| lat(minor, h100(nodes), Algorithm::NvlsTree, Protocol::Simple);
    near("2.28 nvls_tree", tree(27, 4), 25.0 + 4.0 * 14.0);
    near("2.28 nvls_tree", tree(28, 4), 25.0 + 4.0 * 20.9);
    let graph = |minor: u32, facts: Facts| {
        let comm = Communicator::new(facts, Version::v2(minor), Knobs::default()).unwrap();
        f64::from(comm.graphs().tree.channels)
            * if comm.graphs().tree.pattern == crate::nccl::Pattern::Tree { 0.85 } else { 1.0 }
    };
    let two = |minor| bw(minor, b200(2), Algorithm::Tree, Protocol::Ll128) * 2.0 / graph(minor, b200(2));
    assert!(two(27) > 31.67 && (two(28) - 31.67).abs() < 1e-9, "{} {}", two(27), two(28));
    // 2.29: Blackwell's rings of LL128 at 40 on one node too; trees of NVLS have a correction by size on x86.
    let ring = |minor| bw(minor, b200(1), Algorithm::Ring, Protocol::Ll128);
    assert!(ring(29) <= ring(28));
    let at = |minor, cpu| {
        let comm = Communicator::new(on(cpu, b200(2)), Version::v2(minor), Knobs::default()).unwrap();
        comm.predict_us(all, Algorithm::NvlsTree, Protocol::Simple, 1 << 20).unwrap()
    };
    assert!(at(29, HostCpu::Intel) > at(28, HostCpu::Intel));
    assert_eq!(at(29, HostCpu::Arm), at(28, HostCpu::Arm));
    // 2.30: a channel of Blackwell's NVLSTree over more than two nodes at 80 in place of 43.8 GB/s.
    let many = |minor| {
        bw(minor, Facts { nic_gbps: 100.0, nic_pci_gbps: 96.0, ..b200(4) }, Algorithm::NvlsTree, Protocol::Simple)
    };
    assert!(many(30) > 1.5 * many(29), "{} {}", many(29), many(30));
}
