//! A line chart.

use plotters::coord::Shift;
use plotters::element::{Circle, Cross, PathElement, Rectangle, Text, TriangleMarker};
use plotters::prelude::{DrawingArea, IntoDrawingArea, RGBColor, SVGBackend, ShapeStyle, TextStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, IntoFont};

use super::scale::Axis;

/// How an axis maps its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero (or below), even.
    Linear,
    /// Powers of two with labels such as `64 KiB`.
    Bytes,
    /// Powers of ten.
    Log,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line through its points: a model.
    Line,
    /// Markers only: measurements.
    Points,
}

/// A named list of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Line or markers.
    pub kind: Kind,
    /// x and y in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, kind: Kind, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), kind, points }
    }
}

/// A chart to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above the chart.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// Above the vertical axis.
    pub y: String,
    /// The horizontal scale.
    pub x_scale: Scale,
    /// The vertical scale.
    pub y_scale: Scale,
    /// What to draw. A `Points` series right after a `Line` shares its colour: the two belong together.
    pub series: Vec<Series>,
}

/// Why there is no chart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// No series has a point that the scales can show.
    #[error("there is nothing to draw: no series has a point on the chart's scales")]
    Empty,
    /// The drawing failed.
    #[error("the chart cannot be drawn: {0}")]
    Drawing(String),
}

const WIDTH: u32 = 860;
const HEIGHT: u32 = 500;
const LEFT: i32 = 70;
const TOP: i32 = 62;
const BOTTOM: i32 = 56;
const RIGHT: i32 = 28;
const LEGEND_ROW: i32 = 20;
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Okabe and Ito's palette, in an order whose brightness alternates, without the yellow that is lost on white.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];
/// Dash and gap in pixels; the first is solid.
const DASHES: [&[f64]; 4] = [&[], &[9.0, 4.0], &[2.0, 3.0], &[10.0, 3.0, 2.0, 3.0]];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The frame of the data on the page.
struct Frame {
    x: Axis,
    y: Axis,
    bottom: i32,
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let width = f64::from(WIDTH as i32 - LEFT - RIGHT);
        let height = f64::from(self.bottom - TOP);
        let right = (x - self.x.from) / (self.x.to - self.x.from) * width;
        let up = (y - self.y.from) / (self.y.to - self.y.from) * height;
        (LEFT + right.round() as i32, self.bottom - up.round() as i32)
    }
}

impl Chart {
    /// The chart as an SVG document.
    ///
    /// # Errors
    /// [`PlotError::Empty`] if no series has a point that the scales can show.
    pub fn svg(&self) -> Result<String, PlotError> {
        let placed: Vec<Vec<(f64, f64)>> = self.series.iter().map(|series| self.placed(series)).collect();
        let x = self.axis(self.x_scale, |p| p.0)?;
        let y = self.axis(self.y_scale, |p| p.1)?;
        let shown: Vec<usize> = (0..self.series.len()).filter(|i| !placed[*i].is_empty()).collect();
        let legend = (shown.len() as i32).div_euclid(2) + (shown.len() as i32) % 2;
        let height = HEIGHT as i32 + legend * LEGEND_ROW;
        let frame = Frame { x, y, bottom: HEIGHT as i32 - BOTTOM };
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
            let drawn = self.draw(&area, &frame, &placed, &shown);
            drawn.and_then(|()| area.present().map_err(|e| PlotError::Drawing(e.to_string())))?;
        }
        Ok(svg)
    }

    fn placed(&self, series: &Series) -> Vec<(f64, f64)> {
        let place = |(x, y): &(f64, f64)| Some((self.x_scale.place(*x)?, self.y_scale.place(*y)?));
        series.points.iter().filter_map(place).collect()
    }

    fn axis(&self, scale: Scale, part: impl Fn(&(f64, f64)) -> f64) -> Result<Axis, PlotError> {
        let visible = |p: &&(f64, f64)| self.x_scale.place(p.0).is_some() && self.y_scale.place(p.1).is_some();
        let values = self.series.iter().flat_map(|s| &s.points).filter(visible).map(part);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high { Err(PlotError::Empty) } else { Ok(scale.axis(low, high)) }
    }

    fn draw(
        &self,
        area: &Area<'_>,
        frame: &Frame,
        placed: &[Vec<(f64, f64)>],
        shown: &[usize],
    ) -> Result<(), PlotError> {
        let fail = |e: plotters::drawing::DrawingAreaErrorKind<std::io::Error>| PlotError::Drawing(e.to_string());
        area.fill(&plotters::style::WHITE).map_err(fail)?;
        self.grid(area, frame).map_err(fail)?;
        let looks = self.looks();
        // Lines first, so that measured points stay visible.
        for kind in [Kind::Line, Kind::Points] {
            for i in shown.iter().copied().filter(|i| self.series[*i].kind == kind) {
                let mut points: Vec<_> = placed[i].iter().map(|(x, y)| frame.at(*x, *y)).collect();
                if kind == Kind::Line {
                    points.sort_by_key(|p| p.0);
                    line(area, &points, looks[i]).map_err(fail)?;
                } else {
                    for point in points {
                        marker(area, point, looks[i]).map_err(fail)?;
                    }
                }
            }
        }
        let half = (WIDTH as i32 - LEFT - RIGHT) / 2;
        for (n, i) in shown.iter().copied().enumerate() {
            let x = LEFT + (n as i32 % 2) * half;
            let y = HEIGHT as i32 + (n as i32 / 2) * LEGEND_ROW;
            if self.series[i].kind == Kind::Line {
                line(area, &[(x, y), (x + 34, y)], looks[i]).map_err(fail)?;
            } else {
                marker(area, (x + 17, y), looks[i]).map_err(fail)?;
            }
            text(area, &shortened(&self.series[i].name, 46), (x + 42, y), 13.0, HPos::Left).map_err(fail)?;
        }
        Ok(())
    }

    fn grid(&self, area: &Area<'_>, frame: &Frame) -> Drawn {
        for (at, label) in &frame.y.ticks {
            let (left, y) = frame.at(frame.x.from, *at);
            area.draw(&PathElement::new([(left, y), (WIDTH as i32 - RIGHT, y)], ShapeStyle::from(GRID)))?;
            text(area, label, (left - 8, y), 13.0, HPos::Right)?;
        }
        for (at, label) in &frame.x.ticks {
            let (x, bottom) = frame.at(*at, frame.y.from);
            area.draw(&PathElement::new([(x, TOP), (x, bottom)], ShapeStyle::from(GRID)))?;
            text(area, label, (x, bottom + 14), 13.0, HPos::Center)?;
        }
        let corner = [(LEFT, TOP), (LEFT, frame.bottom), (WIDTH as i32 - RIGHT, frame.bottom)];
        area.draw(&PathElement::new(corner, ShapeStyle::from(INK)))?;
        text(area, &shortened(&self.title, 90), (LEFT, 20), 17.0, HPos::Left)?;
        text(area, &self.y, (LEFT, 46), 13.0, HPos::Left)?;
        text(area, &self.x, (LEFT + (WIDTH as i32 - LEFT - RIGHT) / 2, frame.bottom + 34), 13.0, HPos::Center)
    }

    /// Colours and patterns: markers that follow a line take its colour.
    fn looks(&self) -> Vec<Look> {
        let mut next = 0;
        let mut before: Option<(Kind, Look)> = None;
        self.series
            .iter()
            .map(|series| {
                let look = match before {
                    Some((Kind::Line, look)) if series.kind == Kind::Points => look,
                    _ => {
                        next += 1;
                        Look(next - 1)
                    }
                };
                before = Some((series.kind, look));
                look
            })
            .collect()
    }
}

