//! Inference: steps of instances with their messages played over the fabric, and requests through them.

mod refused;

use std::collections::BTreeMap;
use std::time::Instant;

use sim_collectives::Machine;
use sim_collectives::experts::Experts;
use sim_core::network::Network;
use sim_core::outcome::StopReason;
use sim_core::random::mix;
use sim_core::units::Span;
use sim_report::result::{
    GoodputResult, GpuPriceResult, InferenceCall, InferencePool, InferenceResult, InferenceStep, Quantiles,
    ServedResult,
};
use sim_report::table::inference_headline;
use sim_topology::DeviceId;
use sim_workload::parallel::Group;
use sim_workload::serving::played::Played;
use sim_workload::serving::report::{self, Report};
use sim_workload::serving::server::{self, Deployment, Limits, Pool, ServeError};
use sim_workload::serving::step::Steps;
use sim_workload::serving::{Batch, Instance, goodput, requests};

use super::caches::Caches;
use super::{RunError, Sum, World};
use crate::scenario::{GpuPrice, Inference, Loaded, PoolSpec};
pub(super) use refused::refused;

/// Plays a workload of inference.
pub(super) fn play(world: &mut World<'_>, asked: &Inference, sum: &mut Sum) -> Result<bool, RunError> {
    let began = Instant::now();
    let what = format!("inference {}", asked.title());
    let fail = |why: String| RunError::Inference { what: what.clone(), why };
    let instances: Vec<Instance<'_>> = asked.pools().map(|pool| asked.instance(pool)).collect();
    let mut messages = Vec::new();
    for pool in asked.pools() {
        messages.push(played(world.loaded, world.by_library, asked, pool).map_err(&fail)?.limits(world.limits()));
    }
    let limits = |pool: &PoolSpec, instance: &Instance<'_>| Limits {
        // Engines count both for each rank that has requests of its own.
        sequences: pool.max_batch.saturating_mul(pool.shape.data),
        tokens: asked.max_tokens.saturating_mul(pool.shape.data),
        cache: instance.room(asked.memory),
    };
    let pools: Vec<Pool<'_>> = asked
        .pools()
        .zip(&instances)
        .zip(&messages)
        .map(|((pool, instance), messages)| Pool {
            steps: Steps::new(instance, messages),
            count: pool.replicas,
            limits: limits(pool, instance),
            order: asked.order,
        })
        .collect();
    let names = names(asked);
    let mut result = InferenceResult {
        name: asked.title().to_owned(),
        model: asked.model.to_string(),
        kernels: asked.rates.clone(),
        price: asked.price.as_ref().map(|price| GpuPriceResult {
            min_usd_per_hour: price.usd_per_hour.0,
            max_usd_per_hour: price.usd_per_hour.1,
            source: price.source.clone(),
        }),
        pools: pools
            .iter()
            .zip(asked.pools())
            .zip(names)
            .map(|((p, s), name)| outline(asked, p, s, name, names))
            .collect(),
        ..InferenceResult::default()
    };
    let over = (&world.loaded.fabric, world.network);
    let moves = asked.second.as_ref().map(|(second, moves)| Caches::new(over, asked, (second, moves), world.limits()));
    let deployment = match (pools.as_slice(), &moves) {
        ([first, second], Some(handover)) => Deployment::Apart { prefill: first, decode: second, handover },
        ([first, ..], _) => Deployment::Together(first),
        _ => return Ok(true),
    };
    result.gpus = deployment.gpus();
    let stopped = || {
        let plays = messages.iter().find_map(Played::stopped).or_else(|| moves.as_ref().and_then(Caches::stopped));
        plays.or_else(|| world.interrupted().then_some(StopReason::Interrupted))
    };
    let served = if asked.serves { served(asked, &deployment, &mut result, &|| stopped().is_some()) } else { Ok(()) };
    if let Some(reason) = stopped() {
        sum.stop(reason, what);
        return Ok(false);
    }
    let faults = messages.iter().filter_map(Played::fault);
    if let Some(why) = faults.chain(moves.as_ref().and_then(Caches::fault)).next() {
        return Err(fail(why));
    }
    served.map_err(|error| fail(error.to_string()))?;
    result.calls_played = messages.iter().map(|m| m.played() as u64).sum();
    world.one_done();
    sum.wall += began.elapsed();
    sum.headline = inference_headline(&result);
    sum.headline_us = result.pools.iter().flat_map(|p| &p.steps).map(|s| s.time_us).next_back().unwrap_or_default();
    if let Some(served) = &result.served {
        sum.headline_us = served.ttft.p50_ms * 1e3;
        sum.simulated += Span::from_us_f64(served.seconds * 1e6);
    }
    sum.stragglers = None;
    let text = serde_json::to_string(&result).unwrap_or_default();
    sum.fingerprint = text.bytes().fold(sum.fingerprint, |mark, byte| mix(mark ^ u64::from(byte)));
    sum.results.inference.push(result);
    Ok(true)
}

