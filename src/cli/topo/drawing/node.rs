//! The interior of a node: sockets with what hangs on them as trees, NVSwitches below the GPUs, direct NVLinks on a circle.

use std::collections::BTreeMap;

use sim_topology::{DeviceId, DeviceKind, Fabric, Link, LinkClass};

use super::canvas::{Canvas, Fill, Stroke, rate};

const BOX: (f64, f64) = (62.0, 24.0);
const STEP: f64 = 70.0;
const ROW: f64 = 78.0;
/// More room between what hangs on different switches, and on different sockets.
const SWITCH_GAP: f64 = 12.0;
const SOCKET_GAP: f64 = 46.0;

/// A node laid out: where its devices are, and what they hang on.
struct Interior<'a> {
    fabric: &'a Fabric,
    /// The links of the node, one of each pair of directions.
    links: Vec<&'a Link>,
    children: BTreeMap<DeviceId, Vec<DeviceId>>,
    depth: BTreeMap<DeviceId, usize>,
    places: BTreeMap<DeviceId, (f64, f64)>,
}

/// Draws node `node` below `top`.
pub(super) fn draw(canvas: &mut Canvas, fabric: &Fabric, node: u32, top: f64) {
    let Some(parts) = fabric.nodes().get(node as usize) else { return };
    let mut interior = Interior::new(fabric, node);
    interior.hang(&parts.sockets);
    let bottom = interior.place(canvas, &parts.sockets, top);
    interior.lines(canvas);
    interior.boxes(canvas, node);
    let below = interior.networks(canvas, &parts.nics, bottom);
    let below = interior.planes(canvas, &parts.gpus, bottom).max(below);
    interior.mesh(canvas, &parts.gpus, below);
}

impl<'a> Interior<'a> {
    fn new(fabric: &'a Fabric, node: u32) -> Self {
        let inside = |id: DeviceId| fabric.device(id).node == Some(node);
        let links = fabric.links().iter().filter(|l| l.from < l.to && inside(l.from) && inside(l.to)).collect();
        let (children, depth, places) = Default::default();
        Self { fabric, links, children, depth, places }
    }

    /// Hangs every device on the one towards its socket: over PCIe where it can, else over C2C or memory links.
    fn hang(&mut self, sockets: &[DeviceId]) {
        let mut queue: Vec<DeviceId> = sockets.to_vec();
        for &socket in sockets {
            self.depth.insert(socket, 0);
        }
        for classes in [&[LinkClass::Pcie][..], &[LinkClass::C2c], &[LinkClass::Memory]] {
            let mut at = 0;
            while let Some(&device) = queue.get(at) {
                at += 1;
                let near: Vec<DeviceId> = (self.links.iter())
                    .filter(|l| classes.contains(&l.class))
                    .filter_map(|l| match device {
                        d if d == l.from => Some(l.to),
                        d if d == l.to => Some(l.from),
                        _ => None,
                    })
                    .collect();
                for other in near {
                    if !self.depth.contains_key(&other) {
                        self.depth.insert(other, self.depth[&device] + 1);
                        self.children.entry(device).or_default().push(other);
                        queue.push(other);
                    }
                }
            }
        }
    }

    fn kind(&self, id: DeviceId) -> DeviceKind {
        self.fabric.device(id).kind
    }

    /// Gives every device its place, draws a frame for each socket, and says where the lowest row is.
    fn place(&mut self, canvas: &mut Canvas, sockets: &[DeviceId], top: f64) -> f64 {
        let forwards = |id: &DeviceId| self.children.get(id).is_some_and(|c| !c.is_empty());
        let deepest = self.depth.iter().filter(|(id, _)| forwards(id)).map(|(_, d)| *d).max().unwrap_or(0);
        let (first, last) = (top + 56.0, top + 56.0 + (deepest + 1) as f64 * ROW);
        let mut x = 24.0;
        for (i, &socket) in sockets.iter().enumerate() {
            let left = x;
            x += 16.0;
            self.place_below(socket, &mut x, first, last);
            let memories: Vec<DeviceId> =
                self.children.get(&socket).into_iter().flatten().copied().filter(|&c| self.beside(c)).collect();
            // A socket without devices still needs room for its own box.
            x = x.max(left + 16.0 + 2.2 * STEP);
            let (sx, sy) = ((left + x) / 2.0, first);
            self.places.insert(socket, (sx, sy));
            for (m, memory) in memories.into_iter().enumerate() {
                self.places.insert(memory, (sx + 1.4 * STEP * (m + 1) as f64, sy));
                x = x.max(sx + 1.4 * STEP * (m + 1) as f64 + 0.6 * STEP);
            }
            canvas.frame((left, top + 8.0), (x + 8.0, last + 26.0), &format!("socket {i}"));
            x += SOCKET_GAP;
        }
        last
    }

    /// Whether it stands beside its socket: memory.
    fn beside(&self, id: DeviceId) -> bool {
        self.kind(id) == DeviceKind::HostMemory
    }

