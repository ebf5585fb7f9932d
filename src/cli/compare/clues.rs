//! What is known of a log's cluster beside its rows, for the pattern in words: rates of NICs and slots, and what would be
//! predicted if something were otherwise.

use std::collections::BTreeSet;

use rayon::prelude::*;
use sim_collectives::nccl::{Operation, Version};
use sim_core::engine;
use sim_core::outcome::StopReason;
use sim_core::units::Bytes;
use sim_report::compare::{BandName, Clues, LibrarySource, LogComparison, WhatIf};
use sim_report::nccl_log::NcclLog;
use sim_topology::{DeviceId, Fabric, LinkClass};

use super::super::context::Context;
use super::super::measured::{self, Case, Request};
use crate::scenario::Setting;
use crate::simulate::predict;

/// Sizes are worth an explanation if the measured rate is below this part of the predicted one.
const LOW: f64 = 0.8;
/// The most bytes times ranks of a size that is played for a what-if.
const MOST_WORK: u64 = 32 << 30;

/// What is otherwise, in words that follow "as if", and as settings.
type Question = (String, Vec<Setting>);

/// The clues on the cluster of a log that was compared.
pub(super) fn clues(
    compared: &LogComparison,
    log: &NcclLog,
    case: &Case,
    request: &Request,
    limits: &engine::Limits,
    context: &Context,
) -> Clues {
    let mut clues = cluster(&case.loaded.fabric, &case.group);
    let sizes = low(compared, case.ranks);
    if !sizes.is_empty() {
        let questions = questions(case, &clues);
        let answer = |question: &Question| what_if(question, &sizes, compared, log, case, request, limits, context);
        clues.what_ifs = questions.par_iter().with_max_len(1).filter_map(answer).collect();
    }
    clues
}

/// Nodes, NICs and slots of the ranks.
fn cluster(fabric: &Fabric, group: &[u32]) -> Clues {
    let gpus: Vec<DeviceId> = group.iter().filter_map(|rank| fabric.gpus().get(*rank as usize).copied()).collect();
    let node_of = |gpu: &DeviceId| fabric.device(*gpu).node;
    let nodes: BTreeSet<Option<u32>> = gpus.iter().map(node_of).collect();
    // Nodes of one NVLink domain need no network.
    let domains: BTreeSet<Option<u32>> = gpus.iter().map(|gpu| fabric.domain_of(*gpu)).collect();
    let first: Vec<DeviceId> = gpus.iter().copied().filter(|gpu| node_of(gpu) == Some(0)).collect();
    let nics: BTreeSet<DeviceId> = first.iter().flat_map(|gpu| fabric.nics_of(*gpu).iter().copied()).collect();
    let rate = |from: DeviceId, classes: &[LinkClass]| -> f64 {
        let own = fabric.links().iter().filter(|l| l.from == from && classes.contains(&l.class));
        own.map(|l| l.rate.as_gbyte()).sum()
    };
    let joined = match first[..] {
        [a, b, ..] => fabric.nvlinks(a, b) > 0,
        _ => false,
    };
    Clues {
        nodes: if domains.len() > 1 || nodes.len() == 1 { nodes.len() as u32 } else { 1 },
        ranks_per_node: first.len() as u32,
        nics: nics.len() as u32,
        nic_rate: nics.first().map_or(0.0, |nic| rate(*nic, &[LinkClass::Network])),
        slot_rate: first.first().map_or(0.0, |gpu| rate(*gpu, &[LinkClass::Pcie, LinkClass::C2c])),
        pcie_only: first.len() > 1 && !joined,
        what_ifs: Vec::new(),
    }
}

/// Whether ranks of several nodes are in one NVLink domain.
fn shares_domain(case: &Case) -> bool {
    let fabric = &case.loaded.fabric;
    let gpus = || case.group.iter().filter_map(|rank| fabric.gpus().get(*rank as usize).copied());
    let nodes: BTreeSet<Option<u32>> = gpus().map(|gpu| fabric.device(gpu).node).collect();
    let domains: BTreeSet<Option<u32>> = gpus().map(|gpu| fabric.domain_of(gpu)).collect();
    fabric.nodes_per_domain() > 1 && domains.len() < nodes.len()
}

