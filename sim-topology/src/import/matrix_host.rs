//! From the classes of a `topo -m` table to switches, host bridges, NUMA nodes and NVLinks that would show them.
//!
//! Classes of real hosts are nested: what is PIX is below one switch, what is PXB below one tree of switches, what is PHB
//! at one host bridge, what is NODE in one NUMA node. So each class groups the devices that are at most so far apart, and
//! the groups of a class are divided by those of the next closer one. NVLink hides the class of a pair of GPUs; it then
//! follows from the NUMA columns and from the NICs. What does not come out as it was written is reported.

use std::collections::BTreeMap;

use super::finding::{Finding, FindingKind as Kind};
use super::host::{Device, Host, Numa, Nvlink, Switch};
use super::topo_m::Table;
use crate::path_class::PathClass;

/// NVLinks of the GPU that has most of them.
const MOST_NVLINKS: u32 = 18;
/// Findings of one kind about single cells, at most.
const MOST_CELLS: usize = 8;

/// Groups of things that belong together.
struct Groups(Vec<usize>);

impl Groups {
    fn new(n: usize) -> Self {
        Self((0..n).collect())
    }

    fn of(&mut self, i: usize) -> usize {
        let mut root = i;
        while self.0[root] != root {
            self.0[root] = self.0[self.0[root]];
            root = self.0[root];
        }
        root
    }

    /// Joins two groups; the lesser number names the result.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// The host that shows this table.
pub(super) fn host(mut table: Table) -> Host {
    let mut findings = core::mem::take(&mut table.findings);
    missing_rows(&table, &mut findings);
    let mut classes = symmetric(&table, &mut findings);
    as_the_others(&mut classes, &table);
    let classes = classes;
    let n = classes.len();
    let c2c = table.affinity.iter().any(|a| a.gpu_numa.is_some());
    let numa_of = |i: usize| table.affinity[i].numas.first().map(|r| r.0);

    // NUMA nodes.
    let mut near = Groups::new(n);
    for (a, b) in pairs(n) {
        let hidden = matches!(classes[a][b], None | Some(PathClass::Nvl(_) | PathClass::Xgmi(_)));
        if close(classes[a][b], PathClass::Node) || (hidden && numa_of(a).is_some() && numa_of(a) == numa_of(b)) {
            near.join(a, b);
        }
    }
    place_the_unknown(&mut near, &classes, table.gpus, c2c, &numa_of);
    let (numas, numa_index) = numas(&mut near, &table, &numa_of, &mut findings);

    let within = |class: PathClass| {
        let mut groups = Groups::new(n);
        for (a, b) in pairs(n).filter(|&(a, b)| close(classes[a][b], class)) {
            groups.join(a, b);
        }
        let mut groups: Vec<usize> = (0..n).map(|i| groups.of(i)).collect();
        // A group never spans NUMA nodes: one that does would be a contradiction that is reported with its cells.
        for i in 0..n {
            if numa_index[groups[i]] != numa_index[i] {
                groups[i] = i;
            }
        }
        groups
    };
    let (bridges, trees, leaves) = (within(PathClass::Phb), within(PathClass::Pxb), within(PathClass::Pix));

    let mut host = Host { numas, c2c, ..Host::default() };
    let members = |groups: &[usize], g: usize| (0..n).filter(|&i| groups[i] == g).collect::<Vec<_>>();
    let mut switch_of = vec![None; n];
    for tree in (0..n).filter(|&i| trees[i] == i) {
        let all = members(&trees, tree);
        if all.len() < 2 {
            continue;
        }
        let mut parts: Vec<usize> = all.iter().map(|&i| leaves[i]).collect();
        parts.dedup();
        parts.sort_unstable();
        parts.dedup();
        let at = table.rows[tree].clone().unwrap_or(0..0);
        let switch = |parent, name: String| Switch {
            numa: numa_index[tree],
            parent,
            bridge: Some(bridges[tree] as u32),
            name,
            at: at.clone(),
            ..Switch::default()
        };
        let first = &table.names[all[0]];
        host.switches.push(switch(None, format!("the switch of {first}")));
        let root = host.switches.len() - 1;
        if parts.len() == 1 {
            all.iter().for_each(|&i| switch_of[i] = Some(root));
            continue;
        }
        for part in parts {
            let below: Vec<usize> = all.iter().copied().filter(|&i| leaves[i] == part).collect();
            host.switches.push(switch(Some(root), format!("the inner switch of {}", table.names[below[0]])));
            let leaf = host.switches.len() - 1;
            below.iter().for_each(|&i| switch_of[i] = Some(leaf));
        }
    }
    let device = |i: usize| Device {
        numa: numa_index[i],
        switch: switch_of[i],
        bridge: Some(bridges[i] as u32),
        name: table.names[i].clone(),
        alias: table.legend.get(&table.names[i]).cloned(),
        at: table.rows[i].clone().unwrap_or(0..0),
        ..Device::default()
    };
    host.gpus = (0..table.gpus).map(device).collect();
    host.nics = (table.gpus..n).map(device).collect();
    host.nvlink = nvlink(&classes, table.gpus);
    host.xgmi = classes.iter().flatten().any(|class| matches!(class, Some(PathClass::Xgmi(_))));
    host.findings = findings;
    contradictions(&mut host, &table);
    host
}

/// All pairs of numbers below `n`, the lesser first.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |a| (a + 1..n).map(move |b| (a, b)))
}

