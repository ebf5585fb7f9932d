//! What failures cost a long run: lost work, restarts, checkpoints, and how often to write one.
//!
//! A run computes for an interval τ, then stands still for C to write a checkpoint (what is written beside the computation does not
//! count into C, but a checkpoint counts only when all of it is written). A failure, at a mean of M apart for the whole run, loses
//! what was computed since the last checkpoint that counts, and takes R until the run goes on.
//!
//! * Young (CACM 17, 1974): τ ≈ √(2·C·M).
//! * Daly (FGCS 22, 2006): τ ≈ √(2·C·M)·(1 + √(C/2M)/3 + C/(18·M)) − C for C < 2·M, else M; and the time of a run of Tₛ seconds of
//!   work, `M·e^(R/M)·(e^((τ + C)/M) − 1)·Tₛ/τ`.
//!
//! Times here are seconds in `f64`: months in picoseconds do not fit in 64 bits.

mod simulate;

pub use simulate::{MOST_OCCURRENCES, Played, play, play_until};

/// How often something fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// GPU-hours from one failure to the next.
    pub gpu_hours: f64,
    /// The share of failures that the network causes.
    pub network_share: f64,
}

impl Rate {
    /// Llama 3 405B: 419 unexpected interruptions of 16,384 H100 in 54 days, 35 of them by switches and cables (Llama team, arXiv
    /// 2407.21783, table 5).
    pub const LLAMA3: Self = Self { gpu_hours: 16_384.0 * 54.0 * 24.0 / 419.0, network_share: 35.0 / 419.0 };

    /// Seconds between failures of a run on so many GPUs.
    #[must_use]
    pub fn seconds(&self, gpus: u64) -> f64 {
        self.gpu_hours * 3600.0 / gpus.max(1) as f64
    }

    /// Failures by the network in so many seconds of a run on so many GPUs.
    #[must_use]
    pub fn network_failures(&self, gpus: u64, seconds: f64) -> f64 {
        seconds / self.seconds(gpus) * self.network_share
    }
}

/// Checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checkpoint {
    /// Seconds that the run stands still for one, C.
    pub pause: f64,
    /// Seconds from the end of an interval until the checkpoint counts; at least the pause.
    pub write: f64,
}

impl Checkpoint {
    /// One of `bytes` that storage takes at `rate`, while the run stands still.
    #[must_use]
    pub fn blocking(bytes: sim_core::units::Bytes, rate: sim_core::units::Rate) -> Self {
        let seconds = rate.time_for(bytes).as_us() / 1e6;
        Self { pause: seconds, write: seconds }
    }

    /// The same, written beside the computation after a pause of `pause` seconds (a copy to host memory).
    #[must_use]
    pub fn beside(self, pause: f64) -> Self {
        Self { pause, write: self.write.max(pause) }
    }
}

/// A long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongRun {
    /// Seconds between failures, M.
    pub between: f64,
    /// Checkpoints.
    pub checkpoint: Checkpoint,
    /// Seconds of computation between checkpoints, τ.
    pub interval: f64,
    /// Seconds from a failure until the run goes on: detection, a new node, loading, R.
    pub restart: f64,
}

/// Young's interval in seconds.
#[must_use]
pub fn young(pause: f64, between: f64) -> f64 {
    (2.0 * pause * between).sqrt()
}

/// Daly's interval in seconds.
#[must_use]
pub fn daly(pause: f64, between: f64) -> f64 {
    if pause >= 2.0 * between {
        return between;
    }
    let x = pause / (2.0 * between);
    young(pause, between) * (1.0 + x.sqrt() / 3.0 + x / 9.0) - pause
}

impl LongRun {
    /// The same with Daly's interval, which is zero where checkpoints cost nothing.
    #[must_use]
    pub fn best(self) -> Self {
        Self { interval: daly(self.checkpoint.pause, self.between), ..self }
    }

    /// The share of the time that is work which lasts, by Daly's complete model. What is written beside the computation is lost
    /// with its interval: its time counts as if the interval began that much earlier.
    #[must_use]
    pub fn effective(&self) -> f64 {
        let (m, c) = (self.between, self.checkpoint.pause);
        let (tau, late) = (self.interval, (self.checkpoint.write - c).max(0.0));
        let share = tau / (m * (self.restart / m).exp() * ((tau + c) / m).exp_m1());
        // A failure also loses what was computed while the last checkpoint was not yet whole.
        (share * (1.0 - (late / m).min(1.0))).clamp(0.0, 1.0)
    }

    /// What [`play`] goes through in so many seconds: checkpoints and failures.
    #[must_use]
    pub fn occurrences(&self, seconds: f64) -> f64 {
        seconds / (self.interval + self.checkpoint.pause.max(0.0)) + seconds / self.between
    }

    /// Failures in so many seconds.
    #[must_use]
    pub fn failures(&self, seconds: f64) -> f64 {
        seconds / self.between
    }
}

#[cfg(test)]
mod tests {
    use sim_core::units::{Bytes, Rate as Throughput};

    use super::*;

