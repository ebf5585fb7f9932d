//! The data against the formulas that they follow from, and against figures of their sources, typed in by hand.

use super::*;
use sim_core::units::{Bytes, Rate};

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

#[test]
fn all_kinds_are_there_in_full() {
    let c = Catalogue::builtin();
    let count = |kind: &str| c.entries().filter(|e| e.kind == kind).count();
    for (kind, least) in [
        ("gpu", 31),
        ("nvlink", 6),
        ("nvswitch", 5),
        ("pcie", 7),
        ("pcie_switch", 6),
        ("c2c", 2),
        ("socket_link", 8),
        ("nic", 24),
        ("switch", 19),
        ("optic", 5),
        ("cable", 3),
        ("fec", 7),
        ("path_latency", 18),
        ("price", 15),
        ("rental", 5),
        ("power", 17),
        ("measured", 69),
        ("constant", 26),
    ] {
        assert!(count(kind) >= least, "{kind}: {} of {least}", count(kind));
    }
}

/// The shares of the wire that the packet formats give, as the literature's tables have them.
#[test]
fn goodput_follows_from_the_headers() {
    let c = Catalogue::builtin();
    let table = [
        ("infiniband", [0.9078, 0.95167, 0.97524, 0.98746, 0.99369], 49.6846),
        ("roce", [0.7574, 0.86195, 0.92586, 0.9615, 0.98037], 49.0187),
        ("roce-ipv6", [0.71508, 0.83388, 0.90941, 0.95256, 0.9757], 48.7851),
    ];
    for (name, shares, of_400g) in table {
        let row = c.transport(name).unwrap();
        for (mtu, share) in [256, 512, 1024, 2048, 4096].into_iter().zip(shares) {
            let found = row.goodput_share(Bytes::new(mtu));
            assert!(close(found, share, 1e-5), "{name} {mtu}: {found}");
        }
        assert!(close(50.0 * row.goodput_share(Bytes::new(4096)), of_400g, 1e-4), "{name}");
    }
}

#[test]
fn pcie_follows_from_code_and_headers() {
    let c = Catalogue::builtin();
    for (generation, x16) in [(1, 4.0), (2, 8.0), (3, 15.7538), (4, 31.5077), (5, 63.0154), (6, 118.0), (7, 236.0)] {
        let row = c.pcie(generation).unwrap();
        let code = if generation < 3 {
            0.8
        } else if generation < 6 {
            128.0 / 130.0
        } else {
            236.0 / 256.0
        };
        assert!(close(row.lane_rate.as_gbyte(), row.gt_per_lane / 8.0 * code, 1e-6), "PCIe {generation}");
        assert!(close(row.rate(16).as_gbyte(), x16, 1e-3), "PCIe {generation}");
    }
    // Posted writes, by maximum payload: share, and what an x16 of generations 3, 4 and 5 carries.
    for (mps, share, rates) in [
        (128, 0.84211, [13.27, 26.53, 53.07]),
        (256, 0.91429, [14.4, 28.81, 57.61]),
        (512, 0.95522, [15.05, 30.1, 60.19]),
    ] {
        for (generation, rate) in [3, 4, 5].into_iter().zip(rates) {
            let row = c.pcie(generation).unwrap();
            let found = row.write_share(Bytes::new(mps));
            assert!(close(found, share, 1e-5));
            assert!(close(row.rate(16).as_gbyte() * found, rate, 0.006), "PCIe {generation}, {mps} B");
        }
    }
}

#[test]
fn fec_follows_from_the_codeword_and_feeds_the_links() {
    let c = Catalogue::builtin();
    for row in c.fecs.rows() {
        let accumulate = f64::from(row.codeword_bits) / (f64::from(row.lanes) * row.lane_line_gbit);
        let ns = |span: sim_core::units::Span| span.as_us() * 1e3;
        assert!(close(ns(row.accumulate), accumulate, 0.01), "{}", row.name);
        assert!(close(ns(row.latency), accumulate + ns(row.decode), 0.01), "{}", row.name);
        assert!(close(ns(row.interleaved_latency), 2.0 * accumulate + ns(row.decode), 0.01), "{}", row.name);
    }
    for rate in ["100g", "200g", "400g", "800g"] {
        let fec = c.fecs.get(&format!("kp4-{rate}")).unwrap();
        assert_eq!(c.latency(&format!("fec-{rate}")).unwrap().latency, fec.interleaved_latency, "{rate}");
    }
}

#[test]
fn links_of_gpus_are_of_their_kind() {
    let c = Catalogue::builtin();
    for (gpu, gbyte) in [
        ("v100-sxm2", 150.0),
        ("a100-sxm4-80", 300.0),
        ("a800-sxm4-80", 200.0),
        ("a30", 100.0),
        ("a40", 56.25),
        ("h100-sxm", 450.0),
        ("h100-nvl", 300.0),
        ("h800-sxm", 200.0),
        ("b200-sxm", 900.0),
        ("gb300", 900.0),
        ("rubin", 1800.0),
        ("mi300x", 448.0),
        ("mi355x", 535.5),
    ] {
        let gpu = c.gpu(gpu).unwrap();
        let link = c.gpu_link(gpu).unwrap().unwrap();
        assert!(close(link.link_rate.as_gbyte() * f64::from(gpu.nvlinks), gbyte, 1e-6), "{}", gpu.name);
    }
    assert!(c.gpu_link(c.gpu("l40s").unwrap()).unwrap().is_none());
    for gpu in c.gpus() {
        assert!(c.gpu_link(gpu).is_ok() && c.pcie(gpu.pcie_gen).is_ok(), "{}", gpu.name);
        assert_eq!(gpu.sm == 0, gpu.gcn.is_some() || gpu.name == "rubin", "{}", gpu.name);
    }
    for nic in c.nics.rows() {
        assert!(c.pcie(nic.pcie_gen).is_ok(), "{}", nic.name);
    }
}

