//! What bounds a piece of work, in words.

use sim_collectives::nccl::Protocol;
use sim_collectives::{Machine, Plan};
use sim_core::outcome::Outcome;
use sim_topology::Fabric;

use super::links::busiest;

/// Above this share of its time, a link or a channel is what bounds the work.
const BUSY: f64 = 0.5;

/// What bounds a collective: the busiest link if it is busy for more than half of the time, else the rate at which the
/// library's channels work if they are, else latency.
pub(super) fn collective(machine: &Machine<'_>, plan: &Plan, outcome: &Outcome, algbw: f64, busbw: f64) -> String {
    let link = busiest(outcome);
    if let Some((id, share)) = link
        && share > BUSY
    {
        return format!("{} {:.0} %", machine.fabric.link_name(id), share * 100.0);
    }
    match channel_share(machine, plan, algbw, busbw) {
        Some((share, what)) if share > BUSY => what.to_owned(),
        Some((share, what)) if share > BUSY / 2.0 => format!("latency and {what}"),
        _ => "latency".to_owned(),
    }
}

/// What each channel moves as a share of what it can, and the name of that limit.
fn channel_share(machine: &Machine<'_>, plan: &Plan, algbw: f64, busbw: f64) -> Option<(f64, &'static str)> {
    let channels = f64::from(plan.channels.max(1));
    let parameter = |name: &str| machine.timing.parameters().iter().find(|p| p.name == name).map(|p| p.value);
    let own = |rate: f64, moved: f64, what| Some((moved / channels / rate, what));
    match plan.algorithm {
        "nvls" => own(parameter("nvls.rate_gbps")?, algbw, "NVLS loop"),
        "nvls_tree" => {
            let slowest = parameter("nvls_tree.rate_gbps")?.min(parameter("nvls_tree.head_rate_gbps")?);
            own(slowest, algbw, "NVLS loop")
        }
        name => {
            let group = match plan.protocol {
                Protocol::Ll => "ll",
                Protocol::Ll128 => "ll128",
                Protocol::Simple => "simple",
            };
            let mut rate = parameter(&format!("{group}.rate_gbps"))?;
            let planned = machine.comm.facts().nvlink_total_gbps;
            if plan.protocol == Protocol::Simple && planned > 0.0 {
                rate = rate.min(planned / channels);
            }
            own(rate, if name == "tree" { algbw } else { busbw }, "channel rate")
        }
    }
}

/// What bounds transfers: the busiest link if it is busy for more than half of the time, else latency.
pub(super) fn transfers(fabric: &Fabric, outcome: &Outcome) -> String {
    match busiest(outcome) {
        Some((id, share)) if share > BUSY => format!("{} {:.0} %", fabric.link_name(id), share * 100.0),
        _ => "latency".to_owned(),
    }
}

/// The same for the first line: `node0.nic3->leaf3 is busy 98 % of the time`.
pub(super) fn sentence(bottleneck: &str) -> String {
    match bottleneck.strip_suffix(" %").and_then(|b| b.rsplit_once(' ')) {
        Some((link, percent)) => format!("{link}, busy {percent} % of the time"),
        None => bottleneck.to_owned(),
    }
}
