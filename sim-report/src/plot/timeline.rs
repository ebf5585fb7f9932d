//! What ranks did over time: as trace events for ui.perfetto.dev, and as a picture.

use std::collections::BTreeMap;

use plotters::element::{Rectangle, Text};
use plotters::prelude::{IntoDrawingArea, RGBColor, SVGBackend, TextStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, IntoFont};
use serde_json::{Value, json};

use super::PlotError;

/// Rows of a picture.
const ROWS: usize = 32;
const WIDTH: i32 = 1400;
const LEFT: i32 = 190;
const RIGHT: i32 = 20;
const TOP: i32 = 70;
/// Heights of a rank's kernels and of its messages below them, and the gap to the next rank.
const KERNELS: i32 = 16;
const MESSAGES: i32 = 8;
const GAP: i32 = 6;
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GROUND: RGBColor = RGBColor(0xee, 0xee, 0xee);

/// Shades between nothing and a pixel that is filled.
const LEVELS: u8 = 6;

/// The colour of a kind where so many [`LEVELS`]th parts are filled.
fn shade(kind: SpanKind, level: u8) -> RGBColor {
    let (full, part) = (kind.colour(), f64::from(level) / f64::from(LEVELS));
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    RGBColor(mix(GROUND.0, full.0), mix(GROUND.1, full.1), mix(GROUND.2, full.2))
}

/// What a span of a timeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanKind {
    /// Kernels of a forward pass.
    Forward,
    /// Kernels of a forward pass that is repeated.
    Recompute,
    /// Kernels of a backward pass.
    Backward,
    /// The optimizer.
    Update,
    /// A message.
    Message,
}

impl SpanKind {
    const ALL: [Self; 5] = [Self::Forward, Self::Recompute, Self::Backward, Self::Update, Self::Message];

    const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Recompute => "recompute",
            Self::Backward => "backward",
            Self::Update => "optimizer",
            Self::Message => "message",
        }
    }

    /// Okabe and Ito's colours.
    const fn colour(self) -> RGBColor {
        match self {
            Self::Forward => RGBColor(0x00, 0x72, 0xb2),
            Self::Recompute => RGBColor(0x56, 0xb4, 0xe9),
            Self::Backward => RGBColor(0xe6, 0x9f, 0x00),
            Self::Update => RGBColor(0xcc, 0x79, 0xa7),
            Self::Message => RGBColor(0x00, 0x9e, 0x73),
        }
    }
}

/// Something that took a while.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineSpan {
    /// The row of its rank: `compute`, `tp`, `to stage 1`.
    pub lane: String,
    /// What it was.
    pub name: String,
    /// Its kind.
    pub kind: SpanKind,
    /// From when, µs.
    pub from_us: f64,
    /// To when, µs.
    pub to_us: f64,
}

/// A rank and what it did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineRank {
    /// Its number.
    pub rank: u32,
    /// Its name: `rank 8 (node1.gpu0), stage 1`.
    pub name: String,
    /// What it did, in order of ends.
    pub spans: Vec<TimelineSpan>,
}

/// What some ranks did over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Above the picture.
    pub title: String,
    /// The ranks.
    pub ranks: Vec<TimelineRank>,
    /// The end, µs.
    pub end_us: f64,
}

