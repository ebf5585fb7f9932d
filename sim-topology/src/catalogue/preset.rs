//! Set-ups of transports: keys of a scenario's `[transport]` under a name.

use serde::Deserialize;
use sim_core::units::Rate;

use super::rows::gbit_opt;

/// How a transport is set up.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The keys of a scenario's `[transport]`; what is absent is the key's default.
    pub transport: toml::Table,
    /// The rate of a port that its thresholds are meant for, one direction; absent if they follow the rate.
    #[serde(default, rename = "port_gbit", deserialize_with = "gbit_opt")]
    pub port_rate: Option<Rate>,
}
