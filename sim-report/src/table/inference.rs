//! Inference and long runs as text.

use core::fmt::Write as _;

use sim_core::units::Bytes;

use super::csv_file::write_csv;
use super::text::{Align, TextTable, number, time_text};
use crate::result::{InferenceOutline, InferenceResult, LongRunResult, Quantiles};

/// The answer in one line.
#[must_use]
pub fn inference_headline(result: &InferenceResult) -> String {
    let mut out = format!("{} on {} GPUs: ", result.name, result.gpus);
    match (&result.served, &result.goodput) {
        (Some(served), goodput) => {
            let _ = write!(
                out,
                "first token after {:.0} ms, then {:.1} ms each (medians), {:.0} tokens/s, {:.0} of a GPU",
                served.ttft.p50_ms, served.tpot.p50_ms, served.output_tokens_per_s, served.output_tokens_per_s_per_gpu
            );
            if let Some(goodput) = goodput {
                let _ = write!(out, "; goodput {} requests/s", number(goodput.rate, 3));
            }
        }
        (None, _) => {
            let steps: Vec<String> = result
                .pools
                .iter()
                .flat_map(|pool| &pool.steps)
                .map(|s| format!("{} of {} x {} tokens {}", s.phase, s.sequences, s.tokens, time_text(s.time_us)))
                .collect();
            out += &steps.join(", ");
        }
    }
    out.push('.');
    out
}

/// What inference came to: pools, steps, calls, requests.
#[must_use]
pub fn inference_text(result: &InferenceResult) -> String {
    let mut out = String::new();
    let name = if result.model.starts_with(&result.name) { String::new() } else { format!("{}: ", result.name) };
    let _ = writeln!(out, "inference {name}{}", result.model);
    let _ = writeln!(
        out,
        "  kernels  {}; {} calls of different sizes played over the fabric",
        result.kernels, result.calls_played
    );
    for pool in &result.pools {
        let _ = writeln!(
            out,
            "  {:8} {} x {} GPUs ({}); a GPU holds {} of weights and {} of cache a token, an instance {} tokens",
            pool.pool,
            pool.instances,
            pool.gpus,
            pool.sizes,
            Bytes::new(pool.weights_bytes),
            Bytes::new(pool.cache_bytes_per_token),
            pool.cache_tokens
        );
    }
    let mut table = TextTable::new([
        ("pool", Align::Left),
        ("step", Align::Left),
        ("sequences", Align::Right),
        ("tokens", Align::Right),
        ("time", Align::Right),
        ("kernels", Align::Right),
        ("messages", Align::Right),
        ("tokens/s/GPU", Align::Right),
    ]);
    for pool in &result.pools {
        for step in &pool.steps {
            table.row(vec![
                pool.pool.clone(),
                step.phase.clone(),
                step.sequences.to_string(),
                step.tokens.to_string(),
                time_text(step.time_us),
                time_text(step.kernels_us),
                time_text(step.messages_us),
                format!("{:.0}", step.tokens_per_s_per_gpu),
            ]);
        }
    }
    let _ = write!(out, "\n{}", table.render());
    let calls = result.pools.last().filter(|pool| !pool.calls.is_empty());
    if let Some(pool) = calls {
        let mut table = TextTable::new([
            ("call of the last step", Align::Left),
            ("ranks", Align::Right),
            ("size", Align::Right),
            ("count", Align::Right),
            ("each", Align::Right),
        ]);
        for call in &pool.calls {
            table.row(vec![
                call.name.clone(),
                call.ranks.to_string(),
                Bytes::new(call.bytes).to_string(),
                call.count.to_string(),
                time_text(call.time_us),
            ]);
        }
        let _ = write!(out, "\n{}", table.render());
    }
    if let Some(served) = &result.served {
        let mut table = TextTable::new([
            ("requests", Align::Left),
            ("mean", Align::Right),
            ("p50", Align::Right),
            ("p90", Align::Right),
            ("p99", Align::Right),
        ]);
        let mut row = |name: &str, q: &Quantiles| {
            let ms = |v: f64| time_text(v * 1e3);
            table.row(vec![name.to_owned(), ms(q.mean_ms), ms(q.p50_ms), ms(q.p90_ms), ms(q.p99_ms)]);
        };
        row("waiting", &served.waiting);
        if let Some(transfer) = &served.transfer {
            row("transfer of the cache", transfer);
        }
        row("first token (TTFT)", &served.ttft);
        row("each further token (TPOT)", &served.tpot);
        row("last token", &served.all);
        let _ = write!(out, "\n{}", table.render());
        let busy: Vec<String> = served.busy.iter().map(|b| format!("{:.0} %", b * 100.0)).collect();
        let _ = writeln!(
            out,
            "{} requests in {:.1} s: {:.0} tokens/s out ({:.0} a GPU), {:.0} in; busy {}; cache {:.0} % (at most {:.0} %); {:.1} \
             sequences a step",
            served.requests,
            served.seconds,
            served.output_tokens_per_s,
            served.output_tokens_per_s_per_gpu,
            served.input_tokens_per_s,
            busy.join(" and "),
            served.cache.0 * 100.0,
            served.cache.1 * 100.0,
            served.batch
        );
        if let Some(share) = served.in_time {
            let _ = writeln!(out, "{:.1} % of requests within the limits", share * 100.0);
        }
        if let (Some(millions), Some(price)) = (served.output_mtokens_per_usd, &result.price) {
            let between = served.output_mtokens_per_usd_range.map_or_else(String::new, |(low, high)| {
                let (least, most) = (price.min_usd_per_hour, price.max_usd_per_hour);
                format!(" ({} to {} at {most} to {least} USD an hour)", number(low, 3), number(high, 3))
            });
            let from = &price.source;
            let _ = writeln!(out, "{} million tokens out for a dollar{between}; price: {from}", number(millions, 3));
        }
    }
    if let Some(goodput) = &result.goodput {
        let (ttft, tpot, share) = goodput.limits;
        let _ = writeln!(
            out,
            "goodput: {} requests/s ({} a GPU) with {:.0} % of {} within {} and {} a token{}",
            number(goodput.rate, 3),
            number(goodput.rate_per_gpu, 3),
            share * 100.0,
            goodput.requests,
            time_text(ttft * 1e3),
            time_text(tpot * 1e3),
            if goodput.unbounded { "; faster was not tried" } else { "" }
        );
    }
    out
}

