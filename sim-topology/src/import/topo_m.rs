//! The text of `nvidia-smi topo -m`, in whatever state it was pasted: which cells there are, and where.

use core::ops::Range;
use std::collections::BTreeMap;

use super::finding::{Finding, FindingKind as Kind, Refusal};
use crate::path_class::PathClass;

/// Most devices of a table.
const MOST_DEVICES: usize = 320;

/// A cell: its class and its bytes.
pub(super) type Cell = (PathClass, Range<usize>);

/// A table as it was read: columns, rows, and what else stands beside them.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Names of the columns: GPUs first.
    pub(super) names: Vec<String>,
    /// How many of them are GPUs.
    pub(super) gpus: usize,
    /// `cells[row][column]` with the bytes of each; rows and cells may be missing.
    pub(super) cells: Vec<Vec<Option<Cell>>>,
    /// Affinities of each row.
    pub(super) affinity: Vec<Affinity>,
    /// Where each row begins; `None` if it is missing.
    pub(super) rows: Vec<Option<Range<usize>>>,
    /// Names of NICs out of the legend.
    pub(super) legend: BTreeMap<String, String>,
    /// What was found on the way.
    pub(super) findings: Vec<Finding>,
}

/// The columns after the cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Affinity {
    /// Ranges of hardware threads.
    pub(super) threads: Vec<(u32, u32)>,
    /// The NUMA nodes listed.
    pub(super) numas: Vec<(u32, u32)>,
    /// The NUMA node that the GPU's own memory is, on Grace.
    pub(super) gpu_numa: Option<u32>,
}

/// A word of the text without colour codes, and its bytes there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    at: Range<usize>,
}

/// A line: its words, and its tab-separated fields if it has tabs.
struct Line {
    words: Vec<Word>,
    /// Number of tabs before each word.
    tabs: Vec<usize>,
}

/// Takes a line apart; escape sequences of terminals count as nothing.
fn line(text: &str, start: usize) -> Line {
    let bytes = text.as_bytes();
    let (mut words, mut tabs_before) = (Vec::<Word>::new(), Vec::new());
    let (mut i, mut tabs, mut open) = (0, 0, false);
    while i < bytes.len() {
        if bytes[i] == 0x1b {
            i += 1;
            if bytes.get(i) == Some(&b'[') {
                i += 1;
                while i < bytes.len() && !(0x40..=0x7e).contains(&bytes[i]) {
                    i += 1;
                }
            }
            i += 1;
            continue;
        }
        // Characters begin where the last one ended, so this is one.
        let Some(c) = text.get(i..).and_then(|rest| rest.chars().next()) else {
            i += 1;
            continue;
        };
        let end = i + c.len_utf8();
        if c.is_whitespace() || c == '\u{feff}' || c == '|' {
            tabs += usize::from(c == '\t');
            open = false;
        } else {
            match words.last_mut().filter(|_| open) {
                Some(word) => {
                    word.text.push(c);
                    word.at.end = start + end;
                }
                None => {
                    words.push(Word { text: c.to_string(), at: start + i..start + end });
                    tabs_before.push(tabs);
                }
            }
            open = true;
        }
        i = end;
    }
    Line { words, tabs: tabs_before }
}

fn gpu_number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("GPU")?;
    if digits.len() > 3 { None } else { digits.parse().ok() }
}

fn class(text: &str) -> Option<PathClass> {
    Some(match text {
        "X" => PathClass::X,
        "PIX" | "PSB" => PathClass::Pix,
        "PXB" => PathClass::Pxb,
        "PHB" => PathClass::Phb,
        "NODE" => PathClass::Node,
        // `SOC` is what drivers before 378 wrote.
        "SYS" | "SOC" => PathClass::Sys,
        "XGMI" => PathClass::Xgmi(1),
        _ => {
            let links = text.strip_prefix("NV").filter(|d| !d.is_empty() && d.len() <= 2)?;
            PathClass::Nvl(links.parse().ok().filter(|&n| n > 0)?)
        }
    })
}

