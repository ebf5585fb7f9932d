use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hosts"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn names() -> Vec<String> {
    let all = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<String> = all.filter(|n| n != "README.md").collect();
    all.sort();
    all
}

fn read(text: &str) -> Imported {
    let kind = detect(text).unwrap();
    node(text, kind, &Request::default(), Catalogue::builtin()).unwrap_or_else(|e| panic!("{e}"))
}

fn kinds(imported: &Imported) -> Vec<FindingKind> {
    let mut kinds: Vec<FindingKind> = imported.findings.iter().map(|f| f.kind).collect();
    kinds.dedup();
    kinds
}

fn cell(imported: &Imported, a: usize, b: usize) -> String {
    imported.matrix[a][b].to_string()
}

/// The node out of the TOML that is written for it.
fn written(imported: &Imported) -> NodeSpec {
    let toml = to_toml(imported, "a test").unwrap();
    let table: toml::Table = toml::from_str(&toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    table["node"].clone().try_into().unwrap()
}

fn shown(node: &NodeSpec) -> Vec<Vec<PathClass>> {
    let fabric = Fabric::build(&FabricSpec::new(node.clone(), 1), Catalogue::builtin()).unwrap();
    topo::matrix(&fabric, 0).unwrap().rows.into_iter().map(|row| row.cells).collect()
}

#[test]
fn every_host_comes_back_as_the_same_matrix() {
    assert!(names().len() >= 20);
    for name in names() {
        let imported = read(&text(&name));
        assert_eq!(shown(&written(&imported)), imported.matrix, "{name}");
        assert!(imported.findings.iter().all(|f| !f.message.contains("come out differently")), "{name}");
        let length = text(&name).len();
        assert!(imported.findings.iter().all(|f| f.at.as_ref().is_none_or(|at| at.end <= length)), "{name}");
    }
}

/// Complete tables, read a second time in the plainest way: every cell as it is written.
#[test]
fn every_cell_of_a_table_is_kept() {
    for name in names().iter().filter(|n| n.ends_with(".txt") && !n.contains("wrapped")) {
        let text = text(name);
        let imported = read(&text);
        let mut cells = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().skip_while(|w| *w == ">").collect();
            let row = match words[..] {
                [first, second, ..] if second.len() <= 4 && !second.starts_with("GPU") && second != "=" => {
                    imported.devices.iter().position(|d| d.name == first)
                }
                _ => None,
            };
            let Some(row) = row else { continue };
            for (column, word) in words[1..].iter().take(imported.matrix.len()).enumerate() {
                assert_eq!(cell(&imported, row, column), *word, "{name}: row {row}, column {column}");
                cells += 1;
            }
        }
        assert!(cells >= imported.node.gpus as usize, "{name}: {cells}");
    }
}