/// Whether two devices are at most `class` apart, over PCIe.
fn close(known: Option<PathClass>, class: PathClass) -> bool {
    known.is_some_and(|c| {
        !matches!(c, PathClass::Nvl(_) | PathClass::Xgmi(_) | PathClass::X) && c.rank() <= class.rank()
    })
}

fn missing_rows(table: &Table, findings: &mut Vec<Finding>) {
    let missing: Vec<&str> =
        (0..table.names.len()).filter(|&i| table.rows[i].is_none()).map(|i| table.names[i].as_str()).collect();
    if missing.is_empty() {
        return;
    }
    let shown = missing.iter().take(6).copied().collect::<Vec<_>>().join(", ");
    let more = if missing.len() > 6 { format!(" and {} more", missing.len() - 6) } else { String::new() };
    let finding = Finding::new(Kind::Incomplete, format!("no row of {shown}{more}"));
    let last = table.rows.iter().flatten().max_by_key(|r| r.end).cloned().unwrap_or(0..0);
    findings.push(finding.at(last, "the last row that is there").help(
        "their cells are taken from the columns of the other rows; what no row tells follows from those that are alike",
    ));
}

/// Where each GPU with a row has one NIC near it, in order, those without a row have theirs too.
fn as_the_others(classes: &mut [Vec<Option<PathClass>>], table: &Table) {
    let gpus = table.gpus;
    let mut pattern: Option<(usize, PathClass)> = None;
    for g in (0..gpus).filter(|&g| table.rows[g].is_some()) {
        let near: Vec<usize> = (gpus..classes.len()).filter(|&n| close(classes[g][n], PathClass::Pxb)).collect();
        let [nic] = near[..] else { return };
        let Some(class) = classes[g][nic] else { return };
        let this = (nic.wrapping_sub(g), class);
        if *pattern.get_or_insert(this) != this {
            return;
        }
    }
    let Some((offset, class)) = pattern else { return };
    for g in (0..gpus).filter(|&g| table.rows[g].is_none()) {
        let nic = g.wrapping_add(offset);
        if (gpus..classes.len()).contains(&nic) && classes[g][nic].is_none() {
            (classes[g][nic], classes[nic][g]) = (Some(class), Some(class));
        }
    }
}

