//! Results about the device graph.

use serde::{Deserialize, Serialize};

/// What `topo` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopoResults {
    /// All ordered GPU pairs by the kind of their path.
    pub pairs: PairCounts,
    /// Devices, as the topology describes them: a list or counts by kind.
    pub devices: serde_json::Value,
    /// Links, likewise.
    pub links: serde_json::Value,
    /// Rate across the narrowest halving of the GPUs, one direction.
    #[serde(rename = "bisection_GBps")]
    pub bisection: f64,
    /// Leaf downlinks over uplinks by rate, where there are tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// What has to be bought.
    pub bill_of_materials: Vec<BillItem>,
}

/// A partition of all ordered GPU pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCounts {
    /// Over NVLink or NVSwitch.
    pub nvlink: u64,
    /// Over PCIe and the sockets of one node.
    pub pcie: u64,
    /// Over the network, same NIC position at both ends.
    pub same_rail: u64,
    /// Over the network after a hop to a GPU on the right rail.
    pub pxn: u64,
    /// Over the network between rails.
    pub cross_rail: u64,
}

impl PairCounts {
    /// The number of ordered pairs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.nvlink + self.pcie + self.same_rail + self.pxn + self.cross_rail
    }
}

/// A line of the bill of materials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BillItem {
    /// What it is.
    pub item: String,
    /// How many.
    pub count: u64,
    /// Unit price, where the scenario gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_cost_usd: Option<f64>,
    /// Power of one, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_power_w: Option<f64>,
}