#[test]
fn what_each_host_is() {
    use FindingKind::*;
    type Row<'a> = (&'a str, &'a str, u32, u32, u32, u32, &'a [(usize, usize, &'a str)], &'a [FindingKind]);
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        ("a100-4-pcie-vm-self-targets.xml", "a100-pcie-80", 4, 1, 2, 2, &[(0, 1, "SYS"), (0, 4, "NODE")], &[BadValue, NvlinkTarget, NumaLayout, Far]),
        ("a100-8-bridged-pairs.txt", "a100-pcie-80", 8, 0, 2, 1, &[(0, 1, "NV12"), (0, 2, "NODE")], &[]),
        ("a100-8-vm-static-4nic.xml", "a100-sxm4-40", 8, 4, 2, 1, &[(0, 8, "PIX"), (1, 8, "PIX"), (2, 8, "NODE"), (0, 1, "NV12")], &[LinkDown]),
        ("a100-8-vm-static-numa4.xml", "a100-sxm4-80", 8, 8, 2, 2, &[(0, 8, "PIX"), (0, 10, "SYS")], &[NumaLayout]),
        ("b200-8-gpu2-lost-no-heading.txt", "h100-sxm", 8, 12, 2, 1, &[(2, 6, "SYS"), (0, 6, "NV18"), (0, 8, "PXB"), (6, 14, "PXB")], &[Incomplete, Far, NvlinkLost, Incomplete]),
        ("gb200-4-cut.txt", "gb200", 4, 6, 2, 1, &[(0, 3, "NV18"), (0, 4, "SYS")], &[Incomplete]),
        ("h100-8-no-nic.txt", "h100-sxm", 8, 0, 2, 1, &[(0, 7, "NV18")], &[]),
        ("h100-8-two-level-switches.xml", "h100-sxm", 8, 16, 2, 1, &[(0, 8, "PIX"), (0, 9, "PIX"), (0, 10, "NODE"), (0, 16, "SYS"), (0, 23, "SYS"), (0, 7, "NV18")], &[LinkDown, BadValue]),
        ("h100-8-vm-static-no-class.xml", "h100-sxm", 8, 32, 2, 1, &[(0, 8, "PIX"), (0, 11, "PIX"), (0, 12, "NODE")], &[Incomplete]),
        ("h100-8-vm-static.xml", "h100-sxm", 8, 8, 2, 1, &[(0, 8, "PIX"), (0, 9, "NODE"), (0, 12, "SYS")], &[]),
        ("h200-1-vm-no-switches.xml", "h200-sxm", 1, 1, 1, 1, &[(0, 1, "PHB")], &[NumaLayout, LinkDown, NvlinkTarget, Far]),
        ("h200-3-of-8-numa0.xml", "h200-sxm", 3, 3, 2, 2, &[(0, 3, "PIX"), (0, 4, "NODE"), (0, 1, "NV18")], &[Incomplete, NumaLayout]),
        ("h200-8-10nic-batch-job.txt", "h100-sxm", 8, 10, 1, 1, &[(0, 8, "PIX"), (4, 9, "NODE")], &[Contradiction, Far]),
        ("hopper-8-12nic-raw.txt", "h100-sxm", 8, 12, 2, 1, &[(0, 10, "PIX"), (0, 14, "SYS")], &[]),
        ("pcie-8-five-and-three.txt", "l40s", 8, 2, 2, 1, &[(0, 4, "PIX"), (4, 5, "SYS"), (7, 8, "NODE")], &[Far]),
        ("pcie-8-four-and-four-wrapped.txt", "l40s", 8, 2, 2, 1, &[(0, 3, "PIX"), (3, 4, "NODE"), (8, 9, "PIX"), (0, 9, "NODE")], &[Far]),
        ("v100-4-old-layout.txt", "v100-sxm2", 4, 1, 1, 1, &[(0, 3, "NV2"), (0, 4, "NODE")], &[Far]),
        ("vm-4-8nic-all-phb.txt", "h100-sxm", 4, 8, 1, 1, &[(0, 4, "PHB"), (4, 11, "PHB"), (0, 1, "NV18")], &[NumaLayout, Far]),
    ];
    for &(name, gpu, gpus, nics, sockets, each, cells, found) in rows {
        let imported = read(&text(name));
        let node = &imported.node;
        assert_eq!((node.gpu.as_str(), node.gpus, node.nics), (gpu, gpus, nics), "{name}");
        assert_eq!((node.sockets, node.numa_per_socket), (sockets, each), "{name}");
        for &(a, b, class) in cells {
            assert_eq!(
                (cell(&imported, a, b).as_str(), cell(&imported, b, a).as_str()),
                (class, class),
                "{name} {a} {b}"
            );
        }
        assert_eq!(kinds(&imported), found, "{name}: {:#?}", imported.findings);
    }
}

#[test]
fn details_that_files_state_are_kept() {
    let numa0 = read(&text("h200-3-of-8-numa0.xml")).node;
    assert_eq!(numa0.nvlink.unwrap().links, [4, 5, 5, 4]);
    assert_eq!((numa0.cpu.model.as_str(), numa0.cpu.cores, numa0.cpu.threads_per_core), ("emerald-rapids", 48, 2));
    let ports = read(&text("h100-8-two-level-switches.xml")).node;
    assert_eq!(ports.nic_rate, Some("200 Gb/s".parse().unwrap()));
    assert_eq!(ports.nic.as_deref(), Some("connectx-7"));
    assert_eq!(ports.pcie.len(), 8, "two-level switches are one");
    let rome = read(&text("a100-8-vm-static-numa4.xml")).node;
    assert_eq!((rome.cpu.model.as_str(), rome.cpu.cores), ("rome", 48));
}

