//! Reference clusters: a system, how many of it, and the network, as keys of a scenario.

use serde::Deserialize;

/// A cluster that somebody built or described.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The keys of a scenario that make it: `system`, `nodes`, `[fabric]`, `[transport]`.
    pub scenario: toml::Table,
    /// The counts that its sources state; what is absent was not published.
    #[serde(default)]
    pub published: Published,
    /// Counts that follow from what the sources state, and that they don't state themselves.
    #[serde(default)]
    pub derived: Published,
}

/// Counts of a cluster, published or derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Leaves.
    pub leaves: Option<u32>,
    /// Spines.
    pub spines: Option<u32>,
    /// Cores.
    pub cores: Option<u32>,
    /// Cables from NICs to leaves.
    pub nic_cables: Option<u64>,
    /// Cables between leaves and spines.
    pub leaf_spine_cables: Option<u64>,
    /// Cables between spines and cores.
    pub spine_core_cables: Option<u64>,
    /// Links that a published cable carries, where a cable is a pair of ports.
    pub links_per_cable: Option<u64>,
    /// Rate between pods for each GPU, one direction, in Gb/s.
    pub cross_pod_gbit_per_gpu: Option<f64>,
}
