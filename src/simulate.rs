//! Playing a scenario: from what was loaded to results.
//!
//! Each size of a sweep and each transfer workload, with those that run with it, is a simulation of its own, that begins at time 0
//! on an idle fabric.
//! Workloads are played in order; the sizes of a sweep are spread over threads, and their results stand in order
//! whatever the number of threads.

mod best;
mod bottleneck;
mod caches;
mod causes;
mod check;
mod classes;
mod congested;
mod error;
mod explain;
mod failures;
pub(crate) mod healthy;
mod idle;
mod inference;
mod interval;
mod links;
mod local;
mod observed;
pub(crate) mod profile;
pub mod seeds;
mod staged;
mod stalled;
mod step;
mod sum;
mod sweep;
mod together;
mod transfers;
mod transport;
mod variables;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_collectives::timing::Timing;
use sim_collectives::{Machine, Software};
use sim_core::engine;
use sim_core::network::Network;
use sim_core::outcome::StopReason;
use sim_core::units::Time;
use sim_report::result::{RunResults, TransferResult};

use crate::diagnostic::Diagnostic;
use crate::scenario::{Collective, Loaded, Workload};
pub use best::Best;
pub use error::RunError;
pub use interval::{Ranged, form_class, predict_ranged, reach};
pub use links::Carried;
pub use local::local_copy;
pub use observed::Recorded;
pub(crate) use profile::asked;
pub use step::PlayedStep;
pub(crate) use step::exposed_kind;
use sum::Sum;
pub use sweep::{Predicted, played, predict, predict_with};

/// What is said about the choice at each size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// Nothing.
    #[default]
    No,
    /// NCCL's own predictions.
    Model,
    /// These, and what is simulated for all that is offered.
    Simulated,
}

/// What a run may share with its surroundings.
#[derive(Clone, Default)]
pub struct Options<'a> {
    /// Set from elsewhere, such as a signal handler, to stop the run; what is complete by then is kept.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Also say how NCCL would choose at each size.
    pub explain: Explain,
    /// Also give the 90 % interval of each collective's time, which takes several times as long.
    pub interval: bool,
    /// Play everything: do not count what comes again exactly without playing it.
    pub play_all: bool,
    /// Also look for what is faster than NCCL's choice.
    pub best: Option<Best>,
    /// Keep all transfers and links in [`Report::all_transfers`] and [`Report::all_links`].
    pub keep_all: bool,
    /// Also play each of several training steps, and a step with transfers beside it, by itself, if that is not much.
    pub alone: bool,
    /// Keep what ranks of steps did over time in [`Report::steps`].
    pub timeline: bool,
    /// Called when one more of so many simulations is done: `(done, all)`, from any thread.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
}

impl core::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Options").field("explain", &self.explain).field("keep_all", &self.keep_all).finish()
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Report {
    /// The result in one sentence, with what bounds it; empty if nothing was completed.
    pub headline: String,
    /// The time that the sentence is about, µs; 0 without one.
    pub headline_us: f64,
    /// What the run showed about its scenario: faults that no message met.
    pub findings: Vec<Diagnostic>,
    /// What each link of the fabric carried, in the order of its links.
    pub carried: Vec<Carried>,
    /// The figures, as JSON has them.
    pub results: RunResults,
    /// The longest time of a transfer, µs, of each workload of transfers.
    pub slowest_us: Vec<f64>,
    /// The median of these times (nearest rank), µs, of each workload of transfers.
    pub median_us: Vec<f64>,
    /// All transfers and not only the slowest; empty unless asked for.
    pub all_transfers: Vec<TransferResult>,
    /// All links and not only the busiest; empty unless asked for.
    pub all_links: Vec<sim_report::result::LinkResult>,
    /// Ranks, critical path and timeline of each step; empty unless asked for.
    pub steps: Vec<PlayedStep>,
    /// Ports, queue pairs and samples, where packets were played; empty unless asked for.
    pub recorded: Recorded,
    /// Ranks of each collective in `results`, for nccl-tests' arithmetic.
    pub ranks: Vec<u32>,
    /// How much was simulated: events, or operations of ranks in steps whose messages can be reused.
    pub(crate) work: u64,
    /// Why the run stopped early; `None` if everything is complete.
    pub stopped: Option<StopReason>,
    /// What is known about where it stopped.
    pub stopped_at: String,
}

