//! The lines of an `NCCL_DEBUG=INFO` log that tell of channels, versions, variables and transports.

use core::ops::Range;
use std::collections::BTreeMap;

use super::finding::{Finding, FindingKind as Kind, Refusal};
use super::graphs::{FoundGraph, FoundGraphs, MOST_CHANNELS, MOST_RANKS, is_order, word};

/// Whether the text has lines of such a log.
pub(super) fn looks_like(text: &str) -> bool {
    text.lines().take(200_000).any(|line| line.contains("NCCL INFO ") || line.contains("NCCL version "))
}

#[derive(Default)]
struct Reader {
    found: FoundGraphs,
    orders: BTreeMap<u32, (Vec<u32>, Range<usize>)>,
    /// Of `Ring` lines: for each channel who follows whom.
    next: BTreeMap<u32, BTreeMap<u32, u32>>,
    differing: Option<Range<usize>>,
    direct: u64,
    bounced: Option<Range<usize>>,
    bounces: u64,
    sockets: Option<Range<usize>>,
    tree_lines: bool,
}

/// Reads a log.
pub(super) fn read(text: &str) -> Result<FoundGraphs, Refusal> {
    let mut reader = Reader::default();
    let mut start = 0;
    for raw in text.split_inclusive('\n') {
        let line = raw.trim_end();
        reader.line(line, start..start + line.len());
        start += raw.len();
    }
    reader.finish(text)
}

/// What follows `mark` in a line.
fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.find(mark).map(|at| &line[at + mark.len()..])
}

