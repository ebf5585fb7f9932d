//! A collective call after selection: who takes part, how the data are divided over channels, and in what chunks.

use sim_core::program::Layout;

/// The ranks of a communicator and how they lie on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Ranks of each node (an NVLink-connected host, or a whole multi-node NVLink domain), in order.
    nodes: Vec<Vec<u32>>,
    ranks: u32,
    /// Given orders of all ranks, by channel; NCCL's usual ones if empty.
    rings: Vec<Vec<u32>>,
    /// Places in a node at which channels begin, in turn: the GPUs near its NICs; all if empty.
    starts: Vec<u32>,
    /// Whether rings leave a node by another NIC than they entered.
    swaps_nics: bool,
}

impl Group {
    /// `nodes` nodes of `per_node` ranks, numbered node by node.
    #[must_use]
    pub fn regular(nodes: u32, per_node: u32) -> Self {
        let list = (0..nodes).map(|n| (n * per_node..(n + 1) * per_node).collect()).collect();
        Self { nodes: list, ranks: nodes * per_node, rings: Vec::new(), starts: Vec::new(), swaps_nics: false }
    }

    /// Ranks that lie on nodes as `node_of` says of each member; nodes in order of their first rank.
    #[must_use]
    pub fn by<T>(members: &[T], node_of: impl Fn(&T) -> u32) -> Self {
        let mut place = std::collections::BTreeMap::new();
        let mut nodes: Vec<Vec<u32>> = Vec::new();
        for (rank, member) in members.iter().enumerate() {
            let index = *place.entry(node_of(member)).or_insert(nodes.len());
            if index == nodes.len() {
                nodes.push(Vec::new());
            }
            nodes[index].push(rank as u32);
        }
        Self { nodes, ranks: members.len() as u32, rings: Vec::new(), starts: Vec::new(), swaps_nics: false }
    }

