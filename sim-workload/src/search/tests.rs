//! What the search lists and estimates.

use sim_core::units::{Bytes, Rate, Span};

use super::*;
use crate::closed::Path;
use crate::model::activations::Recompute;
use crate::model::catalogue::Models;
use crate::parallel::{Order, Zero};
use crate::units::FlopRate;

fn cluster(gbyte: u64) -> Cluster {
    let path = |gbyte, us| Path { rate: Rate::gbyte(gbyte), latency: Span::from_us(us) };
    Cluster { scale_up: path(450, 2), scale_out: path(gbyte, 8), reduces: false }
}

fn with<T>(model: &str, spec: SizesSpec, memory: u64, per_node: u64, then: impl FnOnce(&Asked<'_>) -> T) -> T {
    let model = &Models::builtin().get(model).unwrap().model;
    let machine = Machine::ideal(FlopRate::per_sec(400_000_000_000_000), Rate::bytes_per_sec(3_000_000_000_000));
    let placement = Placement::nodes_of(per_node);
    then(&Asked {
        model,
        spec: &spec,
        widths: Widths::default(),
        choices: Choices::default(),
        machine: &machine,
        overlap: Overlap::default(),
        slowdown: Slowdown::NONE,
        budget: Budget::of(Bytes::new(memory)),
        placement: &placement,
    })
}

const VARY: [Dimension; 4] = [Dimension::Tensor, Dimension::Pipeline, Dimension::Virtual, Dimension::Context];

fn small() -> SizesSpec {
    SizesSpec { gpus: 64, global_batch: 128, sequence: 8192, zero: Zero::Optimizer, ..SizesSpec::default() }
}

#[test]
fn what_is_listed_holds_and_fits_and_what_is_not_is_counted() {
    with("llama3-8b", small(), 80_000_000_000, 8, |asked| {
        let (list, counts) = splits(asked, &VARY);
        assert!(list.len() > 10, "{}", list.len());
        assert_eq!(counts.looked_at, list.len() as u64 + counts.impossible + counts.too_large);
        assert!(counts.impossible > 0 && counts.too_large > 0, "{counts:?}");
        for split in &list {
            let sizes = &split.sizes;
            assert_eq!(sizes.tensor * sizes.context * sizes.pipeline * sizes.data, 64);
            assert!(split.usage.total() <= asked.budget.limit());
            assert!(split.spec.check(asked.model).is_ok());
        }
        // All of them: by trying every product of sizes up to the number of GPUs.
        let mut all = 0;
        for tensor in 1..=64 {
            for pipeline in 1..=64 {
                let spec = SizesSpec { tensor, pipeline, ..small() };
                let Ok(sizes) = spec.check(asked.model) else { continue };
                let usage = crate::memory::fullest(&asked.job(&sizes), asked.budget.buffers);
                all += u64::from(usage.total() <= asked.budget.limit());
            }
        }
        let (list, _) = splits(asked, &[Dimension::Tensor, Dimension::Pipeline]);
        assert_eq!(list.len() as u64, all);
    });
}

#[test]
fn what_does_not_fit_is_tried_with_more_recomputation() {
    let spec = || SizesSpec { tensor: 8, recompute: Recompute::Nothing, zero: Zero::Optimizer, ..small() };
    with("llama3-70b", spec(), 80_000_000_000, 8, |asked| {
        let own = [Dimension::Pipeline];
        let (without, counts) = splits(asked, &own);
        assert!(counts.too_large > 0, "{counts:?}");
        let (list, more) = splits(asked, &[Dimension::Pipeline, Dimension::Recompute]);
        assert!(list.len() > without.len() && more.too_large < counts.too_large, "{counts:?} {more:?}");
        assert_eq!(more.looked_at, list.len() as u64 + more.impossible + more.too_large);
        // What fits as it was asked for stays so; the others have the least that fits.
        for split in &list {
            let fitted = without.iter().any(|own| own.spec.pipeline == split.spec.pipeline);
            assert_eq!(fitted, split.spec.recompute == Recompute::Nothing, "{}", split.sizes);
            if split.spec.recompute == Recompute::Full {
                let less =
                    SizesSpec { recompute: Recompute::Selective, ..split.spec.clone() }.check(asked.model).unwrap();
                assert!(crate::memory::fullest(&asked.job(&less), asked.budget.buffers).total() > asked.budget.limit());
            }
        }
    });
}

#[test]
fn stages_of_zero_and_parts_of_experts_vary() {
    let spec = SizesSpec { tensor: 2, expert: 4, ..small() };
    with("qwen3-30b-a3b", spec, 8_000_000_000_000, 8, |asked| {
        let (list, _) = splits(asked, &[Dimension::Zero]);
        let stages: Vec<Zero> = list.iter().map(|split| split.sizes.zero).collect();
        // From what was asked for on.
        assert!(!stages.contains(&Zero::Replicated) && stages.contains(&Zero::Parameters), "{stages:?}");
        let (list, _) = splits(asked, &[Dimension::ExpertTensor]);
        let parts: Vec<u64> = list.iter().map(|split| split.sizes.expert_tensor).collect();
        assert!(parts.len() > 1 && parts.contains(&2), "{parts:?}");
        let (list, _) = splits(asked, &[Dimension::Sequence, Dimension::Expert]);
        assert!(list.iter().all(|s| s.sizes.sequence_parallel || s.sizes.expert == 1));
        assert!(list.iter().any(|s| !s.sizes.sequence_parallel));
    });
}

#[test]
fn orders_are_all_that_differ() {
    with("llama3-8b", SizesSpec { tensor: 4, pipeline: 2, ..small() }, 80_000_000_000, 8, |asked| {
        let sizes = asked.spec.check(asked.model).unwrap();
        let list = orders(&sizes);
        assert_eq!(list.len(), 6);
        assert_eq!(list[0], Order::default());
        let texts: std::collections::BTreeSet<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 6);
        let one = SizesSpec { gpus: 8, tensor: 8, ..small() }.check(asked.model).unwrap();
        assert_eq!(orders(&one).len(), 1);
    });
}

