//! Prints predicted times for a system over sizes: `probe SYSTEM NODES OP`.
use sim_collectives::nccl::Operation;
use sim_collectives::{Machine, Request, Software, bench};
use sim_core::engine::Limits;
use sim_core::units::Bytes;
use sim_topology::{Catalogue, Fabric, FabricSpec};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let catalogue = Catalogue::builtin();
    let node = catalogue.system(&args[1]).unwrap().node.clone();
    let mut spec = FabricSpec::new(node, args[2].parse().unwrap());
    if let Some(t) = args.get(4) {
        spec.transport = t.parse().unwrap();
    }
    let fabric = Fabric::build(&spec, catalogue).unwrap();
    let mut machine = Machine::new(&fabric, catalogue, &Software::default(), &[]).unwrap();
    for set in args.iter().skip(5) {
        let (name, value) = set.split_once('=').unwrap();
        machine.timing.set(name, value.parse().unwrap(), sim_collectives::timing::Origin::Fitted, "probe").unwrap();
    }
    let first: u64 = std::env::var("FIRST").map_or(8, |v| v.parse().unwrap());
    let last: u64 = std::env::var("LAST").map_or(8 << 30, |v| v.parse().unwrap());
    let network = fabric.network();
    let op: Operation = args[3].parse().unwrap();
    let mut bytes = first;
    while bytes <= last {
        let t0 = std::time::Instant::now();
        let r = bench::time(&machine, &network, &Request::new(op, Bytes::new(bytes)), 1, 2, Limits::default()).unwrap();
        println!(
            "{bytes:>12} {:>10} {:>7} ch {:>2} {:>12.2} us  algbw {:>8.2}  ({:?}, {} events, {:.0} ms) {:?}",
            r.plan.algorithm,
            r.plan.protocol.to_string(),
            r.plan.channels,
            r.time.as_us(),
            bytes as f64 / r.time.as_us() / 1e3,
            r.outcome.reason,
            r.outcome.engine.events,
            t0.elapsed().as_secs_f64() * 1e3,
            r.outcome.faults
        );
        bytes *= 2;
    }
}
