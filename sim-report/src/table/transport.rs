//! Networks of packets, seeds, and scenarios side by side, as text.

use core::fmt::Write as _;

use sim_core::units::Bytes;

use super::text::{Align, TextTable, number, time_text};
use crate::result::{ClassResult, DesignResult, DiffResults, SeedsResult, Spread, TransportResult, TransportTotals};

/// What the packets of a run came to, a line or two; counts that are zero are left out.
#[must_use]
pub fn transport_text(result: &TransportResult) -> String {
    let mut out = String::new();
    let preset = result.preset.as_ref().map_or_else(String::new, |name| format!("preset {name}, "));
    let counts = counts(&result.totals);
    let counts = if counts.is_empty() { String::new() } else { format!("; {}", counts.join(", ")) };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "packets: {preset}flow control {}, rate control {}{counts}",
        result.flow_control, result.rate_control
    );
    if let Some(grain) = &result.grain {
        let _ = writeln!(out, "units of up to {} packets: {}", grain.packets, grain.why);
    }
    if let Some(first) = result.victims.first() {
        let root = first.root.as_ref().map_or_else(String::new, |root| format!(", root {root}"));
        // Several ports of its way may be held at once.
        let share = (first.share * 100.0).min(100.0);
        let (all, from, to) = (result.victims_total, &first.from, &first.to);
        let _ = writeln!(
            out,
            "victims of congestion elsewhere: {all}, first {from} to {to}, held {share:.0} % of its time{root}"
        );
    }
    if result.classes.len() > 1 {
        out += &classes(&result.classes);
    }
    if !result.deadlock.is_empty() {
        let _ = writeln!(out, "deadlock: {} wait for each other", result.deadlock.join(", "));
    }
    out
}

/// A row a class.
fn classes(list: &[ClassResult]) -> String {
    let names = ["hops", "peak queue", "marks", "pauses", "held", "drops"];
    let first =
        [("class", Align::Left), ("priority", Align::Right), ("weight", Align::Right), ("when full", Align::Left)];
    let mut table = TextTable::new(first.into_iter().chain(names.map(|name| (name, Align::Right))));
    for class in list {
        table.row([
            class.class.clone(),
            class.priority.to_string(),
            class.weight.to_string(),
            if class.lossless { "held" } else { "dropped" }.to_owned(),
            class.hops.to_string(),
            Bytes::new(class.peak_queue_bytes).to_string(),
            class.marks.to_string(),
            class.pauses.to_string(),
            time_text(class.held_us),
            class.drops.to_string(),
        ]);
    }
    format!("\n{}", table.render())
}

fn counts(t: &TransportTotals) -> Vec<String> {
    let mut list = Vec::new();
    let mut count = |number: u64, one: &str, more: &str| {
        if number > 0 {
            list.push(format!("{number} {}", if number == 1 { one } else { more }));
        }
    };
    count(t.marks, "mark", "marks");
    count(t.notices, "notice to senders", "notices to senders");
    count(t.pauses, "pause", "pauses");
    count(t.drops, "drop", "drops");
    count(t.headroom_drops, "drop for lack of headroom", "drops for lack of headroom");
    count(t.watchdog_drops, "drop by the watchdog", "drops by the watchdog");
    count(t.lost, "loss on the wire", "losses on the wire");
    count(t.retransmitted, "packet sent again", "packets sent again");
    count(t.timeouts, "timeout", "timeouts");
    if t.pause_us > 0.0 {
        list.push(format!("ports paused for {} in all", time_text(t.pause_us)));
    }
    if t.credit_stall_us > 0.0 {
        list.push(format!("ports without credits for {} in all", time_text(t.credit_stall_us)));
    }
    if t.ingress_peak_bytes > 0 {
        list.push(format!("at most {} of an input in a switch", Bytes::new(t.ingress_peak_bytes)));
    }
    list
}

/// The times of a run over its seeds.
#[must_use]
pub fn seeds_text(seeds: &SeedsResult) -> String {
    let mut table = TextTable::new([
        ("over the seeds", Align::Left),
        ("best", Align::Right),
        ("mean", Align::Right),
        ("p5", Align::Right),
        ("p50", Align::Right),
        ("p95", Align::Right),
        ("worst", Align::Right),
        ("its seed", Align::Right),
        ("seeds", Align::Right),
    ]);
    for m in &seeds.measures {
        let times = [m.best_us, m.mean_us, m.p5_us, m.p50_us, m.p95_us, m.worst_us].map(time_text);
        table.row([vec![m.name.clone()], times.to_vec(), vec![m.worst_seed.to_string(), m.seeds.to_string()]].concat());
    }
    table.render()
}

