//! A step of Llama 3.1 405B on 1,024 GPUs, every call of it over the fabric: exact reuse keeps it short.
//!
//! `cargo test -p sim-workload --release --test large_step -- --ignored --nocapture`

use std::time::Instant;

use sim_collectives::{Machine, Software};
use sim_core::engine::Limits;
use sim_core::units::{Rate, Time};
use sim_topology::{Catalogue, Fabric, FabricSpec};
use sim_workload::compute::{Figures, Machine as Gpu, Number};
use sim_workload::job::Job;
use sim_workload::model::Models;
use sim_workload::parallel::split::Split;
use sim_workload::parallel::{Order, Ranks, SizesSpec, Zero};
use sim_workload::step::calls::Calls;
use sim_workload::step::islands::Islands;
use sim_workload::step::make;
use sim_workload::step::overlap::Overlap;
use sim_workload::step::play::{Options, Player, play};

fn step(nodes: u32, spec: &SizesSpec, overlap: &Overlap) {
    let clock = Instant::now();
    let catalogue = Catalogue::builtin();
    let node = catalogue.system("hgx-h100").unwrap().node.clone();
    let fabric = Fabric::build(&FabricSpec::new(node, nodes), catalogue).unwrap();
    let model = Models::builtin().get("llama3.1-405b").unwrap().model.clone();
    let sizes = spec.check(&model).unwrap();
    let figures = Figures::builtin();
    let gpu = Gpu::of(figures.device("h100-sxm").unwrap(), Number::Bf16, Rate::gbyte(3350), figures);
    let plan = make::plan(&Job::training(&model, &sizes), &gpu, overlap);
    let ranks = Ranks::new(&Order::default(), &sizes).unwrap();
    let options = Options::default();
    let player = Player::new(&plan, &ranks, &options, |c| c.ranks.len() > 8);
    let communicators: Vec<Vec<u32>> = player.communicators().iter().map(|c| c.ranks.clone()).collect();
    let software = Software::default();
    let make = |ranks: &[u32]| Machine::new(&fabric, catalogue, &software, ranks).map_err(|e| e.to_string());
    let all = player.calls();
    let calls = Calls::new(&fabric, fabric.network(), Box::new(make), communicators, plan.calls.clone());
    let calls = calls.announced(all).unwrap();
    let mut carrier = Islands::new(calls, Limits::default());
    println!("{sizes}; made in {:?}", clock.elapsed());
    let outcome = play(player, &mut carrier, &|| false).unwrap();
    println!("step {}, {} operations in {:?}", outcome.end.since(Time::ZERO), outcome.operations, clock.elapsed());
    println!("{:?}", carrier.counts());
    println!("{:?}", outcome.ranks[0]);
}

#[test]
#[ignore = "takes a minute"]
fn llama_405b_on_1024() {
    let spec = SizesSpec {
        gpus: 1024,
        tensor: 8,
        pipeline: 16,
        global_batch: 8 * 24,
        sequence: 8192,
        virtual_stages: 1,
        split: Split::Counting { embedding: true, head: true },
        zero: Zero::Optimizer,
        ..SizesSpec::default()
    };
    step(16, &SizesSpec { gpus: 128, global_batch: 24, ..spec.clone() }, &Overlap::default());
    step(128, &spec, &Overlap::default());
}
