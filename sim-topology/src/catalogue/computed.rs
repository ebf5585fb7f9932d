//! What follows from a row: figures that are computed when they are shown, each with its formula.

use serde::Serialize;
use sim_core::units::Bytes;

use super::Catalogue;
use super::cluster::Cluster;
use super::facts::{Constant, Fec, Measured, Optic, PathLatency, PcieSwitch, Power, Price, Rental};
use super::preset::Preset;
use super::rows::{
    C2c, Cable, CopyWay, Gpu, Host, Latency, Nic, NvSwitch, Nvlink, Nvme, Pcie, SocketLink, Switch, System,
    TransportPreset,
};

/// A figure that is computed from others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComputedFigure {
    /// What it is.
    pub name: String,
    /// The value with its unit.
    pub value: String,
    /// How it comes about.
    pub formula: String,
}

fn figure(name: impl Into<String>, value: String, formula: String) -> ComputedFigure {
    ComputedFigure { name: name.into(), value, formula }
}

/// What follows from a kind of row.
pub(crate) trait Computed {
    /// The figures, in the order in which they are shown.
    fn computed(&self, _catalogue: &Catalogue) -> Vec<ComputedFigure> {
        Vec::new()
    }
}

macro_rules! nothing_follows {
    ($($row:ty),*) => { $(impl Computed for $row {})* };
}

nothing_follows!(
    Cluster,
    Preset,
    System,
    C2c,
    SocketLink,
    Host,
    Nvme,
    CopyWay,
    Latency,
    Cable,
    PcieSwitch,
    PathLatency,
    Constant,
    Price,
    Power,
    Measured
);

/// The rate of a PCIe link as a figure.
fn pcie(catalogue: &Catalogue, generation: u32, lanes: u32) -> Option<ComputedFigure> {
    let row = catalogue.pcie(generation).ok()?;
    let value = format!("{:.1} GB/s", row.rate(lanes).as_gbyte());
    Some(figure("PCIe link, net", value, format!("{lanes} lanes x {:.3} GB/s", row.lane_rate.as_gbyte())))
}

impl Computed for Gpu {
    fn computed(&self, catalogue: &Catalogue) -> Vec<ComputedFigure> {
        let mut out = Vec::new();
        if let Some(link) = catalogue.gpu_link(self).ok().flatten().filter(|_| self.nvlinks > 0) {
            let (each, links) = (link.link_rate.as_gbyte(), self.nvlinks);
            let value = format!("{} GB/s", each * f64::from(links));
            out.push(figure("all its links, net", value, format!("{links} x {each} GB/s of {}", link.name)));
        }
        out.extend(pcie(catalogue, self.pcie_gen, self.pcie_lanes));
        out
    }
}

impl Computed for Nvlink {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let rate = self.link_rate.as_gbyte();
        let (payload, header) = (self.payload.get(), self.header.get());
        let share = payload as f64 / (payload + header).max(1) as f64;
        let formula = format!("{rate} x {payload} / ({payload} + {header})");
        let mut out = vec![figure("link after headers", format!("{:.2} GB/s", rate * share), formula)];
        if let Some(links) = self.links_per_gpu {
            let formula = format!("{links} x {rate} GB/s");
            out.push(figure("GPU with all links, net", format!("{} GB/s", rate * f64::from(links)), formula));
        }
        out
    }
}

impl Computed for NvSwitch {
    fn computed(&self, catalogue: &Catalogue) -> Vec<ComputedFigure> {
        let Some(link) = catalogue.nvlink(self.nvlink_gen).ok().filter(|_| self.ports > 0) else { return Vec::new() };
        let (rate, ports) = (link.link_rate.as_gbyte(), self.ports);
        vec![figure("chip", format!("{} GB/s", rate * f64::from(ports)), format!("{ports} ports x {rate} GB/s"))]
    }
}

impl Computed for Pcie {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let lane = self.lane_rate.as_gbyte();
        let width = |n: u32| {
            let value = format!("{:.2} GB/s", self.rate(n).as_gbyte());
            figure(format!("x{n}, net"), value, format!("{n} x {lane:.4} GB/s"))
        };
        let x16 = self.rate(16).as_gbyte();
        let writes = |payload: u64| {
            let value = format!("{:.2} GB/s", x16 * self.write_share(Bytes::new(payload)));
            let formula = format!("{x16:.2} x {payload} / ({payload} + {})", self.tlp_overhead.get());
            figure(format!("x16, writes of {payload} B"), value, formula)
        };
        [4, 8, 16].map(width).into_iter().chain([128, 256, 512].map(writes)).collect()
    }
}

impl Computed for Nic {
    fn computed(&self, catalogue: &Catalogue) -> Vec<ComputedFigure> {
        let (each, ports) = (self.port_rate.as_gbyte(), self.ports);
        let value = format!("{} GB/s", self.rate().as_gbyte());
        let formula = format!("{ports} x {} Gb/s / 8", each * 8.0);
        std::iter::once(figure("all ports", value, formula))
            .chain(pcie(catalogue, self.pcie_gen, self.pcie_lanes))
            .collect()
    }
}

impl Computed for Switch {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let gbit = self.port_rate.as_gbyte() * 8.0;
        let value = format!("{} Tb/s", self.capacity().as_gbyte() * 8.0 / 1e3);
        let mut out = vec![figure("all ports", value, format!("{} x {gbit} Gb/s", self.ports))];
        if let Some(power) = self.power_w {
            let value = format!("{:.1} W", power / f64::from(self.ports.max(1)));
            out.push(figure("power of a port", value, format!("{power} W / {}", self.ports)));
        }
        out
    }
}

impl Computed for TransportPreset {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let overhead = self.packet_overhead.get();
        let of = |mtu: u64| {
            let share = self.goodput_share(Bytes::new(mtu));
            let value = format!("{:.2} %, {:.2} of 50 GB/s", 100.0 * share, 50.0 * share);
            figure(format!("goodput at MTU {mtu}"), value, format!("{mtu} / ({mtu} + {overhead})"))
        };
        [256, 512, 1024, 2048, 4096].map(of).to_vec()
    }
}

impl Computed for Fec {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let accumulate = f64::from(self.codeword_bits) / (f64::from(self.lanes.max(1)) * self.lane_line_gbit);
        let formula = format!("{} bits / ({} x {} Gb/s)", self.codeword_bits, self.lanes, self.lane_line_gbit);
        let decode = self.decode.as_us() * 1e3;
        vec![
            figure("one codeword collected", format!("{accumulate:.1} ns"), formula),
            figure(
                "link, one codeword",
                format!("{:.1} ns", accumulate + decode),
                format!("{accumulate:.1} + {decode}"),
            ),
            figure(
                "link, two interleaved",
                format!("{:.1} ns", 2.0 * accumulate + decode),
                format!("2 x {accumulate:.1} + {decode}"),
            ),
        ]
    }
}

impl Computed for Optic {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let Some(power) = self.power_w.or(self.max_power_w) else { return Vec::new() };
        let value = format!("{} W", power / f64::from(self.ports.max(1)));
        vec![figure("power of a port", value, format!("{power} W / {}", self.ports))]
    }
}

impl Computed for Rental {
    fn computed(&self, _: &Catalogue) -> Vec<ComputedFigure> {
        let month = |rate: f64| (rate * 730.0).round();
        let (low, high) = (self.min_usd_per_hour, self.max_usd_per_hour);
        let value =
            if low < high { format!("{} to {} USD", month(low), month(high)) } else { format!("{} USD", month(low)) };
        vec![figure("a month", value, "730 h".to_owned())]
    }
}
