//! Ranks on GPUs: node, rail, domain of the scale-up network.

use super::{Group, Ranks, SizeFault};
use crate::nearest::Nearest;

/// Where ranks go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// GPUs of a node n.
    pub per_node: u64,
    /// Nodes of a scale-up domain: 1 for a board of its own, 18 for an NVL72 of trays of four.
    pub nodes_per_domain: u64,
    /// Consecutive ranks that are put in one domain; without it all of its GPUs. MLPerf puts 64 in an NVL72, and 8 stay idle.
    pub segment: Option<u64>,
    /// The GPU of a node that each of its ranks takes; without it rank i takes GPU i. `[0, 4, 2, 6, 1, 5, 3, 7]` is
    /// what CUDA_VISIBLE_DEVICES was in MLPerf runs on Eos.
    pub locals: Option<Vec<u64>>,
    /// The node that stands at each place of the fabric; without it node i at place i.
    pub nodes: Option<Vec<u64>>,
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its node.
    pub node: u64,
    /// Its GPU in the node: on a rail-optimised fabric its rail.
    pub local: u64,
    /// Its scale-up domain.
    pub domain: u64,
}

/// How a group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Members.
    pub ranks: u64,
    /// Nodes.
    pub nodes: u64,
    /// Scale-up domains.
    pub domains: u64,
    /// Rails.
    pub rails: u64,
    /// Most members in one domain.
    pub most_in_domain: u64,
    /// Fewest members in one domain that has any.
    pub fewest_in_domain: u64,
}

impl Spread {
    /// Whether the group's traffic leaves the scale-up network.
    #[must_use]
    pub const fn scales_out(&self) -> bool {
        self.domains > 1
    }

    /// Whether all of its messages go over NICs. Where several members are in a domain, the library's kernels move data between them
    /// over the scale-up network, too, and take as much of a GPU as in a group that does not leave it.
    #[must_use]
    pub const fn over_nics_alone(&self) -> bool {
        self.domains > 1 && self.most_in_domain == 1
    }

    /// Whether each member's peers are on its own rail.
    #[must_use]
    pub const fn stays_on_rail(&self) -> bool {
        self.rails == 1
    }
}

impl Placement {
    /// Nodes of `per_node` GPUs, each a domain of its own, filled in order.
    #[must_use]
    pub const fn nodes_of(per_node: u64) -> Self {
        Self { per_node, nodes_per_domain: 1, segment: None, locals: None, nodes: None }
    }

    /// Checks the sizes and permutations for `ranks` ranks.
    ///
    /// # Errors
    /// All faults at once.
    pub fn check(&self, ranks: u64) -> Result<(), Vec<SizeFault>> {
        let mut faults = Vec::new();
        for (key, value) in [
            ("gpus per node", self.per_node),
            ("nodes per domain", self.nodes_per_domain),
            ("segment", self.segment.unwrap_or(1)),
        ] {
            if value == 0 {
                faults.push(SizeFault::Zero { key });
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let domain = self.per_node.saturating_mul(self.nodes_per_domain);
        if let Some(segment) = self.segment.filter(|s| *s > domain || !s.is_multiple_of(self.per_node)) {
            let all = (1..=self.nodes_per_domain.min(4096)).map(|n| n * self.per_node);
            let values =
                format!("segment = {segment}, a domain has {} nodes of {}", self.nodes_per_domain, self.per_node);
            let rule = "segment = whole nodes of one domain";
            faults.push(SizeFault::Rule { rule, values, key: "segment", near: Nearest::to(segment, all) });
        }
        let permutation = |list: &[u64], n: u64| {
            let mut seen: Vec<u64> = list.to_vec();
            seen.sort_unstable();
            seen.dedup();
            seen.len() == list.len() && seen.len() as u64 == n && seen.last().is_none_or(|last| *last < n)
        };
        if self.locals.as_ref().is_some_and(|l| !permutation(l, self.per_node)) {
            let hint = format!("each of 0 to {} once", self.per_node - 1);
            faults.push(SizeFault::Needs { what: "the order of a node's GPUs", needs: "a permutation", hint });
        }
        let nodes = ranks.div_ceil(self.segment.unwrap_or(domain)) * self.nodes_per_domain;
        if let Some(list) = &self.nodes {
            let mut sorted = list.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let used = if self.segment.is_some() { nodes } else { ranks.div_ceil(self.per_node) };
            if sorted.len() != list.len() || (list.len() as u64) < used {
                let hint = format!("{used} different nodes are needed");
                faults.push(SizeFault::Needs { what: "the list of nodes", needs: "a node for each place", hint });
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Where `rank` is.
    #[must_use]
    pub fn place(&self, rank: u64) -> Place {
        let domain = self.per_node * self.nodes_per_domain;
        let segment = self.segment.unwrap_or(domain);
        let within = rank % segment;
        let at = rank / segment * self.nodes_per_domain + within / self.per_node;
        let index = within % self.per_node;
        let of = |list: &Option<Vec<u64>>, i: u64| {
            list.as_ref().and_then(|l| l.get(usize::try_from(i).ok()?).copied()).unwrap_or(i)
        };
        let node = of(&self.nodes, at);
        Place { node, local: of(&self.locals, index), domain: node / self.nodes_per_domain }
    }

    /// The GPU of `rank`, numbered node by node.
    #[must_use]
    pub fn gpu(&self, rank: u64) -> u64 {
        let place = self.place(rank);
        place.node * self.per_node + place.local
    }

    /// Checks that no group of a kind leaves the scale-up network: what tensor parallelism wants, and experts if they can.
    ///
    /// # Errors
    /// If one does; with the sizes of group that would not.
    pub fn within_domain(&self, ranks: &Ranks, group: Group) -> Result<(), SizeFault> {
        let domain = self.segment.unwrap_or(self.per_node * self.nodes_per_domain);
        for members in ranks.groups(group) {
            let spread = self.spread(&members);
            if spread.scales_out() {
                let values = format!(
                    "a group of {} ranks is on {} domains of {domain} GPUs, at most {} in one",
                    spread.ranks, spread.domains, spread.most_in_domain
                );
                let near = Nearest::divisor(spread.ranks, domain, |d| d < spread.ranks);
                return Err(SizeFault::Rule { rule: "one scale-up domain a group", values, key: group.name(), near });
            }
        }
        Ok(())
    }

    /// How a group lies.
    #[must_use]
    pub fn spread(&self, group: &[u64]) -> Spread {
        let places: Vec<Place> = group.iter().map(|r| self.place(*r)).collect();
        let count = |mut values: Vec<u64>| {
            values.sort_unstable();
            let runs = || values.chunk_by(|a, b| a == b).map(|run| run.len() as u64);
            (runs().count() as u64, runs().max().unwrap_or(0), runs().min().unwrap_or(0))
        };
        let (domains, most_in_domain, fewest_in_domain) = count(places.iter().map(|p| p.domain).collect());
        Spread {
            ranks: group.len() as u64,
            nodes: count(places.iter().map(|p| p.node).collect()).0,
            domains,
            rails: count(places.iter().map(|p| p.local).collect()).0,
            most_in_domain,
            fewest_in_domain,
        }
    }
}
