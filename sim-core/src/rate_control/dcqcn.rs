//! DCQCN as published: a rate that notices cut by an estimate of the marked share, and that timers and bytes raise.
//!
//! Zhu et al.: Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3. The raising is that of QCN
//! (IEEE 802.1Qau).

use std::sync::Arc;

use super::{Facts, Fraction, RateControl, RateMetrics, mbit};
use crate::units::{PsPerByte, Rate, Span, Time};

/// How a rate that was cut is raised again; both variants of DCQCN have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The timer T: a raise each such span. Zero: no timer. Paper 55 µs, firmware 300 µs.
    pub timer: Span,
    /// The byte counter B: a raise each so many wire bytes. Zero: no counter. Paper 10 MB, firmware 32,767 B.
    pub byte_counter: u64,
    /// F: raises of one kind before the target rises too. Paper 5, firmware 1.
    pub threshold: u16,
    /// `R_AI`: added to the target by a raise past the threshold. Paper 40 Mb/s, firmware 5 Mb/s.
    pub additive: Rate,
    /// `R_HAI`: added to the target, where both kinds of raises are past the threshold. Firmware 50 Mb/s; the paper gives none.
    pub hyper: Rate,
    /// The least rate. Firmware 1 Mb/s; the paper gives none.
    pub min: Rate,
    /// How raises are counted.
    pub stages: StageRule,
}

/// How raises are counted against the threshold F.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageRule {
    /// As published: a raise counts itself. Fast recovery if `max(T, B) < F`; hyper increase by `(min(T, B) − F) · R_HAI` if
    /// `min(T, B) > F`; a counter that is off stays at 0, so then there is none.
    Published,
    /// As the public simulator of HPCC has it: a raise isn't counted yet when it is judged, a counter that is off is passed
    /// over, and a hyper increase is `R_HAI`.
    Simulated,
}

/// What flows of DCQCN share. The defaults are [`paper`](Self::paper)'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnParams {
    /// K: α falls by g each such span without a notice. Paper 55 µs.
    pub alpha_timer: Span,
    /// g, the gain of α. Paper 1/256.
    pub gain: Fraction,
    /// α when the first notice comes. Paper 1.
    pub initial_alpha: Fraction,
    /// How the rate rises again.
    pub recovery: Recovery,
}

impl DcqcnParams {
    /// The paper's values (SIGCOMM 2015, sections 3 and 5). Assumed, as it gives none: a hyper increase of ten additive ones,
    /// the ratio that firmware has, and a least rate of 10 Mb/s.
    #[must_use]
    pub const fn paper() -> Self {
        Self {
            alpha_timer: Span::from_us(55),
            gain: Fraction::ratio(1, 256),
            initial_alpha: Fraction::ONE,
            recovery: Recovery {
                timer: Span::from_us(55),
                byte_counter: 10_000_000,
                threshold: 5,
                additive: mbit(40),
                hyper: mbit(400),
                min: mbit(10),
                stages: StageRule::Published,
            },
        }
    }
}

impl Default for DcqcnParams {
    fn default() -> Self {
        Self::paper()
    }
}

impl Recovery {
    /// The rate and the target after a raise; the stages count it already if the rule is the published one.
    pub(super) fn raise(&self, line: Rate, rate: Rate, target: Rate, time: u32, bytes: u32) -> (Rate, Rate) {
        let threshold = u32::from(self.threshold);
        let (least, step) = match self.stages {
            StageRule::Published => {
                let least = time.min(bytes);
                (least, self.hyper.get().saturating_mul(u64::from(least.saturating_sub(threshold))))
            }
            StageRule::Simulated if self.byte_counter == 0 => (time, self.hyper.get()),
            StageRule::Simulated if self.timer == Span::ZERO => (bytes, self.hyper.get()),
            StageRule::Simulated => (time.min(bytes), self.hyper.get()),
        };
        let more = match () {
            () if time.max(bytes) < threshold => 0,
            () if least > threshold => step,
            () => self.additive.get(),
        };
        let target = target.get().saturating_add(more).min(line.get());
        // Rounded up, so that a rate comes to its target, and its timer to an end.
        let rate = rate.get() + target.saturating_sub(rate.get()).div_ceil(2);
        (Rate::bytes_per_sec(rate), Rate::bytes_per_sec(target))
    }

    /// Counts the raises that `bytes` more come to, and keeps the rest.
    pub(super) const fn bytes_sent(&self, counted: &mut u64, bytes: u32) -> bool {
        *counted += bytes as u64;
        let raises = *counted >= self.byte_counter;
        if raises {
            *counted -= self.byte_counter;
        }
        raises
    }
}