/// AMD hosts as their files have them, whatever the catalogue knows of their GPUs.
#[test]
fn xgmi_meshes_and_islands() {
    for (name, joined, apart) in [("mi300x-8.xml", (0, 7), None), ("mi100-8-islands.xml", (0, 3), Some((0, 4)))] {
        let file = text(name);
        let mut host = nccl_xml::read(&file).unwrap();
        assert_eq!(host.gpus.len(), 8, "{name}");
        assert!(host.gpus.iter().all(|g| g.gfx.is_some() && g.sm.is_none()), "{name}");
        host.xgmi = true;
        let node = read(&file).node;
        let gpu = if apart.is_some() { "mi100" } else { "mi300x" };
        assert_eq!((node.gpu.as_str(), node.xgmi.as_ref().and_then(|x| x.mesh)), (gpu, Some(joined.1 as u32 + 1)));
        let matrix = host.matrix();
        assert_eq!(matrix[joined.0][joined.1], PathClass::Xgmi(1), "{name}");
        assert_eq!(matrix[0][8], PathClass::Pxb, "{name}");
        if let Some((a, b)) = apart {
            assert_eq!(matrix[a][b], PathClass::Sys, "{name}");
        }
    }
}

#[test]
fn the_user_knows_better() {
    let request = Request {
        gpu: Some("b200".into()),
        nic: Some("connectx-8".into()),
        cpu: Some("granite-rapids".into()),
        full_links: true,
    };
    let file = text("b200-8-gpu2-lost-no-heading.txt");
    let imported = node(&file, Kind::TopoM, &request, Catalogue::builtin()).unwrap();
    assert_eq!(imported.node.gpu, "b200-sxm");
    assert_eq!(imported.node.nic.as_deref(), Some("connectx-8"));
    assert_eq!(imported.node.cpu.model, "granite-rapids");
    assert_eq!(imported.node.nvlink.unwrap().lost, [2]);
    assert!(imported.origins.iter().any(|o| o.key == "gpu" && o.certainty == Certainty::Given));
    let wrong = Request { gpu: Some("b20".into()), ..Request::default() };
    let refusal = node(&file, Kind::TopoM, &wrong, Catalogue::builtin()).unwrap_err();
    assert!(refusal.to_string().contains("--gpu: unknown GPU `b20`; did you mean"), "{refusal}");
    let full = Request { full_links: true, ..Request::default() };
    let slow = text("h100-8-two-level-switches.xml");
    let imported = node(&slow, Kind::NcclXml, &full, Catalogue::builtin()).unwrap();
    assert!(imported.node.pcie.iter().all(|row| row.uplink.generation == 5 && row.slot.is_none()));
}

#[test]
fn links_that_trained_down_are_found_and_kept() {
    let file = text("h100-8-vm-static.xml");
    // The second GPU at 2.5 GT/s, the third NIC at x8.
    let gpu = file.match_indices("class='0x030200'").nth(1).unwrap().0;
    let slow = format!("{}{}", &file[..gpu], file[gpu..].replacen("32.0 GT/s PCIe", "2.5 GT/s PCIe", 1));
    let nic = slow.match_indices("class='0x020700'").nth(2).unwrap().0;
    let slow = format!("{}{}", &slow[..nic], slow[nic..].replacen("link_width='16'", "link_width='8'", 1));
    let imported = read(&slow);
    assert_eq!(kinds(&imported), [FindingKind::LinkDown]);
    let found: Vec<&str> = imported.findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(found[0], "gpu1 has a link of PCIe 1.0 x16, its peers PCIe 5.0 x16");
    assert_eq!(found[1], "nic2 has a link of PCIe 5.0 x8, its peers PCIe 5.0 x16");
    let trained = &imported.node.trained;
    assert_eq!(trained.keys().collect::<Vec<_>>(), ["gpu1", "nic2"]);
    assert_eq!((trained["gpu1"].generation, trained["gpu1"].lanes), (1, 16));
    assert_eq!(trained["nic2"].lanes, 8);
    assert_eq!(shown(&written(&imported)), imported.matrix);
}