    /// The ranks of each node, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Vec<u32>] {
        &self.nodes
    }

    /// Whether nodes have equally many ranks, numbered node by node.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        let per_node = self.nodes[0].len();
        self.nodes.iter().all(|node| node.len() == per_node) && self.nodes.iter().flatten().copied().eq(0..self.ranks)
    }

    /// Number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The place of `rank` within its node.
    #[must_use]
    pub fn place(&self, rank: u32) -> u32 {
        let place = |node: &Vec<u32>| node.iter().position(|r| *r == rank);
        // Regular groups, the usual case, need no search.
        let width = self.nodes[0].len() as u32;
        let guess = self.nodes.get((rank / width.max(1)) as usize).and_then(|n| n.get((rank % width.max(1)) as usize));
        if guess == Some(&rank) {
            return rank % width;
        }
        self.nodes.iter().find_map(place).unwrap_or(0) as u32
    }

    /// Takes rings as they are given: each an order of all ranks, or of the ranks of a node by their place in it, which
    /// then holds for every node. `Some` is the first that is neither.
    pub fn take_rings(&mut self, orders: &[Vec<u32>]) -> Option<usize> {
        let mut rings = Vec::with_capacity(orders.len());
        for (channel, order) in orders.iter().enumerate() {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if !sorted.iter().enumerate().all(|(i, &member)| i as u32 == member) {
                return Some(channel);
            }
            if order.len() == self.ranks as usize {
                rings.push(order.clone());
            } else if !order.is_empty() && self.nodes.iter().all(|node| node.len() == order.len()) {
                let ring = self.nodes.iter().flat_map(|node| order.iter().map(|&place| node[place as usize]));
                rings.push(ring.collect());
            } else {
                return Some(channel);
            }
        }
        self.rings = rings;
        None
    }

    /// Lets rings leave a node by the NIC of their last GPU in place of the one that they entered by (`NCCL_CROSS_NIC`).
    pub const fn swap_nics(&mut self) {
        self.swaps_nics = true;
    }

    /// Whether the ring of `channel` leaves nodes by the NIC of its last GPU.
    #[must_use]
    pub fn swaps_nics(&self, channel: u32) -> bool {
        self.swaps_nics && self.nodes.len() > 1 && self.given(channel).is_none()
    }

    /// The ring order of `channel`: in each node it starts at another GPU (the one near the channel's NIC), goes through
    /// all GPUs in order, and on to the next node.
    ///
    /// Where NICs are swapped, channels come in pairs that go through a node in opposite directions, and through every
    /// other node the other way round, so that what leaves on a rail arrives on it.
    #[must_use]
    pub fn ring(&self, channel: u32) -> Vec<u32> {
        match self.given(channel) {
            Some(ring) => ring.clone(),
            None if self.swaps_nics(channel) => {
                let of = |(at, node): (usize, &Vec<u32>)| Self::swapped(node, channel, at);
                self.nodes.iter().enumerate().flat_map(of).collect()
            }
            None => self.nodes.iter().flat_map(|node| self.usual(node, channel)).collect(),
        }
    }

    /// The GPUs of a node in the order of `channel`'s chain.
    #[must_use]
    pub fn chain(&self, node: &[u32], channel: u32) -> Vec<u32> {
        match self.given(channel) {
            Some(ring) => ring.iter().copied().filter(|rank| node.contains(rank)).collect(),
            None => self.usual(node, channel).collect(),
        }
    }

    fn given(&self, channel: u32) -> Option<&Vec<u32>> {
        self.rings.get(channel as usize % self.rings.len().max(1))
    }

    /// Channels begin at these places of every node, in turn, since their data come in and go out by NICs there.
    pub(crate) fn begin_at(&mut self, starts: Vec<u32>) {
        self.starts = starts;
    }

    /// The place in a node of the GPU by whose NIC `channel` leaves it.
    #[must_use]
    pub fn rail(&self, channel: u32) -> u32 {
        self.starts.get(channel as usize % self.starts.len().max(1)).copied().unwrap_or(channel)
    }

    /// From the GPU of the pair's first rail down to that of its second, or back.
    fn swapped(node: &[u32], channel: u32, at: usize) -> Vec<u32> {
        let n = node.len();
        let first = channel as usize / 2 * 2 % n.max(1);
        let mut order: Vec<u32> = (0..n).map(|i| node[(first + n - i) % n]).collect();
        if (channel as usize + at) % 2 == 1 {
            order.reverse();
        }
        order
    }

    fn usual<'a>(&self, node: &'a [u32], channel: u32) -> impl Iterator<Item = u32> + use<'a> {
        let n = node.len();
        let first = self.rail(channel) as usize % n.max(1);
        (0..n).map(move |i| node[(first + i) % n])
    }
}

/// What one channel carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelWork {
    /// The channel's number; it gives the ring order and the tree.
    pub channel: u32,
    /// Bytes of the channel's part of the buffer (for all-gather and reduce-scatter, of one rank's part).
    pub bytes: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Slices of a chunk.
    pub slices: u32,
    /// Least bytes of a slice.
    pub min_slice: u64,
    /// How many slices a sender may be ahead.
    pub slots: u16,
}

impl ChannelWork {
    /// The layout of loops of `chunks` chunks over this channel's part; the last loop shrinks its chunks so that they
    /// are equal, rounded up to 16 B.
    #[must_use]
    pub fn loops_of(&self, chunks: u32) -> Layout {
        let n = u64::from(chunks.max(1));
        let per_loop = self.chunk.max(1) * n;
        let rest = self.bytes % per_loop;
        let last = if rest == 0 { self.chunk } else { rest.div_ceil(n).next_multiple_of(16).min(self.chunk) };
        Layout {
            total: self.bytes,
            chunk: self.chunk.max(1),
            last_chunk: last.max(1),
            chunks: chunks.max(1),
            slices: self.slices.max(1),
            min_slice: self.min_slice,
        }
    }

