//! Copies inside boxes beside what was measured, and what hardware and paths must do.
//!
//! `UPDATE_DOCS=1 cargo test --test hardware` writes the table of `docs/hardware.md`; without it the page must be as it would be
//! written.

use std::fmt::Write as _;
use std::fs;

use fabricsim::scenario::{Input, Loaded, Scenario};
use fabricsim::simulate::Report;

/// Loads a scenario of these keys and transfers `(from, to, via)`; a number is a rank.
fn load(head: &str, transfers: &[(&str, &str, &str)], bytes: &str) -> Loaded {
    let device = |d: &str| if d.parse::<u32>().is_ok() { d.to_owned() } else { format!("\"{d}\"") };
    let mut text = format!("{head}\n[[workload]]\nkind = \"transfer\"\nlist = [\n");
    for (src, dst, via) in transfers {
        let (src, dst) = (device(src), device(dst));
        let _ = writeln!(text, "  {{ src = {src}, dst = {dst}, bytes = \"{bytes}\", {via} }},");
    }
    text += "]\n";
    Scenario::load(&Input::Text { name: "test.toml".into(), text }, &[]).unwrap_or_else(|faults| {
        panic!("{}", fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain))
    })
}

fn play(head: &str, transfers: &[(&str, &str, &str)], bytes: &str) -> Report {
    load(head, transfers, bytes).run().unwrap()
}

/// Rates of transfers of 128 MiB, GB/s.
fn rates(head: &str, transfers: &[(&str, &str, &str)]) -> Vec<f64> {
    play(head, transfers, "128 MiB").results.transfers.iter().map(|t| t.rate).collect()
}

fn auto<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str, &'a str)> {
    pairs.iter().map(|&(a, b)| (a, b, "via = \"auto\"")).collect()
}

/// What of the transfers is compared.
#[derive(Clone, Copy)]
enum Take {
    /// The first one's rate.
    First,
    /// All bytes over the time until the last arrived.
    Total,
    /// The sum of the rates.
    Sum,
}

/// How a measured value stands to the model.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// A parameter was taken from it: it proves nothing.
    Input,
    /// A parameter that was taken from another row decides it too: it proves that parameter's reading, and no model.
    Same,
    /// It is predicted.
    Held,
    /// It is predicted, and missed by more than a tenth; the page says why.
    Missed,
}

struct Row {
    what: &'static str,
    system: &'static str,
    pairs: Vec<(&'static str, &'static str)>,
    take: Take,
    measured: f64,
    role: Role,
    source: &'static str,
}

const N: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
const M: &str = "node0.memory0";