/// The number at the beginning of a text.
fn number(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

impl Reader {
    fn line(&mut self, line: &str, at: Range<usize>) {
        if let Some(rest) = after(line, "NCCL version ")
            && self.found.version.is_none()
        {
            let mut parts = rest.split(['.', '+', ' ']);
            if let (Some(major), Some(minor)) = (parts.next().and_then(number), parts.next().and_then(number)) {
                self.found.version = Some(format!("{major}.{minor}"));
            }
        }
        let Some(rest) = after(line, "NCCL INFO ") else { return };
        let rest = rest.trim_start();
        if let Some(channel) = rest.strip_prefix("Channel ") {
            self.channel(channel, &at);
        } else if let Some(ring) = rest.strip_prefix("Ring ") {
            self.ring(ring);
        } else if rest.starts_with("Trees ") {
            self.tree_lines = true;
        } else if let Some(pattern) = rest.strip_prefix("Pattern ") {
            self.pattern(pattern);
        } else if let Some((name, value)) = rest.split_once(" set by environment to ") {
            let name = name.trim();
            let plain = name.starts_with("NCCL_") && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let value = value.trim().trim_end_matches('.');
            if plain && value.len() < 200 && self.found.env.len() < 200 && self.found.env.iter().all(|(n, _)| n != name)
            {
                self.found.env.push((name.to_owned(), value.to_owned()));
            }
        } else if let Some(list) = rest.strip_prefix("NET/IB : Using ") {
            // `[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE`
            self.found.transport.get_or_insert(if list.contains("/RoCE") { "roce" } else { "infiniband" });
            let devices = list.matches("]").count();
            self.note(format!("{devices} IB devices: {}", list.chars().take(120).collect::<String>().trim()));
        } else if rest.starts_with("NET/OFI") {
            self.found.transport.get_or_insert("efa");
        } else if let Some(network) = rest.strip_prefix("Using network ") {
            self.note(format!("network {}", network.chars().take(40).collect::<String>().trim()));
            if network.trim() == "Socket" {
                self.found.transport = Some("tcp");
                self.sockets.get_or_insert(at);
            }
        } else if let Some(count) = after(rest, " coll channels").and_then(|_| number(rest)) {
            self.found.count.get_or_insert(count.clamp(1, MOST_CHANNELS as u32));
        } else if rest.starts_with("comm ") || rest.contains(" nRanks ") {
            let of = |mark: &str| after(rest, mark).and_then(number);
            if let (Some(nodes), Some(local)) = (of(" nNodes "), of(" localRanks ")) {
                self.found.shape.get_or_insert((nodes.max(1), local.max(1)));
            }
        }
    }

    fn note(&mut self, note: String) {
        if self.found.notes.len() < 20 && !self.found.notes.contains(&note) {
            self.found.notes.push(note);
        }
    }

    /// `00/16 : 0 1 2 3`, or `00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA`.
    fn channel(&mut self, rest: &str, at: &Range<usize>) {
        let Some((numbers, list)) = rest.split_once(':') else { return };
        if list.contains("->") {
            if list.contains("via NET/") {
                if list.contains("GDRDMA") {
                    self.direct += 1;
                } else {
                    self.bounces += 1;
                    self.bounced.get_or_insert_with(|| at.clone());
                }
            }
            return;
        }
        let Some(channel) = number(numbers).filter(|&c| (c as usize) < MOST_CHANNELS) else { return };
        let order: Option<Vec<u32>> = list.split_whitespace().take(MOST_RANKS + 1).map(|w| w.parse().ok()).collect();
        let Some(order) = order.filter(|o| !o.is_empty() && o.len() <= MOST_RANKS) else { return };
        match self.orders.get(&channel) {
            None => {
                self.orders.insert(channel, (order, at.clone()));
            }
            Some((first, _)) if *first != order => {
                self.differing.get_or_insert_with(|| at.clone());
            }
            Some(_) => {}
        }
    }

    /// `00 : 7 -> 0 -> 1`.
    fn ring(&mut self, rest: &str) {
        let Some((channel, list)) = rest.split_once(':') else { return };
        let ranks: Vec<Option<u32>> = list.split("->").map(number).collect();
        let Some(channel) = number(channel).filter(|&c| (c as usize) < MOST_CHANNELS) else { return };
        if let [_, Some(own), Some(next)] = ranks[..] {
            let ring = self.next.entry(channel).or_default();
            if ring.len() < MOST_RANKS {
                ring.entry(own).or_insert(next);
            }
        }
    }

    /// `4, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1`.
    fn pattern(&mut self, rest: &str) {
        let Some(pattern) = number(rest) else { return };
        let of = |mark: &str| after(rest, mark).and_then(number);
        let Some(channels) = of("nChannels ").filter(|&c| c > 0 && c as usize <= MOST_CHANNELS) else { return };
        let pair = |mark: &str| {
            let text = after(rest, mark)?;
            text.split(',').next()?.trim().split_once('/')
        };
        let speed = |text: &str| text.trim().parse::<f64>().ok().filter(|s| s.is_finite() && *s > 0.0 && *s < 1e5);
        let graph = FoundGraph {
            channels,
            speeds: pair("bw ").or_else(|| pair("speed ")).and_then(|(a, b)| speed(a).zip(speed(b))),
            types: pair("type ").map(|(a, b)| (word(a), word(b))),
            pattern: Some(pattern),
            cross_nic: of("crossNic ").is_some_and(|v| v != 0),
            same_channels: of("sameChannels ").is_some_and(|v| v != 0),
        };
        match pattern {
            4 => self.found.ring.get_or_insert(graph),
            // CollNet's chain has a tree's pattern too; it comes after the tree.
            1..=3 => self.found.tree.get_or_insert(graph),
            5 => self.found.nvls.get_or_insert(graph),
            _ => return,
        };
    }

    fn finish(mut self, text: &str) -> Result<FoundGraphs, Refusal> {
        let mut found = core::mem::take(&mut self.found);
        if self.orders.is_empty() {
            // Each rank says who comes before and after it.
            for (channel, next) in &self.next {
                let mut order = Vec::new();
                let mut at = 0;
                while order.len() <= next.len() && !order.contains(&at) {
                    order.push(at);
                    let Some(&following) = next.get(&at) else { break };
                    at = following;
                }
                self.orders.insert(*channel, (order, 0..0));
            }
        }
        for (channel, (order, at)) in self.orders {
            if is_order(&order) {
                found.orders.push(order);
            } else {
                let what = format!("the ring of channel {channel} does not pass each rank once");
                found.findings.push(Finding::new(Kind::Incomplete, what).at(at, "its order is left out"));
            }
        }
        if found.count.is_none() && !found.orders.is_empty() {
            found.count = Some(found.orders.len() as u32);
        }
        if found.ring.is_none() && found.orders.is_empty() && found.count.is_none() {
            let at = 0..text.find('\n').unwrap_or(text.len()).min(200);
            let refusal = Refusal::new("no channels in the log").at(at, "the log begins like this");
            return Err(refusal.help("lines such as `NCCL INFO Channel 00/16 : 0 1 2 3` are due: set NCCL_DEBUG=INFO"));
        }
        if let Some(at) = self.differing {
            let finding = Finding::new(Kind::Mixed, "several communicators with different rings");
            found
                .findings
                .push(finding.at(at, "this ring differs from the first of its number").help("the first is taken"));
        }
        if let Some(at) = self.bounced.filter(|_| self.bounces > 0) {
            let what = format!(
                "{} of {} network connections without GPUDirect RDMA",
                self.bounces,
                self.bounces + self.direct
            );
            let finding = Finding::new(Kind::Far, what).at(at, "data go through host memory here");
            found
                .findings
                .push(finding.help("nvidia-peermem or dma-buf missing, or the NIC too far: NCCL_NET_GDR_LEVEL"));
        } else if self.direct > 0 {
            found.notes.push("GPUDirect RDMA on every network connection".to_owned());
        }
        if let Some(at) = self.sockets {
            let finding = Finding::new(Kind::Far, "the network is TCP sockets");
            found.findings.push(
                finding
                    .at(at, "no InfiniBand or RoCE device was used")
                    .help("NCCL_IB_DISABLE, NCCL_IB_HCA or a missing driver"),
            );
        }
        if self.tree_lines && found.tree.is_none() {
            found.notes.push("trees are listed, but not their speed (NCCL_DEBUG_SUBSYS=GRAPH prints it)".to_owned());
        }
        Ok(found)
    }
}
