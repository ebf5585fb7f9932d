//! Names of devices and CPUs by the ids that files give them.

use std::sync::LazyLock;

use serde::Deserialize;

use super::host::Cpu;
use crate::node::CpuVendor;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    gpu: Vec<(u16, u16, String)>,
    nic: Vec<(u16, u16, String)>,
    sm: Vec<(u32, String, String)>,
    gfx: Vec<(String, String)>,
    cpu: Vec<(String, u32, u32, u32, String, u32)>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| match toml::from_str(include_str!("../../data/pci-ids.toml")) {
    Ok(known) => known,
    Err(error) => unreachable!("the embedded list is read by tests: {error}"),
});

fn by_id(list: &'static [(u16, u16, String)], id: (u16, u16)) -> Option<&'static str> {
    list.iter().find(|row| (row.0, row.1) == id).map(|row| row.2.as_str())
}

/// The GPU with this vendor and device id.
pub(super) fn gpu(id: (u16, u16)) -> Option<&'static str> {
    by_id(&KNOWN.gpu, id)
}

/// The NIC with this vendor and device id.
pub(super) fn nic(id: (u16, u16)) -> Option<&'static str> {
    by_id(&KNOWN.nic, id)
}

/// The most common GPU of a compute capability (times ten), with or without NVLinks.
pub(super) fn gpu_of_sm(sm: u32, nvlinks: bool) -> Option<&'static str> {
    KNOWN.sm.iter().find(|row| row.0 == sm).map(|row| if nvlinks { row.1.as_str() } else { row.2.as_str() })
}

/// The most common GPU of an AMD architecture.
pub(super) fn gpu_of_gfx(gfx: &str) -> Option<&'static str> {
    KNOWN.gfx.iter().find(|row| row.0 == gfx).map(|row| row.1.as_str())
}

/// A CPU of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownCpu {
    /// Its family's name: `sapphire-rapids`.
    pub(super) model: &'static str,
    /// The cores of its largest version.
    pub(super) most_cores: u32,
}

/// The CPU of this vendor, family and model. Families are taken as CPUID counts them, and also as NCCL writes those of
/// AMD: base family 15 plus sixteen times the extended one.
pub(super) fn cpu(cpu: &Cpu) -> Option<KnownCpu> {
    let (family, model) = (cpu.family?, cpu.model?);
    let family = if family > 0xf && family & 0xf == 0xf { 0xf + (family >> 4) } else { family };
    KNOWN
        .cpu
        .iter()
        .find(|row| row.0 == cpu.vendor && row.1 == family && (row.2..=row.3).contains(&model))
        .map(|row| KnownCpu { model: &row.4, most_cores: row.5 })
}

/// The maker, as far as NCCL tells makers apart.
pub(super) fn cpu_vendor(cpu: &Cpu) -> Option<CpuVendor> {
    match (cpu.arch.as_str(), cpu.vendor.as_str()) {
        (_, "GenuineIntel") => Some(CpuVendor::Intel),
        (_, "AuthenticAMD") => Some(CpuVendor::Amd),
        ("arm64" | "aarch64", _) => Some(CpuVendor::Arm),
        ("ppc64" | "ppc64le", _) => Some(CpuVendor::Power),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_devices() {
        assert_eq!(gpu((0x10de, 0x2330)), Some("h100-sxm"));
        assert_eq!(nic((0x15b3, 0x1021)), Some("connectx-7"));
        assert_eq!(gpu((0x10de, 0)), None);
        assert_eq!(gpu_of_sm(80, false), Some("a100-pcie-80"));
        assert_eq!(gpu_of_gfx("gfx942"), Some("mi300x"));
    }

    #[test]
    fn families_of_amd_in_both_spellings() {
        let of = |vendor: &str, family, model| {
            let host = Cpu { vendor: vendor.into(), family: Some(family), model: Some(model), ..Cpu::default() };
            cpu(&host).map(|c| c.model)
        };
        assert_eq!(of("AuthenticAMD", 23, 49), Some("rome"));
        assert_eq!(of("AuthenticAMD", 143, 49), Some("rome"));
        assert_eq!(of("AuthenticAMD", 175, 1), Some("milan"));
        assert_eq!(of("GenuineIntel", 6, 143), Some("sapphire-rapids"));
        assert_eq!(of("GenuineIntel", 6, 1), None);
    }

    #[test]
    fn names_are_the_catalogues_where_it_has_the_part() {
        let catalogue = crate::Catalogue::builtin();
        for name in ["h100-sxm", "h200-sxm", "a100-sxm4-40", "a100-sxm4-80", "a100-pcie-80", "v100-sxm2", "b200-sxm"] {
            assert!(KNOWN.gpu.iter().any(|row| row.2 == name) && catalogue.gpu(name).is_ok(), "{name}");
        }
        assert!(KNOWN.nic.iter().filter(|row| catalogue.nic(&row.2).is_ok()).count() >= 8);
        for row in &KNOWN.sm {
            assert!(row.0 == 75 || catalogue.gpu(&row.1).is_ok(), "{row:?}");
        }
    }
}