/// Up to two of the sizes that are low and not bound by latency: the largest, and the one in the middle of them.
fn low(compared: &LogComparison, ranks: u32) -> Vec<Bytes> {
    let worth = |bytes: Bytes| {
        BandName::of(bytes) != BandName::Small && bytes.get().saturating_mul(u64::from(ranks)) <= MOST_WORK
    };
    let low = compared.rows.iter().filter(|r| r.predicted_us / r.measured_us < LOW && !r.outlier && worth(r.bytes));
    let sizes: Vec<Bytes> = low.map(|r| r.bytes).collect::<BTreeSet<_>>().into_iter().collect();
    // One stray size is no reason to look for one.
    let all: BTreeSet<Bytes> = compared.rows.iter().map(|r| r.bytes).collect();
    match sizes[..] {
        [] => Vec::new(),
        [one] => {
            if all.len() <= 2 {
                vec![one]
            } else {
                Vec::new()
            }
        }
        [.., last] => vec![sizes[sizes.len() / 2 - 1], last],
    }
}

/// What could be otherwise on such a cluster.
fn questions(case: &Case, clues: &Clues) -> Vec<Question> {
    let set = |text: &str| vec![Setting::set(text)];
    let mut out: Vec<Question> = Vec::new();
    if clues.nodes > 1 {
        out.push((
            "GPUDirect were off, and data went through host memory".to_owned(),
            set("software.gpudirect=\"LOC\""),
        ));
        if clues.nics > 1 {
            out.push(("one NIC of each node carried everything".to_owned(), set("software.nic_policy=\"fixed:0\"")));
        }
        for (part, name) in [(0.5, "half"), (0.25, "a quarter")] {
            let fault = Setting::fault(format!("node*.nic* kind=degraded factor={part}"));
            out.push((format!("every NIC ran at {name} of its rate"), vec![fault]));
        }
        if case.loaded.scenario.cluster.transport.as_str() != "tcp" {
            out.push(("it ran over TCP sockets, and so through host memory".to_owned(), set("transport.kind=\"tcp\"")));
        }
        if matches!(case.op, Operation::AllToAll | Operation::SendRecv) {
            out.push(("PXN were off".to_owned(), set("software.pxn=false")));
        }
    } else {
        out.push((
            "GPUs could not reach each other directly (no peer-to-peer)".to_owned(),
            set("software.env.NCCL_P2P_DISABLE=1"),
        ));
        let fault = Setting::fault("node*.gpu* kind=degraded factor=0.5".to_owned());
        out.push(("every GPU's links ran at half of their rate".to_owned(), vec![fault]));
    }
    if shares_domain(case) {
        out.push(("the hosts shared no NVLink domain".to_owned(), set("nodes_per_domain=1")));
    }
    let newest = case.loaded.scenario.software.nccl;
    let before = Version::nearest(newest.major(), newest.minor() - 1);
    if case.library.source == LibrarySource::Assumed && before != newest {
        let what = format!("NCCL {before} ran in place of the assumed {newest}");
        out.push((what, set(&format!("software.nccl=\"{before}\""))));
    }
    if matches!(case.op, Operation::AllReduce) && !clues.pcie_only {
        out.push(("NVLS were off".to_owned(), set("software.env.NCCL_NVLS_ENABLE=0")));
    }
    out
}

/// Plays the sizes on a cluster that is otherwise; `None` if it can't be, or if it makes no difference.
#[expect(clippy::too_many_arguments, reason = "a log's table with all that it was predicted from")]
fn what_if(
    (what, settings): &Question,
    sizes: &[Bytes],
    compared: &LogComparison,
    log: &NcclLog,
    case: &Case,
    request: &Request,
    limits: &engine::Limits,
    context: &Context,
) -> Option<WhatIf> {
    let settings = request.settings.iter().chain(settings).cloned().collect();
    let request =
        Request { input: request.input.clone(), settings, op: request.op, interval: false, most: request.most };
    let quiet = Context { quiet: true, ..context.clone() };
    let other = measured::case("", log, &case.table, &request, &quiet, &mut Vec::new()).ok()?;
    let machine = other.loaded.machine(&other.group).ok()?;
    let network = other.loaded.library_network();
    let one = |bytes: &Bytes| {
        let row = other.table.rows.iter().find(|row| row.bytes == *bytes)?;
        let played = predict(&machine, &network, &other.request(row), case.calls(), limits.clone()).ok()?;
        (played.outcome.reason == StopReason::Finished).then_some((*bytes, played.row.time_us))
    };
    let predicted_us: Vec<(Bytes, f64)> = sizes.iter().map(one).collect::<Option<_>>()?;
    let before = |bytes: Bytes| compared.rows.iter().find(|r| r.bytes == bytes).map(|r| r.predicted_us);
    let differs = |(bytes, us): &(Bytes, f64)| before(*bytes).is_some_and(|before| (us / before - 1.0).abs() > 0.01);
    predicted_us.iter().any(differs).then(|| WhatIf { what: what.clone(), predicted_us })
}
