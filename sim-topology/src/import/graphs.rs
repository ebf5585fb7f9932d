//! The channels that NCCL found: out of a graph file (`NCCL_GRAPH_DUMP_FILE`) or the lines of an `NCCL_DEBUG=INFO` log.

use super::finding::{Finding, FindingKind as Kind, Refusal};
use super::{nccl_log, xml};

/// Most channels of a communicator.
pub(super) const MOST_CHANNELS: usize = 64;
/// Most ranks of a ring that is read.
pub(super) const MOST_RANKS: usize = 65_536;

/// One search result: how many channels of what speed, and the order of GPUs in each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundGraph {
    /// Channels, before NCCL doubles them.
    pub channels: u32,
    /// Speed of a channel inside a node and between nodes, GB/s in one direction; absent in logs without graph lines.
    pub speeds: Option<(f64, f64)>,
    /// Worst path class between GPUs, and between GPUs and NICs, in NCCL's words.
    pub types: Option<(String, String)>,
    /// NCCL's number of the pattern.
    pub pattern: Option<u32>,
    /// Whether channels may leave a node by another NIC than they entered.
    pub cross_nic: bool,
    /// Whether all channels run through the GPUs in the same order.
    pub same_channels: bool,
}

/// What a graph file or log tells of NCCL's plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundGraphs {
    /// The ring.
    pub ring: Option<FoundGraph>,
    /// The tree.
    pub tree: Option<FoundGraph>,
    /// NVLS.
    pub nvls: Option<FoundGraph>,
    /// Channels of the communicator, after doubling.
    pub count: Option<u32>,
    /// The order of GPUs (or of all ranks) in the ring of each channel.
    pub orders: Vec<Vec<u32>>,
    /// NCCL's version: `2.21`.
    pub version: Option<String>,
    /// `NCCL_*` variables that were set, in order.
    pub env: Vec<(String, String)>,
    /// The transport of a scenario: `infiniband`, `roce`, `efa`, `tcp`.
    pub transport: Option<&'static str>,
    /// Nodes and GPUs of a node.
    pub shape: Option<(u32, u32)>,
    /// What is suspicious.
    pub findings: Vec<Finding>,
    /// What else the log says, a phrase each.
    pub notes: Vec<String>,
}

/// Reads a graph file.
///
/// # Errors
/// If it is no graph file, or has no channel.
pub fn graph_file(text: &str) -> Result<FoundGraphs, Refusal> {
    let tree = xml::read(text)?;
    let root = tree.elements.iter().position(|e| e.parent.is_none() && e.name == "graphs");
    let Some(root) = root else {
        let refusal = Refusal::new("not an NCCL graph file");
        return Err(match tree.elements.first() {
            Some(first) if first.name == "system" => refusal
                .at(first.at.clone(), "this is a topology, the machine itself")
                .help("import it without --kind, or with --kind nccl-xml"),
            Some(first) => refusal.at(first.at.clone(), "`graphs` is due as the root"),
            None => refusal,
        });
    };
    let mut found = FoundGraphs::default();
    for (index, graph) in tree.children(root).filter(|(_, e)| e.name == "graph") {
        let mut orders: Vec<Vec<u32>> = Vec::new();
        for (channel, element) in tree.children(index).filter(|(_, e)| e.name == "channel").take(MOST_CHANNELS) {
            let gpus = tree.children(channel).filter(|(_, e)| e.name == "gpu").take(MOST_RANKS);
            let order: Vec<u32> = gpus.filter_map(|(_, e)| e.number("dev").or_else(|| e.number("rank"))).collect();
            match is_order(&order) {
                true => orders.push(order),
                false => {
                    let finding = Finding::new(Kind::Contradiction, "a channel does not pass each GPU once");
                    found.findings.push(finding.at(element.at.clone(), "its order is left out"));
                }
            }
        }
        let stated = graph.number::<u32>("nchannels").unwrap_or(0);
        let channels = if stated == 0 { orders.len() as u32 } else { stated };
        if channels == 0 || channels > MOST_CHANNELS as u32 {
            continue;
        }
        if !orders.is_empty() && orders.len() as u32 != channels {
            let what = format!("{channels} channels are stated and {} are listed", orders.len());
            let finding = Finding::new(Kind::Contradiction, what);
            found.findings.push(finding.at(graph.place("nchannels"), "this number is taken"));
        }
        let speed = |name: &str| graph.number::<f64>(name).filter(|s| s.is_finite() && *s > 0.0 && *s < 1e5);
        let pattern = graph.number::<u32>("pattern");
        let this = FoundGraph {
            channels,
            speeds: speed("speedintra").zip(speed("speedinter")),
            types: graph.get("typeintra").zip(graph.get("typeinter")).map(|(a, b)| (word(a), word(b))),
            pattern,
            cross_nic: graph.get("crossnic").is_some_and(|v| v != "0"),
            same_channels: graph.get("samechannels").is_some_and(|v| v != "0"),
        };
        // By its number: 0 ring, 1 tree, 2 CollNet, 3 NVLS; by the pattern where that is missing.
        match (graph.number::<u32>("id"), pattern) {
            (Some(0), _) | (None, Some(4)) => {
                found.ring.get_or_insert(this);
                if found.orders.is_empty() {
                    found.orders = orders;
                }
            }
            (Some(1), _) | (None, Some(1..=3)) => {
                found.tree.get_or_insert(this);
            }
            (Some(3), _) | (None, Some(5)) => {
                found.nvls.get_or_insert(this);
            }
            _ => {}
        }
    }
    if tree.cut.is_some() {
        found.findings.push(Finding::new(Kind::Incomplete, "the file ends before its elements are closed"));
    }
    if found.ring.is_none() {
        let at = tree.elements[root].at.clone();
        return Err(Refusal::new("no ring in the graph file").at(at, "a `graph` with id=\"0\" and channels is due"));
    }
    Ok(found)
}