/// What a workload of inference is made of: instances, memory, kernels, messages.
#[must_use]
pub fn inference_outline_text(outline: &InferenceOutline) -> String {
    let mut out = String::new();
    let name = if outline.model.starts_with(&outline.name) { String::new() } else { format!("{}: ", outline.name) };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "inference {name}{}, on {} GPUs", outline.model, outline.gpus);
    let _ = writeln!(
        out,
        "  memory   {} of a GPU for weights and cache; kernels: {}",
        Bytes::new(outline.memory_bytes),
        outline.kernels
    );
    for pool in &outline.pools {
        let _ = writeln!(
            out,
            "  {:8} {} x {} GPUs ({}); a GPU holds {} of weights and {} of cache a token, an instance {} tokens",
            pool.pool,
            pool.instances,
            pool.gpus,
            pool.sizes,
            Bytes::new(pool.weights_bytes),
            Bytes::new(pool.cache_bytes_per_token),
            pool.cache_tokens
        );
    }
    let columns = [
        ("pool", Align::Left),
        ("step", Align::Left),
        ("sequences", Align::Right),
        ("tokens", Align::Right),
        ("kernels", Align::Right),
    ];
    let mut table = TextTable::new(columns);
    for (pool, step) in outline.pools.iter().flat_map(|pool| pool.steps.iter().map(move |step| (pool, step))) {
        table.row([
            pool.pool.clone(),
            step.phase.clone(),
            step.sequences.to_string(),
            step.tokens.to_string(),
            time_text(step.kernels_us),
        ]);
    }
    let _ = write!(out, "\n{}", table.render());
    let mut table = TextTable::new([
        ("message of the last step", Align::Left),
        ("pool", Align::Left),
        ("ranks", Align::Right),
        ("size", Align::Right),
        ("count", Align::Right),
    ]);
    let mut any = false;
    for (pool, call) in outline.pools.iter().flat_map(|pool| pool.calls.iter().map(move |call| (pool, call))) {
        any = true;
        table.row([
            call.name.clone(),
            pool.pool.clone(),
            call.ranks.to_string(),
            Bytes::new(call.bytes).to_string(),
            call.count.to_string(),
        ]);
    }
    if any {
        let _ = write!(out, "\n{}", table.render());
    }
    out
}

/// Writes the steps of all pools, one per line.
///
/// # Errors
/// If writing fails.
pub fn inference_csv(out: impl std::io::Write, all: &[InferenceResult]) -> Result<(), csv::Error> {
    let header = [
        "workload",
        "pool",
        "phase",
        "sequences",
        "tokens",
        "time_us",
        "kernels_us",
        "messages_us",
        "tokens_per_s_per_gpu",
    ];
    let pools = all.iter().flat_map(|one| one.pools.iter().map(move |pool| (one, pool)));
    let rows = pools.flat_map(|(one, pool)| {
        pool.steps.iter().map(move |s| {
            let what = (one.name.as_str(), pool.pool.as_str(), s.phase.as_str(), s.sequences, s.tokens);
            (what, s.time_us, s.kernels_us, s.messages_us, s.tokens_per_s_per_gpu)
        })
    });
    write_csv(out, &header, rows)
}

/// The answer in one line.
#[must_use]
pub fn long_run_headline(result: &LongRunResult) -> String {
    format!(
        "{} GPUs, a failure every {} h: {:.1} % of the time is work that lasts, with a checkpoint every {}.",
        result.gpus,
        number(result.hours_between, 3),
        result.effective * 100.0,
        time_text(result.interval_s * 1e6)
    )
}

/// What a long run came to.
#[must_use]
pub fn long_run_text(result: &LongRunResult) -> String {
    let mut out = String::new();
    let s = |seconds: f64| time_text(seconds * 1e6);
    let _ = writeln!(
        out,
        "interval {} (Young {}, Daly {}), pause {}, restart {}",
        s(result.interval_s),
        s(result.young_s),
        s(result.daly_s),
        s(result.pause_s),
        s(result.restart_s)
    );
    let _ = writeln!(
        out,
        "effective {:.2} % by Daly's closed form; {:.2} % over {} days with {} failures ({:.0} of them by the network, on average)",
        result.effective * 100.0,
        result.effective_played * 100.0,
        number(result.days, 3),
        result.failures,
        result.network_failures
    );
    let _ = writeln!(
        out,
        "lost {} days of work, {} days of checkpoints, {} days of restarts",
        number(result.lost_days, 3),
        number(result.paused_days, 3),
        number(result.restarting_days, 3)
    );
    out
}
