//! Steps over a fabric: with reuse and without, two jobs on one fabric, and a job beside other traffic.

use sim_collectives::step_graph::{Message, transfers};
use sim_collectives::{Machine, Software};
use sim_core::engine::Limits;
use sim_core::units::{Bytes, Rate, Span, Time};
use sim_topology::{Catalogue, Fabric, FabricKind, FabricSpec, RouteRequest};
use sim_workload::compute::{Figures, Machine as Gpu, Number, Slowdown};
use sim_workload::job::Job;
use sim_workload::model::{Model, ModelSpec};
use sim_workload::parallel::{Order, Ranks, Sizes, SizesSpec, Zero};
use sim_workload::step::calls::Calls;
use sim_workload::step::carrier::Carrier;
use sim_workload::step::islands::Islands;
use sim_workload::step::make;
use sim_workload::step::outcome::Outcome;
use sim_workload::step::overlap::Overlap;
use sim_workload::step::plan::Plan;
use sim_workload::step::play::{Beside, Options, Player, play_together};
use sim_workload::step::whole::Whole;

/// Four nodes under two leaves with a quarter of the bandwidth between them.
fn fabric() -> Fabric {
    let node = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
    let spec = FabricSpec {
        fabric: FabricKind::LeafSpine,
        oversubscription: Some(4.0),
        leaves: Some(2),
        ..FabricSpec::new(node, 4)
    };
    Fabric::build(&spec, Catalogue::builtin()).unwrap()
}

struct Planned {
    plan: Plan,
    ranks: Ranks,
    /// The GPU of each rank.
    gpus: Vec<u32>,
}

fn dims() -> ModelSpec {
    ModelSpec { layers: 4, hidden: 1024, heads: 16, kv_heads: Some(8), ffn: 4096, vocab: 8192, ..ModelSpec::default() }
}

fn small() -> Model {
    dims().check().unwrap()
}

fn with_experts() -> Model {
    let dims = dims();
    let spec =
        ModelSpec { ffn: 0, experts: Some(32), expert_ffn: Some(512), top_k: Some(4), shared_experts: 1, ..dims };
    spec.check().unwrap()
}

fn planned(model: &Model, spec: &SizesSpec, gpus: Vec<u32>) -> Planned {
    let sizes: Sizes = spec.check(model).unwrap();
    let figures = Figures::builtin();
    let gpu = Gpu::of(figures.device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures);
    let plan = make::plan(&Job::training(model, &sizes), &gpu, &Overlap::default());
    Planned { plan, ranks: Ranks::new(&Order::default(), &sizes).unwrap(), gpus }
}

/// Plays jobs together; with reuse and without it is the same.
fn run(fabric: &Fabric, jobs: &[&Planned], beside: &[(Vec<Message>, Option<Span>)]) -> (Vec<Outcome>, Vec<u64>) {
    let options = Options { slowdown: Some(Slowdown { scale_up: 50_000, scale_out: 20_000 }), ..Options::default() };
    let once = |reuse: bool| {
        let leaves = |c: &sim_workload::step::play::Communicator| c.ranks.len() > 8;
        let players: Vec<Player<'_>> = jobs.iter().map(|j| Player::new(&j.plan, &j.ranks, &options, leaves)).collect();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut all = Vec::new();
        let mut calls = Vec::new();
        for (job, player) in jobs.iter().zip(&players) {
            let (before, numbers) = (groups.len() as u32, calls.len() as u32);
            all.extend(player.calls().into_iter().map(|(group, call)| (group + before, call + numbers)));
            groups.extend(
                player
                    .communicators()
                    .iter()
                    .map(|c| c.ranks.iter().map(|r| job.gpus[*r as usize]).collect::<Vec<_>>()),
            );
            calls.extend(job.plan.calls.iter().copied());
        }
        let software = Software::default();
        let make =
            |ranks: &[u32]| Machine::new(fabric, Catalogue::builtin(), &software, ranks).map_err(|e| e.to_string());
        let made = Calls::new(fabric, fabric.network(), Box::new(make), groups, calls);
        let programs = beside.iter().map(|(messages, _)| transfers(messages, fabric.mtu())).collect();
        let (made, numbers) = made.beside(programs);
        all.extend(numbers.clone().map(|communicator| (communicator, 0)));
        // What is known of all calls beforehand changes no time.
        let made = if reuse { made.announced(all).unwrap() } else { made };
        let traffic: Vec<Beside> = numbers
            .zip(beside)
            .map(|(communicator, (messages, again))| Beside {
                communicator,
                call: 0,
                members: messages.len() as u32,
                first: Time::ZERO,
                again: *again,
            })
            .collect();
        let mut islands;
        let mut whole;
        let carrier: &mut dyn Carrier = if reuse {
            islands = Islands::new(made, Limits::default());
            &mut islands
        } else {
            whole = Whole::new(made, Limits::default()).unwrap();
            &mut whole
        };
        let (outcomes, arrived) = play_together(players, &traffic, carrier, &|| false).unwrap();
        // Each time takes a while, and they come one after the other.
        for one in &arrived {
            assert_eq!(one.first.is_some(), one.times > 0);
            assert!(one.total >= one.first.unwrap_or_default());
        }
        (outcomes, arrived.iter().map(|one| one.times).collect())
    };
    let (with, without) = (once(true), once(false));
    let ends = |of: &(Vec<Outcome>, Vec<u64>)| of.0.iter().map(|o| o.ends.clone()).collect::<Vec<_>>();
    assert_eq!(ends(&with), ends(&without), "reuse changed a time");
    assert_eq!(
        with.0.iter().map(|o| &o.ranks).collect::<Vec<_>>(),
        without.0.iter().map(|o| &o.ranks).collect::<Vec<_>>()
    );
    assert_eq!(with.1, without.1);
    with
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.end.since(Time::ZERO).as_secs()
}

