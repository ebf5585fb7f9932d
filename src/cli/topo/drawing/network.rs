//! The network between nodes, tier by tier; in large fabrics what is alike is drawn as one.

use std::collections::{BTreeMap, BTreeSet};

use sim_topology::{DeviceId, DeviceKind, Fabric, LinkClass};

use super::canvas::{Canvas, Fill, Stroke, rate};

/// Boxes of a tier that are drawn one by one at most.
const MOST_SINGLE: usize = 16;
/// Groups of a tier at most; of more, the last ones are only counted.
const MOST_GROUPS: usize = 9;
const LEFT: f64 = 150.0;
const ROW: f64 = 120.0;
const TIERS: [&str; 4] = ["nodes", "leaves", "spines", "cores"];

/// Things of one tier that are drawn as one box.
struct Group {
    tier: usize,
    /// Device numbers, or node numbers in the lowest tier.
    members: Vec<u32>,
    /// What stands in the box.
    lines: Vec<String>,
    title: String,
    kind: DeviceKind,
    dead: bool,
}

/// All cables between two groups, one direction.
#[derive(Default)]
struct Bundle {
    links: u32,
    down: u32,
    gbyte: f64,
    class: Option<LinkClass>,
}

/// Draws the network below `top`; false if there is none.
pub(super) fn draw(canvas: &mut Canvas, fabric: &Fabric, top: f64) -> bool {
    let Some((groups, of)) = groups(fabric) else { return false };
    let bundles = bundles(fabric, &of);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); TIERS.len()];
    for (i, group) in groups.iter().enumerate() {
        rows[group.tier].push(i);
    }
    let tiers: Vec<usize> = (0..TIERS.len()).rev().filter(|&t| !rows[t].is_empty()).collect();
    let shown = in_view(&rows, &bundles);
    let hidden = |tier: usize| rows[tier].len() - shown[tier].len();
    let slots = |tier: usize| shown[tier].len() + usize::from(hidden(tier) > 0);
    let widest = tiers.iter().map(|&t| slots(t)).max().unwrap_or(1);
    let longest = shown.iter().flatten().flat_map(|&g| &groups[g].lines).map(|l| l.chars().count()).max();
    let box_width = (6.4 * longest.unwrap_or(8) as f64 + 16.0).max(70.0);
    let width = (widest as f64 * (box_width + 14.0)).max(480.0);
    let mut places: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (level, &tier) in tiers.iter().enumerate() {
        let y = top + 44.0 + level as f64 * ROW;
        let step = width / slots(tier) as f64;
        for (i, &group) in shown[tier].iter().enumerate() {
            places.insert(group, (LEFT + (i as f64 + 0.5) * step, y));
        }
        let count = rows[tier].iter().map(|&g| groups[g].members.len()).sum::<usize>();
        canvas.label((12.0, y - 2.0), "start", 13, TIERS[tier]);
        canvas.label((12.0, y + 13.0), "start", 11, &count.to_string());
        if hidden(tier) > 0 {
            let more = hidden(tier);
            let at = (LEFT + (slots(tier) as f64 - 0.5) * step, y + 4.0);
            canvas.label(at, "middle", 12, &format!("… {more} more like these"));
        }
    }
    lines(canvas, &groups, &bundles, &places);
    for (&group, &at) in &places {
        let group = &groups[group];
        let look = Fill { stack: group.members.len() > 1, ..Fill::of(group.kind) }.dead(group.dead);
        let lines: Vec<&str> = group.lines.iter().map(String::as_str).collect();
        let height = if lines.len() > 1 { 40.0 } else { 26.0 };
        canvas.boxed(at, (box_width, height), look, &lines, &group.title);
    }
    sums(canvas, &groups, &bundles, &tiers, top);
    true
}

/// The groups of each tier that are drawn: the first of the nodes, and of the switches those that are cabled to what is
/// drawn below them.
fn in_view(rows: &[Vec<usize>], bundles: &BTreeMap<(usize, usize), Bundle>) -> Vec<Vec<usize>> {
    let mut shown: Vec<Vec<usize>> = Vec::with_capacity(rows.len());
    for (tier, row) in rows.iter().enumerate() {
        if row.len() <= MOST_SINGLE {
            shown.push(row.clone());
            continue;
        }
        let below = |group: usize| {
            let mut lower = shown.iter().flatten();
            tier == 0 || lower.any(|&l| bundles.contains_key(&(l.min(group), l.max(group))))
        };
        // Few enough that those above them fit too.
        let most = if tier == 0 { MOST_GROUPS - 1 } else { MOST_SINGLE };
        shown.push(row.iter().copied().filter(|&group| below(group)).take(most).collect());
    }
    shown
}

