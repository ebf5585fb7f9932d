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
}

/// Reports on `route`, hop by hop.
///
/// # Panics
/// If the route is of another fabric.
#[must_use]
pub fn path(fabric: &Fabric, route: &Route) -> PathReport {
    let mut slowest = None;
    let mut least = f64::INFINITY;
    let mut bandwidth = f64::INFINITY;
    let mut hops = Vec::with_capacity(route.links.len());
    for &id in &route.links {
        let link = fabric.link(id);
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
        });
    }
    let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
    let latency: sim_core::units::Span = route.links.iter().map(|&id| fabric.link(id).latency).sum();
    PathReport {
        kind: route.kind,
        latency_ns: latency.as_ns(),
        bandwidth_gbyte: finite(bandwidth),
        effective_gbyte: finite(least),
        bottleneck: slowest.map(|id| fabric.link_name(id)),
        equal_paths: route.equal_paths,
        hops,
    }
}
