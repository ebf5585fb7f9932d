//! What is known of the cluster beside the rows, and what a low rate says in its light.

use sim_core::units::Bytes;

use super::BandName;
use super::pattern::Size;
use crate::metrics::Operation;

/// The largest sizes are low if they reach less than this part of the predicted rate.
const LOW: f64 = 0.8;
/// How many of them count.
const LARGEST: usize = 3;
/// A part is called a half if it is within this of one.
const NEAR: f64 = 0.15;
/// A what-if is told if it takes this part of the gap away, as a ratio of logarithms.
const CLOSES: f64 = 0.35;
/// A what-if explains a log if what it leaves is at most this, as a logarithm of a ratio: nothing more general is said then.
const EXPLAINS: f64 = 0.25;
/// Two what-ifs whose remaining gaps differ by less than this factor explain a log equally well.
const ALIKE: f64 = 1.35;
/// Copies through host memory reach less than this part of a slot, copies from GPU to GPU more.
const STAGED: f64 = 0.5;

/// What is known of a cluster. Rates are GB/s of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clues {
    /// Nodes that take part.
    pub nodes: u32,
    /// Ranks of each.
    pub ranks_per_node: u32,
    /// NICs of each that its ranks use.
    pub nics: u32,
    /// Rate of a NIC.
    pub nic_rate: f64,
    /// Rate of the link from a GPU to its host; 0 without one.
    pub slot_rate: f64,
    /// GPUs of a node reach each other over PCIe only.
    pub pcie_only: bool,
    /// What would be predicted if something were otherwise.
    pub what_ifs: Vec<WhatIf>,
}

/// A prediction of some sizes for a cluster on which something is otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// What is otherwise: "there were no GPUDirect".
    pub what: String,
    /// Sizes and times, µs.
    pub predicted_us: Vec<(Bytes, f64)>,
}

/// What a cluster tells of a low rate.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Causes, those that explain most of it first.
    pub(super) causes: Vec<String>,
    /// What is worth knowing beside.
    pub(super) facts: Vec<String>,
    /// One of the causes explains it, so that nothing more general needs to be said.
    pub(super) explained: bool,
}

/// A cause in words, with what it leaves unexplained, as the logarithm of a ratio; infinite where that can't be told.
struct Cause {
    left: f64,
    /// It was predicted anew with it, rather than read off a rate.
    played: bool,
    text: String,
}

/// What the rate of the largest sizes says.
pub(super) fn describe(sizes: &[Size], operation: Option<Operation>, ranks: Option<u32>, clues: &Clues) -> Told {
    let mut told = Told::default();
    let large: Vec<&Size> =
        sizes.iter().rev().take(LARGEST).filter(|s| BandName::of(s.bytes) != BandName::Small).collect();
    let mut ratios: Vec<f64> = large.iter().map(|s| s.ratio()).collect();
    ratios.sort_by(f64::total_cmp);
    let (Some(ratio), Some(last)) = (ratios.get(ratios.len() / 2).copied(), large.first()) else { return told };
    let busbw = match (operation, ranks) {
        (Some(op), Some(ranks)) => op.bandwidths(last.bytes, last.measured_us, ranks).1,
        _ => last.bytes.get() as f64 / last.measured_us / 1e3,
    };
    if ratio >= LOW {
        told.facts.extend(slot(clues));
        return told;
    }
    let mut causes: Vec<Cause> = what_if(sizes, clues).into_iter().collect();
    told.explained = causes.iter().any(|cause| cause.left <= EXPLAINS);
    let (load, why) = network(last, operation, busbw, clues).unzip();
    match (load, why.flatten().filter(|_| !told.explained)) {
        (Some(load), Some((left, why))) => causes.push(Cause { left, played: false, text: load + &why }),
        (load, _) => told.facts.extend(load),
    }
    if clues.nodes == 1 && clues.pcie_only && clues.slot_rate > 0.0 && busbw < STAGED * clues.slot_rate {
        let text = format!(
            "{busbw:.1} GB/s is {:.0} % of what a GPU's slot carries ({:.1} GB/s): as copies through host memory are, without peer-to-peer",
            busbw / clues.slot_rate * 100.0,
            clues.slot_rate
        );
        causes.push(Cause { left: f64::INFINITY, played: false, text });
    }
    // What was played and explains it, then what the rates say, then what was played and leaves much.
    let rank = |cause: &Cause| match (cause.played, cause.left <= EXPLAINS) {
        (true, true) => 0,
        (false, _) => 1,
        (true, false) => 2,
    };
    causes.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.left.total_cmp(&b.left)));
    told.causes = causes.into_iter().map(|cause| cause.text).collect();
    told.facts.extend(slot(clues));
    if let Some(part) = part(ratio).filter(|_| !told.explained) {
        told.facts.push(format!("the largest sizes reach {:.0} % of the predicted rate: about {part}", ratio * 100.0));
    }
    told
}

