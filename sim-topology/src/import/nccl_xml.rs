//! NCCL's topology XML (`NCCL_TOPO_DUMP_FILE`, or a vendor's file for `NCCL_TOPO_FILE`), RCCL's among them.
//!
//! Read as NCCL reads it (`src/graph/xml.cc`, `src/graph/topo.cc`): a GPU or NIC is told by its PCI class where no `gpu` or
//! `nic` element says so, speeds are matched by their prefix, and Broadcom's two-level switches count as one.

use std::collections::BTreeMap;

use sim_core::units::Rate;

use super::finding::{Finding, FindingKind as Kind, Refusal};
use super::host::{Cpu, Device, Host, Lanes, Numa, Switch};
use super::nccl_links::{self, Target};
use super::tally::Tally;
use super::xml::{self, Element, Tree};

/// Reads a topology.
///
/// # Errors
/// If it is no NCCL topology, or has no GPU, NIC or PCI device.
pub(super) fn read(text: &str) -> Result<Host, Refusal> {
    let tree = xml::read(text)?;
    let roots: Vec<usize> = (0..tree.elements.len()).filter(|&i| tree.elements[i].parent.is_none()).collect();
    let Some(&root) = roots.iter().find(|&&i| tree.elements[i].name == "system") else {
        return Err(not_a_system(&tree, roots.first().copied()));
    };
    let mut reader = Builder::new(&tree);
    let mut first_host: Option<&str> = None;
    let mut other_hosts = None;
    for (index, element) in tree.children(root) {
        if element.name != "cpu" {
            continue;
        }
        // A dump of several hosts that share NVLink has a CPU list for each.
        let hash = element.get("host_hash").unwrap_or_default();
        if *first_host.get_or_insert(hash) == hash {
            reader.cpu(index, element);
        } else {
            other_hosts.get_or_insert(element);
        }
    }
    if let Some(other) = other_hosts {
        let finding = Finding::new(Kind::Incomplete, "the file describes several hosts; the first is taken");
        reader.host.findings.push(finding.at(other.place("host_hash"), "another host begins here").help(
            "hosts that share NVLink are one node kind with `max_nodes_per_domain`; the others are taken to be alike",
        ));
    }
    if let Some(at) = tree.cut {
        let finding = Finding::new(Kind::Incomplete, "the file ends before its elements are closed");
        let open = tree.elements.last().map_or(at..at, |last| last.at.clone());
        reader.host.findings.push(finding.at(open, "the last that could be read").help("what was read is used"));
    }
    reader.finish(&tree.elements[root])
}

fn not_a_system(tree: &Tree, root: Option<usize>) -> Refusal {
    let Some(root) = root.map(|i| &tree.elements[i]) else {
        return Refusal::new("no XML element in the file");
    };
    let refusal = Refusal::new("not an NCCL topology");
    match root.name.as_str() {
        "graphs" => refusal
            .at(root.at.clone(), "this is an NCCL graph file: the channels that NCCL found, not the machine")
            .help(
                "import the topology (NCCL_TOPO_DUMP_FILE) as the node; the graph goes in beside it: --kind nccl-graph",
            ),
        "algo" => refusal.at(root.at.clone(), "this is an MSCCL algorithm"),
        name => {
            let label = format!("the root is `{}`; `system` is due", name.chars().take(40).collect::<String>());
            refusal.at(root.at.clone(), label)
        }
    }
}

struct Builder<'a> {
    tree: &'a Tree,
    host: Host,
    gpus: Vec<(Option<u32>, Device, Vec<Target>)>,
    nics: Vec<(Option<u32>, Device)>,
    /// Leaves that neither class nor child tells apart.
    unnamed: Vec<Device>,
    seen: BTreeMap<String, usize>,
    speeds: Tally,
    widths: Tally,
    says_nvlink: bool,
}

/// Where an element hangs.
#[derive(Clone, Copy)]
struct Under {
    numa: usize,
    switch: Option<usize>,
    /// The level-0 part of a two-level Broadcom switch: its generation.
    broadcom: Option<u32>,
}