/// What is drawn as one, and the group of every node and switch; `None` without a network.
fn groups(fabric: &Fabric) -> Option<(Vec<Group>, BTreeMap<DeviceId, usize>)> {
    let switches: Vec<DeviceId> = (0..fabric.devices().len() as u32)
        .map(DeviceId)
        .filter(|&id| fabric.device(id).kind.is_network_switch())
        .collect();
    if switches.is_empty() {
        return None;
    }
    // Who is cabled to whom: upwards and downwards, nodes by the leaves of their NICs.
    let mut near: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
    let mut leaves_of: Vec<BTreeSet<DeviceId>> = vec![BTreeSet::new(); fabric.nodes().len()];
    let mut nodes_of: BTreeMap<DeviceId, BTreeSet<u32>> = BTreeMap::new();
    for link in fabric.links() {
        match (link.class, fabric.device(link.from).node) {
            (LinkClass::Network, Some(node)) => {
                leaves_of[node as usize].insert(link.to);
                nodes_of.entry(link.to).or_default().insert(node);
            }
            (LinkClass::Uplink, _) => {
                near.entry(link.from).or_default().insert(link.to);
            }
            _ => {}
        }
    }
    let tier = |id: DeviceId| match fabric.device(id).kind {
        DeviceKind::Leaf => 1,
        DeviceKind::Spine => 2,
        _ => 3,
    };
    let count = |t: usize| switches.iter().filter(|&&s| tier(s) == t).count();
    let single = fabric.nodes().len() <= MOST_SINGLE && (1..=3).all(|t| count(t) <= MOST_SINGLE);

    let mut groups: Vec<Group> = Vec::new();
    let mut of: BTreeMap<DeviceId, usize> = BTreeMap::new();
    // Nodes on the same leaves are alike.
    let mut units: BTreeMap<(&BTreeSet<DeviceId>, Option<u32>), Vec<u32>> = BTreeMap::new();
    for (number, leaves) in leaves_of.iter().enumerate() {
        units.entry((leaves, single.then_some(number as u32))).or_default().push(number as u32);
    }
    let mut units: Vec<Vec<u32>> = units.into_values().collect();
    units.sort_by_key(|members| members[0]);
    let mut unit_of = vec![0usize; fabric.nodes().len()];
    for members in units {
        for &node in &members {
            unit_of[node as usize] = groups.len();
            for nic in &fabric.nodes()[node as usize].nics {
                of.insert(*nic, groups.len());
            }
        }
        groups.push(of_nodes(fabric, members));
    }
    // Switches are alike if they have the same neighbours above, and below the same units or switches.
    type Key<'a> = (usize, Vec<usize>, Option<&'a BTreeSet<DeviceId>>, Option<DeviceId>);
    let mut alike: BTreeMap<Key<'_>, Vec<DeviceId>> = BTreeMap::new();
    for &switch in &switches {
        let below: BTreeSet<usize> =
            nodes_of.get(&switch).into_iter().flatten().map(|&n| unit_of[n as usize]).collect();
        let key = (tier(switch), below.into_iter().collect(), near.get(&switch), single.then_some(switch));
        alike.entry(key).or_default().push(switch);
    }
    let mut alike: Vec<Vec<DeviceId>> = alike.into_values().collect();
    alike.sort_by_key(|members| members[0]);
    for members in alike {
        for &switch in &members {
            of.insert(switch, groups.len());
        }
        groups.push(of_switches(fabric, tier(members[0]), &members));
    }
    Some((groups, of))
}

fn of_nodes(fabric: &Fabric, members: Vec<u32>) -> Group {
    let gpus: usize = members.iter().map(|&n| fabric.nodes()[n as usize].gpus.len()).sum();
    let name = span("node", &members);
    let lines = if members.len() > 1 {
        vec![name.clone(), format!("{} nodes, {gpus} GPUs", members.len())]
    } else {
        vec![name.clone(), format!("{gpus} GPUs")]
    };
    Group { tier: 0, title: format!("{name}: {gpus} GPUs"), members, lines, kind: DeviceKind::Gpu, dead: false }
}

fn of_switches(fabric: &Fabric, tier: usize, members: &[DeviceId]) -> Group {
    let first = fabric.device(members[0]);
    let numbers: Vec<u32> = members.iter().map(|&m| fabric.device(m).index).collect();
    let name = if members.len() > 1 { span(first.kind.as_str(), &numbers) } else { first.name.clone() };
    let (used, ports) = (first.ports_used, first.ports);
    let mut lines = vec![name.clone()];
    if members.len() > 1 {
        lines.push(format!("{} switches", members.len()));
    }
    let title = format!("{name}: {used} of {ports} ports in use");
    let dead = members.iter().all(|&m| !fabric.device(m).alive);
    Group { tier, members: numbers, lines, title, kind: first.kind, dead }
}

