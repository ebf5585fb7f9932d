//! Sockets: what joins them, their memory, and the limits inside their root complexes.
//!
//! A limit is a link from a socket to itself that only some traffic crosses, so that it is shared as any link is. The
//! values are in `data/hosts.toml` and `data/socket_links.toml`, each with its source.

use sim_core::units::{Bytes, Rate, Span};

use super::NodeError;
use super::builder::{Builder, root_row};
use super::template::{Firsts, TemplateEnd, TemplateLink};
use crate::catalogue::{Host, SocketLink};
use crate::device::{DeviceKind, LinkClass};

impl Builder<'_> {
    pub(super) fn add_sockets_and_memory(&mut self, first: Firsts) -> Result<(), NodeError> {
        let spec = self.spec;
        let staged = if spec.peer_to_peer { "memory" } else { "staging" };
        let mut link = TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::Memory,
            rate: self.memory()?,
            latency: self.catalogue.latency(staged)?.latency,
            packet_overhead: Bytes::ZERO,
            parallel: 0,
            width: 1,
        };
        for s in 0..spec.sockets {
            self.join(first.socket + s, first.memory + s, link);
        }
        if spec.sockets < 2 {
            return Ok(());
        }
        let Some(between) = &spec.socket_link else {
            return Err(NodeError::Missing { key: "socket_link", because: format!("{} sockets", spec.sockets) });
        };
        if between.links == 0 || between.links > 64 {
            return Err(NodeError::Count { what: "socket_link.links", got: between.links, least: 1, most: 64 });
        }
        let row = self.catalogue.socket_link(&between.name)?;
        link.class = LinkClass::SocketLink;
        link.rate = Rate::bytes_per_sec(row.link_rate.get().saturating_mul(u64::from(between.links)));
        link.latency = self.catalogue.latency("socket-link")?.latency;
        link.width = between.links;
        for a in 0..spec.sockets {
            for b in a + 1..spec.sockets {
                self.join(first.socket + a, first.socket + b, link);
            }
        }
        Ok(())
    }

    /// What a socket's memory reads and writes together.
    fn memory(&self) -> Result<Rate, NodeError> {
        match self.spec.memory {
            Some(rate) => Ok(rate),
            None => Ok(Rate::from_gbyte_f64(self.catalogue.constant("memory-of-a-socket")?)),
        }
    }

    /// The limits of sockets, once all other links are there.
    pub(super) fn add_limits(&mut self, first: Firsts) -> Result<(), NodeError> {
        let spec = self.spec;
        let sockets = spec.sockets;
        let host = self.catalogue.host(&spec.cpu.model).ok().map(|row| Host::clone(row));
        let mut memory = vec![u32::MAX; sockets as usize];
        let mut across = vec![u32::MAX; (sockets * sockets) as usize];
        // DRAM has one bus for reads and writes: they share its rate, of which a host may give less.
        let all = self.memory()?;
        let rate = match host.as_ref().and_then(|h| h.memory_share) {
            Some(share) => Rate::from_gbyte_f64(all.as_gbyte() * share),
            None => all,
        };
        for s in 0..sockets {
            memory[s as usize] = self.limit(first.socket + s, LinkClass::Memory, rate, Bytes::ZERO);
        }
        if let Some(between) = spec.socket_link.as_ref().filter(|_| sockets > 1) {
            let link = SocketLink::clone(self.catalogue.socket_link(&between.name)?);
            // Peer traffic between two sockets stays on one of their links: it is not interleaved by address.
            if between.links > 1 || link.peer_header.get() > 0 {
                for a in 0..sockets {
                    for b in (0..sockets).filter(|&b| b != a) {
                        let overhead = self.line_overhead(&link);
                        across[(a * sockets + b) as usize] =
                            self.limit(first.socket + a, LinkClass::Peer, link.link_rate, overhead);
                    }
                }
            }
        }
        self.limits.memory = memory;
        self.limits.across = across;
        self.limits.read = vec![u32::MAX; spec.nics as usize];
        if let Some(host) = host {
            self.add_port_limits(first, &host)?;
        }
        self.add_uplink_limits();
        Ok(())
    }

    /// Bytes that a packet of the network's MTU loses on a socket link in headers of 64 B lines.
    fn line_overhead(&self, link: &SocketLink) -> Bytes {
        link.peer_header * self.mtu.get().div_ceil(64)
    }

    /// Bytes that a packet of the network's MTU loses on links of GPU to GPU that are AMD's: as between sockets.
    pub(super) fn xgmi_overhead(&self) -> Bytes {
        self.catalogue.socket_link("xgmi3-32").map_or(Bytes::ZERO, |link| self.line_overhead(link))
    }

    /// A link from a device to itself, as wide as what it limits.
    fn limit(&mut self, at: u32, class: LinkClass, rate: Rate, packet_overhead: Bytes) -> u32 {
        let id = self.links.len() as u32;
        let (from, to) = (TemplateEnd::Local(at), TemplateEnd::Local(at));
        let alike = |l: &&TemplateLink| (l.from, l.to, l.class) == (from, to, class);
        let parallel = self.links.iter().filter(alike).count() as u32;
        self.links.push(TemplateLink {
            from,
            to,
            class,
            rate,
            latency: Span::ZERO,
            packet_overhead,
            parallel,
            width: 1,
        });
        id
    }

    /// Links between a socket and what is directly below it, by the number of the downward one.
    fn ports(&self) -> Vec<(u32, u32, u32)> {
        let kind = |end: TemplateEnd| match end {
            TemplateEnd::Local(d) => Some((d, self.devices[d as usize].kind)),
            TemplateEnd::Plane => None,
        };
        let down = |(id, link): (usize, &TemplateLink)| match (kind(link.from)?, kind(link.to)?) {
            ((socket, DeviceKind::Socket), (below, _)) if link.class == LinkClass::Pcie => {
                Some((id as u32, socket, below))
            }
            _ => None,
        };
        self.links.iter().enumerate().filter_map(down).collect()
    }

    fn add_port_limits(&mut self, first: Firsts, host: &Host) -> Result<(), NodeError> {
        let spec = self.spec;
        let ports = self.ports();
        if let Some(payload) = host.peer_payload.filter(|p| *p < spec.pcie_payload && p.get() > 0) {
            // Peer packets leave the root port in pieces of this size, each with a header of its own.
            for &(down, socket, _) in &ports {
                let link = self.links[down as usize];
                let per_packet = link.packet_overhead.get() / self.mtu.get().div_ceil(spec.pcie_payload.get()).max(1);
                let overhead = Bytes::new(per_packet.saturating_mul(self.mtu.get().div_ceil(payload.get())));
                let limit = self.limit(socket, LinkClass::Peer, link.rate, overhead);
                self.limits.port.push((down, limit));
            }
        }
        if let Some(rate) = host.gpu_read_rate {
            for nic in 0..spec.nics {
                let socket = first.socket + self.devices[(first.nic + nic) as usize].socket;
                self.limits.read[nic as usize] = self.limit(socket, LinkClass::Peer, rate, Bytes::ZERO);
            }
        }
        let Some(rate) = host.quadrant_rate else { return Ok(()) };
        // Rows of one quadrant of one socket share two limits: down from memory, and up to it.
        let mut made: Vec<((u32, u32), [u32; 2])> = Vec::new();
        for &(down, socket, below) in &ports {
            let Some(quadrant) = self.row_of(below).and_then(|row| spec.pcie[row].quadrant) else { continue };
            let key = (socket, quadrant);
            let pair = match made.iter().find(|(k, _)| *k == key) {
                Some((_, pair)) => *pair,
                None => {
                    let pair = [0, 1].map(|_| self.limit(socket, LinkClass::Memory, rate, Bytes::ZERO));
                    made.push((key, pair));
                    pair
                }
            };
            self.limits.quadrant.push((down, pair[0]));
            self.limits.quadrant.push((down ^ 1, pair[1]));
        }
        Ok(())
    }

    fn add_uplink_limits(&mut self) {
        for (down, _, below) in self.ports() {
            let Some(rate) = self.row_of(below).and_then(|row| self.spec.pcie[row].peer_uplink) else { continue };
            let limit = self.limit(below, LinkClass::Peer, rate, Bytes::ZERO);
            self.limits.uplink.push((down ^ 1, limit));
        }
    }

    /// The row of `pcie` of a switch, or of the root port on which a device hangs alone.
    fn row_of(&self, local: u32) -> Option<usize> {
        let spec = self.spec;
        if self.devices[local as usize].kind == DeviceKind::PcieSwitch {
            let mut switches = spec.pcie.iter().enumerate().filter(|(_, row)| row.switch);
            return switches.nth((local - spec.gpus) as usize).map(|(row, _)| root_row(spec, row));
        }
        let device = &self.devices[local as usize];
        let named = format!("{}{}", device.kind, device.index);
        spec.pcie.iter().position(|row| {
            let members = |text: &String| super::pcie::members(text).unwrap_or_default();
            row.down.iter().flat_map(members).any(|m| m.to_string() == named)
        })
    }
}