    fn place_below(&mut self, device: DeviceId, x: &mut f64, first: f64, last: f64) {
        let children = self.children.get(&device).cloned().unwrap_or_default();
        let children: Vec<DeviceId> = children.into_iter().filter(|&c| !self.beside(c)).collect();
        let mut span: Option<(f64, f64)> = None;
        for child in children {
            self.place_below(child, x, first, last);
            let at = self.places[&child].0;
            span = Some(span.map_or((at, at), |(low, _)| (low, at)));
        }
        if self.depth[&device] == 0 {
            return;
        }
        match span {
            Some((low, high)) => {
                let y = first + self.depth[&device] as f64 * ROW;
                self.places.insert(device, ((low + high) / 2.0, y));
                *x += SWITCH_GAP;
            }
            None => {
                self.places.insert(device, (*x + STEP / 2.0, last));
                *x += STEP;
            }
        }
    }

    /// The links of the trees and between sockets, with their rates.
    fn lines(&self, canvas: &mut Canvas) {
        for link in &self.links {
            // Limits inside a device are no wires.
            if link.class == LinkClass::NvLink || link.from == link.to {
                continue;
            }
            let (Some(&a), Some(&b)) = (self.places.get(&link.from), self.places.get(&link.to)) else { continue };
            let gbyte = link.rate.as_gbyte();
            let look = Stroke::of(link.class, gbyte, link.alive);
            let flat = (a.1 - b.1).abs() < 1.0;
            let bow = if flat && link.class == LinkClass::SocketLink { -44.0 } else { 0.0 };
            canvas.line(a, b, bow, look, &self.title(link));
            let text = if link.alive { rate(gbyte) } else { "down".to_owned() };
            if flat {
                let lift = if bow == 0.0 { -16.0 } else { bow / 2.0 - 4.0 };
                canvas.label(((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0 + lift), "middle", 9, &text);
            } else {
                // Near the lower end, where lines have parted.
                let (upper, lower) = if a.1 < b.1 { (a, b) } else { (b, a) };
                let at = (upper.0 + 0.7 * (lower.0 - upper.0), upper.1 + 0.7 * (lower.1 - upper.1));
                canvas.label(at, "middle", 9, &text);
            }
        }
    }

    fn title(&self, link: &Link) -> String {
        let (a, b) = (&self.fabric.device(link.from).name, &self.fabric.device(link.to).name);
        let width = if link.width > 1 { format!(", {} wide", link.width) } else { String::new() };
        let down = if link.alive { "" } else { ", down" };
        format!("{a} - {b}: {}{width}, {} one way, {} ns{down}", link.class, link.rate, link.latency.as_ns().round())
    }

    fn boxes(&self, canvas: &mut Canvas, node: u32) {
        let prefix = format!("node{node}.");
        for (&id, &at) in &self.places {
            let device = self.fabric.device(id);
            let short = device.name.strip_prefix(&prefix).unwrap_or(&device.name);
            let look = Fill::of(device.kind).dead(!device.alive);
            canvas.boxed(at, (BOX.0.max(7.4 * short.len() as f64), BOX.1), look, &[short], &device.name);
        }
    }

    /// Where the NICs' cables go; says how far down that reaches.
    fn networks(&self, canvas: &mut Canvas, nics: &[DeviceId], bottom: f64) -> f64 {
        let mut below = bottom + 26.0;
        for &nic in nics {
            let Some(&(x, y)) = self.places.get(&nic) else { continue };
            let cables: Vec<&Link> =
                self.fabric.links().iter().filter(|l| l.from == nic && l.class == LinkClass::Network).collect();
            for (i, link) in cables.iter().take(4).enumerate() {
                let shift = 16.0 * (i as f64 - (cables.len().min(4) - 1) as f64 / 2.0);
                let end = (x + shift, bottom + 52.0);
                let look = Stroke::of(link.class, link.rate.as_gbyte(), link.alive);
                canvas.line((x + shift, y + BOX.1 / 2.0), end, 0.0, look, &self.title(link));
                let row = 14.0 * i as f64;
                canvas.label((x, bottom + 64.0 + row), "middle", 10, &self.fabric.device(link.to).name);
                below = below.max(bottom + 64.0 + row);
            }
            if let Some(link) = cables.first() {
                below += 13.0;
                canvas.label((x, below), "middle", 9, &rate(link.rate.as_gbyte()));
                below -= 13.0;
            }
        }
        below + 16.0
    }

    /// The NVSwitches below the GPUs; says how far down that reaches.
    fn planes(&self, canvas: &mut Canvas, gpus: &[DeviceId], bottom: f64) -> f64 {
        let mut planes: BTreeMap<DeviceId, Vec<&Link>> = BTreeMap::new();
        for link in self.fabric.links().iter().filter(|l| l.class == LinkClass::NvLink && gpus.contains(&l.from)) {
            if self.kind(link.to) == DeviceKind::NvSwitch {
                planes.entry(link.to).or_default().push(link);
            }
        }
        let y = bottom + 118.0;
        let mut bars: Vec<(DeviceId, f64, f64)> = Vec::new();
        for (&plane, links) in &planes {
            let xs = || links.iter().filter_map(|l| self.places.get(&l.from)).map(|p| p.0);
            let (low, high) = xs().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
            if low > high {
                continue;
            }
            for link in links {
                let Some(&(x, from)) = self.places.get(&link.from) else { continue };
                let look = Stroke::of(link.class, link.rate.as_gbyte(), link.alive);
                canvas.line((x, from + BOX.1 / 2.0), (x, y), 0.0, look, &self.title(link));
                let text = if link.alive { rate(link.rate.as_gbyte()) } else { "down".to_owned() };
                canvas.label((x, bottom + 96.0), "middle", 9, &text);
            }
            let name = &self.fabric.device(plane).name;
            // The chips of a domain are spread over its boards.
            let boards = self.fabric.devices().iter().filter(|d| d.kind == DeviceKind::NvSwitch).count() as u32;
            let domains = self.fabric.nodes().last().map_or(1, |n| n.domain + 1);
            let chips = self.fabric.nvswitch_chips() / (boards / domains).max(1);
            let whole = self.fabric.nodes_per_domain();
            let text = if whole > 1 {
                format!("{name}: {chips} chips, shared by {whole} nodes")
            } else {
                format!("{}: {chips} chips", name.split('.').next_back().unwrap_or(name))
            };
            let size = ((high - low + BOX.0).max(7.0 * text.len() as f64), 26.0);
            let look = Fill::of(DeviceKind::NvSwitch).dead(!self.fabric.device(plane).alive);
            canvas.boxed(((low + high) / 2.0, y + 8.0), size, look, &[&text], name);
            bars.push((plane, low, high));
        }
        // Trunks between the boards of a node.
        for link in self.fabric.links().iter().filter(|l| l.from < l.to) {
            let bar = |id: DeviceId| bars.iter().find(|(plane, _, _)| *plane == id);
            if let (Some(&(_, _, a)), Some(&(_, b, _))) = (bar(link.from), bar(link.to)) {
                let look = Stroke::of(link.class, link.rate.as_gbyte(), link.alive);
                let ends = ((a + BOX.0 / 2.0, y + 8.0), (b - BOX.0 / 2.0, y + 8.0));
                canvas.line(ends.0, ends.1, 0.0, look, &self.title(link));
                canvas.label(((a + b) / 2.0, y + 2.0), "middle", 9, &rate(link.rate.as_gbyte()));
            }
        }
        if planes.is_empty() { bottom + 26.0 } else { y + 30.0 }
    }

    /// Direct NVLinks: the GPUs on a circle.
    fn mesh(&self, canvas: &mut Canvas, gpus: &[DeviceId], top: f64) {
        let direct: Vec<&&Link> = self.links.iter().filter(|l| self.is_direct(l)).collect();
        if direct.is_empty() {
            return;
        }
        let radius = (22.0 * gpus.len() as f64).clamp(90.0, 320.0);
        let centre = (radius + 120.0, top + radius + 60.0);
        let place = |id: DeviceId| {
            let at = gpus.iter().position(|g| *g == id).unwrap_or(0) as f64 / gpus.len() as f64;
            let angle = core::f64::consts::TAU * at - core::f64::consts::FRAC_PI_2;
            (centre.0 + radius * angle.cos(), centre.1 + radius * angle.sin())
        };
        canvas.label((24.0, top + 24.0), "start", 12, "direct GPU links");
        for link in &direct {
            let (a, b) = (place(link.from), place(link.to));
            let look = Stroke::of(link.class, link.rate.as_gbyte(), link.alive);
            canvas.line(a, b, 0.0, look, &self.title(link));
        }
        for link in &direct {
            let (a, b) = (place(link.from), place(link.to));
            // Off the middle, where many lines of a mesh meet.
            let at = (a.0 + 0.36 * (b.0 - a.0), a.1 + 0.36 * (b.1 - a.1));
            let text = if link.alive { rate(link.rate.as_gbyte()) } else { "down".to_owned() };
            if direct.len() <= 32 {
                canvas.label(at, "middle", 9, &text);
            }
        }
        for &gpu in gpus {
            let device = self.fabric.device(gpu);
            let short = device.name.split('.').next_back().unwrap_or(&device.name);
            canvas.boxed(place(gpu), BOX, Fill::of(device.kind).dead(!device.alive), &[short], &device.name);
        }
        canvas.label((centre.0, centre.1 + radius + 30.0), "middle", 9, "rates are one way");
    }

    fn is_direct(&self, link: &Link) -> bool {
        self.kind(link.from) == DeviceKind::Gpu && self.kind(link.to) == DeviceKind::Gpu
    }
}
