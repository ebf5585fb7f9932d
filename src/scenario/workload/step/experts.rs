//! Tokens of a step on their way to experts: by which kernels, and how uneven.

use sim_workload::compute::data::Figures;
use sim_workload::experts::{Imbalance, Kernels, Loads};
use sim_workload::model::{ExpertLayer, Model};
use sim_workload::nearest::Nearest;
use sim_workload::parallel::{Group, Placement, Ranks, Sizes};

use super::super::collective::exclusive;
use super::Asked;
use crate::diagnostic::{Code, Diagnostics, Severity};
use crate::scenario::tree::{Node, Value};
use crate::scenario::view::View;

/// Processors of DeepEP's normal kernels (`Buffer.num_sms` of deepseek-ai/DeepEP).
const PROCESSORS: u32 = 20;

/// What takes tokens to experts, and how uneven these are; `None` after a fault. Kernels run beside these messages or not.
pub(super) fn experts(
    asked: &Asked<'_>,
    (sizes, model): (&Sizes, &Model),
    (device, beside): (&str, bool),
    seed: u64,
    out: &mut Diagnostics,
) -> Option<(Kernels, Option<Imbalance>)> {
    let view = asked.view.table_or_empty("experts");
    let Some(layer) = model.experts.filter(|_| sizes.expert > 1) else {
        if model.experts.is_some() {
            alone(asked, &view, out);
        }
        return Some((Kernels::Library, None));
    };
    let before = out.count(Severity::Error);
    let kernels = kernels(asked, &view, (device, beside), out);
    let loads = loads(asked, &view, layer, sizes, seed, out);
    let imbalance = loads.and_then(|loads| capacity(asked, &view, loads, layer, seed, out));
    let faults = out.count(Severity::Error);
    (faults == before).then_some((kernels?, imbalance))
}

fn path(key: &str) -> String {
    format!("experts.{key}")
}

fn idle(asked: &Asked<'_>, key: &str, why: &str, help: &str, out: &mut Diagnostics) {
    let fault = asked.fault(Code::NoEffect, format!("`experts.{key}` has no effect"), &[&path(key)], why);
    out.push(fault.help(help.to_owned()));
}

/// Keys that are about ranks of experts, where every rank has all experts.
fn alone(asked: &Asked<'_>, view: &View<'_>, out: &mut Diagnostics) {
    for key in ["kernel", "sms", "shares", "zipf", "hot", "draws", "capacity", "pad", "copies", "dispatch", "combine"] {
        if view.has(key) {
            idle(asked, key, "every rank has all experts", "ep = 2 or more", out);
        }
    }
}

fn kernels(
    asked: &Asked<'_>,
    view: &View<'_>,
    (device, beside): (&str, bool),
    out: &mut Diagnostics,
) -> Option<Kernels> {
    let name = view.choice("kernel")?;
    if name != "nccl" && view.has("copies") {
        let why = "DeepEP's kernels have rules of their own";
        idle(asked, "copies", why, "kernel = \"nccl\", or leave `copies` out", out);
    }
    if name != "deepep-normal" && view.has("sms") {
        let why = "only DeepEP's normal kernels are given processors";
        idle(asked, "sms", why, "kernel = \"deepep-normal\"", out);
    }
    match name {
        "deepep-low-latency" => Some(Kernels::LowLatency),
        "deepep-normal" => {
            let processors: u32 = if view.has("sms") { view.integer("sms")? } else { PROCESSORS };
            let all = u64::from(processors_of(device));
            let most = if beside { all.saturating_sub(2) } else { all };
            if !processors.is_multiple_of(2) || u64::from(processors) > most {
                let label = match beside {
                    true => format!("{device} has {all}, a channel takes two, and kernels run beside these messages"),
                    false => format!("{device} has {all}, and a channel takes two"),
                };
                let near = Nearest::to(processors.into(), (1..=most / 2).map(|n| 2 * n));
                let message = match processors.is_multiple_of(2) {
                    true => "`sms` leaves no processors of the GPU",
                    false => "`sms` is no even number of processors of the GPU",
                };
                let fault = asked.fault(Code::BadSizes, message, &["experts.sms"], label);
                out.push(fault.help(format!("near: sms = {near}")));
                return None;
            }
            Some(Kernels::Normal { processors })
        }
        _ => Some(Kernels::Library),
    }
}

