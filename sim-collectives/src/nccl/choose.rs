//! The choice of algorithm and protocol for a call (`src/enqueue.cc`, `topoGetAlgoInfo`).

use core::fmt;

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::channels;
use super::communicator::Communicator;
use super::datatype::{Datatype, Element, Reduction};
use super::operation::Operation;
use super::protocol::Protocol;
use super::tuning::{Cost, Reason, size_correction};

/// What NCCL would run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Most channels that the call may use; the data may fill fewer ([`super::split`]).
    pub channels: u32,
    /// Threads of each channel's block.
    pub threads: u32,
    /// The time that the selection model predicts, µs.
    pub time_us: f64,
}

/// Whether a combination is offered.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is, at this cost and predicted time in µs.
    Offered {
        /// The table's entry.
        cost: Cost,
        /// The predicted time for the size asked about, µs.
        time_us: f64,
    },
    /// It is not, for this reason.
    NotOffered(Reason),
}

/// One combination of the table with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Whether it is offered.
    pub verdict: Verdict,
}

/// Nothing is offered for an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct NoCandidate {
    /// The operation.
    pub operation: Operation,
    /// Why the first combinations are not offered, most telling first.
    pub reasons: Vec<(Algorithm, Protocol, Reason)>,
}

impl fmt::Display for NoCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no algorithm and protocol are left for {}", self.operation)?;
        for (i, (algorithm, protocol, reason)) in self.reasons.iter().enumerate() {
            write!(f, "{} {algorithm}/{protocol}: {reason}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for NoCandidate {}

impl Communicator {
    /// The time that the selection model predicts for a lone call of `bytes`, µs; `None` if the combination is not
    /// offered.
    ///
    /// `bytes` is the larger of the send and receive buffers of the whole call: the buffer of an all-reduce, ranks ×
    /// count of an all-gather or reduce-scatter.
    #[must_use]
    pub fn predict_us(
        &self,
        operation: Operation,
        algorithm: Algorithm,
        protocol: Protocol,
        bytes: u64,
    ) -> Option<f64> {
        self.predict_grouped_us(operation, algorithm, protocol, bytes, 1)
    }

    /// The predicted time of `tasks` calls in one group of `bytes` in all, µs: their latencies run in a pipeline over
    /// the channels.
    #[must_use]
    pub fn predict_grouped_us(
        &self,
        operation: Operation,
        algorithm: Algorithm,
        protocol: Protocol,
        bytes: u64,
        tasks: u32,
    ) -> Option<f64> {
        let cost = self.table(operation).get(algorithm, protocol).ok()?;
        self.time_us(operation, algorithm, protocol, cost, bytes, tasks)
    }

    fn time_us(
        &self,
        operation: Operation,
        algorithm: Algorithm,
        protocol: Protocol,
        cost: Cost,
        bytes: u64,
        tasks: u32,
    ) -> Option<f64> {
        let correction = size_correction(&self.setting(), operation, algorithm, protocol, bytes);
        let bandwidth = cost.bandwidth_gbps * correction;
        if bandwidth.is_nan() || bandwidth <= 0.0 {
            return None;
        }
        let per_channel = tasks.max(1).div_ceil(self.channels());
        // Other algorithms fetch about eight tasks in one 1024-byte batch.
        let pipe = if algorithm == Algorithm::Ring { per_channel } else { per_channel.div_ceil(8) };
        Some(
            cost.latency_us * self.plateau(operation, algorithm, protocol, bytes) * f64::from(pipe)
                + bytes as f64 / (1000.0 * bandwidth),
        )
    }

    /// Rings with Simple between nodes pay more latency once every rank and channel has 64 bytes.
    fn plateau(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol, bytes: u64) -> f64 {
        let ring = algorithm == Algorithm::Ring && protocol == Protocol::Simple && operation == Operation::AllReduce;
        let share = u64::from(self.channels()) * u64::from(self.ranks());
        if ring && self.facts().nodes > 1 && bytes / share.max(1) >= 64 {
            if self.facts().compute_cap < 80 { 1.9 } else { 1.4 }
        } else {
            1.0
        }
    }

    /// Every combination with its predicted time for `bytes`, or the reason why it is not offered; in NCCL's order.
    #[must_use]
    pub fn candidates(&self, operation: Operation, bytes: u64) -> Vec<Candidate> {
        self.candidates_of(operation, bytes, Element::default())
    }

    /// [`candidates`](Self::candidates) for elements of a given type and operator.
    #[must_use]
    pub fn candidates_of(&self, operation: Operation, bytes: u64, element: Element) -> Vec<Candidate> {
        let candidate = |(algorithm, protocol, entry): (Algorithm, Protocol, Result<Cost, &Reason>)| {
            let verdict = match entry {
                Err(reason) => Verdict::NotOffered(reason.clone()),
                Ok(_) if algorithm.is_nvls() && operation.reduces() && !element.nvls_supported() => {
                    Verdict::NotOffered(Reason::Element)
                }
                Ok(cost) => match self.time_us(operation, algorithm, protocol, cost, bytes, 1) {
                    None => Verdict::NotOffered(Reason::NoGraph),
                    Some(time_us) => {
                        let time_us = time_us * self.fp8_penalty(operation, algorithm, element);
                        Verdict::Offered { cost, time_us }
                    }
                },
            };
            Candidate { algorithm, protocol, verdict }
        };
        self.table(operation).entries().map(candidate).collect()
    }

    /// Rings sum fp8 in as many roundings as there are ranks, so beyond 8 ranks they are made to lose.
    fn fp8_penalty(&self, operation: Operation, algorithm: Algorithm, element: Element) -> f64 {
        let sum = matches!(element.reduction, Reduction::Sum | Reduction::Avg) && element.datatype == Datatype::Fp8;
        let all_ranks = self.ranks() > 8 && operation.reduces();
        if algorithm == Algorithm::Ring && sum && all_ranks { 1024.0 } else { 1.0 }
    }

    /// What NCCL would run for a sum of floats of `bytes` (see [`predict_us`](Self::predict_us)): the cheapest
    /// combination; a tie goes to the first in NCCL's order.
    ///
    /// # Errors
    /// If nothing is offered: for sends and receives, a single rank, or when the environment variables exclude all.
    pub fn choose(&self, operation: Operation, bytes: u64) -> Result<Choice, NoCandidate> {
        self.choose_of(operation, bytes, Element::default())
    }

    /// [`choose`](Self::choose) for elements of a given type and operator.
    ///
    /// # Errors
    /// As for `choose`.
    pub fn choose_of(&self, operation: Operation, bytes: u64, element: Element) -> Result<Choice, NoCandidate> {
        let candidates = self.candidates_of(operation, bytes, element);
        let mut best: Option<(Algorithm, Protocol, f64)> = None;
        for candidate in &candidates {
            if let Verdict::Offered { time_us, .. } = candidate.verdict
                && best.is_none_or(|(.., least)| time_us < least)
            {
                best = Some((candidate.algorithm, candidate.protocol, time_us));
            }
        }
        let (algorithm, protocol, time_us) = best.ok_or_else(|| nothing_left(operation, &candidates))?;
        let blocks = channels::blocks(self, algorithm, protocol, bytes);
        Ok(Choice { algorithm, protocol, channels: blocks.channels, threads: blocks.threads, time_us })
    }
}

/// The error for a table without an offer: what the variables exclude first, then one line per algorithm.
fn nothing_left(operation: Operation, candidates: &[Candidate]) -> NoCandidate {
    let mut reasons: Vec<(Algorithm, Protocol, Reason)> = Vec::new();
    for candidate in candidates {
        let Verdict::NotOffered(reason) = &candidate.verdict else { continue };
        if matches!(reason, Reason::NotForOperation(_) | Reason::SimpleOnly) {
            continue;
        }
        if reasons.iter().any(|(a, _, r)| *a == candidate.algorithm && r == reason) {
            continue;
        }
        if matches!(reason, Reason::PointToPoint(_) | Reason::SingleRank) && !reasons.is_empty() {
            continue;
        }
        reasons.push((candidate.algorithm, candidate.protocol, reason.clone()));
    }
    reasons.sort_by_key(|(.., reason)| !matches!(reason, Reason::Excluded(_)));
    NoCandidate { operation, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::{Facts, Knobs, Version};

    fn comm(facts: Facts, knobs: &[(&str, &str)]) -> Communicator {
        let mut set = Knobs::default();
        for (name, value) in knobs {
            set.set(name, value).unwrap();
        }
        Communicator::new(facts, Version::NEWEST, set).unwrap()
    }

    #[test]
    fn the_switch_reduces_some_elements_only() {
        let comm = comm(Facts::nvswitch(90, 8, 1), &[]);
        let pick = |datatype, reduction| {
            comm.choose_of(Operation::AllReduce, 1 << 30, Element { datatype, reduction }).unwrap().algorithm
        };
        assert_eq!(pick(Datatype::Float, Reduction::Sum), Algorithm::Nvls);
        assert_eq!(pick(Datatype::Float, Reduction::Max), Algorithm::Ring);
        assert_eq!(pick(Datatype::Bfloat16, Reduction::Max), Algorithm::Nvls);
        assert_eq!(pick(Datatype::Int8, Reduction::Sum), Algorithm::Ring);
    }

    #[test]
    fn fp8_sums_avoid_long_rings() {
        let comm = comm(Facts::nvswitch(90, 8, 2), &[]);
        let fp8 = Element { datatype: Datatype::Fp8, reduction: Reduction::Sum };
        for bytes in [1 << 10, 1 << 20, 1 << 32] {
            assert_eq!(comm.choose_of(Operation::AllReduce, bytes, fp8).unwrap().algorithm, Algorithm::Tree);
        }
    }

    #[test]
    fn variables_force_the_choice() {
        let facts = || Facts::nvswitch(90, 8, 2);
        let ring = comm(facts(), &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "^LL,LL128")]);
        let choice = ring.choose(Operation::AllReduce, 8).unwrap();
        assert_eq!((choice.algorithm, choice.protocol), (Algorithm::Ring, Protocol::Simple));
        let no_nvls = comm(facts(), &[("NCCL_NVLS_ENABLE", "0")]);
        assert!(!no_nvls.choose(Operation::AllReduce, 1 << 30).unwrap().algorithm.is_nvls());
    }

    #[test]
    fn nothing_left_is_explained() {
        let tree = comm(Facts::nvswitch(90, 8, 2), &[("NCCL_ALGO", "Tree")]);
        let error = tree.choose(Operation::AllGather, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("ring/LL: excluded by NCCL_ALGO"), "{error}");
        let error = tree.choose(Operation::AllToAll, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("made of sends and receives"), "{error}");
    }

    #[test]
    fn every_combination_is_accounted_for() {
        let candidates = comm(Facts::nvswitch(80, 8, 2), &[]).candidates(Operation::AllReduce, 1 << 20);
        assert_eq!(candidates.len(), 21);
        let nvls = candidates.iter().find(|c| c.algorithm == Algorithm::Nvls && c.protocol == Protocol::Simple);
        assert_eq!(nvls.unwrap().verdict, Verdict::NotOffered(Reason::ComputeCap(90)));
    }

    #[test]
    fn grouped_calls_share_latency() {
        let comm = comm(Facts::nvswitch(90, 8, 1), &[]);
        let time =
            |tasks| comm.predict_grouped_us(Operation::AllReduce, Algorithm::Ring, Protocol::Ll, 0, tasks).unwrap();
        assert_eq!(time(24), time(1));
        assert_eq!(time(25), 2.0 * time(1));
    }

    #[test]
    fn ll128_by_name_ignores_the_path_rules() {
        let facts = || Facts::pcie(89, 4, 1, 24.0, 0.0);
        let offered =
            |comm: &Communicator| comm.table(Operation::AllReduce).get(Algorithm::Ring, Protocol::Ll128).is_ok();
        assert!(!offered(&comm(facts(), &[])));
        assert!(offered(&comm(facts(), &[("NCCL_PROTO", "LL128")])));
    }
}
