//! A drawing of one node and the network above it, in layers: spines, leaves, NICs, sockets, PCIe switches, GPUs, NVSwitches.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use sim_topology::{DeviceId, DeviceKind, Fabric, LinkClass};

/// Layers from top to bottom.
const LAYERS: [(DeviceKind, &str); 9] = [
    (DeviceKind::Core, "core"),
    (DeviceKind::Spine, "spines"),
    (DeviceKind::Leaf, "leaves"),
    (DeviceKind::Nic, "NICs"),
    (DeviceKind::HostMemory, "memory"),
    (DeviceKind::Socket, "sockets"),
    (DeviceKind::PcieSwitch, "PCIe"),
    (DeviceKind::Gpu, "GPUs"),
    (DeviceKind::NvSwitch, "NVSwitch"),
];
/// Boxes of a layer at most; of more, the last ones are only counted.
const MOST: usize = 16;
const BOX_WIDTH: f64 = 76.0;
const BOX_HEIGHT: f64 = 24.0;
const GAP: f64 = 12.0;
const ROW: f64 = 84.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 70.0;

/// Colour (told apart by colour-blind readers) and dash of a class of links, so that they also differ in grey.
const fn look(class: LinkClass) -> (&'static str, &'static str) {
    match class {
        LinkClass::NvLink => ("#009e73", ""),
        LinkClass::Pcie => ("#0072b2", "6 3"),
        LinkClass::SocketLink => ("#cc79a7", "2 3"),
        LinkClass::Memory => ("#999999", "2 2"),
        LinkClass::C2c => ("#56b4e9", "9 3 2 3"),
        LinkClass::Network => ("#d55e00", ""),
        LinkClass::Uplink => ("#000000", "10 4"),
    }
}

/// The SVG of node `node` with the leaves and spines of the fabric; `title` stands above.
pub(super) fn svg(fabric: &Fabric, node: u32, title: &str) -> String {
    let devices = fabric.devices();
    let domain = fabric.nodes().get(node as usize).map(|n| n.domain);
    let in_view = |id: usize| {
        let device = &devices[id];
        match device.node {
            Some(of) => of == node,
            // The NVSwitches of a domain of several nodes belong to none of them.
            None if device.kind == DeviceKind::NvSwitch => {
                domain.and_then(|d| fabric.nvswitch_of(d)).is_some_and(|s| s.index() == id)
            }
            None => true,
        }
    };
    let mut places: BTreeMap<DeviceId, (f64, f64)> = BTreeMap::new();
    let mut rows: Vec<(&str, Vec<DeviceId>, usize)> = Vec::new();
    for (kind, name) in LAYERS {
        let all: Vec<DeviceId> =
            (0..devices.len()).filter(|&i| devices[i].kind == kind && in_view(i)).map(|i| DeviceId(i as u32)).collect();
        if !all.is_empty() {
            let shown = if all.len() > MOST { MOST - 1 } else { all.len() };
            rows.push((name, all[..shown].to_vec(), all.len() - shown));
        }
    }
    let widest = rows.iter().map(|(_, list, more)| list.len() + usize::from(*more > 0)).max().unwrap_or(1);
    let width = LEFT + widest.max(6) as f64 * (BOX_WIDTH + GAP) + GAP;
    let mut boxes = String::new();
    for (row, (name, list, more)) in rows.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        let slots = list.len() + usize::from(*more > 0);
        let step = (width - LEFT) / slots as f64;
        let x = |i: usize| LEFT + (i as f64 + 0.5) * step;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(boxes, r#"<text x="8" y="{:.0}" text-anchor="start">{name}</text>"#, y + 4.0);
        for (i, id) in list.iter().enumerate() {
            places.insert(*id, (x(i), y));
            let own = &fabric.device(*id).name;
            let short = own.split_once('.').map_or(own.as_str(), |(_, part)| part);
            let _ = writeln!(
                boxes,
                r##"<g><title>{0}</title><rect x="{1:.1}" y="{2:.1}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="3" fill="#ffffff" stroke="#333333"/><text x="{3:.1}" y="{4:.1}">{5}</text></g>"##,
                escape(own),
                x(i) - BOX_WIDTH / 2.0,
                y - BOX_HEIGHT / 2.0,
                x(i),
                y + 4.0,
                escape(short)
            );
        }
        if *more > 0 {
            let _ = writeln!(boxes, r#"<text x="{:.1}" y="{:.1}">… {more} more</text>"#, x(list.len()), y + 4.0);
        }
    }
    let (lines, classes) = links(fabric, &places);
    let height = TOP + rows.len() as f64 * ROW + 22.0 * classes.len() as f64;
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="sans-serif" font-size="12" text-anchor="middle">
<rect width="100%" height="100%" fill="white"/>
<text x="8" y="24" font-size="16" text-anchor="start">{}</text>
"#,
        escape(title)
    );
    out += &lines;
    out += &boxes;
    for (i, (class, (low, high))) in classes.iter().enumerate() {
        let y = TOP + (rows.len() as f64 - 0.4) * ROW + 22.0 * i as f64;
        let (colour, dash) = look(*class);
        let rate = if low < high { format!("{low:.1} to {high:.1}") } else { format!("{high:.1}") };
        let _ = writeln!(
            out,
            r#"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="{colour}" stroke-width="3" stroke-dasharray="{dash}"/><text x="{:.1}" y="{:.1}" text-anchor="start">{class}, {rate} GB/s one way</text>"#,
            LEFT + 40.0,
            LEFT + 50.0,
            y + 4.0
        );
    }
    out += "</svg>\n";
    out
}

