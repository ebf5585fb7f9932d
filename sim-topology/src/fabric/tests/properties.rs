//! What holds of every fabric, tried on random ones.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sim_core::ids::LinkId;

use super::*;
use crate::topo::{bill_of_materials, hop_histogram, pair_kind, pairs};
use crate::{DeviceId, LinkClass, PairKind};

/// Random fabrics of all kinds, on small switches so that tiers fill.
pub(super) fn specs() -> impl Strategy<Value = FabricSpec> {
    let ratios = || prop_oneof![3 => Just(None), 1 => Just(Some(2.0)), 1 => (0.4..4.0f64).prop_map(Some)];
    let switches = prop_oneof![Just("sb7800"), Just("qm8700"), Just("sn4700"), Just("qm9700")];
    let choices = prop_oneof![Just(PathChoice::Hash), Just(PathChoice::Destination), Just(PathChoice::MinHop)];
    (1u32..5, 2u32..80, 0usize..8, switches, (ratios(), ratios()), choices, proptest::option::of(1u32..4)).prop_map(
        |(gpus, nodes, kind, switch, ratios, choice, pods)| {
            let mut spec = FabricSpec::new(node(gpus), nodes);
            spec.nics = Some(format!("{gpus}x200Gb/s").parse().unwrap());
            spec.fabric = FabricKind::ALL[kind];
            (spec.switch, spec.path_choice) = (Some(switch.into()), Some(choice));
            (spec.oversubscription, spec.core_oversubscription) = ratios;
            if matches!(spec.fabric, FabricKind::LeafSpine | FabricKind::RailOptimized | FabricKind::MultiPlane) {
                spec.pods = pods;
            }
            spec
        },
    )
}

/// Some random specifications contradict themselves; those are refused.
pub(super) fn built(spec: &FabricSpec) -> Option<Fabric> {
    Fabric::build(spec, Catalogue::builtin()).ok()
}

pub(super) fn is_chain(fabric: &Fabric, links: &[LinkId], from: DeviceId, to: DeviceId) -> bool {
    let end = links.iter().try_fold(from, |at, &link| (fabric.link(link).from == at).then(|| fabric.link(link).to));
    end == Some(to)
}