/// The calls of the first instance of a pool, by the engine.
fn played<'a>(
    loaded: &'a Loaded,
    by_library: &'a Network,
    asked: &Inference,
    pool: &PoolSpec,
) -> Result<Played<'a>, String> {
    let shape = pool.shape;
    let ranks = |count: u64, step: u64| -> Vec<u32> {
        (0..count).map(|i| pool.from + u32::try_from(i * step).unwrap_or(u32::MAX)).collect()
    };
    let mut machines: BTreeMap<Group, Machine<'a>> = BTreeMap::new();
    let mut add = |group, gpus: Vec<u32>| -> Result<(), String> {
        if gpus.len() > 1 {
            let mut machine = loaded.machine(&gpus).map_err(|e| e.to_string())?;
            // What the host takes is a matter of the step, not of each call in it.
            machine.launch.graph = true;
            machines.insert(group, machine);
        }
        Ok(())
    };
    add(Group::Tensor, ranks(shape.tensor, 1))?;
    if asked.model.experts.is_some() && shape.expert > 1 {
        add(Group::Expert, ranks(shape.expert, shape.stage() / shape.expert))?;
    }
    let fabric = &loaded.fabric;
    let gpu = |number: u64| -> Result<DeviceId, String> {
        let found = fabric.gpus().get(number as usize).copied();
        found.ok_or_else(|| format!("there is no GPU {number}"))
    };
    let pair = |stage: u64, rank: u64| {
        let from = u64::from(pool.from) + stage * shape.stage() + rank;
        Ok((gpu(from)?, gpu(from + shape.stage())?))
    };
    let stages = (1..shape.pipeline).map(|next| (0..shape.stage()).map(|rank| pair(next - 1, rank)).collect());
    let stages = stages.collect::<Result<Vec<_>, String>>()?;
    let mut out = Played::new(by_library, machines).stages(fabric, stages);
    if let Some(name) = asked.all_reduce {
        out = out.all_reduce(name);
    }
    if let Some(layer) = asked.model.experts {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let experts = Experts::free(number(layer.experts), number(layer.top_k));
        out = out.experts(experts, asked.expert_kernels);
    }
    Ok(out)
}

/// A step that shows a pool.
pub(super) struct Shown {
    pub(super) phase: &'static str,
    pub(super) sequences: u64,
    pub(super) tokens: u64,
    pub(super) batch: Batch,
}

/// The steps that show a pool; `names` are those of all pools.
pub(super) fn shown(asked: &Inference, spec: &PoolSpec, name: &str, names: &[&str]) -> Vec<Shown> {
    let prompt = asked.demand.prompts.mean();
    let data = spec.shape.data;
    let alone = names.len() == 1;
    let mut steps = Vec::new();
    if alone || name == "prefill" {
        // One prompt for each rank that has requests of its own.
        let batch = Batch::prefill(data, prompt);
        steps.push(Shown { phase: "prefill", sequences: data, tokens: prompt, batch });
    }
    if alone || name == "decode" {
        let context = asked.shown_context();
        steps.extend(asked.batches.iter().map(|&sequences| {
            let batch = Batch::decode(sequences, context);
            Shown { phase: "decode", sequences, tokens: context, batch }
        }));
    }
    steps
}

/// The names of pools.
pub(super) const fn names(asked: &Inference) -> &'static [&'static str] {
    if asked.second.is_none() { &["serving"] } else { &["prefill", "decode"] }
}

/// Sizes in words.
pub(super) fn sizes(spec: &PoolSpec) -> String {
    let shape = spec.shape;
    let mut sizes = format!("tp {}", shape.tensor);
    for (key, value) in [("pp", shape.pipeline), ("attention dp", shape.data), ("ep", shape.expert)] {
        if value > 1 {
            sizes += &format!(", {key} {value}");
        }
    }
    sizes
}

/// The middle of a price, dollars an hour.
fn middle(price: &GpuPrice) -> f64 {
    f64::midpoint(price.usd_per_hour.0, price.usd_per_hour.1)
}

