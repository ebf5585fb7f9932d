use super::*;
use crate::nccl_log::read;
use crate::result::{CompareResults, Envelope};

/// A log of an all-reduce on two ranks whose times are `time(bytes)` out of place and in place.
fn log(times: impl Fn(u64) -> (f64, f64)) -> Table {
    let rows: String = (3..34)
        .map(|e| {
            let bytes = 1u64 << e;
            let (out, inside) = times(bytes);
            let half = |t: f64| format!("{t:.3} {:.2} {:.2} 0", bytes as f64 / t / 1e3, bytes as f64 / t / 1e3);
            format!("{bytes} {} float sum -1 {} {}\n", bytes / 4, half(out), half(inside))
        })
        .collect();
    read(rows.as_bytes()).unwrap().tables.remove(0)
}

fn model(bytes: f64) -> f64 {
    20.0 + bytes / 100e3
}

fn compared(times: impl Fn(u64) -> (f64, f64)) -> LogComparison {
    LogComparison::new("x.txt", &log(times), |row, _| Some(Prediction::exactly(model(row.bytes.get() as f64))))
}

fn scaled(factor: impl Fn(u64) -> f64) -> LogComparison {
    compared(|b| (model(b as f64) * factor(b), model(b as f64) * factor(b)))
}

#[test]
fn errors_and_figures() {
    let c = scaled(|_| 1.0 / 0.8);
    let s = c.summary().unwrap();
    assert_eq!(s.count, 62);
    for value in [s.mape, s.median_abs_error, s.p90_abs_error, -s.median_error] {
        assert!((value - 0.2).abs() < 1e-4, "{value}");
    }
    assert_eq!(
        c.bands().iter().map(|b| (b.band.name(), b.count)).collect::<Vec<_>>(),
        [("small", 28), ("mid", 20), ("large", 14)]
    );
    let t = Thresholds { max_mape: Some(0.1), max_p90_abs_error: Some(0.5), ..Thresholds::default() };
    let missed = t.check(&s);
    assert_eq!(missed.len(), 1);
    assert_eq!(missed[0].to_string(), "mape is 20.0 % but at most 10.0 % is allowed");
}

#[test]
fn quantiles_interpolate() {
    assert_eq!(stats::quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), Some(2.5));
    assert_eq!(stats::quantile(&[0.0, 10.0], 0.9), Some(9.0));
    assert_eq!(stats::quantile(&[], 0.5), None);
}

#[test]
fn patterns() {
    let first = |c: LogComparison| c.pattern().remove(0);
    assert_eq!(first(scaled(|_| 1.01)), "all 31 sizes within 10 %");
    assert!(
        first(scaled(|b| if b >= 128 << 20 { 1.0 / 0.65 } else { 1.0 }))
            .starts_with("all sizes >= 128 MiB 35 % slower than predicted (error -35 %), smaller fine: looks like per-step cost, NIC goodput")
    );
    assert!(first(scaled(|b| if b < 64 << 10 { 2.0 } else { 1.0 })).starts_with(
        "all sizes < 64 KiB 50 % slower than predicted (error -50 %), larger fine: looks like launch cost or latency"
    ));
    assert!(
        first(scaled(|_| 1.5)).starts_with("all sizes 33 % slower than predicted (error -33 %): looks like one factor")
    );
    assert!(first(scaled(|b| if b <= 1 << 14 { 0.7 } else { 1.0 })).contains("latency is too high"));
    assert!(
        first(scaled(|b| if (1 << 16..=1 << 20).contains(&b) { 1.4 } else { 1.0 }))
            .starts_with("64 KiB to 1 MiB 29 % slower than predicted (error -29 %), smaller and larger fine")
    );
    // One stray size changes nothing.
    assert!(
        first(scaled(|b| if b >= 128 << 20 {
            1.5
        } else if b == 1 << 12 {
            3.0
        } else {
            1.0
        }))
        .starts_with("all sizes >= 128 MiB")
    );
    let none = LogComparison::new("x", &log(|_| (1.0, 1.0)), |_, _| None);
    assert!(none.pattern().is_empty() && none.summary().is_none() && none.skipped == 62);
}

#[test]
fn words_are_on_the_scale_of_the_error_column() {
    // Twice as slow and twice as fast are not alike on it: -50 % and +100 %.
    for (factor, words) in [
        (2.0, "all sizes 50 % slower than predicted (error -50 %)"),
        (0.5, "all sizes 100 % faster than predicted (error +100 %)"),
    ] {
        let c = scaled(|_| factor);
        let said = c.pattern().remove(0);
        assert!(said.starts_with(words), "{said}");
        let error = c.rows[0].error() * 100.0;
        assert!(said.contains(&format!("(error {error:+.0} %)")), "{said}: {error}");
    }
}

