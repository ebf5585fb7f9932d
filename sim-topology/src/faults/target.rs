//! What a fault's target names: devices, links, cables, one by one or by wildcard.

use rand::Rng as _;
use sim_core::ids::LinkId;
use sim_core::random::stream;

use super::{Fault, FaultError, FaultErrorKind};
use crate::device::{DeviceId, DeviceKind, LinkClass};
use crate::fabric::Fabric;

/// One thing that a target names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// All of a node.
    Node(u32),
    /// A device.
    Device(DeviceId),
    /// One direction of a link.
    Link(LinkId),
    /// Both directions.
    Cable(LinkId, LinkId),
}

/// Which of a device's links a fault is about, where its target is a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The cable of a NIC, all links of another device.
    Cable,
    /// Its PCIe links.
    Pcie,
    /// Its links to other GPUs.
    ScaleUp,
}

impl Wanted {
    fn takes(self, class: LinkClass, device: DeviceKind) -> bool {
        match self {
            Self::Cable if device == DeviceKind::Nic => class.is_network(),
            Self::Cable => true,
            Self::Pcie => class == LinkClass::Pcie,
            Self::ScaleUp => matches!(class, LinkClass::NvLink | LinkClass::Xgmi),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Cable => "link",
            Self::Pcie => "PCIe link",
            Self::ScaleUp => "NVLink",
        }
    }
}

/// What the target of `fault` names; of random choices those that the seed draws for the fault of this number.
pub(super) fn resolve(fabric: &Fabric, fault: &Fault, seed: u64, number: usize) -> Result<Vec<Item>, FaultError> {
    let mut items = named(fabric, &fault.target)?;
    if let Some(pick) = fault.pick {
        let pick = pick as usize;
        if pick == 0 || pick > items.len() {
            let label = format!("{pick} of {} that the target names", items.len());
            return Err(FaultError::range("pick", "`pick` is out of range", label));
        }
        // The first so many of a shuffle (Fisher, Yates), in order.
        let mut random = stream(seed, "faults", number as u64);
        let mut places: Vec<usize> = (0..items.len()).collect();
        for i in 0..pick {
            let left = (places.len() - i) as u64;
            let j = i + (random.next_u64() % left) as usize;
            places.swap(i, j);
        }
        places.truncate(pick);
        places.sort_unstable();
        items = places.into_iter().map(|i| items[i].clone()).collect();
    }
    Ok(items)
}

/// What a target names.
pub(super) fn named(fabric: &Fabric, target: &str) -> Result<Vec<Item>, FaultError> {
    let target = target.trim();
    match split(target) {
        Some((from, to, both)) => links(fabric, from, to, both),
        None => devices(fabric, target),
    }
}