impl<'a> Builder<'a> {
    fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            host: Host::default(),
            gpus: Vec::new(),
            nics: Vec::new(),
            unnamed: Vec::new(),
            seen: BTreeMap::new(),
            speeds: Tally::new(Kind::BadValue),
            widths: Tally::new(Kind::BadValue),
            says_nvlink: false,
        }
    }

    fn cpu(&mut self, index: usize, element: &Element) {
        let next = self.host.numas.len() as u32;
        let id = match element.number::<i64>("numaid") {
            Some(id) if (0..1024).contains(&id) => id as u32,
            other => {
                let label = match other {
                    Some(-1) => "-1: the system does not know, as in virtual machines",
                    Some(_) => "not a number of a NUMA node",
                    None => "no `numaid` that is a number",
                };
                let finding = Finding::new(Kind::NumaLayout, "a CPU whose NUMA node is unknown");
                self.host.findings.push(
                    finding
                        .at(element.place("numaid"), label)
                        .help(format!("it is taken as NUMA node {next}; paths across sockets cannot be told")),
                );
                next
            }
        };
        let numa = self.host.numas.iter().position(|n| n.id == id).unwrap_or_else(|| {
            let threads = element.get("affinity").map(affinity).unwrap_or_default();
            self.host.numas.push(Numa { id, threads, at: element.place("numaid") });
            self.host.numas.len() - 1
        });
        if self.host.cpu == Cpu::default() {
            let text = |name: &str| element.get(name).unwrap_or_default().chars().take(40).collect::<String>();
            self.host.cpu = Cpu {
                arch: text("arch"),
                vendor: text("vendor"),
                family: element.number("familyid"),
                model: element.number("modelid"),
                at: element.at.clone(),
            };
        }
        self.below(index, Under { numa, switch: None, broadcom: None });
    }

    fn below(&mut self, index: usize, under: Under) {
        for (child, element) in self.tree.children(index) {
            match element.name.as_str() {
                "pci" => self.pci(child, element, under),
                // A NIC whose place in PCI is unknown.
                "nic" => self.nic(child, element, None, under),
                _ => {}
            }
        }
    }

    fn pci(&mut self, index: usize, element: &Element, under: Under) {
        let has = |name: &str| self.tree.children(index).any(|(_, e)| e.name == name);
        let class = element.get("class").unwrap_or_default().to_ascii_lowercase();
        let (gpu, nic) = (has("gpu"), has("nic"));
        let is_switch = !gpu && !nic && (has("pci") || class.starts_with("0x0604"));
        if !is_switch && self.again(element) {
            return;
        }
        if gpu || class.starts_with("0x03") || class.starts_with("0x12") {
            self.gpu(index, element, under);
        } else if nic || class.starts_with("0x02") {
            let nics: Vec<usize> = self.tree.children(index).filter(|(_, e)| e.name == "nic").map(|(i, _)| i).collect();
            match nics.first() {
                Some(&nic) => self.nic(nic, &self.tree.elements[nic], Some(element), under),
                None => {
                    let device = self.device(element, under);
                    self.nics.push((None, device));
                }
            }
        } else if is_switch {
            self.switch(index, element, under);
        } else if class.is_empty() {
            let device = self.device(element, under);
            self.unnamed.push(device);
        }
    }

    /// Whether a device's bus id was there before.
    fn again(&mut self, element: &Element) -> bool {
        let Some(bus) = element.get("busid").map(str::to_ascii_lowercase) else { return false };
        match self.seen.get(&bus) {
            Some(_) => {
                let shown: String = bus.chars().take(40).collect();
                let finding = Finding::new(Kind::Duplicate, format!("the bus id {shown} is there twice"));
                let finding = finding.at(element.place("busid"), "the second; it is left out");
                self.host.findings.push(finding.help("every device of a host has a bus id of its own"));
                true
            }
            None => {
                self.seen.insert(bus, element.at.start);
                false
            }
        }
    }

    fn switch(&mut self, index: usize, element: &Element, under: Under) {
        if under.broadcom.is_some() && broadcom(element, 1) == under.broadcom {
            return self.below(index, Under { broadcom: None, ..under });
        }
        let link = self.lanes(element);
        let name = bus(element);
        // Each switch on the host hangs on a root port, and so on a host bridge, of its own.
        self.host.switches.push(Switch {
            numa: under.numa,
            parent: under.switch,
            bridge: None,
            link,
            name,
            at: element.place("busid"),
        });
        let switch = Some(self.host.switches.len() - 1);
        self.below(index, Under { switch, broadcom: broadcom(element, 0), ..under });
    }

    fn device(&mut self, element: &Element, under: Under) -> Device {
        let id = |name: &str| {
            let text = element.get(name)?;
            u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let name = bus(element);
        // Devices straight on the CPU of a virtual machine share its one host bridge, a PCI domain.
        let domain = name.split(':').next().filter(|_| name.matches(':').count() == 2);
        let bridge = match under.switch {
            None => domain.and_then(|d| u32::from_str_radix(d, 16).ok()),
            Some(_) => None,
        };
        Device {
            numa: under.numa,
            switch: under.switch,
            bridge: bridge.map(|domain| domain.wrapping_mul(1024).wrapping_add(under.numa as u32)),
            link: self.lanes(element),
            name,
            pci_id: id("vendor").zip(id("device")).filter(|id| id.0 != 0 && id.0 != 0xffff),
            at: element.place("busid"),
            ..Device::default()
        }
    }

    fn gpu(&mut self, index: usize, element: &Element, under: Under) {
        let mut device = self.device(element, under);
        let mut dev = None;
        let mut targets = Vec::new();
        for (child, gpu) in self.tree.children(index).filter(|(_, e)| e.name == "gpu").take(1) {
            dev = gpu.number("dev");
            self.says_nvlink = true;
            let gcn = gpu.get("gcn").map(|g| if g.starts_with("gfx") { g.to_owned() } else { format!("gfx{g}") });
            match gcn {
                Some(gfx) => device.gfx = Some(gfx.chars().take(20).collect()),
                None => device.sm = gpu.number("sm"),
            }
            device.gdr = gpu.get("gdr").map(|g| g != "0");
            for (_, link) in self.tree.children(child) {
                match link.name.as_str() {
                    "nvlink" | "xgmi" => targets.push(Target::of(link)),
                    "c2c" => self.host.c2c = true,
                    _ => {}
                }
            }
        }
        self.gpus.push((dev, device, targets));
    }

    /// The ports under a `nic` element.
    fn nic(&mut self, index: usize, element: &Element, pci: Option<&Element>, under: Under) {
        let base = match pci {
            Some(pci) => self.device(pci, under),
            None => Device { numa: under.numa, at: element.at.clone(), ..Device::default() },
        };
        let mut found = false;
        for (_, net) in self.tree.children(index).filter(|(_, e)| e.name == "net") {
            found = true;
            let text = |name: &str| net.get(name).map(|v| v.chars().take(60).collect::<String>());
            let mbit = net.number::<f64>("speed").filter(|s| s.is_finite() && (1.0..=1e8).contains(s));
            if mbit.is_none() && net.get("speed").is_some() {
                let finding = Finding::new(Kind::BadValue, "a NIC without a speed");
                let finding = finding.at(net.place("speed"), "not a speed in Mb/s");
                self.host.findings.push(finding.help("NCCL takes 10000 Mb/s there; the NIC's model decides here"));
            }
            let device = Device {
                name: if base.name.is_empty() { text("name").unwrap_or_default() } else { base.name.clone() },
                alias: text("name"),
                rate: mbit.map(|m| Rate::bytes_per_sec((m * 125_000.0) as u64)),
                gdr: net.get("gdr").map(|g| g != "0"),
                at: net.place("name"),
                ..base.clone()
            };
            self.nics.push((net.number("dev"), device));
        }
        if !found {
            self.nics.push((None, base));
        }
    }

    fn lanes(&mut self, element: &Element) -> Lanes {
        let generation = match element.get("link_speed") {
            None => None,
            Some(text) => {
                let (generation, by_nccl) = generation(text);
                if generation.is_none() {
                    let label = "no speed of PCIe; NCCL takes 8 GT/s, the node what both ends can do";
                    self.speeds.add(element.place("link_speed"), label);
                } else if !by_nccl {
                    let label = "NCCL knows this spelling only with ` PCIe` after it, and falls back to 8 GT/s";
                    self.speeds.add(element.place("link_speed"), label);
                }
                generation
            }
        };
        let lanes = match element.get("link_width") {
            None => None,
            Some(text) => {
                let lanes = text.trim_start_matches(['x', 'X']).parse::<u32>().ok();
                let lanes = lanes.filter(|l| matches!(l, 1 | 2 | 4 | 8 | 16));
                if lanes.is_none() {
                    self.widths.add(
                        element.place("link_width"),
                        "no width of PCIe; NCCL takes 16, the node what both ends can do",
                    );
                }
                lanes
            }
        };
        Lanes { generation, lanes }
    }

    fn finish(mut self, root: &Element) -> Result<Host, Refusal> {
        self.host.findings.extend(self.speeds.clone().finding("a PCIe speed that cannot be read as it is"));
        self.host.findings.extend(self.widths.clone().finding("a PCIe width that cannot be read"));
        self.name_the_unnamed();
        if self.gpus.is_empty() {
            let refusal = Refusal::new("no GPU in the topology").at(root.at.clone(), "nothing in it is a GPU");
            return Err(refusal.help("a GPU is a `pci` of class 0x03 or 0x12, or one with a `gpu` in it"));
        }
        order(&mut self.gpus, |g| g.0, |g| &g.1.name);
        order(&mut self.nics, |n| n.0, |n| &n.1.name);
        let targets: Vec<Vec<Target>> = self.gpus.iter_mut().map(|g| core::mem::take(&mut g.2)).collect();
        self.host.gpus = self.gpus.into_iter().map(|g| g.1).collect();
        self.host.nics = self.nics.into_iter().map(|n| n.1).collect();
        nccl_links::resolve(&mut self.host, &targets, self.says_nvlink);
        Ok(self.host)
    }

    /// Vendor files may leave classes out. NICs are then the leaves, and each top switch is taken to have a GPU.
    fn name_the_unnamed(&mut self) {
        if self.unnamed.is_empty() {
            return;
        }
        let leaves = core::mem::take(&mut self.unnamed);
        let at = leaves[0].at.clone();
        let count = leaves.len();
        let finding = Finding::new(Kind::Incomplete, format!("{count} devices without a PCI class"));
        let finding = finding.at(at, "the first; taken as a NIC, as all of them");
        let mut help = "a `class` tells what a device is: 0x030200 a GPU, 0x020000 a NIC".to_owned();
        self.nics.extend(leaves.into_iter().map(|d| (None, d)));
        if self.gpus.is_empty() {
            help += "; the file names no GPU, so one is put on each switch that hangs on a CPU";
            for (i, switch) in self.host.switches.iter().enumerate().filter(|(_, s)| s.parent.is_none()) {
                let device = Device {
                    numa: switch.numa,
                    switch: Some(i),
                    name: format!("{} (assumed)", switch.name),
                    at: switch.at.clone(),
                    ..Device::default()
                };
                self.gpus.push((None, device, Vec::new()));
            }
        }
        self.host.findings.push(finding.help(help));
    }
}

