//! The data-flow checker: plays the lanes of an algorithm with sets of contributions in place of data, and proves that
//! every rank ends with every contribution exactly once.
//!
//! It knows no time: any order that respects connections and barriers gives the same result, since each connection has
//! one order. A schedule that can't go on (a missing send, a wait in a cycle) is found as well.

mod play;

use std::collections::BTreeMap;

use crate::lanes::Lanes;
use crate::nccl::Operation;
use play::Key;
pub use play::play;

/// Most ranks that can be checked.
pub const MAX_RANKS: u32 = 128;

/// Contributions to a block: a bit per rank whose input is in it, and one per rank whose input is in it twice or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contributions {
    once: u128,
    twice: u128,
}

impl Contributions {
    /// The input of one rank.
    #[must_use]
    pub const fn of(rank: u32) -> Self {
        Self { once: 1 << (rank % MAX_RANKS), twice: 0 }
    }

    /// The inputs of ranks 0 to `n` − 1, once each.
    #[must_use]
    pub const fn everyone(n: u32) -> Self {
        Self { once: if n >= MAX_RANKS { u128::MAX } else { (1 << n) - 1 }, twice: 0 }
    }

    /// Adds `other`'s.
    pub const fn add(&mut self, other: Self) {
        self.twice |= other.twice | self.once & other.once;
        self.once |= other.once;
    }

    /// The lowest rank.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.once.trailing_zeros()
    }

    fn text(self) -> String {
        let list =
            |mask: u128| (0..MAX_RANKS).filter(|r| mask >> r & 1 == 1).map(|r| r.to_string()).collect::<Vec<_>>();
        let twice = list(self.twice);
        let more = if twice.is_empty() { String::new() } else { format!(" (more than once: {})", twice.join(", ")) };
        format!("the input of ranks {}{more}", list(self.once).join(", "))
    }
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// Some lanes can't go on.
    #[error("{lanes} lanes wait for messages that never come, the first of them rank {rank} on channel {channel}")]
    Stuck {
        /// How many lanes.
        lanes: usize,
        /// The rank of the first.
        rank: u32,
        /// Its channel.
        channel: u32,
    },
    /// A message holds other blocks than its receiver takes it for.
    #[error("rank {rank} on channel {channel} takes a message for block {expected}, and it holds block {found}")]
    Mixed {
        /// The rank.
        rank: u32,
        /// Its channel.
        channel: u32,
        /// What it holds.
        found: u64,
        /// What the receiver takes it for.
        expected: u64,
    },
    /// Messages are left that nobody received.
    #[error("{messages} messages were sent and never received")]
    Unreceived {
        /// How many.
        messages: usize,
    },
    /// A rank ends with the wrong data.
    #[error("rank {rank} ends with {found} in block {block} of channel {channel}, loop {turn}; expected {expected}")]
    Wrong {
        /// The rank.
        rank: u32,
        /// The channel.
        channel: u32,
        /// The loop.
        turn: u32,
        /// The block.
        block: u64,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
}