/// Figures of the sources that models use.
#[test]
fn spot_values_agree_with_the_sources() {
    let c = Catalogue::builtin();
    for (name, gbit, pcie) in
        [("cx4", 100, 3), ("cx5-ex", 200, 4), ("cx6", 200, 4), ("cx7", 400, 5), ("cx7-2x200", 400, 5)]
    {
        let nic = c.nic(name).unwrap();
        assert_eq!((nic.rate(), nic.pcie_gen, nic.pcie_lanes), (Rate::gbit(gbit), pcie, 16), "{name}");
    }
    for (name, gbit) in [("cx8", 800), ("thor-ultra", 800), ("bf3", 400), ("efa2", 100), ("efa4", 400), ("cx9", 1600)] {
        assert_eq!(c.nic(name).unwrap().rate(), Rate::gbit(gbit), "{name}");
    }
    for (name, tbit, ns) in [
        ("sb7800", 3.6, 90.0),
        ("qm8700", 8.0, 130.0),
        ("qm9700", 25.6, 230.0),
        ("sn3700", 6.4, 425.0),
        ("sn5600", 51.2, 500.0),
        ("th3", 12.8, 800.0),
        ("th4", 25.6, 750.0),
        ("th5", 51.2, 550.0),
        ("th6", 102.4, 800.0),
        ("th-ultra", 51.2, 250.0),
        ("j2cplus", 7.2, 3500.0),
        ("7800r4", 460.8, 4000.0),
    ] {
        let switch = c.switch(name).unwrap();
        assert!(close(switch.capacity().as_gbyte() * 8.0 / 1e3, tbit, 1e-9), "{name}");
        assert!(close(switch.latency.as_us() * 1e3, ns, 1e-9), "{name}");
    }
    for (name, gbyte) in
        [("qpi-9.6", 19.2), ("upi-10.4", 20.8), ("upi2-16", 38.4), ("xgmi2-18", 32.0), ("xgmi3-32", 56.89)]
    {
        assert!(close(c.socket_link(name).unwrap().link_rate.as_gbyte(), gbyte, 1e-9), "{name}");
    }
    for (name, lanes, ns) in [("pex88096", 96, 105.0), ("pex89144", 144, 115.0), ("pm50100", 100, 100.0)] {
        let switch = c.pcie_switch(name).unwrap();
        assert!(switch.lanes == lanes && close(switch.latency.as_us() * 1e3, ns, 1e-9), "{name}");
    }
    for (name, gbyte) in
        [("copy-h200", 396.4), ("p2p-cross-socket-genoa", 39.0), ("p2p-acs-on", 25.0), ("h2d-8-shared-root", 73.1)]
    {
        assert!(close(c.measured(name).unwrap().rate.unwrap().as_gbyte(), gbyte, 1e-9), "{name}");
    }
    assert!(close(c.path_latency("net_ib_ndr_3hop").unwrap().path.as_us(), 2.85, 1e-9));
    assert_eq!(c.switch("qm9700").unwrap().price_usd, c.price("qm9700-reseller").unwrap().amount);
}

/// The matrix rates that were reached are the stated share of the dense peak.
#[test]
fn measured_shares_are_of_the_rows_they_name() {
    let c = Catalogue::builtin();
    let mut checked = 0;
    for row in c.measurements.rows() {
        if let (Some(name), Some(tflops), Some(share)) = (&row.gpu, row.tflops, row.efficiency) {
            let gpu = c.gpu(name).unwrap();
            let peak = if row.dtype.as_deref() == Some("fp8") { gpu.fp8_tflops } else { gpu.bf16_tflops };
            assert!(close(tflops / peak.unwrap(), share, 0.006), "{}: {}", row.name, tflops / peak.unwrap());
            checked += 1;
        } else if let Some(name) = &row.gpu {
            assert!(c.gpu(name).is_ok(), "{}", row.name);
        }
    }
    assert_eq!(checked, 14);
    for row in c.rentals.rows() {
        assert!(c.gpu(&row.gpu).is_ok() && row.min_usd_per_hour <= row.max_usd_per_hour, "{}", row.name);
    }
}

#[test]
fn a_run_of_cable_is_of_the_kind_that_is_just_long_enough() {
    let c = Catalogue::builtin();
    let kind = |metres: f64| c.cable(metres).unwrap().name.clone();
    assert_eq!(
        (kind(1.0), kind(3.0), kind(20.0), kind(9000.0)),
        ("dac".into(), "dac".into(), "fibre".into(), "fibre".into())
    );
    let aec = OwnRow {
        kind: "cable".into(),
        name: "aec".into(),
        like: Some("dac".into()),
        title: None,
        note: None,
        figures: "max_m = 7".parse().unwrap(),
    };
    let c = c.with_rows(&[aec]).unwrap();
    assert_eq!((c.cable(2.0).unwrap().name.as_str(), c.cable(5.0).unwrap().name.as_str()), ("dac", "aec"));
}
