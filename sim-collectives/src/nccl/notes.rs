//! What a user should know about the variables that were set: those that change nothing on this machine.

use super::communicator::Communicator;
use super::knobs::{Knob, NameList};
use super::path::PathType;

impl Communicator {
    /// Every variable that cannot do here what it is for, with the reason. Empty if there is none.
    #[must_use]
    pub fn notes(&self) -> Vec<(Knob, String)> {
        let (knobs, facts, version) = (self.knobs(), self.facts(), self.version());
        let set = |knob: Knob| knobs.is_set(knob);
        let mut notes = Vec::new();
        let mut note = |knob: Knob, why: String| notes.push((knob, why));

        let prefixed = [
            (Knob::Algo, knobs.algorithms().is_some_and(NameList::per_operation)),
            (Knob::Proto, knobs.protocols().is_some_and(NameList::per_operation)),
        ];
        for (knob, prefixed) in prefixed {
            if prefixed && !version.since(24) {
                let why = "rules for single operations are read since NCCL 2.24, not by";
                note(knob, format!("{why} {version}; obeyed here"));
            }
        }
        let limit = i64::from(version.max_channels());
        for knob in [Knob::MinNchannels, Knob::MinCtas] {
            if let Some(asked) = knobs.number(knob).filter(|&n| n > limit) {
                note(knob, format!("{asked} channels asked for, NCCL {version} has at most {limit}"));
            }
        }
        let no_nvls = if facts.nvlink_total_gbps <= 0.0 || !facts.nvswitch || facts.compute_cap < 90 {
            Some("the machine has no NVSwitch multicast")
        } else if knobs.number(Knob::NvlsEnable) == Some(0) {
            Some("NCCL_NVLS_ENABLE=0")
        } else {
            None
        };
        if let Some(why) = no_nvls {
            for knob in [Knob::NvlsNchannels, Knob::NvlsChunksize, Knob::NvlstreeMaxChunksize] {
                if set(knob) {
                    note(knob, why.into());
                }
            }
        }
        if set(Knob::NvlsEnable) && !facts.multicast && (knobs.number(Knob::NvlsEnable) != Some(0) || !facts.nvswitch) {
            note(Knob::NvlsEnable, "the machine has no NVSwitch multicast".into());
        }
        if facts.nodes < 2 && set(Knob::NvlstreeMaxChunksize) {
            note(Knob::NvlstreeMaxChunksize, "all ranks are on one node".into());
        }
        if knobs.number(Knob::CollnetEnable) == Some(1) && !facts.collnet {
            let why =
                if facts.nodes < 2 { "there is one node" } else { "the network does not reduce, or has too few nodes" };
            note(Knob::CollnetEnable, why.into());
        }
        if set(Knob::CollnetNodeThreshold) && knobs.number(Knob::CollnetEnable) != Some(1) {
            note(Knob::CollnetNodeThreshold, "NCCL_COLLNET_ENABLE is not 1".into());
        }
        for knob in BETWEEN_NODES {
            if facts.nodes < 2 && set(*knob) {
                note(*knob, "all ranks are on one node".into());
            }
        }
        if facts.nodes > 1 {
            if facts.nvlink_total_gbps <= 0.0 {
                for knob in [Knob::PxnDisable, Knob::P2pPxnLevel] {
                    if set(knob) {
                        note(knob, "PXN needs NVLink".into());
                    }
                }
            } else if !facts.pxn && set(Knob::P2pPxnLevel) {
                note(Knob::P2pPxnLevel, "PXN is off".into());
            }
            if set(Knob::CrossNic) && (facts.nics_per_node < 2 || facts.gpus_per_node < 2) {
                note(Knob::CrossNic, "a node has no second NIC or GPU that a ring could change to".into());
            }
            if set(Knob::P2pNvlChunksize) || set(Knob::P2pPciChunksize) {
                let knob = if set(Knob::P2pNvlChunksize) { Knob::P2pNvlChunksize } else { Knob::P2pPciChunksize };
                note(knob, "over several nodes all sends take NCCL_P2P_NET_CHUNKSIZE".into());
            }
        } else {
            let (other, why) = if facts.nvlink_total_gbps > 0.0 {
                (Knob::P2pPciChunksize, "the GPUs are on NVLink")
            } else {
                (Knob::P2pNvlChunksize, "the GPUs have no NVLink")
            };
            if set(other) {
                note(other, why.into());
            }
        }
        let wide = facts.compute_cap >= 90 && facts.nodes > 1 && self.graphs().ring.type_inter > PathType::Pxb;
        if set(Knob::Ll128C2c) && !wide {
            note(Knob::Ll128C2c, "no LL128 here goes through a chip-to-chip link or another GPU's NIC".into());
        }
        notes
    }
}

/// Variables of what goes between nodes.
const BETWEEN_NODES: &[Knob] = &[
    Knob::CrossNic,
    Knob::PxnDisable,
    Knob::P2pPxnLevel,
    Knob::NetOverhead,
    Knob::NchannelsPerNetPeer,
    Knob::P2pPerChannelNetBw,
    Knob::P2pNetChunksize,
    Knob::NetGdrLevel,
    Knob::IbQpsPerConnection,
    Knob::IbSplitDataOnQps,
    Knob::IbAdaptiveRouting,
    Knob::IbArThreshold,
    Knob::IbDisable,
    Knob::SocketNthreads,
    Knob::NsocksPerthread,
];

#[cfg(test)]
mod tests {
    use crate::nccl::{Communicator, Facts, Knobs, Version};

    fn notes(facts: Facts, minor: u32, set: &[(&str, &str)]) -> String {
        let mut knobs = Knobs::default();
        for (name, value) in set {
            knobs.set(name, value).unwrap();
        }
        let notes = Communicator::new(facts, Version::v2(minor), knobs).unwrap().notes();
        notes.iter().map(|(knob, why)| format!("{}: {why}\n", knob.name())).collect()
    }

    #[test]
    fn variables_without_effect_are_named() {
        let h100 = || Facts::nvswitch(90, 8, 1);
        assert_eq!(notes(h100(), 30, &[("NCCL_ALGO", "Ring"), ("NCCL_MAX_NCHANNELS", "8")]), "");
        for (facts, minor, name, value, part) in [
            (h100(), 30, "NCCL_CROSS_NIC", "1", "one node"),
            (h100(), 23, "NCCL_ALGO", "allreduce:ring;ring", "since NCCL 2.24"),
            (h100(), 30, "NCCL_P2P_PCI_CHUNKSIZE", "64K", "on NVLink"),
            (h100(), 30, "NCCL_IB_QPS_PER_CONNECTION", "4", "one node"),
            (Facts::nvswitch(80, 8, 2), 30, "NCCL_NVLS_NCHANNELS", "8", "no NVSwitch multicast"),
            (Facts::nvswitch(90, 1, 2), 30, "NCCL_CROSS_NIC", "1", "no second NIC"),
            (Facts::pcie(89, 4, 2, 24.0, 25.0), 30, "NCCL_PXN_DISABLE", "1", "needs NVLink"),
            (h100(), 24, "NCCL_MIN_NCHANNELS", "64", "at most 32"),
            (Facts::nvswitch(80, 8, 1), 30, "NCCL_NVLS_ENABLE", "1", "no NVSwitch multicast"),
            (Facts::nvswitch(90, 8, 2), 30, "NCCL_COLLNET_ENABLE", "1", "does not reduce"),
        ] {
            let notes = notes(facts, minor, &[(name, value)]);
            assert!(notes.contains(name) && notes.contains(part), "{name}={value}: {notes}");
        }
    }
}