/// Scenarios side by side: their times, one column a measure of the first, and what their packets came to.
#[must_use]
pub fn diff_text(results: &DiffResults) -> String {
    let Some(first) = results.designs.first() else { return String::new() };
    let names: Vec<&str> = first.measures.iter().map(|m| m.name.as_str()).collect();
    let mut columns = vec![("scenario".to_owned(), Align::Left), ("transport".to_owned(), Align::Left)];
    columns.extend(names.iter().map(|name| ((*name).to_owned(), Align::Right)));
    columns.push(("busiest link".to_owned(), Align::Left));
    let mut table = TextTable::new(columns);
    for design in &results.designs {
        let mut cells = vec![design.name.clone(), design.transport.clone()];
        cells.extend(names.iter().map(|name| time_cell(design, name, results.seeds)));
        cells.push(match design.busiest_link.as_str() {
            "" => String::new(),
            link => format!("{link} {:.0} %", design.utilization * 100.0),
        });
        table.row(cells);
    }
    let mut out = table.render();
    if results.designs.iter().any(|d| d.totals.is_some()) {
        let names = ["marks", "pauses", "paused", "without credits", "drops", "sent again"];
        let head = core::iter::once(("scenario", Align::Left)).chain(names.map(|name| (name, Align::Right)));
        let mut table = TextTable::new(head);
        for design in &results.designs {
            let Some(t) = design.totals else {
                table.row([design.name.clone()]);
                continue;
            };
            let drops = t.drops + t.headroom_drops + t.watchdog_drops;
            table.row([
                design.name.clone(),
                t.marks.to_string(),
                t.pauses.to_string(),
                time_text(t.pause_us),
                time_text(t.credit_stall_us),
                drops.to_string(),
                t.retransmitted.to_string(),
            ]);
        }
        out += "\n";
        out += &table.render();
    }
    if results.seeds > 1 {
        let _ = writeln!(
            out,
            "times: median of {} seeds [5th to 95th percentile]; counts: sums over them; busiest link: of the first",
            results.seeds
        );
    }
    for design in &results.designs {
        if let Some(why) = &design.stopped {
            let _ = writeln!(out, "{}: stopped early, {why}", design.name);
        }
    }
    out
}

/// `1.23 ms [1.20-1.40] x1.5`.
fn time_cell(design: &DesignResult, name: &str, seeds: u64) -> String {
    let Some(at) = design.measures.iter().position(|m| m.name == name) else { return "-".to_owned() };
    let m: &Spread = &design.measures[at];
    let mut cell = time_text(m.p50_us);
    if seeds > 1 {
        cell += &format!(" [{} to {}]", time_text(m.p5_us), time_text(m.p95_us));
    }
    if let Some(ratio) = design.ratios.get(at).copied().flatten() {
        cell += &format!(" x{}", number(ratio, 3));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_told() {
        let totals = TransportTotals { marks: 1, pauses: 2, pause_us: 1500.0, ..TransportTotals::default() };
        let result = TransportResult {
            preset: Some("p".into()),
            flow_control: "pfc".into(),
            rate_control: "none".into(),
            totals,
            ..TransportResult::default()
        };
        let text = transport_text(&result);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("1 mark, 2 pauses, ports paused for 1.5") && !text.contains("drop"), "{text}");
    }

    #[test]
    fn classes_have_a_row_each_where_there_are_several() {
        let class = |name: &str, lossless, drops| ClassResult {
            class: name.into(),
            weight: 3,
            lossless,
            drops,
            ..ClassResult::default()
        };
        let mut result = TransportResult { classes: vec![class("a", true, 0)], ..TransportResult::default() };
        assert_eq!(transport_text(&result).lines().count(), 1);
        result.classes.push(class("storage", false, 17));
        let text = transport_text(&result);
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("storage") && last.contains("dropped") && last.ends_with("17"), "{text}");
    }

    #[test]
    fn designs_stand_side_by_side() {
        let design = |name: &str, us: f64, ratio| DesignResult {
            name: name.into(),
            measures: vec![Spread::of("x of 1 MiB", &[(1, us)])],
            ratios: vec![Some(ratio)],
            ..DesignResult::default()
        };
        let other = DesignResult { measures: Vec::new(), stopped: Some("deadlock".into()), ..design("c", 1.0, 1.0) };
        let designs = vec![design("a", 100.0, 1.0), design("b", 150.0, 1.5), other];
        let text = diff_text(&DiffResults { seeds: 1, designs });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("x of 1 MiB") && lines[2].contains("x1.5") && lines[3].contains('-'), "{text}");
        assert!(lines[4].contains("deadlock"), "{text}");
        assert_eq!(diff_text(&DiffResults::default()), "");
    }
}
