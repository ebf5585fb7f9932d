//! DCQCN as adapters' firmware has it: the published rule with three differences, each a switch.
//!
//! Parameter names and defaults: vendor pages (community document DOC-2790; DOCA "DCQCN CC Parameters") and public dumps
//! of adapters; the order of things at one instant: the public simulator of HPCC.

use std::sync::Arc;

use super::dcqcn::cut;
use super::{Facts, Fraction, RateControl, RateMetrics, Recovery, StageRule, mbit};
use crate::units::{PsPerByte, Rate, Span, Time};

/// What flows of DCQCN in firmware share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnFirmwareParams {
    /// Difference 1: α moves on a grid of its timer that runs freely from the first notice, up if a notice came in the period
    /// and else down. Without: up at each notice, down each timer without one.
    pub free_alpha: bool,
    /// Difference 2: cuts happen on a grid of this span from the first notice, if a notice came since the last cut
    /// (`rate_reduce_monitor_period`). Zero: at each notice. Default 4 µs.
    pub cut_gate: Span,
    /// Difference 3: a cut makes the rate the target only if the timer raised it since the last cut
    /// (`clamp_tgt_rate_after_time_inc`). Without: always.
    pub keep_target: bool,
    /// The period of α (`dce_tcp_rtt`). Default 1 µs.
    pub alpha_timer: Span,
    /// g, the gain of α (`dce_tcp_g`). Default 5/1024.
    pub gain: Fraction,
    /// α at the first notice (`initial_alpha_value`). Default 1023/1024.
    pub initial_alpha: Fraction,
    /// The most that the rate may be at the first notice (`rate_to_set_on_first_cnp`). Default off.
    pub first_rate: Option<Rate>,
    /// How the rate rises again (`rpg_time_reset`, `rpg_byte_reset`, `rpg_threshold`, `rpg_ai_rate`, `rpg_hai_rate`,
    /// `rpg_min_rate`).
    pub recovery: Recovery,
}

impl DcqcnFirmwareParams {
    /// The defaults of adapters since ConnectX-4. A cut of at most a half (`rpg_min_dec_fac` 50) is what α ≤ 1 gives.
    #[must_use]
    pub const fn shipped() -> Self {
        Self {
            free_alpha: true,
            cut_gate: Span::from_us(4),
            keep_target: true,
            alpha_timer: Span::from_us(1),
            gain: Fraction::ratio(5, 1024),
            initial_alpha: Fraction::ratio(1023, 1024),
            first_rate: None,
            recovery: Recovery {
                timer: Span::from_us(300),
                byte_counter: 32_767,
                threshold: 1,
                additive: mbit(5),
                hyper: mbit(50),
                min: mbit(1),
                stages: StageRule::Published,
            },
        }
    }

    /// The defaults of HPCC's public simulator for links of the rate `line`: g 1/256, no byte counter, steps in proportion to the
    /// rate (5 and 50 Mb/s per 25 Gb/s), at least 100 Mb/s.
    #[must_use]
    pub const fn simulated(line: Rate) -> Self {
        let shipped = Self::shipped();
        Self {
            gain: Fraction::ratio(1, 256),
            initial_alpha: Fraction::ONE,
            recovery: Recovery {
                timer: Span::from_us(300),
                byte_counter: 0,
                threshold: 1,
                additive: Rate::bytes_per_sec(line.get() / 5_000),
                hyper: Rate::bytes_per_sec(line.get() / 500),
                min: mbit(100),
                stages: StageRule::Simulated,
            },
            ..shipped
        }
    }
}

impl Default for DcqcnFirmwareParams {
    fn default() -> Self {
        Self::shipped()
    }
}

/// A flow under DCQCN in firmware. It begins at line rate.
///
/// At one instant α's grid comes before a notice, a raise before a cut.
#[derive(Clone, Debug, PartialEq)]
pub struct DcqcnFirmware {
    params: Arc<DcqcnFirmwareParams>,
    line: Rate,
    rate: Rate,
    target: Rate,
    alpha: Fraction,
    /// The instant up to which α is worked out; [`Time::MAX`]: there was no notice.
    since: Time,
    /// When the timer raises next.
    rise: Time,
    /// An instant of the grid of cuts: of the cut that is owed, if one is.
    cut: Time,
    bytes: u64,
    pace: PsPerByte,
    time_stage: u32,
    byte_stage: u32,
    /// A notice came in α's present period.
    noticed: bool,
    owed: bool,
    idle: bool,
}

impl DcqcnFirmware {
    /// A flow whose link has the rate `line`.
    #[must_use]
    pub fn new(line: Rate, params: Arc<DcqcnFirmwareParams>) -> Self {
        Self {
            line,
            rate: line,
            target: line,
            alpha: params.initial_alpha,
            since: Time::MAX,
            rise: Time::MAX,
            cut: Time::MAX,
            bytes: 0,
            pace: line.ps_per_byte(),
            time_stage: 0,
            byte_stage: 0,
            noticed: false,
            owed: false,
            idle: false,
            params,
        }
    }

    /// The present rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The target rate.
    #[must_use]
    pub const fn target(&self) -> Rate {
        self.target
    }

    /// α at `now`.
    #[must_use]
    pub fn alpha(&self, now: Time) -> Fraction {
        self.settled(now).0
    }