#[test]
fn a_latency_is_blamed_where_one_is_lost() {
    let first = |c: LogComparison| c.pattern().remove(0);
    let added = |us: f64| compared(|b| (model(b as f64) + us, model(b as f64) + us));
    assert!(first(added(15.0)).contains("(alpha)"), "{}", first(added(15.0)));
    // A threshold at large sizes: what is lost grows with the size.
    let late = first(scaled(|b| if b < 256 << 20 { 1.4 } else { 1.0 }));
    assert!(late.starts_with("all sizes < 256 MiB 29 % slower") && !late.contains("alpha"), "{late}");
    let early = first(scaled(|b| if b < 256 << 20 { 0.7 } else { 1.0 }));
    assert!(early.contains("faster than predicted") && !early.contains("latency is too high"), "{early}");
}

#[test]
fn what_does_not_count_is_not_scored() {
    let text = "\
      1024 256 float sum -1 12.30 0.08 0.08 0 12.10 0.08 0.08 3
      2048 512 float sum -1 0.00 inf inf 0 12.40 0.17 0.17 0
      4096 1024 float sum -1 12.60 0.33 0.33 0 12.50 0.33 0.33 0
      1048576 262144 float sum -1 79.60 21.96 21.96 0 29.70 35.31 35.31 0
      2097152 524288 float sum -1 59.60 35.19 35.19 0 59.70 35.13 35.13 0
      4194304 1048576 half sum -1 119.60 35.07 35.07 0
";
    let log = read(text.as_bytes()).unwrap();
    let c = LogComparison::new("x", &log.tables[0], |_, _| Some(Prediction::exactly(10.0)));
    let scored: Vec<(u64, &str)> = c.rows.iter().map(|r| (r.bytes.get(), r.placement.name())).collect();
    let want = [(1024, "out"), (2048, "in"), (4096, "out"), (4096, "in"), (2 << 20, "out"), (2 << 20, "in")];
    assert_eq!(scored, want);
    let told = |line: usize, part: &str| {
        let found =
            log.warnings.iter().any(|w| w.line == line && w.message.contains(part) && w.message.contains("left out"));
        assert!(found, "{line} {part}: {:?}", log.warnings);
    };
    told(1, "1024 B in place: 3 wrong values in the result");
    told(2, "2048 B out of place: the time is zero");
    told(4, "one of the figures is damaged");
    told(6, "a damaged row");
}

#[test]
fn rows_of_several_types_are_told_apart() {
    let text = "\
      1024 1024 int8 sum -1 12.30 0.08 0.08 0 12.10 0.08 0.08 0
      1024 256 float sum -1 14.30 0.07 0.07 0 14.10 0.07 0.07 0
";
    let log = read(text.as_bytes()).unwrap();
    let c = LogComparison::new("x", &log.tables[0], |row, _| {
        Some(Prediction::exactly(if row.dtype.name() == "int8" { 12.0 } else { 14.0 }))
    });
    let kinds: Vec<_> = c.rows.iter().map(|r| (r.kind.as_deref(), r.predicted_us)).collect();
    let (int8, float) = ((Some("int8 sum"), 12.0), (Some("float sum"), 14.0));
    assert_eq!(kinds, [int8, int8, float, float]);
    let results = CompareResults::from(&[c][..]);
    assert!(crate::table::compare_text(&results).contains("float sum"));
    let one = scaled(|_| 1.0);
    assert!(one.rows.iter().all(|r| r.kind.is_none()));
}

#[test]
fn outliers_are_flagged_and_kept() {
    let c = compared(|b| {
        let t = model(b as f64);
        if b == 8 << 20 { (t * 4.0, t) } else { (t, t) }
    });
    let flagged: Vec<_> = c.rows.iter().filter(|r| r.outlier).map(|r| (r.bytes, r.placement)).collect();
    assert_eq!(flagged, [(Bytes::mib(8), Placement::OutOfPlace)]);
    assert_eq!(c.rows.len(), 62);
    assert!(c.pattern().iter().any(|s| s.contains("outliers") && s.contains("8 MiB out")), "{:?}", c.pattern());
    let slow = compared(|b| (model(b as f64), model(b as f64) * 1.3));
    assert!(
        slow.pattern()
            .iter()
            .any(|s| s.starts_with("in place is 23 points slower: median error +0 % out of place, -23 % in place")),
        "{:?}",
        slow.pattern()
    );
}

#[test]
fn results_pool_all_logs() {
    let logs = [scaled(|_| 1.25), scaled(|_| 1.0)];
    let results = CompareResults::from(&logs[..]);
    assert!((results.mape.unwrap() - 0.1).abs() < 1e-4);
    let json = Envelope::new("x.toml", 1, results).to_json().unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let row = &value["results"]["logs"][0]["rows"][1];
    assert_eq!(row["placement"], "in");
    assert!((row["error"].as_f64().unwrap() + 0.2).abs() < 1e-3);
    for key in ["bytes", "measured_us", "predicted_us", "low_us", "high_us"] {
        assert!(row[key].is_number(), "{key}");
    }
    assert!(value["results"]["p90_abs_error"].is_number() && value["results"]["median_abs_error"].is_number());
}