/// Whether the text has a row or heading of such a table.
pub(super) fn looks_like(text: &str) -> bool {
    text.lines().take(100_000).any(|l| {
        let words = line(l.get(..l.len().min(4000)).unwrap_or(l), 0).words;
        // Something may stand before the table: a prompt, a quotation mark, a time.
        words.windows(2).take(4).any(|w| {
            gpu_number(&w[0].text).is_some() && (class(&w[1].text).is_some() || gpu_number(&w[1].text).is_some())
        })
    })
}

/// Reads the table.
///
/// # Errors
/// If there is no row of a GPU in the text.
pub(super) fn read(text: &str) -> Result<Table, Refusal> {
    let mut reader = Reader::default();
    let mut start = 0;
    for raw in text.split_inclusive('\n') {
        let shown = raw.trim_end_matches(['\n', '\r']);
        reader.line(line(shown, start));
        start += raw.len();
        if reader.rows.len() > MOST_DEVICES {
            let refusal = Refusal::new(format!("more than {MOST_DEVICES} rows"));
            return Err(refusal.at(start - raw.len()..start, "a host has fewer devices"));
        }
    }
    reader.finish(text)
}

/// A row as it is read: its name, its cells, and what follows them.
struct Row {
    name: Word,
    cells: Vec<(PathClass, Range<usize>)>,
    rest: Vec<(String, usize)>,
    /// The tabs before the row's first word and in it, if it is laid out with tabs.
    tabs_at_cells: usize,
}

#[derive(Default)]
struct Reader {
    header: Option<Vec<Word>>,
    header_open: bool,
    columns: Option<usize>,
    has_gpu_numa: bool,
    rows: Vec<Row>,
    legend: BTreeMap<String, String>,
    in_legend: bool,
    strange: Vec<Range<usize>>,
    findings: Vec<Finding>,
}

impl Reader {
    fn line(&mut self, mut line: Line) {
        // A table inside a log or a quoted mail has something before each line.
        if let Some(skip) = line.words.iter().take(4).position(|w| gpu_number(&w.text).is_some())
            && skip > 0
            && line.words.get(skip + 1).is_some_and(|w| class(&w.text).is_some() || gpu_number(&w.text).is_some())
            && line.words[..skip].iter().all(|w| class(&w.text).is_none())
        {
            line.words.drain(..skip);
            line.tabs.drain(..skip);
        }
        let Some(first) = line.words.first() else {
            self.header_open = false;
            return;
        };
        let second = line.words.get(1).map(|w| w.text.as_str());
        if self.legend_line(&line.words) {
            return;
        }
        let known = self.header.as_ref().is_some_and(|h| h.iter().any(|w| w.text == first.text));
        let is_row = second.is_some_and(|s| class(s).is_some())
            && (gpu_number(&first.text).is_some()
                || known
                || (class(&first.text).is_none() && self.is_nic_row(&line.words)));
        if is_row {
            self.header_open = false;
            self.in_legend = false;
            self.row(line);
        } else if self.header_open
            || (self.header.is_none() && self.rows.is_empty() && gpu_number(&first.text) == Some(0))
        {
            self.header(line.words);
        } else if !self.in_legend {
            self.continuation(line);
        }
    }

    /// `  NIC0: mlx5_0`, or `  X    = Self`.
    fn legend_line(&mut self, words: &[Word]) -> bool {
        let first = words[0].text.as_str();
        if first == "Legend:" || (first == "NIC" && words.get(1).is_some_and(|w| w.text == "Legend:")) {
            self.in_legend = true;
            self.header_open = false;
            return true;
        }
        if words.get(1).is_some_and(|w| w.text == "=") {
            self.in_legend = true;
            return true;
        }
        match (first.strip_suffix(':'), words.get(1)) {
            (Some(name), Some(device)) if name.starts_with("NIC") && words.len() == 2 => {
                let device: String = device.text.chars().take(60).collect();
                self.legend.entry(name.to_owned()).or_insert(device);
                true
            }
            _ => false,
        }
    }