    /// As [`loops_of`](Self::loops_of), with the data padded (by less than 16 B a chunk) so that the chunks of the last loop
    /// are equal.
    #[must_use]
    pub fn equal_loops_of(&self, chunks: u32) -> Layout {
        let layout = self.loops_of(chunks);
        let full = self.bytes / (layout.chunk * u64::from(layout.chunks));
        let whole = full * layout.chunk * u64::from(layout.chunks);
        let rest = if self.bytes == whole { 0 } else { layout.last_chunk * u64::from(layout.chunks) };
        Layout { total: whole + rest, ..layout }
    }

    /// The layout of `bytes` that go as one chunk.
    #[must_use]
    pub fn once(&self, bytes: u64) -> Layout {
        Self { bytes: bytes.max(1), chunk: bytes.max(1), ..self.clone() }.loops_of(1)
    }

    /// The layout in which every rank's part of `bytes` is cut in chunks, and a loop carries one chunk of every rank.
    #[must_use]
    pub fn parts_of(&self, ranks: u32) -> Layout {
        let n = u64::from(ranks.max(1));
        let chunk = self.chunk.max(1).min(self.bytes.max(1));
        let rest = self.bytes % chunk;
        Layout {
            total: self.bytes * n,
            chunk,
            last_chunk: if rest == 0 { chunk } else { rest },
            chunks: ranks.max(1),
            slices: self.slices.max(1),
            min_slice: self.min_slice,
        }
    }
}

/// How point-to-point messages of a grouped call are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointToPoint {
    /// Bytes from one rank to one peer; the most, where they differ.
    pub message: u64,
    /// Bytes from each rank to each, row by row; empty where all are equal.
    pub matrix: Vec<u64>,
    /// Bytes of a part; each part has a channel of its own.
    pub part: u64,
    /// Channels there are.
    pub channels: u32,
    /// The first channel of each round.
    pub first_channel: Vec<u32>,
    /// Bytes of a slice.
    pub step: u64,
    /// How many slices a sender may be ahead.
    pub slots: u16,
    /// Pairs that a channel works on at once.
    pub batch: u32,
    /// Whether messages between nodes leave by the NIC on the receiver's rail (PXN).
    pub relay: bool,
}

impl PointToPoint {
    /// Parts of a message.
    #[must_use]
    pub fn parts(&self) -> u32 {
        self.message.div_ceil(self.part.max(1)) as u32
    }

    /// Bytes of part `part` of the message from one of `ranks` ranks to another: whole 16 bytes but for the last.
    #[must_use]
    pub fn part_of(&self, from: u32, to: u32, part: u32, ranks: u32) -> u64 {
        let message = self.matrix.get(from as usize * ranks as usize + to as usize).copied().unwrap_or(self.message);
        let size = message.div_ceil(u64::from(self.parts().max(1))).next_multiple_of(16);
        message.saturating_sub(u64::from(part) * size).min(size)
    }

    /// The channel of a part in a round.
    #[must_use]
    pub fn channel(&self, round: u32, part: u32) -> u32 {
        let first = self.first_channel.get(round as usize).copied().unwrap_or(0);
        (first + part) % self.channels.max(1)
    }
}

/// A call: what [`algorithms`](crate::algorithms) turn into lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who takes part.
    pub group: Group,
    /// The channels that carry data, in order.
    pub channels: Vec<ChannelWork>,
    /// The root, of operations that have one.
    pub root: u32,
    /// Trees: channels from this number on use the second tree.
    pub second_tree: u32,
    /// GPUs of a node that talk to the network, for reduction in its switches.
    pub heads: u32,
    /// Point-to-point messages, of operations made of them.
    pub p2p: PointToPoint,
    /// Tokens to experts, of dispatch and combine.
    pub routed: Routed,
}

/// What a rank sends of its tokens in a dispatch, and gets back in a combine; alike for all senders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Bytes to each node, a token once however many of its experts are there.
    pub to_node: Vec<u64>,
    /// Bytes to each rank, a token once.
    pub to_rank: Vec<u64>,
    /// Bytes to each rank, a token once for every expert of it there.
    pub to_experts: Vec<u64>,
}