#[test]
fn lost_nvlinks_are_found() {
    let file = text("h100-8-two-level-switches.xml");
    let gpu3 = file.find("<gpu dev='3'").unwrap();
    let end = gpu3 + file[gpu3..].find("</gpu>").unwrap();
    let bare: String = file[gpu3..end].lines().filter(|l| !l.contains("nvlink")).collect();
    let imported = read(&format!("{}{bare}{}", &file[..gpu3], &file[end..]));
    assert!(imported.findings.iter().any(|f| f.message == "gpu3 has no NVLink, others have 18"));
    assert_eq!(imported.node.nvlink.as_ref().unwrap().lost, [3]);
    assert_eq!(
        (cell(&imported, 3, 0).as_str(), cell(&imported, 3, 4).as_str(), cell(&imported, 0, 1).as_str()),
        ("NODE", "SYS", "NV18")
    );
    assert_eq!(shown(&written(&imported)), imported.matrix);
    let fewer = file.replacen("count='5' target", "count='4' target", 1);
    let imported = read(&fewer);
    assert!(
        imported.findings.iter().any(|f| f.message == "gpu0 has 17 NVLinks, others have 18"),
        "{:?}",
        imported.findings
    );
    let NodeSpec { nvlink, gpus, .. } = &imported.node;
    assert_eq!((nvlink.as_ref().unwrap().lost.len(), *gpus), (0, 8));
    assert_eq!((cell(&imported, 0, 1).as_str(), cell(&imported, 2, 1).as_str()), ("NV17", "NV18"));
    assert_eq!(imported.faults.len(), 1);
    assert!(imported.findings.iter().all(|f| !f.message.contains("come out differently")));
    let toml = to_toml(&imported, "a test").unwrap();
    assert!(toml.contains("[[fault]]\ntarget = \"node*.gpu0\"\nkind = \"degraded\"\nlinks = 17\n"), "{toml}");
}

#[test]
fn full_links_lift_what_trained_down_and_no_more() {
    let full = Request { full_links: true, ..Request::default() };
    let lifted = |text: &str| node(text, Kind::NcclXml, &full, Catalogue::builtin()).unwrap().node;
    let file = text("h100-8-vm-static.xml");
    let gpu = file.match_indices("class='0x030200'").nth(1).unwrap().0;
    let slow = format!("{}{}", &file[..gpu], file[gpu..].replacen("32.0 GT/s PCIe", "2.5 GT/s PCIe", 1));
    assert!(!read(&slow).node.trained.is_empty());
    assert_eq!(lifted(&slow), read(&file).node);
    // Every card in slots of an older generation stays there.
    let older = text("mi100-8-islands.xml");
    let request = Request { gpu: Some("mi300x".into()), ..full.clone() };
    let in_old_slots = node(&older, Kind::NcclXml, &request, Catalogue::builtin()).unwrap().node;
    assert!(in_old_slots.pcie.iter().all(|row| row.uplink.generation == 4));
}

#[test]
fn tables_that_cannot_hold_together() {
    let table = |rows: &[&str]| {
        let head = "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\n";
        read(&format!("{head}{}\n", rows.join("\n")))
    };
    let asymmetric = table(&[
        "GPU0\tX\tPIX\tSYS\tPIX\t0-7\t0",
        "GPU1\tNODE\tX\tSYS\tNODE\t0-7\t0",
        "GPU2\tSYS\tSYS\tX\tSYS\t8-15\t1",
    ]);
    let messages: Vec<&str> = asymmetric.findings.iter().map(|f| f.message.as_str()).collect();
    assert!(messages.contains(&"GPU0 to GPU1 is PIX, and GPU1 to GPU0 is NODE"), "{messages:?}");
    assert!(messages.contains(&"no row of NIC0"), "{messages:?}");
    assert_eq!(cell(&asymmetric, 0, 1), "NODE");
    let torn = table(&[
        "GPU0\tX\tPIX\tSYS\tPIX\t0-7\t0",
        "GPU1\tPIX\tX\tSYS\tNODE\t0-7\t0",
        "GPU2\tSYS\tSYS\tX\tSYS\t8-15\t1",
    ]);
    assert!(torn.findings.iter().any(|f| f.message == "GPU1 to NIC0 cannot be NODE"), "{:?}", torn.findings);
    assert_eq!(shown(&written(&torn)), torn.matrix);
    let shifted = table(&[
        "GPU0\tX\tPIX\tSYS\tPIX\t0-7\t0",
        "GPU1\tX\tPIX\tSYS\tNODE\t0-7\t0",
        "GPU2\tSYS\tSYS\tX\tSYS\t8-15\t1",
    ]);
    assert!(shifted.findings.iter().any(|f| f.message.contains("X of GPU1")), "{:?}", shifted.findings);
    let twice = table(&["GPU0\tX\tPIX\tSYS\tPIX\t0-7\t0", "GPU0\tX\tPIX\tSYS\tPIX\t0-7\t0"]);
    assert!(kinds(&twice).contains(&FindingKind::Duplicate));
}

