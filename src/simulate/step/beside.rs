//! Transfers beside steps: checkpoints on their way, traffic of others.

use sim_collectives::step_graph::{self, Window};
use sim_core::program::Program;
use sim_core::units::{Span, Time};
use sim_report::result::BesideStep;
use sim_report::table::time_text;
use sim_workload::step::play::{Arrived, Beside};

use super::super::{RunError, World, transfers};
use crate::diagnostic::counted;
use crate::scenario::{Transfer, Workload};

/// The transfers of one workload.
pub(super) struct Traffic {
    name: String,
    pub(super) program: Program,
    messages: u32,
    bytes: u64,
    repeat: bool,
}

/// The transfers among workloads that begin with a step.
pub(super) fn traffic(world: &World<'_>, with: &[Workload]) -> Result<Vec<Traffic>, RunError> {
    let mut all = Vec::new();
    for workload in with {
        let Workload::Transfer(of) = workload else { continue };
        let name = of.name.clone().unwrap_or_else(|| "transfers".to_owned());
        let list: Vec<Transfer> = of.traffic.iter().collect();
        let mut messages = transfers::messages(world.loaded, &name, &list)?.messages;
        if world.loaded.packets.is_none() {
            // Queues in order of arrival have no turns: what is under way is bounded as the step's own connections are.
            messages.iter_mut().for_each(|message| message.window = Some(Window::NCCL));
        }
        let program = step_graph::transfers(&messages, world.loaded.fabric.mtu());
        let bytes = messages.iter().map(|message| message.bytes.get()).sum();
        all.push(Traffic { name, program, messages: messages.len() as u32, bytes, repeat: of.repeat });
    }
    Ok(all)
}

/// What traffic takes each time, from its beginning to when all of it has arrived.
fn mean_us(arrived: &Arrived) -> Option<f64> {
    (arrived.times > 0).then(|| arrived.total.as_us() / arrived.times as f64)
}

impl Traffic {
    /// The traffic as the player takes it, of a communicator of its own.
    pub(super) fn at(&self, communicator: u32) -> Beside {
        let again = self.repeat.then_some(Span::ZERO);
        Beside { communicator, call: 0, members: self.messages, first: Time::ZERO, again }
    }

    /// What came of it, in a sentence.
    pub(super) fn told(&self, arrived: &Arrived) -> String {
        let name = &self.name;
        match (self.repeat, arrived.first) {
            (false, None) => format!("{name} has not arrived by then."),
            (false, Some(took)) => format!("{name} has arrived by then, after {}.", time_text(took.as_us())),
            (true, _) => {
                let each = mean_us(arrived).map_or_else(String::new, |us| format!(", {} each", time_text(us)));
                format!("{name} went by {} beside it{each}.", counted(arrived.times as usize, "time"))
            }
        }
    }

    /// The same, as figures.
    pub(super) fn result(&self, arrived: &Arrived) -> BesideStep {
        BesideStep {
            name: self.name.clone(),
            times: arrived.times,
            bytes: self.bytes,
            time_us: mean_us(arrived),
            first_us: arrived.first.map(Span::as_us),
        }
    }
}
