//! What `[transport]` refuses, and what it warns of: each finding by its code, at its place.

use fabricsim::diagnostic::{Code, Diagnostics};
use fabricsim::scenario::{Input, Loaded, Scenario, Setting};

const BASE: &str = "system = \"hgx-h100\"\nnodes = 4\n[fabric]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 2\n";

fn load(settings: &[&str]) -> Result<Loaded, Diagnostics> {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::set(*text)).collect();
    Scenario::load(&Input::Text { name: "t.toml".into(), text: BASE.into() }, &settings)
}

/// The codes of what is found, and the text up to the mark, with the key that is marked or that the marked value is of.
fn found(settings: &[&str]) -> Vec<(Code, String)> {
    let all = match load(settings) {
        Ok(loaded) => loaded.diagnostics,
        Err(faults) => faults,
    };
    let place = |d: &fabricsim::diagnostic::Diagnostic| {
        let Some(place) = &d.place else { return String::new() };
        let text = all.sources.text(place.source);
        let before = text[..place.span.start].trim_end();
        before.strip_suffix('=').map_or_else(|| text[..place.span.end].to_owned(), |key| key.trim_end().to_owned())
    };
    all.list.iter().map(|d| (d.code, place(d))).collect()
}

#[track_caller]
fn finds(settings: &[&str], code: Code, key: &str) {
    let list = found(settings);
    assert!(list.iter().any(|(c, at)| *c == code && at.ends_with(key)), "{settings:?}: {list:?}");
}

#[test]
fn presets_load_without_a_word() {
    let rows = sim_topology::Catalogue::builtin().presets();
    // The simulators' own are for fabrics of their own.
    for row in rows.filter(|row| !row.name.starts_with("peer-")) {
        let gbit = row.port_rate.map_or(400.0, |rate| rate.as_gbyte() * 8.0);
        let nics = format!("nics=\"8x{gbit}Gb/s\"");
        let list = found(&[&format!("transport.preset={}", row.name), &nics]);
        assert!(list.is_empty(), "{}: {list:?}", row.name);
    }
    for name in ["peer-a", "peer-a-csg", "peer-b", "peer-b-paper"] {
        let own = [
            "nics=\"8x100Gb/s\"",
            "fabric.link_latency=\"1 us\"",
            "catalogue.switch.star={ like = \"sn5600\", forwarding = \"store-and-forward\" }",
            "fabric.switch=star",
        ];
        let preset = format!("transport.preset={name}");
        let list = found(&[&[preset.as_str()], &own[..]].concat());
        assert!(list.is_empty(), "{name}: {list:?}");
    }
}

#[test]
fn what_is_in_force_says_where_it_comes_from() {
    let loaded = load(&["transport.preset=roce-400g", "transport.ecn.kmin=\"1 MB\""]).unwrap();
    let packets = loaded.packets.unwrap();
    let of = |name: &str| packets.parameters.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!((of("ecn.kmin").value.as_str(), of("ecn.kmin").origin.as_str()), ("1 MB", "scenario"));
    assert_eq!((of("ecn.kmax").value.as_str(), of("ecn.kmax").origin.as_str()), ("6400 KB", "preset roce-400g"));
    assert_eq!(of("ecn.kmax").standing, Some("secondary"));
    assert_eq!(of("dcqcn.timer").origin, "default");
    assert!(of("ack_every").value == "4" && of("pfc.headroom").origin == "default");
    // Nothing of a flow control that is not there.
    assert!(packets.parameters.iter().all(|p| !p.name.starts_with("credits")));
}

/// Defaults follow the fabric as built: a slow cable is a fault of one link, and no other setting of all switches.
#[test]
fn a_slow_cable_moves_no_default() {
    let defaults = |settings: &[&str]| load(settings).unwrap().packets.unwrap().parameters;
    let roce = ["transport.model=packets", "transport.kind=roce"];
    let slow = "fault=[{ kind = \"degraded\", target = \"node0.nic0<->leaf0\", factor = 0.1 }]";
    assert_eq!(defaults(&roce), defaults(&[&roce[..], &[slow]].concat()));
}