/// Processors of a GPU by its name in the catalogue.
fn processors_of(device: &str) -> u32 {
    Figures::builtin().device(device).map_or(1, |device| u32::try_from(device.processors).unwrap_or(u32::MAX))
}

/// The part of a GPU that kernels of their own take while tokens are under way, in millionths.
pub(super) fn taken(kernels: Kernels, device: &str) -> u64 {
    match kernels {
        Kernels::Normal { processors } => u64::from(processors) * 1_000_000 / u64::from(processors_of(device).max(1)),
        Kernels::Library | Kernels::LowLatency => 0,
    }
}

/// The loads that are asked for; `None` inside if they are even.
fn loads(
    asked: &Asked<'_>,
    view: &View<'_>,
    layer: ExpertLayer,
    sizes: &Sizes,
    seed: u64,
    out: &mut Diagnostics,
) -> Option<Option<Vec<Loads>>> {
    exclusive(view, "shares", &["zipf", "hot"], out);
    exclusive(view, "zipf", &["hot"], out);
    let draws: u64 = view.integer("draws")?;
    let (ranks, experts) = (sizes.expert, layer.experts);
    let drawn = |i: u64| sim_core::random::mix(seed ^ sim_core::random::mix(0x6578_7065_7274 + i));
    // A token has an expert once: no expert gets more than one copy of each.
    let most = 1.0 / layer.top_k as f64;
    if let Some(node) = view.node("shares") {
        let base = shares(asked, node, layer, out)?;
        let of = |i: u64| if draws == 1 { base.clone() } else { base.shuffled(drawn(i)) };
        return Some(Some((0..draws).map(of).collect()));
    }
    if let Some(exponent) = view.number("zipf") {
        let first = |s: f64| 1.0 / (1..=experts).map(|i| (i as f64).powf(-s)).sum::<f64>();
        if first(exponent) > most {
            let near = (0..=400).rev().map(|i| f64::from(i) / 100.0).find(|s| first(*s) <= most).unwrap_or(0.0);
            let label = format!("it would get {:.1} % of all copies", first(exponent) * 100.0);
            too_much(asked, "zipf", layer, label, format!("near: zipf = {near}"), out);
            return None;
        }
        if exponent == 0.0 {
            idle(asked, "zipf", "all experts get as much", "zipf = 0.5, or leave it out", out);
        }
        return Some(Some((0..draws).map(|i| Loads::zipf(experts, exponent, drawn(i))).collect()));
    }
    if let Some(factor) = view.number("hot") {
        let bound = (ranks as f64).min(experts as f64 / layer.top_k as f64);
        if factor > bound {
            let label = format!("ep = {ranks}, experts = {experts}");
            too_much(asked, "hot", layer, label, format!("near: hot = {bound}"), out);
            return None;
        }
        if factor == 1.0 {
            idle(asked, "hot", "all ranks get as much", "hot = 1.2, or leave it out", out);
        }
        let hot = |i: u64| if draws == 1 { 0 } else { drawn(i) % ranks };
        return Some(Some((0..draws).map(|i| Loads::hot(experts, ranks, hot(i), factor)).collect()));
    }
    if view.has("draws") {
        idle(asked, "draws", "all experts get as much", "shares, zipf or hot say what some get more", out);
    }
    Some(None)
}

/// An expert would get more than one copy of each token.
fn too_much(asked: &Asked<'_>, key: &str, layer: ExpertLayer, label: String, help: String, out: &mut Diagnostics) {
    let message =
        format!("no expert can get more than 1/{} of all copies: a token has {} experts", layer.top_k, layer.top_k);
    out.push(asked.fault(Code::BadSizes, message, &[&path(key)], label).help(help));
}