/// Plays `lanes` and proves that they do what `operation` promises.
///
/// # Errors
/// If they do not; the error names the first rank and block that is wrong.
pub fn check(operation: Operation, lanes: &Lanes, root: u32) -> Result<(), FlowError> {
    let stored = play(lanes)?;
    let n = lanes.ranks;
    let everyone = Contributions::everyone(n);
    let mut blocks: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    for (rank, list) in stored.iter().enumerate() {
        list.keys().for_each(|key| blocks.entry(*key).or_default().push(rank as u32));
    }
    let expect = |rank: u32, key: Key, expected: Option<&Contributions>| {
        let found = stored[rank as usize].get(&key);
        if found == expected {
            return Ok(());
        }
        let (channel, turn, block) = key;
        let text = |c: Option<&Contributions>| c.map_or("nothing".to_owned(), |c| c.text());
        Err(FlowError::Wrong { rank, channel, turn, block, found: text(found), expected: text(expected) })
    };
    for (key, holders) in blocks {
        match operation {
            Operation::AllReduce => {
                for rank in 0..n {
                    expect(rank, key, Some(&everyone))?;
                }
            }
            Operation::Barrier => {
                for rank in 0..n {
                    // Hearing of someone twice does no harm.
                    let heard = stored[rank as usize].get(&key).filter(|c| c.once == everyone.once);
                    expect(rank, key, Some(heard.unwrap_or(&everyone)))?;
                }
            }
            Operation::AllGather | Operation::Dispatch | Operation::Broadcast => {
                // Everyone holds the same single contribution: the root's, or the block's owner's.
                let owner = match operation {
                    Operation::Broadcast => Contributions::of(root),
                    _ => Contributions::of(stored[holders[0] as usize][&key].first()),
                };
                for rank in 0..n {
                    expect(rank, key, Some(&owner))?;
                }
            }
            Operation::ReduceScatter | Operation::Combine => {
                for rank in 0..n {
                    expect(rank, key, (rank == holders[0]).then_some(&everyone))?;
                }
            }
            Operation::Reduce => {
                for rank in 0..n {
                    expect(rank, key, (rank == root).then_some(&everyone))?;
                }
            }
            _ => {
                // Point to point: the block names its source and its destination.
                let expected = Contributions::of(stored[holders[0] as usize][&key].first());
                for rank in holders.iter().copied() {
                    expect(rank, key, (rank == holders[0]).then_some(&expected))?;
                }
            }
        }
    }
    counts(operation, lanes, &stored, root)
}

