//! The scenario's own timing parameters.

use indexmap::IndexMap;
use sim_collectives::timing::{Origin, Timing};

/// Puts a scenario's parameters, which have been checked, in place of the built-in ones.
pub(super) fn apply(profile: &IndexMap<String, f64>, timing: &mut Timing) {
    for (name, value) in profile {
        let set = timing.set(name, *value, Origin::Assumed, "the scenario's [profile]");
        debug_assert!(set.is_ok(), "{name} = {value} was checked when the scenario was loaded");
    }
}
