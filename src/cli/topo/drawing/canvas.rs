//! SVG primitives: boxes, lines and text, each with a tooltip.

use core::fmt::Write as _;

use sim_topology::{DeviceKind, LinkClass};

/// An SVG that grows as it is drawn on.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
    width: f64,
    height: f64,
}

/// How a box looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) fill: &'static str,
    pub(super) stroke: &'static str,
    /// Shown as a stack of several.
    pub(super) stack: bool,
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    pub(super) dash: &'static str,
}

/// The colour of what does not work.
pub(super) const DEAD: &str = "#d00000";

impl Fill {
    /// The look of a device.
    pub(super) const fn of(kind: DeviceKind) -> Self {
        let fill = match kind {
            DeviceKind::Gpu => "#d9f0e3",
            DeviceKind::Nic => "#fde3cf",
            DeviceKind::NvSwitch => "#bfe6d2",
            DeviceKind::PcieSwitch => "#dbe9f6",
            DeviceKind::Socket => "#f1e1ee",
            DeviceKind::Leaf | DeviceKind::Spine | DeviceKind::Core => "#eeeeee",
            _ => "#ffffff",
        };
        Self { fill, stroke: "#444444", stack: false }
    }

    /// The same for something dead.
    pub(super) const fn dead(self, dead: bool) -> Self {
        if dead { Self { fill: "#ffffff", stroke: DEAD, ..self } } else { self }
    }
}

impl Stroke {
    /// The look of links of a class (told apart by colour-blind readers, and by dash in grey) that carry `gbyte` GB/s.
    pub(super) fn of(class: LinkClass, gbyte: f64, alive: bool) -> Self {
        let (colour, dash) = match class {
            LinkClass::NvLink => ("#009e73", ""),
            LinkClass::Xgmi => ("#009e73", "8 2"),
            LinkClass::Peer => ("#bbbbbb", "1 3"),
            LinkClass::Pcie => ("#0072b2", "6 3"),
            LinkClass::SocketLink => ("#cc79a7", "2 3"),
            LinkClass::Memory => ("#999999", "2 2"),
            LinkClass::C2c => ("#56b4e9", "9 3 2 3"),
            LinkClass::Network => ("#d55e00", ""),
            LinkClass::Uplink => ("#333333", "10 4"),
        };
        let width = (gbyte.max(1.0).log2() * 0.4).clamp(0.8, 5.0);
        if alive { Self { colour, width, dash } } else { Self { colour: DEAD, width: 1.2, dash: "3 3" } }
    }
}

impl Canvas {
    fn reach(&mut self, x: f64, y: f64) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    /// How far down it reaches.
    pub(super) fn height(&self) -> f64 {
        self.height
    }

    /// A box around `(x, y)` with a line or two of text.
    pub(super) fn boxed(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), look: Fill, lines: &[&str], title: &str) {
        let (left, top) = (x - w / 2.0, y - h / 2.0);
        // Writing to a String cannot fail, here and below.
        let _ = write!(self.body, "<g><title>{}</title>", escape(title));
        for shift in if look.stack { &[6.0, 3.0, 0.0][..] } else { &[0.0][..] } {
            let _ = write!(
                self.body,
                r#"<rect x="{:.1}" y="{:.1}" width="{w:.1}" height="{h:.1}" rx="3" fill="{}" stroke="{}"/>"#,
                left + shift,
                top - shift,
                look.fill,
                look.stroke
            );
        }
        let first = y + 4.0 - 7.0 * (lines.len().saturating_sub(1)) as f64;
        for (i, line) in lines.iter().enumerate() {
            let _ = write!(self.body, r#"<text x="{x:.1}" y="{:.1}">{}</text>"#, first + 14.0 * i as f64, escape(line));
        }
        self.body += "</g>\n";
        self.reach(left + w + 8.0, top + h);
    }

    /// A frame around other things, its name in the upper left corner.
    pub(super) fn frame(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), name: &str) {
        let _ = writeln!(
            self.body,
            r##"<rect x="{left:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" rx="8" fill="#fafafa" stroke="#bbbbbb"/><text x="{:.1}" y="{:.1}" text-anchor="start" fill="#666666">{}</text>"##,
            right - left,
            bottom - top,
            left + 8.0,
            top + 15.0,
            escape(name)
        );
        self.reach(right, bottom);
    }

    /// A line, or with `bow` a curve that is that far off in the middle.
    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), bow: f64, look: Stroke, title: &str) {
        let path = if bow == 0.0 {
            format!("M {x1:.1} {y1:.1} L {x2:.1} {y2:.1}")
        } else {
            format!("M {x1:.1} {y1:.1} Q {:.1} {:.1} {x2:.1} {y2:.1}", (x1 + x2) / 2.0, (y1 + y2) / 2.0 + bow)
        };
        let _ = writeln!(
            self.body,
            r#"<path d="{path}" fill="none" stroke="{}" stroke-width="{:.1}" stroke-dasharray="{}"><title>{}</title></path>"#,
            look.colour,
            look.width,
            look.dash,
            escape(title)
        );
    }

    /// Text on a halo, so that lines below it do not disturb; `anchor` is `start`, `middle` or `end`.
    pub(super) fn label(&mut self, (x, y): (f64, f64), anchor: &str, size: u32, text: &str) {
        // Twice, since not every viewer knows `paint-order`.
        for look in [r##"fill="#ffffff" stroke="#ffffff" stroke-width="3""##, r##"fill="#333333""##] {
            let _ = write!(
                self.body,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" {look}>{}</text>"#,
                escape(text)
            );
        }
        self.body.push('\n');
        let room = if anchor == "start" { 0.56 * f64::from(size) * text.chars().count() as f64 } else { 0.0 };
        self.reach(x + room, y + 4.0);
    }

    /// The whole, with a title above everything.
    pub(super) fn finish(self, title: &str) -> String {
        let (width, height) = (self.width.max(360.0) + 16.0, self.height + 16.0);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="sans-serif" font-size="12" text-anchor="middle">
<rect width="100%" height="100%" fill="white"/>
<text x="12" y="26" font-size="16" text-anchor="start">{}</text>
{}</svg>
"#,
            escape(title),
            self.body
        )
    }
}

/// A rate in GB/s, or TB/s above a thousand.
pub(super) fn rate(gbyte: f64) -> String {
    if gbyte >= 1000.0 { format!("{:.4} TB/s", Short(gbyte / 1000.0)) } else { format!("{:.4} GB/s", Short(gbyte)) }
}

/// Three digits or so, without trailing zeros.
struct Short(f64);

impl core::fmt::Display for Short {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let digits = if self.0 >= 100.0 { 0 } else { 1 };
        let text = format!("{:.digits$}", self.0);
        f.write_str(text.strip_suffix(".0").unwrap_or(&text))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
