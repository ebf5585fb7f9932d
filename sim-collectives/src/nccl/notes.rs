//! What a user should know about the variables that were set: those that change nothing on this machine.

use super::communicator::Communicator;
use super::knobs::Knob;
use super::operation::Operation;

impl Communicator {
    /// One sentence for every variable that cannot do here what it is for, with the reason. Empty if there is none.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let knobs = self.knobs();
        let set = |knob| knobs.number(knob);
        let mut notes = Vec::new();
        let mut note = |knob: Knob, why: String| notes.push(format!("{}: {why}", knob.name()));

        let prefixed = [
            (Knob::Algo, knobs.algorithms().is_some_and(super::NameList::per_operation)),
            (Knob::Proto, knobs.protocols().is_some_and(super::NameList::per_operation)),
        ];
        for (knob, prefixed) in prefixed {
            if prefixed && !self.version().since(24) {
                let version = self.version();
                note(
                    knob,
                    format!("rules for single operations are read since NCCL 2.24, not by {version}; obeyed here"),
                );
            }
        }
        let limit = i64::from(self.version().max_channels());
        for knob in [Knob::MinNchannels, Knob::MinCtas] {
            if let Some(asked) = set(knob).filter(|&n| n > limit) {
                note(knob, format!("{asked} channels asked for, NCCL {} has at most {limit}", self.version()));
            }
        }
        let facts = self.facts();
        if set(Knob::NvlsEnable) == Some(1) && !facts.multicast {
            note(Knob::NvlsEnable, "no effect, the machine has no NVSwitch multicast".into());
        }
        if set(Knob::CollnetEnable) == Some(1) && !facts.collnet {
            let why =
                if facts.nodes < 2 { "there is one node" } else { "the network does not reduce, or has too few nodes" };
            note(Knob::CollnetEnable, format!("no effect, {why}"));
        }
        if facts.nodes < 2 {
            for knob in [Knob::CrossNic, Knob::PxnDisable, Knob::NetOverhead, Knob::NchannelsPerNetPeer] {
                if set(knob).is_some() {
                    note(knob, "no effect, all ranks are on one node".into());
                }
            }
        }
        if facts.nvlink_total_gbps <= 0.0 && set(Knob::PxnDisable).is_some() && facts.nodes > 1 {
            note(Knob::PxnDisable, "no effect, PXN needs NVLink".into());
        }
        for operation in Operation::COLLECTIVES {
            let offered = self.table(operation).entries().any(|(.., entry)| entry.is_ok());
            if !offered && self.ranks() > 1 {
                note(Knob::Algo, format!("together with NCCL_PROTO and the machine it leaves nothing for {operation}"));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use crate::nccl::{Communicator, Facts, Knobs, Version};

    fn notes(facts: Facts, minor: u32, set: &[(&str, &str)]) -> String {
        let mut knobs = Knobs::default();
        for (name, value) in set {
            knobs.set(name, value).unwrap();
        }
        Communicator::new(facts, Version::v2(minor), knobs).unwrap().notes().join("\n")
    }

    #[test]
    fn variables_without_effect_are_named() {
        let h100 = || Facts::nvswitch(90, 8, 1);
        assert_eq!(notes(h100(), 30, &[("NCCL_ALGO", "Ring"), ("NCCL_MAX_NCHANNELS", "8")]), "");
        for (facts, minor, name, value, part) in [
            (h100(), 30, "NCCL_CROSS_NIC", "1", "one node"),
            (h100(), 23, "NCCL_ALGO", "allreduce:ring;ring", "since NCCL 2.24"),
            (h100(), 30, "NCCL_ALGO", "tree", "nothing for all_gather"),
            (h100(), 24, "NCCL_MIN_NCHANNELS", "64", "at most 32"),
            (Facts::nvswitch(80, 8, 1), 30, "NCCL_NVLS_ENABLE", "1", "no NVSwitch multicast"),
            (Facts::nvswitch(90, 8, 2), 30, "NCCL_COLLNET_ENABLE", "1", "does not reduce"),
        ] {
            let notes = notes(facts, minor, &[(name, value)]);
            assert!(notes.contains(name) && notes.contains(part), "{name}={value}: {notes}");
        }
    }
}
