//! Which links one other feeds alone, in all programs that are ever loaded.
//!
//! A link that only one other feeds, and where no flow begins, sees segments in the order in which that one sends them: they cross it
//! without an event of their own. An engine finds such links of the programs that it has loaded; one to which others may be loaded
//! at any time ([`Limits::open`](crate::engine::Limits::open)) is told beforehand, by
//! [`Network::in_series`](crate::network::Network::in_series).

use crate::program::Program;

/// No feeder so far, and more than one.
const NONE: u32 = u32::MAX;
const MANY: u32 = u32::MAX - 1;

/// What feeds each link.
#[derive(Clone, Debug)]
pub struct Feeders {
    of: Vec<u32>,
}

impl Feeders {
    /// Of a network of so many links, without programs.
    #[must_use]
    pub fn new(links: usize) -> Self {
        Self { of: vec![NONE; links] }
    }

    /// A program that may be loaded. Links beyond those of the network are passed over.
    pub fn add(&mut self, program: &Program) {
        for flow in &program.flows {
            let mut feeder = MANY;
            for link in program.routes.get(flow.route.start as usize..flow.route.end as usize).into_iter().flatten() {
                if let Some(known) = self.of.get_mut(link.index()) {
                    *known = if *known == NONE || *known == feeder { feeder } else { MANY };
                }
                feeder = link.0;
            }
        }
    }

    /// For each link whether one other feeds it, and that one alone.
    #[must_use]
    pub fn series(&self) -> Vec<bool> {
        self.of.iter().map(|feeder| *feeder < MANY).collect()
    }
}
