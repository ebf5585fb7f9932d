//! What closed forms take from a fabric: the links of a GPU, and the way of a group of GPUs.

use sim_core::units::{Rate, Span};
use sim_topology::{DeviceId, Fabric, Route, RouteRequest};

use super::{Cluster, Lies, Path, Way};

/// What a step of a collective takes beside its way on the wires: a kernel's turn, and between domains the host's share of a transfer. Round
/// figures, below what small messages of the rows of `docs/accuracy.md` take.
const TURN_UP: Span = Span::from_us(1);
const TURN_OUT: Span = Span::from_us(3);

impl Cluster {
    /// The rates and latencies of a fabric's first GPU: to the next one of its domain, and to the next domain.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Self {
        let gpus = fabric.gpus();
        let domain =
            fabric.nodes().first().map_or(1, |node| node.gpus.len()).max(1) * fabric.nodes_per_domain() as usize;
        let between = |to: usize| {
            let (from, to) = (*gpus.first()?, *gpus.get(to)?);
            let route = fabric.route(&RouteRequest::auto(from, to)).ok()?;
            let report = sim_topology::topo::path(fabric, &route, false);
            let latency = Span::from_ps((report.latency_ns * 1e3) as u64);
            Some(Path { rate: Rate::from_gbyte_f64(report.effective_gbyte), latency })
        };
        let none = Path { rate: Rate::gbyte(1_000), latency: Span::ZERO };
        let inside = if domain > 1 { between(1) } else { None };
        let across = between(domain).or(inside).unwrap_or(none);
        let inside = inside.unwrap_or(across);
        let first = gpus.first().and_then(|gpu| fabric.domain_of(*gpu));
        Self {
            scale_up: Path { latency: inside.latency + TURN_UP, ..inside },
            scale_out: Path { latency: across.latency + TURN_OUT, ..across },
            reduces: first.is_some_and(|domain| fabric.nvswitch_of(domain).is_some()),
        }
    }
}

fn path_of(fabric: &Fabric, from: DeviceId, to: DeviceId) -> Result<(Path, Route), String> {
    let route = fabric.route(&RouteRequest::auto(from, to)).map_err(|e| e.to_string())?;
    let links = || route.links.iter().map(|link| fabric.link(*link));
    let name = |device| &fabric.device(device).name;
    let none = || format!("there is no link between {} and {}", name(from), name(to));
    let rate = links().map(|link| link.rate).min().ok_or_else(none)?;
    Ok((Path { latency: links().map(|link| link.latency).sum(), rate }, route))
}

impl Way {
    /// The way of a group of GPUs, by their numbers in the fabric.
    ///
    /// # Errors
    /// If one does not exist, or they don't reach each other.
    pub fn of(fabric: &Fabric, ranks: &[u32]) -> Result<Self, String> {
        let gpu = |rank: &u32| {
            let known = fabric.gpus().get(*rank as usize).copied();
            known.ok_or_else(|| format!("GPU {rank} does not exist: the fabric has {}", fabric.gpus().len()))
        };
        let gpus: Vec<DeviceId> = ranks.iter().map(gpu).collect::<Result<_, _>>()?;
        // By domain, in the order in which they come.
        let mut domains: Vec<(Option<u32>, Vec<DeviceId>)> = Vec::new();
        for gpu in &gpus {
            let domain = fabric.domain_of(*gpu);
            match domains.iter_mut().find(|(known, _)| *known == domain) {
                Some((_, members)) => members.push(*gpu),
                None => domains.push((domain, vec![*gpu])),
            }
        }
        let widest =
            |best: Option<Path>, path: Path| {
                Some(best.map_or(path, |best| Path {
                    latency: best.latency.max(path.latency),
                    rate: best.rate.max(path.rate),
                }))
            };
        let (mut near, mut far) = (None, None);
        for (_, members) in domains.iter().filter(|(_, members)| members.len() > 1) {
            near = widest(near, path_of(fabric, members[0], members[1])?.0);
        }
        for (i, (_, members)) in domains.iter().enumerate().filter(|_| domains.len() > 1) {
            let next = &domains[(i + 1) % domains.len()].1;
            let (path, route) = path_of(fabric, members[0], next[0])?;
            let cable = route.links.iter().map(|link| fabric.link(*link)).find(|link| link.class.is_network());
            let port = cable.map_or(path.rate, |link| link.rate);
            let mut nics: Vec<DeviceId> = members.iter().flat_map(|gpu| fabric.nics_of(*gpu)).copied().collect();
            nics.sort_unstable();
            nics.dedup();
            let ports = (nics.len() as u64).max(1) * u64::from(fabric.ports_per_nic().max(1));
            // From one to one what is narrow on the way counts, too.
            let one = if gpus.len() == 2 { path.rate } else { port };
            let rate = Rate::bytes_per_sec(one.get().saturating_mul(ports));
            far = widest(far, Path { latency: path.latency, rate });
        }
        let switched = |(domain, _): &(Option<u32>, _)| domain.is_some_and(|d| fabric.nvswitch_of(d).is_some());
        let sizes = || domains.iter().map(|(_, members)| members.len() as u64);
        let lies = Lies {
            members: gpus.len() as u64,
            domains: domains.len() as u64,
            fewest: sizes().min().unwrap_or(1),
            most: sizes().max().unwrap_or(1),
        };
        Ok(Self { lies, near, far, reduces: domains.iter().all(switched) })
    }
}
