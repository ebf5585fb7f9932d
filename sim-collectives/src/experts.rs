//! Tokens to experts: what a dispatch sends where, under uniform routing.
//!
//! A token goes to K of E experts, which lie evenly on n ranks. It may be bound to G of the N nodes (node-limited routing).
//! The share of tokens that have an expert on a given rank of E/n experts is
//!
//! ```text
//! P_rank = G/N · (1 − C(A − E/n, K)/C(A, K))       A = E·G/N experts to draw from
//! P_node = G/N · (1 − C(A − E/N, K)/C(A, K))
//! ```
//!
//! A dispatch sends T·P_rank tokens to each rank, or T·P_node to each node; without care for duplicates T·K/n to each rank.

use crate::call::Routed;

/// How tokens are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Experts in all, E.
    pub experts: u32,
    /// Experts of a token, K.
    pub top_k: u32,
    /// Most nodes of a token, G; without it all.
    pub top_nodes: Option<u32>,
}

impl Experts {
    /// What each rank sends of `bytes` (one copy of each of its tokens), for a group of so many nodes of so many ranks.
    #[must_use]
    pub fn routed(&self, bytes: u64, nodes: u32, per_node: u32) -> Routed {
        let nodes = f64::from(nodes.max(1));
        let ranks = nodes * f64::from(per_node.max(1));
        let limit = self.top_nodes.map_or(nodes, f64::from).clamp(1.0, nodes);
        let (experts, pool) = (f64::from(self.experts), f64::from(self.experts) * limit / nodes);
        // C(pool − held, K)/C(pool, K): no expert among the held ones.
        let missed = |held: f64| {
            (0..self.top_k).map(|k| ((pool - held - f64::from(k)) / (pool - f64::from(k))).max(0.0)).product::<f64>()
        };
        let share = |held: f64| limit / nodes * (1.0 - missed(held));
        let part = |share: f64| (bytes as f64 * share).round() as u64;
        Routed {
            to_node: part(share(experts / nodes)),
            to_rank: part(share(experts / ranks)),
            to_experts: part(f64::from(self.top_k) / ranks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_ranks_of_a_token() {
        // 256 experts, 8 a token: 5.3 distinct ranks of 8, 7.7 of 64 (the closed form of the module's text).
        let experts = Experts { experts: 256, top_k: 8, top_nodes: None };
        let token = 1_000_000;
        let ranks = |nodes: u32| experts.routed(token, nodes, 8).to_rank as f64 * f64::from(nodes * 8) / token as f64;
        assert!((ranks(1) - 5.3).abs() < 0.05, "{}", ranks(1));
        assert!((ranks(8) - 7.6).abs() < 0.15, "{}", ranks(8));
        assert_eq!(experts.routed(token, 8, 8).to_experts, token * 8 / 64);
    }

    #[test]
    fn a_limit_of_nodes_bounds_what_crosses_the_network() {
        let free = Experts { experts: 256, top_k: 8, top_nodes: None };
        let bound = Experts { top_nodes: Some(4), ..free };
        let (nodes, token) = (8, 1_000_000);
        let to_all = |e: Experts| e.routed(token, nodes, 8).to_node as f64 * f64::from(nodes) / token as f64;
        assert!(to_all(bound) <= 4.0 && to_all(bound) > 3.5, "{}", to_all(bound));
        assert!(to_all(free) > 5.0, "{}", to_all(free));
    }
}