#[test]
fn a_bound_is_below_and_faster_links_do_no_harm() {
    with("llama3-8b", small(), 80_000_000_000, 8, |asked| {
        let (list, _) = splits(asked, &VARY);
        for split in &list {
            for order in orders(&split.sizes) {
                let slow = estimate(asked, split, &order, CallsBy::Links(&cluster(25))).unwrap();
                let fast = estimate(asked, split, &order, CallsBy::Links(&cluster(400))).unwrap();
                let least = |nic: u64| {
                    let reach = Reach { gpu: Rate::gbyte(450 + nic), domain: Rate::gbyte(8 * nic) };
                    bound(asked, split, &order, &reach).unwrap()
                };
                assert!(least(25) <= slow.time && least(400) <= fast.time, "{} {order}", split.sizes);
                assert!(fast.time <= slow.time && least(400) <= least(25), "{} {order}", split.sizes);
                let parts: f64 = slow.parts().iter().map(|(_, us)| us).sum();
                assert!((parts - slow.time.as_us()).abs() < slow.time.as_us() * 1e-6, "{slow:?} {parts}");
            }
        }
    });
}

#[test]
fn tensor_parallelism_stays_in_a_node() {
    // 8 ranks of tensor parallelism over NICs of 25 GB/s cost more than within NVLink.
    with("llama3-8b", SizesSpec { tensor: 8, ..small() }, 80_000_000_000, 8, |asked| {
        let (list, _) = splits(asked, &[]);
        let time =
            |order: &str| estimate(asked, &list[0], &order.parse().unwrap(), CallsBy::Links(&cluster(25))).unwrap();
        let (inside, across) = (time("tp-dp-pp-cp-ep"), time("dp-tp-pp-cp-ep"));
        assert!(inside.time < across.time, "{inside:?} {across:?}");
        let differs = why(&inside.parts(), &across.parts());
        assert!(differs.iter().any(|(name, us)| name == "tp" && *us < 0.0), "{differs:?}");
    });
}

#[test]
fn reasons_are_the_largest_differences() {
    let parts = |list: &[(&str, f64)]| list.iter().map(|(name, us)| ((*name).to_owned(), *us)).collect::<Parts>();
    let best = parts(&[("compute", 100.0), ("tp", 20.0), ("dp", 1.0)]);
    let other = parts(&[("compute", 100.01), ("tp", 5.0), ("pp", 40.0), ("dp", 1.0)]);
    assert_eq!(why(&best, &other), parts(&[("pp", -40.0), ("tp", 15.0)]));
    assert!(why(&best, &best).is_empty());
}
