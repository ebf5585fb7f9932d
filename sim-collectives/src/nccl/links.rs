//! What NCCL's search takes a link to carry, GB/s one way (`src/graph/topo.h`, `src/graph/topo.cc`).
//!
//! These are planning figures below the data-sheet rates: 20.6 of 25 GB/s for an NVLink 4, 48 of 63 GB/s for PCIe 5
//! x16.

use super::facts::HostCpu;
use super::version::Version;

/// One NVLink of a GPU of compute capability `compute_cap` (90 for Hopper), GB/s per direction.
///
/// Hopper counts 20.0 in 2.18; Blackwell counts as Hopper before 2.25, and 40.0 in 2.25.
#[must_use]
pub const fn nvlink_gbps(compute_cap: u32, version: Version) -> f64 {
    match compute_cap {
        0..=69 => 18.0,
        86 => 12.0,
        70..=89 => 20.0,
        100.. if version.since(26) => 40.1,
        100.. if version.since(25) => 40.0,
        _ if version.since(19) => 20.6,
        _ => 20.0,
    }
}

/// A PCIe link of `generation` 1 to 6 and `width` lanes, GB/s per direction: 3, 6, 12, 24, 48, 96 at x16.
/// A width of 0 counts as 16 and an unknown generation as 3.
#[must_use]
pub const fn pci_gbps(generation: u32, width: u32) -> f64 {
    let per_lane = match generation {
        1 => 15.0,
        2 => 30.0,
        4 => 120.0,
        5 => 240.0,
        6 => 480.0,
        _ => 60.0,
    };
    let width = if width == 0 { 16 } else { width };
    width as f64 * per_lane / 80.0
}

/// A NIC port that reports `megabits` Mb/s, GB/s per direction; 0 counts as 10000 Mb/s.
#[must_use]
pub const fn nic_gbps(megabits: u32) -> f64 {
    let megabits = if megabits == 0 { 10_000 } else { megabits };
    megabits as f64 / 8000.0
}

/// The link between two sockets, GB/s per direction. `model` is the CPU's model number, which matters for Intel (0x55
/// Skylake, 0x8F Sapphire Rapids, 0xCF Emerald Rapids; the last two are told apart from 2.26 on).
#[must_use]
pub const fn socket_gbps(cpu: HostCpu, model: u32, version: Version) -> f64 {
    match cpu {
        HostCpu::Intel if model >= 0xCF && version.since(26) => 40.0,
        HostCpu::Intel if model >= 0x8F && version.since(26) => 22.0,
        HostCpu::Intel if model >= 0x55 => 10.0,
        HostCpu::Amd | HostCpu::Mixed => 16.0,
        HostCpu::Power => 32.0,
        HostCpu::Intel | HostCpu::Arm | HostCpu::Zhaoxin | HostCpu::Other => 6.0,
    }
}

/// The model number of an Intel socket of this generation, as far as [`socket_gbps`] tells them apart; 0x8F (Sapphire
/// Rapids) for an unknown one.
#[must_use]
pub fn intel_model(generation: &str) -> u32 {
    match generation {
        "sandy-bridge" | "ivy-bridge" | "haswell" | "broadwell" => 0x4F,
        "skylake" | "cascade-lake" | "cooper-lake" => 0x55,
        "ice-lake" => 0x6A,
        "emerald-rapids" => 0xCF,
        // Granite Rapids' number (0xAD) lies below that of Emerald Rapids.
        "granite-rapids" => 0xAD,
        _ => 0x8F,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_that_logs_print() {
        assert!((18.0 * nvlink_gbps(90, Version::NEWEST) - 370.8).abs() < 1e-9);
        assert!((18.0 * nvlink_gbps(100, Version::NEWEST) - 721.8).abs() < 1e-9);
        assert!((12.0 * nvlink_gbps(80, Version::NEWEST) - 240.0).abs() < 1e-9);
        let socket = |name, minor| socket_gbps(HostCpu::Intel, intel_model(name), Version::v2(minor));
        assert_eq!(
            ["broadwell", "skylake", "sapphire-rapids", "emerald-rapids"].map(|n| socket(n, 30)),
            [6., 10., 22., 40.]
        );
        assert_eq!(
            ["broadwell", "skylake", "sapphire-rapids", "emerald-rapids"].map(|n| socket(n, 25)),
            [6., 10., 10., 10.]
        );
        assert_eq!(pci_gbps(5, 16), 48.0);
        assert_eq!(nic_gbps(400_000), 50.0);
    }
}
