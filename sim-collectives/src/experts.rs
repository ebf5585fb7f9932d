//! Tokens to experts: what a dispatch sends where.
//!
//! A token goes to K of E experts, which lie evenly on n ranks. It may be bound to G of the N groups that experts lie in, such as
//! nodes (node-limited routing). A holder of h experts, all of one group or of m whole groups, has an expert of a token in a share of
//!
//! ```text
//! P(h) = Σ_j H(j; N, G, m) · (1 − C(A − j·h/m, K)/C(A, K))       A = E·G/N experts to draw from
//! ```
//!
//! cases, where `H(j; N, G, m) = C(m, j)·C(N − m, G − j)/C(N, G)` is the chance that j of its m groups are among the G that are chosen (m = 1,
//! H = G/N for a part of a group). A dispatch sends T·P(E/n) tokens to each rank, or T·P(E/nodes) to each node; without care for duplicates
//! T·K/n to each rank.
//!
//! Where experts are not chosen evenly ([`Shares`]), a holder that gets x times the mean of all copies has none of a token in (1 − P)^x cases:
//! exact for x = 0 and 1, and near what routers do that choose the K best of random scores (the tests draw tokens one by one).

use std::sync::Arc;

use crate::call::Routed;

/// How tokens are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Experts {
    /// Experts in all, E.
    pub experts: u32,
    /// Experts of a token, K.
    pub top_k: u32,
    /// Most groups of a token, G; without it all.
    pub top_nodes: Option<u32>,
    /// Groups that experts lie in, N; without it the nodes that ranks are on.
    pub groups: Option<u32>,
}

/// The part of all copies of tokens that each expert gets: E numbers, 1 in all, or less where some are dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares(Arc<[f64]>);

impl Shares {
    /// These parts of all copies.
    #[must_use]
    pub fn new(parts: impl IntoIterator<Item = f64>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// Expert by expert.
    #[must_use]
    pub fn parts(&self) -> &[f64] {
        &self.0
    }

    /// What each of `holders` holders gets, on which experts lie in blocks.
    #[must_use]
    pub fn of_holders(&self, holders: usize) -> Vec<f64> {
        let (n, holders) = (self.0.len(), holders.max(1));
        let from = |i: usize| i * n / holders;
        (0..holders).map(|i| self.0[from(i)..from(i + 1)].iter().sum()).collect()
    }
}

impl Experts {
    /// Experts that any token may go to.
    #[must_use]
    pub const fn free(experts: u32, top_k: u32) -> Self {
        Self { experts, top_k, top_nodes: None, groups: None }
    }

    /// The share of tokens that have an expert on one of `holders` holders, for ranks that are on `nodes` nodes.
    #[must_use]
    pub fn reaches(&self, holders: u32, nodes: u32) -> f64 {
        let groups = f64::from(self.groups.unwrap_or(nodes).max(1));
        let limit = self.top_nodes.map_or(groups, f64::from).clamp(1.0, groups);
        let (experts, pool) = (f64::from(self.experts), f64::from(self.experts) * limit / groups);
        let held = experts / f64::from(holders.max(1));
        // C(pool − held, K)/C(pool, K): no expert among the held ones.
        let missed = |held: f64| -> f64 {
            let factor = |k: f64| ((pool - held - k) / (pool - k)).max(0.0);
            (0..self.top_k).map(|k| factor(f64::from(k))).map(|p| if p.is_finite() { p } else { 0.0 }).product()
        };
        // Groups that a holder has as a whole.
        let whole = (groups / f64::from(holders.max(1)) + 1e-9).floor().max(1.0);
        if whole == 1.0 || limit == groups {
            return limit / groups * (1.0 - missed(held));
        }
        // j of the holder's groups are among the chosen ones: from one j to the next by the ratio of their chances.
        let (first, last) = ((limit - (groups - whole)).max(0.0) as u32, whole.min(limit) as u32);
        let mut chance: f64 = if first == 0 {
            (0..limit as u32).map(|i| (groups - whole - f64::from(i)) / (groups - f64::from(i))).product()
        } else {
            (0..(groups - whole) as u32).map(|i| (limit - f64::from(i)) / (groups - f64::from(i))).product()
        };
        let mut reached = 0.0;
        for j in first..=last {
            let j = f64::from(j);
            reached += chance * (1.0 - missed(held * j / whole));
            chance *= (whole - j) * (limit - j) / ((j + 1.0) * (groups - whole - limit + j + 1.0)).max(1.0);
        }
        reached
    }