#[test]
fn a_stall_and_a_collapse_are_told_from_a_slow_link() {
    let first = |c: LogComparison| c.pattern().remove(0);
    // 64 KiB to 8 MiB take a millisecond whatever their size.
    let stall = first(compared(|b| {
        let t = if (1 << 16..=8 << 20).contains(&b) { 1000.0 + b as f64 / 100e3 } else { model(b as f64) };
        (t, t)
    }));
    assert!(
        stall.starts_with("64 KiB to 8 MiB take 1.0 to 1.1 ms whatever their size, and 8 GiB reaches 100 %"),
        "{stall}"
    );
    assert!(stall.contains("stalls"), "{stall}");
    // From 16 MiB to 1 GiB about 100 ms, as after losses; then bandwidth has caught up.
    let collapse = first(compared(|b| {
        let t = if (16 << 20..=1 << 30).contains(&b) { 1e5 } else { model(b as f64) };
        (t, t)
    }));
    assert!(collapse.starts_with("at 16 MiB the rate falls to"), "{collapse}");
    assert!(collapse.contains("is back at 2 GiB") && collapse.contains("collapse of the network"), "{collapse}");
    // A link of a fifth of the rate is neither.
    let slow = first(compared(|b| (20.0 + b as f64 / 20e3, 20.0 + b as f64 / 20e3)));
    assert!(!slow.contains("stall") && !slow.contains("collapse"), "{slow}");
}

/// The sentences of a run at `part` of the predicted rate, on such a cluster.
fn said(part: f64, clues: Clues) -> String {
    scaled(|b| if b > 1 << 20 { 1.0 / part } else { 1.0 }).with_clues(clues).pattern().join("; ")
}

#[test]
fn a_low_rate_in_the_light_of_the_cluster() {
    // The model moves 100 GB/s; on two ranks busbw is algbw.
    let two = Clues { nodes: 2, ranks_per_node: 1, nics: 4, nic_rate: 25.0, slot_rate: 200.0, ..Clues::default() };
    let text = said(0.5, two.clone());
    assert!(text.contains("reach 50 % of the predicted rate: about half"), "{text}");
    assert!(text.contains("12.5 of 25 GB/s on each NIC, if a ring carries it, about half of its rate"), "{text}");
    let text = said(0.24, two.clone());
    assert!(text.contains("together what one NIC carries: does all traffic take one?"), "{text}");
    let text = said(0.95, Clues { slot_rate: 60.0, ..two.clone() });
    assert!(text.contains("the slot of a GPU carries 60 GB/s, less than its 4 NICs together (100 GB/s)"), "{text}");
    let text = said(0.95, two.clone());
    assert!(!text.contains("NIC"), "{text}");
    let box_ = Clues { nodes: 1, ranks_per_node: 2, slot_rate: 100.0, pcie_only: true, ..Clues::default() };
    assert!(
        said(0.2, box_.clone())
            .contains("20 % of what a GPU's slot carries (100.0 GB/s): as copies through host memory")
    );
    assert!(!said(0.6, box_).contains("host memory"));
    // The what-if that closes the gap is told, and one that does as well.
    let what_if = |what: &str, part: f64| WhatIf {
        what: what.to_owned(),
        predicted_us: [1u64 << 27, 1 << 33].map(|b| (Bytes::new(b), model(b as f64) / part)).to_vec(),
    };
    let what_ifs = vec![what_if("a", 0.52), what_if("b", 0.9), what_if("c", 0.47)];
    let text = said(0.5, Clues { what_ifs, ..two.clone() });
    assert!(
        text.contains(
            "as if a: the error at 128 MiB and 8 GiB is then -4 % and -4 %, in place of -50 % and -50 %, or as if c (error +6 % and +6 %)"
        ),
        "{text}"
    );
    // What explains it comes first, and nothing general beside it.
    assert!(text.contains("%), smaller fine; as if a"), "{text}");
    for general in ["looks like", "about half", "too few queue pairs"] {
        assert!(!text.contains(general), "{general}: {text}");
    }
    assert!(text.contains("12.5 of 25 GB/s on each NIC"), "a fact stays: {text}");
    // What takes a part of the gap away is behind what the rates say, and the general is last.
    let text = said(0.3, Clues { what_ifs: vec![what_if("a", 0.55)], ..two.clone() });
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("together what one NIC carries") < at("as if a") && at("as if a") < at("looks like"), "{text}");
    let text = said(0.5, Clues { what_ifs: vec![what_if("b", 0.9)], ..two });
    assert!(!text.contains("as if b") && text.contains("if it is none of these: looks like"), "{text}");
}

