//! How long kernels take, and which ranks are slower than others.

use sim_core::units::Span;
use sim_topology::{Catalogue, Fabric};
use sim_workload::compute::data::Figures;
use sim_workload::compute::{Jitter, Machine, Number, Slowdown};

use super::super::rated::rated;
use super::{Asked, SlowRank, measured};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::scenario::keys::SLOW_RANK;
use crate::scenario::view::View;

/// What is known of the kernels' time.
pub(super) struct Compute {
    pub(super) number: Number,
    pub(super) machine: Machine,
    pub(super) device: String,
    pub(super) rates: String,
    /// Whether the rates are neither scaled nor measured by the user.
    pub(super) best: bool,
    pub(super) slowdown: Slowdown,
}

/// The time of kernels on the system's GPU.
pub(super) fn compute(
    asked: &Asked<'_>,
    fabric: &Fabric,
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) -> Option<Compute> {
    let view = asked.view.table_or_empty("compute");
    let figures = Figures::builtin();
    let named = ("compute.gpu", view.text("gpu"), "compute = { gpu = \"h100-sxm\", efficiency = 0.8 }");
    let (device, memory) = rated(asked, named, (fabric, catalogue), out)?;
    let (number, word) = match asked.view.choice("precision") {
        Some("fp8") => (Number::Fp8, "fp8"),
        Some("fp4") => (Number::Fp4, "fp4"),
        _ => (Number::Bf16, "bf16"),
    };
    if number != Number::Bf16 && device.rates(number) == device.rates(Number::Bf16) {
        let message = format!("`precision = \"{word}\"` makes nothing faster");
        let label = format!("no rate of it is known for {}", device.gpu);
        out.push(asked.fault(Code::NoEffect, message, &["precision"], label));
    }
    let calculon = view.choice("law") == Some("calculon");
    let mut machine = if calculon {
        Machine::by_size(device, number, memory, figures)
    } else {
        Machine::of(device, number, memory, figures)
    };
    let efficiency = view.number("efficiency")?;
    machine = machine.scaled((efficiency * 1e6).round() as u64);
    let sharded = asked.view.boolean("fsdp") || asked.view.integer::<u8>("zero") == Some(3);
    machine.gradient = match asked.view.choice("gradient") {
        // Units of FSDP are written in 16 bits, and added to nothing in the product itself.
        _ if sharded => 2,
        Some("bf16") => 4,
        _ => machine.gradient,
    };
    if let Some(launch) = view.time("launch") {
        machine.launch = launch;
    }
    let mut rates = format!("{} by {}", device.gpu, if calculon { "Calculon's shares" } else { "tiles" });
    if efficiency != 1.0 {
        rates += &format!(", times {efficiency}");
    }
    if let Some(node) = view.node("profile") {
        machine.profile = measured::profile(node, out)?;
    }
    let best = efficiency == 1.0 && view.node("profile").is_none();
    let part = |key: &str, usual: u64| view.number(key).map_or(usual, |part| (part * 1e6).round() as u64);
    let slowdown = Slowdown {
        scale_up: part("scale_up_loss", figures.overlap.scale_up),
        scale_out: part("scale_out_loss", figures.overlap.scale_out),
    };
    Some(Compute { number, machine, device: device.gpu.clone(), rates, best, slowdown })
}

/// The random laws.
pub(super) fn jitter(asked: &Asked<'_>, seed: u64) -> Jitter {
    let view = asked.view.table_or_empty("jitter");
    let number = |key| view.number(key).unwrap_or(0.0);
    Jitter {
        seed,
        step: 0,
        kernel_sigma: number("kernel_sigma"),
        gpu_sigma: number("gpu_sigma"),
        straggler_share: number("straggler_share"),
        straggler_slowdown: number("straggler_slowdown"),
    }
}

/// Ranks that are slower than others; `None` if one of them is not there.
pub(super) fn slow_ranks(asked: &Asked<'_>, ranks: u64, out: &mut Diagnostics) -> Option<Vec<SlowRank>> {
    let mut list: Vec<SlowRank> = Vec::new();
    let before = out.list.len();
    for item in asked.view.items("slow_ranks") {
        let view = View::new(item.as_table()?, &SLOW_RANK);
        let rank: u32 = view.integer("rank")?;
        let place = view.node("rank").map_or_else(|| item.place.clone(), |node| node.place.clone());
        if u64::from(rank) >= ranks {
            let fault = Diagnostic::new(Code::UnknownDevice, format!("there is no rank {rank}"));
            out.push(fault.at(place, format!("ranks go from 0 to {}", ranks - 1)));
        } else if list.iter().any(|slow| slow.rank == rank) {
            let fault = Diagnostic::new(Code::OutOfRange, format!("rank {rank} is there twice"));
            out.push(fault.at(place, "again"));
        } else {
            let delay = view.time("delay").unwrap_or(Span::ZERO);
            list.push(SlowRank { rank, factor: view.number("factor")?, delay });
        }
    }
    (out.list.len() == before).then_some(list)
}
