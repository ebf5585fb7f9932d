//! Steps over fabrics that are thin or ill: what a slow link costs a step is known in seconds.
//!
//! `cargo test -p sim-workload --test slow_links -- --ignored --nocapture` plays a list of steps and says what each takes;
//! `FABRICSIM_STEPS=fsdp` only those that have it in their name, `FABRICSIM_WHOLE=1` also without reuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sim_collectives::{Machine, Software};
use sim_core::engine::Limits;
use sim_core::units::{Rate, Span, Time};
use sim_topology::faults::{Dead, Degraded, Fault, FaultKind};
use sim_topology::{Catalogue, Fabric, FabricKind, FabricSpec};
use sim_workload::compute::{Figures, Jitter, Machine as Gpu, Number, Slowdown};
use sim_workload::job::Job;
use sim_workload::model::Models;
use sim_workload::parallel::{Order, Ranks, SizesSpec, Zero};
use sim_workload::step::calls::Calls;
use sim_workload::step::islands::{Counts, Islands};
use sim_workload::step::make;
use sim_workload::step::outcome::Outcome;
use sim_workload::step::overlap::Overlap;
use sim_workload::step::play::{Communicator, Options, Player, play};
use sim_workload::step::whole::Whole;

/// A step on a fabric.
struct Case {
    name: &'static str,
    model: &'static str,
    fabric: Fabric,
    sizes: SizesSpec,
    /// The nodes of its ranks, in order.
    nodes: Vec<u32>,
    jitter: Jitter,
}

/// Nodes under leaves that have so many times less to their spines than to their nodes.
fn two_tier(nodes: u32, leaves: u32, taper: f64) -> FabricSpec {
    FabricSpec { fabric: FabricKind::LeafSpine, leaves: Some(leaves), oversubscription: Some(taper), ..rails(nodes) }
}

fn rails(nodes: u32) -> FabricSpec {
    FabricSpec::new(Catalogue::builtin().system("hgx-h100").unwrap().node.clone(), nodes)
}

fn well(spec: &FabricSpec) -> Fabric {
    Fabric::build(spec, Catalogue::builtin()).unwrap()
}

fn with(spec: &FabricSpec, target: &str, kind: FaultKind) -> Fabric {
    let fault = Fault { target: target.into(), pick: None, kind };
    well(spec).with_faults(&[fault], 1, true, Catalogue::builtin()).unwrap().0
}

fn slow(spec: &FabricSpec, target: &str) -> Fabric {
    let half = Degraded {
        rate: None,
        factor: Some(0.5),
        lanes: None,
        links: None,
        speed: None,
        added_latency: Span::ZERO,
        errors: None,
    };
    with(spec, target, FaultKind::Degraded(half))
}

fn dead(spec: &FabricSpec, target: &str) -> Fabric {
    with(spec, target, FaultKind::Dead(Dead))
}

fn sharded(gpus: u64, global_batch: u64, sequence: u64) -> SizesSpec {
    SizesSpec { gpus, global_batch, sequence, zero: Zero::Parameters, ..SizesSpec::default() }
}

fn staged(gpus: u64, pipeline: u64, global_batch: u64) -> SizesSpec {
    let zero = Zero::Optimizer;
    SizesSpec { gpus, tensor: 8, pipeline, global_batch, sequence: 4096, zero, ..SizesSpec::default() }
}

fn cases() -> Vec<Case> {
    let (small, large) = ("llama3.1-8b", "llama3.1-70b");
    let case = |name, model, fabric: Fabric, sizes: SizesSpec| Case {
        nodes: (0..(sizes.gpus / 8) as u32).collect(),
        name,
        model,
        fabric,
        sizes,
        jitter: Jitter::default(),
    };
    let nic = "node0.nic2<->*";
    let jitter = Jitter { kernel_sigma: 0.05, ..Jitter::default() };
    vec![
        Case { nodes: vec![0, 2], ..case("8b fsdp 16, 8:1", small, well(&two_tier(4, 4, 8.0)), sharded(16, 16, 8192)) },
        case("8b fsdp 32, rails, slow NIC", small, slow(&rails(4), nic), sharded(32, 32, 2048)),
        case("8b fsdp 32, rails", small, well(&rails(4)), sharded(32, 32, 2048)),
        case("8b fsdp 32, 2:1", small, well(&two_tier(4, 2, 2.0)), sharded(32, 32, 4096)),
        case("8b fsdp 32, 4:1, slow NIC", small, slow(&two_tier(4, 4, 4.0), nic), sharded(32, 32, 4096)),
        case(
            "8b fsdp 64, 2:1, slow uplink",
            small,
            slow(&two_tier(8, 4, 2.0), "leaf0<->spine0"),
            sharded(64, 64, 4096),
        ),
        case("8b fsdp 64, rails, dead NIC link", small, dead(&rails(8), nic), sharded(64, 64, 4096)),
        case("8b fsdp 128, rails, slow NIC", small, slow(&rails(16), nic), sharded(128, 128, 4096)),
        case("70b staged 64, rails, slow NIC", large, slow(&rails(8), nic), staged(64, 4, 32)),
        case("70b staged 128, 4:1", large, well(&two_tier(16, 4, 4.0)), staged(128, 4, 64)),
        case(
            "70b staged 128, 2:1, dead uplink",
            large,
            dead(&FabricSpec { spines: Some(4), ..two_tier(16, 4, 2.0) }, "leaf0<->spine0"),
            staged(128, 4, 64),
        ),
        case("70b fsdp 64, 2:1, slow NIC", large, slow(&two_tier(8, 4, 2.0), nic), sharded(64, 64, 4096)),
        Case { jitter, ..case("8b fsdp 16, rails, jitter", small, well(&rails(2)), sharded(16, 32, 2048)) },
        Case {
            jitter,
            ..case(
                "8b tp 2 fsdp 16, rails, jitter",
                small,
                well(&rails(2)),
                SizesSpec { tensor: 2, ..sharded(16, 64, 2048) },
            )
        },
    ]
}

