//! The PCIe tree of a node: switches and root ports with their links, each trained to the lesser of its ends.

use std::collections::BTreeMap;

use sim_core::units::{Rate, Span};

use super::NodeError;
use super::builder::{Builder, Homes, root_row};
use super::pcie::{Member, PcieSpec, SlotSpec};
use super::template::{Firsts, TemplateEnd, TemplateLink};
use crate::catalogue::{Nvme, Row};
use crate::device::{DeviceKind, LinkClass};

/// What the cards of a node could train to.
pub(super) struct Cards<'a> {
    pub(super) gpu: SlotSpec,
    pub(super) nic: Option<SlotSpec>,
    pub(super) nvme: Option<&'a Row<Nvme>>,
}

/// Latency that an end of a host-side link contributes.
struct Ends {
    gpu: Span,
    pcie_switch: Span,
    socket: Span,
    nic: Span,
}

impl Ends {
    fn of(&self, kind: DeviceKind) -> Span {
        match kind {
            DeviceKind::Gpu => self.gpu,
            DeviceKind::PcieSwitch => self.pcie_switch,
            DeviceKind::Socket => self.socket,
            DeviceKind::Nic => self.nic,
            _ => Span::ZERO,
        }
    }
}

/// Where devices hang: the device above them, and the row that says so.
struct Holder<'a> {
    local: u32,
    slot: SlotSpec,
    row: &'a PcieSpec,
}

