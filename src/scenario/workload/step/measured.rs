//! Files of measured kernels: what is in them, what of it a step asks for, and whether its times can be added up.

use sim_core::units::Span;
use sim_workload::compute::{Idle, Instead, Machine, Profile, asked};
use sim_workload::job::Job;
use sim_workload::model::kernels::Pass;

use super::{Asked, SlowRank};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, counted, shorten, suggest};
use crate::scenario::load;
use crate::scenario::tree::Node;

/// Rows without effect that are told one by one.
const TOLD: usize = 8;
/// What the kernels of a step may take one after the other, so that no sum of times leaves the clock: some 106 days.
const MOST: u64 = 1 << 63;

/// A file of measured kernels, relative to the file that names it.
pub(super) fn profile(node: &Node, out: &mut Diagnostics) -> Option<Profile> {
    let path = load::beside(node, &out.sources)?;
    let text = match load::read(&path, out.sources.files()) {
        Ok(text) => text,
        Err(fault) => {
            out.push(fault.at(node.place.clone(), "named here"));
            return None;
        }
    };
    let source = out.sources.add_data(path.display().to_string(), text.clone());
    match Profile::from_toml(&text) {
        Ok(profile) => Some(profile),
        Err(error) => {
            let message = format!("`{}` is no file of measured kernels", shorten(node.as_text()?));
            let fault = Diagnostic::new(Code::Unreadable, message);
            let fault = match error.at() {
                Some(at) => {
                    let place = Place { source, span: at.clone() };
                    fault.at(place, error.to_string()).related(node.place.clone(), "named here")
                }
                None => fault.at(node.place.clone(), error.to_string()),
            };
            out.push(fault.help(
                "rows are like: [[kernel]] name = \"FFN up\" pass = \"forward\" m = 4096 n = 13312 k = 16384 time = \"2.3 ms\"",
            ));
            None
        }
    }
}

/// Warns of rows that the step never asks for; of how many kernels the times are measured, in words.
pub(super) fn effect(
    of: &Asked<'_>,
    job: &Job<'_>,
    machine: &Machine,
    pieces: u64,
    out: &mut Diagnostics,
) -> Option<String> {
    let view = of.view.table_or_empty("compute");
    let name = view.text("profile")?;
    let kernels = asked(job, pieces);
    let idle = machine.profile.idle(&kernels);
    if !idle.is_empty() {
        let rows = counted(machine.profile.rows(), "row");
        let message = format!("{} of {rows} of `{}` without effect", idle.len(), shorten(name));
        let mut fault = of.fault(Code::NoEffect, message, &["compute.profile"], "the step never asks for them");
        for row in idle.iter().take(TOLD) {
            fault = fault.note(told(row));
        }
        if idle.len() > TOLD {
            fault = fault.note(format!("and {} more", idle.len() - TOLD));
        }
        out.push(fault);
    }
    // Parts of products come beside the whole ones.
    let whole = asked(job, 1);
    let measured = whole.iter().filter(|(kernel, pass)| machine.profile.get(kernel, *pass).is_some()).count();
    Some(format!(", measured: {name} ({measured} of {} kernels)", whole.len()))
}

/// A row without effect, and what there is instead.
fn told(row: &Idle) -> String {
    let what = format!("`{}`, {}", shorten(&row.name), row.pass.name());
    match &row.instead {
        Instead::Names(names) => {
            format!("{what}: no kernel has that name: {}", suggest(&row.name, names.iter().copied()))
        }
        Instead::Passes(passes) => {
            let passes: Vec<&str> = passes.iter().map(|pass| Pass::name(*pass)).collect();
            format!("{what}: it has no such pass, but {}", passes.join(" and "))
        }
        Instead::Shapes(shapes) => {
            let text = |(m, n, k): &(u64, u64, u64)| format!("m = {m}, n = {n}, k = {k}");
            let own = row.shape.as_ref().map(text).unwrap_or_default();
            let list: Vec<String> = shapes.iter().take(3).map(text).collect();
            let here = if list.is_empty() { "it is no product".to_owned() } else { list.join("; ") };
            format!("{what}, {own}: its shape here is {here}")
        }
    }
}

/// Refuses a step whose kernels take longer than the clock goes.
pub(super) fn countable(
    of: &Asked<'_>,
    job: &Job<'_>,
    machine: &Machine,
    slow: &[SlowRank],
    out: &mut Diagnostics,
) -> Option<()> {
    let factor = slow.iter().map(|slow| slow.factor).fold(1.0, f64::max);
    let delay = slow.iter().map(|slow| slow.delay).max().unwrap_or(Span::ZERO);
    let chunks = (0..job.sizes.pipeline).flat_map(|s| (0..job.sizes.virtual_stages).map(move |c| (s, c)));
    let once: u64 = chunks.map(|(s, c)| machine.chunk(job, s, c).total().as_ps()).fold(0, u64::saturating_add);
    let all = once as f64 * job.sizes.micros() as f64 * factor + delay.as_ps() as f64;
    if all < MOST as f64 {
        return Some(());
    }
    let keys = ["compute.profile", "slow_ranks", "compute.efficiency", "grad_accumulation", "global_batch"];
    let label = format!("the kernels of all stages take {:.1e} s one after the other", all / 1e12);
    let fault = of.fault(Code::Overflow, "the step leaves simulated time", &keys, label);
    out.push(fault.note("simulated time ends at 2^64 ps, about 213 days; a step may take half of that"));
    None
}
