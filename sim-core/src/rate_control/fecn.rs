//! InfiniBand's congestion control: notices move an index up a table of delays, a timer moves it down.
//!
//! InfiniBand Architecture Specification, volume 1, annex A10; field widths as in OpenFabrics' management headers.

use std::sync::Arc;

use super::{Facts, RateControl, RateMetrics};
use crate::units::{PsPerByte, Rate, Span, Time};

/// What flows share: an adapter's congestion control settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FecnParams {
    /// The congestion control table: 2 bits of shift above 14 of a multiplier. After a packet a flow with that entry waits
    /// `multiplier / 2^shift` times what the packet took.
    pub table: Vec<u16>,
    /// `CCTI_Increase`: added to the index by each notice. Default 1 (assumed).
    pub increase: u8,
    /// `CCTI_Timer`: the index falls by one each so many 1.024 µs. Zero: never. Default 150 (assumed).
    pub timer: u16,
    /// `CCTI_Min`: the least index. Default 0.
    pub min: u8,
    /// `CCTI_Limit`: the largest index. Default the table's last.
    pub limit: u16,
}

impl FecnParams {
    /// An entry of the table: a wait of `multiplier / 2^shift` packet times.
    #[must_use]
    pub const fn entry(shift: u16, multiplier: u16) -> u16 {
        (shift & 3) << 14 | multiplier & 0x3fff
    }

    /// A table of `entries` in which each is an eighth of a packet time longer than the one before, from none (assumed: tables
    /// are set by the fabric's manager, and the specification gives none).
    #[must_use]
    pub fn linear(entries: u16) -> Self {
        let entries = entries.clamp(1, 1 << 14);
        Self {
            table: (0..entries).map(|i| Self::entry(3, i)).collect(),
            increase: 1,
            timer: 150,
            min: 0,
            limit: entries - 1,
        }
    }

    /// The time in which the index falls by one.
    #[must_use]
    pub const fn period(&self) -> Span {
        Span::from_ns(1024 * self.timer as u64)
    }

    /// The wait at `index`, in eighths of a packet time.
    fn wait(&self, index: u16) -> u64 {
        let entry = self.table.get(usize::from(index)).or(self.table.last()).copied().unwrap_or(0);
        u64::from(entry & 0x3fff) << (3 - (entry >> 14))
    }
}

impl Default for FecnParams {
    fn default() -> Self {
        Self::linear(128)
    }
}

/// A flow under InfiniBand's congestion control. It begins at the least index.
#[derive(Clone, Debug, PartialEq)]
pub struct Fecn {
    params: Arc<FecnParams>,
    line: Rate,
    pace: PsPerByte,
    /// When the index falls next; [`Time::MAX`] at the least one.
    due: Time,
    index: u16,
    idle: bool,
}

impl Fecn {
    /// A flow whose link has the rate `line`.
    #[must_use]
    pub fn new(line: Rate, params: Arc<FecnParams>) -> Self {
        let index = u16::from(params.min).min(params.limit);
        let mut flow = Self { params, line, pace: PsPerByte::FREE, due: Time::MAX, index, idle: false };
        flow.set(index);
        flow
    }

    /// The index into the table.
    #[must_use]
    pub const fn index(&self) -> u16 {
        self.index
    }

    fn least(&self) -> u16 {
        u16::from(self.params.min).min(self.params.limit)
    }

    fn set(&mut self, index: u16) {
        self.index = index;
        // Exact: eighths are 125,000 millionths.
        self.pace = self.line.ps_per_byte().scaled((8 + self.params.wait(index)) * 125_000);
        if index <= self.least() {
            self.due = Time::MAX;
        }
    }

    /// All falls up to `now`.
    fn fall(&mut self, now: Time) {
        if self.due > now {
            return;
        }
        let period = self.params.period();
        let falls = 1 + now.since(self.due).as_ps() / period.as_ps();
        self.due += period * falls;
        let index = u64::from(self.index).saturating_sub(falls);
        self.set((index as u16).max(self.least()));
    }
}

impl RateControl for Fecn {
    fn facts(&self) -> Facts {
        Facts::BY_MARKS
    }

    fn start(&mut self, now: Time) {
        if self.idle {
            self.fall(now);
            self.idle = false;
        }
    }

    fn on_notice(&mut self, now: Time) {
        if self.idle {
            self.fall(now);
        }
        let index = self.index.saturating_add(u16::from(self.params.increase)).min(self.params.limit);
        self.set(index);
        if self.due == Time::MAX && index > self.least() && self.params.timer > 0 {
            self.due = now + self.params.period();
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.fall(now);
    }

    fn next_timer(&self) -> Time {
        if self.idle { Time::MAX } else { self.due }
    }

    fn stop(&mut self, _now: Time) {
        self.idle = true;
    }

    #[inline]
    fn pace(&self) -> PsPerByte {
        self.pace
    }

    fn metrics(&self) -> RateMetrics {
        RateMetrics { pace: self.pace, window: u64::MAX, ..RateMetrics::default() }
    }
}