/// What a pool is, with the steps that show it.
fn outline(asked: &Inference, pool: &Pool<'_>, spec: &PoolSpec, name: &str, names: &[&str]) -> InferencePool {
    let (instance, shape) = (pool.steps.instance, spec.shape);
    let shown = shown(asked, spec, name, names);
    let step = |s: &Shown| {
        let parts = pool.steps.time(&s.batch);
        let us = parts.total().as_us();
        let made = if s.phase == "prefill" { s.sequences * s.tokens } else { s.sequences };
        let each = made as f64 / us.max(1e-9) * 1e6 / shape.gpus() as f64;
        InferenceStep {
            phase: s.phase.to_owned(),
            sequences: s.sequences,
            tokens: s.tokens,
            time_us: us,
            kernels_us: parts.kernels.as_us(),
            messages_us: parts.messages.as_us(),
            tokens_per_s_per_gpu: each,
            mtokens_per_usd: asked.price.as_ref().map(|price| each * 3600.0 / middle(price) / 1e6),
        }
    };
    let steps = shown.iter().map(step).collect();
    let last = shown.last().filter(|s| s.phase == "decode");
    let share = last.map(|s| instance.calls(&s.batch.share(shape.data))).unwrap_or_default();
    let calls = share.iter().map(|c| call(pool, spec, c)).collect();
    let sizes = sizes(spec);
    InferencePool {
        pool: name.to_owned(),
        instances: spec.replicas.into(),
        gpus: shape.gpus(),
        sizes,
        weights_bytes: instance.weights().get(),
        cache_bytes_per_token: instance.cache_per_token().get(),
        cache_tokens: pool.limits.cache,
        calls,
        steps,
    }
}

/// Ranks of a kind of group.
pub(super) const fn ranks(spec: &PoolSpec, group: Group) -> u64 {
    match group {
        Group::Expert => spec.shape.expert,
        Group::Pipeline => 2,
        _ => spec.shape.tensor,
    }
}

fn call(pool: &Pool<'_>, spec: &PoolSpec, counted: &sim_workload::serving::messages::Counted) -> InferenceCall {
    let call = &counted.call;
    InferenceCall {
        name: call.name.to_owned(),
        ranks: ranks(spec, call.group),
        bytes: call.bytes.get(),
        count: counted.count,
        time_us: pool.steps.messages().time(call).as_us(),
    }
}

/// Serves what is asked, and looks for the goodput.
fn served(
    asked: &Inference,
    deployment: &Deployment<'_>,
    result: &mut InferenceResult,
    stop: &dyn Fn() -> bool,
) -> Result<(), ServeError> {
    let drawn = asked.demand.draw_until(stop).ok_or(ServeError::Stopped)?;
    let run = server::serve_until(deployment, &drawn, stop)?;
    let report = Report::of(&run, deployment, asked.warm);
    let quantiles = |q: report::Quantiles| Quantiles { mean_ms: q.mean, p50_ms: q.p50, p90_ms: q.p90, p99_ms: q.p99 };
    let apart = asked.second.is_some();
    result.served = Some(ServedResult {
        requests: report.requests,
        rate: match asked.demand.arrivals {
            requests::Arrivals::AtOnce => None,
            requests::Arrivals::Even { rate }
            | requests::Arrivals::Poisson { rate }
            | requests::Arrivals::Gamma { rate, .. } => Some(rate),
        },
        ttft: quantiles(report.ttft),
        tpot: quantiles(report.tpot),
        all: quantiles(report.all),
        waiting: quantiles(report.waiting),
        transfer: apart.then(|| quantiles(report.transfer)),
        seconds: report.seconds,
        output_tokens_per_s: report.output_per_s,
        output_tokens_per_s_per_gpu: report.output_per_gpu(),
        input_tokens_per_s: report.input_per_s,
        busy: report.busy.iter().copied().take(if apart { 2 } else { 1 }).collect(),
        cache: report.cache,
        batch: report.batch,
        in_time: asked.goal.map(|goal| report::in_time(&run, goal.slo, asked.warm)),
        output_mtokens_per_usd: asked.price.as_ref().map(|price| report.millions_per_usd(middle(price))),
        output_mtokens_per_usd_range: asked
            .price
            .as_ref()
            .map(|price| price.usd_per_hour)
            .filter(|(a, b)| a < b)
            .map(|(least, most)| (report.millions_per_usd(most), report.millions_per_usd(least))),
    });
    if let Some(goal) = asked.goal {
        let found = goodput::find(deployment, &asked.demand, goal, stop)?;
        result.goodput = Some(GoodputResult {
            rate: found.rate,
            rate_per_gpu: found.rate / deployment.gpus().max(1) as f64,
            unbounded: found.unbounded,
            limits: (goal.slo.ttft_ms, goal.slo.tpot_ms, goal.share),
            tried: found.tried,
            requests: found.requests,
        });
    }
    Ok(())
}