fn all_to_all() -> Vec<(&'static str, &'static str)> {
    N.iter().flat_map(|a| N.iter().filter(move |b| a != *b).map(move |b| (*a, *b))).collect()
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use Role::{Held, Input, Missed, Same};
    use Take::{First, Sum, Total};
    let row = |what, system, pairs: &[(&'static str, &'static str)], take, measured, role, source| {
        Row { what, system, pairs: pairs.to_vec(), take, measured, role, source }
    };
    let turin = "system = \"pcie-rtxpro6000-8\"";
    let genoa = "system = \"pcie-genoa-8\"";
    let plx = "system = \"pcie-rtxpro6000-8-plx\"";
    let acs = "system = \"pcie-rtxpro6000-8-plx\"\nacs = true";
    let one = "system = \"pcie-rtxpro6000-8-1s\"";
    let gb = "system = \"nvl72-gb300\"";
    let across: Vec<_> = N[..4].iter().flat_map(|a| N[4..].iter().map(move |b| (*a, *b))).collect();
    let down: Vec<_> = N.iter().map(|b| (M, *b)).collect();
    vec![
        row("H200, host to device, own x16", "system = \"hgx-h200\"", &[(M, "0")], First, 55.43, Held, "mleng_net"),
        row("H200, device to host, own x16", "system = \"hgx-h200\"", &[("0", M)], First, 55.06, Held, "mleng_net"),
        row("GPU to GPU, root ports of one Turin", turin, &[("0", "1")], First, 56.57, Held, "rtx6k_bw"),
        row("the same, both directions", turin, &[("0", "1"), ("1", "0")], Total, 111.4, Held, "rtx6k_bw"),
        row("across Turin sockets, one pair", turin, &[("0", "4")], First, 51.0, Input, "rtx6k_bw"),
        row("the same, both directions", turin, &[("0", "4"), ("4", "0")], Total, 99.4, Same, "rtx6k_bw"),
        row("across two sockets, all pairs one way", turin, &across, Total, 51.7, Same, "rtx6k_topo"),
        row("root ports of one Genoa", genoa, &[("0", "1")], First, 54.0, Held, "rtx6k_bw"),
        row("across Genoa sockets, one pair", genoa, &[("0", "4")], First, 39.0, Held, "rtx6k_bw"),
        row("the same, both directions", genoa, &[("0", "4"), ("4", "0")], Total, 64.0, Missed, "rtx6k_bw"),
        row("one PM50100 switch", one, &[("0", "1")], First, 56.26, Held, "rtx6k_root"),
        row("two switches of one CPU, one pair", one, &[("0", "4")], First, 56.26, Held, "rtx6k_root"),
        row("the same, four pairs", one, &[("0", "4"), ("1", "5"), ("2", "6"), ("3", "7")], Total, 56.4, Held, "rtx6k_root"),
        row("the same, both directions", one, &[("0", "4"), ("1", "5"), ("4", "0"), ("5", "1")], Total, 109.3, Held, "rtx6k_root"),
        row("eight GPUs to each other, two switches", one, &all_to_all(), Total, 179.0, Missed, "rtx6k_root"),
        row("host to eight GPUs, two uplinks on two quadrants", one, &down, Total, 114.1, Held, "rtx6k_root"),
        row("the same on one quadrant", "QUADRANT", &down, Total, 73.1, Input, "rtx6k_root"),
        row("one partition of a PEX890xx, ACS off", plx, &[("0", "1")], First, 53.7, Input, "rtx6k_asus"),
        row("the same, both directions", plx, &[("0", "1"), ("1", "0")], Total, 103.0, Same, "rtx6k_asus"),
        row("the same, ACS on, both directions", acs, &[("0", "1"), ("1", "0")], Total, 50.0, Held, "rtx6k_asus"),
        row("partitions of one chip", plx, &[("0", "2")], First, 53.0, Same, "rtx6k_asus"),
        row("writes out of a partition's uplink", plx, &[("0", "4")], First, 38.0, Input, "rtx6k_asus"),
        row("RTX 5090 class, Gen5 x8 pair", "X8", &[("0", "1")], First, 28.0, Held, "p2p_5090"),
        row("DGX H100, NIC and GPU of one switch", "system = \"hgx-h100\"\nnodes = 2", &[("0", "8")], First, 49.0, Held, "mlperf_dgxh100"),
        row("Grace to GPU", gb, &[(M, "0")], First, 359.05, Input, "mleng_net"),
        row("GPU to Grace", gb, &[("0", M)], First, 377.15, Same, "mleng_net"),
        row("both at once, together", gb, &[("0", M), (M, "0")], Total, 350.76, Same, "mleng_net"),
        row("A100, NVLink 3", "system = \"hgx-a100\"", &[("0", "1")], First, 274.6, Held, "mleng_net"),
        row("H100, NVLink 4", "system = \"hgx-h100\"", &[("0", "1")], First, 376.0, Held, "mleng_net"),
        row("H200, NVLink 4", "system = \"hgx-h200\"", &[("0", "1")], First, 396.4, Held, "mleng_net"),
        row("GB200, NVLink 5", "system = \"nvl72-gb200\"", &[("0", "1")], First, 746.7, Held, "mleng_net"),
        row("V100, to all neighbours of the mesh", "system = \"dgx-1v\"", &[("0", "1"), ("0", "2"), ("0", "3"), ("0", "4")], Sum, 143.71, Held, "dell_v100"),
        row("DGX Spark, one half of its NIC", "system = \"dgx-spark\"\nnodes = 2", &[("0", "1")], First, 12.0, Held, "spark_bench"),
    ]
}

/// Nodes that are in no catalogue.
fn head(system: &str) -> String {
    let two = |key: &str, gen_lanes: &str, down: [&str; 2]| {
        format!(
            "[node]\ngpu = \"rtxpro6000-ws\"\ngpus = {}\nsockets = 1\nmemory = \"576 GB/s\"\ncpu = {{ vendor = \"amd\", model = \"turin\" }}\npcie = [\n{}]\n",
            if down[0].contains('-') { 8 } else { 2 },
            down.map(|d| format!("{{ {key} uplink = {gen_lanes}, down = [\"{d}\"] }},\n")).concat()
        )
    };
    match system {
        "QUADRANT" => two("quadrant = 0,", "{ gen = 5, lanes = 16 }", ["gpu0-3", "gpu4-7"]),
        "X8" => two("switch = false,", "{ gen = 5, lanes = 8 }", ["gpu0", "gpu1"]),
        other => other.to_owned(),
    }
}