#[test]
fn packets_are_played_where_a_key_needs_them() {
    let is = |settings: &[&str]| load(settings).unwrap().packets.map(|p| p.preset.unwrap_or_default());
    assert_eq!(is(&[]), None);
    assert_eq!(is(&["transport.kind=roce", "transport.mtu=\"1 KiB\"", "transport.path_choice=hash"]), None);
    assert_eq!(is(&["transport.model=packets"]).as_deref(), Some("ib-ndr"));
    assert_eq!(is(&["transport.model=packets", "transport.kind=roce"]).as_deref(), Some("roce-lossless"));
    assert_eq!(is(&["transport.path_choice=adaptive"]).as_deref(), Some("ib-ndr"));
    assert_eq!(is(&["transport.ack_every=1", "nics=\"8x200Gb/s\""]).as_deref(), Some("ib-hdr"));
    assert_eq!(is(&["transport.model=virtual", "transport.preset=roce-400g"]), None);
    // One's own, upon a built-in one.
    let own = "catalogue.preset.ours={ like = \"roce-400g\", transport = { ecn = { kmin = \"100 KB\" } } }";
    let loaded = load(&[own, "transport.preset=ours"]).unwrap();
    let packets = loaded.packets.unwrap();
    let kmin = packets.parameters.iter().find(|p| p.name == "ecn.kmin").unwrap();
    assert_eq!((kmin.value.as_str(), kmin.origin.as_str()), ("100 KB", "scenario"));
}

#[test]
fn thresholds_the_wrong_way_round() {
    let roce = "transport.preset=roce-400g";
    finds(&[roce, "transport.ecn.kmin=\"8 MB\""], Code::BadThresholds, "ecn.kmin");
    finds(&[roce, "transport.pfc={ xoff = \"100 KB\", xon = \"100 KB\" }"], Code::BadThresholds, "xon");
    finds(&[roce, "transport.pfc={ xoff = \"100 KB\", xon = \"0 B\" }"], Code::BadThresholds, "xon");
    let timely = "transport.rate_control=timely";
    finds(&[roce, timely, "transport.timely.low=\"1 ms\""], Code::BadThresholds, "low");
    finds(&[roce, timely, "transport.timely.high=\"1 us\""], Code::BadThresholds, "high");
    finds(&[roce, "transport.pfc.alpha=0.0"], Code::BadThresholds, "pfc.alpha");
    let endpoint = "transport.endpoint={ rx_xoff = \"4 KiB\", rx_xon = \"4 MiB\" }";
    finds(&[roce, endpoint], Code::BadThresholds, "rx_xon");
    let fecn = ["transport.rate_control=fecn", "transport.fecn={ min = 9, limit = 8 }"];
    finds(&fecn, Code::BadThresholds, "min");
    let asks = ["transport.rate_control=receiver", "transport.control_class=data"];
    finds(&["transport.preset=roce-400g-lossy", asks[0], asks[1]], Code::GrantsDropped, "control_class");
    finds(&[roce, "transport.pfc.watchdog=\"200 ms\"", asks[0], asks[1]], Code::GrantsDropped, "control_class");
    assert!(found(&[roce, asks[0], asks[1]]).iter().all(|(code, _)| *code != Code::GrantsDropped));
    finds(&["transport.preset=roce-400g-lossy", "transport.buffer.alpha_lossy=0"], Code::BadThresholds, "alpha_lossy");
}

#[test]
fn buffers_too_small_or_given_away() {
    let roce = "transport.preset=roce-400g";
    finds(&[roce, "transport.pfc.headroom=\"100 MB\""], Code::BufferOvercommitted, "pfc.headroom");
    finds(&[roce, "transport.pfc.xoff=\"1 GiB\""], Code::BufferOvercommitted, "pfc.xoff");
    // A static threshold does not make more room.
    for aside in ["reserve = \"1 TiB\"", "headroom = \"1 TiB\"", "response = \"1 s\""] {
        let pfc = format!("transport.pfc={{ xoff = \"1 MB\", {aside} }}");
        assert!(found(&[roce, &pfc]).iter().any(|(code, _)| *code == Code::BufferOvercommitted), "{pfc}");
    }
    let slow = "transport.pfc={ xoff = \"1 MB\", headroom = \"100 KB\", response = \"1 s\" }";
    finds(&[roce, slow], Code::HeadroomSmall, "headroom");
    finds(&[roce, "transport.buffer.size=\"0 B\""], Code::BufferTooSmall, "buffer.size");
    finds(&[roce, "transport.buffer.size=\"4 KiB\""], Code::BufferTooSmall, "buffer.size");
    for size in ["4 KiB", "0 B", "129 KiB"] {
        let lane = format!("transport.credits.per_lane=\"{size}\"");
        finds(&["transport.model=packets", &lane], Code::BufferTooSmall, "per_lane");
    }
}