/// The two ends of a link's name, and whether both directions are meant.
fn split(target: &str) -> Option<(&str, &str, bool)> {
    let both = target.split_once("<->").map(|(a, b)| (a, b, true));
    let (a, b, both) = both.or_else(|| target.split_once("->").map(|(a, b)| (a, b, false)))?;
    Some((a.trim(), b.trim(), both))
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

fn unknown(message: String, label: impl Into<String>) -> FaultError {
    FaultError::new("target", FaultErrorKind::Unknown, message, label)
}

/// Whether `name` fits `pattern`, part by part between dots; `*` is any text within a part, and alone it is any name.
fn fits(pattern: &str, name: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (mut patterns, mut parts) = (pattern.split('.'), name.split('.'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if part_fits(pattern, part) => {}
            _ => return false,
        }
    }
}

fn part_fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let tail = pieces.pop().unwrap_or("");
    for piece in pieces {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(tail)
}

/// The devices that a name or a pattern means, in order of number.
fn matching(fabric: &Fabric, pattern: &str) -> Result<Vec<DeviceId>, FaultError> {
    if !pattern.contains('*') {
        return match fabric.find(pattern) {
            Ok(id) => Ok(vec![id]),
            Err(error) => {
                let label = match &error.suggestion {
                    Some(alike) => format!("did you mean `{alike}`?"),
                    None => "not in this fabric".to_owned(),
                };
                Err(unknown(format!("there is no device `{}`", error.name), label)
                    .help("devices are named like node0.gpu3, node0.nic1, leaf4; `fabricsim topo` counts them"))
            }
        };
    }
    let all = fabric.devices().iter().enumerate();
    let hits: Vec<DeviceId> = all.filter(|(_, d)| fits(pattern, &d.name)).map(|(i, _)| DeviceId(i as u32)).collect();
    if hits.is_empty() {
        let label = "`*` stands for any text between dots: node*.nic2, leaf*, node3.gpu*";
        return Err(unknown(format!("no device fits `{}`", shown(pattern)), label));
    }
    Ok(hits)
}

fn devices(fabric: &Fabric, target: &str) -> Result<Vec<Item>, FaultError> {
    let number = target.strip_prefix("node").filter(|rest| !rest.contains('.'));
    if let Some(number) = number {
        let nodes = fabric.nodes().len();
        if let Ok(node) = number.parse::<u32>() {
            if (node as usize) < nodes {
                return Ok(vec![Item::Node(node)]);
            }
            let label = format!("nodes go from node0 to node{}", nodes.saturating_sub(1));
            return Err(unknown(format!("there is no node `{}`", shown(target)), label));
        }
        let range = number.split_once('-').and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
        if let Some((first, last)) = range {
            if first <= last && (last as usize) < nodes {
                return Ok((first..=last).map(Item::Node).collect());
            }
            let label = format!("nodes go from node0 to node{}, the lower number first", nodes.saturating_sub(1));
            return Err(unknown(format!("there are no nodes `{}`", shown(target)), label));
        }
        if number.contains('*') {
            let fits = (0..nodes as u32).filter(|n| part_fits(target, &format!("node{n}")));
            let hits: Vec<Item> = fits.map(Item::Node).collect();
            if !hits.is_empty() {
                return Ok(hits);
            }
        }
    }
    Ok(matching(fabric, target)?.into_iter().map(Item::Device).collect())
}

fn links(fabric: &Fabric, from: &str, to: &str, both: bool) -> Result<Vec<Item>, FaultError> {
    let (to, parallel) = match to.split_once('#') {
        Some((to, number)) => match number.trim().parse::<u32>() {
            Ok(parallel) => (to.trim(), Some(parallel)),
            Err(_) => {
                let label = "parallel links are numbered from 0: leaf0->spine1#0";
                return Err(unknown(format!("`#{}` is no number", shown(number)), label));
            }
        },
        None => (to, None),
    };
    let (sources, sinks) = (matching(fabric, from)?, matching(fabric, to)?);
    let set = |list: &[DeviceId]| {
        let mut set = vec![false; fabric.devices().len()];
        list.iter().for_each(|id| set[id.index()] = true);
        set
    };
    let (from_set, to_set) = (set(&sources), set(&sinks));
    let hit = |id: u32| {
        let link = fabric.link(LinkId(id));
        from_set[link.from.index()] && to_set[link.to.index()] && parallel.is_none_or(|p| p == link.parallel)
    };
    let hits: Vec<LinkId> = (0..fabric.links().len() as u32).filter(|&id| hit(id)).map(LinkId).collect();
    if hits.is_empty() {
        return Err(not_joined(fabric, &sources, &sinks, parallel));
    }
    if !both {
        return Ok(hits.into_iter().map(Item::Link).collect());
    }
    let mut cables: Vec<Item> = Vec::with_capacity(hits.len());
    let mut seen = vec![false; fabric.links().len()];
    let backs = Backs::new(fabric);
    for id in hits {
        let back = backs.of(fabric, id).unwrap_or(id);
        if !seen[id.index()] {
            seen[id.index()] = true;
            seen[back.index()] = true;
            cables.push(Item::Cable(id, back));
        }
    }
    Ok(cables)
}

fn not_joined(fabric: &Fabric, sources: &[DeviceId], sinks: &[DeviceId], parallel: Option<u32>) -> FaultError {
    let (Some(&a), Some(&b)) = (sources.first(), sinks.first()) else {
        return unknown("the target names no link".to_owned(), "");
    };
    let name = |id: DeviceId| fabric.device(id).name.as_str();
    if let Some(parallel) = parallel {
        let count = fabric.links().iter().filter(|l| l.from == a && l.to == b).count();
        if count > 0 {
            let label = format!("there are {count}, numbered from #0");
            return unknown(format!("no link `{}->{}#{parallel}`", name(a), name(b)), label);
        }
    }
    let mut ends: Vec<&str> = fabric.links().iter().filter(|l| l.from == a).map(|l| name(l.to)).collect();
    ends.dedup();
    let more = ends.len().saturating_sub(4);
    ends.truncate(4);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    unknown(
        format!("no link from {} to {}", name(a), name(b)),
        format!("links of {} go to {}{more}", name(a), ends.join(", ")),
    )
}

/// Finds the other direction of a link.
pub(super) struct Backs {
    /// Links by their receiver.
    by_sender: Vec<Vec<LinkId>>,
}

impl Backs {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut by_sender = vec![Vec::new(); fabric.devices().len()];
        for (i, link) in fabric.links().iter().enumerate() {
            by_sender[link.from.index()].push(LinkId(i as u32));
        }
        Self { by_sender }
    }

    pub(super) fn of(&self, fabric: &Fabric, id: LinkId) -> Option<LinkId> {
        let link = fabric.link(id);
        let back = |&other: &LinkId| {
            let other = fabric.link(other);
            other.to == link.from && other.parallel == link.parallel && other.class == link.class
        };
        self.by_sender[link.to.index()].iter().copied().find(|other| back(other))
    }
}

