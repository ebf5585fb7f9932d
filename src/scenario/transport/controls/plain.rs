//! No control, and a fixed window.

use sim_core::rate_control::RateSpec;

use super::Control;

/// Senders go at line rate.
pub(super) const NONE: Control = Control::new("none", |_, _| Some(RateSpec::None));

/// Senders go at line rate as far as a window lets them.
pub(super) const FIXED: Control = Control {
    takes_window: true,
    ..Control::new("fixed", |reader, reach| Some(RateSpec::Fixed { window: reader.size_or("window", reach.product()) }))
};
