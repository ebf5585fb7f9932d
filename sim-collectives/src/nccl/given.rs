//! Channels that are given, as a graph file or a log of NCCL states them, in place of those that the search finds.

use super::graph::{Graph, Graphs, Pattern};
use super::path::PathType;

/// One given graph; what is absent stays as the search has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenGraph {
    /// Channels, before the communicator doubles them.
    pub channels: Option<u32>,
    /// Speed of a channel inside a node, GB/s in one direction.
    pub bw_intra: Option<f64>,
    /// Speed of a channel between nodes, GB/s in one direction.
    pub bw_inter: Option<f64>,
    /// Worst path class between GPUs.
    pub type_intra: Option<PathType>,
    /// Worst path class between GPUs and NICs.
    pub type_inter: Option<PathType>,
    /// The pattern.
    pub pattern: Option<Pattern>,
    /// Whether channels may leave a node by another NIC than they entered.
    pub cross_nic: Option<bool>,
}

impl GivenGraph {
    fn over(&self, found: Graph) -> Graph {
        Graph {
            channels: self.channels.unwrap_or(found.channels).max(1),
            bw_intra: self.bw_intra.unwrap_or(found.bw_intra),
            bw_inter: self.bw_inter.unwrap_or(found.bw_inter),
            type_intra: self.type_intra.unwrap_or(found.type_intra),
            type_inter: self.type_inter.unwrap_or(found.type_inter),
            pattern: self.pattern.unwrap_or(found.pattern),
            cross_nic: self.cross_nic.unwrap_or(found.cross_nic),
            ..found
        }
    }
}

/// The channels of a communicator as they are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenChannels {
    /// Channels of rings and trees, after doubling.
    pub count: Option<u32>,
    /// The ring's graph.
    pub ring: Option<GivenGraph>,
    /// The tree's graph.
    pub tree: Option<GivenGraph>,
    /// The graph of NVLS; without effect where NVLS is not possible.
    pub nvls: Option<GivenGraph>,
    /// The order of ranks in the ring of each channel: of all ranks, or of those of a node by their place in it. Channels
    /// beyond the list begin it anew.
    pub orders: Vec<Vec<u32>>,
}

impl GivenChannels {
    /// The graphs, with what is given in place of what the search found.
    #[must_use]
    pub fn over(&self, found: &Graphs) -> Graphs {
        let graph = |given: &Option<GivenGraph>, found: Graph| given.as_ref().map_or(found, |g| g.over(found));
        let nvls = found.nvls.map(|f| graph(&self.nvls, f));
        let tree = graph(&self.tree, found.tree);
        Graphs {
            ring: graph(&self.ring, found.ring),
            tree,
            nvls,
            nvls_tree: found.nvls_tree.map(|f| graph(&self.nvls, f)),
            pat: found.pat.map(|_| tree),
            collnet: found.collnet,
        }
    }
}
