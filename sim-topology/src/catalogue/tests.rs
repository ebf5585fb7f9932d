use std::collections::BTreeSet;

use super::*;
use sim_core::units::Rate;

#[test]
fn names_are_unique_within_their_kind() {
    let mut seen = BTreeSet::new();
    for entry in Catalogue::builtin().entries() {
        for name in entry.all_names() {
            assert!(seen.insert((entry.kind, name)), "{} `{name}` occurs twice", entry.kind);
            assert_eq!(name, name.to_lowercase(), "names are looked up in lower case");
        }
    }
    assert!(seen.len() > 100);
}

#[test]
fn every_row_names_known_sources_and_existing_keys() {
    let catalogue = Catalogue::builtin();
    catalogue.each_row(|kind, row| {
        assert!(!row.source.is_empty(), "{kind} `{}` has no source", row.name);
        assert_ne!(row.standing, Standing::Yours, "{kind} `{}`", row.name);
        for id in &row.source {
            assert!(catalogue.sources.get(id).is_some(), "{kind} `{}`: source `{id}`", row.name);
        }
        for key in row.standings.keys() {
            let mut at = Some(&row.figures);
            let mut found = false;
            for part in key.split('.') {
                let value = at.and_then(|t| t.get(part));
                found = value.is_some();
                at = value.and_then(toml::Value::as_table);
            }
            assert!(found, "{kind} `{}`: standing of `{key}`, which is not there", row.name);
        }
    });
}

#[test]
fn presets_take_what_they_do_not_state_with_its_standing() {
    let c = Catalogue::builtin();
    let (row, base) = (c.preset("roce-400g-lossless").unwrap(), c.preset("roce-lossless").unwrap());
    assert_eq!((row.name.as_str(), row.port_rate), ("roce-400g", Some(Rate::gbit(400))));
    let of = |row: &Row<Preset>, table: &str, key: &str| row.transport.get(table).and_then(|t| t.get(key)).cloned();
    assert_eq!(of(row, "ecn", "kmin"), Some("1600 KB".into()));
    assert_eq!(of(row, "ecn", "pmax"), of(base, "ecn", "pmax"));
    assert!(of(base, "ecn", "kmin").is_none());
    assert_eq!(row.standings.get("transport.path_choice"), Some(&Standing::Recalled));
    assert!(row.source.iter().any(|id| id == "nic_dump"));
    // Two steps down.
    let lossy = c.preset("roce-400g-lossy").unwrap();
    assert_eq!(lossy.transport.get("flow_control").and_then(|v| v.as_str()), Some("drop"));
    assert_eq!(lossy.transport.get("rate_control").and_then(|v| v.as_str()), Some("dcqcn-firmware"));
    assert_eq!(lossy.standings.get("transport.flow_control"), Some(&Standing::Recalled));
    assert!(c.presets().count() >= 20);
}

#[test]
fn rates_are_of_one_direction() {
    let c = Catalogue::builtin();
    for (gpu, gbyte) in [("a100", 300), ("h100", 450), ("h200", 450), ("h800", 200), ("b200", 900), ("gb200", 900)] {
        let gpu = c.gpu(gpu).unwrap();
        let link = c.nvlink(gpu.nvlink_gen.unwrap()).unwrap();
        assert_eq!(link.link_rate.get() * u64::from(gpu.nvlinks), Rate::gbyte(gbyte).get(), "{}", gpu.name);
    }
    for (generation, x16) in [(3, 15.75), (4, 31.51), (5, 63.02), (6, 118.0)] {
        let rate = c.pcie(generation).unwrap().lane_rate.as_gbyte() * 16.0;
        assert!((rate - x16).abs() < 0.01, "PCIe {generation}: {rate}");
    }
    assert_eq!(c.nic("cx7").unwrap().port_rate, Rate::gbit(400));
}

#[test]
fn ports_split_down_to_slower_links() {
    let c = Catalogue::builtin();
    let ports = |name: &str, gbit| c.switch(name).unwrap().ports_at(Rate::gbit(gbit));
    assert_eq!(ports("qm9700", 400), 64);
    assert_eq!(ports("qm9700", 200), 128);
    assert_eq!(ports("qm9700", 100), 128, "no more than max_ports");
    assert_eq!(ports("sn5600", 400), 128);
    assert_eq!(ports("sn5600", 800), 64);
    assert_eq!(ports("qm9700", 800), 64, "a faster link runs at the port's rate");
}

#[test]
fn unknown_names_get_a_suggestion() {
    let c = Catalogue::builtin();
    let suggestion = |e: UnknownName| e.suggestion.unwrap();
    assert_eq!(suggestion(c.gpu("h10").unwrap_err()), "h100-sxm");
    assert_eq!(suggestion(c.system("hgx_h100").unwrap_err()), "hgx-h100");
    assert_eq!(suggestion(c.switch("qm970").unwrap_err()), "qm9700");
    let error = c.system("hgx-h1oo").unwrap_err();
    assert_eq!(error.to_string(), "unknown system `hgx-h1oo`; did you mean `hgx-h100`?");
    assert!(c.entry("zzzz").is_err());
    assert_eq!(c.entry("CX7").unwrap().name, "connectx-7");
}

#[test]
fn listings_show_units_and_standing() {
    let c = Catalogue::builtin();
    let entry = c.entry("h100").unwrap();
    let memory = entry.figures.iter().find(|f| f.unit == Some("GB/s")).unwrap();
    assert_eq!((memory.name.as_str(), memory.value.as_str()), ("memory", "3350"));
    assert!(!entry.sources.is_empty() && !entry.is_provisional());
    assert!(c.entry("hgx-b200").unwrap().is_provisional());
    let latency = c.entry("qm9700").unwrap();
    let latency = latency.figures.iter().find(|f| f.name == "latency").unwrap();
    assert_eq!((latency.unit, latency.standing), (Some("ns"), Standing::Derived));
}
