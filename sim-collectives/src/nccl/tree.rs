//! The double binary tree over nodes (`src/graph/trees.cc`).

use serde::{Deserialize, Serialize};

/// One node's place in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// The node that it sends its reduction to; `None` at the root.
    pub parent: Option<u32>,
    /// The nodes that it receives from.
    pub children: [Option<u32>; 2],
}

impl TreeNode {
    /// The children that exist.
    pub fn children(&self) -> impl Iterator<Item = u32> + use<> {
        self.children.into_iter().flatten()
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        self.children[0].is_none() && self.children[1].is_none()
    }
}

/// The two trees over `n` nodes. Channels of the first half use tree 0, the others tree 1; every node is inner in at
/// most one of them, so each sends and receives about as much.
///
/// Tree 1 is the mirror image of tree 0 for an even n, and tree 0 shifted by one node for an odd n.
#[must_use]
pub fn double_binary_tree(n: u32) -> [Vec<TreeNode>; 2] {
    let first: Vec<TreeNode> = (0..n).map(|rank| place(rank, n)).collect();
    let map = |node: &TreeNode, f: &dyn Fn(u32) -> u32| TreeNode {
        parent: node.parent.map(f),
        children: node.children.map(|child| child.map(f)),
    };
    let second = (0..n)
        .map(|rank| {
            if n.is_multiple_of(2) {
                map(&first[(n - 1 - rank) as usize], &|r| n - 1 - r)
            } else {
                map(&first[((rank + n - 1) % n) as usize], &|r| (r + 1) % n)
            }
        })
        .collect();
    [first, second]
}

/// The place of `rank` in tree 0: its lowest set bit is its height.
fn place(rank: u32, n: u32) -> TreeNode {
    if rank == 0 {
        // The root has one child, the largest power of two below n.
        let child = (n > 1).then(|| 1 << (n - 1).ilog2());
        return TreeNode { parent: None, children: [None, child] };
    }
    let bit = rank & rank.wrapping_neg();
    let cleared = rank ^ bit;
    let up = u64::from(cleared) | (u64::from(bit) << 1);
    let parent = if up < u64::from(n) { up as u32 } else { cleared };
    let mut offset = bit / 2;
    let left = (offset > 0).then(|| rank - offset);
    while offset > 0 && n - rank <= offset {
        offset /= 2;
    }
    TreeNode { parent: Some(parent), children: [left, (offset > 0).then(|| rank + offset)] }
}
