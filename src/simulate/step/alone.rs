//! What a step takes without what runs beside it.

use sim_report::result::StepAlone;
use sim_workload::step::outcome::Outcome;
use sim_workload::step::play;

use super::super::{RunError, World};
use super::{Job, median, once, result, stopped};

/// Work of all jobs together up to which each is played once more by itself: some seconds. By operations of ranks (events where
/// packets are played) and not by the clock, so that the same scenario always gives the same output, whatever is reused.
const CHEAP: u64 = 20_000_000;

/// Of each job what it takes alone, the median of `different` steps; nothing where that is not played: not asked for, alone anyway,
/// too long, or interrupted.
pub(super) fn alone(
    world: &World<'_>,
    jobs: &[Job<'_>],
    (different, work, beside): (u32, u64, usize),
    fault: &dyn Fn(String) -> RunError,
) -> Result<Vec<Option<StepAlone>>, RunError> {
    if !world.options.alone || jobs.len() + beside < 2 || work > CHEAP {
        return Ok(vec![None; jobs.len()]);
    }
    let mut all = Vec::new();
    for job in jobs {
        let options = play::Options { watch: Vec::new(), ..job.options.clone() };
        let job = [Job { options, ..job.clone() }];
        let mut outcomes: Vec<Outcome> = Vec::new();
        for number in 0..different {
            let (played, _) = once(world, &job, &[], number).map_err(|error| fault(error.to_string()))?;
            match played {
                Ok((list, _)) => outcomes.extend(list),
                // A limit that all together did not meet is no fault either.
                Err(error) if stopped(world, &error).is_some() => return Ok(vec![None; jobs.len()]),
                Err(error) => return Err(fault(error.to_string())),
            }
        }
        let list: Vec<&Outcome> = outcomes.iter().collect();
        all.push(
            median(&list)
                .map(|number| list[number])
                .map(|outcome| StepAlone { time_us: outcome.end.as_us(), parts: result::mean(&outcome.ranks) }),
        );
    }
    Ok(all)
}
