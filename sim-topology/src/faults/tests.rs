use super::*;
use crate::testing::cluster;
use crate::{Catalogue, DeviceId};
use sim_core::ids::LinkId;
use sim_core::units::{Bytes, Rate, Span};

fn fault(target: &str, kind: FaultKind) -> Fault {
    Fault { target: target.to_owned(), pick: None, kind }
}

fn degraded(target: &str, change: impl FnOnce(&mut Degraded)) -> Fault {
    let mut kind = Degraded::default();
    change(&mut kind);
    fault(target, FaultKind::Degraded(kind))
}

fn flapping(target: &str) -> Fault {
    let kind = Flapping {
        down_for: Span::from_us(10),
        every: Some(Span::from_us(100)),
        first: Span::ZERO,
        recovery: Span::from_us(1),
    };
    fault(target, FaultKind::Flapping(kind))
}

fn ill(faults: &[Fault]) -> Result<(Fabric, Vec<FaultWarning>), Vec<FaultError>> {
    cluster("hgx-h100", 4).with_faults(faults, 1, true, Catalogue::builtin())
}

fn link(fabric: &Fabric, name: &str) -> LinkId {
    (0..fabric.links().len() as u32).map(LinkId).find(|&id| fabric.link_name(id) == name).unwrap()
}

