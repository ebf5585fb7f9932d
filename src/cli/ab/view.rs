//! The answers of `ab` as text.

use core::fmt::Write as _;

use sim_core::units::Bytes;
use sim_report::result::{AbMessage, AbResults};

use super::Question;

pub(super) fn text(question: &Question, results: &AbResults) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let asked = !results.reach.is_empty() || results.message.is_some();
    if !asked || question.links.len() > 1 {
        table(question, results, &mut out);
    }
    if let Some(link) = question.links.first() {
        let answers: Vec<String> = results
            .reach
            .iter()
            .map(|r| {
                let size = r.bytes.map_or_else(|| "never".to_owned(), decimal);
                format!("reach {} ({:.3} %): {size}", gbps(r.target), 100.0 * r.target * 1e9 / link.model.beta)
                    .replace(".000 %", " %")
            })
            .collect();
        if !answers.is_empty() {
            let _ = writeln!(out, "{}", answers.join("      "));
        }
    }
    if let Some(answer) = &results.message {
        message(question, answer, &mut out);
    }
    out
}

fn table(question: &Question, results: &AbResults, out: &mut String) {
    let width = |name: &str| name.chars().count().max(9) + 2;
    let _ = write!(out, "{:<11}", "size");
    for link in &results.links {
        let _ = write!(out, "{:>1$}", link.name, width(&link.name));
    }
    let _ = writeln!(out, "   achieved GB/s, one way");
    for (i, size) in question.sizes.iter().enumerate() {
        let _ = write!(out, "{:<11}", size.to_string());
        for link in &results.links {
            let _ = write!(out, "{:>1$.1}", link.rows[i].achieved, width(&link.name));
        }
        out.push('\n');
    }
    let _ = write!(out, "{:<11}", "half rate");
    for link in &results.links {
        let _ = write!(out, "{:>1$}", binary(link.half_bandwidth_bytes), width(&link.name));
    }
    let _ = writeln!(out, "   half-bandwidth point, alpha x beta");
    let _ = write!(out, "{:<11}", "");
    for link in &results.links {
        let _ = write!(out, "{:>1$}", format!("{:.0} B", link.half_bandwidth_bytes), width(&link.name));
    }
    out.push('\n');
}

fn message(question: &Question, answer: &AbMessage, out: &mut String) {
    let share = |fixed: f64, time: f64| format!("{:.0} %", 100.0 * fixed / time);
    let Some(link) = question.links.first() else { return };
    let alpha_us = link.model.alpha * 1e6;
    let _ = writeln!(
        out,
        "message {}    one hop {}, {} fixed",
        Bytes::new(answer.bytes),
        us(answer.one_hop_us),
        share(answer.fixed_share, 1.0)
    );
    let (Some(ranks), Some(ring), Some(one), Some(two)) =
        (question.ranks, answer.ring_us, answer.one_shot_us, answer.two_shot_us)
    else {
        return;
    };
    let steps = 2.0 * (f64::from(ranks) - 1.0);
    let _ = writeln!(
        out,
        "as an all-reduce of {ranks}:  one-shot {} ({})   two-shot {} ({})   ring {} ({})   share that is fixed",
        us(one),
        share(alpha_us, one),
        us(two),
        share(2.0 * alpha_us, two),
        us(ring),
        share(steps * alpha_us, ring),
    );
    let mut order = [("one-shot", one), ("two-shot", two), ("ring", ring)];
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let _ = write!(out, "cheapest of these: {}", order[0].0);
    match (answer.one_shot_two_shot_bytes, answer.one_shot_ring_bytes) {
        (Some(two), Some(ring)) => {
            let _ = writeln!(out, "; one-shot beats two-shot below {}, the ring below {}", binary(two), binary(ring));
        }
        _ => out.push('\n'),
    }
}

fn us(us: f64) -> String {
    if us < 1000.0 { format!("{us:.2} µs") } else { format!("{:.3} ms", us / 1000.0) }
}

fn gbps(rate: f64) -> String {
    format!("{rate:.3} GB/s").replace(".000 ", " ")
}

/// KiB and the like with one decimal below 100 and none above.
fn binary(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b < 1024.0 => (b, "B"),
        b if b < 1_048_576.0 => (b / 1024.0, "KiB"),
        b if b < 1_073_741_824.0 => (b / 1_048_576.0, "MiB"),
        b => (b / 1_073_741_824.0, "GiB"),
    };
    match value {
        v if v < 10.0 => format!("{v:.2} {unit}"),
        v if v < 100.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// Decimal units, three decimals.
fn decimal(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.3} kB", b / 1e3),
        b if b < 1e9 => format!("{:.3} MB", b / 1e6),
        b => format!("{:.3} GB", b / 1e9),
    }
}
