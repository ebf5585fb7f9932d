//! Which controller a queue pair gets, before its line rate is known.

use std::sync::Arc;

use super::{
    AnyRateControl, Dcqcn, DcqcnFirmware, DcqcnFirmwareParams, DcqcnParams, Dctcp, DctcpParams, Facts, Fecn,
    FecnParams, Fixed, Hpcc, HpccParams, LineRate, Receiver, Swift, SwiftParams, Timely, TimelyParams,
};
use crate::rate_control::RateControl as _;
use crate::units::{Bytes, PsPerByte, Rate};

/// A controller and its parameters, which all queue pairs share.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RateSpec {
    /// Line rate, no window.
    #[default]
    None,
    /// Line rate, and at most `window` payload bytes that are not acknowledged.
    Fixed {
        /// The window; one packet may always be out.
        window: Bytes,
    },
    /// A rate that never changes, as a limiter at the source sets it.
    Paced {
        /// The rate of wire bytes.
        rate: Rate,
    },
    /// See [`Dcqcn`].
    Dcqcn(Arc<DcqcnParams>),
    /// See [`DcqcnFirmware`].
    DcqcnFirmware(Arc<DcqcnFirmwareParams>),
    /// See [`Dctcp`].
    Dctcp(Arc<DctcpParams>),
    /// See [`Hpcc`].
    Hpcc(Arc<HpccParams>),
    /// See [`Swift`].
    Swift(Arc<SwiftParams>),
    /// See [`Timely`].
    Timely(Arc<TimelyParams>),
    /// See [`Receiver`].
    Receiver {
        /// Payload bytes that may be sent before the first grant.
        unasked: Bytes,
    },
    /// See [`Fecn`].
    Fecn(Arc<FecnParams>),
}

impl RateSpec {
    /// What the controller goes by.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.at(Rate::gbit(100), 1).facts()
    }

    /// The controller of a queue pair whose first port sends at `line`, over `hops` links.
    #[must_use]
    pub fn at(&self, line: Rate, hops: u8) -> AnyRateControl {
        match self {
            Self::None => LineRate.into(),
            Self::Fixed { window } => Fixed { pace: PsPerByte::FREE, window: *window }.into(),
            Self::Paced { rate } => Fixed { pace: rate.ps_per_byte(), window: Bytes::new(u64::MAX) }.into(),
            Self::Dcqcn(params) => Dcqcn::new(line, Arc::clone(params)).into(),
            Self::DcqcnFirmware(params) => DcqcnFirmware::new(line, Arc::clone(params)).into(),
            Self::Dctcp(params) => Dctcp::new(Arc::clone(params)).into(),
            Self::Hpcc(params) => Hpcc::new(line, Arc::clone(params)).into(),
            Self::Swift(params) => Swift::new(line, hops, Arc::clone(params)).into(),
            Self::Timely(params) => Timely::new(line, Arc::clone(params)).into(),
            Self::Receiver { unasked } => Receiver::new(unasked.get()).into(),
            Self::Fecn(params) => Fecn::new(line, Arc::clone(params)).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_and_line_rate_does_not() {
        let line = Rate::gbit(100);
        assert_eq!(RateSpec::None.at(line, 4).window(), u64::MAX);
        assert_eq!(RateSpec::Fixed { window: Bytes::kib(64) }.at(line, 4).window(), 65_536);
        // DCQCN begins at line rate.
        let dcqcn = RateSpec::Dcqcn(Arc::new(DcqcnParams::paper())).at(line, 4);
        assert!(dcqcn.pace() <= line.ps_per_byte());
    }
}