    /// A row whose name is not in the heading, as there is none: it has as many cells as the rows before it.
    fn is_nic_row(&self, words: &[Word]) -> bool {
        let cells = words.iter().skip(1).take_while(|w| class(&w.text).is_some()).count();
        self.header.is_none() && self.rows.last().is_some_and(|r| r.cells.len() == cells)
    }

    fn header(&mut self, mut words: Vec<Word>) {
        // A name cut in two by the terminal: `NI` and `C1`, `NIC1` and `0`.
        if let Some(last) = self.header.as_mut().and_then(|h| h.last_mut())
            && let Some(first) = words.first()
            && (!last.text.contains(|c: char| c.is_ascii_digit()) || first.text.bytes().all(|b| b.is_ascii_digit()))
            && self.columns.is_none()
        {
            last.text.push_str(&first.text);
            words.remove(0);
        }
        let tail = words.iter().position(|w| matches!(w.text.as_str(), "CPU" | "NUMA" | "Affinity"));
        self.has_gpu_numa |= words.windows(2).any(|w| w[0].text == "NUMA" && w[1].text == "ID");
        let gpu_tail = words.windows(2).position(|w| w[0].text == "GPU" && w[1].text == "NUMA");
        let end = tail.or(gpu_tail).unwrap_or(words.len());
        let ended = self.columns.is_some();
        let header = self.header.get_or_insert_default();
        if !ended {
            header.extend(words.into_iter().take(end));
        }
        if tail.is_some() && !ended {
            self.columns = Some(header.len());
        }
        self.header_open = true;
    }

    fn row(&mut self, line: Line) {
        let mut words = line.words.into_iter().zip(line.tabs);
        let Some((name, _)) = words.next() else { return };
        self.rows.push(Row { name, cells: Vec::new(), rest: Vec::new(), tabs_at_cells: 0 });
        self.fill(words.collect());
    }

    /// Puts words into the last row: cells as long as there are columns, then the rest.
    fn fill(&mut self, words: Vec<(Word, usize)>) {
        let columns = self.header.as_ref().map_or(usize::MAX, Vec::len);
        let Some(row) = self.rows.last_mut() else { return };
        for (word, tabs) in words {
            let cell = class(&word.text).filter(|_| row.rest.is_empty() && row.cells.len() < columns);
            match cell {
                Some(class) => {
                    row.cells.push((class, word.at));
                    row.tabs_at_cells = tabs;
                }
                None => {
                    let looks_like_affinity = word.text.starts_with(|c: char| c.is_ascii_digit()) || word.text == "N/A";
                    if row.rest.is_empty() && row.cells.len() < columns && columns != usize::MAX && !looks_like_affinity
                    {
                        self.strange.push(word.at.clone());
                    }
                    row.rest.push((word.text, tabs.saturating_sub(row.tabs_at_cells)));
                }
            }
        }
    }

    /// What a terminal wrapped goes on in the row before.
    fn continuation(&mut self, line: Line) {
        let columns = self.header.as_ref().map_or(usize::MAX, Vec::len);
        let Some(row) = self.rows.last_mut() else { return };
        let Some(first) = line.words.first() else { return };
        // A word cut in two by the terminal: `NO` and `DE`.
        if row.cells.len() < columns
            && row.rest.len() == 1
            && let Some(whole) = class(&format!("{}{}", row.rest[0].0, first.text))
        {
            row.rest.clear();
            let at = self.strange.pop().unwrap_or_else(|| first.at.clone());
            row.cells.push((whole, at));
            let rest = line.words.into_iter().zip(line.tabs).skip(1).collect();
            return self.fill(rest);
        }
        let cells_due = row.cells.len() < columns && columns != usize::MAX && row.rest.is_empty();
        let affinity_due = row.rest.is_empty() && gpu_number(&row.name.text).is_some() && columns != usize::MAX;
        let is_affinity = first.text.starts_with(|c: char| c.is_ascii_digit()) && line.words.len() <= 3;
        if (cells_due && class(&first.text).is_some()) || (affinity_due && is_affinity) {
            self.fill(line.words.into_iter().zip(line.tabs).collect());
        }
    }

