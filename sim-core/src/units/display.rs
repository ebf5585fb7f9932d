//! Text forms of quantities, each with its unit.

use core::fmt;

use super::{Bytes, Rate, Span, Time};

impl fmt::Display for Span {
    /// `850 ps`, `1.5 ns`, `12.34 µs`, `3.2 ms` or `1.05 s`, four significant digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.as_ps() as f64;
        let (value, unit) = match self.as_ps() {
            0..1_000 => (ps, "ps"),
            1_000..1_000_000 => (ps / 1e3, "ns"),
            1_000_000..1_000_000_000 => (ps / 1e6, "µs"),
            1_000_000_000..1_000_000_000_000 => (ps / 1e9, "ms"),
            _ => (ps / 1e12, "s"),
        };
        f.pad(&format!("{} {unit}", significant(value)))
    }
}

impl fmt::Display for Time {
    /// As [`Span`], counted from the start of the run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.since(Self::ZERO).fmt(f)
    }
}

impl fmt::Display for Bytes {
    /// `512 B`, `64 KiB`, `1.5 MiB`, `8 GiB`: binary multiples.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.get();
        let (shift, unit) = match n {
            0..0x400 => (0, "B"),
            0x400..0x10_0000 => (10, "KiB"),
            0x10_0000..0x4000_0000 => (20, "MiB"),
            0x4000_0000..0x100_0000_0000 => (30, "GiB"),
            _ => (40, "TiB"),
        };
        f.pad(&format!("{} {unit}", significant(n as f64 / (1u64 << shift) as f64)))
    }
}

impl fmt::Display for Rate {
    /// `450 GB/s`, `12.5 MB/s`: decimal multiples of bytes, one direction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.get() as f64;
        let (value, unit) = match self.get() {
            0..1_000_000 => (n / 1e3, "kB/s"),
            1_000_000..1_000_000_000 => (n / 1e6, "MB/s"),
            1_000_000_000..10_000_000_000_000 => (n / 1e9, "GB/s"),
            _ => (n / 1e12, "TB/s"),
        };
        f.pad(&format!("{} {unit}", significant(value)))
    }
}

/// Four significant digits, trailing zeros cut.
fn significant(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(Span::from_ps(1_310_720).to_string(), "1.311 µs");
        assert_eq!(Bytes::kib(64).to_string(), "64 KiB");
        assert_eq!(Bytes::new(1500).to_string(), "1.465 KiB");
        assert_eq!(Rate::gbyte(450).to_string(), "450 GB/s");
        assert_eq!(Rate::gbit(100).to_string(), "12.5 GB/s");
    }
}
