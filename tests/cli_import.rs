//! `import` from the command line: files that hosts print become nodes that pass the check and show the same matrix.

mod cli_common;

use std::fs;
use std::path::{Path, PathBuf};

use cli_common::{fabricsim, fabricsim_fed, fabricsim_in};

fn hosts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/sim-topology/tests/data/hosts"))
}

fn host(name: &str) -> String {
    hosts().join(name).to_string_lossy().into_owned()
}

/// The cells of a printed matrix, without the affinity columns.
fn cells(text: &str) -> Vec<Vec<String>> {
    let class = |w: &str| matches!(w, "X" | "PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "XGMI") || w.starts_with("NV");
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|w| {
        w.len() > 1
            && w[0].len() > 3
            && (w[0].starts_with("GPU") || w[0].starts_with("NIC") || w[0].starts_with("rdma"))
    })
    .map(|w| w[1..].iter().take_while(|w| class(w)).map(|w| (*w).to_owned()).collect::<Vec<_>>())
    .filter(|row| !row.is_empty())
    .collect()
}

fn import_to(out: &Path, file: &str, args: &[&str]) {
    let out = out.to_string_lossy().into_owned();
    let ran = fabricsim(&[&["import", file, "--out", &out, "--force"][..], args].concat());
    assert_eq!(ran.code, 0, "{file}: {ran:?}");
    assert!(ran.out.is_empty());
}

#[test]
fn every_host_passes_the_check_and_shows_its_matrix() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node.toml");
    let shown = node.to_string_lossy().into_owned();
    for file in [
        "h100-8-no-nic.txt",
        "hopper-8-12nic-raw.txt",
        "vm-4-8nic-all-phb.txt",
        "pcie-8-five-and-three.txt",
        "v100-4-old-layout.txt",
    ] {
        import_to(&node, &host(file), &[]);
        let checked = fabricsim(&["check", &shown]);
        assert_eq!(checked.code, 0, "{file}: {checked:?}");
        let topo = fabricsim(&["topo", &shown]);
        assert_eq!(topo.code, 0, "{file}: {topo:?}");
        assert_eq!(cells(&topo.out), cells(&fs::read_to_string(host(file)).unwrap()), "{file}");
    }
    for file in [
        "h100-8-two-level-switches.xml",
        "a100-8-vm-static-numa4.xml",
        "h200-3-of-8-numa0.xml",
        "b200-8-gpu2-lost-no-heading.txt",
        "mi300x-8.xml",
        "mi100-8-islands.xml",
    ] {
        import_to(&node, &host(file), &[]);
        let checked = fabricsim(&["check", &shown]);
        assert_eq!(checked.code, 0, "{file}: {checked:?}");
        // What topo prints is itself a host that can be imported, and comes out the same.
        let first = fabricsim(&["topo", &shown]);
        let again = dir.path().join("again.toml");
        fs::write(dir.path().join("topo.txt"), &first.out).unwrap();
        let gpu = match &file[..4] {
            "a100" => "a100-sxm4-80",
            "mi30" => "mi300x",
            "mi10" => "mi100",
            _ => "h200-sxm",
        };
        import_to(&again, &dir.path().join("topo.txt").to_string_lossy(), &["--gpu", gpu]);
        let second = fabricsim(&["topo", &again.to_string_lossy()]);
        assert_eq!(cells(&second.out), cells(&first.out), "{file}");
    }
}

