use super::*;

#[test]
fn the_envelope_and_its_names() {
    let mut results = RunResults {
        collectives: vec![CollectiveResult {
            op: "all_reduce".to_owned(),
            bytes: 1 << 30,
            algorithm: "ring".to_owned(),
            protocol: "Simple".to_owned(),
            channels: 16,
            time_us: 4000.0,
            algbw: 268.4,
            busbw: 469.8,
            bottleneck: "nvlink".to_owned(),
            low_us: None,
            high_us: None,
            kind: None,
        }],
        ..RunResults::default()
    };
    results.set_links(vec![link("b", 0.5), link("a", 0.9)]);
    let envelope = Envelope::new("x.toml", 7, results);
    let text = envelope.to_json().unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&value), ["schema_version", "tool_version", "scenario", "seed", "warnings", "results"]);
    assert_eq!(
        keys(&value["results"]["collectives"][0]),
        ["op", "bytes", "algorithm", "protocol", "channels", "time_us", "algbw_GBps", "busbw_GBps", "bottleneck"]
    );
    assert_eq!(
        keys(&value["results"]["links"][0]),
        ["link", "class", "bytes", "utilization", "peak_queue_bytes", "ecn_marked", "pfc_pause_us", "drops"]
    );
    assert_eq!(
        keys(&value["results"]["engine"]),
        ["events", "segment_hops", "fast_forwarded", "wall_s", "peak_pending"]
    );
    assert_eq!(value["results"]["links"][0]["link"], "b");
    assert_eq!(value["results"]["link_totals"]["bytes"], 20);
    let back: Envelope<RunResults> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, envelope);
}

#[test]
fn the_busiest_links_are_listed() {
    let mut results = RunResults::default();
    let links = (0..MAX_LINKS + 5).map(|i| link(&format!("l{i:05}"), (i % 100) as f64 / 100.0)).collect();
    results.set_links(links);
    assert_eq!(results.links.len(), MAX_LINKS);
    assert_eq!(results.link_totals.links as usize, MAX_LINKS + 5);
    assert_eq!(results.links[0].link, "l00099");
    assert!(results.links.windows(2).all(|w| w[0].utilization >= w[1].utilization));
}

fn link(name: &str, utilization: f64) -> LinkResult {
    LinkResult {
        link: name.to_owned(),
        class: "nvlink".to_owned(),
        bytes: 10,
        utilization,
        peak_queue_bytes: Some(0),
        ..LinkResult::default()
    }
}
