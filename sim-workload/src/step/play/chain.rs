//! Which operation each one waited for last: chains back to the beginning, of which only those are kept that something still
//! holds.

use sim_core::units::Time;

/// An operation that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// What it waited for last; [`NONE`] at the beginning.
    pub(super) before: u32,
    holders: u32,
    pub(super) rank: u32,
    pub(super) op: u32,
    /// When it began: of a call, when all had come to it.
    pub(super) from: Time,
    pub(super) to: Time,
    /// When the rank had come to it.
    pub(super) joined: Time,
    /// What the rank itself had waited for last before that, unless it was a kernel of its own.
    pub(super) own: u32,
}

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes that something holds.
#[derive(Debug, Default)]
pub(super) struct Chains {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Let go of while others are.
    later: Vec<u32>,
}

impl Chains {
    /// A node without holders, behind `before` and `own`, which it holds.
    pub(super) fn add(&mut self, node: Node) -> u32 {
        self.hold(node.before);
        self.hold(node.own);
        let node = Node { holders: 0, ..node };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            at
        } else {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        }
    }

    /// A node to add.
    pub(super) const fn node(before: u32, rank: u32, op: u32, times: [Time; 3], own: u32) -> Node {
        let [joined, from, to] = times;
        Node { before, holders: 0, rank, op, from, to, joined, own }
    }

    pub(super) fn hold(&mut self, at: u32) {
        if at != NONE {
            self.nodes[at as usize].holders += 1;
        }
    }

    /// Lets go of a node; it and those behind it that nothing else holds are forgotten.
    pub(super) fn release(&mut self, mut at: u32) {
        loop {
            while at != NONE {
                let node = &mut self.nodes[at as usize];
                node.holders = node.holders.saturating_sub(1);
                if node.holders > 0 {
                    break;
                }
                let (before, own) = (node.before, node.own);
                self.free.push(at);
                if own != NONE {
                    self.later.push(own);
                }
                at = before;
            }
            match self.later.pop() {
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// Forgets a node that got no holder.
    pub(super) fn unless_held(&mut self, at: u32) {
        if at != NONE && self.nodes[at as usize].holders == 0 {
            self.hold(at);
            self.release(at);
        }
    }

    pub(super) fn get(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }
}