impl Loaded {
    /// Plays all workloads.
    ///
    /// ```
    /// use fabricsim::scenario::{Input, Scenario};
    ///
    /// let text = r#"
    ///     system = "hgx-h100"
    ///     nodes = 2
    ///     [[workload]]
    ///     kind = "collective"
    ///     op = "all_reduce"
    ///     sizes = ["1 MiB"]
    /// "#;
    /// let input = Input::Text { name: "two.toml".to_owned(), text: text.to_owned() };
    /// let report = Scenario::load(&input, &[]).map_err(|faults| faults.warning_lines())?.run().unwrap();
    /// assert!(report.results.collectives[0].busbw > 1.0);
    /// # Ok::<(), Vec<String>>(())
    /// ```
    ///
    /// # Errors
    /// If an operation can't be run on this cluster, or the engine is at fault. A run that stops at a limit is no
    /// error: see [`Report::stopped`].
    pub fn run(&self) -> Result<Report, RunError> {
        self.run_with(&Options::default())
    }

    /// Plays all workloads, with options.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(&self, options: &Options<'_>) -> Result<Report, RunError> {
        let network = self.network();
        let by_library = self.library_network();
        let mut world = World {
            loaded: self,
            network: &network,
            by_library: &by_library,
            options,
            all: self.scenario.workloads.iter().map(simulations).sum::<usize>().into(),
            done: 0.into(),
        };
        let mut sum = Sum::new(self, options.keep_all);
        let mut rest = &self.scenario.workloads[..];
        while let Some((workload, after)) = rest.split_first() {
            rest = after;
            let go_on = match workload {
                Workload::Collective(collective) => {
                    let with = rest.iter().map_while(Workload::collective_together).collect::<Vec<_>>();
                    rest = &rest[with.len()..];
                    if with.is_empty() {
                        sweep::play(&mut world, collective, &mut sum)?
                    } else {
                        let all = core::iter::once(collective).chain(with).collect::<Vec<_>>();
                        together::play(&mut world, &all, &mut sum)?
                    }
                }
                Workload::Transfer(first) => {
                    let mut all = vec![first];
                    all.extend(rest.iter().map_while(Workload::transfers_together));
                    rest = &rest[all.len() - 1..];
                    transfers::play(&mut world, &all, &mut sum)?
                }
                Workload::Step(first) => {
                    let joined = rest.iter().take_while(|w| w.with_previous()).count();
                    let (with, after) = rest.split_at(joined);
                    rest = after;
                    step::play(&mut world, first, with, &mut sum)?
                }
                Workload::Inference(one) => inference::play(&mut world, one, &mut sum)?,
                Workload::Failures(one) => failures::play(&world, one, &mut sum),
            };
            if !go_on {
                break;
            }
        }
        let stragglers = sum.stragglers.take();
        let congested = congested::findings(self, &sum.packets);
        let mut report = sum.report(self, options);
        report.results.through_host = staged::reasons(self, &report.carried);
        report.results.faults = healthy::faults(self);
        let well = self.healthy(&report, options)?;
        report.results.healthy = well.as_ref().map(healthy::result);
        if let Some((row, who)) = stragglers {
            report.headline += &healthy::straggle(&report.results, row, &who);
        }
        if let Some(well) = &well {
            report.headline += &healthy::cost(&report, well);
        }
        report.findings = idle::findings(self, &report, well.as_ref());
        report.findings.extend(self.idle_variables());
        report.findings.extend(congested);
        Ok(report)
    }

    /// The communicator of these ranks, with the scenario's software and timing parameters.
    ///
    /// # Errors
    /// If a rank does not exist or NCCL could not run there.
    pub fn machine(&self, group: &[u32]) -> Result<Machine<'_>, RunError> {
        let scenario = &self.scenario;
        let software = Software {
            version: scenario.software.nccl,
            knobs: scenario.software.knobs.clone(),
            launch: scenario.software.launch,
            channels: scenario.software.channels.as_ref().map(|c| c.given.clone()),
            tuner: scenario.software.tuner.clone(),
        };
        let mut machine = Machine::new(&self.fabric, &self.catalogue, &software, group)?;
        machine.timing = machine.timing.watched();
        profile::apply(&scenario.profile, &mut machine.timing);
        Ok(machine)
    }

    /// The timing parameters of its GPUs and transport, with the scenario's own in place.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let sm = self.catalogue.gpu(&self.fabric.node_spec().gpu).map_or(90, |gpu| gpu.sm);
        let mut timing = Timing::builtin(sm, self.fabric.spec().transport.as_str());
        profile::apply(&self.scenario.profile, &mut timing);
        timing
    }

    /// The links as transfers find them, with the shares of their rates that the scenario's timing parameters say.
    #[must_use]
    pub fn network(&self) -> Network {
        let timing = self.timing();
        let network = sim_collectives::links::filled(&self.fabric, &timing);
        transport::over_packets(network, &self.fabric, self.packets.as_ref())
    }

    /// The links as collectives find them: of a NIC's port, the library's messages fill `network.port_share`.
    #[must_use]
    pub fn library_network(&self) -> Network {
        profile::library(&self.fabric, &self.timing(), self.packets.as_ref())
    }
}