#[test]
fn baselines_tell_better_from_worse() {
    let (good, bad) = (scaled(|_| 1.0 / 0.95), scaled(|_| 1.0 / 0.8));
    let before = Baseline::of([&good], "1.0");
    let worse = |changes: &[Change]| changes.iter().filter(|c| c.worse).count();
    let same = before.compare(&before, 0.0);
    assert_eq!((same.len(), worse(&same)), (3, 0));
    let now = Baseline::of([&bad], "1.1");
    let changes = before.compare(&now, 0.005);
    assert_eq!(worse(&changes), 3);
    assert_eq!(changes[0].to_string(), "x.txt, small: median |error| was 5.0 %, is 20.0 %");
    assert_eq!(worse(&now.compare(&before, 0.0)), 0, "better is not worse");
    assert_eq!(worse(&before.compare(&now, 0.2)), 0, "within the tolerance");
    // Fewer rows, no rows, and a log that the baseline lacks.
    let mut fewer = now.clone();
    fewer.logs.get_mut("x.txt").unwrap().get_mut("small").unwrap().count = 1;
    fewer.logs.get_mut("x.txt").unwrap().remove("mid");
    let changes = now.compare(&fewer, 1.0);
    assert_eq!(worse(&changes), 2);
    let checks = checks(&[], &Gates { changes, ..Gates::default() });
    assert_eq!(checks.len(), 1, "a band that is gone is a check of its own: {checks:?}");
    let empty = Baseline { logs: std::collections::BTreeMap::new(), ..now.clone() };
    assert_eq!(worse(&empty.compare(&now, 1.0)), 3);
    assert_eq!(now.compare(&empty, 0.0).len(), 0);
    // A log that this run lacks.
    assert_eq!((now.missing(&empty), empty.missing(&now)), (vec!["x.txt".to_owned()], Vec::new()));
}

#[test]
fn a_baseline_knows_a_log_by_its_path_without_detours() {
    for (typed, want) in [
        ("x.txt", "x.txt"),
        ("./x.txt", "x.txt"),
        ("night//./x.txt", "night/x.txt"),
        ("night/../x.txt#2", "x.txt#2"),
        ("../../x.txt", "../../x.txt"),
        ("../a/../x.txt", "../x.txt"),
        ("/a/./x.txt", "/a/x.txt"),
        ("/../x.txt", "/x.txt"),
        ("-", "-"),
    ] {
        assert_eq!(key(typed), want, "{typed}");
    }
    let log = LogComparison { log: "./night/../x.txt".to_owned(), ..scaled(|_| 1.0) };
    let (before, now) = (Baseline::of([&scaled(|_| 1.0)], "1"), Baseline::of([&log], "1"));
    assert_eq!(before, now);
    let worse = Baseline::of([&scaled(|_| 0.5)], "1")
        .compare(&Baseline::of([&LogComparison { log: "./x.txt".to_owned(), ..scaled(|_| 0.2) }], "1"), 0.0);
    let log = LogComparison { log: "./x.txt".to_owned(), ..scaled(|_| 0.2) };
    let failed = checks(&[log], &Gates { changes: worse, ..Gates::default() });
    assert_eq!(failed.iter().filter(|c| c.failure.is_some()).count(), 3, "{failed:?}");
}

#[test]
fn logs_that_are_missing_or_cannot_be_compared_are_checks() {
    let gates = Gates {
        missing: vec!["gone.txt".to_owned()],
        failed: vec![Failed {
            log: "bad.txt".to_owned(),
            code: "E090".to_owned(),
            message: "it is empty".to_owned(),
            details: vec!["expected a row".to_owned()],
        }],
        ..Gates::default()
    };
    let all = checks(&[], &gates);
    assert_eq!(all[0].failure.as_deref(), Some("gone.txt: the baseline has it, and this run has not"));
    assert_eq!((all[1].subject.as_str(), all[1].error.as_deref()), ("bad.txt", Some("it is empty")));
    let page = crate::table::compare_markdown(&CompareResults::default(), &all);
    for part in [": failed", ":x: bad.txt: E090: it is empty; expected a row", ":x: gone.txt: the baseline"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn checks_are_bands_and_thresholds() {
    let log = scaled(|_| 1.0 / 0.8);
    let thresholds = Thresholds { max_mape: Some(0.1), max_p90_abs_error: Some(0.5), ..Thresholds::default() };
    let all = checks(&[log], &Gates { thresholds, ..Gates::default() });
    assert_eq!(
        all.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(),
        ["small messages", "mid messages", "large messages", "mape", "p90_abs_error"]
    );
    assert_eq!(all.iter().filter(|c| c.failure.is_some()).count(), 1);
}