#[test]
fn findings_have_codes_lines_and_columns() {
    let ran = fabricsim(&["import", &host("a100-4-pcie-vm-self-targets.xml")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in [
        "warning[W063]: an NVLink from a GPU to itself (4 times)",
        "self-targets.xml:5:32",
        "warning[W069]",
        "catalogue: socket_link",
    ] {
        assert!(ran.err.contains(part), "{part:?} is not in\n{}", ran.err);
    }
    assert!(ran.out.contains("gpu = \"a100-pcie-80\"") && ran.out.contains("# gpu0"), "{}", ran.out);
    let quiet = fabricsim(&["import", &host("a100-4-pcie-vm-self-targets.xml"), "--quiet"]);
    assert!(quiet.err.is_empty() && quiet.out == ran.out);
    let lost = fabricsim(&["import", &host("b200-8-gpu2-lost-no-heading.txt"), "--gpu", "b200"]);
    assert!(lost.err.contains("warning[W060]: gpu2 has no NVLink, others have 18"), "{}", lost.err);
    assert!(lost.out.contains("lost = [2]"));
}

#[test]
fn nvlinks_that_are_partly_down_come_as_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let file = fs::read_to_string(host("h100-8-two-level-switches.xml")).unwrap();
    fs::write(dir.path().join("topo.xml"), file.replacen("count='5' target", "count='4' target", 1)).unwrap();
    let ran = fabricsim_in(dir.path(), &["import", "topo.xml", "--out", "node.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("warning[W060]: gpu0 has 17 NVLinks, others have 18"), "{}", ran.err);
    let checked = fabricsim_in(dir.path(), &["check", "node.toml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let shown = cells(&fabricsim_in(dir.path(), &["topo", "node.toml"]).out);
    assert_eq!((shown[0][1].as_str(), shown[1][0].as_str(), shown[1][2].as_str()), ("NV17", "NV17", "NV18"));
    let whole = cells(&fabricsim_in(dir.path(), &["topo", "node.toml", "--without-faults"]).out);
    assert_eq!(whole[0][1], "NV18");
}

#[test]
fn collectives_of_another_library_are_refused() {
    let bench = fabricsim(&["bench", "all_reduce", "--system", "mi300x-8"]);
    bench.fails(2, &["Instinct MI300X are not modelled", "RCCL", "transfers"]);
}

#[test]
fn input_in_any_state_is_read_or_refused() {
    let table = fs::read(host("hopper-8-12nic-raw.txt")).unwrap();
    let windows = String::from_utf8(table.clone()).unwrap().replace('\n', "\r\n");
    let ran = fabricsim_fed(windows.as_bytes(), &["import", "-"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("gpus = 8"));
    fabricsim_fed(b"hello", &["import", "-"]).fails(3, &["E092", "cannot tell what"]);
    fabricsim_fed(b"", &["import", "-"]).fails(3, &["E092"]);
    fabricsim_fed(b"GPU0\0GPU1", &["import", "-"]).fails(3, &["it is no text"]);
    fabricsim_fed(&[0xff, 0xfe, b'G', 0], &["import", "-"]).fails(3, &["UTF-16"]);
    fabricsim_fed(b"<system><cpu></system>", &["import", "-"]).fails(3, &["E092", "well-formed", ":1:"]);
    fabricsim_fed(b"<!DOCTYPE a [<!ENTITY b \"c\">]><system/>", &["import", "-"]).fails(3, &["DOCTYPE"]);
    fabricsim_fed(b"<graphs/>", &["import", "-", "--kind", "nccl-xml"]).fails(3, &["graph file", "--kind nccl-graph"]);
    fabricsim(&["import", "no-such-file.xml"]).fails(3, &["there is no such file"]);
    fabricsim(&["import", "src"]).fails(3, &["it is a folder"]);
    fabricsim(&["import", &host("h100-8-no-nic.txt"), "--gpu", "h1000"]).fails(3, &["unknown GPU", "did you mean"]);
    fabricsim(&["import"]).fails(2, &["FILE"]);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("node.toml"), "mine").unwrap();
    let ran = fabricsim_in(dir.path(), &["import", &host("h100-8-no-nic.txt"), "--out", "node.toml"]);
    ran.fails(2, &["E081"]);
    assert_eq!(fs::read_to_string(dir.path().join("node.toml")).unwrap(), "mine");
}

#[test]
fn channels_of_a_graph_file_override_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let order = |list: [u32; 8]| {
        let gpus: String = list.iter().map(|d| format!("<gpu dev=\"{d}\"/>")).collect();
        format!("<channel>{gpus}</channel>")
    };
    let graph = format!(
        "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" nchannels=\"2\" speedintra=\"20\" speedinter=\"20\" typeintra=\"NVL\" \
         typeinter=\"PIX\">{}{}</graph></graphs>",
        order([0, 2, 4, 6, 1, 3, 5, 7]),
        order([7, 5, 3, 1, 6, 4, 2, 0])
    );
    fs::write(dir.path().join("graph.xml"), graph).unwrap();
    let ran = fabricsim_in(dir.path(), &["import", "graph.xml", "--system", "hgx-h100", "--out", "job.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let checked = fabricsim_in(dir.path(), &["check", "job.toml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let bench = |args: &[&str]| {
        fabricsim_in(dir.path(), &[&["bench", "all_reduce", "-b", "64M", "-e", "64M", "--explain"][..], args].concat())
    };
    let ring = ["--env", "NCCL_ALGO=Ring", "--format", "json"];
    let given = bench(&[&["--scenario", "job.toml"][..], &ring].concat()).json();
    assert_eq!(given["results"]["collectives"][0]["channels"], 4, "two of the search, doubled");
    assert_eq!(given["results"]["explain"][0]["channels_from"], "graph.xml");
    let modelled = bench(&[&["--system", "hgx-h100"][..], &ring].concat()).json();
    assert_eq!(modelled["results"]["collectives"][0]["channels"], 24);
    let rate = |run: &serde_json::Value| run["results"]["collectives"][0]["busbw_GBps"].as_f64().unwrap();
    assert!(rate(&given) < 0.5 * rate(&modelled), "{} of {}", rate(&given), rate(&modelled));
    let text = bench(&["--scenario", "job.toml"]);
    assert!(text.out.contains("channels from the imported graph (graph.xml)"), "{}", text.out);
    // A ring of another length than the communicator is an error, not a guess.
    let fewer = bench(&["--scenario", "job.toml", "--gpus-per-node", "4"]);
    assert_ne!(fewer.code, 0);
    assert!(fewer.err.contains("the given ring of channel 0 has 8 members"), "{}", fewer.err);
}

#[test]
fn channels_of_a_log_override_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let ranks: Vec<String> = (0..16).map(|r| r.to_string()).collect();
    let lines: String =
        (0..4).map(|c| format!("h:1:1 [0] NCCL INFO Channel {c:02}/04 : {}\n", ranks.join(" "))).collect();
    let head = "NCCL version 2.21.5+cuda12.4\nh:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\n\
                h:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0\n";
    fs::write(dir.path().join("nccl.log"), format!("{head}{lines}")).unwrap();
    let ran = fabricsim_in(dir.path(), &["import", "nccl.log", "--system", "hgx-h100"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in ["nodes = 2", "kind = \"roce\"", "nccl = \"2.21\"", "count = 4"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    fs::write(dir.path().join("job.toml"), &ran.out).unwrap();
    let bench = fabricsim_in(
        dir.path(),
        &[
            "bench",
            "all_reduce",
            "-b",
            "16M",
            "-e",
            "16M",
            "--scenario",
            "job.toml",
            "--env",
            "NCCL_ALGO=Ring",
            "--format",
            "json",
        ],
    );
    assert_eq!(bench.json()["results"]["collectives"][0]["channels"], 4);
}