/// Each cell from its two places; of two that differ the farther one.
fn symmetric(table: &Table, findings: &mut Vec<Finding>) -> Vec<Vec<Option<PathClass>>> {
    let n = table.names.len();
    let mut out = vec![vec![None; n]; n];
    let mut count = 0;
    for (a, b) in pairs(n) {
        let cell = match (&table.cells[a][b], &table.cells[b][a]) {
            (Some(there), Some(back)) if there.0 == back.0 => Some(there.0),
            (Some(there), Some(back)) => {
                let taken = if farther(there.0, back.0) { there } else { back };
                count += 1;
                if count <= MOST_CELLS {
                    let (a, b) = (&table.names[a], &table.names[b]);
                    let what = format!("{a} to {b} is {}, and {b} to {a} is {}", there.0, back.0);
                    let finding = Finding::new(Kind::Contradiction, what);
                    let finding = finding.at(back.1.clone(), "the other way it reads differently");
                    findings.push(finding.help(format!("{}, the farther one, is taken", taken.0)));
                }
                Some(taken.0)
            }
            (Some(one), None) | (None, Some(one)) => Some(one.0),
            (None, None) => None,
        };
        // X belongs on the diagonal only.
        let cell = cell.filter(|c| *c != PathClass::X);
        (out[a][b], out[b][a]) = (cell, cell);
    }
    if count > MOST_CELLS {
        let more = count - MOST_CELLS;
        findings.push(Finding::new(Kind::Contradiction, format!("{more} more cells read differently the other way")));
    }
    out
}

fn farther(a: PathClass, b: PathClass) -> bool {
    match (a, b) {
        (PathClass::Nvl(a), PathClass::Nvl(b)) => a < b,
        _ => a.rank() > b.rank(),
    }
}

/// Groups that no cell tells apart become one, beginning with the nearest of the same kind.
fn place_the_unknown(
    near: &mut Groups,
    classes: &[Vec<Option<PathClass>>],
    gpus: usize,
    c2c: bool,
    numa_of: &dyn Fn(usize) -> Option<u32>,
) {
    let n = classes.len();
    for i in 0..n {
        if near.of(i) != i || numa_of(i).is_some() || (c2c && i >= gpus) {
            continue;
        }
        let members: Vec<usize> = (0..n).filter(|&j| near.of(j) == i).collect();
        let mut order: Vec<usize> = (0..n).filter(|&j| (j < gpus) == (i < gpus) && near.of(j) != i).collect();
        order.sort_by_key(|&j| (i.abs_diff(j), j));
        for j in order {
            let group = near.of(j);
            let apart = (0..n)
                .filter(|&b| near.of(b) == group)
                .any(|b| members.iter().any(|&a| classes[a][b] == Some(PathClass::Sys)));
            if !apart {
                near.join(i, j);
                break;
            }
        }
    }
    if c2c {
        // NICs of Grace are SYS to the GPUs, which are NUMA nodes of their own; they are dealt to the CPUs in order.
        let sockets = (0..gpus).filter(|&i| near.of(i) == i).count().max(1);
        let share = |nic: usize| (nic - gpus) * sockets / (n - gpus);
        for (a, b) in (gpus..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))) {
            if classes[a][b].is_none() && share(a) == share(b) {
                near.join(a, b);
            }
        }
    }
}

