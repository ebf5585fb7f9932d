//! The table of `place`.

use std::fmt::Write as _;

use sim_report::result::{PlacePart, PlaceResults};
use sim_report::table::{step_messages, time_text};

use super::candidates::words;
use crate::diagnostic::counted;

/// Rows that are shown at least, if there are so many.
const SHOWN: usize = 10;

/// The answer as text.
pub(super) fn table(name: &str, results: &PlaceResults) -> String {
    let mut out = String::new();
    let Some(best) = results.candidates.first() else { return out };
    let time = best.time_us.unwrap_or(best.estimate_us);
    let how = if best.time_us.is_some() { "" } else { " by the estimate" };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "best{how}: {}, order {}: {}", words(best), best.order, time_text(time));
    if let Some(second) = results.candidates.get(1) {
        // Like with like: what was simulated of both, else what was estimated of both.
        let (own, other, by) = match (best.time_us, second.time_us) {
            (Some(own), Some(other)) => (own, other, ""),
            (Some(_), None) => (best.estimate_us, second.estimate_us, " by the estimates of both"),
            _ => (best.estimate_us, second.estimate_us, ""),
        };
        let more = (other / own - 1.0) * 100.0;
        let second = format!("{}, order {}", words(second), second.order);
        let _ = writeln!(out, "{more:+.1} % for the next{by}, {second}{}", reasons(&results.why));
    }
    let _ = writeln!(
        out,
        "{name}: {}, {}; {} of {} do not hold a relation, {} do not fit into memory; {} with orders of ranks estimated, {} simulated{}",
        results.model,
        counted(results.gpus, "GPU"),
        results.impossible,
        counted(results.looked_at, "division"),
        results.too_large,
        results.estimated,
        results.played,
        if results.played > 0 { format!(", {} ruled out by their bound", results.ruled_out) } else { String::new() }
    );
    let shown = SHOWN.max(usize::try_from(results.played).unwrap_or(SHOWN));
    let rows: Vec<[String; 7]> = results
        .candidates
        .iter()
        .take(shown)
        .map(|row| {
            [
                words(row),
                row.order.clone(),
                format!("{:.1} GB", row.memory_bytes as f64 / 1e9),
                time_text(row.bound_us),
                time_text(row.estimate_us),
                row.time_us.map_or_else(|| "–".to_owned(), time_text),
                match row.time_us {
                    Some(_) => format!("{:.0}", row.tokens_per_s_per_gpu),
                    None => format!("≈ {:.0}", row.tokens_per_s_per_gpu),
                },
            ]
        })
        .collect();
    let head = ["division", "order", "memory", "bound", "estimate", "step", "tokens/s/GPU"].map(str::to_owned);
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    out.push('\n');
    for (at, row) in core::iter::once(&head).chain(&rows).enumerate() {
        let number = if at == 0 { "#".to_owned() } else { at.to_string() };
        let _ = write!(out, "{number:>3}");
        for (column, cell) in row.iter().enumerate() {
            let gap = widths[column] - cell.chars().count();
            let (before, after) = if column < 2 { (0, gap) } else { (gap, 0) };
            let _ = write!(out, "  {}{cell}{}", " ".repeat(before), " ".repeat(after));
        }
        out.push('\n');
    }
    if results.candidates.iter().take(shown).any(|row| row.time_us.is_none()) {
        out.push_str("≈ by the estimate; simulated ones come first, --top simulates more\n");
    }
    out
}

fn reasons(why: &[PlacePart]) -> String {
    const MOST: usize = 3;
    let one = |part: &PlacePart| {
        let word = if part.time_us < 0.0 { "less" } else { "more" };
        format!("{} of {}", format_args!("{} {word}", time_text(part.time_us.abs())), name(&part.name))
    };
    let list: Vec<String> = why.iter().take(MOST).map(one).collect();
    if list.is_empty() { String::new() } else { format!("; the best has {}", list.join(", ")) }
}

fn name(part: &str) -> String {
    match part {
        "compute" => "kernels".to_owned(),
        "bubble" | "optimizer" | "stragglers" => part.to_owned(),
        kind => format!("exposed {}", step_messages(kind)),
    }
}
