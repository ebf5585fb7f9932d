//! Keys of a workload of inference that were written and have no effect.

use sim_workload::serving::requests::Arrivals;

use super::super::step::Asked;
use super::Inference;
use crate::diagnostic::{Code, Diagnostics};

/// Keys that only requests look at.
const OF_REQUESTS: [&str; 10] = [
    "arrivals",
    "rate",
    "variation",
    "warm",
    "slo",
    "order",
    "max_batch",
    "max_tokens",
    "prompt_variation",
    "output_variation",
];
/// Of the table `decode`.
const OF_CACHES: [&str; 8] = ["max_batch", "by_layer", "nics", "nic", "nic_share", "block", "per_block", "base"];
/// Keys that only models of experts look at.
const OF_EXPERTS: [&str; 4] = ["imbalance", "expert_kernel", "expert_kernel_prefill", "dispatch"];

/// Warns of keys that have no effect, and says why.
pub(super) fn keys(asked: &Asked<'_>, inference: &Inference, out: &mut Diagnostics) {
    let view = &asked.view;
    let mut idle = |key: String, why: &str| {
        out.push(asked.fault(Code::NoEffect, format!("`{key}` has no effect"), &[&key], why));
    };
    let decode = view.table("decode");
    if !inference.serves {
        let why = "without `requests` nothing is served: only steps are timed";
        OF_REQUESTS.into_iter().filter(|key| view.has(key)).for_each(|key| idle(key.to_owned(), why));
        if let Some(decode) = &decode {
            let written = OF_CACHES.into_iter().filter(|key| decode.has(key));
            written.for_each(|key| idle(format!("decode.{key}"), why));
        }
    } else {
        let arrivals = inference.demand.arrivals;
        if matches!(arrivals, Arrivals::AtOnce) && view.has("rate") {
            idle("rate".to_owned(), "all requests come at once");
        }
        if !matches!(arrivals, Arrivals::Gamma { .. }) && view.has("variation") {
            idle("variation".to_owned(), "only arrivals = \"gamma\" looks at it");
        }
        if let Some(decode) = &decode {
            for (key, why) in super::of_one_nic(decode) {
                idle(format!("decode.{key}"), why);
            }
        }
    }
    let grouped = inference.pools().any(|pool| pool.shape.expert > 1);
    if !grouped {
        let why = match inference.model.experts {
            None => "the model has no experts",
            Some(_) => "all ranks have all experts: it counts with `ep` above 1",
        };
        OF_EXPERTS.into_iter().filter(|key| view.has(key)).for_each(|key| idle(key.to_owned(), why));
    }
    if inference.pools().all(|pool| pool.shape.tensor == 1) && view.has("all_reduce") {
        idle("all_reduce".to_owned(), "nothing is summed with tp = 1");
    }
    let sends = inference.pools().any(|pool| pool.shape.tensor > 1 || pool.shape.expert > 1);
    if !sends && inference.two_batches {
        idle("two_batches".to_owned(), "layers send nothing that could go beside kernels");
    }
}