/// Orders devices by the numbers that the file gives, if it gives each its own; else by bus id, as drivers do.
fn order<T>(list: &mut [T], number: impl Fn(&T) -> Option<u32>, name: impl Fn(&T) -> &str) {
    let mut numbers: Vec<Option<u32>> = list.iter().map(&number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() == list.len() && numbers.iter().all(Option::is_some) {
        list.sort_by_key(|t| number(t));
    } else {
        list.sort_by(|a, b| name(a).cmp(name(b)));
    }
}

fn bus(element: &Element) -> String {
    element.get("busid").unwrap_or("?").chars().take(40).collect::<String>().to_ascii_lowercase()
}

/// The PCIe generation of a speed by its leading number, and whether NCCL reads this spelling.
fn generation(text: &str) -> (Option<u32>, bool) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let generation = match number {
        "2.5" => 1,
        "5" | "5.0" => 2,
        "8" | "8.0" => 3,
        "16" | "16.0" => 4,
        "32" | "32.0" => 5,
        "64" | "64.0" => 6,
        "128" | "128.0" => 7,
        _ => return (None, false),
    };
    let unit = unit.trim_start();
    let plain = !number.ends_with(".0") && number != "2.5";
    (Some(generation), if plain { unit.starts_with("GT/s") } else { unit.starts_with("GT/s PCIe") || number == "2.5" })
}

