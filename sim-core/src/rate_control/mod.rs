//! Rate control of a flow: how fast its source may send, and how much may be unacknowledged.
//!
//! A controller is a state machine that is handed the present instant; it never asks for the time and never touches the
//! engine, so a test can drive it with a hand-written list of notices. All arithmetic is of integers (shares are
//! [`Fraction`]s in 32.32 fixed point), parameters lie behind an `Arc` that flows share, and a controller's own state is at
//! most 96 bytes.
//!
//! Of timers only what is needed is asked for: none at full rate, and none while nothing is to be sent. What an idle flow's
//! timers would have done is made up for when it starts again, so a network that is idle has no events.
//!
//! To add one: a new file, its `mod` and `pub use`, and its line in the list of [`AnyRateControl`].

mod dcqcn;
mod dcqcn_firmware;
mod dctcp;
mod fecn;
mod fixed;
mod fraction;
mod hpcc;
mod line_rate;
mod receiver;
mod spec;
mod swift;
mod timely;

#[cfg(test)]
mod tests;

pub use dcqcn::{Dcqcn, DcqcnParams, Recovery, StageRule};
pub use dcqcn_firmware::{DcqcnFirmware, DcqcnFirmwareParams};
pub use dctcp::{Dctcp, DctcpParams};
pub use fecn::{Fecn, FecnParams};
pub use fixed::Fixed;
pub use fraction::Fraction;
pub use hpcc::{Hpcc, HpccParams};
pub use line_rate::LineRate;
pub use receiver::{Grant, Grants, Receiver};
pub use spec::RateSpec;
pub use swift::{Swift, SwiftParams};
pub use timely::{Timely, TimelyParams};

use crate::units::{PsPerByte, Rate, Span, Time};

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Payload bytes that it acknowledges for the first time.
    pub bytes: u64,
    /// Packets that these are.
    pub packets: u32,
    /// How many of the packets were marked on their way.
    pub marked: u32,
    /// From the sending of the newest of them until now.
    pub rtt: Span,
    /// What the newest of them read in the ports that it left, in order; empty if ports tell nothing.
    pub telemetry: &'a [HopTelemetry],
}

/// What a packet reads in a port that it leaves (in-band telemetry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopTelemetry {
    /// Wire bytes in the port's queue.
    pub queue: u64,
    /// Wire bytes that the port has sent so far.
    pub sent: u64,
    /// When it was read.
    pub at: Time,
    /// The port's rate.
    pub rate: Rate,
}

/// What a controller goes by, for whoever sets up what is around it. A new controller states what differs from
/// [`Facts::NONE`]; nobody asks for it by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// It slows down when the network is congested, and is not only a limit that was set.
    pub slows_down: bool,
    /// It goes by marks, as notices or in acknowledgements: where nothing marks it does nothing.
    pub hears_marks: bool,
    /// It goes by what packets read in ports ([`Ack::telemetry`]); only packets of such controllers carry it.
    pub reads_telemetry: bool,
    /// It waits for what its receiver grants ([`RateControl::on_grant`]).
    pub asks_for_grants: bool,
    /// It goes by acknowledgements: [`RateControl::on_ack`] does something.
    pub hears_acks: bool,
}

impl Facts {
    /// A limit that was set, if any.
    pub const NONE: Self = Self {
        slows_down: false,
        hears_marks: false,
        reads_telemetry: false,
        asks_for_grants: false,
        hears_acks: false,
    };
    /// It slows down by what it measures itself: delays.
    pub const BY_ITSELF: Self = Self { slows_down: true, hears_acks: true, ..Self::NONE };
    /// It slows down for marks.
    pub const BY_MARKS: Self = Self { slows_down: true, hears_marks: true, ..Self::NONE };
}

/// What a controller may be told, and asked.
///
/// Of what happens at one instant timers come last. [`next_timer`](Self::next_timer) may change with every call.
pub trait RateControl {
    /// What it goes by; the same for all of its kind.
    fn facts(&self) -> Facts {
        Facts::NONE
    }

    /// A busy period begins: there is something to send, after there was nothing.
    fn start(&mut self, _now: Time) {}

    /// A packet of `wire` bytes, overhead included, leaves the source.
    fn on_send(&mut self, _now: Time, _wire: u32) {}

