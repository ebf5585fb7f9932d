//! The picture of `topo --plot`: the network between nodes, and below it the interior of one node.

mod canvas;
mod dragonfly;
mod network;
mod node;

use sim_topology::{Fabric, LinkClass};

use canvas::{Canvas, Stroke, rate};

/// The SVG of the network and of node `node`; `title` stands above.
pub(super) fn svg(fabric: &Fabric, node: u32, title: &str) -> String {
    let mut canvas = Canvas::default();
    let mut top = 44.0;
    if dragonfly::draw(&mut canvas, fabric, top) || network::draw(&mut canvas, fabric, top) {
        top = canvas.height() + 44.0;
        canvas.label((12.0, top - 8.0), "start", 14, &format!("inside node{node}"));
    }
    node::draw(&mut canvas, fabric, node, top);
    legend(&mut canvas, fabric);
    canvas.finish(title)
}

/// The classes of links with their rates.
fn legend(canvas: &mut Canvas, fabric: &Fabric) {
    let mut y = canvas.height() + 28.0;
    for class in LinkClass::ALL {
        let rates = || {
            fabric.links().iter().filter(|l| l.class == class && l.alive && l.from != l.to).map(|l| l.rate.as_gbyte())
        };
        let (low, high) = rates().fold((f64::MAX, 0.0f64), |(low, high), r| (low.min(r), high.max(r)));
        if low > high {
            continue;
        }
        let span = if low < high { format!("{} to {}", rate(low), rate(high)) } else { rate(high) };
        let look = Stroke { width: 3.0, ..Stroke::of(class, high, true) };
        canvas.line((24.0, y), (64.0, y), 0.0, look, class.as_str());
        canvas.label((74.0, y + 4.0), "start", 12, &format!("{class}, {span} one way"));
        y += 20.0;
    }
}

#[cfg(test)]
mod tests {
    use sim_topology::{Catalogue, FabricKind, FabricSpec};

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
        for name in ["node0.gpu7", "node0.nic7", "node0.socket1", "node0.nvswitch"] {
            assert!(text.contains(&format!("<title>{name}</title>")), "{name}");
        }
        assert!(text.contains("<title>leaf7: 8 of 64 ports in use</title>"));
        assert!(!text.contains("node1."));
        assert!(text.contains("nvlink, 450 GB/s one way"));
    }

    #[test]
    fn all_systems_and_large_fabrics_can_be_drawn() {
        for system in Catalogue::builtin().systems() {
            assert!(drawn(&system.name, 1).contains("gpu0"), "{}", system.name);
        }
        let large = drawn("hgx-h100", 128);
        assert!(large.contains("128 nodes, 1024 GPUs") || large.contains("32 nodes, 256 GPUs"));
        assert!(large.len() < 60_000, "{}", large.len());
    }

    #[test]
    fn a_dragonfly_is_drawn_by_its_groups() {
        let catalogue = Catalogue::builtin();
        let mut spec = FabricSpec::new(catalogue.system("hgx-h100").unwrap().node.clone(), 64);
        spec.fabric = FabricKind::Dragonfly;
        let fabric = Fabric::build(&spec, catalogue).unwrap();
        let text = svg(&fabric, 0, "dragonfly");
        let groups = fabric.switch_places().map(|p| p.pod).max().unwrap() + 1;
        assert!(text.contains(&format!("{groups} groups, ")), "{groups}");
        assert!(text.contains("group 0: "));
    }
}
