//! What of a step the library has no way to do, found without playing it.

use sim_workload::messages::experts::goes_back;
use sim_workload::messages::{self, Operation};
use sim_workload::parallel::Group;
use sim_workload::step::calls::{Calls, Make};
use sim_workload::step::exchange;
use sim_workload::step::plan::Call;

use super::super::RunError;
use crate::scenario::{Loaded, Step};

/// The first call of a step that can't be made, of one group of each kind and stage.
pub(in super::super) fn refused(loaded: &Loaded, step: &Step) -> Result<(), RunError> {
    let Some(ranks) = step.ranks() else { return Ok(()) };
    let job = step.job();
    let gpus = |members: &[u64]| -> Vec<u32> {
        let of = |rank: &u64| usize::try_from(*rank).ok().and_then(|rank| step.gpus.get(rank).copied());
        members.iter().filter_map(of).collect()
    };
    let (mut groups, mut calls): (Vec<Vec<u32>>, Vec<Call>) = (Vec::new(), Vec::new());
    let exchanges = exchange::of_job(&job);
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for stage in 0..step.sizes.pipeline {
        let Some(first) = (0..ranks.len()).find(|rank| ranks.coordinates(*rank).stage == stage) else { continue };
        for (message, _) in messages::of_stage(&job, stage) {
            let mut members = ranks.group(message.group, first);
            if message.group == Group::Pipeline && message.operation == Operation::Send {
                members.truncate(2);
            }
            // Draws of loads differ in sizes alone.
            let own = !exchanges.is_empty() && message.group == Group::Expert;
            let exchange = (own && message.operation == Operation::AllToAll).then(|| goes_back(message.name).into());
            let call = Call { exchange, ..Call::new(message.name, message.operation, message.bytes, message.group) };
            let group = position(&mut groups, gpus(&members));
            let pair = (group, position(&mut calls, call));
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    let make: Make<'_> = Box::new(|group| loaded.machine(group).map_err(|error| error.to_string()));
    let mut made = Calls::new(&loaded.fabric, loaded.library_network(), make, groups, calls).exchanging(exchanges);
    for (group, call) in pairs {
        made.offered(group as u32, call as u32)
            .map_err(|error| RunError::Step { what: format!("step {}", step.title()), why: error.to_string() })?;
    }
    Ok(())
}

/// Where `one` is in `list`, at its end if it was not there.
fn position<T: PartialEq>(list: &mut Vec<T>, one: T) -> usize {
    list.iter().position(|known| *known == one).unwrap_or_else(|| {
        list.push(one);
        list.len() - 1
    })
}