impl Timeline {
    /// The timeline as trace events (the JSON form that ui.perfetto.dev and chrome://tracing open): a process a rank, a thread a lane.
    #[must_use]
    pub fn trace(&self) -> String {
        let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        let mut first = true;
        let mut event = |value: Value| {
            if !core::mem::take(&mut first) {
                out.push_str(",\n");
            }
            out.push_str(&value.to_string());
        };
        for (order, rank) in self.ranks.iter().enumerate() {
            let pid = rank.rank;
            let name = |what: &str, args: Value| json!({ "ph": "M", "name": what, "pid": pid, "tid": 0, "args": args });
            event(name("process_name", json!({ "name": rank.name })));
            event(name("process_sort_index", json!({ "sort_index": order })));
            let mut lanes: BTreeMap<&str, usize> = BTreeMap::new();
            for span in &rank.spans {
                let next = lanes.len();
                lanes.entry(&span.lane).or_insert(next);
            }
            for (lane, tid) in &lanes {
                let args = json!({ "name": lane });
                event(json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args }));
            }
            for span in &rank.spans {
                let tid = lanes.get(span.lane.as_str()).copied().unwrap_or(0);
                // Picoseconds as the trace has them, without the tail of binary fractions.
                let us = |us: f64| (us * 1e6).round() / 1e6;
                event(json!({
                    "ph": "X",
                    "name": span.name,
                    "cat": span.kind.name(),
                    "pid": pid,
                    "tid": tid,
                    "ts": us(span.from_us),
                    "dur": us(span.to_us - span.from_us),
                }));
            }
        }
        out.push_str("\n]}\n");
        out
    }

    /// The timeline as an SVG document: a row a rank, its kernels above its messages. The first 32 ranks.
    ///
    /// # Errors
    /// [`PlotError::Empty`] without a span.
    pub fn svg(&self) -> Result<String, PlotError> {
        let ranks = &self.ranks[..self.ranks.len().min(ROWS)];
        if self.end_us <= 0.0 || ranks.iter().all(|rank| rank.spans.is_empty()) {
            return Err(PlotError::Empty);
        }
        let height = TOP + ranks.len() as i32 * (KERNELS + MESSAGES + GAP) + 40;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
            let failed = |e: plotters::drawing::DrawingAreaErrorKind<std::io::Error>| PlotError::Drawing(e.to_string());
            let text = |label: &str, at: (i32, i32), size: f64, anchor: HPos| {
                let font = ("sans-serif", size).into_font().transform(FontTransform::None);
                let style = TextStyle::from(font).color(&INK).pos(Pos::new(anchor, VPos::Center));
                area.draw(&Text::new(label.to_owned(), at, style)).map_err(failed)
            };
            let block = |from: (i32, i32), to: (i32, i32), colour: RGBColor| {
                area.draw(&Rectangle::new([from, to], colour.filled())).map_err(failed)
            };
            block((0, 0), (WIDTH, height), RGBColor(0xff, 0xff, 0xff))?;
            text(&self.title, (LEFT, 22), 16.0, HPos::Left)?;
            let end = crate::table::time_text(self.end_us);
            text(&end, (WIDTH - RIGHT, 22), 14.0, HPos::Right)?;
            for (i, kind) in SpanKind::ALL.into_iter().enumerate() {
                let x = LEFT + i as i32 * 110;
                block((x, 42), (x + 12, 54), kind.colour())?;
                text(kind.name(), (x + 18, 48), 12.0, HPos::Left)?;
            }
            for (row, rank) in ranks.iter().enumerate() {
                let y = TOP + row as i32 * (KERNELS + MESSAGES + GAP);
                text(&rank.name, (LEFT - 8, y + (KERNELS + MESSAGES) / 2), 11.0, HPos::Right)?;
                block((LEFT, y), (WIDTH - RIGHT, y + KERNELS + MESSAGES), GROUND)?;
                for (from, to, kind, level) in self.blocks(rank, false) {
                    block((from, y), (to, y + KERNELS), shade(kind, level))?;
                }
                for (from, to, kind, level) in self.blocks(rank, true) {
                    block((from, y + KERNELS), (to, y + KERNELS + MESSAGES), shade(kind, level))?;
                }
            }
            let bottom = TOP + ranks.len() as i32 * (KERNELS + MESSAGES + GAP) + 14;
            for (us, label) in ticks(self.end_us) {
                let x = LEFT + (f64::from(WIDTH - LEFT - RIGHT) * us / self.end_us).round() as i32;
                block((x, bottom - 14), (x + 1, bottom - 8), INK)?;
                // No label leaves the picture.
                let anchor = if x > WIDTH - RIGHT - 24 { HPos::Right } else { HPos::Center };
                text(&label, (x, bottom), 11.0, anchor)?;
            }
            area.present().map_err(failed)?;
        }
        Ok(svg)
    }

    /// The spans of a rank as blocks of pixels, messages or kernels: each pixel has the kind that fills most of it, and the
    /// [`LEVELS`]th parts of it that are filled, so that many short messages are seen as a pale band.
    fn blocks(&self, rank: &TimelineRank, messages: bool) -> Vec<(i32, i32, SpanKind, u8)> {
        let pixels = (WIDTH - LEFT - RIGHT) as usize;
        let scale = pixels as f64 / self.end_us;
        let mut filled = vec![[0.0f64; SpanKind::ALL.len()]; pixels];
        for span in rank.spans.iter().filter(|span| (span.kind == SpanKind::Message) == messages) {
            let (from, to) = ((span.from_us * scale).max(0.0), (span.to_us * scale).min(pixels as f64));
            let kind = SpanKind::ALL.iter().position(|kind| *kind == span.kind).unwrap_or(0);
            let last = (to.ceil() as usize).min(pixels);
            for (pixel, cell) in filled.iter_mut().enumerate().take(last).skip(from.floor() as usize) {
                let part = to.min(pixel as f64 + 1.0) - from.max(pixel as f64);
                cell[kind] += part.max(0.0);
            }
        }
        let most = |cell: &[f64; SpanKind::ALL.len()]| {
            let all: f64 = cell.iter().sum();
            // The first of equals.
            let best = (0..cell.len()).rev().max_by(|a, b| cell[*a].total_cmp(&cell[*b]))?;
            let level = (all.min(1.0) * f64::from(LEVELS)).round() as u8;
            (level > 0).then_some((SpanKind::ALL[best], level))
        };
        let kinds: Vec<Option<(SpanKind, u8)>> = filled.iter().map(most).collect();
        let mut out = Vec::new();
        let mut at = 0;
        for run in kinds.chunk_by(|a, b| a == b) {
            let to = at + run.len();
            if let Some((kind, level)) = run[0] {
                out.push((LEFT + at as i32, LEFT + to as i32, kind, level));
            }
            at = to;
        }
        out
    }
}