#[test]
fn copies_are_beside_measurements() {
    let mut table =
        String::from("| what | measured GB/s | predicted | error | role | source |\n|---|---|---|---|---|---|\n");
    let mut wrong = Vec::new();
    for row in rows() {
        let results = play(&head(row.system), &auto(&row.pairs), "128 MiB").results.transfers;
        let end = results.iter().map(|t| t.start_us + t.time_us).fold(0.0, f64::max);
        let predicted = match row.take {
            Take::First => results[0].rate,
            Take::Sum => results.iter().map(|t| t.rate).sum(),
            Take::Total => results.iter().map(|t| t.bytes).sum::<u64>() as f64 / end / 1e3,
        };
        let error = predicted / row.measured - 1.0;
        let role = match row.role {
            Role::Input => "input",
            Role::Same => "same parameter",
            Role::Held => "held out",
            Role::Missed => "held out, missed",
        };
        let _ = writeln!(
            table,
            "| {} | {:.1} | {predicted:.1} | {:+.1} % | {role} | {} |",
            row.what,
            row.measured,
            error * 100.0,
            row.source
        );
        if (error.abs() > 0.1) != (row.role == Role::Missed) {
            wrong.push(format!("{}: {predicted:.2} for {:.2}, {:+.1} %", row.what, row.measured, error * 100.0));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/hardware.md");
    let page = fs::read_to_string(path).unwrap().replace("\r\n", "\n");
    let (start, end) = ("<!-- measured -->\n", "<!-- /measured -->");
    let (before, rest) = page.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let new = format!("{before}{start}{table}{end}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, new).unwrap();
    } else {
        assert_eq!(page, new, "UPDATE_DOCS=1 cargo test --test hardware renews the page");
    }
}

fn near(got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() <= tolerance, "{got} for {want}");
}

#[test]
fn flows_share_an_uplink() {
    // Before headers 63.0 GB/s, shared by k; a header of 24 B for 256 B leaves 57.6.
    let system = "system = \"pcie-rtxpro6000-8-1s\"";
    for k in 1..=4usize {
        let pairs: Vec<_> = (0..k).map(|i| (N[i], M)).collect();
        for rate in rates(system, &auto(&pairs)) {
            near(rate, 63.015 / k as f64 * 256.0 / 280.0, 0.005);
        }
    }
}

#[test]
fn a_policy_decides_what_each_gpu_gets() {
    let pairs = [("0", "8"), ("1", "9"), ("2", "10"), ("3", "11"), ("4", "12"), ("5", "13"), ("6", "14"), ("7", "15")];
    let of = |policy: &str| {
        let head = format!("system = \"hgx-h100\"\nnodes = 2\n[software]\nnic_policy = \"{policy}\"");
        rates(&head, &auto(&pairs)).into_iter().fold(f64::INFINITY, f64::min)
    };
    let (nearest, turn, one) = (of("nearest"), of("round-robin"), of("fixed:0"));
    assert!(turn <= nearest * 1.001, "{turn} {nearest}");
    near(one / nearest, 1.0 / 8.0, 0.02);
    let loaded =
        load("system = \"hgx-h100\"\nnodes = 2\n[software]\nnic_policy = \"fixed:0\"", &auto(&pairs[..1]), "1 MiB");
    let text = fabricsim::diagnostic::text(&loaded.diagnostics, fabricsim::diagnostic::Style::Plain);
    assert!(text.contains("W020") && text.contains("to nic0 is SYS"), "{text}");
    let loaded = load(
        "system = \"hgx-h100\"\nnodes = 2\n[software]\nnic_map = [[0], [1], [2], [0], [4], [5], [6], [7]]",
        &auto(&pairs[..1]),
        "1 MiB",
    );
    let text = fabricsim::diagnostic::text(&loaded.diagnostics, fabricsim::diagnostic::Style::Plain);
    assert!(text.contains("gpu3 to nic0 is NODE; nic3 is PIX"), "{text}");
    assert!(text.contains("through host memory"), "{text}");
}

#[test]
fn a_bounce_costs_its_copies() {
    let time = |via: &str| {
        play("system = \"hgx-h100\"\nnodes = 2", &[("0", "8", via)], "256 MiB").results.transfers[0].time_us
    };
    let bytes = f64::from(256 << 20);
    let (pcie, network) = (bytes / 57.61 / 1e3, bytes / 49.68 / 1e3);
    let (direct, pieces) = (time("via = \"direct\""), time("via = \"host\""));
    let copies = time("via = \"host\", staging = \"256 MiB\"");
    near(direct, network, 0.01);
    // One whole copy after the other: to host memory, over the network, to the other GPU.
    near(copies, pcie + network + pcie, 0.01);
    assert!(pieces > direct && pieces < direct * 1.05, "through a small buffer the copies overlap: {pieces} {direct}");
}

#[test]
fn gpudirect_goes_as_far_as_it_is_let() {
    let kinds = |level: &str| -> bool {
        let head = format!("system = \"pcie-a100-4\"\nnodes = 2\n[software]\ngpudirect = \"{level}\"");
        let loaded = load(&head, &auto(&[("0", "4")]), "1 MiB");
        let fabric = &loaded.fabric;
        fabric.bounce(fabric.gpus()[0], fabric.nics_of(fabric.gpus()[0])[0]).is_some()
    };
    assert!(kinds("PXB") && kinds("P2C") && kinds("LOC"), "the NIC is on a root port of its own");
    assert!(!kinds("PHB") && !kinds("SYS") && !kinds("3"));
    // What the NIC reads through the root complex of such a CPU is 16 of 24 GB/s.
    let head = "system = \"pcie-a100-4\"\nnodes = 2\n[software]\ngpudirect = \"SYS\"";
    near(rates(head, &auto(&[("0", "4")]))[0], 16.0, 0.02);
    let grace = load("system = \"nvl72-gb200\"\nnodes = 2\nnodes_per_domain = 1", &auto(&[("0", "4")]), "1 MiB");
    let (gpu, nic) = (grace.fabric.gpus()[0], grace.fabric.nics_of(grace.fabric.gpus()[0])[0]);
    assert!(grace.fabric.bounce(gpu, nic).is_none(), "over C2C and the CPU's own port");
}

#[test]
fn boards_of_nvswitches_do_not_block() {
    let across: Vec<(String, String)> =
        (0..8).flat_map(|i| [(i.to_string(), (i + 8).to_string()), ((i + 8).to_string(), i.to_string())]).collect();
    let across: Vec<_> = across.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    for rate in rates("system = \"dgx-2\"", &auto(&across)) {
        near(rate, 150.0 * 128.0 / 144.0, 0.01);
    }
    let loaded = load("system = \"nvl36x2-gb200\"\nnodes = 18", &auto(&[("0", "71")]), "1 MiB");
    let fabric = &loaded.fabric;
    let hops = |a: usize, b: usize| {
        let request = fabric_request(fabric.gpus()[a], fabric.gpus()[b]);
        fabric.route(&request).unwrap().links.len()
    };
    assert_eq!((hops(0, 35), hops(0, 36), hops(36, 71)), (2, 3, 2));
}

fn fabric_request(a: sim_topology::DeviceId, b: sim_topology::DeviceId) -> sim_topology::RouteRequest {
    sim_topology::RouteRequest::auto(a, b)
}

#[test]
fn links_train_to_the_lesser_end_and_it_is_said() {
    let node = "[node]\ngpu = \"a100-pcie-80\"\ngpus = 2\nsockets = 1\ntrained = { gpu1 = { gen = 3, lanes = 8 } }\n\
        pcie = [{ uplink = { gen = 5, lanes = 16 }, down = [\"gpu0-1\"] }]\n";
    let loaded = load(node, &auto(&[("0", M)]), "1 MiB");
    let notes = loaded.fabric.node_notes().join("\n");
    assert!(notes.contains("gpu0: Gen4 x16: the card is Gen4 in a Gen5 slot"), "{notes}");
    assert!(notes.contains("gpu1: Gen3 x8: trained below the Gen4 x16"), "{notes}");
    // A Gen6 card in a Gen3 slot is fine and slower.
    let node = node.replace("a100-pcie-80", "b300-sxm").replace("gen = 5", "gen = 3");
    near(rates(&node, &auto(&[("0", M)]))[0], 15.75 * 256.0 / 280.0, 0.01);
}

#[test]
fn drives_and_small_copies() {
    let system = "system = \"hgx-h100-4sw-nvme\"";
    near(rates(system, &[("node0.nvme0", "0", "via = \"direct\"")])[0], 6.8, 0.01);
    near(rates(system, &[("0", "node0.nvme0", "via = \"direct\"")])[0], 4.0, 0.01);
    let time = |from, to, via| play(system, &[(from, to, via)], "4 KiB").results.transfers[0].time_us;
    let (engine, mapped) = (time(M, "0", "via = \"memcpy\""), time(M, "0", "via = \"gdrcopy\""));
    assert!(mapped * 4.0 < engine, "a small copy by the CPU waits for no launch: {mapped} {engine}");
    let large = |via| play(system, &[(M, "0", via)], "16 MiB").results.transfers[0].time_us;
    assert!(large("via = \"gdrcopy\"") > 4.0 * large("via = \"memcpy\""), "and a large one is slow");
}

#[test]
fn reads_and_writes_share_memory() {
    let both: Vec<_> = N[..4].iter().flat_map(|&gpu| [(M, gpu), (gpu, M)]).collect();
    // All bytes over the time of the last: what is read and written shares the peak of the memory.
    let size = 256.0 * 1024.0 * 1024.0;
    let played = play("system = \"hgx-h100\"", &auto(&both), "256 MiB");
    let longest = played.results.transfers.iter().map(|t| t.time_us).fold(0.0, f64::max);
    let all = both.len() as f64 * size / longest / 1e3;
    assert!(all <= 307.2 && all > 0.95 * 307.2, "{all}");
    near(rates("system = \"hgx-h100\"", &auto(&[(M, "0"), ("0", M)])).iter().sum(), 2.0 * 57.6, 0.01);
}

#[test]
fn a_fast_nic_in_a_slow_slot_is_told_of() {
    let loaded = load("system = \"hgx-h100\"\nnodes = 2\nnics = \"8x800Gb/s\"", &auto(&[("0", "8")]), "1 MiB");
    let notes = loaded.fabric.node_notes().join("\n");
    assert!(notes.contains("nic0-7: NIC of 100 GB/s: its slot, Gen5 x16, carries 63"), "{notes}");
}

#[test]
fn rows_below_a_switch_are_on_its_socket() {
    let rows = |below: &str| {
        format!(
            "nodes = 1\n[node]\ngpu = \"l40s\"\ngpus = 4\nsockets = 2\nsocket_link = {{ name = \"upi2-16\", links = 3 }}\npcie = [\n\
             {{ socket = 0, uplink = {{ gen = 4, lanes = 16 }}, down = [\"gpu0\"] }},\n\
             {{ socket = 1, numa = 3, uplink = {{ gen = 4, lanes = 16 }}, down = [\"gpu1\"] }},\n\
             {{ {below} parent = 1, uplink = {{ gen = 4, lanes = 16 }}, down = [\"gpu2-3\"] }},\n]\n"
        )
    };
    let read = |text: String| Scenario::load(&Input::Text { name: "test.toml".into(), text }, &[]);
    let Ok(loaded) = read(rows("")) else { panic!("not built") };
    let Some(matrix) = sim_topology::topo::matrix(&loaded.fabric, 0) else { panic!("no matrix") };
    let numa: Vec<_> = matrix.rows.iter().map(|row| row.numa_affinity).collect();
    assert_eq!(numa, [Some(0), Some(3), Some(3), Some(3)]);
    let affinity = |gpu: usize| matrix.rows[gpu].cpu_affinity.clone();
    assert!(affinity(2) == affinity(1) && affinity(2) != affinity(0));
    assert!(read(rows("socket = 1,")).is_ok());
    let Err(faults) = read(rows("socket = 0,")) else { panic!("on two sockets") };
    let text = fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain);
    assert!(text.contains("test.toml:10:12") && text.contains("row 1, on which it hangs, is on socket 1"), "{text}");
}

