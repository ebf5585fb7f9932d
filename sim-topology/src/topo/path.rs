//! A route hop by hop.

use serde::Serialize;

use crate::fabric::Fabric;
use crate::route::{PairKind, Route};

/// One link of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// The device that sends.
    pub from: String,
    /// The device that receives.
    pub to: String,
    /// The class of the link: `nvlink`, `pcie`, `network`, ...
    pub class: &'static str,
    /// One way, in nanoseconds.
    pub latency_ns: f64,
    /// Net data rate, one direction, in GB/s.
    #[serde(rename = "bandwidth_GBps")]
    pub bandwidth_gbyte: f64,
    /// What is left for the payload of full packets, in GB/s.
    #[serde(rename = "effective_GBps")]
    pub effective_gbyte: f64,
    /// What is wrong with the link; absent for a sound one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A path, its sum of latencies and its bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathReport {
    /// The kind of pair.
    pub kind: PairKind,
    /// The links in order.
    pub hops: Vec<Hop>,
    /// Sum of the hops' latencies, one way, in nanoseconds.
    pub latency_ns: f64,
    /// The least data rate, in GB/s.
    #[serde(rename = "bandwidth_GBps")]
    pub bandwidth_gbyte: f64,
    /// The least payload rate, in GB/s.
    #[serde(rename = "effective_GBps")]
    pub effective_gbyte: f64,
    /// The link with the least payload rate, the first of several.
    pub bottleneck: Option<String>,
    /// Minimal paths, this one among them.
    pub equal_paths: u32,
    /// What is worth saying: stops in host memory and why, links that train below what a card could.
    pub notes: Vec<String>,
}

/// Reports on `route`, hop by hop. Where `packets` are played, links that lose some keep their rate and latency.
///
/// # Panics
/// If the route is of another fabric.
#[must_use]
pub fn path(fabric: &Fabric, route: &Route, packets: bool) -> PathReport {
    let link_of = |id| {
        let mut link = *fabric.link(id);
        if let Some(lossy) = fabric.losses_of(id).filter(|_| packets) {
            (link.rate, link.latency) = lossy.without(link.rate, link.latency);
        }
        link
    };
    let mut slowest = None;
    let mut least = f64::INFINITY;
    let mut bandwidth = f64::INFINITY;
    let mut hops = Vec::with_capacity(route.links.len());
    for &id in &route.links {
        let link = link_of(id);
        let lossy = packets.then(|| fabric.ailment_over_packets(id)).flatten();
        let effective = link.goodput(fabric.mtu()).as_gbyte();
        bandwidth = bandwidth.min(link.rate.as_gbyte());
        if effective < least {
            least = effective;
            slowest = Some(id);
        }
        hops.push(Hop {
            from: fabric.device(link.from).name.clone(),
            to: fabric.device(link.to).name.clone(),
            class: link.class.as_str(),
            latency_ns: link.latency.as_ns(),
            bandwidth_gbyte: link.rate.as_gbyte(),
            effective_gbyte: effective,
            fault: lossy.or_else(|| fabric.ailment_of(id).map(str::to_owned)),
        });
    }
    let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
    let latency: sim_core::units::Span = route.links.iter().map(|&id| link_of(id).latency).sum();
    PathReport {
        kind: route.kind,
        latency_ns: latency.as_ns(),
        bandwidth_gbyte: finite(bandwidth),
        effective_gbyte: finite(least),
        bottleneck: slowest.map(|id| fabric.link_name(id)),
        equal_paths: route.equal_paths,
        notes: notes(fabric, route),
        hops,
    }
}

/// Why the route stops in host memory, if it does, and what is said about the links of its devices.
fn notes(fabric: &Fabric, route: &Route) -> Vec<String> {
    use crate::device::DeviceKind;
    let ends: Vec<_> = route.links.iter().map(|&id| (fabric.link(id).from, fabric.link(id).to)).collect();
    let mut notes = Vec::new();
    for (i, &(_, memory)) in ends.iter().enumerate().take(ends.len().saturating_sub(1)) {
        if fabric.device(memory).kind != DeviceKind::HostMemory {
            continue;
        }
        // The devices at both sides of the stop.
        let endpoint = |kind| matches!(kind, DeviceKind::Gpu | DeviceKind::Nic | DeviceKind::Nvme);
        let before = ends[..=i].iter().rev().map(|e| e.0).find(|&d| endpoint(fabric.device(d).kind));
        let after = ends[i + 1..].iter().map(|e| e.1).find(|&d| endpoint(fabric.device(d).kind));
        let (Some(before), Some(after)) = (before, after) else { continue };
        let why = fabric.bounce(before, after).map_or_else(|| "as asked for".to_owned(), |why| why.to_string());
        let (a, b, at) = (fabric.device(before), fabric.device(after), fabric.device(memory));
        notes.push(format!("{} to {} by way of {}: {why}", a.name, b.name, at.name));
    }
    notes.extend(fabric.node_notes().iter().filter(|n| n.contains("Gen")).cloned());
    notes
}
