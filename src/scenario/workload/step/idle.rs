//! Keys of a step that change nothing with the sizes that it has.

use sim_workload::model::Model;
use sim_workload::parallel::{ContextKind, Sizes, Zero};

use super::Asked;
use crate::diagnostic::{Code, Diagnostics};

/// Warns of what is told of messages that there are not, and of layers that are dealt to one chunk.
pub(super) fn idle(asked: &Asked<'_>, sizes: &Sizes, model: &Model, out: &mut Diagnostics) {
    let overlap = asked.view.table_or_empty("overlap");
    let copies = sizes.data * sizes.context;
    let units = sizes.zero == Zero::Parameters;
    // Copies of shards are reduced behind them.
    let whole = units && asked.view.integer::<u64>("shard").is_none_or(|shard| shard == copies);
    let ahead = "units of ZeRO-3 are gathered and reduced one by one: `prefetch` says how far ahead";
    let shared = model.experts.is_some_and(|experts| experts.shared > 0);
    let reasons = [
        ("context", sizes.context == 1, "there is no context parallelism"),
        ("context", sizes.context_kind != ContextKind::Ring, "keys and values are sent on in a ring only"),
        ("pipeline", sizes.pipeline == 1, "there is a single stage"),
        ("experts", sizes.expert == 1, "there is no expert parallelism"),
        ("experts", !shared, "the model has no shared experts"),
        ("gradients", copies == 1, "dp · cp = 1: gradients are not reduced"),
        ("gradients", whole, ahead),
        ("parameters", copies == 1, "dp · cp = 1: parameters are not gathered"),
        ("parameters", units, ahead),
        ("parameters", sizes.zero == Zero::Replicated, "parameters are gathered only if states are divided: zero = 1"),
    ];
    let mut told: Vec<&str> = Vec::new();
    for (key, idle, why) in reasons {
        if idle && overlap.has(key) && !told.contains(&key) {
            told.push(key);
            let path = format!("overlap.{key}");
            out.push(asked.fault(Code::NoEffect, format!("`{path}` has no effect"), &[&path], why));
        }
    }
    if asked.view.has("split") && sizes.pipeline * sizes.virtual_stages == 1 {
        let why = "all layers are in one chunk: pp · vp = 1";
        out.push(asked.fault(Code::NoEffect, "`split` has no effect", &["split"], why));
    }
}
