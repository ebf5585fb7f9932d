//! Aligned text without frames or colour, for terminals, pipes and tickets alike.

use comfy_table::{CellAlignment, Table, presets};
use sim_core::units::Span;

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A table under construction.
///
/// ```
/// # use sim_report::table::{Align, TextTable};
/// let mut table = TextTable::new([("size", Align::Right), ("bottleneck", Align::Left)]);
/// table.row(["8 B", "latency"]);
/// table.row(["8 GiB", "nic"]);
/// assert_eq!(table.render(), " size  bottleneck\n  8 B  latency\n8 GiB  nic\n");
/// ```
#[derive(Clone, Debug)]
pub struct TextTable {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table of these columns: name and alignment.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        Self { columns: columns.into_iter().map(|(name, align)| (name.into(), align)).collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are blank, surplus ones are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).take(self.columns.len()).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
        self
    }

    /// True without a row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, a line per row, columns two blanks apart, without blanks at the ends of lines.
    #[must_use]
    pub fn render(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.columns.iter().map(|(name, _)| name.as_str()));
        for row in &self.rows {
            table.add_row(row);
        }
        for (column, (_, align)) in table.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        let mut out = String::new();
        for line in table.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The same as a Markdown table.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escape = |text: &String| text.replace('|', "\\|");
        let mut out = line(self.columns.iter().map(|(name, _)| escape(name)).collect());
        out += &line(
            self.columns.iter().map(|(_, a)| if *a == Align::Left { "---" } else { "---:" }.to_owned()).collect(),
        );
        for row in &self.rows {
            out += &line(row.iter().map(escape).collect());
        }
        out
    }
}

/// A number with about `digits` significant ones and no exponent (`0.00123`, `12.3`, `48230`).
#[must_use]
pub fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}

/// A time in the unit that suits it (`850 ns`, `12.34 µs`, `3.2 ms`).
#[must_use]
pub fn time_text(us: f64) -> String {
    Span::from_us_f64(us).to_string()
}
