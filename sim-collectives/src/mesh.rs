//! Rings over GPUs that are linked directly: which orders of a node's GPUs let every channel run over links of its own.
//!
//! NCCL's search (`src/graph/search.cc`) walks over GPUs and takes the bandwidth of a channel off each link it uses. Where
//! every GPU has the same number of links, as on DGX-1 or a four-GPU board, rings that use each link once in each
//! direction exist: a closed walk over all GPUs, and the same backwards. The search here looks for such walks, as many as
//! the links allow, and is exact for the boards in the catalogue (a test holds their counts).

use sim_topology::{DeviceId, Fabric};

use crate::call::Group;
use crate::nccl::{Facts, PathType};

/// Steps after which the search keeps what it has: boards of eight GPUs need some thousands.
const MOST_STEPS: u32 = 400_000;
/// More GPUs than this in a node are not searched.
const MOST_GPUS: usize = 16;

/// The orders of the GPUs of a node, by their place in it, one a ring; empty if the nodes have no direct links, or no ring
/// runs over them alone, or nodes differ.
pub(crate) fn rings(fabric: &Fabric, gpus: &[DeviceId], group: &Group) -> Vec<Vec<u32>> {
    let links_of = |members: &Vec<u32>| -> Vec<Vec<u32>> {
        let at = |rank: u32| gpus[rank as usize];
        members.iter().map(|&a| members.iter().map(|&b| fabric.nvlinks(at(a), at(b))).collect()).collect()
    };
    let Some(first) = group.nodes().first() else { return Vec::new() };
    let switched = fabric.domain_of(gpus[first[0] as usize]).and_then(|d| fabric.nvswitch_of(d)).is_some();
    if switched || !(3..=MOST_GPUS).contains(&first.len()) {
        return Vec::new();
    }
    let links = links_of(first);
    // Nodes of a fabric are alike unless something is broken; then all are looked at only as far as there are kinds.
    if group.nodes().iter().skip(1).any(|node| node.len() != first.len() || links_of(node) != links) {
        return Vec::new();
    }
    both_ways(Search::new(&links).run())
}

/// What the search of channels may count on where rings run over direct links: one link a ring.
pub(crate) fn facts_of(facts: Facts, rings: usize, link_gbps: f64) -> Facts {
    if rings == 0 {
        return facts;
    }
    Facts {
        nvlink_total_gbps: link_gbps * rings as f64,
        nvlink_link_gbps: link_gbps,
        intra_gbps: link_gbps,
        intra_path: PathType::Nvl,
        ..facts
    }
}

/// Each ring and the same backwards: links carry as much in each direction.
fn both_ways(rings: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    let backwards = |ring: &Vec<u32>| ring.iter().rev().copied().collect::<Vec<_>>();
    rings.iter().flat_map(|ring| [ring.clone(), backwards(ring)]).collect()
}

/// A search for closed walks over all GPUs that share no link.
struct Search {
    n: usize,
    /// Links left between each pair.
    left: Vec<Vec<u32>>,
    steps: u32,
    best: Vec<Vec<u32>>,
    most: usize,
}

impl Search {
    fn new(links: &[Vec<u32>]) -> Self {
        let n = links.len();
        // A walk takes two links of each GPU.
        let most = links.iter().map(|row| row.iter().sum::<u32>() / 2).min().unwrap_or(0) as usize;
        Self { n, left: links.to_vec(), steps: 0, best: Vec::new(), most }
    }

    fn run(mut self) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        self.next_ring(&mut found);
        self.best
    }

    fn done(&self) -> bool {
        self.best.len() == self.most || self.steps >= MOST_STEPS
    }

    fn next_ring(&mut self, found: &mut Vec<Vec<u32>>) {
        if found.len() > self.best.len() {
            self.best.clone_from(found);
        }
        if !self.done() {
            self.extend(&mut vec![0], found);
        }
    }

    /// Goes on from the last GPU of `walk`, over the bundle with most links left first.
    fn extend(&mut self, walk: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
        self.steps += 1;
        if self.done() {
            return;
        }
        let Some(&at) = walk.last() else { return };
        let at = at as usize;
        if walk.len() == self.n {
            if self.left[at][0] > 0 {
                self.take(at, 0, true);
                found.push(walk.clone());
                self.next_ring(found);
                found.pop();
                self.take(at, 0, false);
            }
            return;
        }
        let mut next: Vec<usize> =
            (0..self.n).filter(|&b| self.left[at][b] > 0 && !walk.contains(&(b as u32))).collect();
        next.sort_by_key(|&b| (core::cmp::Reverse(self.left[at][b]), b));
        for b in next {
            self.take(at, b, true);
            walk.push(b as u32);
            self.extend(walk, found);
            walk.pop();
            self.take(at, b, false);
            if self.done() {
                return;
            }
        }
    }

    fn take(&mut self, a: usize, b: usize, take: bool) {
        for (a, b) in [(a, b), (b, a)] {
            if take {
                self.left[a][b] -= 1;
            } else {
                self.left[a][b] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(n: usize, pairs: &[[u32; 3]]) -> Vec<Vec<u32>> {
        let mut links = vec![vec![0; n]; n];
        for &[a, b, count] in pairs {
            links[a as usize][b as usize] = count;
            links[b as usize][a as usize] = count;
        }
        links
    }

    fn all(n: u32, count: u32) -> Vec<[u32; 3]> {
        (0..n).flat_map(|a| (a + 1..n).map(move |b| [a, b, count])).collect()
    }

    /// Checks that no link is used twice, and says how many rings there are in both directions.
    fn count(links: &[Vec<u32>]) -> usize {
        let rings = both_ways(Search::new(links).run());
        let n = links.len();
        let mut used = vec![vec![0; n]; n];
        for ring in &rings {
            let mut sorted = ring.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..n as u32), "{ring:?}");
            for i in 0..n {
                used[ring[i] as usize][ring[(i + 1) % n] as usize] += 1;
            }
        }
        for a in 0..n {
            for b in 0..n {
                assert!(used[a][b] <= links[a][b], "{a} to {b}: {} of {}", used[a][b], links[a][b]);
            }
        }
        rings.len()
    }

    #[test]
    fn boards_of_the_catalogue() {
        // DGX-1 with V100: six links of each GPU, three walks in both directions.
        let cube = [
            [0, 1, 1],
            [0, 2, 1],
            [0, 3, 2],
            [0, 4, 2],
            [1, 2, 2],
            [1, 3, 1],
            [1, 5, 2],
            [2, 3, 2],
            [2, 6, 1],
            [3, 7, 1],
            [4, 5, 1],
            [4, 6, 1],
            [4, 7, 2],
            [5, 6, 2],
            [5, 7, 1],
            [6, 7, 2],
        ];
        assert_eq!(count(&board(8, &cube)), 6);
        // Four A100: four links a pair, twelve of each GPU.
        assert_eq!(count(&board(4, &all(4, 4))), 12);
        // Four V100: two links a pair.
        assert_eq!(count(&board(4, &all(4, 2))), 6);
        // Eight GPUs, one link a pair: seven of each, so that one is left over.
        assert_eq!(count(&board(8, &all(8, 1))), 6);
    }

    #[test]
    fn no_ring_without_links_all_around() {
        assert_eq!(count(&board(4, &[[0, 1, 4], [2, 3, 4]])), 0, "bridges in pairs");
        assert_eq!(count(&board(3, &[[0, 1, 1], [1, 2, 1]])), 0, "a chain");
        assert_eq!(count(&board(3, &all(3, 1))), 2);
    }
}
