//! The tables of `rocm-smi --showtopo`: hops and types of the links between AMD GPUs, and their NUMA nodes.
//!
//! The weights say no more than hops do and are passed over. A type is `XGMI` or `PCIE`; which PCIe switches lie between
//! is not told, so that two GPUs of one NUMA node that are joined by PCIe are NODE to each other, and those of two SYS. Without
//! NUMA nodes the hops tell: two by one CPU, three or more across.

use core::ops::Range;
use std::collections::BTreeMap;

use super::finding::{Finding, FindingKind as Kind, Refusal};
use super::topo_m::{Affinity, Table};
use crate::path_class::PathClass;

/// Most GPUs of a table.
const MOST: usize = 64;

/// Which table a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Hops,
    Types,
    Numas,
    Other,
}

fn section(line: &str) -> Option<Section> {
    if !line.contains("===") {
        return None;
    }
    let title = line.to_ascii_lowercase();
    Some(if title.contains("link type between two gpus") {
        Section::Types
    } else if title.contains("hops between two gpus") {
        Section::Hops
    } else if title.contains("numa node") {
        Section::Numas
    } else {
        Section::Other
    })
}

/// Whether the text has the table of link types.
pub(super) fn looks_like(text: &str) -> bool {
    text.lines().take(100_000).any(|line| section(line) == Some(Section::Types))
}

/// The words of a line with their bytes in the text.
fn words(line: &str, start: usize) -> Vec<(&str, Range<usize>)> {
    let place = |word: &str| start + (word.as_ptr() as usize - line.as_ptr() as usize);
    line.split_whitespace().map(|word| (word, place(word)..place(word) + word.len())).collect()
}

fn gpu_number(word: &str) -> Option<usize> {
    let digits = word.strip_prefix("GPU")?;
    let digits = digits.strip_prefix('[').and_then(|d| d.split_once(']')).map_or(digits, |d| d.0);
    digits.parse().ok().filter(|&n| n < MOST)
}

/// A word of a table and its bytes.
type Cells<'a> = BTreeMap<(usize, usize), (&'a str, Range<usize>)>;