    /// Llama 3 405B: weights and two Adam states of 405.85e9 parameters in 2 + 12 bytes, 2 TB/s of storage (the paper's sustained
    /// rate), ten minutes until the run goes on.
    fn llama3() -> LongRun {
        let bytes = Bytes::new(405_850_000_000 * 14);
        let checkpoint = Checkpoint::blocking(bytes, Throughput::gbyte(2000));
        LongRun { between: Rate::LLAMA3.seconds(16_384), checkpoint, interval: 1.0, restart: 600.0 }.best()
    }

    #[test]
    fn the_rate_of_the_source() {
        assert!((Rate::LLAMA3.gpu_hours / 50_600.0 - 1.0).abs() < 0.005, "{}", Rate::LLAMA3.gpu_hours);
        assert!((Rate::LLAMA3.seconds(16_384) / 3600.0 - 3.1).abs() < 0.05);
        assert!((Rate::LLAMA3.network_share - 0.084).abs() < 0.001);
        assert!((Rate::LLAMA3.network_failures(16_384, 54.0 * 86_400.0) - 35.0).abs() < 0.01);
    }

    #[test]
    fn a_run_as_published_is_effective() {
        // More than 90 % effective time was published.
        let run = llama3();
        assert!(run.effective() > 0.90 && run.effective() < 0.97, "{}", run.effective());
        let played = play(&run, 54.0 * 86_400.0, 1);
        assert!(played.effective() > 0.90, "{}", played.effective());
        let failures = played.failures as f64;
        assert!((failures - 419.0).abs() < 4.0 * 419.0f64.sqrt(), "{failures}");
    }

    #[test]
    fn simulation_and_closed_form_agree() {
        for (pause, restart, interval) in [(3.0, 600.0, 250.0), (60.0, 1200.0, 1200.0), (300.0, 60.0, 600.0)] {
            let checkpoint = Checkpoint { pause, write: pause };
            let run = LongRun { between: 11_000.0, checkpoint, interval, restart };
            let many = (0..8).map(|seed| play(&run, 200.0 * 86_400.0, seed).effective()).sum::<f64>() / 8.0;
            assert!((many - run.effective()).abs() < 0.01, "{pause} {restart}: {many} {}", run.effective());
        }
    }

    #[test]
    fn the_best_interval_is_the_best() {
        let run = LongRun { interval: 1.0, checkpoint: Checkpoint { pause: 60.0, write: 60.0 }, ..llama3() }.best();
        let at = |factor: f64| LongRun { interval: run.interval * factor, ..run }.effective();
        assert!(at(1.0) >= at(0.8) && at(1.0) >= at(1.25), "{} {} {}", at(0.8), at(1.0), at(1.25));
        // And by simulation, with the same failures: neither half nor double is better.
        let played = |factor: f64| {
            let run = LongRun { interval: run.interval * factor, ..run };
            (0..16).map(|seed| play(&run, 100.0 * 86_400.0, seed).effective()).sum::<f64>()
        };
        assert!(played(1.0) > played(0.4) && played(1.0) > played(2.5));
        // Young's is its limit for short pauses.
        assert!((daly(0.001, 1e6) / young(0.001, 1e6) - 1.0).abs() < 1e-3);
        assert_eq!(daly(10.0, 4.0).to_bits(), 4.0f64.to_bits());
    }

    #[test]
    fn a_run_of_too_many_checkpoints_or_failures_ends() {
        let checkpoint = Checkpoint { pause: 0.0, write: 0.0 };
        for (interval, between) in [(1e-3, 1e9), (0.0, 1e9), (1e3, 1e-7), (1e3, 0.0)] {
            let run = LongRun { between, checkpoint, interval, restart: 0.0 };
            let played = play(&run, 1e9, 1);
            assert!(played.seconds < 1e9 && run.occurrences(played.seconds.max(1e-9)) > 0.0, "{played:?}");
        }
    }

    #[test]
    fn short_intervals_are_played_as_they_are() {
        // Less than a millisecond: 100 µs of work before each pause of 900.
        let checkpoint = Checkpoint { pause: 9e-4, write: 9e-4 };
        let run = LongRun { between: 1e6, checkpoint, interval: 1e-4, restart: 1.0 };
        assert!((run.effective() - 0.1).abs() < 1e-4, "{}", run.effective());
        let played = play(&run, 100.0, 1);
        assert!((played.effective() - 0.1).abs() < 1e-3, "{}", played.effective());
        assert!((run.occurrences(100.0) - 1e5).abs() < 1.0);
        assert_eq!(play_until(&run, 100.0, 1, &|| true), None);
        // Failures during restarts come to an end, too.
        let failing = LongRun { between: 1e-6, restart: 10.0, ..run };
        assert_eq!(play_until(&failing, 100.0, 1, &|| true), None);
        assert_eq!(play(&LongRun { interval: 0.0, ..run }, 100.0, 1).work.to_bits(), 0.0f64.to_bits());
    }

    #[test]
    fn nothing_fails_nothing_is_lost() {
        let checkpoint = Checkpoint { pause: 1.0, write: 1.0 };
        let run = LongRun { between: 1e15, checkpoint, interval: 99.0, restart: 600.0 };
        assert!((run.effective() - 0.99).abs() < 1e-6);
        let played = play(&run, 1e6, 3);
        assert_eq!((played.failures, played.lost.to_bits()), (0, 0.0f64.to_bits()));
        assert!((played.effective() - 0.99).abs() < 1e-3);
    }
}
