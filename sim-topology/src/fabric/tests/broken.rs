//! Random dead cables and switches: routes go around them, and what has no way is said to have none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::properties::{built, is_chain, is_straight, specs};
use super::*;
use crate::DeviceId;
use crate::faults::{Dead, Fault, FaultErrorKind, FaultKind};

/// Leaves that a leaf reaches over live links by the rule of the fabric, found by walking: up and then down; in a
/// dragonfly over one link between groups at most.
fn reached(fabric: &Fabric, from: DeviceId) -> BTreeSet<DeviceId> {
    let mut out: BTreeMap<DeviceId, Vec<DeviceId>> = BTreeMap::new();
    for link in fabric.links().iter().filter(|l| l.alive && l.class == crate::LinkClass::Uplink) {
        out.entry(link.from).or_default().push(link.to);
    }
    let mut seen = BTreeSet::from([(from, false)]);
    let mut queue = VecDeque::from([(from, false)]);
    while let Some((at, turned)) = queue.pop_front() {
        for &to in out.get(&at).into_iter().flatten() {
            let [a, b] = [at, to].map(|switch| fabric.switch_place(switch).unwrap());
            let after = match (a.tier().cmp(&b.tier()), a.pod == b.pod) {
                (core::cmp::Ordering::Less, _) if turned => continue,
                (core::cmp::Ordering::Less, _) => false,
                (core::cmp::Ordering::Greater, _) => true,
                (core::cmp::Ordering::Equal, true) => turned,
                (core::cmp::Ordering::Equal, false) if turned => continue,
                (core::cmp::Ordering::Equal, false) => true,
            };
            if seen.insert((to, after)) {
                queue.push_back((to, after));
            }
        }
    }
    seen.into_iter().map(|(switch, _)| switch).filter(|&s| fabric.switch_place(s).unwrap().tier() == 0).collect()
}

/// Kills cables by random numbers, both directions.
fn kill(fabric: &mut Fabric, picks: &[u64]) {
    let cables: Vec<usize> = (0..fabric.links().len())
        .filter(|&i| fabric.links()[i].class.is_network())
        .filter(|&i| {
            let link = &fabric.links()[i];
            link.class == crate::LinkClass::Uplink || fabric.switch_place(link.to).is_some()
        })
        .collect();
    for pick in picks {
        let at = cables[(*pick % cables.len() as u64) as usize];
        let (from, to, parallel) = (fabric.links()[at].from, fabric.links()[at].to, fabric.links()[at].parallel);
        let (_, links) = fabric.parts_mut();
        for link in links.iter_mut().filter(|l| l.parallel == parallel) {
            if (link.from, link.to) == (from, to) || (link.from, link.to) == (to, from) {
                link.alive = false;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn routes_avoid_what_is_dead_and_exist_where_a_way_does(
        spec in specs(),
        picks in proptest::collection::vec(any::<u64>(), 1..24),
        entropy in any::<u64>(),
    ) {
        prop_assume!(spec.nodes < 24);
        let Some(mut fabric) = built(&spec) else { return Ok(()) };
        prop_assume!(fabric.links().iter().any(|l| l.class.is_network()));
        kill(&mut fabric, &picks);
        let mut ways: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
        let gpus = fabric.gpus();
        for (i, &a) in gpus.iter().enumerate() {
            let b = gpus[(i * 7 + entropy as usize % gpus.len() + 1) % gpus.len()];
            let Some((src, dst)) = fabric.auto_nics(a, b).filter(|_| !fabric.same_domain(a, b)) else { continue };
            let alive = |link: sim_core::ids::LinkId| fabric.link(link).alive;
            let mut is_way = false;
            for (out, into) in fabric.attached(src).iter().zip(fabric.attached(dst)) {
                let ends = ways.entry(out.leaf).or_insert_with(|| reached(&fabric, out.leaf));
                is_way |= alive(out.up) && alive(into.down) && ends.contains(&into.leaf);
            }
            let request = RouteRequest::auto(a, b).entropy(entropy);
            match fabric.route(&request) {
                Ok(route) => {
                    prop_assert!(is_way);
                    prop_assert!(route.links.iter().all(|&l| alive(l)), "a dead link on the way");
                    prop_assert!(is_chain(&fabric, &route.links, a, b) && is_straight(&fabric, &route.links));
                    for other in fabric.equal_routes(&request).unwrap().iter().take(64) {
                        prop_assert!(other.links.iter().all(|&l| alive(l)));
                    }
                }
                Err(error) => prop_assert!(!is_way, "{error}"),
            }
        }
    }

    #[test]
    fn a_partition_is_refused_and_nothing_else(spec in specs(), picks in proptest::collection::vec(any::<u64>(), 1..8)) {
        prop_assume!(spec.nodes < 24 && spec.fabric != FabricKind::RailOnly);
        let Some(fabric) = built(&spec) else { return Ok(()) };
        // Spines and cores, so that no NIC loses its cable and takes the others' place.
        let above: Vec<&str> = fabric
            .devices()
            .iter()
            .filter(|d| matches!(d.kind, DeviceKind::Spine | DeviceKind::Core))
            .map(|d| d.name.as_str())
            .collect();
        prop_assume!(!above.is_empty());
        let targets: BTreeSet<&str> = picks.iter().map(|p| above[(*p % above.len() as u64) as usize]).collect();
        let dead: BTreeSet<DeviceId> = targets.iter().map(|t| fabric.find(t).unwrap()).collect();
        let mut left = fabric.clone();
        for link in left.parts_mut().1.iter_mut().filter(|l| dead.contains(&l.from) || dead.contains(&l.to)) {
            link.alive = false;
        }
        let reach: BTreeMap<DeviceId, BTreeSet<DeviceId>> = left
            .nodes()
            .iter()
            .flat_map(|n| &n.nics)
            .flat_map(|&nic| left.leaves_of(nic).collect::<Vec<_>>())
            .map(|leaf| (leaf, reached(&left, leaf)))
            .collect();
        let joined = |a: DeviceId, b: DeviceId| {
            let Some((src, dst)) = left.auto_nics(a, b) else { return false };
            left.attached(src).iter().zip(left.attached(dst)).any(|(out, into)| reach[&out.leaf].contains(&into.leaf))
        };
        let gpus = left.gpus();
        let apart = gpus.iter().any(|&a| gpus.iter().any(|&b| !left.same_domain(a, b) && !joined(a, b)));
        let faults: Vec<Fault> = targets
            .iter()
            .map(|t| Fault { target: (*t).to_owned(), pick: None, kind: FaultKind::Dead(Dead) })
            .collect();
        match fabric.with_faults(&faults, 1, false, Catalogue::builtin()) {
            Ok(_) => prop_assert!(!apart, "a partition that was not seen"),
            Err(errors) => {
                prop_assert!(apart, "{errors:?}");
                prop_assert!(errors.iter().all(|e| e.kind == FaultErrorKind::Partition), "{errors:?}");
            }
        }
    }
}
