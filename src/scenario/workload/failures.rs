//! Long runs that fail.

use sim_core::units::Span;
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

impl Failures {
    /// The name in results.
    #[must_use]
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or("failures")
    }
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
    let interval = seconds("interval").unwrap_or_else(|| daly(checkpoint.pause, between));
    if interval <= 0.0 {
        let (message, key, label) = match view.node("interval") {
            Some(_) => {
                ("an interval of no work between checkpoints", "interval", "the run would write checkpoints only")
            }
            None => ("checkpoints that cost nothing have no best interval", "pause", "nothing is held up"),
        };
        let place = view.node(key).map_or_else(|| item.place.clone(), |node| node.place.clone());
        let fault = Diagnostic::new(Code::OutOfRange, message).at(place, label);
        out.push(fault.help("interval = \"30 min\"; without `interval`, a `pause` gives Daly's"));
        return None;
    }
    let run = LongRun { between, checkpoint, interval, restart: seconds("restart")? };
    let days = view.number("days")?;
    let many = run.occurrences(days * 86_400.0);
    if many > MOST_OCCURRENCES {
        let what = format!("about {many:.1e} checkpoints and failures are more than can be played");
        let span = |seconds: f64| Span::from_us_f64(seconds * 1e6);
        let label = format!("a checkpoint every {}, a failure every {}", span(interval), span(between));
        let keys: &[&str] = if between < interval { &["gpu_hours", "gpus"] } else { &["interval", "pause"] };
        let place = keys.iter().find_map(|key| view.node(key)).map_or_else(|| item.place.clone(), |n| n.place.clone());
        let fits = days * MOST_OCCURRENCES / many;
        let help = format!("at most {MOST_OCCURRENCES:.0e}: days = {fits:.2}, a longer `interval`, or fewer failures");
        out.push(Diagnostic::new(Code::OutOfRange, what).at(place, label).help(help));
        return None;
    }
    Some(Failures { name: view.text("name").map(str::to_owned), gpus, rate, run, days })
}
