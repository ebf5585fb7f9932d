//! Which differences between two configurations come out wrong: pairs of rows by what differs in them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fit::{self, Scored};
use crate::rows;

/// What differs between two rows that are compared, in words.
fn differs(a: &Scored, b: &Scored) -> String {
    let (x, y) = (&a.case, &b.case);
    let (s, t) = (&x.sizes, &y.sizes);
    let list = [
        ("GPUs", x.row.gpus != y.row.gpus),
        ("sequence", s.sequence != t.sequence),
        ("tp", s.tensor != t.tensor),
        ("cp", s.context != t.context),
        ("pp, vp", (s.pipeline, s.virtual_stages) != (t.pipeline, t.virtual_stages)),
        ("ep", s.expert != t.expert),
        ("micro batch", s.micro_batch != t.micro_batch),
        ("micro batches", s.micros() != t.micros()),
        ("recomputation", s.recompute != t.recompute),
        ("overlap of tp", x.overlap.tensor != y.overlap.tensor),
    ];
    let words: Vec<&str> = list.into_iter().filter(|(_, differs)| *differs).map(|(word, _)| word).collect();
    if words.is_empty() { "software".to_owned() } else { words.join(", ") }
}

/// Pairs of rows by family and by what differs: of the row with more GPUs (or a longer sequence, or the later one) over the other, how
/// much too high (+) or too low the ratio of their times comes out. In percent.
pub(crate) fn table(scored: &[Scored]) -> String {
    let mut w = String::new();
    writeln!(w, "\n## Differences\n").unwrap();
    writeln!(w, "| family | what differs | pairs | ratio too high (+) or low, median | median of its size |").unwrap();
    writeln!(w, "|---|---|---:|---:|---:|").unwrap();
    for family in rows::families() {
        let mut rows: Vec<&Scored> = scored.iter().filter(|s| s.case.row.family == family).collect();
        rows.sort_by_key(|s| (s.case.row.gpus, s.case.sizes.sequence));
        let mut of: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (i, a) in rows.iter().enumerate() {
            for b in rows[i + 1..].iter().filter(|b| fit::comparable(a, b)) {
                let ratio = (b.fitted / a.fitted) / (b.case.seconds / a.case.seconds);
                of.entry(differs(a, b)).or_default().push((ratio - 1.0) * 100.0);
            }
        }
        for (what, errors) in of {
            let sizes = errors.iter().map(|e| e.abs()).collect();
            let pairs = errors.len();
            if let (Some(signed), Some(size)) = (fit::median(errors), fit::median(sizes)) {
                writeln!(w, "| {family} | {what} | {pairs} | {signed:+.1} | {size:.1} |").unwrap();
            }
        }
    }
    w
}
