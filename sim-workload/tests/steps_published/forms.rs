//! Messages by bandwidth and hops: those of groups too large to be played.

use std::collections::BTreeMap;

use sim_core::units::Bytes;
use sim_workload::messages::Operation;
use sim_workload::parallel::Group;

use crate::cluster::CALL_US;
use crate::mapping::Case;

/// Messages by closed forms.
pub(crate) struct Forms<'a> {
    case: &'a Case,
    spreads: BTreeMap<Group, (u64, u64, u64)>,
}

impl<'a> Forms<'a> {
    pub(crate) fn new(case: &'a Case) -> Self {
        Self { case, spreads: BTreeMap::new() }
    }

    /// Ranks of a group, most of them in a domain, and domains.
    fn spread(&mut self, group: Group) -> (u64, u64, u64) {
        let case = self.case;
        *self.spreads.entry(group).or_insert_with(|| {
            let members = case.ranks.group(group, 0);
            let spread = case.placement.spread(&members);
            let domains = if group == Group::Pipeline {
                // It is neighbours that send.
                1 + u64::from(members.windows(2).any(|pair| case.placement.spread(pair).domains > 1))
            } else {
                spread.domains
            };
            (spread.ranks, spread.most_in_domain, domains)
        })
    }

    /// Whether messages of a group leave the scale-up network.
    pub(crate) fn leaves(&mut self, group: Group) -> bool {
        self.spread(group).2 > 1
    }

    /// The time of a call alone.
    pub(crate) fn call(&mut self, operation: Operation, size: Bytes, group: Group) -> f64 {
        let (n, k, domains) = self.spread(group);
        if n <= 1 {
            return 0.0;
        }
        let (up, up_step) = self.case.cluster.up;
        let (out, out_step) = self.case.cluster.out;
        let (up, out) = (up.get() as f64, out.get() as f64);
        let bytes = size.get() as f64;
        let call = CALL_US * 1e-6;
        match operation {
            Operation::Send => {
                let (rate, step) = if domains > 1 { (out, out_step) } else { (up, up_step) };
                call + step.as_secs() + bytes / rate
            }
            Operation::AllToAll => {
                let each = bytes / n as f64;
                let inside = each * (k - 1) as f64 / up;
                let outside = each * (n - k) as f64 / out;
                call + up_step.as_secs() + if domains > 1 { out_step.as_secs() } else { 0.0 } + inside.max(outside)
            }
            Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter => {
                let rate = if domains > 1 { (out * k as f64).min(up) } else { up };
                let rounds = if operation == Operation::AllReduce { 2.0 } else { 1.0 };
                let wire = rounds * bytes * (n - 1) as f64 / n as f64;
                // A ring's hops; trees take a logarithm of them for small messages.
                let ring = (n - domains) as f64 * up_step.as_secs() + (domains - 1) as f64 * out_step.as_secs();
                let tree = (n as f64).log2().ceil() * 2.0 * out_step.as_secs().max(up_step.as_secs());
                call + wire / rate + rounds * ring.min(if bytes < 1e6 { tree } else { f64::INFINITY })
            }
        }
    }
}