    /// What each rank sends of `bytes` (one copy of each of its tokens), for a group of so many ranks on so many nodes; to experts that are
    /// chosen evenly, or as `shares` say.
    #[must_use]
    pub fn routed(&self, bytes: u64, nodes: u32, ranks: u32, shares: Option<&Shares>) -> Routed {
        let (nodes, ranks) = (nodes.max(1), ranks.max(1));
        let part = |share: f64| (bytes as f64 * share).round() as u64;
        let copies = f64::from(self.top_k);
        let Some(shares) = shares else {
            let alike = |n: u32, share: f64| vec![part(share); n as usize];
            return Routed {
                to_node: alike(nodes, self.reaches(nodes, nodes)),
                to_rank: alike(ranks, self.reaches(ranks, nodes)),
                to_experts: alike(ranks, copies / f64::from(ranks)),
            };
        };
        let once = |n: u32| -> Vec<u64> {
            let missed = 1.0 - self.reaches(n, nodes);
            // No more than there are copies.
            let share = |of: f64| (1.0 - missed.powf(of * f64::from(n))).min(of * copies);
            shares.of_holders(n as usize).into_iter().map(|of| part(share(of))).collect()
        };
        Routed {
            to_node: once(nodes),
            to_rank: once(ranks),
            to_experts: shares.of_holders(ranks as usize).into_iter().map(|of| part(of * copies)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_core::random::mix;

    const DEEPSEEK: Experts = Experts::free(256, 8);

    #[test]
    fn distinct_ranks_of_a_token() {
        // 256 experts, 8 a token: 5.3 distinct ranks of 8, 7.7 of 64 (the closed form of the module's text).
        let ranks = |nodes: u32| DEEPSEEK.reaches(nodes * 8, nodes) * f64::from(nodes * 8);
        assert!((ranks(1) - 5.3).abs() < 0.05, "{}", ranks(1));
        assert!((ranks(8) - 7.6).abs() < 0.15, "{}", ranks(8));
        assert_eq!(DEEPSEEK.routed(1_000_000, 8, 64, None).to_experts, vec![125_000; 64]);
    }

    #[test]
    fn a_limit_of_nodes_bounds_what_crosses_the_network() {
        let bound = Experts { top_nodes: Some(4), ..DEEPSEEK };
        let nodes = |e: Experts, n: u32| e.reaches(n, n) * f64::from(n);
        assert!(nodes(bound, 8) <= 4.0 && nodes(bound, 8) > 3.5, "{}", nodes(bound, 8));
        assert!(nodes(DEEPSEEK, 8) > 5.0);
        // Groups are the model's, however many nodes there are: a node of two groups is reached by either.
        let grouped = Experts { groups: Some(8), ..bound };
        assert!((nodes(grouped, 8) - nodes(bound, 8)).abs() < 1e-12);
        assert!(
            nodes(grouped, 4) < 4.0 && nodes(grouped, 4) > 0.9 * 4.0 * (1.0 - 15.0 / 70.0),
            "{}",
            nodes(grouped, 4)
        );
        assert!((nodes(grouped, 1) - 1.0).abs() < 1e-12);
        // A token has all of its experts on the nodes that it reaches.
        assert!(nodes(grouped, 16) <= 8.0);
    }

    /// Distinct holders of tokens that take `top` of `groups` groups, and in them the K best of the experts' scores, where each has a
    /// logarithm of its weight added to a Gumbel variate.
    fn drawn(experts: Experts, weights: &[f64], holders: usize, tokens: u32) -> (Vec<f64>, Vec<f64>) {
        let mut state = 7u64;
        let mut uniform = || {
            state = mix(state);
            ((state >> 11) as f64 / (1u64 << 53) as f64).max(1e-300)
        };
        let (n, k) = (weights.len(), experts.top_k as usize);
        let groups = experts.groups.map_or(1, |g| g as usize);
        let top = experts.top_nodes.map_or(groups, |g| g as usize);
        let (mut copies, mut reached) = (vec![0u32; n], vec![0u32; holders]);
        for _ in 0..tokens {
            let mut scored: Vec<(f64, usize)> = (0..groups).map(|g| (uniform(), g)).collect();
            scored.sort_by(|a, b| a.0.total_cmp(&b.0));
            let chosen: Vec<usize> = scored[..top].iter().map(|(_, g)| *g).collect();
            let score = |w: f64, u: f64| w.ln() - (-u.ln()).ln();
            let mut list: Vec<(f64, usize)> = (0..n)
                .filter(|e| chosen.contains(&(e * groups / n)))
                .map(|e| (score(weights[e], uniform()), e))
                .collect();
            list.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut at: Vec<usize> = list[..k].iter().map(|(_, e)| *e).collect();
            at.iter().for_each(|e| copies[*e] += 1);
            at.iter_mut().for_each(|e| *e = *e * holders / n);
            at.sort_unstable();
            at.dedup();
            at.iter().for_each(|h| reached[*h] += 1);
        }
        let all = f64::from(tokens);
        let shares = copies.iter().map(|c| f64::from(*c) / all / k as f64).collect();
        (shares, reached.iter().map(|r| f64::from(*r) / all).collect())
    }

    #[test]
    fn tokens_that_are_drawn_one_by_one_go_where_the_closed_form_says() {
        let even = vec![1.0; 256];
        let limited = Experts { top_nodes: Some(4), groups: Some(8), ..DEEPSEEK };
        for (experts, holders, nodes) in
            [(DEEPSEEK, 8, 1), (DEEPSEEK, 4, 4), (limited, 4, 4), (limited, 2, 2), (limited, 32, 4)]
        {
            let (_, reached) = drawn(experts, &even, holders as usize, 4_000);
            let mean = reached.iter().sum::<f64>() / f64::from(holders);
            let closed = experts.reaches(holders, nodes);
            assert!((mean / closed - 1.0).abs() < 0.01, "{experts:?} on {holders}: drawn {mean}, closed {closed}");
        }
        // Uneven: some experts are wanted up to six times as often.
        let weights: Vec<f64> = (0..256).map(|e| if e < 32 { 3.0 } else { 0.5 + f64::from(e % 7) * 0.1 }).collect();
        for holders in [8u32, 32, 64] {
            let (shares, reached) = drawn(DEEPSEEK, &weights, holders as usize, 4_000);
            let routed = DEEPSEEK.routed(1_000_000, 1, holders, Some(&Shares::new(shares)));
            for (to, reached) in routed.to_rank.iter().zip(&reached) {
                let closed = *to as f64 / 1e6;
                assert!((closed - reached).abs() < 0.035, "{holders}: drawn {reached}, closed {closed}");
            }
            let (closed, drawn) = (routed.to_rank.iter().sum::<u64>() as f64 / 1e6, reached.iter().sum::<f64>());
            assert!((closed / drawn - 1.0).abs() < 0.02, "{holders}: {closed} {drawn}");
        }
    }

    #[test]
    fn even_shares_are_as_none() {
        let limited = Experts { top_nodes: Some(4), groups: Some(8), ..DEEPSEEK };
        for experts in [DEEPSEEK, limited] {
            let even = Shares::new(vec![1.0 / 256.0; 256]);
            assert_eq!(experts.routed(1 << 20, 4, 32, Some(&even)), experts.routed(1 << 20, 4, 32, None));
        }
        // Half of all copies to one rank of eight: each token has an expert there, but for a few.
        let hot = Shares::new((0..256).map(|e| if e < 32 { 0.5 / 32.0 } else { 0.5 / 224.0 }));
        let routed = DEEPSEEK.routed(1_000_000, 1, 8, Some(&hot));
        assert!(routed.to_rank[0] > 980_000 && routed.to_rank[1] < 500_000, "{:?}", routed.to_rank);
        assert_eq!(routed.to_experts[0], 4_000_000);
    }
}