/// Ranges of the set bits of an affinity mask: 32-bit words in hexadecimal, the most significant first.
fn affinity(text: &str) -> Vec<(u32, u32)> {
    let words: Vec<u32> = text.split(',').take(512).map(|w| u32::from_str_radix(w.trim(), 16).unwrap_or(0)).collect();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (i, word) in words.iter().rev().enumerate() {
        for bit in (0..32).filter(|b| word >> b & 1 == 1) {
            let thread = i as u32 * 32 + bit;
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == thread => *last = thread,
                _ => ranges.push((thread, thread)),
            }
        }
    }
    ranges
}

/// The PCIe generation of a Broadcom switch of this level (0 outside, 1 inside), which NCCL takes as one with its like.
fn broadcom(element: &Element, level: u32) -> Option<u32> {
    let id = |name: &str| u32::from_str_radix(element.get(name)?.trim_start_matches("0x"), 16).ok();
    let (vendor, device) = (id("vendor")?, id("device")?);
    let (sub_vendor, sub_device) = (id("subsystem_vendor")?, id("subsystem_device")?);
    match (vendor, device, sub_vendor) {
        (0x1000, 0xc010, 0x1000) if sub_device & 0xf000 == (0xa000 | level << 12) => Some(4),
        (0x1000, 0xc030, 0x1000) if sub_device & 0xf000 == level << 12 => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_in_every_spelling() {
        for (text, generation_, by_nccl) in [
            ("32.0 GT/s PCIe", Some(5), true),
            ("32 GT/s PCIe/s", Some(5), true),
            ("16 GT/s", Some(4), true),
            ("32.0 GT/s", Some(5), false),
            ("2.5 GT/s PCIe", Some(1), true),
            ("5.0 GT/s PCIe", Some(2), true),
            ("", None, false),
            ("Unknown", None, false),
            ("33 GT/s", None, false),
        ] {
            assert_eq!(generation(text), (generation_, by_nccl), "{text}");
        }
    }

    #[test]
    fn masks_become_ranges() {
        assert_eq!(affinity("00000000,000000ff,ffffffff"), [(0, 39)]);
        assert_eq!(affinity("00ffffff,00000000,00000000,00ffffff"), [(0, 23), (96, 119)]);
        assert_eq!(affinity("zz"), []);
    }
}