    fn finish(mut self, text: &str) -> Result<Table, Refusal> {
        if !self.rows.iter().any(|r| gpu_number(&r.name.text).is_some()) {
            let refusal = Refusal::new("no row of a GPU in the text");
            return Err(refusal
                .at(0..text.find('\n').unwrap_or(text.len()).min(200), "the text begins like this")
                .help("the output of `nvidia-smi topo -m` is due, with its heading"));
        }
        let (names, gpus) = self.names()?;
        let count = names.len();
        let mut table = Table {
            gpus,
            cells: vec![vec![None; count]; count],
            affinity: vec![Affinity::default(); count],
            rows: vec![None; count],
            legend: self.legend,
            findings: self.findings,
            names,
        };
        if let Some(first) = self.strange.first() {
            let finding = Finding::new(Kind::BadValue, "a cell that is no class of path");
            let label = "NV#, XGMI, PIX, PXB, PHB, NODE or SYS is due; the rest of the row is not used";
            table.findings.push(finding.at(first.clone(), label));
        }
        for row in self.rows {
            let name = &row.name.text;
            let own = row.cells.iter().position(|c| c.0 == PathClass::X);
            let index = table.names.iter().position(|n| n == name).or(own.filter(|_| gpu_number(name).is_none()));
            let Some(index) = index.filter(|&i| i < count) else { continue };
            if table.rows[index].is_some() {
                let finding = Finding::new(Kind::Duplicate, format!("the row of {name} is there twice"));
                table.findings.push(finding.at(row.name.at, "the second; it is left out"));
                continue;
            }
            if own.is_some_and(|own| own != index) {
                let finding = Finding::new(Kind::Contradiction, format!("the X of {name} is in another's column"));
                let finding = finding.at(row.name.at.clone(), "columns of this row seem to be missing or shifted");
                table.findings.push(finding.help("its cells are not used; those of the others' rows are"));
                table.rows[index] = Some(row.name.at);
                continue;
            }
            if row.cells.len() < count {
                let what = format!("the row of {name} has {} of {count} cells", row.cells.len());
                let finding = Finding::new(Kind::Incomplete, what);
                table.findings.push(finding.at(row.name.at.clone(), "cut off; the others' rows fill in what they can"));
            }
            for (column, cell) in row.cells.into_iter().take(count).enumerate() {
                table.cells[index][column] = Some(cell);
            }
            table.affinity[index] = affinity(&row.rest, self.has_gpu_numa);
            table.rows[index] = Some(row.name.at);
        }
        Ok(table)
    }

    /// The columns: those of the heading, or as many as the rows show.
    fn names(&mut self) -> Result<(Vec<String>, usize), Refusal> {
        if let Some(header) = &self.header {
            let names: Vec<String> = header.iter().map(|w| w.text.chars().take(60).collect()).collect();
            let gpus = names.iter().take_while(|n| gpu_number(n).is_some()).count();
            for (i, name) in names.iter().enumerate() {
                if names[..i].contains(name) {
                    let refusal = Refusal::new(format!("the column {name} is there twice"));
                    return Err(refusal.at(header[i].at.clone(), "the second"));
                }
            }
            if gpus > 0 && names.len() <= MOST_DEVICES {
                return Ok((names, gpus));
            }
        }
        let first = self.rows.first().map_or(0..0, |r| r.name.at.clone());
        let columns = self.rows.iter().map(|r| r.cells.len()).max().unwrap_or(0).min(MOST_DEVICES);
        // GPUs are those with rows, those with NVLinks to them, and what lies between.
        let named = self.rows.iter().filter_map(|r| gpu_number(&r.name.text)).max().map_or(0, |n| n + 1);
        let linked = self
            .rows
            .iter()
            .filter_map(|r| r.cells.iter().rposition(|c| matches!(c.0, PathClass::Nvl(_) | PathClass::Xgmi(_))))
            .max()
            .map_or(0, |n| n + 1);
        let gpus = named.max(linked).min(columns);
        if columns == 0 || named > columns {
            return Err(Refusal::new("the heading is missing").at(first, "and the rows do not tell the columns"));
        }
        let legend: Vec<String> = self.legend.keys().cloned().collect();
        let mut nics: Vec<String> =
            self.rows.iter().map(|r| r.name.text.clone()).filter(|n| gpu_number(n).is_none()).collect();
        nics.truncate(columns - gpus);
        let name = |i: usize| match nics.get(i - gpus) {
            Some(name) if nics.len() == columns - gpus => name.clone(),
            _ => format!("NIC{}", i - gpus),
        };
        let names = (0..columns).map(|i| if i < gpus { format!("GPU{i}") } else { name(i) }).collect();
        let finding = Finding::new(Kind::Incomplete, "the heading is missing");
        let label = format!("by the rows there are {gpus} GPUs, and {} other columns taken as NICs", columns - gpus);
        let help =
            if legend.is_empty() { "paste the heading too, if this is wrong" } else { "the legend of NICs was used" };
        self.findings.push(finding.at(first, label).help(help));
        Ok((names, gpus))
    }
}

