//! Scenarios as users write them, well and badly.

use proptest::prelude::*;

use super::presets::PRESETS;
use super::*;
use crate::diagnostic::{Code, Style, text};

fn load(toml: &str) -> Result<Loaded, Diagnostics> {
    Scenario::load(&Input::Text { name: "t.toml".into(), text: toml.into() }, &[])
}

/// Code, line and column of every finding.
fn findings(toml: &str) -> Vec<(&'static str, usize, usize)> {
    let all = load(toml).map_or_else(|faults| faults, |loaded| loaded.diagnostics);
    all.list
        .iter()
        .map(|d| {
            let at = d.place.as_ref().map(|p| all.sources.position(p));
            (d.code.id(), at.map_or(0, |a| a.line), at.map_or(0, |a| a.column))
        })
        .collect()
}

fn rendered(toml: &str) -> String {
    text(&load(toml).map_or_else(|faults| faults, |loaded| loaded.diagnostics), Style::Plain)
}

const BASE: &str = "system = \"hgx-h100\"\nnodes = 2\n";

#[test]
fn defaults_are_filled_in() {
    let loaded = load("system = \"hgx-h100\"\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\n").unwrap();
    let scenario = loaded.scenario;
    assert_eq!((scenario.seed, scenario.cluster.nodes, scenario.gpus()), (1, 1, 8));
    assert!(scenario.software.pxn && !scenario.software.launch.graph);
    let Workload::Collective(collective) = &scenario.workloads[0] else { panic!("{:?}", scenario.workloads) };
    assert_eq!((collective.sizes.len(), collective.iterations, collective.warmup), (31, 20, 1));
    assert_eq!(collective.group, (0..8).collect::<Vec<_>>());
}

#[test]
fn each_fault_has_its_code_and_place() {
    let with = |line: &str| findings(&format!("{BASE}{line}\n"));
    for (line, code, column) in [
        ("[fabric]\nspine = 3", "E050", 1),
        ("nodess = 3", "E050", 1),
        ("gpus_per_node = 9", "E017", 17),
        ("gpus_per_node = \"4\"", "E010", 17),
        ("gpus_per_node = 0", "E016", 17),
        ("seed = -1", "E016", 8),
        ("seed = 99999999999999999999", "E016", 8),
        ("nics = \"8\"", "E018", 8),
        ("nics = \"8x400\"", "E018", 8),
        ("[fabric]\noversubscription = nan", "E016", 20),
        ("[fabric]\noversubscription = 0", "E016", 20),
        ("[fabric]\nkind = \"rail-optimised\"", "E021", 8),
        ("[fabric]\nswitch = \"qm9701\"", "E023", 10),
        ("[transport]\nmtu = 4096", "E012", 7),
        ("[transport]\nmtu = \"4096\"", "E012", 8),
        ("[transport]\nmtu = \"4096 Gb/s\"", "E013", 13),
        ("[transport]\nmtu = \"-4 KiB\"", "E014", 8),
        ("[transport]\nmtu = \"0 KiB\"", "E016", 7),
        ("[transport]\nmtu = \"1e30 GB\"", "E015", 8),
        ("[transport]\nmtu = \"64 KiB\"", "E016", 7),
        ("[fabric]\nnic_cable = 3", "E012", 13),
        ("[limits]\ntime = \"1 KiB\"", "E013", 11),
        ("[software]\nnccl = \"1.0\"", "E016", 8),
        ("[software.env]\nNCCL_ALGO = \"Rong\"", "E021", 13),
        ("[software.env]\nOMP_NUM_THREADS = 4", "E018", 1),
        ("[software.env]\nNCCL_DEBUG = \"INFO\"", "W010", 1),
        ("[software.env]\nNCCL_MNNVL_ENABLE = 1", "W010", 1),
        ("[software.env]\nNCCL_P2P_LEVEL = \"NVX\"", "E021", 18),
        ("[software.env]\nNCCL_P2P_SCHEDULE_GROUP_SIZE = 8", "W010", 1),
        ("[software.env]\nNCCL_MNNVL_ENABLE = 1", "W010", 1),
        ("[software]\ngpus_per_thread = 0", "E016", 19),
        ("[software]\nnccl = 2.20", "E010", 8),
        ("[fabric]\nkind = \"single-switch\"\nspines = 2", "W010", 10),
        ("[[workload]]\nop = \"all_reduce\"", "E011", 1),
        ("[[workload]]\nkind = \"colective\"", "E021", 8),
        ("[[workload]]\nkind = \"collective\"", "E011", 1),
        ("[[workload]]\nkind = \"collective\"\nop = \"al_reduce\"", "E021", 6),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"0.5 B\"]", "E016", 10),
        ("[[workload]]\nkind = \"collective\"\nop = \"alltoall\"\nalgorithm = \"tree\"", "W010", 13),
        ("[[workload]]\nkind = \"collective\"\nop = \"sendrecv\"\nalgorithm = \"ring\"", "W010", 13),
        ("[[workload]]\nkind = \"collective\"\nop = \"sendrecv\"\nchannels = 2", "W010", 12),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nranks = 20", "E017", 9),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nranks = 12", "E017", 9),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\ngroup = [0, 16]", "E022", 13),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\ngroup = [0, 0]", "E016", 13),
        ("[[workload]]\nkind = \"collective\"\nop = \"broadcast\"\nroot = 16", "E016", 8),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nmin = \"8 KiB\"\nmax = \"8 B\"", "E016", 7),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nmin = \"8 B\"\nsizes = [\"8 B\"]", "E030", 7),
        ("[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [8]", "E012", 10),
        ("[[workload]]\nkind = \"transfer\"", "E011", 1),
        ("[[workload]]\nkind = \"transfer\"\npattern = \"shift\"\nsize = \"1 B\"\nshift = 16", "E016", 9),
        ("[[workload]]\nkind = \"transfer\"\nlist = [{ src = 0, dst = 16, bytes = \"1 B\" }]", "E022", 26),
        ("[[workload]]\nkind = \"transfer\"\nlist = [{ src = 0, dst = \"node0.gpu0\", bytes = \"1 B\" }]", "E016", 26),
        ("[workload]\nkind = \"transfer\"", "E010", 1),
    ] {
        let found = with(line);
        assert!(
            found.len() == 1 && found[0].0 == code && found[0].2 == column,
            "{line}\nexpected {code} in column {column}, found {found:?}\n{}",
            rendered(&format!("{BASE}{line}\n"))
        );
    }
}

