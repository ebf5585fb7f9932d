//! A long run that fails: closed forms, and a run with drawn failures.

use std::time::Instant;

use sim_core::outcome::StopReason;
use sim_core::random::mix;
use sim_report::result::LongRunResult;
use sim_report::table::long_run_headline;
use sim_workload::failures::{daly, play_until, young};

use super::{Sum, World};
use crate::scenario::Failures;

/// Plays a long run that fails; false if it was stopped.
pub(super) fn play(world: &World<'_>, asked: &Failures, sum: &mut Sum) -> bool {
    let began = Instant::now();
    let (run, seconds) = (asked.run, asked.days * 86_400.0);
    let Some(played) = play_until(&run, seconds, world.loaded.scenario.seed, &|| world.interrupted()) else {
        sum.stop(StopReason::Interrupted, asked.title().to_owned());
        return false;
    };
    let days = |seconds: f64| seconds / 86_400.0;
    let result = LongRunResult {
        name: asked.title().to_owned(),
        gpus: asked.gpus,
        hours_between: run.between / 3600.0,
        pause_s: run.checkpoint.pause,
        interval_s: run.interval,
        young_s: young(run.checkpoint.pause, run.between),
        daly_s: daly(run.checkpoint.pause, run.between),
        restart_s: run.restart,
        effective: run.effective(),
        effective_played: played.effective(),
        days: asked.days,
        failures: played.failures,
        network_failures: asked.rate.network_failures(asked.gpus, seconds),
        lost_days: days(played.lost),
        paused_days: days(played.paused),
        restarting_days: days(played.restarting),
    };
    world.one_done();
    sum.wall += began.elapsed();
    sum.headline = long_run_headline(&result);
    sum.headline_us = not_work_us(&result);
    sum.stragglers = None;
    let bits = [played.work, played.lost, played.paused, played.restarting].map(f64::to_bits);
    sum.fingerprint = bits.into_iter().fold(sum.fingerprint, |mark, bits| mix(mark ^ bits));
    sum.results.long_runs.push(result);
    true
}

/// What failures and checkpoints take of the days that were played, µs.
pub(super) fn not_work_us(run: &LongRunResult) -> f64 {
    (1.0 - run.effective_played) * run.days * 86_400e6
}