/// That no block is missing: every rank holds as many as the operation gives it, of different owners.
fn counts(
    operation: Operation,
    lanes: &Lanes,
    stored: &[BTreeMap<Key, Contributions>],
    root: u32,
) -> Result<(), FlowError> {
    let n = lanes.ranks;
    let wrong = |rank, found: String, expected: String| {
        Err(FlowError::Wrong { rank, channel: 0, turn: 0, block: 0, found, expected })
    };
    for rank in 0..n {
        let mut owners: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for ((channel, turn, _), c) in &stored[rank as usize] {
            owners.entry((*channel, *turn)).or_default().push(c.first());
        }
        match operation {
            Operation::AllGather | Operation::Dispatch => {
                for list in owners.values_mut() {
                    list.sort_unstable();
                    if *list != (0..n).collect::<Vec<_>>() {
                        return wrong(rank, format!("blocks of ranks {list:?}"), format!("one of each of {n} ranks"));
                    }
                }
            }
            Operation::Gather if rank != root => {}
            Operation::AllToAllV => {}
            Operation::AllToAll | Operation::Gather => {
                let mut from: Vec<u32> = owners.into_values().flatten().collect();
                from.sort_unstable();
                from.dedup();
                if from.len() != n as usize {
                    return wrong(rank, format!("blocks from {} ranks", from.len()), format!("from {n}"));
                }
            }
            Operation::Reduce if rank != root => {}
            _ if stored[rank as usize].is_empty() => return wrong(rank, "nothing".into(), "its blocks".into()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::call::{Call, ChannelWork, Group, PointToPoint, Routed};
    use crate::lanes::{Own, Peers};

    fn call(group: Group, bytes: u64, channels: u32) -> Call {
        let rounds = group.ranks() as usize + 1;
        let work = |channel| ChannelWork { channel, bytes, chunk: 4096, slices: 2, min_slice: 512, slots: 4 };
        let p2p = PointToPoint {
            message: bytes,
            matrix: Vec::new(),
            part: bytes.div_ceil(2).max(1),
            channels,
            first_channel: (0..rounds as u32).map(|r| r % channels).collect(),
            step: 1024,
            slots: 8,
            batch: 8,
            relay: true,
        };
        let heads = group.nodes().iter().map(Vec::len).min().unwrap_or(1).div_ceil(2) as u32;
        let routed = Routed::even(group.nodes().len() as u32, group.ranks(), [bytes, bytes / 2, bytes]);
        let channels: Vec<ChannelWork> = (0..channels).map(work).collect();
        Call { group, second_tree: channels.len().div_ceil(2) as u32, channels, root: 0, heads, p2p, routed }
    }

    fn lanes(algorithm: &dyn algorithms::Algorithm, operation: Operation, call: &Call) -> Lanes {
        let mut lanes = Lanes::new(call.group.ranks());
        algorithm.write(operation, call, &mut lanes);
        lanes
    }

    #[test]
    fn every_algorithm_moves_every_contribution_exactly_once() {
        let mut checked = 0;
        for n in 1..=64u32 {
            let middle = (2..n).rev().find(|p| n % p == 0 && p * p <= n);
            for per_node in [1, middle.unwrap_or(n), n] {
                for bytes in [40, if n <= 16 { 5_000 * u64::from(n.min(8)) } else { 5_000 }] {
                    let mut call = call(Group::regular(n / per_node, per_node), bytes, 2);
                    call.root = n / 2;
                    for algorithm in algorithms::ALL {
                        for operation in Operation::ALL {
                            // Sends and receives are an all-to-all whatever it is called.
                            let messages = algorithm.cut() == algorithms::Cut::Messages;
                            let again =
                                matches!(operation, Operation::AllToAllV | Operation::Dispatch | Operation::Combine);
                            if algorithm.can(operation, &call) && !(messages && again) {
                                let lanes = lanes(*algorithm, operation, &call);
                                check(operation, &lanes, call.root).unwrap_or_else(|e| {
                                    panic!("{} {operation:?}, {n} ranks, {per_node} a node: {e}", algorithm.name())
                                });
                                checked += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(checked > 1500, "{checked}");
    }

    #[test]
    fn parts_go_through_the_network_where_every_rank_is_a_head() {
        for (nodes, per_node) in [(2, 1), (5, 1), (2, 2), (3, 2), (2, 8), (4, 4), (3, 5), (8, 8)] {
            for bytes in [40, 5_000, 100_000] {
                let call = Call { heads: per_node, ..call(Group::regular(nodes, per_node), bytes, 2) };
                for name in ["nvls", "collnet_direct"] {
                    let algorithm = algorithms::by_name(name).unwrap();
                    for operation in [Operation::AllGather, Operation::ReduceScatter] {
                        assert_eq!(algorithm.can(operation, &call), name != "nvls" || per_node > 1);
                        if algorithm.can(operation, &call) {
                            check(operation, &lanes(algorithm, operation, &call), 0)
                                .unwrap_or_else(|e| panic!("{name} {operation}, {nodes} x {per_node}: {e}"));
                        }
                    }
                    let few = Call { heads: per_node - 1, ..call.clone() };
                    assert!(!algorithm.can(Operation::AllGather, &few), "{name}, {nodes} x {per_node}");
                }
            }
        }
    }

    #[test]
    fn tokens_arrive_whatever_each_rank_gets() {
        for (nodes, per_node) in [(1, 8), (2, 4), (4, 2), (3, 3), (8, 1)] {
            let mut call = call(Group::regular(nodes, per_node), 100_000, 2);
            let to = |n: u32| (0..n).map(|i| if i == 1 { 90_000 } else { 10_000 * u64::from(i % 3) }).collect();
            let ranks = nodes * per_node;
            call.routed = Routed { to_node: to(nodes), to_rank: to(ranks), to_experts: to(ranks) };
            assert!(call.routed.is_uneven());
            for name in ["deepep", "low_latency"] {
                let algorithm = algorithms::by_name(name).unwrap();
                for operation in [Operation::Dispatch, Operation::Combine] {
                    check(operation, &lanes(algorithm, operation, &call), 0)
                        .unwrap_or_else(|e| panic!("{name} {operation}, {nodes} x {per_node}: {e}"));
                }
            }
        }
    }

    /// Flows are numbered as connections are written, and of two that ask for a link at one instant the lower goes first. So
    /// what is written for a rank is in the order of channels, whatever the algorithm.
    #[test]
    fn connections_of_a_rank_are_written_in_the_order_of_its_channels() {
        let mut checked = 0;
        for (nodes, per_node) in [(1, 8), (2, 4), (4, 2), (8, 1), (3, 3)] {
            let call = call(Group::regular(nodes, per_node), 100_000, 4);
            for algorithm in algorithms::ALL.iter().filter(|a| a.cut() != algorithms::Cut::Messages) {
                for operation in Operation::ALL.into_iter().filter(|op| algorithm.can(*op, &call)) {
                    let mut last = BTreeMap::new();
                    for connection in &lanes(*algorithm, operation, &call).connections {
                        if let Peers::Pair { from, .. } = connection.peers {
                            let before = last.insert(from, connection.channel).unwrap_or(0);
                            let name = algorithm.name();
                            assert!(before <= connection.channel, "{name} {operation:?}, {nodes} x {per_node}: {from}");
                            checked += 1;
                        }
                    }
                }
            }
        }
        assert!(checked > 1000, "{checked}");
    }

    #[test]
    fn messages_of_any_sizes_arrive_where_they_belong() {
        for n in [1, 2, 3, 8, 13, 24] {
            let mut call = call(Group::regular(1, n), 0, 2);
            // Some are empty, some are no whole grains.
            call.p2p.matrix = (0..u64::from(n * n)).map(|i| if i % 5 == 3 { 0 } else { i * 37 % 400 }).collect();
            call.p2p.message = call.p2p.matrix.iter().copied().max().unwrap();
            call.p2p.part = call.p2p.message.div_ceil(2).max(1);
            let pairwise = algorithms::by_name("pairwise").unwrap();
            let lanes = lanes(pairwise, Operation::AllToAllV, &call);
            check(Operation::AllToAllV, &lanes, 0).unwrap_or_else(|e| panic!("{n} ranks: {e}"));
            let stored = play(&lanes).unwrap();
            for (rank, blocks) in stored.iter().enumerate() {
                // Every byte, up to the grain of 16, from the rank that it is due from.
                for from in 0..n {
                    let due = call.p2p.matrix[(from * n) as usize + rank];
                    let parts = (0..2).map(|p| call.p2p.part_of(from, rank as u32, p, n));
                    assert_eq!(parts.clone().sum::<u64>(), due);
                    let grains: u64 = parts.map(|p| p.div_ceil(16)).sum();
                    let got = blocks.values().filter(|c| **c == Contributions::of(from)).count() as u64;
                    assert_eq!(got, grains, "{n} ranks, {from} to {rank}");
                }
            }
        }
    }

    #[test]
    fn a_message_that_is_taken_for_another_is_found() {
        let call = call(Group::regular(1, 4), 100_000, 1);
        let mut lanes = lanes(algorithms::by_name("ring").unwrap(), Operation::AllGather, &call);
        lanes.lanes[2].ops[1].chunk = (lanes.lanes[2].ops[1].chunk + 1) % 4;
        assert!(matches!(check(Operation::AllGather, &lanes, 0), Err(FlowError::Mixed { rank: 2, .. })));
    }

    #[test]
    fn faults_are_found() {
        let call = call(Group::regular(1, 4), 100_000, 1);
        let ring = algorithms::by_name("ring").unwrap();
        let good = lanes(ring, Operation::AllReduce, &call);
        assert_eq!(check(Operation::AllReduce, &good, 0), Ok(()));

        let mut missing = good.clone();
        missing.lanes[2].ops.remove(0);
        assert!(matches!(check(Operation::AllReduce, &missing, 0), Err(FlowError::Stuck { .. })));

        let mut twice = good.clone();
        twice.lanes[1].ops[3].action.adds = Own::Input;
        assert!(matches!(check(Operation::AllReduce, &twice, 0), Err(FlowError::Wrong { .. })));

        let mut left = good;
        left.lanes[3].ops.pop();
        assert!(matches!(check(Operation::AllReduce, &left, 0), Err(FlowError::Unreceived { .. })));
    }
}