#[test]
fn known_collapses_are_warned_of() {
    let warned = |pairs: &[(&str, &str)]| {
        let loaded = load("system = \"pcie-rtxpro6000-8-plx\"", &auto(pairs), "1 MiB");
        let text = fabricsim::diagnostic::text(&loaded.diagnostics, fabricsim::diagnostic::Style::Plain);
        text.contains("W021")
    };
    assert!(warned(&[("0", "4"), ("1", "6")]));
    assert!(!warned(&[("0", "4"), ("1", "5")]), "one root port");
    assert!(!warned(&[("0", "4"), ("0", "6")]), "one writer");
    assert!(!warned(&[("0", "1"), ("1", "0")]), "below the switch");
}

/// Each link of an MI300X reaches one peer: a pair has one of them, and only traffic to all has all seven.
#[test]
fn xgmi_serves_one_peer_a_link() {
    let head = "system = \"mi300x-8\"";
    let pair = rates(head, &auto(&[("0", "7")]))[0];
    assert!(pair < 64.0 && pair > 0.88 * 64.0, "{pair}");
    let out: Vec<(&str, &str)> = N[1..].iter().map(|peer| ("0", *peer)).collect();
    let all = rates(head, &auto(&out)).iter().sum::<f64>();
    assert!((all / pair - 7.0).abs() < 0.05, "{all} of {pair} a pair");
    let mesh = rates(head, &auto(&all_to_all()));
    assert_eq!(mesh.len(), 56);
    assert!(mesh.iter().all(|rate| (rate / pair - 1.0).abs() < 0.01), "{mesh:?}");
}