#[test]
fn acknowledgements_are_no_larger_than_data() {
    finds(&["transport.preset=roce-400g", "transport.ack_size=\"64 KiB\""], Code::OutOfRange, "ack_size");
    finds(&["transport.preset=ib-ndr", "transport.ack_size=\"5 GB\""], Code::OutOfRange, "ack_size");
}

#[test]
fn settings_of_another_flow_control() {
    let drop = ["transport.preset=roce-400g", "transport.flow_control=drop"];
    finds(&[drop[0], drop[1], "transport.pfc.alpha=0.5"], Code::OtherFlowControl, "pfc.alpha");
    finds(&["transport.preset=roce-400g", "transport.credits.per_lane=\"64 KiB\""], Code::OtherFlowControl, "per_lane");
    finds(&["transport.preset=ib-ndr", "transport.buffer.size=\"8 MiB\""], Code::OtherFlowControl, "buffer.size");
    // What a preset states of it is passed over.
    assert!(found(&drop).iter().all(|(code, _)| *code != Code::OtherFlowControl));
}

#[test]
fn paths_that_reorder_need_a_receiver_that_keeps() {
    let roce = ["transport.preset=roce-400g", "transport.path_choice=adaptive"];
    finds(&[roce[0], roce[1], "transport.recovery=go-back-n"], Code::ReorderedPaths, "recovery");
    // Without a word of it, it follows the paths.
    assert!(load(&roce).is_ok());
    assert!(load(&["transport.path_choice=spray"]).is_ok());
}

#[test]
fn what_packets_cannot_do() {
    let half = "fault=[{ kind = \"dead\", target = \"leaf0->spine0#0\" }]";
    finds(&["transport.model=packets", half], Code::NotOverPackets, "model");
    finds(&["transport.model=packets", "transport.kind=tcp"], Code::Unsupported, "model");
    finds(&["transport.model=packets", "nodes=1"], Code::NoEffect, "model");
}

#[test]
fn what_is_probably_not_meant() {
    let roce = "transport.preset=roce-400g";
    finds(&[roce, "transport.pfc.headroom=\"40 KB\""], Code::HeadroomSmall, "headroom");
    finds(&[roce, "transport.pfc={ xoff = \"1 MB\" }"], Code::MarksAfterPauses, "");
    finds(&["transport.preset=roce-400g-lossy", "transport.rate_control=none"], Code::Unprotected, "");
    finds(&["transport.preset=ib-ndr", "fabric.switch_cable=\"2 km\""], Code::CreditsShort, "");
    let far = load(&["transport.preset=ib-ndr", "fabric.link_latency=\"1 s\""]).unwrap().diagnostics;
    let short = far.list.iter().find(|d| d.code == Code::CreditsShort).unwrap();
    assert!(short.message.contains("kb/s of 400 Gb/s"), "{}", short.message);
    finds(&[roce, "transport.ecn.marking=off"], Code::DeafControl, "marking");
}

#[test]
fn keys_that_nothing_asks_for() {
    let roce = "transport.preset=roce-400g";
    finds(&[roce, "transport.rto=\"1 ms\""], Code::NoEffect, "rto");
    finds(&[roce, "transport.swift.beta=0.5"], Code::NoEffect, "swift.beta");
    finds(&[roce, "transport.flowlet_gap=\"1 us\""], Code::NoEffect, "flowlet_gap");
    finds(&[roce, "transport.pfc={ xoff = \"4 MB\", alpha = 0.5 }"], Code::NoEffect, "alpha");
    finds(&["transport.model=virtual", "transport.ecn.kmin=\"1 MB\""], Code::NoEffect, "");
    finds(&[roce, "transport.preset=roce-401g"], Code::UnknownSystem, "preset");
}

#[test]
fn what_switches_of_packets_do_not_do_is_refused_before_a_run() {
    let ask = "workload=[{ kind = \"collective\", op = \"all_reduce\", sizes = [\"1 MiB\"] }]";
    let sums = ["software.env.NCCL_COLLNET_ENABLE=1", "software.env.NCCL_ALGO=CollnetDirect", ask];
    let refused = |model: &str| load(&[model, sums[0], sums[1], sums[2]]).unwrap().refused();
    assert_eq!(refused("transport.model=packets").list[0].code, Code::NotOverPackets);
    assert!(refused("transport.model=virtual").list.is_empty());
    assert!(load(&["transport.model=packets", ask]).unwrap().refused().list.is_empty());
}