    /// α at `now` and the end of the last period before: a notice raises it in its own period, all others lower it.
    fn settled(&self, now: Time) -> (Fraction, Time) {
        let timer = self.params.alpha_timer;
        if self.since == Time::MAX || timer == Span::ZERO {
            return (self.alpha, self.since);
        }
        let periods = now.since(self.since).as_ps() / timer.as_ps();
        if periods == 0 {
            return (self.alpha, self.since);
        }
        let (first, down) = if self.noticed {
            (self.alpha.toward(Fraction::ONE, self.params.gain), periods - 1)
        } else {
            (self.alpha, periods)
        };
        (first.times(self.params.gain.rest().power(down)), self.since + timer * periods)
    }

    fn settle(&mut self, now: Time) {
        let (alpha, since) = self.settled(now);
        self.noticed &= since == self.since;
        (self.alpha, self.since) = (alpha, since);
    }

    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.pace = rate.ps_per_byte();
    }

    fn raise(&mut self) {
        let recovery = self.params.recovery;
        let (rate, target) = recovery.raise(self.line, self.rate, self.target, self.time_stage, self.byte_stage);
        self.target = target;
        self.set_rate(rate);
    }

    fn published(&self) -> u32 {
        u32::from(self.params.recovery.stages == StageRule::Published)
    }

    fn raise_by_time(&mut self) {
        let published = self.published();
        self.time_stage = self.time_stage.saturating_add(published);
        self.raise();
        self.time_stage = self.time_stage.saturating_add(1 - published);
        self.rise += self.params.recovery.timer;
    }

    fn reduce(&mut self, now: Time) {
        self.settle(now);
        if !self.params.keep_target || self.time_stage > 0 {
            self.target = self.rate;
        }
        self.set_rate(cut(self.rate, self.alpha, self.params.recovery.min, self.line));
        (self.time_stage, self.byte_stage, self.bytes, self.owed) = (0, 0, 0, false);
        self.rise = now + self.params.recovery.timer;
        self.cut += self.params.cut_gate;
    }

    fn next_rise(&self) -> Time {
        if self.rate >= self.line || self.params.recovery.timer == Span::ZERO { Time::MAX } else { self.rise }
    }

    /// The next instant of a timer, also of an idle flow.
    fn due(&self) -> Time {
        self.next_rise().min(if self.owed { self.cut } else { Time::MAX })
    }

    fn serve(&mut self, now: Time) {
        if self.next_rise() <= now {
            self.raise_by_time();
        }
        if self.owed && self.cut <= now {
            self.reduce(now);
        }
    }

    /// Makes up for what timers would have done before `now` in a flow that was idle.
    fn catch_up(&mut self, now: Time) {
        loop {
            let due = self.due();
            if due >= now {
                return;
            }
            let before = (self.rate, self.target);
            self.serve(due);
            let past = self.time_stage.max(self.byte_stage) > u32::from(self.params.recovery.threshold) + 1;
            if past && before == (self.rate, self.target) && !self.owed && self.next_rise() < Time::MAX {
                let timer = self.params.recovery.timer;
                self.rise += timer * now.since(self.rise).as_ps().div_ceil(timer.as_ps());
            }
        }
    }
}

impl RateControl for DcqcnFirmware {
    fn facts(&self) -> Facts {
        Facts::BY_MARKS
    }

    fn start(&mut self, now: Time) {
        if self.idle {
            self.catch_up(now);
            self.idle = false;
        }
    }

    #[inline]
    fn on_send(&mut self, _now: Time, wire: u32) {
        if self.rate >= self.line || self.params.recovery.byte_counter == 0 {
            return;
        }
        let (recovery, published) = (self.params.recovery, self.published());
        let mut more = wire;
        while recovery.bytes_sent(&mut self.bytes, more) {
            more = 0;
            self.byte_stage = self.byte_stage.saturating_add(published);
            self.raise();
            self.byte_stage = self.byte_stage.saturating_add(1 - published);
        }
    }

    fn on_notice(&mut self, now: Time) {
        if self.idle {
            self.catch_up(now);
        }
        let gate = self.params.cut_gate;
        if self.since == Time::MAX {
            (self.since, self.cut) = (now, now + gate);
            if let Some(first) = self.params.first_rate.filter(|first| *first < self.rate) {
                self.set_rate(first.max(self.params.recovery.min));
                self.target = self.rate;
            }
        } else {
            self.settle(now);
            self.noticed = self.params.free_alpha;
            if !self.owed && self.cut < now && gate > Span::ZERO {
                self.cut += gate * now.since(self.cut).as_ps().div_ceil(gate.as_ps());
            }
        }
        if gate == Span::ZERO {
            self.reduce(now);
        } else {
            self.owed = true;
        }
        if !self.params.free_alpha {
            self.alpha = self.alpha.toward(Fraction::ONE, self.params.gain);
            self.since = now;
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.serve(now);
    }

    fn next_timer(&self) -> Time {
        if self.idle { Time::MAX } else { self.due() }
    }

    fn stop(&mut self, _now: Time) {
        self.idle = true;
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        self.pace
    }

    fn metrics(&self) -> RateMetrics {
        RateMetrics {
            pace: self.pace,
            window: u64::MAX,
            alpha: Some(self.alpha.as_f64()),
            target: Some(self.target.ps_per_byte()),
        }
    }
}
