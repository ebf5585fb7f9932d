//! The table of what is fitted, and on what: from the timing data and what predictions asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sim_collectives::timing::{Key, Origin, Parameter, catalogue};

use crate::run::{self, Health};
use crate::score::Scored;

const BEGIN: &str = "<!-- fitted: written by `UPDATE_DOCS=1 cargo test --test accuracy` -->\n";
const END: &str = "<!-- end -->";

/// `nvls.loop_us, rate_gbps; launch.kernel_us`
pub(crate) fn names(keys: &[Key]) -> String {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for key in keys {
        let value = key.name().split_once('.').map_or("", |(_, value)| value);
        groups.entry(key.group()).or_default().push(value);
    }
    let group = |(name, values): (&str, Vec<&str>)| format!("{name}.{}", values.join(", "));
    groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

/// Runs of other clusters than `runs` come from, not known to be broken, whose predictions asked for one of the values.
fn held_against(all: &[Scored], values: &[&Parameter]) -> String {
    let clusters = run::clusters();
    let own: BTreeSet<&String> = values.iter().flat_map(|p| p.runs).filter_map(|run| clusters.get(run)).collect();
    let asks = |s: &&Scored| s.asked.iter().any(|a| values.iter().any(|p| (a.key, a.stands) == (p.key, p.stands)));
    let others = all.iter().filter(|s| s.run.health() != Health::Broken && !own.contains(&s.run.cluster)).filter(asks);
    let others: Vec<&String> = others.map(|s| &s.run.cluster).collect();
    match (others.len(), others.iter().collect::<BTreeSet<_>>().len()) {
        (0, _) => "–".to_owned(),
        (runs, clusters) => format!("{runs} of {clusters}"),
    }
}

fn table(all: &[Scored]) -> String {
    let mut w = String::new();
    writeln!(w, "| of | values | origin | from | held against |\n|---|---|---|---|---|").unwrap();
    // Values that were found together, in the order of the data.
    let mut rows: Vec<Vec<&Parameter>> = Vec::new();
    let told = |p: &&Parameter| !p.runs.is_empty() || matches!(p.origin, Origin::Measured | Origin::Fitted);
    for p in catalogue().iter().filter(told) {
        let same = |q: &Parameter| {
            (q.stands, q.key.group(), q.origin, &q.source) == (p.stands, p.key.group(), p.origin, &p.source)
        };
        match rows.iter_mut().find(|row| same(row[0])) {
            Some(row) => row.push(p),
            None => rows.push(vec![p]),
        }
    }
    for row in &rows {
        let p = row[0];
        let value = |p: &&Parameter| {
            let name = p.key.name().split_once('.').map_or("", |(_, value)| value);
            format!("{name} {}", p.value)
        };
        let values = row.iter().map(value).collect::<Vec<_>>().join(", ");
        let (stands, group, origin) = (p.stands, p.key.group(), p.origin.name());
        writeln!(w, "| {stands} | {group}: {values} | {origin} | {} | {} |", p.source, held_against(all, row)).unwrap();
    }
    let told: usize = rows.iter().map(Vec::len).sum();
    writeln!(w, "\nOf the {} values that stand in the data these are {told}.", catalogue().len()).unwrap();
    w
}

/// The page's head with the table as it has to be; as it is, where it has none.
pub(crate) fn renewed(head: &str, all: &[Scored]) -> String {
    let Some((before, rest)) = head.split_once(BEGIN) else { return head.to_owned() };
    let (_, after) = rest.split_once(END).expect("the table of what is fitted has an end");
    format!("{before}{BEGIN}{}{END}{after}", table(all))
}