fn sharded(gpus: u64) -> SizesSpec {
    SizesSpec { gpus, global_batch: gpus, sequence: 512, zero: Zero::Parameters, ..SizesSpec::default() }
}

#[test]
fn reuse_changes_no_time_of_a_step() {
    let fabric = fabric();
    let model = small();
    let all: Vec<u32> = (0..32).collect();
    for spec in [
        SizesSpec { tensor: 8, zero: Zero::Optimizer, global_batch: 8, ..sharded(32) },
        SizesSpec { tensor: 4, pipeline: 2, zero: Zero::Optimizer, global_batch: 16, ..sharded(32) },
        SizesSpec { tensor: 2, pipeline: 2, virtual_stages: 2, zero: Zero::Replicated, ..sharded(32) },
        SizesSpec { tensor: 2, context: 2, zero: Zero::Optimizer, global_batch: 16, ..sharded(32) },
    ] {
        let job = planned(&model, &spec, all.clone());
        let (outcome, _) = run(&fabric, &[&job], &[]);
        assert!(outcome[0].end > Time::ZERO);
    }
    let spec = SizesSpec { expert: 16, zero: Zero::Optimizer, ..sharded(16) };
    run(&fabric, &[&planned(&with_experts(), &spec, (0..16).collect())], &[]);
}

#[test]
fn two_jobs_over_the_same_spines_slow_each_other_down() {
    let fabric = fabric();
    let model = small();
    // Each has four GPUs of every node: their rings cross the same uplinks.
    let half = |from: u32| (0..32).filter(|g| g % 8 / 4 == from).collect::<Vec<u32>>();
    let (a, b) = (planned(&model, &sharded(16), half(0)), planned(&model, &sharded(16), half(1)));
    let (alone, _) = run(&fabric, &[&a], &[]);
    let (both, _) = run(&fabric, &[&a, &b], &[]);
    assert!(seconds(&both[0]) > 1.02 * seconds(&alone[0]), "{} {}", seconds(&both[0]), seconds(&alone[0]));
    // Jobs on nodes of their own don't feel each other.
    let (left, right) =
        (planned(&model, &sharded(16), (0..16).collect()), planned(&model, &sharded(16), (16..32).collect()));
    let (apart, _) = run(&fabric, &[&left], &[]);
    let (side, _) = run(&fabric, &[&left, &right], &[]);
    assert_eq!(side[0].ends, apart[0].ends);
}

#[test]
fn traffic_beside_a_step_costs_it_time_and_comes_again() {
    let fabric = fabric();
    let job = planned(&small(), &sharded(32), (0..32).collect());
    let (alone, _) = run(&fabric, &[&job], &[]);
    // What storage gets from the GPUs of the first node, over their NICs, again and again.
    let gpus = fabric.gpus();
    let message = |g: usize| {
        let route = fabric.route(&RouteRequest::auto(gpus[g], gpus[g + 16])).unwrap();
        Message::new(route.links, Bytes::mib(64), Span::ZERO)
    };
    let traffic = ((0..8).map(message).collect::<Vec<_>>(), Some(Span::from_us(10)));
    let (beside, times) = run(&fabric, &[&job], &[traffic]);
    assert!(times[0] > 3, "{times:?}");
    assert!(seconds(&beside[0]) > 1.01 * seconds(&alone[0]), "{} {}", seconds(&beside[0]), seconds(&alone[0]));
}
