//! What NCCL sets up once per communicator.

use super::facts::{CrossNic, Facts, FactsError};
use super::graph::Graphs;
use super::graph_search::search_as;
use super::knobs::{Knob, Knobs};
use super::nvls::NvlsPlan;
use super::operation::Operation;
use super::tuning::{CostTable, Setting, fill};
use super::version::Version;

/// A communicator: machine, graphs, channels and cost tables. It does not change after it is built.
#[derive(Clone, Debug)]
pub struct Communicator {
    facts: Facts,
    graphs: Graphs,
    channels: u32,
    nvls: NvlsPlan,
    version: Version,
    knobs: Knobs,
    tables: [CostTable; Operation::ALL.len()],
}

impl Communicator {
    /// Searches the graphs of a machine and sets up its communicator. The variables that the search obeys
    /// (`NCCL_PXN_DISABLE`, `NCCL_CROSS_NIC`, `NCCL_NVLS_ENABLE`, `NCCL_COLLNET_ENABLE`, `NCCL_COLLNET_NODE_THRESHOLD`)
    /// override the facts.
    ///
    /// # Errors
    /// If a figure of the facts is one that no machine has.
    pub fn new(facts: Facts, version: Version, knobs: Knobs) -> Result<Self, FactsError> {
        facts.check()?;
        let facts = obey(facts, &knobs);
        let graphs = search_as(&facts, version);
        Ok(Self::assemble(facts, graphs, None, version, knobs))
    }

    /// A communicator on given graphs, as a tuning file or a log states them. `channels` is the final count; `None`
    /// derives it from the graphs.
    ///
    /// # Errors
    /// If a figure of the facts is one that no machine has.
    pub fn from_graphs(
        facts: Facts,
        graphs: Graphs,
        channels: Option<u32>,
        version: Version,
        knobs: Knobs,
    ) -> Result<Self, FactsError> {
        facts.check()?;
        let facts = obey(facts, &knobs);
        Ok(Self::assemble(facts, graphs, channels, version, knobs))
    }

    fn assemble(facts: Facts, graphs: Graphs, channels: Option<u32>, version: Version, knobs: Knobs) -> Self {
        let channels = channels.unwrap_or_else(|| channel_count(&facts, &graphs, version)).max(1);
        let channels = knobs.clamp_channels(channels, version.max_channels());
        let setting = Setting::new(&facts, &graphs, version, &knobs);
        let tables = Operation::ALL.map(|operation| fill(&setting, operation));
        let nvls = NvlsPlan::new(&facts, &graphs, version, &knobs);
        Self { facts, graphs, channels, nvls, version, knobs, tables }
    }

    /// The machine, with what the environment variables changed.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The search results.
    #[must_use]
    pub const fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// Channels of rings and trees, after doubling and clamping.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        self.channels
    }

    /// Channels and chunks of NVLS.
    #[must_use]
    pub const fn nvls(&self) -> &NvlsPlan {
        &self.nvls
    }

    /// The NCCL release.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The environment variables.
    #[must_use]
    pub const fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// Number of ranks.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.facts.ranks()
    }

    /// The cost table of an operation; for sends and receives it offers nothing.
    #[must_use]
    pub const fn table(&self, operation: Operation) -> &CostTable {
        &self.tables[operation as usize]
    }

    pub(super) fn setting(&self) -> Setting<'_> {
        Setting::new(&self.facts, &self.graphs, self.version, &self.knobs)
    }
}

/// The facts as the environment variables make the search see them.
fn obey(mut facts: Facts, knobs: &Knobs) -> Facts {
    if knobs.number(Knob::PxnDisable) == Some(1) {
        facts.pxn = false;
    }
    facts.cross_nic = match knobs.number(Knob::CrossNic) {
        Some(0) => CrossNic::Never,
        Some(1) => CrossNic::Always,
        Some(_) => CrossNic::Auto,
        None => facts.cross_nic,
    };
    if knobs.number(Knob::NvlsEnable) == Some(0) {
        facts.multicast = false;
    }
    match knobs.number(Knob::CollnetEnable) {
        Some(0) => facts.collnet = false,
        Some(_) => {}
        None => {}
    }
    if i64::from(facts.nodes) < knobs.number(Knob::CollnetNodeThreshold).unwrap_or(2) {
        facts.collnet = false;
    }
    facts
}

/// Channels before clamping (`src/graph/connect.cc`, `ncclTopoPostset`): the ring's twice, half as many again with
/// CollNet, and twice more on Hopper and later between nodes where few fast rings were found.
fn channel_count(facts: &Facts, graphs: &Graphs, version: Version) -> u32 {
    let ring = &graphs.ring;
    let mut channels = ring.channels.min(graphs.tree.channels) * 2;
    if facts.collnet && ring.bw_intra > ring.bw_inter {
        channels = channels * 3 / 2;
    }
    if facts.compute_cap >= 90 && facts.nodes > 1 && ring.bw_intra > 45.0 && channels < 16 {
        channels *= 2;
    }
    channels.min(version.max_channels())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(facts: Facts, knobs: &[(&str, &str)]) -> u32 {
        let mut set = Knobs::default();
        for (name, value) in knobs {
            set.set(name, value).unwrap();
        }
        Communicator::new(facts, Version::NEWEST, set).unwrap().channels()
    }

    #[test]
    fn known_channel_counts() {
        assert_eq!(channels(Facts::nvswitch(80, 8, 1), &[]), 24);
        assert_eq!(channels(Facts::nvswitch(90, 8, 1), &[]), 24);
        assert_eq!(channels(Facts::nvswitch(100, 8, 1), &[]), 32);
        assert_eq!(channels(Facts::nvswitch(90, 8, 4), &[]), 16);
        assert_eq!(channels(Facts::nvswitch(90, 1, 16), &[]), 4);
    }

    #[test]
    fn variables_clamp_the_count() {
        let h100 = || Facts::nvswitch(90, 8, 2);
        assert_eq!(channels(h100(), &[("NCCL_MAX_NCHANNELS", "8")]), 8);
        assert_eq!(channels(h100(), &[("NCCL_MIN_NCHANNELS", "32")]), 32);
        assert_eq!(channels(h100(), &[("NCCL_MAX_CTAS", "4")]), 4);
        assert_eq!(channels(h100(), &[("NCCL_MIN_NCHANNELS", "500")]), 64);
    }

    #[test]
    fn impossible_machines_are_refused() {
        for facts in [
            Facts { nodes: 0, ..Facts::nvswitch(90, 8, 1) },
            Facts { nic_gbps: f64::NAN, ..Facts::nvswitch(90, 8, 2) },
            Facts { nics_per_node: 0, ..Facts::nvswitch(90, 8, 2) },
            Facts { nodes: u32::MAX, ..Facts::nvswitch(90, 8, 2) },
        ] {
            assert!(Communicator::new(facts, Version::NEWEST, Knobs::default()).is_err());
        }
    }
}