/// The NUMA nodes of the groups, by number, and for each device the place of its own among them.
fn numas(
    near: &mut Groups,
    table: &Table,
    numa_of: &dyn Fn(usize) -> Option<u32>,
    findings: &mut Vec<Finding>,
) -> (Vec<Numa>, Vec<usize>) {
    let n = table.names.len();
    let roots: Vec<usize> = (0..n).filter(|&i| near.of(i) == i).collect();
    let mut taken: Vec<u32> = Vec::new();
    let mut ids: BTreeMap<usize, u32> = BTreeMap::new();
    for &root in &roots {
        let members: Vec<usize> = (0..n).filter(|&i| near.of(i) == root).collect();
        let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
        for id in members.iter().filter_map(|&i| numa_of(i)) {
            *votes.entry(id).or_default() += 1;
        }
        if votes.len() > 1 {
            let shown = votes.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let what = format!("devices of the NUMA nodes {shown} are NODE or closer to each other");
            let finding = Finding::new(Kind::Contradiction, what);
            let odd = members.iter().find(|&&i| numa_of(i).is_some() && numa_of(i) != votes.keys().next().copied());
            let at = odd.and_then(|&i| table.rows[i].clone()).unwrap_or(0..0);
            findings.push(finding.at(at, "NODE means one NUMA node; between two it is SYS").help(
                "the cells are taken, as one NUMA node; a container or batch job may hide the NUMA nodes of NICs. If the host \
                 has two sockets, set `sockets = 2` and `socket` of each row",
            ));
        }
        let wanted = votes.iter().max_by_key(|(id, count)| (**count, u32::MAX - **id)).map(|(id, _)| *id);
        let Some(id) = wanted else { continue };
        if taken.contains(&id) {
            let what = format!("NUMA node {id} is the affinity of devices that are SYS to each other");
            let at = table.rows[root].clone().unwrap_or(0..0);
            let finding = Finding::new(Kind::Contradiction, what).at(at, "SYS means another NUMA node");
            findings.push(finding.help("the cells are taken; these devices are put in a NUMA node of their own"));
        } else if id < 1024 {
            taken.push(id);
            ids.insert(root, id);
        }
    }
    let mut next = 0;
    for &root in &roots {
        ids.entry(root).or_insert_with(|| {
            while taken.contains(&next) {
                next += 1;
            }
            taken.push(next);
            next
        });
    }
    let mut order: Vec<(u32, usize)> = ids.iter().map(|(root, id)| (*id, *root)).collect();
    order.sort_unstable();
    let numas = order
        .iter()
        .map(|&(id, root)| {
            let members: Vec<usize> = (0..n).filter(|&i| near.of(i) == root).collect();
            let threads = members.iter().map(|&i| &table.affinity[i].threads).find(|t| !t.is_empty());
            let at = table.rows[root].clone().unwrap_or(0..0);
            Numa { id, threads: threads.cloned().unwrap_or_default(), at }
        })
        .collect();
    let index = (0..n).map(|i| order.iter().position(|o| o.1 == near.of(i)).unwrap_or(0)).collect();
    (numas, index)
}

/// Through switches if a GPU shows more links than any has; else bundles from GPU to GPU.
fn nvlink(classes: &[Vec<Option<PathClass>>], gpus: usize) -> Nvlink {
    let links = |a: usize, b: usize| match classes[a][b] {
        Some(PathClass::Nvl(n) | PathClass::Xgmi(n)) => n,
        _ => 0,
    };
    let most: Vec<u32> = (0..gpus).map(|a| (0..gpus).map(|b| links(a, b)).max().unwrap_or(0)).collect();
    if most.iter().all(|&n| n == 0) {
        return Nvlink::None;
    }
    let shown = |a: usize| (0..gpus).map(|b| links(a, b)).sum::<u32>();
    // No bridge has as many links as an NVSwitch system's GPUs.
    let switched = (0..gpus).any(|a| shown(a) > MOST_NVLINKS || most[a] == MOST_NVLINKS);
    if switched {
        return Nvlink::Switched { links: most, chips: Vec::new() };
    }
    let linked = pairs(gpus).filter(|&(a, b)| links(a, b) > 0);
    Nvlink::Pairs(linked.map(|(a, b)| [a as u32, b as u32, links(a, b)]).collect())
}

/// Reports the cells that the host does not show as they were written.
fn contradictions(host: &mut Host, table: &Table) {
    let shown = host.matrix();
    let n = table.names.len();
    let mut count = 0;
    for (a, b) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))) {
        let Some((written, at)) = &table.cells[a][b] else { continue };
        // Of two that differ one is reported already.
        let twin = table.cells[b][a].as_ref().map(|c| c.0);
        if a == b || *written == shown[a][b] || twin.is_some_and(|t| t != *written) || (b < a && twin.is_some()) {
            continue;
        }
        count += 1;
        if count > MOST_CELLS {
            continue;
        }
        let (x, y) = (&table.names[a], &table.names[b]);
        let what = format!("{x} to {y} cannot be {written}");
        let finding = Finding::new(Kind::Contradiction, what);
        let label = format!("by the other cells it is {}", shown[a][b]);
        host.findings.push(finding.at(at.clone(), label).help(
            "PIX, PXB, PHB and NODE are nested: two devices that are so far from a third are no farther from each other",
        ));
    }
    if count > MOST_CELLS {
        let more = count - MOST_CELLS;
        host.findings
            .push(Finding::new(Kind::Contradiction, format!("{more} more cells cannot be as they are written")));
    }
}
