//! The keys of a step's `[workload.experts]`.

use super::step::NUMBERS;
use super::{Kind, TableSpec, key};

/// What takes tokens to experts.
pub(crate) const KERNELS: &[&str] = &["nccl", "deepep-normal", "deepep-low-latency"];

pub(super) static EXPERTS: TableSpec = TableSpec {
    name: "workload.step.experts",
    doc: "What is sent to experts and what comes back, by which kernels, and how uneven loads of experts are. Without `shares`, `zipf` or `hot` \
          all experts get as many tokens.",
    keys: &[
        key(
            "copies",
            Kind::Choice(&["expert", "rank"]),
            "A token is sent once for each of its experts, or once for each rank that holds some of them. DeepEP's kernels have rules of \
             their own.",
        )
        .default("expert"),
        key("dispatch", Kind::Choice(NUMBERS), "The numbers in which tokens are sent; fp8 with an fp32 scale for 128.")
            .default("bf16"),
        key("combine", Kind::Choice(NUMBERS), "The numbers in which results come back.").default("bf16"),
        key(
            "kernel",
            Kind::Choice(KERNELS),
            "What takes them there: grouped sends and receives; DeepEP's normal kernels, which send a token once to each node and hand it on \
             there over NVLink; or its low-latency kernels, which send it to each expert's rank directly.",
        )
        .default("nccl"),
        key(
            "sms",
            Kind::Integer(2, 1 << 10),
            "Processors (SMs) of the GPU that DeepEP's normal kernels take while they run, two for a channel. Other kernels are slower beside \
             them by that part. Without it, 20, DeepEP's own default.",
        ),
        key(
            "shares",
            Kind::List(&Kind::Number(0.0, 1e9)),
            "What each expert gets, expert by expert, in any unit: loads that were measured. Rank i of a group has experts i x E / ep and on.",
        ),
        key(
            "zipf",
            Kind::Number(0.0, 4.0),
            "The i-th most wanted expert gets a part in proportion to i^-zipf; which one that is, is drawn.",
        ),
        key(
            "hot",
            Kind::Number(1.0, 1e6),
            "The load of the fullest rank over the mean; its experts get as much each, and all others the rest. It is the first rank of \
             each group, or drawn.",
        ),
        key(
            "draws",
            Kind::Integer(1, 64),
            "Draws of which expert gets which part. Each micro batch and layer has one of them, by the scenario's seed, in both passes; so many \
             different messages are simulated. With 1 all layers and micro batches want the same experts.",
        )
        .default("1"),
        key(
            "capacity",
            Kind::Number(0.01, 1e6),
            "An expert takes at most so many times the mean of even loads; tokens that are over are dropped for it, and not sent.",
        ),
        key("pad", Kind::Boolean, "Every expert gets as much as its capacity, empty places among it. Needs `capacity`.")
            .default("false"),
    ],
};