/// What playing came to.
struct Came {
    outcome: Outcome,
    /// With reuse.
    counts: Option<Counts>,
    events: u64,
}

fn run(case: &Case, reuse: bool, most: Duration) -> Result<Came, String> {
    let catalogue = Catalogue::builtin();
    let model = Models::builtin().get(case.model).unwrap().model.clone();
    let sizes = case.sizes.check(&model).map_err(|e| format!("{e:?}"))?;
    let figures = Figures::builtin();
    let gpu = Gpu::of(figures.device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures);
    let plan = make::plan(&Job::training(&model, &sizes), &gpu, &Overlap::default());
    let ranks = Ranks::new(&Order::default(), &sizes).unwrap();
    let slowdown = Some(Slowdown { scale_up: 50_000, scale_out: 20_000 });
    let options = Options { slowdown, jitter: case.jitter, ..Options::default() };
    let gpu_of = |rank: &u32| case.nodes[(*rank / 8) as usize] * 8 + rank % 8;
    let node_of = |rank: &u32| rank / 8;
    let leaves = |c: &Communicator| c.ranks.iter().any(|r| node_of(r) != node_of(&c.ranks[0]));
    let player = Player::new(&plan, &ranks, &options, leaves);
    let all = player.calls();
    let groups: Vec<Vec<u32>> = player.communicators().iter().map(|c| c.ranks.iter().map(gpu_of).collect()).collect();
    let software = Software::default();
    let make = |ranks: &[u32]| Machine::new(&case.fabric, catalogue, &software, ranks).map_err(|e| e.to_string());
    let calls = Calls::new(&case.fabric, case.fabric.network(), Box::new(make), groups, plan.calls.clone());
    let calls = calls.announced(all).map_err(|e| e.to_string())?;
    let flag = Arc::new(AtomicBool::new(false));
    let limits = Limits { interrupt: Some(Arc::clone(&flag)), ..Limits::default() };
    let over = Arc::clone(&flag);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if receiver.recv_timeout(most) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            over.store(true, Ordering::Relaxed);
        }
    });
    let stop = || flag.load(Ordering::Relaxed);
    let came = if reuse {
        let mut islands = Islands::new(calls, limits);
        let outcome = play(player, &mut islands, &stop).map_err(|e| format!("{e} {:?}", islands.counts()))?;
        Came { outcome, counts: Some(islands.counts()), events: islands.counts().events_played }
    } else {
        let mut whole = Whole::new(calls, limits).map_err(|e| e.to_string())?;
        let outcome = play(player, &mut whole, &stop).map_err(|e| e.to_string())?;
        Came { outcome, counts: None, events: whole.events() }
    };
    drop(sender);
    Ok(came)
}

/// CPU seconds of this thread so far.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let behind = text.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = behind.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}

#[test]
#[ignore = "a measurement of some minutes"]
fn what_steps_over_slow_links_take() {
    let wanted = std::env::var("FABRICSIM_STEPS").unwrap_or_default();
    let most = std::env::var("FABRICSIM_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(120);
    for case in cases().iter().filter(|case| case.name.contains(&wanted)) {
        let once = |reuse: bool| {
            let (clock, before) = (Instant::now(), cpu());
            let came = run(case, reuse, Duration::from_secs(most));
            let (took, wall) = (cpu() - before, clock.elapsed());
            let how = if reuse { "islands" } else { "whole  " };
            match &came {
                Ok(came) => println!(
                    "{:34} {how} step {:9.3} ms, {took:6.2} s CPU ({:5.1} s), {:8.2} M events; {:?}",
                    case.name,
                    came.outcome.end.since(Time::ZERO).as_secs() * 1e3,
                    wall.as_secs_f64(),
                    came.events as f64 / 1e6,
                    came.counts,
                ),
                Err(why) => println!("{:34} {how} {took:6.2} s CPU ({:5.1} s): {why}", case.name, wall.as_secs_f64()),
            }
            came.ok()
        };
        let islands = once(true);
        if std::env::var("FABRICSIM_WHOLE").is_ok() {
            let whole = once(false);
            if let (Some(islands), Some(whole)) = (islands, whole) {
                assert_eq!(islands.outcome.ends, whole.outcome.ends, "{}", case.name);
                assert_eq!(islands.outcome.ranks, whole.outcome.ranks, "{}", case.name);
            }
        }
    }
}
