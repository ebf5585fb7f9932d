//! Routes through the network, from a NIC to a NIC.

use sim_core::ids::LinkId;

use super::blueprint::MOST_PORTS;
use super::build::Attach;
use super::{Fabric, PathChoice};
use crate::device::{Device, DeviceId, Link};
use crate::route::path_hash;

/// What a packet does on a link between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To a higher tier: not after a step down.
    Up,
    /// To a lower tier.
    Down,
    /// Inside a group.
    Local,
    /// To another group: once only.
    Global,
}

impl Step {
    /// The same cable the other way.
    pub(crate) const fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            same => same,
        }
    }

    /// The state after the step: 0 before the turn (down, or to another group), 1 after it; `None` if it is not legal.
    pub(super) const fn take(self, state: usize) -> Option<usize> {
        match (self, state) {
            (Self::Up, 0) => Some(0),
            (Self::Up | Self::Global, _) if state != 0 => None,
            (Self::Local, state) => Some(state),
            _ => Some(1),
        }
    }
}

/// Minimal paths of each port of a NIC pair, those of the shortest only.
struct Ways {
    paths: [u32; MOST_PORTS as usize],
    ports: usize,
}

impl Ways {
    fn live(&self) -> impl Iterator<Item = (usize, u32)> {
        self.paths[..self.ports].iter().copied().enumerate().filter(|&(_, paths)| paths > 0)
    }
}

impl Fabric {
    /// Appends the links from one NIC to another and says how many equal paths there are; `None` if there is no path.
    ///
    /// `choice` is the number of the path among the equal ones; without it, the fabric's way of choosing decides. Of
    /// several ports of a NIC the one of number `entropy mod ports` is taken, among those that have a path.
    pub(crate) fn append_between_nics(
        &self,
        src: DeviceId,
        dst: DeviceId,
        entropy: u64,
        choice: Option<u32>,
        links: &mut Vec<LinkId>,
    ) -> Option<u32> {
        let (out, into) = (self.attached(src), self.attached(dst));
        // A NIC hands back what is for itself.
        if src == dst {
            return Some(1);
        }
        let ways = self.ways(out, into);
        let live = ways.live().count() as u64;
        let total = ways.live().fold(0u32, |sum, (_, paths)| sum.saturating_add(paths));
        let (port, k) = match choice {
            Some(mut k) => {
                let mut chosen = None;
                for (port, paths) in ways.live() {
                    if k < paths {
                        chosen = Some((port, Some(k)));
                        break;
                    }
                    k -= paths;
                }
                chosen?
            }
            None => (ways.live().nth((entropy.checked_rem(live)?) as usize)?.0, None),
        };
        let (out, into) = (&out[port], &into[port]);
        let (a, b) = (out.leaf.0, into.leaf.0);
        let routes = self.switch_routes();
        links.push(out.up);
        match (k, self.path_choice()) {
            (Some(k), _) => routes.append(&self.links, a, b, k, links),
            (None, PathChoice::Hash) => {
                let k = path_hash(src, dst, entropy) % u64::from(ways.paths[port].max(1));
                routes.append(&self.links, a, b, k as u32, links);
            }
            (None, choice) => {
                let position = u64::from(into.position).wrapping_add(entropy / live);
                if choice == PathChoice::MinHop {
                    routes.append_dealt(&self.links, a, b, position, links);
                } else {
                    routes.append_static(&self.links, a, b, position, links);
                }
            }
        }
        links.push(into.down);
        Some(total)
    }

    /// How many minimal paths each port of a pair of NICs has; 0 for ports without a path and for longer ones.
    fn ways(&self, out: &[Attach], into: &[Attach]) -> Ways {
        let mut ways = Ways { paths: [0; MOST_PORTS as usize], ports: out.len().min(into.len()) };
        let mut least = u32::MAX;
        for (port, (out, into)) in out.iter().zip(into).enumerate() {
            if !self.links[out.up.index()].alive || !self.links[into.down.index()].alive {
                continue;
            }
            let Some((paths, hops)) = self.switch_routes().minimal(&self.links, out.leaf.0, into.leaf.0) else {
                continue;
            };
            if hops < least {
                least = hops;
                ways.paths[..port].fill(0);
            }
            if hops == least {
                ways.paths[port] = paths;
            }
        }
        ways
    }

    /// Whether some port of the NICs has live cables out of the one and into the other.
    pub(crate) fn is_cabled(&self, src: DeviceId, dst: DeviceId) -> bool {
        let alive = |link: LinkId| self.links[link.index()].alive;
        self.attached(src).iter().zip(self.attached(dst)).any(|(out, into)| alive(out.up) && alive(into.down))
    }

    /// Links between the leaves of two NICs, by the shortest of their ports; `None` if there is no path.
    pub(crate) fn switch_links_between(&self, a: DeviceId, b: DeviceId) -> Option<u32> {
        let pairs = self.attached(a).iter().zip(self.attached(b));
        pairs.filter_map(|(a, b)| self.switch_routes().minimal(&self.links, a.leaf.0, b.leaf.0)).map(|(_, n)| n).min()
    }

    /// The links of the network: from NICs to leaves and between switches.
    pub(crate) fn network_links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().rev().take_while(|link| link.class.is_network())
    }

    /// Devices and links, to be changed after the build; routes are worked out anew.
    pub(crate) fn parts_mut(&mut self) -> (&mut [Device], &mut [Link]) {
        self.routes.forget();
        (&mut self.devices, &mut self.links)
    }
}
