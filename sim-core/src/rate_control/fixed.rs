//! A fixed rate and a fixed window: the simplest limits that a source can have.

use super::RateControl;
use crate::units::{Bytes, PsPerByte};

/// Sends at no more than a rate, with no more than a window unacknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Cost of a byte; [`PsPerByte::FREE`] does not limit.
    pub pace: PsPerByte,
    /// Bytes that may be unacknowledged; at least one packet always may.
    pub window: Bytes,
}

impl RateControl for Fixed {
    #[inline]
    fn pace(&self) -> PsPerByte {
        self.pace
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window.get().max(1)
    }
}
