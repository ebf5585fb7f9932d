//! Long runs that fail.

use sim_topology::Fabric;
use sim_workload::failures::{Checkpoint, LongRun, MOST_OCCURRENCES, Rate, daly};

use super::super::keys::FAILURES;
use super::super::tree::Node;
use super::super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// A long run, with its failures.
#[derive(Clone, Debug, PartialEq)]
pub struct Failures {
    /// The name in results.
    pub name: Option<String>,
    /// GPUs.
    pub gpus: u64,
    /// How often something fails.
    pub rate: Rate,
    /// The run.
    pub run: LongRun,
    /// Days that are played.
    pub days: f64,
}

/// Reads and checks a long run.
pub(super) fn failures(item: &Node, fabric: &Fabric, out: &mut Diagnostics) -> Option<Failures> {
    let view = View::new(item.as_table()?, &FAILURES);
    let gpus = view.integer("gpus").unwrap_or(fabric.gpus().len() as u64);
    let rate = Rate { gpu_hours: view.number("gpu_hours")?, network_share: view.number("network_share")? };
    let seconds = |key: &str| view.time(key).map(|time| time.as_us() / 1e6);
    let written = view.size("checkpoint").map(|bytes| (bytes, view.rate("storage")));
    let pause = seconds("pause");
    let checkpoint = match (written, pause) {
        (Some((bytes, Some(storage))), None) => Checkpoint::blocking(bytes, storage),
        (Some((bytes, Some(storage))), Some(pause)) => Checkpoint::blocking(bytes, storage).beside(pause),
        (_, Some(pause)) => Checkpoint { pause, write: pause },
        _ => {
            let fault = Diagnostic::new(
                Code::MissingKey,
                "a run needs the size of a checkpoint, or how long it holds the run up",
            );
            let fault = fault.at(item.place.clone(), "neither `checkpoint` nor `pause` is here");
            out.push(fault.help("checkpoint = \"5.7 TB\" (14 bytes a parameter) and storage = \"2000 GB/s\""));
            return None;
        }
    };
    let between = rate.seconds(gpus);
    let interval = seconds("interval").filter(|s| *s > 0.0).unwrap_or_else(|| daly(checkpoint.pause, between).max(1.0));
    let run = LongRun { between, checkpoint, interval, restart: seconds("restart")? };
    let days = view.number("days")?;
    let many = run.occurrences(days * 86_400.0);
    if many > MOST_OCCURRENCES {
        let what = format!("about {many:.1e} checkpoints and failures are more than can be played");
        let fault = Diagnostic::new(Code::OutOfRange, what).at(item.place.clone(), "of this run");
        let fits = days * MOST_OCCURRENCES / many;
        out.push(
            fault.help(format!(
                "at most {MOST_OCCURRENCES:.0e}: days = {fits:.2}, a longer `interval`, or fewer failures"
            )),
        );
        return None;
    }
    Some(Failures { name: view.text("name").map(str::to_owned), gpus, rate, run, days })
}
