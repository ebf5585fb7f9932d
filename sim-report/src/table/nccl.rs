//! The layout of nccl-tests 2.13 and later, so that scripts which read its output read a prediction, too.
//!
//! `#wrong` is `N/A`: nothing was checked. The first line says that the figures are simulated.

use std::fmt::Write;

use sim_core::units::Bytes;

use crate::metrics::Operation;
use crate::nccl_log::{DataType, Parameters};

/// A sweep to print.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclTable {
    /// The operation.
    pub operation: Operation,
    /// The number of ranks, for busbw.
    pub ranks: u32,
    /// One remark per line above everything (scenario, seed, version); `#` is added.
    pub remarks: Vec<String>,
    /// The banner's figures; what is `None` is printed as nccl-tests' default.
    pub parameters: Parameters,
    /// Rank lines; none are printed if empty.
    pub devices: Vec<NcclDevice>,
    /// The rows.
    pub rows: Vec<NcclRow>,
}

/// A rank line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NcclDevice {
    /// Host.
    pub host: String,
    /// Device number on the host.
    pub device: u32,
    /// GPU name.
    pub gpu: String,
}

/// A row. Sizes and counts are as [`Operation::trim`] makes them.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclRow {
    /// Size as printed.
    pub bytes: Bytes,
    /// Elements of the per-rank argument.
    pub count: u64,
    /// Type of an element.
    pub dtype: DataType,
    /// `sum` and so on; `None` for operations that don't reduce.
    pub redop: Option<String>,
    /// The root, for operations that have one.
    pub root: Option<u32>,
    /// Time out of place.
    pub out_of_place_us: f64,
    /// Time in place.
    pub in_place_us: f64,
}

impl NcclTable {
    /// The whole text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.head();
        for row in &self.rows {
            out += &self.row(row);
        }
        out += &self.foot();
        out
    }

    /// Everything above the rows.
    #[must_use]
    pub fn head(&self) -> String {
        let mut out = String::new();
        for remark in &self.remarks {
            for line in remark.lines() {
                let _ = writeln!(out, "# {line}");
            }
        }
        let _ = writeln!(out, "# Collective test starting: {}_perf", self.operation);
        let p = &self.parameters;
        let _ = writeln!(
            out,
            "# nThread {} nGpus {} minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: {} validation: {} graph: {}",
            p.threads.unwrap_or(1),
            p.gpus.unwrap_or(1),
            p.min_bytes.unwrap_or_else(|| self.sizes().min().unwrap_or(0)),
            p.max_bytes.unwrap_or_else(|| self.sizes().max().unwrap_or(0)),
            p.step.as_deref().unwrap_or("2(factor)"),
            p.warmup_iters.unwrap_or(1),
            p.iters.unwrap_or(20),
            p.agg_iters.unwrap_or(1),
            u8::from(p.validation.unwrap_or(false)),
            p.graph.unwrap_or(0),
        );
        out += "#\n";
        if !self.devices.is_empty() {
            out += "# Using devices\n";
            for (rank, d) in self.devices.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "#  Rank {rank:2} Group  0 Pid {:6} on {:>10} device {:2} [0x00] {}",
                    0, d.host, d.device, d.gpu
                );
            }
            out += "#\n";
        }
        let blank = "";
        let _ = writeln!(
            out,
            "# {blank:10}  {blank:12}  {blank:8}  {blank:6}  {blank:6}           out-of-place                       in-place          "
        );
        let half = format!("  {:>7}  {:>6}  {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
        let _ = writeln!(
            out,
            "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{half}{half}",
            "size", "count", "type", "redop", "root"
        );
        let half = format!("  {:>7}  {:>6}  {:>6}  {blank:5}", "(us)", "(GB/s)", "(GB/s)");
        let _ = writeln!(out, "# {:>10}  {:>12}  {blank:8}  {blank:6}  {blank:6}{half}{half}", "(B)", "(elements)");
        out
    }

    /// One row with its line end, so that a sweep can be printed as it goes.
    #[must_use]
    pub fn row(&self, row: &NcclRow) -> String {
        let root = row.root.map_or(-1, i64::from);
        let redop = row.redop.as_deref().unwrap_or("none");
        let mut out =
            format!("{:12}  {:12}  {:>8}  {redop:>6}  {root:6}", row.bytes.get(), row.count, row.dtype.name());
        for time in [row.out_of_place_us, row.in_place_us] {
            let (algbw, busbw) = self.operation.bandwidths(row.bytes, time, self.ranks);
            let _ = write!(out, "  {:>7}  {algbw:6.2}  {busbw:6.2}  {:>5}", time_column(time), "N/A");
        }
        out.push('\n');
        out
    }

    /// Everything below the rows: the average is the plain mean of all busbw, both placements, as nccl-tests has it.
    #[must_use]
    pub fn foot(&self) -> String {
        let mut sum = 0.0;
        for row in &self.rows {
            for time in [row.out_of_place_us, row.in_place_us] {
                sum += self.operation.bandwidths(row.bytes, time, self.ranks).1;
            }
        }
        let average = if self.rows.is_empty() { 0.0 } else { sum / (2 * self.rows.len()) as f64 };
        format!("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {} \n#\n", general(average))
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|row| row.bytes.get())
    }
}

