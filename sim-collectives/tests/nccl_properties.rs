//! What holds for any size, rank count and machine.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sim_collectives::nccl::{
    Algorithm, ChannelCursor, Chunking, Communicator, CrossNic, Facts, HostCpu, Knobs, Operation, PathType, Protocol,
    TreeNode, Version, double_binary_tree, p2p_rounds, qp_split, ring_loops, search, slices_of_chunk, split,
};

/// Nodes that a walk from the root meets, and whether parent and children agree.
fn walk(tree: &[TreeNode]) -> Vec<u32> {
    let roots: Vec<u32> = (0..tree.len() as u32).filter(|&r| tree[r as usize].parent.is_none()).collect();
    assert_eq!(roots.len(), 1, "one root");
    let mut seen = Vec::new();
    let mut open = roots;
    while let Some(node) = open.pop() {
        seen.push(node);
        assert!(seen.len() <= tree.len(), "a cycle");
        for child in tree[node as usize].children() {
            assert_eq!(tree[child as usize].parent, Some(node), "child {child} of {node}");
            open.push(child);
        }
    }
    seen.sort_unstable();
    seen
}

#[test]
fn both_trees_reach_every_node_once() {
    for n in 1..=256_u32 {
        let trees = double_binary_tree(n);
        for tree in &trees {
            assert_eq!(walk(tree), (0..n).collect::<Vec<_>>(), "{n} nodes");
        }
        for r in 0..n as usize {
            let inner = trees.iter().filter(|tree| tree[r].children().count() == 2).count();
            assert!(inner <= 1, "node {r} of {n} has two children in both trees");
            if n > 2 {
                let working = trees.iter().filter(|tree| !tree[r].is_leaf() && tree[r].parent.is_some()).count();
                assert!(working <= 1, "node {r} of {n} is inner in both trees");
            }
        }
    }
}

#[test]
fn trees_are_balanced() {
    for n in 2..=256_u32 {
        for tree in double_binary_tree(n) {
            for start in 0..n {
                let mut depth = 0;
                let mut node = start;
                while let Some(parent) = tree[node as usize].parent {
                    node = parent;
                    depth += 1;
                }
                assert!(depth <= n.ilog2() + 1, "{start} of {n}: depth {depth}");
            }
        }
    }
}

#[test]
fn sends_and_receives_meet() {
    for (nodes, gpus) in [(1, 1), (1, 8), (1, 72), (2, 8), (3, 8), (5, 12), (16, 4), (7, 1), (2, 72), (3, 7), (2, 11)] {
        let ranks = nodes * gpus;
        let all: Vec<Vec<(u32, u32)>> = (0..ranks).map(|rank| p2p_rounds(nodes, gpus, rank)).collect();
        for (rank, rounds) in all.iter().enumerate() {
            assert_eq!(rounds[0], (rank as u32, rank as u32));
            let sends: BTreeSet<u32> = rounds.iter().map(|r| r.0).collect();
            let receives: BTreeSet<u32> = rounds.iter().map(|r| r.1).collect();
            assert_eq!((rounds.len(), sends.len(), receives.len()), (ranks as usize, ranks as usize, ranks as usize));
            for (round, &(to, _)) in rounds.iter().enumerate() {
                assert_eq!(all[to as usize][round].1, rank as u32, "{nodes}x{gpus} round {round}: {rank} to {to}");
            }
        }
    }
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop::sample::select(Protocol::ALL.to_vec())
}

fn collective() -> impl Strategy<Value = Operation> {
    prop::sample::select(Operation::COLLECTIVES.to_vec())
}

prop_compose! {
    fn machine()(
        cap in prop::sample::select(vec![70, 80, 86, 90, 100, 120]),
        gpus in 1..=72_u32,
        nodes in 1..=64_u32,
        nvswitch in any::<bool>(),
        nics in 1..=16_u32,
        nic in prop::sample::select(vec![0.1, 1.25, 12.5, 25.0, 50.0, 100.0]),
        pxn in any::<bool>(),
        cross in prop::sample::select(vec![CrossNic::Never, CrossNic::Always, CrossNic::Auto]),
        cpu in prop::sample::select(HostCpu::ALL.to_vec()),
        near in prop::sample::select(vec![PathType::Pix, PathType::Pxb, PathType::Phb, PathType::Sys]),
        collnet in any::<bool>(),
    ) -> Facts {
        let facts = if nvswitch { Facts::nvswitch(cap, gpus, nodes) } else { Facts::pcie(cap, gpus, nodes, 24.0, nic) };
        Facts { nics_per_node: nics, nic_gbps: nic, pxn, cross_nic: cross, cpu, nic_path: near, collnet, ..facts }
    }
}