/// Reads the tables.
///
/// # Errors
/// If no GPU has a row in the table of link types.
pub(super) fn read(text: &str) -> Result<Table, Refusal> {
    let (mut types, mut hops, mut numas) = (Cells::new(), Cells::new(), BTreeMap::new());
    let mut rows: BTreeMap<usize, Range<usize>> = BTreeMap::new();
    let mut findings = Vec::new();
    let (mut now, mut columns, mut start) = (Section::Other, Vec::new(), 0);
    for raw in text.split_inclusive('\n') {
        let words = words(raw, start);
        start += raw.len();
        if let Some(next) = section(raw) {
            (now, columns) = (next, Vec::new());
            continue;
        }
        let Some(((name, at), cells)) = words.split_first() else { continue };
        let Some(gpu) = gpu_number(name) else { continue };
        match now {
            Section::Other => {}
            Section::Numas => {
                if raw.contains("Numa Node:")
                    && let Some(numa) = words.last().and_then(|w| w.0.parse::<u32>().ok())
                {
                    numas.insert(gpu, numa);
                }
            }
            // The heading: GPUs and nothing else.
            _ if words.iter().all(|w| gpu_number(w.0).is_some()) => {
                columns = words.iter().filter_map(|w| gpu_number(w.0)).collect();
            }
            Section::Types if rows.contains_key(&gpu) => {
                let finding = Finding::new(Kind::Duplicate, format!("the row of {name} is there twice"));
                findings.push(finding.at(at.clone(), "the second; it is left out"));
            }
            Section::Hops | Section::Types => {
                let table = if now == Section::Types { &mut types } else { &mut hops };
                for (&column, cell) in columns.iter().zip(cells) {
                    table.insert((gpu, column), cell.clone());
                }
                if now == Section::Types {
                    rows.insert(gpu, at.clone());
                }
            }
        }
    }
    let Some(last) = types.keys().map(|&(a, b)| a.max(b)).max() else {
        let refusal = Refusal::new("no row of a GPU in a table of link types");
        return Err(refusal.help("the output of `rocm-smi --showtopo` is due, with its headings"));
    };
    let count = last + 1;
    let mut table = Table {
        names: (0..count).map(|g| format!("GPU{g}")).collect(),
        gpus: count,
        cells: vec![vec![None; count]; count],
        affinity: vec![Affinity::default(); count],
        rows: (0..count).map(|g| rows.get(&g).cloned()).collect(),
        legend: BTreeMap::new(),
        findings,
    };
    for (&gpu, &numa) in numas.iter().filter(|(gpu, _)| **gpu < count) {
        table.affinity[gpu].numas = vec![(numa, numa)];
    }
    let across = |a: usize, b: usize| match (numas.get(&a), numas.get(&b)) {
        (Some(a), Some(b)) => a != b,
        _ => hops.get(&(a, b)).is_some_and(|hop| hop.0.parse::<u32>().is_ok_and(|hops| hops > 2)),
    };
    let (mut strange, mut pcie) = (None, None);
    for (&(a, b), (word, at)) in &types {
        let class = match word.to_ascii_uppercase().as_str() {
            _ if a == b => PathClass::X,
            "XGMI" => PathClass::Xgmi(1),
            "PCIE" => {
                pcie.get_or_insert(at.clone());
                if across(a, b) { PathClass::Sys } else { PathClass::Node }
            }
            _ => {
                strange.get_or_insert(at.clone());
                continue;
            }
        };
        table.cells[a][b] = Some((class, at.clone()));
    }
    if let Some(at) = strange {
        let finding = Finding::new(Kind::BadValue, "a cell that is no type of link");
        table.findings.push(finding.at(at, "XGMI or PCIE is due; such cells are not used"));
    }
    if let Some(at) = pcie {
        let finding = Finding::new(Kind::Incomplete, "the tables do not tell PCIe switches");
        let label = "taken as NODE in one NUMA node, as SYS across";
        table
            .findings
            .push(finding.at(at, label).help("an RCCL dump (NCCL_TOPO_DUMP_FILE) has them, and the NICs too"));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind as FileKind, Request, detect, node};
    use super::*;
    use crate::catalogue::Catalogue;

    /// Two islands of two, laid out as the tool does; the figures are made up.
    const ISLANDS: &str = "
============================ ROCm System Management Interface ============================
================================ Weight between two GPUs =================================
       GPU0         GPU1         GPU2         GPU3         
GPU0   0            15           72           72           
GPU1   15           0            72           72           
GPU2   72           72           0            15           
GPU3   72           72           15           0            

================================= Hops between two GPUs ==================================
       GPU0         GPU1         GPU2         GPU3         
GPU0   0            1            3            3            
GPU1   1            0            3            3            
GPU2   3            3            0            1            
GPU3   3            3            1            0            

=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2         GPU3         
GPU0   0            XGMI         PCIE         PCIE         
GPU1   XGMI         0            PCIE         PCIE         
GPU2   PCIE         PCIE         0            XGMI         
GPU3   PCIE         PCIE         XGMI         0            

======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Affinity: 0
GPU[2]\t\t: (Topology) Numa Node: 1
GPU[2]\t\t: (Topology) Numa Affinity: 1
GPU[3]\t\t: (Topology) Numa Node: 1
GPU[3]\t\t: (Topology) Numa Affinity: 1
================================== End of ROCm SMI Log ===================================
";

    fn imported(text: &str) -> super::super::Imported {
        node(text, FileKind::RocmTopo, &Request::default(), Catalogue::builtin()).unwrap()
    }

    #[test]
    fn islands_come_out_as_a_mesh() {
        assert_eq!(detect(ISLANDS), Some(FileKind::RocmTopo));
        let all = imported(ISLANDS);
        assert_eq!((all.node.gpus, all.node.sockets, all.node.nics), (4, 2, 0));
        assert_eq!(all.node.xgmi.as_ref().unwrap().mesh, Some(2));
        let cell = |a: usize, b: usize| all.matrix[a][b].to_string();
        assert_eq!([cell(0, 1), cell(2, 3), cell(1, 2)], ["XGMI", "XGMI", "SYS"]);
        assert!(all.findings.iter().any(|f| f.message.contains("do not tell PCIe switches")));
        // Without NUMA nodes the hops say the same.
        let hops = ISLANDS.split("=== Numa").next().unwrap();
        assert_eq!(imported(hops).matrix, all.matrix);
    }

    #[test]
    fn what_is_cut_never_panics() {
        for end in 0..ISLANDS.len() {
            let _ = node(&ISLANDS[..end], FileKind::RocmTopo, &Request::default(), Catalogue::builtin());
        }
        let strange = imported(&ISLANDS.replacen("XGMI", "what?", 1));
        assert!(strange.findings.iter().any(|f| f.message == "a cell that is no type of link"));
        assert_eq!(strange.matrix[0][1], PathClass::Xgmi(1), "the other way tells");
    }
}
