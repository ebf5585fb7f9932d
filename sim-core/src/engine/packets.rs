//! The network of packets under the engine.

use super::Engine;
use crate::ids::LinkId;
use crate::net::{Net, NetOutcome, NetPlan, SpecError};
use crate::queue::Store;

/// A network of packets and what the engine knows of it.
#[derive(Debug)]
pub(super) struct Wired {
    net: Net,
}

impl<S: Store> Engine<S> {
    /// Lets the links that `plan` names carry packets; before the first program is loaded.
    ///
    /// # Errors
    /// If the plan is not consistent, or names links that are not there or are down at times.
    pub fn set_net(&mut self, plan: NetPlan) -> Result<(), SpecError> {
        let (links, ports) = (plan.links.len(), plan.spec.ports.len());
        let ascending = plan.links.windows(2).all(|pair| pair[0] < pair[1]);
        let there = plan.links.last().is_none_or(|last| last.index() < self.links.len());
        if links != ports || !ascending || !there {
            return Err(SpecError::Links { links, ports });
        }
        if let Some(LinkId(link)) = plan.links.iter().find(|link| self.links[link.index()].flaps) {
            return Err(SpecError::Outage(*link));
        }
        self.net = Some(Box::new(Wired { net: Net::new(plan.spec)? }));
        Ok(())
    }

    /// What the network of packets measured so far; `None` if there is none.
    #[must_use]
    pub fn net_outcome(&mut self) -> Option<NetOutcome> {
        let now = self.now();
        self.net.as_mut().map(|wired| wired.net.outcome(now))
    }
}
