//! A dragonfly: its groups on a circle with the links between them, and what one group is made of.

use std::collections::BTreeMap;

use sim_topology::{DeviceId, DeviceKind, Fabric, FabricKind, Link, LinkClass};

use super::canvas::{Canvas, Fill, Stroke, rate};

/// Groups on the circle at most.
const MOST_GROUPS: usize = 48;
const BOX: (f64, f64) = (92.0, 40.0);

/// Draws the network below `top` if it is a dragonfly; false if it is something else.
pub(super) fn draw(canvas: &mut Canvas, fabric: &Fabric, top: f64) -> bool {
    if fabric.plan().kind != FabricKind::Dragonfly {
        return false;
    }
    let mut routers: BTreeMap<u32, u32> = BTreeMap::new();
    let group_of = |id: DeviceId| fabric.switch_place(id).map(|place| place.pod);
    for place in fabric.switch_places() {
        *routers.entry(place.pod).or_default() += 1;
    }
    let mut gpus: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut nics, mut local) = (0u64, 0u64);
    let mut local_rate = 0.0;
    let mut between: BTreeMap<(u32, u32), Vec<&Link>> = BTreeMap::new();
    for link in fabric.links().iter().filter(|l| l.from < l.to) {
        match (link.class, group_of(link.from), group_of(link.to)) {
            (LinkClass::Network, None, Some(group)) => {
                nics += u64::from(group == 0);
                if fabric.device(link.from).index == 0 {
                    let node = fabric.device(link.from).node.and_then(|n| fabric.nodes().get(n as usize));
                    *gpus.entry(group).or_default() += node.map_or(0, |n| n.gpus.len() as u64);
                }
            }
            (LinkClass::Uplink, Some(a), Some(b)) if a == b => {
                local += u64::from(a == 0);
                local_rate = link.rate.as_gbyte();
            }
            (LinkClass::Uplink, Some(a), Some(b)) => between.entry((a.min(b), a.max(b))).or_default().push(link),
            _ => {}
        }
    }
    let shown: Vec<u32> = routers.keys().copied().take(MOST_GROUPS).collect();
    let radius = (22.0 * shown.len() as f64).clamp(110.0, 460.0);
    let centre = (radius + 110.0, top + radius + 60.0);
    let place = |group: u32| {
        let at = shown.iter().position(|&g| g == group)? as f64 / shown.len() as f64;
        let angle = core::f64::consts::TAU * at - core::f64::consts::FRAC_PI_2;
        Some((centre.0 + radius * angle.cos(), centre.1 + radius * angle.sin()))
    };
    let total: usize = between.values().map(Vec::len).sum();
    for ((a, b), links) in &between {
        let (Some(from), Some(to)) = (place(*a), place(*b)) else { continue };
        let alive: Vec<f64> = links.iter().filter(|l| l.alive).map(|l| l.rate.as_gbyte()).collect();
        let look = Stroke::of(LinkClass::Uplink, alive.iter().sum(), !alive.is_empty());
        let down = links.len() - alive.len();
        let dead = if down > 0 { format!(", {down} down") } else { String::new() };
        let each = rate(alive.first().copied().unwrap_or(0.0));
        let text = format!("{} x {each}{dead}", links.len());
        canvas.line(from, to, 0.0, look, &format!("group {a} - group {b}: {text} one way"));
        if between.len() <= 15 || down > 0 {
            let at = (from.0 + 0.35 * (to.0 - from.0), from.1 + 0.35 * (to.1 - from.1));
            canvas.label(at, "middle", 9, &text);
        }
    }
    for &group in &shown {
        let Some(at) = place(group) else { continue };
        let count = routers[&group];
        let second = format!("{count} routers");
        let name = format!("group {group}");
        let look = Fill { stack: count > 1, ..Fill::of(DeviceKind::Leaf) };
        let title = format!("{name}: {count} routers, {} GPUs", gpus.get(&group).copied().unwrap_or(0));
        // Many groups leave no room for two lines.
        let (size, lines): (_, &[&str]) =
            if shown.len() > 24 { ((62.0, 22.0), &[&name]) } else { (BOX, &[&name, &second]) };
        canvas.boxed(at, size, look, lines, &title);
    }
    let mut y = top + 40.0;
    let x = centre.0 + radius + 120.0;
    let mut say = |text: String| {
        canvas.label((x, y), "start", 12, &text);
        y += 19.0;
    };
    say(format!("{} groups, {total} links between groups", routers.len()));
    say("in group 0:".to_owned());
    say(format!("{} routers, {nics} NICs", routers.get(&0).copied().unwrap_or(0)));
    say(format!("{local} links between routers x {}", rate(local_rate)));
    say("rates are one way".to_owned());
    if routers.len() > shown.len() {
        say(format!("{} groups are not drawn", routers.len() - shown.len()));
    }
    true
}