#[test]
fn what_acts_is_not_warned_of() {
    for line in [
        "[software.env]\nNCCL_ALGO = \"Ring\"\nNCCL_IB_QPS_PER_CONNECTION = 4\nNCCL_MAX_NCHANNELS = 4",
        "[software]\ngraph = false\nnccl = \"2.20\"",
        "[[workload]]\nkind = \"collective\"\nop = \"alltoall\"\nchannels = 2\nprotocol = \"LL\"",
        "[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nchannels = 2\nsizes = [\"1.5 KB\", \"8.0 B\"]",
    ] {
        assert_eq!(findings(&format!("{BASE}{line}\n")), [], "{line}");
    }
}

#[test]
fn all_faults_are_reported_together_and_in_order() {
    let toml = "system = \"hgx-h10\"\nnodes = 0\nspines = 4\n[transport]\nmtu = 4096\n[[workload]]\nkind = \"collective\"\nop = \"al_reduce\"\nmin = \"9 B\"\nmax = \"8 B\"\n";
    let codes: Vec<_> = findings(toml).into_iter().map(|(code, line, _)| (code, line)).collect();
    assert_eq!(codes, [("E020", 1), ("E016", 2), ("E050", 3), ("E012", 5), ("E021", 8), ("E016", 9)]);
}

