//! No rate control: the source sends as fast as its first link takes the bytes.

use super::RateControl;
use crate::units::PsPerByte;

/// Sends at line rate, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineRate;

impl RateControl for LineRate {
    #[inline]
    fn pace(&self) -> PsPerByte {
        PsPerByte::FREE
    }
}
