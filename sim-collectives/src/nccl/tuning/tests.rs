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
