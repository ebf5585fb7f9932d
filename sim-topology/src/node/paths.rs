//! Paths over PCIe, sockets and chip-to-chip links inside a node: the shortest, what ACS makes of it, and the limits
//! inside root complexes that it meets.

use std::collections::VecDeque;

use super::template::{TemplateDevice, TemplateEnd, TemplateLink};
use crate::device::{DeviceKind, LinkClass};
use crate::path_class::PathClass;

/// Limits inside sockets, as numbers of links from a socket to itself; `u32::MAX` where there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// Per memory (in the order of sockets): its reads and writes together.
    pub(super) memory: Vec<u32>,
    /// `[from * sockets + to]`: peer traffic from one socket to another.
    pub(super) across: Vec<u32>,
    /// Per link: peer traffic that goes down this root port.
    pub(super) port: Vec<(u32, u32)>,
    /// Per link up to a socket: peer traffic from below it to another root port.
    pub(super) uplink: Vec<(u32, u32)>,
    /// Per NIC: what it reads from GPUs through a root complex.
    pub(super) read: Vec<u32>,
    /// Per link up to a socket or down from it: the quadrant of its root port, for memory traffic.
    pub(super) quadrant: Vec<(u32, u32)>,
}

impl Limits {
    fn of(list: &[(u32, u32)], link: u32) -> Option<u32> {
        list.iter().find(|(l, _)| *l == link).map(|&(_, limit)| limit)
    }

    /// Whether there is a limit at all: without one, paths are what the links say.
    fn any(&self) -> bool {
        let some = |list: &[u32]| list.iter().any(|&l| l != u32::MAX);
        some(&self.memory)
            || some(&self.across)
            || some(&self.read)
            || !(self.port.is_empty() && self.uplink.is_empty() && self.quadrant.is_empty())
    }
}

/// The paths between all devices of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct HostPaths {
    /// `[a * devices + b]`: links as data go; empty if `a == b` or there is none.
    pub(super) paths: Vec<Box<[u32]>>,
    /// `[a * devices + b]`: the class, as `nvidia-smi topo -m` prints it.
    pub(super) classes: Vec<PathClass>,
}

/// Works out all paths over links that are not dead.
pub(super) fn host_paths(
    devices: &[TemplateDevice],
    links: &[TemplateLink],
    dead: &[u32],
    acs: bool,
    limits: &Limits,
) -> HostPaths {
    let n = devices.len();
    let shortest = shortest(devices, links, dead);
    let mut out = HostPaths { paths: Vec::with_capacity(n * n), classes: Vec::with_capacity(n * n) };
    let walk = Walk { devices, links, shortest: &shortest };
    for from in 0..n {
        for to in 0..n {
            let bare = &shortest[from * n + to];
            out.classes.push(walk.class(from, to, bare));
            let routed = if acs { walk.redirected(from, to, bare) } else { None };
            let path = routed.as_deref().unwrap_or(bare);
            out.paths.push(if limits.any() { walk.limited(from, to, path, limits) } else { path.into() });
        }
    }
    out
}

struct Walk<'a> {
    devices: &'a [TemplateDevice],
    links: &'a [TemplateLink],
    shortest: &'a [Box<[u32]>],
}

