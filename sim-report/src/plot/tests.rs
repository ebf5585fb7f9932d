use super::*;
use crate::compare::{LogComparison, Prediction};
use crate::nccl_log::read;
use crate::result::{AbLink, AbRow};

fn comparison() -> LogComparison {
    let rows: String = (10..34)
        .map(|e| {
            let bytes = (1u64 << e) as f64;
            let time = 30.0 + bytes / 200e3;
            let a = bytes / time / 1e3;
            format!(
                "{} {} float sum -1 {time:.2} {a:.2} {:.2} 0 {:.2} {a:.2} {:.2} 0\n",
                1u64 << e,
                (1u64 << e) / 4,
                a * 1.875,
                time * 1.01,
                a * 1.875
            )
        })
        .collect();
    let table = read(rows.as_bytes()).unwrap().tables.remove(0);
    LogComparison::new("two nodes", &table, |row, _| Some(Prediction::exactly(24.0 + row.bytes.get() as f64 / 210e3)))
}

fn ab() -> AbResults {
    let link = |(name, alpha, beta): (&str, f64, f64)| AbLink {
        name: name.to_owned(),
        half_bandwidth_bytes: alpha * beta * 1e3,
        rows: (12..=28)
            .map(|e| {
                let bytes = 1u64 << e;
                let time_us = alpha + bytes as f64 / beta / 1e3;
                AbRow { bytes, time_us, achieved: bytes as f64 / time_us / 1e3 }
            })
            .collect(),
    };
    AbResults {
        links: [("nvlink", 1.0, 450.0), ("pcie5", 2.0, 55.0), ("ib400", 3.0, 50.0)].map(link).into(),
        ..AbResults::default()
    }
}

#[test]
fn charts_hold_what_they_should() {
    for (name, svg) in [("busbw", busbw_chart(&[comparison()]).unwrap()), ("ab", ab_chart(&ab()).unwrap())] {
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("href"));
        if let Some(directory) = std::env::var_os("FABRICSIM_PLOT_DIR") {
            std::fs::write(std::path::Path::new(&directory).join(format!("{name}.svg")), svg).unwrap();
        }
    }
    let svg = busbw_chart(&[comparison()]).unwrap();
    assert_eq!(svg.matches("two nodes measured").count(), 1);
    assert!(svg.contains("1 MiB") && svg.contains("busbw, GB/s"));
    assert_eq!(svg, busbw_chart(&[comparison()]).unwrap());
}

#[test]
fn names_are_escaped_and_nothing_is_an_error() {
    let mut c = comparison();
    c.log = "<script>&".to_owned();
    assert!(!busbw_chart(&[c]).unwrap().contains("<script>"));
    assert_eq!(busbw_chart(&[]), Err(PlotError::Empty));
    let points = vec![(0.0, 1.0), (f64::NAN, 2.0), (-4.0, 3.0)];
    let chart = Chart {
        title: String::new(),
        x: String::new(),
        y: String::new(),
        x_scale: Scale::Bytes,
        y_scale: Scale::Log,
        series: vec![Series::new("none", Kind::Line, points)],
    };
    assert_eq!(chart.svg(), Err(PlotError::Empty));
    let one = Chart { series: vec![Series::new("one", Kind::Line, vec![(8.0, 5.0)])], ..chart };
    assert!(one.svg().is_ok());
}
