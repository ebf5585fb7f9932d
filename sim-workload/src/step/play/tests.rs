//! Steps over a network without contention, held to closed forms.

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Rate, Span, Time};

use super::super::carrier::{Carrier, CarryError, End, Start};
use super::super::make;
use super::super::outcome::{Outcome, PieceKind};
use super::super::overlap::Overlap;
use super::super::plan::Plan;
use super::{Options, Player, play};
use crate::compute::{Figures, Machine, Number, Slowdown};
use crate::job::Job;
use crate::messages::Buckets;
use crate::model::{Model, ModelSpec, Models};
use crate::parallel::{Group, Order, Ranks, Sizes, SizesSpec, Zero};
use crate::pipeline::{self, ChunkTimes};

/// Every call takes a latency and the time of its size, whatever else is under way.
struct Fixed {
    latency: Span,
    rate: Option<Rate>,
    sizes: Vec<u32>,
    calls: Vec<Bytes>,
    ends: BTreeMap<Time, Vec<End>>,
}

impl Carrier for Fixed {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            let moving = self.rate.map_or(Span::ZERO, |rate| rate.time_for(self.calls[start.call as usize]));
            let end = at + self.latency + moving;
            for member in 0..self.sizes[start.communicator as usize] {
                self.ends.entry(end).or_default().push(End { at: end, token: start.token, member });
            }
        }
        Ok(())
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        Ok(self.ends.keys().next().copied().filter(|at| *at <= until))
    }

    fn take(&mut self, out: &mut Vec<End>) {
        if let Some((_, ends)) = self.ends.pop_first() {
            out.extend(ends);
        }
    }
}

fn machine() -> Machine {
    let figures = Figures::builtin();
    Machine::of(figures.device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures)
}

struct Case {
    model: Model,
    sizes: Sizes,
    plan: Plan,
    ranks: Ranks,
}

fn case(name: &str, spec: &SizesSpec, overlap: &Overlap) -> Case {
    let model = Models::builtin().get(name).unwrap().model.clone();
    let sizes = spec.check(&model).unwrap();
    let plan = make::plan(&Job::training(&model, &sizes), &machine(), overlap);
    let ranks = Ranks::new(&Order::default(), &sizes).unwrap();
    Case { model, sizes, plan, ranks }
}

fn run(case: &Case, options: &Options, latency: Span, rate: Option<Rate>) -> Outcome {
    let player = Player::new(&case.plan, &case.ranks, options, |c| c.ranks.len() > 8);
    let sizes = player.communicators().iter().map(|c| c.ranks.len() as u32).collect();
    let calls = case.plan.calls.iter().map(|c| c.bytes).collect();
    let mut carrier = Fixed { latency, rate, sizes, calls, ends: BTreeMap::new() };
    let outcome = play(player, &mut carrier, &|| false).unwrap();
    sound(&outcome);
    outcome
}

/// The parts of each rank add up to the step, and the critical path has no gap.
fn sound(outcome: &Outcome) {
    for (rank, parts) in outcome.ranks.iter().enumerate() {
        assert_eq!(parts.total(), outcome.end.since(Time::ZERO), "rank {rank}: {parts:?}");
    }
    let mut at = Time::ZERO;
    for piece in &outcome.path {
        assert_eq!(piece.from, at, "{piece:?}");
        at = piece.to;
    }
    assert_eq!(at, outcome.end);
}

fn spec(gpus: u64, batch: u64) -> SizesSpec {
    SizesSpec { gpus, global_batch: batch, sequence: 2048, zero: Zero::Optimizer, ..SizesSpec::default() }
}

