//! DCQCN's fluid model: the fixed point by bisection of the two balances, against its small-p form and tabled values.
//!
//! Zhu et al., SIGCOMM 2015, section 5.1, in packets a second: `R` is `C / N`, the cut balances the raise, and the target's fall
//! balances its additive increase.

/// A port and the parameters of its flows: times in s, rates in packets/s, the byte counter in packets.
#[derive(Clone, Copy)]
pub(super) struct Fluid {
    capacity: f64,
    additive: f64,
    bytes: f64,
    timer: f64,
    notices: f64,
    alpha_timer: f64,
    threshold: f64,
    kmin: f64,
    kmax: f64,
    pmax: f64,
}

impl Fluid {
    /// Rate in Gb/s, packet in bytes, step in Mb/s, thresholds in KB; the paper's timers and byte counter.
    pub(super) const fn new(gbit: f64, packet: f64, step: f64, (kmin, kmax, pmax): (f64, f64, f64)) -> Self {
        Self {
            capacity: gbit * 1e9 / 8.0 / packet,
            additive: step * 1e6 / 8.0 / packet,
            bytes: 10e6 / packet,
            timer: 55e-6,
            notices: 50e-6,
            alpha_timer: 55e-6,
            threshold: 5.0,
            kmin: kmin * 1e3,
            kmax: kmax * 1e3,
            pmax,
        }
    }

    fn alpha(&self, n: f64, p: f64) -> f64 {
        1.0 - (1.0 - p).powf(self.alpha_timer * self.capacity / n)
    }

    /// The raise less the cut of a flow's rate, where its target is in balance.
    fn balance(&self, n: f64, p: f64) -> f64 {
        let rate = self.capacity / n;
        let heard = 1.0 - (1.0 - p).powf(self.notices * rate);
        let raises = |period: f64| p / ((1.0 - p).powf(-period) - 1.0);
        let added = |period: f64| (1.0 - p).powf(self.threshold * period) * raises(period);
        let (by_bytes, by_time) = (self.bytes, self.timer * rate);
        let gap = self.additive * rate * (added(by_bytes) + added(by_time)) * self.notices / heard;
        let raise = gap / 2.0 * rate * (raises(by_bytes) + raises(by_time));
        raise - rate * self.alpha(n, p) / (2.0 * self.notices) * heard
    }

    fn solve(&self, n: f64) -> f64 {
        let (mut low, mut high) = (1e-9f64, 0.5f64);
        for _ in 0..200 {
            let middle = (low * high).sqrt();
            if self.balance(n, middle) > 0.0 { low = middle } else { high = middle }
        }
        low
    }

    fn small_p(&self, n: f64) -> f64 {
        let step = self.additive * n * n / (self.alpha_timer * self.capacity * self.capacity);
        (step * (1.0 / self.bytes + n / (self.timer * self.capacity)).powi(2)).cbrt()
    }

    pub(super) fn queue(&self, n: f64) -> f64 {
        let share = self.solve(n) / self.pmax;
        self.kmin + share.min(1.0) * (self.kmax - self.kmin)
    }
}

pub(super) const PAPER: Fluid = Fluid::new(40.0, 1000.0, 40.0, (5.0, 200.0, 0.01));
const WIDE: (f64, f64, f64) = (400.0, 1600.0, 0.2);

#[test]
fn dcqcn_fluid_fixed_points() {
    let fast = Fluid::new(100.0, 1000.0, 20.0, WIDE);
    let faster = Fluid::new(400.0, 4096.0, 40.0, WIDE);
    // (port, flows, p*, small-p, α*, queue in KB)
    let rows = [
        (PAPER, 2.0, 7.77e-4, 9.25e-4, 0.101, 20.2),
        (PAPER, 4.0, 1.89e-3, 2.32e-3, 0.122, 41.8),
        (PAPER, 8.0, 4.55e-3, 5.83e-3, 0.145, 93.8),
        (PAPER, 10.0, 6.03e-3, 7.85e-3, 0.153, 122.6),
        (fast, 2.0, 1.94e-4, 2.19e-4, 0.065, 401.0),
        (fast, 16.0, 2.84e-3, 3.44e-3, 0.115, 417.0),
        (fast, 64.0, 1.64e-2, 2.18e-2, 0.162, 498.0),
        (faster, 8.0, 9.77e-4, 1.13e-3, 0.079, 406.0),
        (faster, 32.0, 5.79e-3, 7.06e-3, 0.115, 435.0),
    ];
    for (port, n, p, small, alpha, queue) in rows {
        let solved = port.solve(n);
        let near = |got: f64, stated: f64| assert!((got / stated - 1.0).abs() < 0.01, "{got} for {stated}, {n} flows");
        near(solved, p);
        near(port.small_p(n), small);
        near(port.alpha(n, solved), alpha);
        near(port.queue(n) / 1e3, queue);
        assert!(port.balance(n, solved / 1.001) > 0.0 && port.balance(n, solved * 1.001) < 0.0);
    }
    // From about 16 flows on the paper's thresholds hold the queue at Kmax.
    let solved = PAPER.solve(16.0);
    assert!(solved > 0.01 && (PAPER.queue(16.0) - 200e3).abs() < 1.0, "{solved}");
    assert!((PAPER.alpha(16.0, solved) / 0.171 - 1.0).abs() < 0.01, "{}", PAPER.alpha(16.0, solved));
}