impl Builder<'_> {
    /// A PCIe link of this generation and width that loses `extra` bytes a packet more than PCIe itself.
    fn pcie_link(&self, slot: SlotSpec, latency: Span, extra: u32) -> Result<TemplateLink, NodeError> {
        let row = self.catalogue.pcie(slot.generation)?;
        let packets = self.mtu.get().div_ceil(self.spec.pcie_payload.get());
        let overhead = row.tlp_overhead + sim_core::units::Bytes::new(u64::from(extra));
        Ok(TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::Pcie,
            rate: Rate::bytes_per_sec(row.lane_rate.get().saturating_mul(u64::from(slot.lanes))),
            latency,
            packet_overhead: overhead * packets,
            parallel: 0,
            width: slot.lanes,
        })
    }

    /// What a card in a slot trains to, and a note if that is less than it could.
    fn negotiate(
        &self,
        member: Member,
        slot: SlotSpec,
        card: SlotSpec,
        notes: &mut BTreeMap<String, Vec<Member>>,
    ) -> SlotSpec {
        let both = slot.negotiate(card);
        let trained = self.spec.trained.get(&member.to_string()).map(|t| both.negotiate(*t));
        let link = trained.unwrap_or(both);
        let text = |s: SlotSpec| format!("Gen{} x{}", s.generation, s.lanes);
        let why = if link != both {
            Some(format!("{}: trained below the {} that both ends could", text(link), text(both)))
        } else if both != card {
            Some(format!("{}: the card is {} in a {} slot", text(both), text(card), text(slot)))
        } else if both.generation < slot.generation {
            Some(format!("{}: the card is Gen{} in a Gen{} slot", text(both), card.generation, slot.generation))
        } else {
            None
        };
        if let Some(why) = why {
            notes.entry(why).or_default().push(member);
        }
        link
    }

    pub(super) fn add_pcie(&mut self, homes: &Homes, first: Firsts, cards: &Cards<'_>) -> Result<(), NodeError> {
        let spec = self.spec;
        let latency = |name| self.catalogue.latency(name).map(|row| row.latency);
        let ends = Ends {
            gpu: latency("gpu")?,
            pcie_switch: latency("pcie-switch")?,
            socket: latency("socket")?,
            nic: latency("nic-host")?,
        };
        let mut notes = BTreeMap::new();
        let mut switch_of: Vec<Option<u32>> = Vec::with_capacity(spec.pcie.len());
        let mut next = spec.gpus;
        for entry in &spec.pcie {
            switch_of.push(entry.switch.then_some(next));
            next += u32::from(entry.switch);
        }
        for (row, entry) in spec.pcie.iter().enumerate() {
            let slot = entry.slot.unwrap_or(entry.uplink);
            let above = match entry.parent {
                None if entry.socket < spec.sockets => first.socket + entry.socket,
                None => {
                    let count = spec.sockets as usize;
                    return Err(NodeError::NoSuchParent { row, what: "socket", index: entry.socket, count });
                }
                // Only rows above: a cycle cannot be written.
                Some(parent) => {
                    let root = root_row(spec, row);
                    let on = spec.pcie[root].socket;
                    // Socket 0 is also what a row has that states none.
                    if root != row && entry.socket != 0 && entry.socket != on {
                        return Err(NodeError::OtherSocket { row, socket: entry.socket, parent, on });
                    }
                    match switch_of.get(parent as usize).copied().flatten().filter(|_| (parent as usize) < row) {
                        Some(switch) => switch,
                        None => {
                            return Err(NodeError::NoSuchParent { row, what: "switch row", index: parent, count: row });
                        }
                    }
                }
            };
            let holder = match switch_of[row] {
                Some(switch) => {
                    let above_kind = self.devices[above as usize].kind;
                    let alpha = ends.of(DeviceKind::PcieSwitch) + ends.of(above_kind);
                    let link = self.pcie_link(entry.uplink, alpha, entry.packet_extra)?;
                    self.join(switch, above, link);
                    Holder { local: switch, slot, row: entry }
                }
                None => Holder { local: above, slot: entry.uplink, row: entry },
            };
            let here = |homes: &[Option<usize>]| -> Vec<u32> {
                (0..homes.len() as u32).filter(|&i| homes[i as usize] == Some(row)).collect()
            };
            let holder_end = ends.of(self.devices[holder.local as usize].kind);
            for gpu in here(&homes.gpu) {
                let slot = self.negotiate(Member::Gpu(gpu), holder.slot, cards.gpu, &mut notes);
                let link = self.pcie_link(slot, ends.gpu + holder_end, entry.packet_extra)?;
                self.join(gpu, holder.local, link);
            }
            for nic in here(&homes.nic) {
                let card = cards.nic.unwrap_or(holder.slot);
                let slot = self.negotiate(Member::Nic(nic), holder.slot, card, &mut notes);
                let link = self.pcie_link(slot, ends.nic + holder_end, entry.packet_extra)?;
                if let Some(rate) = self.spec.nic_rate.filter(|rate| *rate > link.rate) {
                    let (generation, lanes) = (slot.generation, slot.lanes);
                    let why = format!("NIC of {rate}: its slot, Gen{generation} x{lanes}, carries {}", link.rate);
                    notes.entry(why).or_default().push(Member::Nic(nic));
                }
                self.join(first.nic + nic, holder.local, link);
            }
            for nvme in here(&homes.nvme) {
                if let Some(drive) = cards.nvme {
                    self.add_drive(nvme, first, &holder, drive, holder_end, &mut notes)?;
                }
            }
        }
        self.join_partitions(&switch_of, &ends)?;
        for (why, members) in notes {
            self.notes.push(format!("{}: {why}", ranges(&members)));
        }
        Ok(())
    }

    /// A drive: its link is no faster than its flash, each direction by itself, and its latency that of the flash.
    fn add_drive(
        &mut self,
        nvme: u32,
        first: Firsts,
        holder: &Holder<'_>,
        drive: &Row<Nvme>,
        holder_end: Span,
        notes: &mut BTreeMap<String, Vec<Member>>,
    ) -> Result<(), NodeError> {
        let card = SlotSpec { generation: drive.pcie_gen, lanes: drive.pcie_lanes };
        let slot = self.negotiate(Member::Nvme(nvme), holder.slot, card, notes);
        let link = self.pcie_link(slot, holder_end, holder.row.packet_extra)?;
        self.join(first.nvme + nvme, holder.local, link);
        let mtu = u128::from(self.mtu.get().max(1));
        // The rate on the wire that leaves the flash's for the payload.
        let wire = |payload: Rate| {
            let wire = u128::from(payload.get()) * (mtu + u128::from(link.packet_overhead.get())) / mtu;
            Rate::bytes_per_sec(u64::try_from(wire).unwrap_or(u64::MAX)).min(link.rate)
        };
        let count = self.links.len();
        self.links[count - 2].rate = wire(drive.read_rate);
        self.links[count - 2].latency = link.latency + drive.read_latency;
        self.links[count - 1].rate = wire(drive.write_rate);
        self.links[count - 1].latency = link.latency + drive.write_latency;
        Ok(())
    }

    /// Partitions of one chip are joined inside it, at the rate of its widest slot.
    fn join_partitions(&mut self, switch_of: &[Option<u32>], ends: &Ends) -> Result<(), NodeError> {
        let spec = self.spec;
        for (row, entry) in spec.pcie.iter().enumerate() {
            for (above, other) in spec.pcie.iter().enumerate().take(row) {
                let (Some(a), Some(b)) = (switch_of[above], switch_of[row]) else { continue };
                if entry.chip.is_none() || entry.chip != other.chip || entry.parent == Some(above as u32) {
                    continue;
                }
                let slot = entry.slot.unwrap_or(entry.uplink);
                let link = self.pcie_link(slot, ends.pcie_switch, entry.packet_extra)?;
                self.join(a, b, link);
            }
        }
        Ok(())
    }
}

/// `gpu0-3, gpu6`.
fn ranges(members: &[Member]) -> String {
    let number = |m: &Member| match m {
        Member::Gpu(i) => ("gpu", *i),
        Member::Nic(i) => ("nic", *i),
        Member::Nvme(i) => ("nvme", *i),
    };
    let mut sorted: Vec<(&str, u32)> = members.iter().map(number).collect();
    sorted.sort_unstable();
    let mut parts: Vec<(&str, u32, u32)> = Vec::new();
    for (kind, i) in sorted {
        match parts.last_mut() {
            Some((last, _, end)) if *last == kind && *end + 1 == i => *end = i,
            _ => parts.push((kind, i, i)),
        }
    }
    let text = |&(kind, a, b): &(&str, u32, u32)| if a == b { format!("{kind}{a}") } else { format!("{kind}{a}-{b}") };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}