fn refused(faults: &[Fault]) -> FaultError {
    let Err(mut errors) = ill(faults) else { panic!("a list that is to be refused") };
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn a_link_gets_slower_and_the_other_direction_does_not() {
    let (fabric, warnings) =
        ill(&[degraded("node0.nic2->leaf2", |d| (d.factor, d.added_latency) = (Some(0.5), Span::from_us(2)))]).unwrap();
    assert_eq!(warnings, []);
    let (there, back) = (link(&fabric, "node0.nic2->leaf2"), link(&fabric, "leaf2->node0.nic2"));
    let well = cluster("hgx-h100", 4);
    assert_eq!(fabric.link(there).rate, Rate::gbyte(25));
    assert_eq!(fabric.link(there).latency, well.link(there).latency + Span::from_us(2));
    assert_eq!(fabric.link(back), well.link(back));
    assert_eq!(fabric.ailment_of(there), Some("25.0 of 50.0 GB/s, 2 µs later"));
    assert_eq!(fabric.ailing_links().count(), 1);
    let applied = &fabric.faults()[0];
    assert_eq!((applied.kind, applied.target.as_str(), applied.links.len()), ("degraded", "node0.nic2->leaf2", 1));
    // A NIC as a target is its cable.
    let (fabric, _) = ill(&[degraded("node0.nic2", |d| d.factor = Some(0.5))]).unwrap();
    assert_eq!(fabric.faults()[0].links, [there, back]);
}

#[test]
fn widths_and_speeds() {
    let (fabric, _) = ill(&[
        degraded("node1.gpu3", |d| d.links = Some(17)),
        degraded("node1.nic5", |d| d.lanes = Some(8)),
        degraded("node2.gpu0", |d| (d.speed, d.lanes) = (Some(3), Some(16))),
    ])
    .unwrap();
    let nvlink = fabric.link(link(&fabric, "node1.gpu3->node1.nvswitch"));
    assert_eq!((nvlink.rate, nvlink.width), (Rate::gbyte(425), 17));
    let pcie = fabric.faults()[1].links.clone();
    assert_eq!(pcie.len(), 2);
    assert_eq!(fabric.link(pcie[0]).width, 8);
    assert!((fabric.link(pcie[0]).rate.as_gbyte() - 31.5).abs() < 0.1);
    // 8 GT/s, 128 of 130 bits data, sixteen lanes.
    let gen3 = fabric.link(fabric.faults()[2].links[0]).rate.as_gbyte();
    assert!((gen3 - 15.754).abs() < 0.001, "{gen3}");
    assert_eq!(refused(&[degraded("node1.gpu3", |d| d.links = Some(19))]).key, "links");
    assert_eq!(refused(&[degraded("leaf0", |d| d.links = Some(3))]).kind, FaultErrorKind::Contradiction);
}

#[test]
fn errors_cost_what_go_back_n_costs() {
    // No window: only the packet itself goes again.
    let alone = degraded_retries(0.1, Span::ZERO);
    assert!((alone.goodput - 0.9).abs() < 1e-12);
    assert_eq!(alone.delay, Span::ZERO);
    // 4096 B at 50 GB/s are 81.92 ns; a round trip of 8.192 us holds 100 packets.
    let far = degraded_retries(0.01, Span::from_ps(8_192_000));
    assert_eq!(far.window, 101.0);
    assert!((far.goodput - 0.99 / (0.99 + 1.01)).abs() < 1e-12);
    assert_eq!(far.delay, Span::from_ps(82_747));
    // A bit error rate of 1e-9 on packets of 32,768 bits: 1 − e^(−3.2768e-5).
    let loss = Errors::BitErrorRate(1e-9).packet_loss(Bytes::new(4096));
    assert!((loss / 3.276_746e-5 - 1.0).abs() < 1e-6, "{loss}");
    let (fabric, _) = ill(&[degraded("node0.nic0->leaf0", |d| d.errors = Some(Errors::PacketLoss(0.01)))]).unwrap();
    let lossy = fabric.link(link(&fabric, "node0.nic0->leaf0"));
    assert!(lossy.rate < Rate::gbyte(50) && lossy.rate > Rate::gbyte(10), "{}", lossy.rate);
}

fn degraded_retries(loss: f64, round_trip: Span) -> super::degraded::Retries {
    super::degraded::Retries::go_back_n(loss, round_trip, Bytes::new(4096), Rate::gbyte(50))
}

#[test]
fn outages_reach_the_engine() {
    let (fabric, _) = ill(&[flapping("node0.nic2<->leaf2")]).unwrap();
    let network = fabric.network();
    let there = link(&fabric, "node0.nic2->leaf2");
    let outage = network.link(there).outage.unwrap();
    assert_eq!(outage.down_for, Span::from_us(11));
    assert_eq!(network.links().iter().filter(|l| l.outage.is_some()).count(), 2);
    assert_eq!(refused(&[flapping("node0.nic2<->leaf2"), flapping("*->leaf2")]).kind, FaultErrorKind::Contradiction);
}

#[test]
fn stragglers_are_gpus() {
    let slow =
        |target: &str| fault(target, FaultKind::Straggler(Straggler { slowdown: 1.3, delay: Span::from_us(50) }));
    let (fabric, _) = ill(&[slow("node3")]).unwrap();
    let slowness = fabric.slowness_of(fabric.gpus()[25]).unwrap();
    assert_eq!((slowness.millionths, slowness.delay), (1_300_000, Span::from_us(50)));
    assert_eq!(fabric.slowness_of(fabric.gpus()[0]), None);
    assert_eq!(refused(&[slow("leaf0")]).kind, FaultErrorKind::Contradiction);
}

#[test]
fn random_choices_follow_the_seed() {
    let pick = |seed: u64, n: u32| {
        let fault = Fault { pick: Some(n), ..degraded("node*.nic*", |d| d.factor = Some(0.5)) };
        cluster("hgx-h100", 4)
            .with_faults(&[fault], seed, true, Catalogue::builtin())
            .map(|(f, _)| f.faults()[0].links.clone())
    };
    assert_eq!(pick(1, 3).unwrap().len(), 6);
    assert_eq!(pick(1, 3), pick(1, 3));
    assert_ne!(pick(1, 3), pick(2, 3));
    assert_eq!(pick(1, 32).unwrap().len(), 64);
    assert_eq!(pick(1, 33).unwrap_err()[0].key, "pick");
}

#[test]
fn what_names_nothing_is_told() {
    for (target, label) in [
        ("node0.nic9", "did you mean `node0.nic0`?"),
        ("node9", "nodes go from node0 to node3"),
        ("spun*", "`*` stands for"),
        ("node0.gpu2->node0.nic5", "links of node0.gpu2 go to"),
        ("node0.nic2->leaf2#4", "there are 1, numbered from #0"),
        ("node0.nic2->leaf2#x", "parallel links"),
        ("", ""),
        ("->", ""),
    ] {
        let error = refused(&[flapping(target)]);
        assert_eq!(error.kind, FaultErrorKind::Unknown, "{target}: {error:?}");
        assert!(error.label.starts_with(label), "{target}: {error:?}");
    }
}

#[test]
fn contradictions_are_refused_and_overlaps_told() {
    let half = |target: &str| degraded(target, |d| d.factor = Some(0.5));
    let (fabric, warnings) = ill(&[half("node0.nic0"), half("node0.nic*")]).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(fabric.link(link(&fabric, "node0.nic0->leaf0")).rate, Rate::bytes_per_sec(12_500_000_000));
    let both = degraded("node0.nic0", |d| (d.factor, d.rate) = (Some(0.5), Some(Rate::gbyte(1))));
    assert_eq!(refused(&[both]).kind, FaultErrorKind::Contradiction);
    for factor in [0.0, -1.0, 1.5, f64::NAN] {
        assert_eq!(refused(&[degraded("node0.nic0", |d| d.factor = Some(factor))]).key, "factor");
    }
    assert_eq!(refused(&[degraded("node0.nic0", |d| d.rate = Some(Rate::gbyte(51)))]).key, "rate");
    let (_, warnings) = ill(&[half("node0.nic0"), degraded("node1.nic0", |d| d.factor = Some(1.0))]).unwrap();
    assert_eq!(warnings[0].fault, 1);
    let never = FaultKind::Flapping(Flapping {
        down_for: Span::from_us(10),
        every: Some(Span::from_us(10)),
        first: Span::ZERO,
        recovery: Span::ZERO,
    });
    assert_eq!(refused(&[fault("node0.nic0", never)]).key, "down_for");
}

#[test]
fn devices_keep_their_numbers() {
    let (fabric, _) = ill(&[degraded("*->*", |d| d.factor = Some(0.9))]).unwrap();
    let well = cluster("hgx-h100", 4);
    assert_eq!(fabric.devices(), well.devices());
    assert!(fabric.links().iter().zip(well.links()).all(|(a, b)| a.from == b.from && a.to == b.to && a.rate < b.rate));
    assert_eq!(fabric.find("node0.gpu0").unwrap(), DeviceId(0));
}

fn dead(target: &str) -> Fault {
    fault(target, FaultKind::Dead(Dead))
}

fn route(fabric: &Fabric, from: &str, to: &str) -> crate::Route {
    let (a, b) = (fabric.find(from).unwrap(), fabric.find(to).unwrap());
    fabric.route(&crate::RouteRequest::auto(a, b)).unwrap()
}

#[test]
fn a_gpu_whose_nic_died_takes_the_nearest_other() {
    let (fabric, _) = ill(&[dead("node0.nic2")]).unwrap();
    let well = cluster("hgx-h100", 4);
    for (i, &gpu) in fabric.gpus().iter().enumerate() {
        let own = fabric.nics_of(gpu).to_vec();
        if i == 2 {
            assert_eq!(own.len(), 1);
            assert_eq!(fabric.device(own[0]).name, "node0.nic0", "of one NUMA node, lowest number first");
        } else {
            assert_eq!(own, well.nics_of(gpu));
        }
    }
    let kind = |a, b| route(&fabric, a, b).kind;
    assert_eq!(kind("node0.gpu2", "node1.gpu2"), crate::PairKind::CrossRail);
    assert_eq!(kind("node0.gpu2", "node1.gpu0"), crate::PairKind::SameRail);
    assert_eq!(kind("node1.gpu2", "node2.gpu2"), crate::PairKind::SameRail);
    // A cut cable does the same.
    let (cut, _) = ill(&[dead("node0.nic2->leaf2")]).unwrap();
    assert_eq!(cut.nics_of(cut.gpus()[2]), fabric.nics_of(fabric.gpus()[2]));
    let effects = report::effects(&well, &fabric, false);
    assert_eq!((effects.nics_changed, effects.dead_gpus), (1, 0));
    assert_eq!(effects.nics, ["node0.gpu2: nic0 in place of nic2"]);
    // Each way between the GPU and 3 nodes: rail 2 is lost, rail 0 is won.
    assert_eq!(effects.other_kind, 2 * 3 + 2 * 3);
    assert_eq!(effects.pairs_before.total(), effects.pairs_after.total());
}

#[test]
fn without_nvlink_a_gpu_goes_over_pcie() {
    let (fabric, _) = ill(&[dead("node1.gpu3<->node1.nvswitch")]).unwrap();
    let lost = route(&fabric, "node1.gpu3", "node1.gpu0");
    assert_eq!(lost.kind, crate::PairKind::Pcie);
    assert_eq!(route(&fabric, "node1.gpu0", "node1.gpu2").kind, crate::PairKind::NvLink);
    assert_eq!(fabric.nvlinks(fabric.gpus()[11], fabric.gpus()[8]), 0);
    let effects = report::effects(&cluster("hgx-h100", 4), &fabric, true);
    assert_eq!(effects.pairs_after.pcie, 14);
    assert_eq!(effects.other_class, 14);
    let (narrow, _) = ill(&[degraded("node1.gpu3", |d| d.links = Some(17))]).unwrap();
    assert_eq!(narrow.nvlinks(narrow.gpus()[11], narrow.gpus()[8]), 17);
    assert_eq!(narrow.nvlinks(narrow.gpus()[9], narrow.gpus()[8]), 18);
}

#[test]
fn a_lost_spine_leaves_the_others() {
    let mut spec = crate::FabricSpec::new(crate::testing::system("hgx-h100"), 16);
    spec.fabric = crate::FabricKind::LeafSpine;
    let well = crate::testing::build(&spec);
    let spines = well.plan().spines;
    assert!(spines > 1);
    let (fabric, _) = well.clone().with_faults(&[dead("spine0")], 1, true, Catalogue::builtin()).unwrap();
    let effects = report::effects(&well, &fabric, true);
    let over = effects.oversubscription.unwrap();
    let ratio = f64::from(spines) / f64::from(spines - 1);
    assert!((over.after / over.before - ratio).abs() < 1e-9, "{over:?}, {spines} spines");
    let cut = effects.bisection.unwrap();
    assert!(cut.after < cut.before, "{cut:?}");
    let lost = fabric.find("spine0").unwrap();
    let (a, b) = (fabric.gpus()[0], fabric.gpus()[127]);
    for route in fabric.equal_routes(&crate::RouteRequest::auto(a, b)).unwrap() {
        assert!(route.links.iter().all(|&l| fabric.link(l).alive && fabric.link(l).to != lost));
    }
}

#[test]
fn a_fabric_that_falls_apart_is_an_error_with_names() {
    let error = refused(&[dead("node0.nic*")]);
    assert_eq!(error.kind, FaultErrorKind::Partition);
    assert!(error.label.contains("node1.gpu0 to node0.gpu0"), "{}", error.label);
    // 8 GPUs cut off from 24 others, each way.
    assert!(error.label.ends_with(&format!("and {} more ordered pairs", 2 * 8 * 24 - 3)), "{}", error.label);
    // GPUs that are dead cut nobody off.
    let (fabric, _) = ill(&[dead("node0")]).unwrap();
    let effects = report::effects(&cluster("hgx-h100", 4), &fabric, true);
    assert_eq!((effects.dead_gpus, effects.pairs_after.total()), (8, 24 * 23));
    assert_eq!(
        refused(&[dead("node0.nic0"), degraded("node0.nic0", |d| d.factor = Some(0.5))]).kind,
        FaultErrorKind::Contradiction
    );
    let (_, warnings) = ill(&[dead("node0.nic0"), dead("node0.nic0->leaf0")]).unwrap();
    assert_eq!(warnings.len(), 1);
}

#[test]
fn swapped_cables_break_two_rails() {
    let kind = FaultKind::Miscabled(Miscabled { swap: "node3.nic5".to_owned() });
    let (fabric, _) = ill(&[fault("node3.nic2", kind)]).unwrap();
    let leaf = |name: &str| fabric.device(fabric.leaf_of(fabric.find(name).unwrap()).unwrap()).name.clone();
    assert_eq!((leaf("node3.nic2").as_str(), leaf("node3.nic5").as_str()), ("leaf5", "leaf2"));
    let route = route(&fabric, "node3.gpu2", "node0.gpu2");
    let names: Vec<String> = route.links.iter().map(|&l| fabric.link_name(l)).collect();
    assert!(names.iter().any(|n| n.starts_with("spine")), "{names:?}");
    for pair in route.links.windows(2) {
        assert_eq!(fabric.link(pair[0]).to, fabric.link(pair[1]).from, "{names:?}");
    }
    let effects = report::effects(&cluster("hgx-h100", 4), &fabric, true);
    // Two rails of one node to three others, each way.
    assert_eq!(effects.rails_broken, 2 * 2 * 3);
}

#[test]
fn wrong_maps_and_acs() {
    let map = NicMap { nics: vec![("gpu3".to_owned(), "nic0".to_owned())] };
    let (fabric, _) = ill(&[fault("node0-1", FaultKind::NicMap(map))]).unwrap();
    let nics = |gpu: usize| {
        fabric.nics_of(fabric.gpus()[gpu]).iter().map(|&n| fabric.device(n).name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (nics(3), nics(11), nics(19)),
        (vec!["node0.nic0".into()], vec!["node1.nic0".into()], vec!["node2.nic3".into()])
    );
    let bad = |gpu: &str, nic: &str| fault("node0", FaultKind::NicMap(NicMap { nics: vec![(gpu.into(), nic.into())] }));
    assert_eq!(refused(&[bad("gpu9", "nic0")]).key, "nics");
    assert_eq!(refused(&[bad("gpu1", "leaf0")]).key, "nics");
    // The pairs below one switch of a PCIe box go up to the socket.
    let boxes = cluster("pcie-l40s-8", 2);
    let (acs, _) =
        boxes.clone().with_faults(&[fault("node0", FaultKind::Acs(Acs))], 1, true, Catalogue::builtin()).unwrap();
    let hops = |fabric: &Fabric, a: usize, b: usize| {
        fabric.route(&crate::RouteRequest::auto(fabric.gpus()[a], fabric.gpus()[b])).unwrap().links.len()
    };
    assert_eq!(hops(&boxes, 0, 1), 2);
    assert!(hops(&acs, 0, 1) >= 4, "{}", hops(&acs, 0, 1));
    assert_eq!(hops(&acs, 8, 9), 2, "the other node is as it was");
}