impl Routed {
    /// The same to each of `nodes` nodes and `ranks` ranks.
    #[must_use]
    pub fn even(nodes: u32, ranks: u32, [to_node, to_rank, to_experts]: [u64; 3]) -> Self {
        let alike = |bytes: u64, n: u32| vec![bytes; n as usize];
        Self { to_node: alike(to_node, nodes), to_rank: alike(to_rank, ranks), to_experts: alike(to_experts, ranks) }
    }

    /// Whether some ranks get more than others.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.to_experts.windows(2).any(|pair| pair[0] != pair[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(bytes: u64, chunk: u64) -> ChannelWork {
        ChannelWork { channel: 0, bytes, chunk, slices: 2, min_slice: 32_768, slots: 4 }
    }

    #[test]
    fn loops_are_those_of_the_library() {
        // The worked case of a channel of 44,739,243 B with chunks of 2 MiB over 8 ranks.
        let layout = work(44_739_243, 2 << 20).loops_of(8);
        assert_eq!((layout.loops(), layout.last_chunk), (3, 1_398_112));
        let layout = work(43_691, 32_768).loops_of(8);
        assert_eq!((layout.loops(), layout.last_chunk), (1, 5_472));
    }

    #[test]
    fn parts_are_equal_for_every_rank() {
        let layout = work(5000, 2048).parts_of(3);
        assert_eq!(layout.loops(), 3);
        for k in 0..3 {
            assert_eq!((0..3).map(|l| layout.chunk_bytes(l, k)).sum::<u64>(), 5000);
        }
    }

    #[test]
    fn rings_that_swap_nics_stay_on_a_rail_between_nodes() {
        let mut group = Group::regular(4, 8);
        group.swap_nics();
        let mut entered = Vec::new();
        for channel in 0..8 {
            let ring = group.ring(channel);
            let mut sorted = ring.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..32));
            for node in 0..4 {
                let (first, last) = (ring[8 * node] % 8, ring[8 * node + 7] % 8);
                assert_ne!(first, last, "channel {channel} node {node}");
                assert_eq!(last, ring[(8 * node + 8) % 32] % 8, "channel {channel} leaves node {node} on another rail");
                entered.push((node, first));
            }
        }
        // Every NIC of every node is entered by one channel of eight, and so left by one.
        entered.sort_unstable();
        entered.dedup();
        assert_eq!(entered.len(), 32);
    }

    #[test]
    fn rings_start_at_gpus_near_a_nic() {
        let mut group = Group::regular(2, 4);
        group.begin_at(vec![1, 3]);
        assert_eq!([0, 1, 2].map(|channel| group.rail(channel)), [1, 3, 1]);
        assert_eq!(group.ring(1), [3, 0, 1, 2, 7, 4, 5, 6]);
        assert_eq!(group.chain(&group.nodes()[1], 0), [5, 6, 7, 4]);
    }

    #[test]
    fn rings_start_at_another_gpu_on_every_channel() {
        let group = Group::regular(2, 4);
        assert_eq!(group.ring(0), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(group.ring(2), [2, 3, 0, 1, 6, 7, 4, 5]);
        assert_eq!(group.chain(&group.nodes()[1], 1), [5, 6, 7, 4]);
        let mut one_nic = group.clone();
        one_nic.begin_at(vec![2]);
        assert_eq!((one_nic.ring(0), one_nic.ring(1)), (vec![2, 3, 0, 1, 6, 7, 4, 5], vec![2, 3, 0, 1, 6, 7, 4, 5]));
        let mut given = group.clone();
        assert_eq!(given.take_rings(&[vec![0, 2, 1, 3], vec![7, 6, 5, 4, 3, 2, 1, 0]]), None);
        assert_eq!(given.ring(0), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(given.ring(3), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(given.chain(&[4, 5, 6, 7], 2), [4, 6, 5, 7]);
        for wrong in [vec![0, 1], vec![0, 0, 1, 2], vec![]] {
            assert_eq!(given.take_rings(&[wrong]), Some(0));
        }
    }
}