#[test]
fn elements_that_are_odd() {
    let file = text("h200-3-of-8-numa0.xml");
    let twice = read(&file.replacen("busid='0000:0b:00.0'", "busid='0000:07:00.0'", 1));
    assert!(kinds(&twice).contains(&FindingKind::Duplicate), "{:?}", twice.findings);
    assert_eq!(twice.node.nics + twice.node.gpus, 5);
    let mixed = read(&file.replacen("speed='400000'", "speed='100000'", 1));
    assert!(mixed.findings.iter().any(|f| f.message == "NICs of different speeds"));
    let model = read(&file.replacen("device='0x2335'", "device='0x2330'", 1));
    assert!(model.findings.iter().any(|f| f.message == "GPUs of different models"));
    let cut = read(&file[..file.len() * 2 / 3]);
    assert!(kinds(&cut).contains(&FindingKind::Incomplete));
    assert_eq!(cut.node.gpus, 2);
}

#[test]
fn what_is_no_host_is_refused() {
    let refused = |text: &str| node(text, Kind::NcclXml, &Request::default(), Catalogue::builtin()).unwrap_err();
    let graph = refused("<graphs version=\"1\"><graph id=\"0\"/></graphs>");
    assert!(graph.label.contains("graph file") && graph.help.is_some());
    assert!(refused("<system version=\"1\"><cpu numaid=\"0\"/></system>").message.contains("no GPU"));
    assert!(refused("<svg/>").label.contains("the root is `svg`"));
    assert!(refused("").message.contains("no XML element"));
    assert!(refused(&"<pci>".repeat(500)).message.contains("levels deep"));
    let many = format!("<system><cpu numaid='0'>{}</cpu></system>", "<pci class='0x030200'/>".repeat(70));
    assert!(refused(&many).message.contains("at most 64"));
    for nothing in ["", "hello", "GPU0", "a,b,c\n1,2,3\n", "[node]\ngpu = 1\n"] {
        assert_eq!(detect(nothing), None, "{nothing}");
    }
    assert!(
        node("hello", Kind::TopoM, &Request::default(), Catalogue::builtin()).unwrap_err().message.contains("no row")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_never_panic(which in 0usize..64, cut in 0usize..20_000, edits in proptest::collection::vec((0usize..20_000, any::<u8>()), 0..8)) {
        let all = names();
        let mut bytes = text(&all[which % all.len()]).into_bytes();
        if cut % 3 == 0 {
            let length = bytes.len();
            bytes.truncate(cut % length.max(1));
        }
        for (at, byte) in edits {
            let length = bytes.len();
            match byte % 4 {
                _ if length == 0 => {}
                0 => bytes[at % length] = byte,
                1 => { bytes.remove(at % length); }
                // A piece of the file once more.
                2 => { let from = at % length; let piece = bytes[from..(from + 97).min(length)].to_vec(); bytes.splice(from..from, piece); }
                _ => { let from = at % length; bytes.drain(from..(from + 53).min(length)); }
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for kind in [Kind::NcclXml, Kind::TopoM, Kind::RocmTopo] {
            match node(&text, kind, &Request::default(), Catalogue::builtin()) {
                Ok(imported) => {
                    prop_assert_eq!(shown(&written(&imported)).len(), imported.matrix.len());
                }
                Err(refusal) => prop_assert!(!refusal.message.is_empty()),
            }
        }
    }
}