/// The links that the items stand for, in order; of devices those that are `wanted`.
pub(super) fn links_of(items: &[Item], fabric: &Fabric, wanted: Wanted) -> Result<Vec<LinkId>, FaultError> {
    let mut chosen = vec![false; fabric.devices().len()];
    let mut links = Vec::new();
    for item in items {
        match *item {
            Item::Link(id) => links.push(id),
            Item::Cable(a, b) => links.extend([a, b]),
            Item::Device(id) => chosen[id.index()] = true,
            Item::Node(node) => {
                for (device, chosen) in fabric.devices().iter().zip(&mut chosen) {
                    *chosen |= device.node == Some(node);
                }
            }
        }
    }
    if chosen.iter().any(|&c| c) {
        for (i, link) in fabric.links().iter().enumerate() {
            let ends = [link.from, link.to];
            if ends.iter().any(|end| chosen[end.index()] && wanted.takes(link.class, fabric.device(*end).kind)) {
                links.push(LinkId(i as u32));
            }
        }
    }
    if wanted != Wanted::Cable {
        let fits = |id: &LinkId| wanted.takes(fabric.link(*id).class, DeviceKind::Gpu);
        links.retain(fits);
    }
    links.sort_unstable();
    links.dedup();
    if links.is_empty() {
        let label = format!("it names no {}", wanted.word());
        return Err(FaultError::contradiction("target", format!("no {} to act on", wanted.word()), label));
    }
    Ok(links)
}

/// The device of this name; `key` is where it is written.
pub(super) fn device(fabric: &Fabric, name: &str, key: &'static str) -> Result<DeviceId, FaultError> {
    match matching(fabric, name.trim()) {
        Ok(ids) if ids.len() == 1 => Ok(ids[0]),
        Ok(_) => Err(FaultError { key, ..unknown("one device is due here".to_owned(), "a pattern names several") }),
        Err(error) => Err(FaultError { key, ..error }),
    }
}

/// The nodes that the items name, in order.
pub(super) fn nodes_of(items: &[Item]) -> Result<Vec<u32>, FaultError> {
    let node = |item: &Item| match item {
        Item::Node(node) => Ok(*node),
        _ => {
            let label = "the target is a node (node3), a range (node0-3) or all (node*)";
            Err(FaultError::contradiction("target", "this fault befalls nodes", label))
        }
    };
    items.iter().map(node).collect()
}

/// The GPUs that the items name, in order; of nodes all of theirs.
pub(super) fn gpus_of(items: &[Item], fabric: &Fabric) -> Result<Vec<DeviceId>, FaultError> {
    let mut gpus = Vec::new();
    for item in items {
        match *item {
            Item::Device(id) if fabric.device(id).kind == DeviceKind::Gpu => gpus.push(id),
            Item::Node(node) => gpus.extend(&fabric.nodes()[node as usize].gpus),
            Item::Device(_) | Item::Link(_) | Item::Cable(..) => {
                let label = "the target is a GPU (node3.gpu1), a node (node3), or a pattern of GPUs (node*.gpu0)";
                return Err(FaultError::contradiction("target", "only GPUs straggle", label)
                    .help("a slow link or NIC is kind = \"degraded\""));
            }
        }
    }
    gpus.sort_unstable();
    gpus.dedup();
    Ok(gpus)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns() {
        for (pattern, name, yes) in [
            ("node*.nic2", "node13.nic2", true),
            ("node*.nic2", "node13.nic21", false),
            ("node*", "node1.gpu0", false),
            ("node1*.gpu*", "node13.gpu7", true),
            ("*", "node1.gpu0", true),
            ("leaf*", "leaf4", true),
            ("l*f*4", "leaf14", true),
            ("l*f*4", "leaf41", false),
            ("leaf4", "leaf4", true),
            ("*.*", "leaf4", false),
        ] {
            assert_eq!(fits(pattern, name), yes, "{pattern} {name}");
        }
    }
}
