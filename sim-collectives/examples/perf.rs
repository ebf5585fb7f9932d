//! scratch perf: perf SYSTEM NODES OP BYTES [ALGO] [CHANNELS]
use sim_collectives::{Machine, Request, Software, bench};
use sim_core::engine::Limits;
use sim_core::units::{Bytes, parse::nccl_size};
use sim_topology::{Catalogue, Fabric, FabricSpec};
fn rss() -> String { std::fs::read_to_string("/proc/self/status").unwrap().lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS")).map(|l| l.replace('\t', " ")).collect::<Vec<_>>().join(" ") }
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let catalogue = Catalogue::builtin();
    let t = std::time::Instant::now();
    let fabric = Fabric::build(&FabricSpec::new(catalogue.system(&args[1]).unwrap().node.clone(), args[2].parse().unwrap()), catalogue).unwrap();
    let machine = Machine::new(&fabric, catalogue, &Software::default(), &[]).unwrap();
    let mut r = Request::new(args[3].parse().unwrap(), nccl_size(&args[4]).unwrap());
    if let Some(a) = args.get(5) { if a != "-" { r.algorithm = Some(a.parse().unwrap()); } }
    if let Some(a) = args.get(6) { r.channels = Some(a.parse().unwrap()); }
    if let Some(a) = args.get(7) { r.protocol = Some(a.parse().unwrap()); }
    println!("built {:.2}s {}", t.elapsed().as_secs_f64(), rss());
    let t = std::time::Instant::now();
    let plan = machine.plan(&r).unwrap();
    let program = plan.program(&machine, 1).unwrap();
    println!("{} {} ch {} lowered {:.2}s flows {} lanes {} ops {} {}", plan.algorithm, plan.protocol, plan.channels, t.elapsed().as_secs_f64(), program.flows.len(), program.lanes.len(), program.ops.len(), rss());
    let t = std::time::Instant::now();
    let mut e = sim_core::engine::Engine::<sim_core::queue::radix::RadixStore>::new(&fabric.network(), fabric.mtu(), Limits::default());
    e.load(&program, sim_core::units::Time::ZERO).unwrap();
    drop(program);
    println!("loaded {:.2}s {}", t.elapsed().as_secs_f64(), rss());
    let t = std::time::Instant::now();
    let reason = e.run(|_, _| {});
    let dt = t.elapsed().as_secs_f64();
    let o = e.finish(reason);
    println!("{:?} {} time {} hops {} events {} peak {} : {:.2}s {:.1} ns/hop {:.1} ns/event {}", o.reason, Bytes::ZERO, o.ended, o.engine.segment_hops, o.engine.events, o.peak_pending, dt, dt*1e9/o.engine.segment_hops as f64, dt*1e9/o.engine.events as f64, rss());
    let _ = bench::time;
}
