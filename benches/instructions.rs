//! Instructions per segment-hop, and per packet-hop where packets are played, counted by valgrind: the same for the same
//! binary, whatever else the machine does.
//! `cargo bench --bench instructions` (needs `valgrind`; says so and does nothing without it).
//!
//! Each case runs in a child under callgrind that collects inside the event loop alone, so building, lowering and
//! loading are not counted.

mod packets;

use std::process::Command;

use sim_collectives::nccl::{Algorithm, Operation, Protocol};
use sim_collectives::{Machine, Request, Software};
use sim_core::engine::{Engine, Limits};
use sim_core::queue::radix::RadixStore;
use sim_core::units::{Bytes, Time};
use sim_topology::{Catalogue, Fabric, FabricSpec};

/// Name, nodes, operation, bytes, whether a ring on 16 channels is forced.
const CASES: &[(&str, u32, Operation, u64, bool)] = &[
    ("all_to_all, 128 GPUs, 16 KiB a pair", 16, Operation::AllToAll, (16 * 128) << 10, false),
    ("all_to_all, 128 GPUs, 1 MiB a pair", 16, Operation::AllToAll, 128 << 20, false),
    ("ring all_reduce, 16 GPUs, 64 MiB", 2, Operation::AllReduce, 64 << 20, true),
    ("nvls all_reduce, 8 GPUs, 64 MiB", 1, Operation::AllReduce, 64 << 20, false),
];

/// How many cases of packets are counted; the others take too long under callgrind.
const COUNTED: usize = 3;

/// Prints hops of packets, control packets among them, and events.
fn play_packets(case: usize) {
    let results = packets::load(case).run().expect("it runs").results;
    println!("{} {}", packets::hops(&results), results.engine.events);
}

fn play(case: usize) {
    let Some((_, nodes, operation, bytes, ring)) = CASES.get(case).copied() else {
        return play_packets(case - CASES.len());
    };
    let catalogue = Catalogue::builtin();
    let node = catalogue.system("hgx-h100").expect("a built-in system").node.clone();
    let fabric = Fabric::build(&FabricSpec::new(node, nodes), catalogue).expect("a sound fabric");
    let machine = Machine::new(&fabric, catalogue, &Software::default(), &[]).expect("a sound machine");
    let mut request = Request::new(operation, Bytes::new(bytes));
    if ring {
        request.algorithm = Some(Algorithm::Ring.into());
        request.protocol = Some(Protocol::Simple);
        request.channels = Some(16);
    }
    let program = machine.plan(&request).and_then(|p| p.program(&machine, 1)).expect("a sound call");
    let mut engine = Engine::<RadixStore>::new(&fabric.network(), fabric.mtu(), Limits::default());
    engine.load(program, Time::ZERO).expect("it fits");
    let reason = engine.run(|_, _| {});
    let counters = engine.finish(reason).engine;
    println!("{} {}", counters.segment_hops, counters.events);
}

/// Instructions of the loop, segment-hops and events of a case.
fn count(case: usize) -> Option<(u64, u64, u64)> {
    let out = std::env::temp_dir().join(format!("fabricsim-callgrind-{}-{case}", std::process::id()));
    let child = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*Engine*run*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().ok()?)
        .args(["--case", &case.to_string()])
        .output()
        .ok()?;
    let text = std::fs::read_to_string(&out).ok()?;
    let _ = std::fs::remove_file(&out);
    let line = text.lines().find(|l| l.starts_with("summary:") || l.starts_with("totals:"))?;
    let instructions = line.split_whitespace().nth(1)?.parse().ok()?;
    let printed = String::from_utf8(child.stdout).ok()?;
    let mut numbers = printed.split_whitespace().filter_map(|w| w.parse().ok());
    Some((instructions, numbers.next()?, numbers.next()?))
}

fn main() {
    let mut arguments = std::env::args().skip_while(|a| a != "--case");
    if arguments.next().is_some() {
        if let Some(case) = arguments.next().and_then(|a| a.parse().ok()).filter(|c| *c < CASES.len() + COUNTED) {
            play(case);
        }
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: valgrind is not installed; nothing is counted");
        return;
    }
    println!("{:<38} {:>14} {:>12} {:>10} {:>12}", "case", "instructions", "hops", "per hop", "per event");
    let names = CASES.iter().map(|(name, ..)| name).chain(packets::CASES[..COUNTED].iter().map(|(name, ..)| name));
    for (i, name) in names.enumerate() {
        match count(i) {
            Some((n, hops, events)) => {
                println!("{name:<38} {n:>14} {hops:>12} {:>10} {:>12}", n / hops.max(1), n / events.max(1));
            }
            None => println!("{name:<38} could not be counted"),
        }
    }
}