/// `node0-31`, or `leaf0, leaf8, … leaf56` where numbers are not in a row.
fn span(word: &str, numbers: &[u32]) -> String {
    match numbers {
        [] => String::new(),
        [one] => format!("{word}{one}"),
        [first, .., last] if last - first == numbers.len() as u32 - 1 => format!("{word}{first}-{last}"),
        [first, second, .., last] => format!("{word}{first}, {second}, … {last}"),
        [first, last] => format!("{word}{first}, {last}"),
    }
}

/// The cables between groups: from the lower to the upper, and between switches of one tier each once.
fn bundles(fabric: &Fabric, of: &BTreeMap<DeviceId, usize>) -> BTreeMap<(usize, usize), Bundle> {
    let mut bundles: BTreeMap<(usize, usize), Bundle> = BTreeMap::new();
    for link in fabric.links().iter().filter(|l| l.class.is_network() && l.from < l.to) {
        let (Some(&a), Some(&b)) = (of.get(&link.from), of.get(&link.to)) else { continue };
        let bundle = bundles.entry((a.min(b), a.max(b))).or_default();
        bundle.links += 1;
        bundle.down += u32::from(!link.alive);
        bundle.gbyte += if link.alive { link.rate.as_gbyte() } else { 0.0 };
        bundle.class = Some(link.class);
    }
    bundles
}

fn lines(
    canvas: &mut Canvas,
    groups: &[Group],
    bundles: &BTreeMap<(usize, usize), Bundle>,
    places: &BTreeMap<usize, (f64, f64)>,
) {
    // What all cables of a tier have in common stands at the left.
    let labelled = bundles.len() <= 20;
    for (&(a, b), bundle) in bundles {
        let (Some(&from), Some(&to), Some(class)) = (places.get(&a), places.get(&b), bundle.class) else { continue };
        let each = rate(bundle.gbyte / f64::from((bundle.links - bundle.down).max(1)));
        let dead = if bundle.down > 0 { format!(", {} down", bundle.down) } else { String::new() };
        let all_dead = bundle.down == bundle.links;
        let title = format!("{} - {}: {} x {each} one way{dead}", groups[a].lines[0], groups[b].lines[0], bundle.links);
        let look = Stroke::of(class, bundle.gbyte, bundle.down < bundle.links);
        if a == b {
            continue;
        }
        let flat = (from.1 - to.1).abs() < 1.0;
        canvas.line(from, to, if flat { 70.0 } else { 0.0 }, look, &title);
        // A dead cable by itself is seen by its colour.
        if (labelled && bundle.links > 1 && !all_dead) || (bundle.down > 0 && !all_dead) {
            let at = (from.0 + 0.3 * (to.0 - from.0), from.1 + 0.3 * (to.1 - from.1));
            let text = if bundle.links > 1 { format!("{} x {each}", bundle.links) } else { each };
            canvas.label(at, "middle", 9, &format!("{text}{dead}"));
        }
    }
}

/// What all cables between two tiers carry together, at the left.
fn sums(canvas: &mut Canvas, groups: &[Group], bundles: &BTreeMap<(usize, usize), Bundle>, tiers: &[usize], top: f64) {
    for (level, pair) in tiers.windows(2).enumerate() {
        let y = top + 44.0 + level as f64 * ROW + ROW / 2.0;
        let (mut links, mut down, mut gbyte) = (0, 0, 0.0);
        let (mut least, mut most) = (f64::MAX, 0.0f64);
        for ((a, b), bundle) in bundles {
            if groups[*a].tier.min(groups[*b].tier) == pair[1] && groups[*a].tier.max(groups[*b].tier) == pair[0] {
                let each = bundle.gbyte / f64::from((bundle.links - bundle.down).max(1));
                (least, most) = (least.min(each), most.max(each));
                links += bundle.links;
                down += bundle.down;
                gbyte += bundle.gbyte;
            }
        }
        let each = if most - least < 1e-6 { format!(" x {}", rate(most)) } else { String::new() };
        canvas.label((12.0, y), "start", 10, &format!("{links} links{each}"));
        canvas.label((12.0, y + 13.0), "start", 10, &format!("{} up", rate(gbyte)));
        if down > 0 {
            canvas.label((12.0, y + 26.0), "start", 10, &format!("{down} down"));
        }
    }
    // Links within a tier: between the routers of a dragonfly.
    let (mut inner, mut gbyte) = (0, 0.0);
    for ((a, b), bundle) in bundles {
        if groups[*a].tier == groups[*b].tier {
            inner += bundle.links;
            gbyte += bundle.gbyte;
        }
    }
    if inner > 0 {
        let y = top + 44.0 + (tiers.len() - 1) as f64 * ROW + 44.0;
        canvas.label((12.0, y), "start", 10, &format!("{inner} links between leaves, {} one way", rate(gbyte)));
    }
}