proptest! {
    #[test]
    fn a_split_conserves_bytes(
        elements in 0..1_u64 << 34,
        element in prop::sample::select(vec![1, 2, 4, 8]),
        traffic in 1..2048_u64,
        protocol in protocol(),
        channels in 1..=64_u32,
    ) {
        let bytes = elements * element;
        let split = split(bytes, element, traffic, protocol, channels);
        prop_assert_eq!(split.total(), bytes);
        prop_assert!(split.channels <= channels);
        let mut next = 0;
        for part in split.parts() {
            prop_assert_eq!(part.offset, next);
            prop_assert!(part.bytes > 0, "empty part in {:?}", split);
            prop_assert_eq!(part.bytes % element, 0);
            next += part.bytes;
        }
    }

    #[test]
    fn a_group_of_calls_stays_on_its_channels(
        sizes in prop::collection::vec(0..1_u64 << 28, 1..20),
        traffic in 1..256_u64,
        channels in 1..=64_u32,
    ) {
        let total = sizes.iter().map(|s| (s * traffic).max(32 << 10)).sum();
        let mut cursor = ChannelCursor::new(total, channels);
        let mut last = 0;
        for &bytes in &sizes {
            let split = cursor.place(bytes, 1, traffic, Protocol::Simple);
            prop_assert_eq!(split.total(), bytes);
            prop_assert!(split.first_channel >= last);
            prop_assert!(split.first_channel + split.channels <= channels, "{:?}", split);
            last = split.first_channel;
        }
    }

    #[test]
    fn loops_and_slices_cover_the_data_exactly(
        bytes in 0..1_u64 << 32,
        chunk in prop::sample::select(vec![16_384, 32_768, 576_000, 2_097_152_u64]),
        ranks in 1..=128_u32,
    ) {
        let loops = ring_loops(bytes, chunk, ranks);
        let chunking = Chunking { chunk, slices: 2, slice: chunk / 2, min_slice: chunk / 64, slice_steps: 2, steps: 8 };
        let mut sum = 0;
        // All full loops are alike: two of them and the last stand for the rest.
        let looked_at = (0..loops.loops.min(2)).chain(loops.loops.saturating_sub(1).max(2)..loops.loops);
        let mut loops_seen = 0;
        for l in looked_at {
            loops_seen += 1;
            for i in 0..ranks {
                let part = loops.chunk_bytes(l, i);
                prop_assert!(part <= chunk);
                prop_assert_eq!(slices_of_chunk(part, &chunking).iter().sum::<u64>(), part);
                sum += part;
            }
        }
        let skipped = (loops.loops - loops_seen) * chunk * u64::from(ranks);
        prop_assert_eq!(sum + skipped, bytes);
        prop_assert_eq!(loops.loops == 0, bytes == 0);
    }

    #[test]
    fn queue_pairs_share_all_bytes(bytes in 0..1_u64 << 40, qps in 0..=128_u32) {
        let parts = qp_split(bytes, qps);
        prop_assert_eq!(parts.len(), qps.max(1) as usize);
        prop_assert_eq!(parts.iter().sum::<u64>(), bytes);
    }

    #[test]
    fn any_machine_gets_channels_and_a_choice(
        facts in machine(),
        minor in 18..=30_u32,
        operation in collective(),
        bytes in prop_oneof![0..1_u64 << 20, 0..1_u64 << 40, Just(u64::MAX)],
    ) {
        let version = Version::new(2, minor).unwrap();
        let comm = Communicator::new(facts, version, Knobs::default()).unwrap();
        prop_assert!((1..=version.max_channels()).contains(&comm.channels()));
        if comm.ranks() == 1 {
            prop_assert!(comm.choose(operation, bytes).is_err());
            return Ok(());
        }
        for (algorithm, protocol, entry) in comm.table(operation).entries() {
            if let Ok(cost) = entry {
                prop_assert!(cost.latency_us.is_finite() && cost.latency_us > 0.0, "{algorithm}/{protocol}: {cost:?}");
                prop_assert!(cost.bandwidth_gbps.is_finite() && cost.bandwidth_gbps > 0.0, "{algorithm}/{protocol}: {cost:?}");
            }
        }
        let choice = comm.choose(operation, bytes).unwrap();
        prop_assert!(choice.channels >= 1 && choice.channels <= 64);
        prop_assert!(choice.threads >= 96 && choice.threads <= 1056);
        for candidate in Algorithm::ALL.into_iter().flat_map(|a| Protocol::ALL.map(|p| (a, p))) {
            if let Some(time) = comm.predict_us(operation, candidate.0, candidate.1, bytes) {
                prop_assert!(choice.time_us <= time);
            }
        }
        let chunking = comm.chunking(operation, choice.algorithm, choice.protocol, bytes, choice.channels);
        prop_assert!(chunking.chunk > 0 && chunking.slice > 0 && chunking.in_flight() >= 1);
        prop_assert_eq!(chunking.chunk % choice.protocol.grain(), 0);
        let plan = comm.p2p();
        prop_assert!(plan.channels.is_power_of_two() && plan.per_peer <= plan.channels);
        let ranges = plan.part_ranges(bytes);
        prop_assert_eq!(ranges.iter().map(|r| u128::from(r.1)).sum::<u128>(), u128::from(bytes));
        prop_assert!(plan.channel(3, 1) < plan.channels);
    }

    #[test]
    fn a_faster_network_never_makes_slower_rings(facts in machine()) {
        let facts = Facts { nodes: facts.nodes.max(2), ..facts };
        let slower = search(&facts).ring.total_inter();
        let faster = Facts { nic_gbps: facts.nic_gbps * 2.0, nic_pci_gbps: facts.nic_pci_gbps * 2.0, ..facts };
        // Listed speeds are coarse, so a step down of a few percent can come with a faster first speed.
        prop_assert!(search(&faster).ring.total_inter() >= 0.9 * slower);
    }

    #[test]
    fn no_text_upsets_the_variables(name in "(NCCL_[A-Z_]{0,20}|\\PC{0,12})", value in "\\PC{0,24}") {
        let _ = Knobs::default().set(&name, &value);
        for knob in sim_collectives::nccl::Knob::ALL {
            let _ = Knobs::default().set(knob.name(), &value);
        }
    }
}