/// The least rate and the most that flows of DCQCN have: `min` is never above `line`.
pub(super) fn cut(rate: Rate, alpha: Fraction, min: Rate, line: Rate) -> Rate {
    let rate = rate.get() - alpha.min(Fraction::ONE).of(rate.get()) / 2;
    Rate::bytes_per_sec(rate).max(min).min(line)
}

/// A flow under DCQCN as published. It begins at line rate; α is 1 when the first notice comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    params: Arc<DcqcnParams>,
    line: Rate,
    rate: Rate,
    target: Rate,
    alpha: Fraction,
    /// The last notice, or the end of the last period since that α knows of; [`Time::MAX`]: there was none.
    since: Time,
    /// When the timer raises next.
    rise: Time,
    bytes: u64,
    pace: PsPerByte,
    time_stage: u32,
    byte_stage: u32,
    idle: bool,
}

impl Dcqcn {
    /// A flow whose link has the rate `line`.
    #[must_use]
    pub fn new(line: Rate, params: Arc<DcqcnParams>) -> Self {
        Self {
            line,
            rate: line,
            target: line,
            alpha: params.initial_alpha,
            since: Time::MAX,
            rise: Time::MAX,
            bytes: 0,
            pace: line.ps_per_byte(),
            time_stage: 0,
            byte_stage: 0,
            idle: false,
            params,
        }
    }

    /// The present rate `R_C`.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The target rate `R_T`.
    #[must_use]
    pub const fn target(&self) -> Rate {
        self.target
    }

    /// α at `now`.
    #[must_use]
    pub fn alpha(&self, now: Time) -> Fraction {
        let timer = self.params.alpha_timer.as_ps();
        if self.since == Time::MAX || timer == 0 {
            return self.alpha;
        }
        self.alpha.times(self.params.gain.rest().power(now.since(self.since).as_ps() / timer))
    }

    fn raise(&mut self) {
        (self.rate, self.target) =
            self.params.recovery.raise(self.line, self.rate, self.target, self.time_stage, self.byte_stage);
        self.pace = self.rate.ps_per_byte();
    }

    fn raise_by_time(&mut self) {
        let published = self.params.recovery.stages == StageRule::Published;
        self.time_stage = self.time_stage.saturating_add(u32::from(published));
        self.raise();
        self.time_stage = self.time_stage.saturating_add(u32::from(!published));
        self.rise += self.params.recovery.timer;
    }

    /// The timer's next instant, also of an idle flow.
    fn due(&self) -> Time {
        if self.rate >= self.line || self.params.recovery.timer == Span::ZERO { Time::MAX } else { self.rise }
    }

    /// Makes up for the raises before `now` of a flow that was idle. It has as many steps as the timer would have had
    /// events, or fewer.
    fn catch_up(&mut self, now: Time) {
        while self.due() < now {
            let before = (self.rate, self.target);
            self.raise_by_time();
            let past = self.time_stage.max(self.byte_stage) > u32::from(self.params.recovery.threshold) + 1;
            if past && before == (self.rate, self.target) {
                // Nothing changes any more; the timer keeps its grid.
                let timer = self.params.recovery.timer;
                self.rise += timer * now.since(self.rise).as_ps().div_ceil(timer.as_ps());
            }
        }
    }
}

impl RateControl for Dcqcn {
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
        let published = self.params.recovery.stages == StageRule::Published;
        let mut more = wire;
        while self.params.recovery.bytes_sent(&mut self.bytes, more) {
            more = 0;
            self.byte_stage = self.byte_stage.saturating_add(u32::from(published));
            self.raise();
            self.byte_stage = self.byte_stage.saturating_add(u32::from(!published));
        }
    }

    fn on_notice(&mut self, now: Time) {
        if self.idle {
            self.catch_up(now);
        }
        self.alpha = self.alpha(now);
        self.target = self.rate;
        self.rate = cut(self.rate, self.alpha, self.params.recovery.min, self.line);
        self.pace = self.rate.ps_per_byte();
        self.alpha = self.alpha.toward(Fraction::ONE, self.params.gain);
        self.since = now;
        (self.time_stage, self.byte_stage, self.bytes) = (0, 0, 0);
        self.rise = now + self.params.recovery.timer;
    }

    fn on_timer(&mut self, now: Time) {
        if self.due() <= now {
            self.raise_by_time();
        }
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