/// How many simulations a workload takes.
fn simulations(workload: &Workload) -> usize {
    match workload {
        joined if joined.with_previous() => 0,
        Workload::Collective(Collective { sizes, .. }) => sizes.len(),
        Workload::Transfer(_) | Workload::Inference(_) | Workload::Failures(_) => 1,
        Workload::Step(step) => step.steps as usize,
    }
}

/// What all simulations of a run share.
struct World<'a> {
    loaded: &'a Loaded,
    /// What transfers run over.
    network: &'a Network,
    /// What collectives run over.
    by_library: &'a Network,
    options: &'a Options<'a>,
    all: std::sync::atomic::AtomicUsize,
    done: std::sync::atomic::AtomicUsize,
}

impl World<'_> {
    /// The engine's limits: those of the scenario hold for each simulation by itself, so that the number of threads
    /// can't change what is reached.
    fn limits(&self) -> engine::Limits {
        let limits = self.loaded.scenario.limits;
        engine::Limits {
            events: limits.events.unwrap_or(u64::MAX),
            time: limits.time.map_or(Time::MAX, |span| Time::ZERO + span),
            interrupt: self.options.interrupt.clone(),
            play_all: self.options.play_all,
            one_program: false,
            open: false,
        }
    }

    /// Type and operator of a collective's elements, if those of the scenario are not all alike.
    fn kind(&self, collective: &Collective) -> Option<String> {
        let of = |c: &Collective| match c.op.reduces() {
            true => format!("{} {}", c.type_name, c.reduction_name),
            false => c.type_name.clone(),
        };
        let own = of(collective);
        let collectives = self.loaded.scenario.workloads.iter().filter_map(|w| match w {
            Workload::Collective(c) => Some(c),
            _ => None,
        });
        // Those of other operations have another operator, or none, by themselves.
        let mut alike = collectives.filter(|c| c.op == collective.op);
        alike.any(|c| of(c) != own).then_some(own)
    }

    fn interrupted(&self) -> bool {
        let flag = self.options.interrupt.as_ref();
        flag.is_some_and(|flag| flag.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn one_done(&self) {
        let done = self.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        if let Some(progress) = self.options.progress {
            progress(done, self.all.load(std::sync::atomic::Ordering::Relaxed));
        }
    }

    /// So many simulations more than were known of.
    fn more(&self, simulations: usize) {
        self.all.fetch_add(simulations, std::sync::atomic::Ordering::Relaxed);
    }
}