impl Walk<'_> {
    fn end(&self, link: u32) -> usize {
        match self.links[link as usize].to {
            TemplateEnd::Local(to) => to as usize,
            TemplateEnd::Plane => usize::MAX,
        }
    }

    fn kind(&self, device: usize) -> DeviceKind {
        self.devices[device].kind
    }

    /// Whether it hangs on PCIe as an endpoint.
    fn is_endpoint(&self, device: usize) -> bool {
        matches!(self.kind(device), DeviceKind::Gpu | DeviceKind::Nic | DeviceKind::Nvme)
    }

    fn class(&self, from: usize, to: usize, path: &[u32]) -> PathClass {
        if from == to {
            return PathClass::X;
        }
        if path.is_empty() {
            // What faults have cut off.
            return PathClass::Net;
        }
        let (mut switches, mut sockets, mut inside) = (0, 0, false);
        let mut at = from;
        let mut count = |at: usize| match self.kind(at) {
            DeviceKind::PcieSwitch => switches += 1,
            DeviceKind::Socket => sockets += 1,
            _ => {}
        };
        count(from);
        for &link in path {
            let next = self.end(link);
            let chips = (self.devices[at].chip, self.devices[next].chip);
            // Partitions of one chip look like root ports of their own.
            inside |= matches!(chips, (Some(a), Some(b)) if a == b);
            count(next);
            at = next;
        }
        let (a, b) = (&self.devices[from], &self.devices[to]);
        let host = |kind| matches!(kind, DeviceKind::Socket | DeviceKind::HostMemory);
        match (switches, sockets) {
            _ if inside => PathClass::Node,
            (0..=1, 0) => PathClass::Pix,
            (_, 0) => PathClass::Pxb,
            (_, 1) if host(a.kind) || host(b.kind) => PathClass::Phb,
            (_, 1) if a.numa != b.numa => PathClass::Sys,
            (_, 1) if a.host_bridge.is_some() && a.host_bridge == b.host_bridge => PathClass::Phb,
            (_, 1) => PathClass::Node,
            _ => PathClass::Sys,
        }
    }

    /// With ACS, peer traffic that would stay below a root port goes up to the socket and comes back.
    fn redirected(&self, from: usize, to: usize, path: &[u32]) -> Option<Box<[u32]>> {
        let below = path.iter().all(|&l| self.kind(self.end(l)) != DeviceKind::Socket);
        if from == to || path.is_empty() || !below || !self.is_endpoint(from) || !self.is_endpoint(to) {
            return None;
        }
        let n = self.devices.len();
        let socket =
            self.devices.iter().position(|d| d.kind == DeviceKind::Socket && d.index == self.devices[from].socket)?;
        let (up, down) = (&self.shortest[from * n + socket], &self.shortest[socket * n + to]);
        (!up.is_empty() && !down.is_empty()).then(|| up.iter().chain(down.iter()).copied().collect())
    }

    /// The path with the limits that it meets inside sockets.
    fn limited(&self, from: usize, to: usize, path: &[u32], limits: &Limits) -> Box<[u32]> {
        let peers = self.is_endpoint(from) && self.is_endpoint(to);
        let memory = |device: usize| {
            (self.kind(device) == DeviceKind::HostMemory)
                .then(|| limits.memory.get(self.devices[device].index as usize).copied())
                .flatten()
        };
        let mut out: Vec<u32> = Vec::with_capacity(path.len() + 3);
        let push = |out: &mut Vec<u32>, limit: Option<u32>| out.extend(limit.filter(|&l| l != u32::MAX));
        let mut first_socket = true;
        for (i, &link) in path.iter().enumerate() {
            out.push(link);
            let at = self.end(link);
            let Some(&next) = path.get(i + 1) else { break };
            if self.kind(at) != DeviceKind::Socket {
                continue;
            }
            let onward = self.end(next);
            if i == 0 {
                push(&mut out, memory(from));
            }
            if onward == to {
                push(&mut out, memory(to));
            }
            if peers {
                if first_socket {
                    if let Some(nic) = (self.kind(to) == DeviceKind::Nic).then_some(self.devices[to].index as usize) {
                        push(&mut out, limits.read.get(nic).copied());
                    }
                    // Straight back down the same port is no matter of the uplink's way to others.
                    let back = path.iter().any(|&l| l == reverse(link));
                    push(&mut out, Limits::of(&limits.uplink, link).filter(|_| !back));
                }
                if self.kind(onward) == DeviceKind::Socket {
                    let (a, b) = (self.devices[at].index as usize, self.devices[onward].index as usize);
                    let sockets = self.devices.iter().filter(|d| d.kind == DeviceKind::Socket).count();
                    push(&mut out, limits.across.get(a * sockets + b).copied());
                } else {
                    push(&mut out, Limits::of(&limits.port, next));
                }
            } else {
                // One end is memory: the port on the other side of this socket has its quadrant.
                push(&mut out, Limits::of(&limits.quadrant, link));
                push(&mut out, Limits::of(&limits.quadrant, next));
            }
            first_socket = false;
        }
        out.into()
    }
}

/// The other direction of a link: both are added together.
const fn reverse(link: u32) -> u32 {
    link ^ 1
}

/// Shortest paths in links between all devices of a node, over all links but those of GPUs among each other; only
/// switches and sockets forward. Among equal ones the one over the links that were added first.
fn shortest(devices: &[TemplateDevice], links: &[TemplateLink], dead: &[u32]) -> Vec<Box<[u32]>> {
    let n = devices.len();
    let mut out: Vec<Vec<(u32, usize)>> = vec![Vec::new(); n];
    for (id, link) in links.iter().enumerate() {
        if let (TemplateEnd::Local(from), TemplateEnd::Local(to)) = (link.from, link.to)
            && !matches!(link.class, LinkClass::NvLink | LinkClass::Xgmi | LinkClass::Peer)
            && !dead.contains(&(id as u32))
        {
            out[from as usize].push((id as u32, to as usize));
        }
    }
    let mut paths: Vec<Box<[u32]>> = vec![Box::default(); n * n];
    for source in 0..n {
        let mut queue = VecDeque::from([source]);
        let mut seen = vec![false; n];
        seen[source] = true;
        while let Some(at) = queue.pop_front() {
            if at != source && !devices[at].kind.forwards_in_node() {
                continue;
            }
            for &(link, to) in &out[at] {
                if !seen[to] {
                    seen[to] = true;
                    let mut path = paths[source * n + at].to_vec();
                    path.push(link);
                    paths[source * n + to] = path.into();
                    queue.push_back(to);
                }
            }
        }
    }
    paths
}