/// The number of a colour, dash and marker.
#[derive(Clone, Copy)]
struct Look(usize);

impl Look {
    fn colour(self) -> RGBColor {
        PALETTE[self.0 % PALETTE.len()]
    }

    fn dash(self) -> &'static [f64] {
        DASHES[self.0 % DASHES.len()]
    }
}

type Drawn = Result<(), plotters::drawing::DrawingAreaErrorKind<std::io::Error>>;

/// Straight lines through the points, dashed along the whole way.
fn line(area: &Area<'_>, points: &[(i32, i32)], look: Look) -> Drawn {
    let style = look.colour().stroke_width(2);
    let pattern = look.dash();
    if let [only] = points {
        return area.draw(&Circle::new(*only, 2, look.colour().filled()));
    }
    if pattern.is_empty() {
        return area.draw(&PathElement::new(points.to_vec(), style));
    }
    let (mut index, mut left) = (0, pattern[0]);
    let mut dash = Vec::new();
    for pair in points.windows(2) {
        let (from, to) = ((f64::from(pair[0].0), f64::from(pair[0].1)), (f64::from(pair[1].0), f64::from(pair[1].1)));
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |s: f64| {
            let t = if length > 0.0 { s / length } else { 0.0 };
            ((from.0 + (to.0 - from.0) * t).round() as i32, (from.1 + (to.1 - from.1) * t).round() as i32)
        };
        let mut along = 0.0;
        if index % 2 == 0 {
            dash.push(at(0.0));
        }
        while length - along > left {
            along += left;
            dash.push(at(along));
            if index % 2 == 0 {
                area.draw(&PathElement::new(std::mem::take(&mut dash), style))?;
            }
            index += 1;
            left = pattern[index % pattern.len()];
        }
        left -= length - along;
    }
    if dash.len() > 1 || (dash.len() == 1 && index % 2 == 0) {
        dash.extend(points.last());
        area.draw(&PathElement::new(dash, style))?;
    }
    Ok(())
}

/// A marker whose shape goes with the look; hollow ones keep the line below visible.
fn marker(area: &Area<'_>, (x, y): (i32, i32), look: Look) -> Drawn {
    let style = look.colour().stroke_width(2);
    match look.0 % 4 {
        0 => area.draw(&Circle::new((x, y), 4, style)),
        1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style)),
        2 => area.draw(&Cross::new((x, y), 4, style)),
        _ => area.draw(&TriangleMarker::new((x, y), 5, look.colour().filled())),
    }
}

fn text(area: &Area<'_>, label: &str, at: (i32, i32), size: f64, anchor: HPos) -> Drawn {
    let font = ("sans-serif", size).into_font().transform(FontTransform::None);
    let style = TextStyle::from(font).color(&INK).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(label.to_owned(), at, style))
}

/// At most `max` characters, with what is cut marked.
fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() <= max { text.to_owned() } else { text.chars().take(max - 1).chain(['…']).collect() }
}