type Rates = BTreeMap<LinkClass, (f64, f64)>;

/// One line for each pair of devices in view that are linked, as wide as its rate, and the rates of each class.
fn links(fabric: &Fabric, places: &BTreeMap<DeviceId, (f64, f64)>) -> (String, Rates) {
    let mut classes = Rates::new();
    let mut bundles: BTreeMap<(DeviceId, DeviceId, LinkClass), (u32, f64)> = BTreeMap::new();
    for link in fabric.links() {
        // Both directions look alike: one is drawn.
        if link.from < link.to && places.contains_key(&link.from) && places.contains_key(&link.to) {
            let rate = link.rate.as_gbyte();
            let bundle = bundles.entry((link.from, link.to, link.class)).or_insert((0, 0.0));
            *bundle = (bundle.0 + 1, bundle.1 + rate);
            let range = classes.entry(link.class).or_insert((rate, rate));
            *range = (range.0.min(rate), range.1.max(rate));
        }
    }
    let mut out = String::new();
    for ((from, to, class), (parallel, rate)) in bundles {
        let ((x1, y1), (x2, y2)) = (places[&from], places[&to]);
        let (colour, dash) = look(class);
        let stroke = (rate.max(1.0).log2() * 0.45).clamp(0.6, 5.0);
        // Within a layer a straight line would run through the boxes between: it bows below them.
        let path = if (y1 - y2).abs() < 1.0 {
            format!("M {x1:.1} {y1:.1} Q {:.1} {:.1} {x2:.1} {y2:.1}", (x1 + x2) / 2.0, y1 + 60.0)
        } else {
            format!("M {x1:.1} {y1:.1} L {x2:.1} {y2:.1}")
        };
        let (a, b) = (&fabric.device(from).name, &fabric.device(to).name);
        let count = if parallel > 1 { format!("{parallel} links, ") } else { String::new() };
        let _ = writeln!(
            out,
            r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="{stroke:.1}" stroke-dasharray="{dash}"><title>{} - {}: {class}, {count}{rate:.1} GB/s one way</title></path>"#,
            escape(a),
            escape(b)
        );
    }
    (out, classes)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use sim_topology::{Catalogue, FabricSpec};

    use super::*;

    fn drawn(system: &str, nodes: u32) -> String {
        let catalogue = Catalogue::builtin();
        let node = catalogue.system(system).unwrap().node.clone();
        svg(&Fabric::build(&FabricSpec::new(node, nodes), catalogue).unwrap(), 0, "a <title> & more")
    }

    #[test]
    fn every_device_of_the_node_has_a_box() {
        let text = drawn("hgx-h100", 4);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert!(text.contains("a &lt;title&gt; &amp; more"));
        for name in ["node0.gpu7", "node0.nic7", "node0.socket1", "node0.nvswitch", "leaf7"] {
            assert!(text.contains(&format!("<title>{name}</title>")), "{name}");
        }
        assert!(!text.contains("node1."));
        assert!(text.contains("nvlink, 450.0 GB/s one way"));
    }

    #[test]
    fn all_systems_and_large_fabrics_can_be_drawn() {
        for system in Catalogue::builtin().systems() {
            assert!(drawn(&system.name, 1).contains("gpu0"), "{}", system.name);
        }
        let large = drawn("hgx-h100", 128);
        assert!(large.contains(" more</text>") && large.len() < 200_000, "{}", large.len());
    }
}