fn shares(asked: &Asked<'_>, node: &Node, layer: ExpertLayer, out: &mut Diagnostics) -> Option<Loads> {
    let list = node.as_array()?;
    let number = |node: &Node| match node.value {
        Value::Integer(Some(n)) => Some(n as f64),
        Value::Float(n) => Some(n),
        _ => None,
    };
    let weights: Vec<f64> = list.iter().map(number).collect::<Option<_>>()?;
    if weights.len() as u64 != layer.experts {
        let message = format!("`shares` has a number for each of {} experts", layer.experts);
        out.push(asked.fault(Code::BadSizes, message, &["experts.shares"], format!("{} numbers", weights.len())));
        return None;
    }
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        let fault = asked.fault(Code::BadSizes, "`shares` are all 0", &["experts.shares"], "no expert gets a token");
        out.push(fault.help("leave them out for even loads"));
        return None;
    }
    let (at, most) = weights.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if most / sum > 1.0 / layer.top_k as f64 + 1e-9 {
        let label = format!("expert {at} would get {:.1} %", most / sum * 100.0);
        too_much(asked, "shares", layer, label, least(&weights, layer.top_k), out);
        return None;
    }
    Some(Loads::given(&weights))
}

/// What shares would do in place of ones of which some are above a part of `top_k`.
fn least(weights: &[f64], top_k: u64) -> String {
    let mut sorted = weights.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    // The largest ones as large as each other, such that each is one of `top_k` parts at most.
    let cut = (1..top_k as usize).find_map(|n| {
        let rest: f64 = sorted.get(n..)?.iter().sum();
        let each = rest / (top_k as f64 - n as f64);
        (each > 0.0 && sorted[n] <= each).then_some(each)
    });
    match cut {
        Some(each) => format!("near: no share above {each:.4}"),
        None => format!("{top_k} experts or more need shares above 0"),
    }
}

/// Loads after capacities; `None` if they are even and nothing is dropped or padded.
fn capacity(
    asked: &Asked<'_>,
    view: &View<'_>,
    loads: Option<Vec<Loads>>,
    layer: ExpertLayer,
    seed: u64,
    out: &mut Diagnostics,
) -> Option<Imbalance> {
    let padded = view.boolean("pad");
    let Some(factor) = view.number("capacity") else {
        if padded {
            idle(asked, "pad", "there is no capacity to fill", "capacity = 1.25", out);
        }
        return loads.map(|loads| Imbalance::new(&loads, None, false, seed));
    };
    // Every token at one expert.
    let full = layer.experts as f64 / layer.top_k as f64;
    if padded && factor > full {
        let label = format!("an expert with all tokens has {full:.2} times the mean");
        let fault = asked.fault(Code::BadSizes, "`capacity` is filled beyond all tokens", &["experts.capacity"], label);
        out.push(fault.help(format!("near: capacity = {full}; or leave `pad` out")));
        return None;
    }
    let even = loads.is_none();
    let loads = loads.unwrap_or_else(|| vec![Loads::even(layer.experts)]);
    let imbalance = Imbalance::new(&loads, Some((factor * 1e6).round() as u64), padded, seed);
    if !padded && imbalance.dropped() == 0.0 {
        let most = loads.iter().map(|l| l.imbalance(layer.experts)).fold(0.0, f64::max);
        let why = format!("no expert gets more than {most:.2} times the mean");
        idle(asked, "capacity", &why, &format!("capacity below {most:.2}, or pad = true"), out);
        if even {
            return None;
        }
    }
    Some(imbalance)
}

/// Refuses groups that DeepEP's normal kernels can't serve: their relays need as many ranks on every node, node by node.
pub(super) fn lies_evenly(
    asked: &Asked<'_>,
    kernels: Kernels,
    (placement, ranks): (&Placement, &Ranks),
    out: &mut Diagnostics,
) {
    if !matches!(kernels, Kernels::Normal { .. }) {
        return;
    }
    for members in ranks.groups(Group::Expert) {
        let domains: Vec<u64> = members.iter().map(|rank| placement.place(*rank).domain).collect();
        let runs: Vec<usize> = domains.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
        let mut seen = domains.clone();
        seen.sort_unstable();
        seen.dedup();
        if runs.iter().all(|run| *run == runs[0]) && runs.len() == seen.len() {
            continue;
        }
        let own = placement.per_node * placement.nodes_per_domain;
        let near = Nearest::to(members.len() as u64, (1..=64u64).flat_map(|n| [n * own, own / n]).filter(|n| *n > 0));
        let message = "DeepEP's normal kernels need as many ranks of a group on every node";
        let label = format!("a group of {} ranks is on {} nodes, {runs:?}", members.len(), seen.len());
        let fault = asked.fault(Code::BadSizes, message, &["ep", "experts.kernel"], label);
        out.push(fault.help(format!("near: ep = {near}; or kernel = \"deepep-low-latency\"")));
        return;
    }
}