/// A time as nccl-tests prints it: seven columns, fewer decimals as it grows.
fn time_column(us: f64) -> String {
    if us >= 10_000.0 {
        format!("{us:.0}")
    } else if us >= 100.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.2}")
    }
}

/// C's `%g`: six significant digits, trailing zeros cut, an exponent where it is shorter.
fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let cut = |text: &str| -> String {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if (-4..6).contains(&exponent) {
        let decimals = (5 - exponent).max(0) as usize;
        cut(&format!("{value:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", cut(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl_log::{OperationSource, read};
    use proptest::prelude::*;

    fn sweep(operation: Operation, ranks: u32, times: &[(u64, f64, f64)]) -> NcclTable {
        let rows = times
            .iter()
            .map(|(asked, out, inside)| {
                let trimmed = operation.trim(Bytes::new(*asked), 4, ranks);
                NcclRow {
                    bytes: trimmed.bytes,
                    count: trimmed.count,
                    dtype: DataType::Float,
                    redop: (operation == Operation::AllReduce).then(|| "sum".to_owned()),
                    root: (operation == Operation::Broadcast).then_some(0),
                    out_of_place_us: *out,
                    in_place_us: *inside,
                }
            })
            .collect();
        let device =
            |i: u32| NcclDevice { host: format!("node{}", i / 8), device: i % 8, gpu: "NVIDIA H100".to_owned() };
        NcclTable {
            operation,
            ranks,
            remarks: vec!["simulated by fabricsim, seed 1".to_owned()],
            parameters: Parameters::default(),
            devices: (0..ranks).map(device).collect(),
            rows,
        }
    }

    #[test]
    fn the_columns_of_nccl_tests() {
        // Times of a published run on four A100; nccl-tests printed exactly these lines but for N/A under #wrong.
        let table = sweep(Operation::AllReduce, 4, &[(1 << 30, 7163.5, 7161.8), (1 << 31, 13_989.0, 13_997.0)]);
        let text = table.render();
        let lines: Vec<_> = text.lines().collect();
        let at = lines.iter().position(|l| l.contains("out-of-place")).unwrap();
        assert_eq!(
            lines[at..at + 5],
            [
                "#                                                              out-of-place                       in-place          ",
                "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
                "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ",
                "  1073741824     268435456     float     sum      -1   7163.5  149.89  224.84    N/A   7161.8  149.93  224.89    N/A",
                "  2147483648     536870912     float     sum      -1    13989  153.51  230.27    N/A    13997  153.42  230.14    N/A",
            ]
        );
        assert!(lines.contains(&"#  Rank  0 Group  0 Pid      0 on      node0 device  0 [0x00] NVIDIA H100"));
        assert_eq!(lines[lines.len() - 2], "# Avg bus bandwidth    : 227.533 ");
    }

    #[test]
    fn numbers_as_c_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (222.066, "222.066"),
            (1.0, "1"),
            (1.5e-7, "1.5e-07"),
            (123456.7, "123457"),
            (2.5e7, "2.5e+07"),
        ] {
            assert_eq!(general(value), text);
        }
    }

    proptest! {
        #[test]
        fn its_own_reader_reads_it_back(
            op in prop::sample::select(vec![Operation::AllReduce, Operation::AllGather, Operation::AllToAll, Operation::Broadcast]),
            ranks in 2u32..64,
            times in prop::collection::vec((0u64..1 << 36, 0.5f64..1e7, 0.5f64..1e7), 1..20),
        ) {
            let table = sweep(op, ranks, &times);
            let log = read(table.render().as_bytes()).unwrap();
            prop_assert_eq!(log.tables.len(), 1);
            let read = &log.tables[0];
            prop_assert_eq!((read.operation, read.operation_source), (Some(op), OperationSource::Banner));
            prop_assert_eq!(read.ranks, Some(ranks));
            prop_assert_eq!(read.rows.len(), table.rows.len());
            for (a, b) in table.rows.iter().zip(&read.rows) {
                prop_assert_eq!((a.bytes, a.count, a.dtype, &a.redop, a.root), (b.bytes, b.count, b.dtype, &b.redop, b.root));
                let time = b.out_of_place.unwrap().time_us;
                prop_assert!((time / a.out_of_place_us - 1.0).abs() < 0.01);
            }
            prop_assert_eq!(log.warnings.iter().filter(|w| w.message.contains("damaged")).count(), 0, "{:?}", log.warnings);
        }
    }
}