    /// An acknowledgement arrived.
    fn on_ack(&mut self, _now: Time, _ack: &Ack<'_>) {}

    /// A congestion notice arrived: a CNP, a BECN or an echoed mark.
    fn on_notice(&mut self, _now: Time) {}

    /// The receiver grants `bytes` more of payload.
    fn on_grant(&mut self, _now: Time, _bytes: u64) {}

    /// A loss was found, by a timeout or by a report of the receiver.
    fn on_loss(&mut self, _now: Time, _timeout: bool) {}

    /// The instant of [`next_timer`](Self::next_timer) has come; a call before it does nothing.
    fn on_timer(&mut self, _now: Time) {}

    /// When the controller wants to be called next; [`Time::MAX`] if it doesn't, as at full rate and when stopped.
    fn next_timer(&self) -> Time {
        Time::MAX
    }

    /// Nothing is left to send.
    fn stop(&mut self, _now: Time) {}

    /// The cost of a wire byte at the present rate; [`PsPerByte::FREE`] does not limit.
    fn pace(&self) -> PsPerByte;

    /// Payload bytes that may be unacknowledged at once. One packet may always be, unless it is 0.
    fn window(&self) -> u64 {
        u64::MAX
    }

    /// Internals for plots.
    fn metrics(&self) -> RateMetrics {
        RateMetrics { pace: self.pace(), window: self.window(), ..RateMetrics::default() }
    }
}

/// The internals of a controller that a plot may want.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateMetrics {
    /// Cost of a byte at the present rate.
    pub pace: PsPerByte,
    /// Payload bytes that may be unacknowledged.
    pub window: u64,
    /// The estimate α of the marked share, where there is one, 0 to 1, as of the last event that needed it.
    pub alpha: Option<f64>,
    /// The rate aimed at, where it differs from the present one.
    pub target: Option<PsPerByte>,
}

macro_rules! controllers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The known controllers; dispatch is by match, without a box.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyRateControl {
            $($(#[$doc])* $name($name),)*
        }

        $(impl From<$name> for AnyRateControl {
            fn from(controller: $name) -> Self {
                Self::$name(controller)
            }
        })*

        impl RateControl for AnyRateControl {
            #[inline]
            fn facts(&self) -> Facts {
                match self { $(Self::$name(c) => c.facts(),)* }
            }
            #[inline]
            fn start(&mut self, now: Time) {
                match self { $(Self::$name(c) => c.start(now),)* }
            }
            #[inline]
            fn on_send(&mut self, now: Time, wire: u32) {
                match self { $(Self::$name(c) => c.on_send(now, wire),)* }
            }
            #[inline]
            fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
                match self { $(Self::$name(c) => c.on_ack(now, ack),)* }
            }
            fn on_notice(&mut self, now: Time) {
                match self { $(Self::$name(c) => c.on_notice(now),)* }
            }
            fn on_grant(&mut self, now: Time, bytes: u64) {
                match self { $(Self::$name(c) => c.on_grant(now, bytes),)* }
            }
            fn on_loss(&mut self, now: Time, timeout: bool) {
                match self { $(Self::$name(c) => c.on_loss(now, timeout),)* }
            }
            fn on_timer(&mut self, now: Time) {
                match self { $(Self::$name(c) => c.on_timer(now),)* }
            }
            #[inline]
            fn next_timer(&self) -> Time {
                match self { $(Self::$name(c) => c.next_timer(),)* }
            }
            fn stop(&mut self, now: Time) {
                match self { $(Self::$name(c) => c.stop(now),)* }
            }
            #[inline]
            fn pace(&self) -> PsPerByte {
                match self { $(Self::$name(c) => c.pace(),)* }
            }
            #[inline]
            fn window(&self) -> u64 {
                match self { $(Self::$name(c) => c.window(),)* }
            }
            fn metrics(&self) -> RateMetrics {
                match self { $(Self::$name(c) => c.metrics(),)* }
            }
        }

        #[cfg(test)]
        pub(crate) const SIZES: &[(&str, usize)] = &[$((stringify!($name), size_of::<$name>()),)*];
    };
}

controllers! {
    /// Always at line rate.
    LineRate,
    /// A fixed rate and window.
    Fixed,
    /// DCQCN as published.
    Dcqcn,
    /// DCQCN as adapters' firmware has it.
    DcqcnFirmware,
    /// A window by the share of marked packets.
    Dctcp,
    /// A window by what ports tell.
    Hpcc,
    /// A window by a target of delay.
    Swift,
    /// A rate by the gradient of delay.
    Timely,
    /// What the receiver admits.
    Receiver,
    /// InfiniBand's congestion control table.
    Fecn,
}

impl Default for AnyRateControl {
    fn default() -> Self {
        Self::LineRate(LineRate)
    }
}

/// Bytes that go out at `rate` in `span`, rounded down: a bandwidth-delay product.
const fn bytes_in(rate: Rate, span: Span) -> u64 {
    let bytes = rate.get() as u128 * span.as_ps() as u128 / 1_000_000_000_000;
    if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
}

/// The rate of a window of `bytes` each `span`, rounded down.
const fn rate_of(bytes: u64, span: Span) -> Rate {
    if span.as_ps() == 0 {
        return Rate::bytes_per_sec(u64::MAX);
    }
    let rate = bytes as u128 * 1_000_000_000_000 / span.as_ps() as u128;
    Rate::bytes_per_sec(if rate > u64::MAX as u128 { u64::MAX } else { rate as u64 })
}

/// `n` Mb/s, the unit in which adapters state their steps.
const fn mbit(n: u64) -> Rate {
    Rate::bytes_per_sec(n * 125_000)
}

/// Whether the packet that an acknowledgement at `now` is for was sent at `since` or later.
fn sent_after(now: Time, ack: &Ack<'_>, since: Time) -> bool {
    now.as_ps().saturating_sub(ack.rtt.as_ps()) >= since.as_ps()
}
