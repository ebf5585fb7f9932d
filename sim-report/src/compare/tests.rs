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
    LogComparison::new("x.txt", &log(times), |bytes, _| Some(Prediction::exactly(model(bytes.get() as f64))))
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
            .starts_with("all sizes >= 128 MiB 35 % low, smaller fine: looks like per-step cost, NIC goodput")
    );
    assert!(
        first(scaled(|b| if b < 64 << 10 { 2.0 } else { 1.0 }))
            .starts_with("all sizes < 64 KiB 50 % low, larger fine: looks like launch cost or latency")
    );
    assert!(first(scaled(|_| 1.5)).starts_with("all sizes 33 % low: looks like one factor"));
    assert!(first(scaled(|b| if b <= 1 << 14 { 0.7 } else { 1.0 })).contains("latency is too high"));
    assert!(
        first(scaled(|b| if (1 << 16..=1 << 20).contains(&b) { 1.4 } else { 1.0 }))
            .starts_with("64 KiB to 1 MiB 29 % low, smaller and larger fine")
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
    assert!(slow.pattern().iter().any(|s| s.starts_with("in place is measured")), "{:?}", slow.pattern());
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