#[test]
fn bubbles_are_those_of_the_schedules() {
    for (schedule, chunks) in
        [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb-h1", 1), ("zb-h2", 1), ("dualpipe", 1)]
    {
        let spec =
            SizesSpec { pipeline: 4, virtual_stages: chunks, schedule: Some(schedule.to_owned()), ..spec(4, 16) };
        let case = case("llama3.1-8b", &spec, &Overlap::default());
        let job = Job::training(&case.model, &case.sizes);
        let machine = machine();
        let held = if schedule == "dualpipe" { 2 } else { chunks };
        let mut of = Vec::new();
        for stage in 0..4 {
            for chunk in 0..held {
                // The other pipe of DualPipe has at this stage the layers of the stage across.
                let (stage, chunk) = if schedule == "dualpipe" && chunk == 1 { (3 - stage, 0) } else { (stage, chunk) };
                let t = machine.chunk(&job, stage, chunk);
                of.push([t.forward, t.data, t.weight, t.total()]);
            }
        }
        let times = ChunkTimes { of, chunks: held, transfer: Span::ZERO };
        let told = pipeline::play(case.sizes.schedule, case.sizes.shape(), &times).unwrap();
        let outcome = run(&case, &Options::default(), Span::ZERO, None);
        let update = outcome.ranks.iter().map(|r| r.optimizer).max().unwrap();
        let ours = outcome.end.since(Time::ZERO) - update;
        let shifted = schedule == "zb-h2";
        let theirs = told.step(case.sizes.schedule);
        // Slots of DualPipe that are done at once are worked out together, chunks of unequal stages in another order; the stage with most
        // work need not be that with most parameters.
        let slack = if schedule == "dualpipe" || shifted { 0.05 } else { 1e-9 };
        assert!((ours.as_secs() / theirs.as_secs() - 1.0).abs() < slack, "{schedule}: {ours} {theirs}");
        assert!(outcome.ranks.iter().all(|r| r.bubble > Span::ZERO || shifted), "{schedule}");
    }
}

#[test]
fn stages_that_wait_for_nobody_at_the_end_save_the_bubble() {
    let model = Models::builtin().get("llama3.1-8b").unwrap().model.clone();
    let play = |schedule: &str, parameters| {
        let schedule = Some(schedule.to_owned());
        let spec = SizesSpec { pipeline: 8, tensor: 2, schedule, ..spec(32, 64) };
        let case = case("llama3.1-8b", &spec, &Overlap { parameters, ..Overlap::default() });
        let outcome = run(&case, &Options::default(), Span::from_us(5), Some(Rate::gbyte(400)));
        (outcome, case)
    };
    for parameters in [true, false] {
        let ((first, _), (second, case)) = (play("zb-h1", parameters), play("zb-h2", parameters));
        // Seven stages begin by as many forward passes later.
        let job = Job::training(&model, &case.sizes);
        let forward = machine().chunk(&job, 3, 0).forward * 7;
        let saved = (first.end.since(second.end)).as_secs() / forward.as_secs();
        assert!(saved > 0.5 && saved < 2.0, "{saved}");
        // Later than the step's end: by as much as the last stage began later.
        let last = second.ends.iter().copied().max().unwrap();
        assert!(last.since(second.end) > forward, "{last} {}", second.end);
    }
}

#[test]
fn messages_of_tensor_parallelism_stand_between_kernels() {
    let spec = SizesSpec { tensor: 8, sequence_parallel: Some(false), ..spec(8, 4) };
    let case = case("llama3.1-8b", &spec, &Overlap::default());
    let latency = Span::from_us(10);
    let quick = run(&case, &Options::default(), Span::ZERO, None);
    let slow = run(&case, &Options::default(), latency, None);
    // 32 layers, 4 micro batches, forward 2 all-reduces that nothing hides, and one of the embedding, three of the loss.
    let exposed = slow.ranks[0].exposed[&Group::Tensor];
    let forward = latency * (4 * (32 * 2 + 4));
    assert!(exposed >= forward, "{exposed} {forward}");
    // Backward they run beside the gradient by the weights, which takes longer.
    assert!(exposed < forward + latency * 20, "{exposed} {forward}");
    assert_eq!(quick.ranks[0].compute, slow.ranks[0].compute);
    assert!(slow.path.iter().any(|p| p.kind == super::super::outcome::PieceKind::Message(Group::Tensor)));
}

#[test]
fn a_late_rank_holds_up_everyone_by_as_much() {
    // Also where its first work is to gather what messages of others don't wait for.
    let units = SizesSpec { zero: Zero::Parameters, ..spec(8, 8) };
    let case_of_units = case("llama3.1-8b", &units, &Overlap::default());
    let slowdown = Some(Slowdown { scale_up: 100_000, scale_out: 20_000 });
    let of_units = |late: Vec<(u32, Span)>| {
        let options = Options { late, slowdown, ..Options::default() };
        run(&case_of_units, &options, Span::from_us(5), Some(Rate::gbyte(400)))
    };
    let (well, held) = (of_units(Vec::new()), of_units(vec![(5, Span::from_us(3000))]));
    assert_eq!(held.end.since(well.end), Span::from_us(3000));
    assert_eq!(held.ranks[5].compute, well.ranks[5].compute);
    let overlap = Overlap { parameters: false, ..Overlap::default() };
    let case = case("llama3.1-8b", &SizesSpec { tensor: 4, ..spec(8, 8) }, &overlap);
    let well = run(&case, &Options::default(), Span::from_us(5), Some(Rate::gbyte(400)));
    let late = Span::from_us(3000);
    let options = Options { late: vec![(5, late)], ..Options::default() };
    let held = run(&case, &options, Span::from_us(5), Some(Rate::gbyte(400)));
    assert_eq!(held.end.since(well.end), late);
    // Its peers wait for it, it for itself; nobody computes longer.
    assert!((4..8).all(|rank| held.ranks[rank].straggler >= late), "{:?}", held.ranks);
    assert!(held.ranks.iter().zip(&well.ranks).all(|(held, well)| held.compute == well.compute));
    let first = held.path[0];
    assert_eq!((first.rank, first.kind, first.to), (5, PieceKind::Late, Time::ZERO + late));
    let slow = run(&case, &Options { slow: vec![(3, 1.1)], ..Options::default() }, Span::ZERO, None);
    let quick = run(&case, &Options::default(), Span::ZERO, None);
    let ratio = (slow.end.since(Time::ZERO) - slow.ranks[3].optimizer).as_secs()
        / (quick.end.since(Time::ZERO) - quick.ranks[0].optimizer).as_secs();
    assert!((ratio - 1.1).abs() < 0.002, "{ratio}");
}

#[test]
fn gradients_run_beside_the_last_backward_pass_or_after_it() {
    let spec = spec(16, 32);
    let rate = Some(Rate::gbyte(50));
    let hidden = run(&case("llama3.1-8b", &spec, &Overlap::default()), &Options::default(), Span::ZERO, rate);
    let open = Overlap { gradients: false, parameters: false, ..Overlap::default() };
    let after = run(&case("llama3.1-8b", &spec, &open), &Options::default(), Span::ZERO, rate);
    // 8.03e9 gradients of 4 bytes and parameters of 2, at 50 GB/s each way.
    let all = 8.03e9 * 6.0 / 50e9;
    let exposed = after.ranks[0].communication().as_secs();
    assert!((exposed / all - 1.0).abs() < 0.01, "{exposed} {all}");
    assert!(hidden.end < after.end);
    let slowdown = Some(Slowdown { scale_up: 50_000, scale_out: 100_000 });
    let slowed = run(
        &case("llama3.1-8b", &spec, &Overlap::default()),
        &Options { slowdown, ..Options::default() },
        Span::ZERO,
        rate,
    );
    assert!(slowed.ranks[0].compute > hidden.ranks[0].compute);
    // No more than a ninth on what ran beside them.
    assert!((slowed.ranks[0].compute - hidden.ranks[0].compute).as_secs() < all / 9.0 + 0.001);
}

#[test]
fn an_operation_may_wait_for_more_buckets_than_two_bytes_count() {
    let spec = ModelSpec { layers: 1, hidden: 512, heads: 4, ffn: 512, vocab: 1 << 20, ..ModelSpec::default() };
    let model = spec.check().unwrap();
    let sizes = SizesSpec { global_batch: 2, ..self::spec(2, 2) }.check(&model).unwrap();
    let mut job = Job::training(&model, &sizes);
    job.choices.buckets = Buckets::Bytes(8 << 10);
    let plan = make::plan(&job, &machine(), &Overlap::default());
    let ranks = Ranks::new(&Order::default(), &sizes).unwrap();
    let most = plan.stages[0].ops.iter().map(|op| op.after.len()).max().unwrap();
    assert!(most > usize::from(u16::MAX), "{most}");
    let case = Case { model: model.clone(), sizes: sizes.clone(), plan, ranks };
    run(&case, &Options::default(), Span::from_ns(1), None);
}

#[test]
fn copies_of_shards_are_reduced_beside_the_last_backward_pass() {
    let rate = Some(Rate::gbyte(100));
    let spec = |shard| SizesSpec { zero: Zero::Parameters, shard: Some(shard), ..spec(16, 32) };
    let play = |shard, overlap: &Overlap| {
        run(&case("llama3.1-8b", &spec(shard), overlap), &Options::default(), Span::ZERO, rate)
    };
    let all = play(8, &Overlap::default());
    // All but the last unit's copies, the embedding's, are hidden: 32 times smaller than all.
    assert!(all.ranks[0].exposed.get(&Group::Replicas).is_none_or(|span| span.as_secs() < 0.004), "{:?}", all.ranks[0]);
    // Reductions that nothing may run beside hold up the unit after.
    let open = play(8, &Overlap { gradients: false, ..Overlap::default() });
    let copies = open.ranks[0].exposed[&Group::Replicas].as_secs();
    let bytes = 8.03e9 * 4.0 / 8.0;
    assert!((copies / (bytes / 100e9) - 1.0).abs() < 0.01, "{copies}");
    assert!(open.ranks[0].exposed[&Group::Shard] > all.ranks[0].exposed[&Group::Shard]);
}

#[test]
fn whatever_the_parallelism_the_books_balance() {
    let overlap = Overlap { tensor: 4, ..Overlap::default() };
    let none =
        Overlap { tensor: 1, gradients: false, parameters: false, pipeline: false, context: false, experts: false };
    let cases = [
        ("llama3.1-8b", SizesSpec { tensor: 2, context: 2, pipeline: 2, ..spec(16, 16) }),
        ("llama3.1-8b", SizesSpec { zero: Zero::Parameters, ..spec(16, 32) }),
        ("llama3.1-8b", SizesSpec { zero: Zero::Parameters, shard: Some(8), ..spec(16, 32) }),
        ("llama3.1-8b", SizesSpec { zero: Zero::Parameters, shard: Some(1), ..spec(16, 32) }),
        ("llama3.1-8b", SizesSpec { zero: Zero::Gradients, shard: Some(8), ..spec(16, 32) }),
        ("qwen3-30b-a3b", SizesSpec { tensor: 2, expert: 8, pipeline: 2, ..spec(16, 16) }),
        ("llama3-70b", SizesSpec { tensor: 2, pipeline: 4, virtual_stages: 5, ..spec(8, 8) }),
        ("llama3.1-8b", SizesSpec { pipeline: 4, schedule: Some("dualpipe".into()), ..spec(8, 16) }),
    ];
    for (name, spec) in cases {
        for overlap in [&overlap, &none] {
            let case = case(name, &spec, overlap);
            let options = Options {
                jitter: crate::compute::Jitter { seed: 3, kernel_sigma: 0.02, gpu_sigma: 0.02, ..Default::default() },
                slowdown: Some(Slowdown { scale_up: 100_000, scale_out: 20_000 }),
                watch: vec![0, 3],
                ..Options::default()
            };
            let outcome = run(&case, &options, Span::from_us(8), Some(Rate::gbyte(100)));
            assert!(outcome.ran.iter().all(|r| (r.rank == 0 || r.rank == 3) && r.from <= r.to));
            let again = run(&case, &options, Span::from_us(8), Some(Rate::gbyte(100)));
            assert_eq!(outcome.end, again.end);
        }
    }
}

/// A step of a large model: `cargo test -p sim-workload --release -- --ignored large_steps --nocapture`.
#[test]
#[ignore = "takes seconds; says how fast plans are played"]
fn large_steps_are_played_fast() {
    let spec = SizesSpec {
        tensor: 8,
        context: 2,
        pipeline: 8,
        virtual_stages: 8,
        split: crate::parallel::split::Split::default(),
        ..spec(1024, 64 * 8)
    };
    let spec =
        SizesSpec { virtual_stages: 2, pipeline: 7, gpus: 8 * 2 * 7 * 9, global_batch: 9 * 63, sequence: 8192, ..spec };
    let clock = std::time::Instant::now();
    let case = case("llama3.1-405b", &spec, &Overlap::default());
    let ops: usize = case.plan.stages.iter().map(|s| s.ops.len()).sum();
    println!("plan: {:?}, {ops} operations of {} stages", clock.elapsed(), case.plan.stages.len());
    let clock = std::time::Instant::now();
    let outcome = run(&case, &Options::default(), Span::from_us(5), Some(Rate::gbyte(300)));
    println!("play: {:?}, {} operations, step {}", clock.elapsed(), outcome.operations, outcome.end.since(Time::ZERO));
    println!("{:?}", outcome.ranks[0]);
}
