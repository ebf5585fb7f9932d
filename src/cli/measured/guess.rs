//! Which system a log was made on, by the name of its GPUs.

use sim_topology::Catalogue;

/// Parts of GPU names as drivers print them, and the systems that usually hold them; the first that fits counts.
const SYSTEMS: &[(&str, &str)] = &[
    ("GB300", "nvl72-gb300"),
    ("GB200", "nvl72-gb200"),
    ("GB10", "dgx-spark"),
    ("B300", "hgx-b300"),
    ("B200", "hgx-b200"),
    ("H200", "hgx-h200"),
    ("H800", "hgx-h800"),
    ("H100 NVL", "nvlink-pair-h100nvl"),
    ("H100", "hgx-h100"),
    ("H20", "hgx-h20"),
    ("A100-PCIE", "pcie-a100-4"),
    ("A100 80GB PCIE", "pcie-a100-4"),
    ("A100", "hgx-a100"),
    ("A800-SXM", "hgx-a100"),
    ("V100-PCIE", "pcie-v100-4"),
    ("V100-SXM", "dgx-1v"),
    ("L40S", "pcie-l40s-8"),
    ("RTX 4090", "pcie-4090-8"),
    ("RTX PRO 6000", "pcie-rtxpro6000-8"),
];

/// The catalogue's name of the system that a GPU of this name is usually in.
pub(super) fn system(gpu: &str) -> Option<&'static str> {
    let name = gpu.to_uppercase();
    SYSTEMS.iter().find(|(part, _)| name.contains(part)).map(|(_, system)| *system)
}

/// Whether a GPU's name as drivers print it is that of another chip, or of another form of the chip, than the catalogue's row
/// `own`. Names that no row of the catalogue has say nothing.
pub(super) fn differs(seen: &str, own: &str, catalogue: &Catalogue) -> bool {
    let words = words(seen);
    let named = |chip: &str| named(&words, chip);
    if !named(&chip(own)) {
        return catalogue.gpus().any(|row| named(&chip(&row.name)));
    }
    let form = |of: &dyn Fn(&str) -> bool| ["pcie", "sxm", "nvl"].into_iter().find(|form| of(form));
    let printed = form(&|form| words.iter().any(|word| word.starts_with(form)));
    let known = form(&|form| own.split('-').skip(1).any(|part| part.starts_with(form)));
    printed.zip(known).is_some_and(|(printed, known)| printed != known)
}

/// The architectures of a GPU, by its name as drivers print it, and of the catalogue's row `own`, if they are not the same one; `None`
/// too if the catalogue doesn't know the name.
pub(super) fn generations<'c>(seen: &str, own: &str, catalogue: &'c Catalogue) -> Option<(&'c str, &'c str)> {
    let words = words(seen);
    let theirs = catalogue.gpus().find(|row| named(&words, &chip(&row.name)))?;
    let ours = catalogue.gpus().find(|row| row.name == own)?;
    let (theirs, ours) = (theirs.data.architecture.as_str(), ours.data.architecture.as_str());
    (theirs != ours).then_some((theirs, ours))
}

/// The words of a GPU's name, in small letters.
fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect()
}

/// Whether one to three words in a row are the name of a chip.
fn named(words: &[String], chip: &str) -> bool {
    (0..words.len()).any(|a| (a + 1..=words.len().min(a + 3)).any(|b| words[a..b].concat() == chip))
}

/// The chip of a row of the catalogue: `h100` of `h100-sxm`.
fn chip(row: &str) -> String {
    row.split('-').next().unwrap_or(row).to_ascii_lowercase()
}

/// The transport behind a network's name as NCCL prints it; InfiniBand and RoCE share one (`IB`).
pub(super) fn transport(network: &str) -> Option<&'static str> {
    let name = network.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["fastrak", "tcpxo"]) {
        Some("tcpxo")
    } else if has(&["socket"]) {
        Some("tcp")
    } else if has(&["libfabric", "ofi", "efa"]) {
        Some("efa")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers() {
        for (gpu, want) in [
            ("NVIDIA H100 80GB HBM3", Some("hgx-h100")),
            ("NVIDIA GB200", Some("nvl72-gb200")),
            ("NVIDIA A100-SXM4-80GB", Some("hgx-a100")),
            ("NVIDIA A100-PCIE-40GB", Some("pcie-a100-4")),
            ("Tesla V100-SXM2-16GB", Some("dgx-1v")),
            ("NVIDIA GeForce RTX 4090", Some("pcie-4090-8")),
            ("NVIDIA A40", None),
        ] {
            assert_eq!(system(gpu), want, "{gpu}");
        }
        assert_eq!(transport("AWS Libfabric"), Some("efa"));
        assert_eq!(transport("IB"), None);
    }

    #[test]
    fn other_chips_and_other_forms() {
        let differs = |seen, own| differs(seen, own, Catalogue::builtin());
        for (seen, own) in [
            ("NVIDIA H100 80GB HBM3", "h100-sxm"),
            ("NVIDIA H100 PCIe", "h100-pcie"),
            ("NVIDIA A100-SXM4-80GB", "a100-sxm4-40"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000-server"),
            ("NVIDIA GB200", "gb200"),
            ("Tesla V100-SXM2-16GB", "v100-sxm2"),
            ("b200-sxm", "b200-sxm"),
            ("NVIDIA Graphics Device", "h100-sxm"),
        ] {
            assert!(!differs(seen, own), "{seen} {own}");
        }
        for (seen, own) in [
            ("NVIDIA H100 80GB HBM3", "b200-sxm"),
            ("NVIDIA H200", "h100-sxm"),
            ("NVIDIA H100 PCIe", "h100-sxm"),
            ("NVIDIA GB200", "b200-sxm"),
            ("NVIDIA A100-PCIE-40GB", "a100-sxm4-40"),
            ("NVIDIA L40S", "l4"),
        ] {
            assert!(differs(seen, own), "{seen} {own}");
        }
    }

    #[test]
    fn generations_that_differ() {
        let of = |seen, own| generations(seen, own, Catalogue::builtin());
        assert_eq!(of("NVIDIA B200", "h100-sxm"), Some(("Blackwell", "Hopper")));
        assert_eq!(of("NVIDIA A100-SXM4-80GB", "h100-sxm"), Some(("Ampere", "Hopper")));
        for (seen, own) in
            [("NVIDIA H200", "h100-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA X9", "h100-sxm")]
        {
            assert_eq!(of(seen, own), None, "{seen} {own}");
        }
    }

    #[test]
    fn every_guess_is_in_the_catalogue() {
        for (_, name) in SYSTEMS {
            assert!(sim_topology::Catalogue::builtin().system(name).is_ok(), "{name}");
        }
    }
}