/// More NICs for a GPU than its slot can feed.
fn slot(clues: &Clues) -> Option<String> {
    let each = f64::from(clues.nics) / f64::from(clues.ranks_per_node.max(1));
    let sum = each * clues.nic_rate;
    (clues.nodes > 1 && each > 1.0 && clues.slot_rate > 0.0 && sum > 1.1 * clues.slot_rate).then(|| {
        format!(
            "the slot of a GPU carries {:.0} GB/s, less than its {each:.0} NICs together ({sum:.0} GB/s): it is what bounds them",
            clues.slot_rate
        )
    })
}

/// How full the NICs are, and why, with what that leaves unexplained.
fn network(
    last: &Size,
    operation: Option<Operation>,
    busbw: f64,
    clues: &Clues,
) -> Option<(String, Option<(f64, String)>)> {
    if clues.nodes < 2 || clues.nics == 0 || clues.nic_rate <= 0.0 {
        return None;
    }
    let (nodes, each) = (f64::from(clues.nodes), f64::from(clues.ranks_per_node.max(1)));
    let algbw = last.bytes.get() as f64 / last.measured_us / 1e3;
    let peers = matches!(operation, Some(Operation::AllToAll | Operation::SendRecv));
    // What leaves a node: a ring carries the bus bandwidth past every cut; a neighbour's message leaves over one NIC.
    let (leaves, nics) = match operation {
        Some(Operation::AllToAll) => (each * algbw * (nodes - 1.0) / nodes, f64::from(clues.nics)),
        Some(Operation::SendRecv) => (algbw, 1.0),
        _ => (busbw, f64::from(clues.nics)),
    };
    let (load, rate) = (leaves / nics, clues.nic_rate);
    let carried = if peers { "" } else { ", if a ring carries it" };
    let text = format!("{load:.1} of {rate:.0} GB/s on each NIC{carried}");
    let why = if nics > 1.0 && (leaves / rate - 1.0).abs() < 0.25 {
        let why = ", together what one NIC carries: does all traffic take one?";
        Some(((leaves / rate).ln().abs(), why.to_owned()))
    } else if let Some((of, part)) = nearest_part(load / rate) {
        let why = format!(
            ", about {part} of its rate: a slower port or path than the model's, or too few queue pairs or channels"
        );
        Some(((load / rate / of).ln().abs(), why))
    } else if peers {
        let why =
            ": too few channels or queue pairs for each peer (NCCL_NCHANNELS_PER_NET_PEER, NCCL_IB_QPS_PER_CONNECTION)";
        Some((f64::INFINITY, why.to_owned()))
    } else {
        None
    };
    Some((text, why))
}

/// The what-if that takes most of the gap away.
fn what_if(sizes: &[Size], clues: &Clues) -> Option<Cause> {
    let gap = |of: &dyn Fn(&Size) -> Option<f64>| -> Option<f64> {
        let gaps: Vec<f64> = sizes.iter().filter_map(|s| of(s).map(|us| (us / s.measured_us).ln().abs())).collect();
        (!gaps.is_empty()).then(|| gaps.iter().sum::<f64>() / gaps.len() as f64)
    };
    let at = |what: &WhatIf, s: &Size| what.predicted_us.iter().find(|(bytes, _)| *bytes == s.bytes).map(|(_, us)| *us);
    let mut found: Vec<(f64, f64, &WhatIf)> = Vec::new();
    for what in &clues.what_ifs {
        let Some(with) = gap(&|s| at(what, s)) else { continue };
        let Some(without) = gap(&|s| at(what, s).map(|_| s.predicted_us)) else { continue };
        if with < (1.0 - CLOSES) * without {
            found.push((with, without, what));
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, _, first) = *found.first()?;
    // On the scale of a row's error, at the sizes that were played.
    let errors = |of: &dyn Fn(&Size) -> Option<f64>| -> String {
        let one = |s: &Size| of(s).map(|us| format!("{:+.0} %", (us / s.measured_us - 1.0) * 100.0));
        sizes.iter().filter_map(one).collect::<Vec<_>>().join(" and ")
    };
    // Another that does nearly as well can't be told from it.
    let alike = found.iter().skip(1).find(|(with, ..)| *with < ALIKE * least + 0.05);
    let or = alike
        .map_or(String::new(), |(.., what)| format!(", or as if {} (error {})", what.what, errors(&|s| at(what, s))));
    let played: Vec<String> = first.predicted_us.iter().map(|(bytes, _)| bytes.to_string()).collect();
    let text = format!(
        "as if {}: the error at {} is then {}, in place of {}{or}",
        first.what,
        played.join(" and "),
        errors(&|s| at(first, s)),
        errors(&|s| at(first, s).map(|_| s.predicted_us))
    );
    Some(Cause { left: least, played: true, text })
}

/// A simple part that `ratio` is near, in words.
fn part(ratio: f64) -> Option<&'static str> {
    nearest_part(ratio).map(|(_, name)| name)
}

/// A simple part that `ratio` is near.
fn nearest_part(ratio: f64) -> Option<(f64, &'static str)> {
    [(0.5, "half"), (1.0 / 3.0, "a third"), (0.25, "a quarter"), (0.125, "an eighth")]
        .into_iter()
        .find(|(of, _)| (ratio / of - 1.0).abs() <= NEAR)
}