#[test]
fn errors_teach() {
    for (toml, part) in [
        ("system = \"hgx-h10\"\n", "did you mean `hgx-h100`?"),
        ("system = \"hgx-h100\"\nspines = 4\n", "`spines` belongs under [fabric]"),
        (
            "system = \"hgx-h100\"\n[[workload]]\nkind = \"step\"\nmodel = \"llama3-8b\"\nprofile = \"k.csv\"\n",
            "`profile` belongs under [workload.compute]",
        ),
        ("system = \"hgx-h100\"\n[transport]\nmtu = 4096\n", "write \"4096 B\", \"4096 KiB\" or \"4096 MiB\""),
        ("system = \"hgx-h100\"\nnodes = \"2\"\n", "without quotes: nodes = 2"),
        ("system = hgx-h100\n", "text needs quotes: system = \"hgx-h100\""),
        ("system = \"hgx-h100\"\n[fabric]\nkind = \"rail-optimised\"\n", "did you mean `rail-optimized`?"),
        ("system = \"hgx-h100\"\n[workload]\nkind = \"transfer\"\n", "[[workload]]"),
        ("system = \"hgx-h100\"\n[software]\nnccl = 2.20\n", "quote it: nccl = \"2.20\""),
        ("system = \"hgx-h100\"\n[software.env]\nNCCL_MNNVL_ENABLE = 1\n", "set `nodes_per_domain`"),
        ("system = \"hgx-h100\"\nnics = \"8\"\n", "nics = \"8x400Gb/s\": eight NICs"),
        ("nodes = 2\n", "system = \"hgx-h100\""),
        ("", "Neither `system` nor `[node]` is given"),
    ] {
        let shown = rendered(toml);
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

/// A node in which nothing is wrong, one key a line.
const NODE: &str = "[node]
gpu = \"h100-sxm\"
gpus = 4
nic = \"connectx-7\"
nics = 1
sockets = 2
socket_link = { name = \"upi2-16\" }
nvlink = { chip = \"nvswitch3\", links = [5, 4, 4, 5] }
pcie = [
{ uplink = { gen = 5 }, down = [\"gpu0-1\", \"nic0\"] },
{ socket = 1, uplink = { gen = 5 }, down = [\"gpu2-3\"] },
]
";

#[test]
fn faults_of_a_node_have_their_place() {
    assert_eq!(findings(NODE), []);
    for (from, to, code, line, column) in [
        ("gpus = 4", "gpus = 65", "E016", 3, 8),
        ("h100-sxm", "h100-sx", "E023", 2, 7),
        ("nvswitch3", "nvswitch33", "E023", 8, 19),
        ("upi2-16", "upi9", "E023", 7, 24),
        ("\"gpu2-3\"", "\"gpu2-3\", \"gpx\"", "E031", 11, 55),
        ("gpu2-3", "gpu2-4", "E031", 11, 45),
        ("gpu2-3", "gpu1-3", "E031", 11, 45),
        ("gpu2-3", "gpu2", "E031", 3, 8),
        ("socket = 1", "socket = 2", "E031", 11, 12),
        ("socket = 1", "parent = 7", "E031", 11, 12),
        ("{ gen = 5 }, down = [\"gpu2", "{ gen = 5, lanes = 3 }, down = [\"gpu2", "E016", 11, 43),
        ("[5, 4, 4, 5]", "[5, 4, 4, 6]", "E031", 8, 40),
        ("links = [5, 4, 4, 5]", "pairs = [[0, 1, 4]]", "E031", 8, 10),
        ("nic = \"connectx-7\"", "", "E031", 5, 8),
        ("socket_link = { name = \"upi2-16\" }", "", "E031", 6, 11),
    ] {
        let text = NODE.replacen(from, to, 1);
        let found = findings(&text);
        let expected = [(code, line, column)];
        let same = found.iter().map(|(c, l, k)| (*c, *l, *k)).eq(expected);
        assert!(same, "{from} -> {to}\nexpected {expected:?}, found {found:?}\n{}", rendered(&text));
    }
    // What a table names that is not there, and what merely has no effect.
    for (line, code, at) in [
        ("trained = { gpu9 = { gen = 1 } }", "E031", "gpu9"),
        ("trained = { gpu0 = { gen = 1, lanes = 3 } }", "E016", "3 } }"),
        ("xgmi = { rate = \"64 GB/s\", mesh = 4 }", "E031", "{ rate"),
        ("nvme = \"nvme-gen9\"\nnvmes = 0", "E023", "\"nvme-gen9"),
        ("nvmes = 2", "E031", "2"),
        ("cpu = { vendor = \"amd\", model = \"genoaa\" }", "W010", "\"genoaa"),
        ("pcie_payload = \"8 KiB\"", "E016", "\"8 KiB"),
    ] {
        let text = NODE.replacen("pcie = [", &format!("{line}\npcie = ["), 1);
        let first = 1 + text[..text.find(line).unwrap()].matches('\n').count();
        let place = (code, first, 1 + line.rfind(at).unwrap());
        assert!(findings(&text).contains(&place), "{line}: {place:?}\n{}", rendered(&text));
        assert!(rendered(&text).contains("help") || code != "E031", "{}", rendered(&text));
    }
    let policy = "system = \"hgx-h100\"\n[software]\nnic_policy = \"fixed:8\"";
    assert_eq!(findings(policy), [("E031", 3, 14)]);
    // Faults that do not hang together come at once.
    let text = NODE.replace("[5, 4, 4, 5]", "[5, 4, 4, 6]").replace("\"gpu2-3\"", "\"gpx\"").replace("upi2-16", "upi9");
    assert_eq!(findings(&text).iter().map(|f| f.1).collect::<Vec<_>>(), [7, 8, 11], "{}", rendered(&text));
    // Names and widths are told all at once.
    let text = NODE.replace("h100-sxm", "x").replace("connectx-7", "y").replace("gen = 5 }", "gen = 5, lanes = 3 }");
    assert_eq!(findings(&text).iter().map(|f| f.1).collect::<Vec<_>>(), [2, 4, 10, 11], "{}", rendered(&text));
}

#[test]
fn a_ratio_that_whole_links_do_not_give_is_warned_of() {
    let with = |nodes: u32, ratio: &str| {
        let text = format!("system = \"hgx-h100\"\nnodes = {nodes}\n[fabric]\noversubscription = {ratio}\n");
        findings(&text).into_iter().map(|f| f.0).collect::<Vec<_>>()
    };
    assert_eq!(with(64, "2"), [""; 0]);
    assert_eq!(with(64, "900"), ["W010"]);
    assert_eq!(with(2, "4"), ["W010"]);
}

#[test]
fn an_impossible_fabric_states_the_inequality() {
    let toml = "system = \"hgx-h100\"\nnodes = 64\n[fabric]\nspines = 3\noversubscription = 1\n";
    let shown = rendered(toml);
    assert!(shown.contains("E031") && shown.contains(":4:10"), "{shown}");
    assert!(shown.contains("16 leaves x 32 uplinks = 512 ports, but 3 spines x 64 = 192"), "{shown}");
}

#[test]
fn a_rate_that_is_the_sum_of_both_directions_is_warned_of() {
    let node = "[node]\ngpu = \"h100-sxm\"\ngpus = 1\nsockets = 1\nnic = \"connectx-7\"\nnics = 1\npcie = [{ uplink = { gen = 5 }, down = [\"gpu0\", \"nic0\"] }]\n";
    let with = |rate: &str| load(&format!("{node}nic_rate = {rate}\n"));
    let warned = with("\"800 Gb/s\"").unwrap_or_else(|e| panic!("{}", text(&e, Style::Plain)));
    assert_eq!(warned.diagnostics.list.iter().map(|d| d.code).collect::<Vec<_>>(), [Code::BothDirections]);
    for toml in [
        "system = \"hgx-h100\"\nnvlink = \"900 GB/s\"\n",
        "[node]\ngpu = \"h100-sxm\"\ngpus = 8\nsockets = 1\nnvlink = { chip = \"nvswitch3\", links = [5, 4, 4, 5], rate = \"900 GB/s\" }\npcie = [{ uplink = { gen = 5 }, down = [\"gpu0-7\"] }]\n",
    ] {
        let shown = rendered(toml);
        assert!(shown.contains("W003") && shown.contains("450 GB/s in each direction"), "{shown}");
        assert!(shown.contains("use \"450 GB/s\", or state it: { both_directions = \"900 GB/s\" }"), "{shown}");
        assert_eq!(findings(&toml.replace("\"900 GB/s\"", "{ both_directions = \"900 GB/s\" }")), []);
    }
    let stated = with("{ both_directions = \"800 Gb/s\" }").unwrap();
    assert!(stated.diagnostics.list.is_empty());
    assert_eq!(stated.scenario.cluster.node.nic_rate, Some(sim_core::units::Rate::gbit(400)));
}

#[test]
fn a_described_node_equals_the_catalogue_s() {
    for row in sim_topology::Catalogue::builtin().systems() {
        // What serde writes of a node is what a user may write, except that MPS is a size with unit there.
        let mut value = toml::Value::try_from(&row.node).unwrap();
        if let Some(payload) = value.as_table_mut().and_then(|t| t.get_mut("pcie_payload")) {
            *payload = toml::Value::String(format!("{payload} B"));
        }
        let mut table = toml::Table::new();
        table.insert("node".into(), value);
        let text = toml::to_string(&table).unwrap();
        let loaded = load(&text)
            .unwrap_or_else(|e| panic!("{}: {}\n{text}", row.name, crate::diagnostic::text(&e, Style::Plain)));
        assert_eq!(loaded.scenario.cluster.node, row.node, "{}", row.name);
    }
}

#[test]
fn bundled_scenarios_are_valid_and_say_what_they_are() {
    for preset in PRESETS {
        let loaded = load(preset.text).unwrap_or_else(|e| panic!("{}: {}", preset.name, text(&e, Style::Plain)));
        assert!(loaded.diagnostics.list.is_empty(), "{}: {:?}", preset.name, loaded.diagnostics.warning_lines());
        assert!(!loaded.scenario.workloads.is_empty(), "{}", preset.name);
        assert!(preset.title().ends_with('.'), "{}: {}", preset.name, preset.title());
        for part in ["# Shows:", "# Expected:", "schema = 1", "\nnodes = "] {
            assert!(preset.text.contains(part), "{}: {part}", preset.name);
        }
    }
}

#[test]
fn every_file_in_the_folder_is_bundled() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|e| e.unwrap().file_name().into_string().ok()?.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort();
    let mut bundled: Vec<_> = presets::names().map(str::to_owned).collect();
    bundled.sort();
    assert_eq!(names, bundled);
}

#[test]
fn defaults_in_the_tables_parse_as_their_kind() {
    use sim_core::units::{Bytes, Rate, Span};
    for table in all_tables() {
        for key in table.keys {
            let Some(default) = key.default else { continue };
            let good = match &key.kind {
                Kind::Integer(low, high) | Kind::IntegerOr(low, high, _) => {
                    default.parse().is_ok_and(|n: i64| (low..=high).contains(&&n))
                }
                Kind::Number(low, high) => default.parse().is_ok_and(|n: f64| (low..=high).contains(&&n)),
                Kind::Boolean => default.parse::<bool>().is_ok(),
                Kind::Size(_) => default.parse::<Bytes>().is_ok(),
                Kind::Rate => default.parse::<Rate>().is_ok(),
                Kind::Time => default.parse::<Span>().is_ok(),
                Kind::Length => default.parse::<Metres>().is_ok(),
                Kind::Choice(words) => words.contains(&default),
                Kind::Text | Kind::Named(..) => true,
                _ => false,
            };
            assert!(good, "{}.{} = {default}", table.name, key.name);
        }
    }
}

#[test]
fn other_spellings_of_a_word_are_understood() {
    let toml = "system = \"hgx-h100\"\nnodes = 2\n[fabric]\nkind = \"Leaf_Spine\"\n[transport]\nkind = \"RoCEv2\"\n[[workload]]\nkind = \"collective\"\nop = \"AllToAll\"\nprotocol = \"simple\"\nalgorithm = \"NVLSTree\"\ndatatype = \"bf16\"\n";
    let scenario = load(toml).unwrap().scenario;
    assert_eq!(scenario.cluster.fabric, sim_topology::FabricKind::LeafSpine);
    assert_eq!(scenario.cluster.transport, sim_topology::TransportKind::Roce);
    let Workload::Collective(collective) = &scenario.workloads[0] else { panic!("{:?}", scenario.workloads) };
    assert_eq!(collective.op, sim_collectives::nccl::Operation::AllToAll);
    assert_eq!(collective.protocol, Some(sim_collectives::nccl::Protocol::Simple));
    assert_eq!(collective.algorithm, Some(sim_collectives::nccl::Algorithm::NvlsTree.into()));
    assert_eq!(collective.datatype, sim_collectives::nccl::Datatype::Bfloat16);
}

#[test]
fn choices_are_those_that_the_parts_of_the_program_know() {
    use sim_collectives::algorithms::Name;
    use sim_collectives::nccl::{Operation, Protocol};
    use sim_topology::{FabricKind, TransportKind};
    let words = |table: &str, name: &str| {
        let table = all_tables().into_iter().find(|t| t.name == table).unwrap();
        match table.key(name).unwrap().kind {
            Kind::Choice(words) => words,
            ref other => panic!("{other:?}"),
        }
    };
    for word in words("workload.collective", "op") {
        assert_eq!(word.parse::<Operation>().unwrap().to_string(), *word);
    }
    for word in words("workload.collective", "algorithm") {
        assert_eq!(word.parse::<Name>().unwrap().to_string(), *word);
    }
    for word in words("workload.collective", "protocol") {
        assert_eq!(word.parse::<Protocol>().unwrap().to_string(), *word);
    }
    let kinds: Vec<_> = words("fabric", "kind").iter().map(|w| w.parse::<FabricKind>().unwrap().as_str()).collect();
    assert_eq!(kinds, words("fabric", "kind"));
    assert_eq!(kinds.len(), FabricKind::ALL.len());
    assert_eq!(words("transport", "kind"), TransportKind::ALL.map(TransportKind::as_str));
}

#[test]
fn the_reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scenario.md");
    let found = std::fs::read_to_string(path).unwrap_or_default().replace("\r\n", "\n");
    assert!(found == markdown(), "docs/scenario.md is out of date: fabricsim schema --markdown > docs/scenario.md");
}

/// A mutation of a text: cut, drop, double, replace or insert at a place.
fn mutate(text: &str, edits: &[(u8, u16, String)]) -> String {
    let mut text = text.to_owned();
    for (how, at, piece) in edits {
        let mut at = usize::from(*at) % (text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let end = text[at..].char_indices().nth(3).map_or(text.len(), |(i, _)| at + i);
        match how % 5 {
            0 => text.truncate(at),
            1 => text.replace_range(at..end, ""),
            2 => {
                let piece = text[at..end].to_owned();
                text.insert_str(at, &piece);
            }
            3 => text.replace_range(at..end, piece),
            _ => text.insert_str(at, piece),
        }
    }
    text
}

/// What stays cheap to build: mutations must not ask for a million nodes.
fn small(text: &str) -> bool {
    text.lines().all(|l| {
        let digits = l.chars().filter(char::is_ascii_digit).count();
        !l.trim_start().starts_with("nodes") || digits <= 2
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_scenarios_never_panic(
        which in 0usize..64,
        edits in proptest::collection::vec((any::<u8>(), any::<u16>(), "[\\[\\]{}=\"'#.,\\n0-9a-z é_-]{0,6}"), 1..6),
    ) {
        let preset = &PRESETS[which % PRESETS.len()];
        let text = mutate(&preset.text.replace("nodes = 128", "nodes = 12"), &edits);
        if small(&text) {
            let all = load(&text).map_or_else(|faults| { assert!(faults.has_errors()); faults }, |l| l.diagnostics);
            for form in [text_of(&all), crate::diagnostic::github(&all), crate::diagnostic::sarif(&all).to_string()] {
                prop_assert!(all.list.is_empty() || !form.is_empty());
            }
        }
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        let _ = load(&text);
    }

    #[test]
    fn any_setting_never_panics(text in "[a-z0-9_.=\\[\\]\" -]{0,30}") {
        let input = Input::Text { name: "t.toml".into(), text: PRESETS[1].text.into() };
        if !text.contains("nodes") {
            let _ = Scenario::load(&input, &[Setting::set(text)]);
        }
    }
}

fn text_of(all: &Diagnostics) -> String {
    text(all, Style::Plain)
}
