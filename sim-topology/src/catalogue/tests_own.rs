use super::*;
use sim_core::units::{Rate, Span};

fn row(kind: &str, name: &str, like: Option<&str>, figures: &str) -> OwnRow {
    OwnRow {
        kind: kind.into(),
        name: name.into(),
        like: like.map(str::to_owned),
        title: None,
        note: None,
        figures: figures.parse().unwrap(),
    }
}

fn faults(rows: &[OwnRow]) -> Vec<(usize, OwnRowFault)> {
    let errors = Catalogue::builtin().with_rows(rows).unwrap_err();
    errors.into_iter().map(|e| (e.index, e.fault)).collect()
}

#[test]
fn a_row_is_changed_and_says_so() {
    let c = Catalogue::builtin().with_rows(&[row("switch", "QM9790", None, "latency_ns = 300")]).unwrap();
    let switch = c.switch("qm9700").unwrap();
    assert_eq!(switch.latency, Span::from_us_f64(0.3));
    assert_eq!(switch.ports, 64, "what is not stated stays");
    assert_eq!(c.changes()[0].to_string(), "switch qm9700 (latency 230 -> 300 ns)");
    let entry = c.entry("quantum-2").unwrap();
    let standing = |name: &str| entry.figures.iter().find(|f| f.name == name).unwrap().standing;
    assert_eq!((standing("latency"), standing("ports")), (Standing::Yours, Standing::Published));
    assert_eq!(Catalogue::builtin().switch("qm9700").unwrap().latency, Span::from_us_f64(0.23));
}

#[test]
fn new_rows_are_like_others_in_any_order() {
    let rows = [
        row("gpu", "b", Some("a"), "memory_gb = 100"),
        row("gpu", "a", Some("h100"), "nvlinks = 9"),
        row("system", "box", Some("hgx-h100"), "node.gpu = \"b\"\nnode.nics = 4"),
    ];
    let c = Catalogue::builtin().with_rows(&rows).unwrap();
    let gpu = c.gpu("b").unwrap();
    assert_eq!((gpu.nvlinks, gpu.memory_gb, gpu.sm), (9, 100.0, 90));
    let node = &c.system("box").unwrap().node;
    assert_eq!((node.gpu.as_str(), node.nics, node.gpus), ("b", 4, 8));
    let said: Vec<String> = c.changes().iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "gpu a (like h100-sxm; nvlinks 18 -> 9)");
    assert_eq!(said[1], "gpu b (like a; memory 80 -> 100 GB)");
    assert_eq!(said[2], "system box (like hgx-h100; gpu h100-sxm -> b, nics 8 -> 4)");
}

#[test]
fn generations_of_ones_own_are_found_by_number() {
    let rows = [
        row("nvlink", "nvlink9", Some("nvlink5"), "generation = 9\nlink_GBps = 100"),
        row("pcie", "pcie5-mine", Some("pcie5"), "lane_GBps = 3.5"),
    ];
    let c = Catalogue::builtin().with_rows(&rows).unwrap();
    assert_eq!(c.nvlink(9).unwrap().link_rate, Rate::gbyte(100));
    assert_eq!(c.pcie(5).unwrap().name, "pcie5-mine");
    assert_eq!(c.pcie(4).unwrap().name, "pcie4");
}

#[test]
fn what_cannot_be_taken_is_told_all_at_once() {
    let list = faults(&[
        row("gpus", "x", None, ""),
        row("gpu", "x", Some("h1000"), ""),
        row("gpu", "y", None, "sm = 90"),
        row("gpu", "h100", None, "sm = 90"),
        row("gpu", "h100-sxm", None, "sm = 90"),
        row("gpu", "z", Some("y"), ""),
        row("switch", "qm9700", None, "ports = -4"),
        row("nic", "p", Some("q"), ""),
        row("nic", "q", Some("p"), ""),
        row("nic", "self", Some("self"), ""),
    ]);
    let of = |index: usize| &list.iter().find(|(i, _)| *i == index).unwrap().1;
    assert!(matches!(of(0), OwnRowFault::UnknownKind(e) if e.suggestion.as_deref() == Some("gpu")));
    assert!(matches!(of(1), OwnRowFault::UnknownLike(e) if e.suggestion.is_some()));
    assert!(matches!(of(2), OwnRowFault::Data(why) if why.contains("missing field")));
    assert_eq!(*of(4), OwnRowFault::Twice(3));
    assert!(list.iter().all(|(i, _)| *i != 5), "a consequence of another fault");
    assert!(matches!(of(6), OwnRowFault::Data(_)));
    assert_eq!(*of(7), OwnRowFault::Cycle(vec!["p".into(), "q".into(), "p".into()]));
    assert_eq!(*of(9), OwnRowFault::Cycle(vec!["self".into(), "self".into()]));
}