/// The words after the cells. With tabs their number tells the columns; without, their form does.
fn affinity(rest: &[(String, usize)], has_gpu_numa: bool) -> Affinity {
    let mut words: Vec<&str> = rest.iter().map(|w| w.0.as_str()).collect();
    let mut out = Affinity::default();
    words.truncate(3);
    let third = |w: &&str| words.len() == 3 || (has_gpu_numa && words.len() == 2 && *w == "N/A");
    let gpu_numa = words.last().copied().filter(third);
    if let Some(word) = gpu_numa {
        out.gpu_numa = word.parse().ok();
        words.pop();
    }
    let tabbed = rest.first().is_some_and(|w| w.1 > 0);
    match words[..] {
        [cpu, numa] => {
            out.threads = ranges(cpu);
            out.numas = ranges(numa);
        }
        // One word: after one tab it is the CPUs', after two the NUMA node's; else a list is of CPUs.
        [one] if tabbed && rest[0].1 == 1 => out.threads = ranges(one),
        [one] if tabbed => out.numas = ranges(one),
        [one] if one.contains(['-', ',']) && gpu_numa.is_none() => out.threads = ranges(one),
        [one] => out.numas = ranges(one),
        _ => {}
    }
    out
}

/// `0-31,64-95`; what is no number or range is passed over.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        (first <= last && last < 1 << 20).then_some((first, last))
    };
    text.split(',').take(4096).filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_tabs_are_no_part_of_words() {
        let words = |text: &str| line(text, 0).words.into_iter().map(|w| w.text).collect::<Vec<_>>();
        assert_eq!(words("\u{1b}[4m\tGPU0\tGPU1\u{1b}[0m"), ["GPU0", "GPU1"]);
        assert_eq!(words("GPU0\t X \tNV18\u{1b}["), ["GPU0", "X", "NV18"]);
        assert_eq!(words("\u{1b}"), [""; 0]);
    }

    #[test]
    fn affinities_in_every_form() {
        let of = |text: &str, numa_id| {
            let words: Vec<(String, usize)> = text.split(' ').map(|w| (w.to_owned(), 0)).collect();
            affinity(&words, numa_id)
        };
        let threads = vec![(0, 31), (64, 95)];
        assert_eq!(of("0-31,64-95 0", false), Affinity { threads, numas: vec![(0, 0)], gpu_numa: None });
        assert_eq!(of("0 N/A", true), Affinity { numas: vec![(0, 0)], ..Affinity::default() });
        assert_eq!(of("56 1 N/A", true), Affinity { threads: vec![(56, 56)], numas: vec![(1, 1)], gpu_numa: None });
        let grace = of("0-71 0,3-9,11-17 2", true);
        assert_eq!((grace.numas.len(), grace.gpu_numa), (3, Some(2)));
        assert_eq!(of("x-y,-", false).threads, []);
    }

    #[test]
    fn classes() {
        assert_eq!(class("NV18"), Some(PathClass::Nvl(18)));
        assert_eq!(class("SOC"), Some(PathClass::Sys));
        for bad in ["NV", "NV0", "NV999", "pix", ""] {
            assert_eq!(class(bad), None, "{bad}");
        }
    }
}