/// No device twice, and in tiers never up after down.
pub(super) fn is_straight(fabric: &Fabric, links: &[LinkId]) -> bool {
    let devices: Vec<DeviceId> = links.iter().map(|&l| fabric.link(l).to).collect();
    let different: BTreeSet<_> = devices.iter().collect();
    let tiers: Vec<usize> = devices.iter().filter_map(|&d| fabric.switch_place(d)).map(|p| p.tier()).collect();
    let top = tiers.iter().position(|t| Some(t) == tiers.iter().max()).unwrap_or(0);
    let (up, down) = tiers.split_at(top);
    different.len() == devices.len() && up.is_sorted() && down.is_sorted_by(|a, b| a >= b)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn ports_fit_and_capacity_is_as_stated(spec in specs()) {
        let Some(fabric) = built(&spec) else { return Ok(()) };
        let plan = fabric.plan();
        let mut rates = vec![(0u64, 0u64, 0u64); fabric.devices().len()];
        for link in fabric.links().iter().filter(|l| l.class.is_network()) {
            let (from, to) = (fabric.switch_place(link.from), fabric.switch_place(link.to));
            let Some(from) = from else { continue };
            let at = &mut rates[link.from.index()];
            match to {
                Some(to) if to.tier() > from.tier() => { at.1 += link.rate.get(); at.2 += 1 }
                Some(to) if to.tier() == from.tier() => {}
                _ => at.0 += link.rate.get(),
            }
        }
        for (device, &(down, up, links)) in fabric.devices().iter().zip(&rates) {
            if !device.kind.is_network_switch() {
                continue;
            }
            prop_assert!(device.ports_used <= device.ports, "{} {}/{}", device.name, device.ports_used, device.ports);
            let (asked, fullest) = match device.kind {
                DeviceKind::Leaf => (spec.oversubscription, plan.uplinks),
                _ => (spec.core_oversubscription, plan.spine_uplinks),
            };
            let tiered = !matches!(spec.fabric, FabricKind::FatTree | FabricKind::Dragonfly);
            if tiered && up > 0 && links == u64::from(fullest) {
                // To whole links, for the fullest switches; others have more up than they need.
                let link = up as f64 / links as f64;
                let want = down as f64 / asked.unwrap_or(1.0);
                prop_assert!(up as f64 >= want - link, "{}: {down} down, {up} up at {asked:?}", device.name);
            }
        }
        let [leaf_down, leaf_up] = [plan.downlinks, plan.uplinks].map(f64::from);
        if plan.spines > 0 && plan.kind != FabricKind::FatTree {
            let want = (leaf_down / spec.oversubscription.unwrap_or(1.0)).round().max(1.0);
            prop_assert_eq!(leaf_up, want);
        }
        let counted = |kind| fabric.devices().iter().filter(|d| d.kind == kind).count() as u32;
        prop_assert_eq!(plan.leaves, counted(DeviceKind::Leaf));
        prop_assert_eq!((plan.spines, plan.cores), (counted(DeviceKind::Spine), counted(DeviceKind::Core)));
    }

    #[test]
    fn routes_are_straight_and_alike_both_ways(spec in specs(), pick in any::<(u64, u64)>(), entropy in any::<u64>()) {
        let Some(fabric) = built(&spec) else { return Ok(()) };
        let gpus = fabric.gpus();
        let (a, b) = (gpus[(pick.0 % gpus.len() as u64) as usize], gpus[(pick.1 % gpus.len() as u64) as usize]);
        prop_assume!(a != b);
        let request = RouteRequest::auto(a, b).entropy(entropy);
        let Ok(route) = fabric.route(&request) else {
            // Rails that no switch joins, and nothing else, are apart.
            prop_assert_eq!(spec.fabric, FabricKind::RailOnly);
            prop_assert_eq!(pair_kind(&fabric, a, b, false), PairKind::CrossRail);
            return Ok(());
        };
        prop_assert!(is_chain(&fabric, &route.links, a, b));
        prop_assert!(is_straight(&fabric, &route.links));
        prop_assert_eq!(&fabric.route(&request).unwrap(), &route, "the same each time");
        let all = fabric.equal_routes(&request).unwrap();
        let different: BTreeSet<_> = all.iter().map(|r| &r.links).collect();
        prop_assert_eq!(different.len(), all.len());
        // At most 65,536 are listed.
        prop_assert!(all.len() < route.equal_paths as usize || different.contains(&route.links));
        for other in &all {
            prop_assert!(is_chain(&fabric, &other.links, a, b) && is_straight(&fabric, &other.links));
            prop_assert_eq!(other.links.len(), route.links.len());
        }
        // The way back is of as many links, and as many ways.
        let back = fabric.route(&RouteRequest::auto(b, a).entropy(entropy)).unwrap();
        prop_assert_eq!((back.links.len(), back.equal_paths), (route.links.len(), route.equal_paths));
    }

    #[test]
    fn counts_by_class_are_those_of_all_pairs(spec in specs()) {
        prop_assume!(spec.nodes < 40);
        let Some(fabric) = built(&spec) else { return Ok(()) };
        let mut hops = std::collections::BTreeMap::new();
        let mut kinds = std::collections::BTreeMap::new();
        for &a in fabric.gpus() {
            for &b in fabric.gpus().iter().filter(|&&b| b != a) {
                *kinds.entry(pair_kind(&fabric, a, b, true)).or_insert(0u64) += 1;
                if let Ok(route) = fabric.route(&RouteRequest::auto(a, b)) {
                    *hops.entry(route.links.len() as u32).or_insert(0u64) += 1;
                }
            }
        }
        prop_assert_eq!(hop_histogram(&fabric), hops);
        let got = pairs(&fabric, true);
        let want = |kind| kinds.get(&kind).copied().unwrap_or(0);
        prop_assert_eq!((got.nvlink, got.same_rail), (want(PairKind::NvLink), want(PairKind::SameRail)));
        prop_assert_eq!((got.pxn, got.cross_rail), (want(PairKind::Pxn), want(PairKind::CrossRail)));
    }

    #[test]
    fn the_bill_adds_up(spec in specs()) {
        let Some(fabric) = built(&spec) else { return Ok(()) };
        let bill = bill_of_materials(&fabric, Catalogue::builtin()).unwrap();
        let count = |role: &str| bill.iter().filter(|b| b.role == role).map(|b| b.count).sum::<u64>();
        let plan = fabric.plan();
        prop_assert_eq!([count("leaf"), count("spine"), count("core")], [plan.leaves, plan.spines, plan.cores].map(u64::from));
        let network = fabric.links().iter().filter(|l| l.class == LinkClass::Network).count() as u64;
        let uplinks = fabric.links().iter().filter(|l| l.class == LinkClass::Uplink).count() as u64;
        prop_assert_eq!(count("nic cable") * 2, network);
        prop_assert_eq!((count("uplink cable") + count("core cable")) * 2, uplinks);
    }
}