/// Reads a log.
///
/// # Errors
/// If no line tells of channels.
pub fn log(text: &str) -> Result<FoundGraphs, Refusal> {
    nccl_log::read(text)
}

/// Whether numbers are 0 to n - 1, each once.
pub(super) fn is_order(order: &[u32]) -> bool {
    let mut seen = vec![false; order.len()];
    !order.is_empty()
        && order.iter().all(|&i| seen.get_mut(i as usize).is_some_and(|seen| !core::mem::replace(seen, true)))
}

/// A path class as NCCL writes it; nothing else gets through.
pub(super) fn word(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = r#"<graphs version="1">
  <graph id="0" pattern="4" nchannels="2" speedintra="12" speedinter="11.5" typeintra="SYS" typeinter="PIX" samechannels="0">
    <channel><gpu dev="0"/><gpu dev="1"/><gpu dev="2"/></channel>
    <channel><net dev="0"/><gpu dev="2"/><gpu dev="1"/><gpu dev="0"/><net dev="1"/></channel>
  </graph>
  <graph id="1" pattern="1" nchannels="2" speedintra="12" speedinter="12"><channel><gpu dev="0"/><gpu dev="0"/></channel></graph>
  <graph id="2" pattern="3" nchannels="2"/>
</graphs>"#;

    #[test]
    fn graph_files() {
        let found = graph_file(GRAPH).unwrap();
        let ring = found.ring.unwrap();
        assert_eq!((ring.channels, ring.speeds, ring.cross_nic), (2, Some((12.0, 11.5)), false));
        assert_eq!(found.orders, [[0, 1, 2], [2, 1, 0]]);
        assert_eq!(found.tree.unwrap().pattern, Some(1));
        assert_eq!(found.findings.len(), 1, "a GPU twice: {:?}", found.findings);
        assert!(graph_file("<system/>").unwrap_err().label.contains("topology"));
        assert!(graph_file("<graphs/>").unwrap_err().message.contains("no ring"));
        let cut = graph_file(&GRAPH[..GRAPH.len() / 2]).unwrap();
        assert!(cut.findings.iter().any(|f| f.kind == Kind::Incomplete));
    }

    #[test]
    fn logs() {
        let text = "\
h1:7:7 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5.
NCCL version 2.21.5+cuda12.4
h1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
h1:7:9 [0] NCCL INFO Using network IB
h1:7:9 [0] NCCL INFO comm 0x55 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
h1:7:9 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 24.000000/22.000000, type NVL/PIX, sameChannels 1
h1:7:9 [0] NCCL INFO Channel 00/04 : 0 1 2 3
h1:7:9 [0] NCCL INFO Channel 01/04 :    0   3   2   1
h1:7:9 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
h1:7:9 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1
h1:7:9 [0] NCCL INFO 4 coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels
";
        let found = log(text).unwrap();
        assert_eq!(found.orders, [[0, 1, 2, 3], [0, 3, 2, 1]]);
        assert_eq!((found.count, found.shape, found.transport), (Some(4), Some((2, 2)), Some("roce")));
        assert_eq!(found.version.as_deref(), Some("2.21"));
        assert_eq!(found.env, [("NCCL_IB_HCA".to_owned(), "mlx5".to_owned())]);
        assert_eq!(found.ring.unwrap().speeds, Some((24.0, 22.0)));
        assert_eq!(found.findings.len(), 1);
        assert_eq!(found.findings[0].message, "1 of 2 network connections without GPUDirect RDMA");
        let rings: String =
            (0..4).map(|r| format!("h NCCL INFO Ring 00 : {} -> {r} -> {}\n", (r + 3) % 4, (r + 1) % 4)).collect();
        assert_eq!(log(&rings).unwrap().orders, [[0, 1, 2, 3]]);
        assert!(log("NCCL INFO nothing").unwrap_err().help.is_some());
    }

    #[test]
    fn damaged_texts_never_panic() {
        let log_text = "NCCL version 2.21.5\nh NCCL INFO Channel 00/02 : 0 1\nh NCCL INFO Ring 01 : 1 -> 0 -> 1\n\
                        h NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 24.0/22.0, type NVL/PIX, sameChannels 1\n";
        for text in [GRAPH, log_text] {
            for at in 0..text.len() {
                let cut = &text[..at];
                let mut changed = text.as_bytes().to_vec();
                changed[at] = b"9 <>\"/-:\n"[at % 9];
                let changed = String::from_utf8(changed).unwrap();
                for text in [cut, &changed] {
                    // Either is fine; a panic is not.
                    let (a, b) = (graph_file(text), log(text));
                    assert!(a.is_err() || b.is_err() || text.is_empty());
                }
            }
        }
    }
}
