//! Rank orders as frameworks have them, faults and what they offer, properties of groups.

use proptest::prelude::*;

use super::groups::{Group, Ranks};
use super::local::Local;
use super::order::{Order, OrderFault};
use super::placement::Placement;
use super::sizes::{ContextKind, Sizes, SizesSpec, Zero};
use super::split::Split;
use crate::model::kernels::Work;
use crate::model::{LayerKind, Model, ModelSpec, Models};

fn model(name: &str) -> &'static Model {
    &Models::builtin().get(name).unwrap().model
}

fn llama_405b() -> SizesSpec {
    SizesSpec {
        gpus: 512,
        tensor: 8,
        context: 2,
        pipeline: 8,
        virtual_stages: 8,
        split: Split::Counting { embedding: true, head: true },
        global_batch: 1152,
        sequence: 8192,
        zero: Zero::Optimizer,
        ..SizesSpec::default()
    }
}

fn check(name: &str, spec: &SizesSpec) -> Sizes {
    spec.check(model(name)).unwrap_or_else(|f| panic!("{f:?}"))
}

fn messages(name: &str, spec: &SizesSpec) -> Vec<String> {
    spec.check(model(name)).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn the_405b_of_mlperf() {
    let sizes = check("llama3.1-405b", &llama_405b());
    assert_eq!((sizes.data, sizes.micros(), sizes.schedule.name()), (4, 288, "interleaved"));
    assert_eq!(
        sizes.to_string(),
        "512 GPUs: tp 8 · cp 2 · pp 8 · dp 4, interleaved over 8 chunks, 288 micro batches of 1 × 8192 tokens"
    );
    assert!(sizes.sequence_parallel);
    // 126 layers are 64 chunks of two, less one each for embedding and head.
    assert_eq!(sizes.chunk_layers.iter().sum::<u64>(), 126);
    assert_eq!((sizes.chunk_layers[0], sizes.chunk_layers[1], sizes.chunk_layers[63]), (1, 2, 1));
    assert_eq!(sizes.layers_of(0, 0), 0..1);
    assert_eq!(sizes.layers_of(0, 1), 15..17);
    assert_eq!(sizes.layers_of(7, 7), 125..126);
    assert_eq!(sizes.layers_of_stage(model("llama3.1-405b"), 3), (16, 0));
}

#[test]
fn megatrons_default_order() {
    // t = 8, c = 2, d = 4, p = 8: TP of consecutive ranks, then CP, DP, and PP in blocks of G/p.
    let ranks = Ranks::new(&Order::default(), &check("llama3.1-405b", &llama_405b())).unwrap();
    assert_eq!(ranks.group(Group::Tensor, 11), (8..16).collect::<Vec<_>>());
    assert_eq!(ranks.group(Group::Context, 11), [3, 11]);
    assert_eq!(ranks.group(Group::Data, 11), [11, 27, 43, 59]);
    assert_eq!(ranks.group(Group::DataContext, 11), [3, 11, 19, 27, 35, 43, 51, 59]);
    assert_eq!(ranks.group(Group::Pipeline, 11), (0..8).map(|s| 11 + 64 * s).collect::<Vec<_>>());
    assert_eq!(ranks.group(Group::Ends, 11), [11, 11 + 448]);
    let at = ranks.coordinates(11 + 64 * 5);
    assert_eq!((at.tensor, at.context, at.data, at.stage), (3, 1, 0, 5));
}

#[test]
fn a_replica_on_consecutive_ranks() {
    let ranks = Ranks::new(&"tp-cp-pp-dp".parse().unwrap(), &check("llama3.1-405b", &llama_405b())).unwrap();
    assert_eq!(ranks.group(Group::Pipeline, 0), (0..8).map(|s| 16 * s).collect::<Vec<_>>());
    assert_eq!(ranks.group(Group::Data, 0), [0, 128, 256, 384]);
    // All of a replica in an NVL72 of 18 trays, 64 ranks of it used: PP never leaves the rack of a 64-GPU replica.
    let spec = SizesSpec { gpus: 512, tensor: 4, virtual_stages: 8, ..llama_405b() };
    let ranks = Ranks::new(&"tp-cp-pp-dp".parse().unwrap(), &check("llama3.1-405b", &spec)).unwrap();
    let racks = Placement { nodes_per_domain: 18, segment: Some(64), ..Placement::nodes_of(4) };
    racks.check(512).unwrap();
    for group in ranks.groups(Group::Pipeline).iter().chain(&ranks.groups(Group::Tensor)) {
        assert_eq!(racks.spread(group).domains, 1);
    }
    assert!(racks.spread(&ranks.group(Group::Data, 0)).scales_out());
    // In the default order each stage is a rack, and the pipeline crosses all.
    let ranks = Ranks::new(&Order::default(), &check("llama3.1-405b", &spec)).unwrap();
    assert_eq!(racks.spread(&ranks.group(Group::Pipeline, 0)).domains, 8);
    // 64 of 72: the second rack's first rank is on its first tray.
    assert_eq!((racks.place(63).node, racks.place(64).node, racks.place(64).domain), (15, 18, 1));
}

#[test]
fn experts_fold_over_the_ranks_of_dense_layers() {
    // 16 ranks, t = 2, dp = 8; e = 4, te = 2, so edp = 2.
    let spec = SizesSpec { gpus: 16, tensor: 2, expert: 4, expert_tensor: 2, global_batch: 8, ..SizesSpec::default() };
    let sizes = check("qwen3-30b-a3b", &spec);
    let ranks = Ranks::new(&Order::default(), &sizes).unwrap();
    assert_eq!(ranks.group(Group::Expert, 1), [1, 3, 5, 7]);
    assert_eq!(ranks.group(Group::ExpertTensor, 1), [0, 1]);
    assert_eq!(ranks.group(Group::ExpertData, 1), [1, 9]);
    assert_eq!(ranks.group(Group::Data, 1), (0..8).map(|i| 1 + 2 * i).collect::<Vec<_>>());
    // Over all ranks of a stage: nobody else has the same expert.
    let all = check("qwen3-30b-a3b", &SizesSpec { expert: 16, expert_tensor: 1, ..spec });
    assert_eq!(all.expert_data(), 1);
}

#[test]
fn stages_must_be_the_same_for_experts() {
    let spec = SizesSpec { gpus: 64, tensor: 2, pipeline: 4, expert: 4, global_batch: 64, ..SizesSpec::default() };
    let sizes = check("qwen3-30b-a3b", &spec);
    let fault = Ranks::new(&"tp-cp-pp-ep-dp".parse().unwrap(), &sizes).unwrap_err();
    assert!(fault.to_string().contains("`tp · cp = etp` must hold"), "{fault}");
    assert!(Ranks::new(&"tp-cp-ep-dp-pp".parse().unwrap(), &sizes).is_ok());
    // 2 ranks inside `pp` either way: e·te = t·c.
    let sizes = check("qwen3-30b-a3b", &SizesSpec { expert: 2, ..spec });
    assert!(Ranks::new(&"tp-cp-ep-pp-dp".parse().unwrap(), &sizes).is_ok());
}

#[test]
fn orders_that_are_none() {
    let parse = |t: &str| t.parse::<Order>().unwrap_err();
    assert_eq!(parse("tp-dp-tp"), OrderFault::Twice("tp"));
    assert!(matches!(parse("tp-xx"), OrderFault::Unknown(_)));
    assert!(matches!(parse(""), OrderFault::Unknown(_)));
    let sizes = check("llama3.1-405b", &llama_405b());
    let fault = Ranks::new(&"tp-cp-dp".parse().unwrap(), &sizes).unwrap_err();
    assert_eq!(fault.to_string(), "the rank order `tp-cp-dp` leaves out `pp`, which is 8: for instance `tp-cp-dp-pp`");
}

#[test]
fn rails_and_nodes() {
    let ranks = Ranks::new(&Order::default(), &check("llama3.1-405b", &llama_405b())).unwrap();
    let board = Placement::nodes_of(8);
    // t = n: the peers of DP and PP are on one rail.
    for group in [Group::Data, Group::Pipeline] {
        assert!(board.spread(&ranks.group(group, 5)).stays_on_rail());
    }
    assert!(!board.spread(&ranks.group(Group::Tensor, 5)).scales_out());
    // A group of more than a domain has traffic that leaves it.
    let rack = Placement { nodes_per_domain: 18, ..Placement::nodes_of(4) };
    assert!(!rack.spread(&(0..72).collect::<Vec<_>>()).scales_out());
    assert!(rack.spread(&(0..73).collect::<Vec<_>>()).scales_out());
    // Four of a DP group of stride 2 share a board of 8.
    assert_eq!(board.spread(&(0..16).map(|i| 2 * i).collect::<Vec<_>>()).most_in_domain, 4);
    let eos = Placement { locals: Some(vec![0, 4, 2, 6, 1, 5, 3, 7]), ..board.clone() };
    eos.check(512).unwrap();
    assert_eq!((eos.place(9).local, eos.gpu(9)), (4, 12));
    assert!(Placement { locals: Some(vec![0, 0, 2, 6, 1, 5, 3, 7]), ..board.clone() }.check(8).is_err());
    let fault = Placement { segment: Some(70), nodes_per_domain: 18, ..Placement::nodes_of(4) }.check(512).unwrap_err();
    assert!(fault[0].to_string().contains("near: segment = 64, 68 or 72"), "{}", fault[0]);
    assert!(Placement::nodes_of(0).check(8).is_err());
}

#[test]
fn groups_that_leave_the_scale_up_network_are_told() {
    let spec = SizesSpec { gpus: 32, tensor: 16, global_batch: 2, ..SizesSpec::default() };
    let ranks = Ranks::new(&Order::default(), &check("llama3-70b", &spec)).unwrap();
    let fault = Placement::nodes_of(8).within_domain(&ranks, Group::Tensor).unwrap_err().to_string();
    assert_eq!(
        fault,
        "`one scale-up domain a group` does not hold: a group of 16 ranks is on 2 domains of 8 GPUs, at most 8 in one; near: tp = 4 or 8"
    );
    // The same group in an NVL72 of trays of four.
    let rack = Placement { nodes_per_domain: 18, ..Placement::nodes_of(4) };
    assert!(rack.within_domain(&ranks, Group::Tensor).is_ok());
    assert!(Placement::nodes_of(8).within_domain(&ranks, Group::Pipeline).is_ok());
}

#[test]
fn faults_name_the_relation_and_what_would_do() {
    let base = llama_405b();
    let m = "llama3.1-405b";
    let text = messages(m, &SizesSpec { tensor: 7, ..base.clone() });
    assert!(
        text.contains(&"`heads % tp = 0` does not hold: heads = 128, tp = 7; near: tp = 2, 4, 8 or 16".to_owned()),
        "{text:?}"
    );
    let text = messages(m, &SizesSpec { data: Some(5), ..base.clone() });
    assert_eq!(
        text[0],
        "`tp · cp · pp · dp = gpus` does not hold: 8 · 2 · 8 · 5 = 640, gpus = 512; it would with dp = 4 or gpus = 640"
    );
    let text = messages(m, &SizesSpec { gpus: 520, ..base.clone() });
    assert!(text[0].contains("gpus = 512 or gpus = 640"), "{text:?}");
    let text = messages(m, &SizesSpec { split: Split::Even, ..base.clone() });
    assert_eq!(
        text,
        ["`layers % (pp · vp) = 0` does not hold: 126 layers, pp = 8, vp = 8; near: pp · vp = 42, 63 or 126"]
    );
    let text = messages(m, &SizesSpec { global_batch: 1150, ..base.clone() });
    assert!(text[0].ends_with("near: global_batch = 1148 or 1152"), "{text:?}");
    let text = messages(m, &SizesSpec { global_batch: 4 * 12, ..base.clone() });
    assert!(text[0].contains("m % pp = 0"), "{text:?}");
    let text = messages(m, &SizesSpec { sequence: 8190, ..base.clone() });
    assert_eq!(
        text,
        [
            "`sequence % (2 · cp · tp) = 0` does not hold: sequence = 8190, cp = 2, tp = 8; near: sequence = 8160 or 8192"
        ]
    );
    let text = messages(m, &SizesSpec { expert: 2, ..base.clone() });
    assert!(text[0].starts_with("expert parallelism needs a model with experts"), "{text:?}");
    let ulysses = SizesSpec { context_kind: ContextKind::AllToAll, context: 3, gpus: 768, ..base.clone() };
    assert!(messages(m, &ulysses).iter().any(|t| t.contains("(heads / tp) % cp = 0")));
    let zeros = SizesSpec { tensor: 0, pipeline: 0, global_batch: 0, gpus: u64::MAX, ..base.clone() };
    assert_eq!(messages(m, &zeros).len(), 4);
    let text = messages(m, &SizesSpec { shard: Some(3), ..base });
    assert!(text[0].ends_with("near: shard = 1, 2, 4 or 8"), "{text:?}");
}

#[test]
fn experts_over_ranks_of_an_nvl72() {
    let spec = |gpus, expert| SizesSpec { gpus, expert, global_batch: gpus, ..SizesSpec::default() };
    // 64 of 72: four experts a GPU. All 72: 256 are not whole, 288 slots are, 32 of them redundant.
    assert!(spec(64, 64).check(model("deepseek-v3")).is_ok());
    let text = messages("deepseek-v3", &spec(72, 72));
    assert_eq!(
        text,
        ["`experts % ep = 0` does not hold: experts = 256, ep = 72; near: ep = 32, 64, 128 or 256; or 32 redundant \
          experts, for 288 slots of 4 a rank"]
    );
    let text = messages("deepseek-v3", &spec(512, 512));
    assert!(text[0].starts_with("`ep <= experts` does not hold"), "{text:?}");
}

fn any_spec() -> impl Strategy<Value = SizesSpec> {
    let size = || prop_oneof![Just(1u64), Just(2), Just(3), Just(4), Just(8)];
    (size(), size(), size(), size(), size(), size(), size()).prop_map(|(t, c, d, p, e, te, k)| SizesSpec {
        gpus: t * c * d * p,
        tensor: t,
        context: c,
        data: Some(d),
        pipeline: p,
        expert: e,
        expert_tensor: te,
        zero: Zero::Optimizer,
        shard: Some(k),
        global_batch: d * 8,
        sequence: 9 * 1024,
        ..SizesSpec::default()
    })
}

#[test]
fn kernels_multiply_by_the_weights_that_a_rank_holds() {
    for name in ["llama3-70b", "deepseek-v3"] {
        let m = model(name);
        for tensor in [1, 2, 8] {
            let sizes = SizesSpec { gpus: 8, tensor, global_batch: 8, ..SizesSpec::default() }.check(m).unwrap();
            let weights = |work: Work| if let Work::Gemm { n, k, .. } = work { n * k } else { 0 };
            let multiplied: u64 = m.layer_kernels(0, &sizes.share()).iter().map(|kernel| weights(kernel.work)).sum();
            // Beside them norms: two of the width, and those of MLA's latent vectors.
            let norms = 2 * m.hidden + if name == "deepseek-v3" { 1536 + 512 } else { 0 };
            assert_eq!(multiplied + norms, Local::of_layer(m, &sizes, LayerKind::Dense).dense, "{name} over {tensor}");
        }
    }
}

#[test]
fn biases_of_columns_are_divided() {
    let dims = ModelSpec { layers: 2, hidden: 64, heads: 8, ffn: 256, vocab: 512, ..ModelSpec::default() };
    let of = |biases, tensor| {
        let m = ModelSpec { biases, ..dims.clone() }.check().unwrap();
        let sizes = SizesSpec { gpus: 8, tensor, global_batch: 8, ..SizesSpec::default() }.check(&m).unwrap();
        Local::of_layer(&m, &sizes, LayerKind::Dense).dense
    };
    let gate = u64::from(dims.gated);
    for tensor in [1, 4] {
        // Of Q, K, V and into the FFN; of what comes out of attention and of the FFN each rank adds all.
        assert_eq!(of(true, tensor) - of(false, tensor), (3 * 64 + (1 + gate) * 256) / tensor + 2 * 64);
    }
}

proptest! {
    #[test]
    fn groups_partition_the_ranks(spec in any_spec(), order in prop::sample::select(vec![
        "tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp", "pp-dp-ep-cp-tp", "dp-tp-cp-ep-pp", "tp-cp-ep-pp-dp",
    ])) {
        let Ok(sizes) = spec.check(model("qwen3-30b-a3b")) else { return Ok(()) };
        let Ok(ranks) = Ranks::new(&order.parse().unwrap(), &sizes) else { return Ok(()) };
        for kind in Group::ALL {
            let groups = ranks.groups(kind);
            let mut all: Vec<u64> = groups.iter().flatten().copied().collect();
            all.sort_unstable();
            for group in &groups {
                prop_assert_eq!(group.len() as u64, kind.size(&sizes), "{:?}", kind);
                // Each member's group is the same.
                for rank in group {
                    prop_assert_eq!(&ranks.group(kind, *rank), group);
                }
            }
            if kind != Group::Ends {
                prop_assert_eq!(all, (0..sizes.gpus).collect::<Vec<_>>(), "{:?}", kind);
            }
        }
        for rank in 0..sizes.gpus {
            let at = ranks.coordinates(rank);
            prop_assert_eq!(ranks.group(Group::Tensor, rank)[at.tensor as usize], rank);
            prop_assert_eq!(ranks.group(Group::Pipeline, rank)[at.stage as usize], rank);
            prop_assert_eq!(ranks.group(Group::Expert, rank)[at.expert as usize], rank);
            prop_assert_eq!(ranks.group(Group::ExpertData, rank)[at.expert_data as usize], rank);
            // A rank's expert group lies in its stage.
            for peer in ranks.group(Group::Expert, rank) {
                prop_assert_eq!(ranks.coordinates(peer).stage, at.stage);
            }
        }
    }

    #[test]
    fn no_sizes_make_it_panic(raw in prop::collection::vec(prop_oneof![0u64..10, Just(1 << 20), any::<u64>()], 12)) {
        let spec = SizesSpec {
            gpus: raw[0], tensor: raw[1], context: raw[2], expert: raw[3], expert_tensor: raw[4], data: Some(raw[5]),
            pipeline: raw[6], virtual_stages: raw[7], shard: Some(raw[8]), micro_batch: raw[9], global_batch: raw[10],
            sequence: raw[11], ..SizesSpec::default()
        };
        for name in ["qwen3-30b-a3b", "llama3-70b", "deepseek-v3"] {
            let _ = spec.check(model(name));
            let _ = SizesSpec { data: None, shard: None, ..spec.clone() }.check(model(name));
        }
    }

    #[test]
    fn the_nearest_choices_hold(t in 1u64..40, e in 1u64..40) {
        let spec = SizesSpec { gpus: t * 64, tensor: t, expert: e, global_batch: 64, sequence: 64 * 5040, ..SizesSpec::default() };
        let m = model("qwen3-30b-a3b");
        for fault in spec.check(m).err().unwrap_or_default() {
            if let super::SizeFault::Rule { key: "tp", near, rule: "heads % tp = 0", .. } = fault {
                for tensor in near.values() {
                    let again = SizesSpec { gpus: tensor * 64, tensor: *tensor, ..spec.clone() }.check(m);
                    let again: Vec<String> = again.err().unwrap_or_default().iter().map(ToString::to_string).collect();
                    prop_assert!(again.iter().all(|f| !f.contains("heads % tp")), "{again:?}");
                }
            }
        }
    }
}