/// Round times from 0 to `end_us`, about eight of them, with their labels.
fn ticks(end_us: f64) -> Vec<(f64, String)> {
    let units = [(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns"), (1e-6, "ps")];
    let (unit, name) = units.into_iter().find(|(unit, _)| end_us >= *unit).unwrap_or((1e-6, "ps"));
    let rough = end_us / unit / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [(1.0, 0), (2.0, 0), (2.5, 1), (5.0, 0), (10.0, -1)];
    let (step, more) = steps.into_iter().find(|(step, _)| step * power >= rough).unwrap_or((10.0, -1));
    let decimals = (more - (power.log10() + 1e-9).floor() as i32).max(0) as usize;
    let count = (end_us / unit / (step * power) + 1e-9).floor() as u32;
    let tick = |i: u32| {
        let value = f64::from(i) * step * power;
        let label = if i == 0 { "0".to_owned() } else { format!("{value:.decimals$} {name}") };
        (value * unit, label)
    };
    (0..=count).map(tick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(lane: &str, kind: SpanKind, from_us: f64, to_us: f64) -> TimelineSpan {
        TimelineSpan { lane: lane.to_owned(), name: format!("{kind:?} <&>"), kind, from_us, to_us }
    }

    fn sample() -> Timeline {
        let spans = vec![
            span("compute", SpanKind::Forward, 0.0, 40.0),
            span("tp", SpanKind::Message, 30.0, 60.0),
            span("compute", SpanKind::Backward, 60.0, 100.0),
        ];
        let rank = TimelineRank { rank: 3, name: "rank 3".to_owned(), spans };
        Timeline { title: "a step".to_owned(), ranks: vec![rank], end_us: 100.0 }
    }

    #[test]
    fn a_trace_is_json_that_names_ranks_and_lanes() {
        let trace: Value = serde_json::from_str(&sample().trace()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<&Value> = events.iter().filter(|e| e["ph"] == "X").collect();
        assert_eq!(spans.len(), 3);
        assert_eq!(
            (&spans[1]["ts"], &spans[1]["dur"], &spans[1]["cat"]),
            (&json!(30.0), &json!(30.0), &json!("message"))
        );
        assert!(events.iter().any(|e| e["name"] == "thread_name" && e["args"]["name"] == "tp"));
        assert!(events.iter().all(|e| e["pid"] == 3));
    }

    #[test]
    fn ticks_are_round() {
        let labels = |end: f64| ticks(end).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(100.0), ["0", "20 µs", "40 µs", "60 µs", "80 µs", "100 µs"]);
        assert_eq!(labels(1_530_000.0), ["0", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1.0 s", "1.2 s", "1.4 s"]);
        assert_eq!(labels(17_000.0), ["0", "2.5 ms", "5.0 ms", "7.5 ms", "10.0 ms", "12.5 ms", "15.0 ms"]);
        assert!(ticks(3.7e9).iter().all(|(us, _)| *us <= 3.7e9));
    }

    #[test]
    fn a_picture_has_a_block_for_what_can_be_seen() {
        let timeline = sample();
        let kernels = timeline.blocks(&timeline.ranks[0], false);
        let width = f64::from(WIDTH - LEFT - RIGHT);
        assert_eq!(kernels.len(), 2);
        assert!((f64::from(kernels[0].1 - kernels[0].0) - width * 0.4).abs() <= 1.0, "{kernels:?}");
        assert_eq!(timeline.blocks(&timeline.ranks[0], true).len(), 1);
        let svg = timeline.svg().unwrap();
        assert!(svg.contains("<svg") && svg.contains("rank 3"));
        assert_eq!(Timeline::default().svg(), Err(PlotError::Empty));
        // Many that are thinner than a pixel don't make more blocks than pixels.
        let thin: Vec<TimelineSpan> =
            (0..50_000).map(|i| span("compute", SpanKind::Forward, f64::from(i), f64::from(i) + 0.9)).collect();
        let many =
            Timeline { ranks: vec![TimelineRank { spans: thin, ..TimelineRank::default() }], end_us: 5e4, ..timeline };
        assert_eq!(many.blocks(&many.ranks[0], false).len(), 1);
    }
}
