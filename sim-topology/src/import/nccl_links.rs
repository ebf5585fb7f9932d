//! The NVLink and xGMI elements of NCCL's topology XML, resolved to switches and pairs.

use core::ops::Range;
use std::collections::BTreeMap;

use super::finding::FindingKind as Kind;
use super::host::{Host, Nvlink};
use super::tally::Tally;
use super::xml::Element;

/// An `nvlink` or `xgmi` element of a GPU.
#[derive(Clone, Debug)]
pub(super) struct Target {
    bus: String,
    count: u32,
    class: String,
    at: Range<usize>,
}

impl Target {
    pub(super) fn of(element: &Element) -> Self {
        let short = |name: &str| {
            let text = element.get(name).unwrap_or_default();
            text.chars().take(40).collect::<String>().to_ascii_lowercase()
        };
        Self {
            bus: short("target"),
            count: element.number::<u32>("count").unwrap_or(1).min(64),
            class: short("tclass"),
            at: element.place("target"),
        }
    }
}

/// Writes into `host` how its GPUs are joined. `said` tells whether the file has `gpu` elements, so that their silence
/// means something.
pub(super) fn resolve(host: &mut Host, targets: &[Vec<Target>], said: bool) {
    if !said {
        host.nvlink = Nvlink::Unknown;
        return;
    }
    let place: BTreeMap<&str, usize> = host.gpus.iter().enumerate().map(|(i, g)| (g.name.as_str(), i)).collect();
    let mut to_itself = Tally::new(Kind::NvlinkTarget);
    let mut nowhere = Tally::new(Kind::NvlinkTarget);
    let mut strange = Tally::new(Kind::NvlinkTarget);
    let mut one_way = Tally::new(Kind::Contradiction);
    let mut switched = vec![0u32; targets.len()];
    let mut chips: Vec<BTreeMap<&str, u32>> = vec![BTreeMap::new(); targets.len()];
    let mut named = true;
    let mut pairs: BTreeMap<(usize, usize), [u32; 2]> = BTreeMap::new();
    for (gpu, list) in targets.iter().enumerate() {
        for target in list {
            let peer = place.get(target.bus.as_str()).copied();
            if peer == Some(gpu) {
                let label = format!("gpu{gpu} itself is the other end of its {} links", target.count);
                to_itself.add(target.at.clone(), label);
            } else if let Some(peer) = peer {
                let key = (gpu.min(peer), gpu.max(peer));
                pairs.entry(key).or_default()[usize::from(gpu > peer)] += target.count;
            } else if target.class.starts_with("0x068001") {
                strange.add(target.at.clone(), "links to a CPU are not taken over");
            } else if target.class.starts_with("0x0680") || target.bus.starts_with("ffff") {
                switched[gpu] = switched[gpu].saturating_add(target.count);
                if target.bus.starts_with("fffff") {
                    named = false;
                    nowhere
                        .add(target.at.clone(), "no NVSwitch has this bus id: the host (a virtual machine) hides it");
                } else {
                    *chips[gpu].entry(target.bus.as_str()).or_default() += target.count;
                }
            } else {
                strange.add(target.at.clone(), "no GPU of the file has this bus id; the links are left out");
            }
        }
    }
    let joined: Vec<[u32; 3]> = pairs
        .iter()
        .map(|(&(a, b), &[there, back])| {
            if there != back {
                let at = targets[if there > back { a } else { b }].first().map_or(0..0, |t| t.at.clone());
                let label = format!("gpu{a} has {there} links to gpu{b}, which has {back} back");
                one_way.add(at, label);
            }
            // A link has two ends; the lesser count is what both agree on, unless one says nothing at all.
            let links = if there.min(back) == 0 { there.max(back) } else { there.min(back) };
            [a as u32, b as u32, links]
        })
        .collect();
    let fullest = chips.iter().max_by_key(|c| c.values().sum::<u32>());
    let per_chip: Vec<u32> = fullest.filter(|_| named).map(|c| c.values().copied().collect()).unwrap_or_default();
    let through_switches = switched.iter().any(|&n| n > 0);
    if through_switches && !joined.is_empty() {
        let at = targets.iter().flatten().next().map_or(0..0, |t| t.at.clone());
        one_way.add(at, "some links go to NVSwitches, others from GPU to GPU; those to switches are taken");
    }
    let self_links = targets.iter().enumerate().flat_map(|(i, list)| {
        let own = host.gpus[i].name.as_str();
        list.iter().filter(move |t| t.bus == own).map(|t| t.count)
    });
    let links = self_links.max().unwrap_or(0);
    let hint = format!(
        "who is joined cannot be told, so no NVLink is taken over; if GPUs are bridged in pairs, add \
         nvlink = {{ pairs = [[0, 1, {links}], [2, 3, {links}]] }}"
    );
    host.nvlink = if through_switches {
        Nvlink::Switched { links: switched, chips: per_chip }
    } else if joined.is_empty() {
        Nvlink::None
    } else {
        Nvlink::Pairs(joined)
    };
    let findings = [
        to_itself.finding("an NVLink from a GPU to itself").map(|f| f.help(hint)),
        nowhere
            .finding("an NVLink to a switch that is not shown")
            .map(|f| f.help("the number of chips and the links to each are those of the catalogue")),
        strange.finding("an NVLink to something unknown"),
        one_way.finding("NVLinks that do not agree"),
    ];
    host.findings.extend(findings.into_iter().flatten());
}
