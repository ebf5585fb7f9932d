//! Wall-clock benches: the event queue, and whole collectives through the engine. `cargo bench --bench engine`
//!
//! Items per second are events (queue) or segment-hops (engine). Compare ratios within one run: machines are noisy.

mod packets;

use divan::Bencher;
use divan::counter::ItemsCount;
use sim_collectives::nccl::{Algorithm, Operation, Protocol};
use sim_collectives::{Machine, Request, Software};
use sim_core::engine::{Engine, Limits};
use sim_core::event::Word;
use sim_core::program::Program;
use sim_core::queue::heap::HeapStore;
use sim_core::queue::radix::RadixStore;
use sim_core::queue::{Pending, Store};
use sim_core::random::mix;
use sim_core::units::{Bytes, Time};
use sim_topology::{Catalogue, Fabric, FabricSpec};

fn main() {
    divan::main();
}

/// Takes the earliest event and puts it back later, by one of eight steps that links and chunks have.
fn hold<S: Store>(bencher: Bencher<'_, '_>, pending: u64) {
    const STEPS: [u64; 8] = [145_636, 1_024_000, 1_310_720, 2_621_440, 150_000, 300_000, 600_000, 1_000_000];
    let operations = 100_000u64;
    let mut queue = Pending::<S>::default();
    for i in 0..pending {
        queue.push(Time::from_ps(1 + mix(i) % 2_000_000), Word(i));
    }
    bencher.counter(ItemsCount::new(operations)).bench_local(move || {
        for _ in 0..operations {
            if let Some((now, word)) = queue.pop() {
                let step = STEPS[(mix(word.0 ^ now.as_ps()) % 8) as usize];
                queue.push(Time::from_ps(now.as_ps() + step), word);
            }
        }
    });
}

#[divan::bench(args = [100, 1_000, 100_000])]
fn radix_queue(bencher: Bencher<'_, '_>, pending: u64) {
    hold::<RadixStore>(bencher, pending);
}

#[divan::bench(args = [100, 1_000, 100_000])]
fn heap_queue(bencher: Bencher<'_, '_>, pending: u64) {
    hold::<HeapStore>(bencher, pending);
}

/// A call on nodes of eight H100, ready to play.
fn prepared(nodes: u32, request: &Request) -> (Fabric, Program) {
    let catalogue = Catalogue::builtin();
    let node = catalogue.system("hgx-h100").expect("a built-in system").node.clone();
    let fabric = Fabric::build(&FabricSpec::new(node, nodes), catalogue).expect("a sound fabric");
    let machine = Machine::new(&fabric, catalogue, &Software::default(), &[]).expect("a sound machine");
    let program = machine.plan(request).and_then(|p| p.program(&machine, 1)).expect("a sound call");
    (fabric, program)
}

fn play(bencher: Bencher<'_, '_>, fabric: &Fabric, program: &Program) {
    let network = fabric.network();
    let run = || {
        let mut engine = Engine::<RadixStore>::new(&network, fabric.mtu(), Limits::default());
        engine.load(program.clone(), Time::ZERO).expect("it fits");
        let reason = engine.run(|_, _| {});
        engine.finish(reason).engine.segment_hops
    };
    bencher.counter(ItemsCount::new(run())).bench_local(run);
}

/// 16 KiB from every GPU to every other.
#[divan::bench(args = [4, 16, 32], sample_count = 5)]
fn all_to_all(bencher: Bencher<'_, '_>, nodes: u32) {
    let request = Request::new(Operation::AllToAll, Bytes::kib(16 * 8 * u64::from(nodes)));
    let (fabric, program) = prepared(nodes, &request);
    play(bencher, &fabric, &program);
}

/// A ring all-reduce of 64 MiB on 16 channels.
#[divan::bench(args = [2, 16], sample_count = 5)]
fn ring_all_reduce(bencher: Bencher<'_, '_>, nodes: u32) {
    let request = Request {
        algorithm: Some(Algorithm::Ring.into()),
        protocol: Some(Protocol::Simple),
        channels: Some(16),
        ..Request::new(Operation::AllReduce, Bytes::mib(64))
    };
    let (fabric, program) = prepared(nodes, &request);
    play(bencher, &fabric, &program);
}

/// Networks of packets; an item is a hop of a packet.
#[divan::bench(args = [0, 1, 2], sample_count = 3)]
fn packet_hops(bencher: Bencher<'_, '_>, case: usize) {
    let loaded = packets::load(case);
    let run = || packets::hops(&loaded.run().expect("it runs").results);
    bencher.counter(ItemsCount::new(run())).bench_local(run);
}
