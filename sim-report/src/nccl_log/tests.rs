//! Layouts that people paste, rendered anew from published figures, and the same damaged in every way.

use proptest::prelude::*;
use sim_core::units::Bytes;

use super::*;
use crate::metrics::Operation;

/// Two sizes of an all-reduce on four A100 behind NVSwitch (figures published in NVIDIA/nccl-tests issues): time,
/// algbw, busbw, both placements.
const A100: [(u64, [f64; 3], [f64; 3]); 2] = [
    (1 << 30, [7163.5, 149.89, 224.84], [7161.8, 149.93, 224.89]),
    (1 << 31, [13_989.0, 153.51, 230.27], [13_997.0, 153.42, 230.13]),
];

const HEADER: &str = "\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
";

fn rows() -> String {
    A100.iter()
        .map(|(size, out, inside)| {
            let half = |[t, a, b]: [f64; 3]| format!("  {t:7}  {a:6}  {b:6}      0");
            format!("{size:12}  {:12}     float     sum      -1{}{}\n", size / 4, half(*out), half(*inside))
        })
        .collect()
}

fn modern() -> String {
    let devices: String = (0..4)
        .map(|i| format!("#  Rank {i:2} Group  0 Pid  99 on      nodeA device {i:2} [0x1{i}] NVIDIA A100-SXM4-40GB\n"))
        .collect();
    format!(
        "# nThread 1 nGpus 4 minBytes 1073741824 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n{devices}#\n{HEADER}{}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 227.533\n#\n",
        rows()
    )
}

fn one(text: &str) -> Table {
    let log = read(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(log.tables.len(), 1, "{text}");
    log.tables.into_iter().next().unwrap()
}

fn assert_is_a100(table: &Table) {
    assert_eq!(table.rows.len(), 2);
    for (row, (size, out, inside)) in table.rows.iter().zip(A100) {
        assert_eq!((row.bytes, row.count, row.dtype), (Bytes::new(size), size / 4, DataType::Float));
        for (timing, [time, algbw, busbw]) in [(row.out_of_place, out), (row.in_place, inside)] {
            let timing = timing.unwrap();
            assert_eq!((timing.time_us, timing.algbw, timing.busbw), (time, algbw, busbw));
        }
    }
    assert_eq!((table.operation, table.ranks), (Some(Operation::AllReduce), Some(4)));
}

#[test]
fn the_present_layout() {
    let log = read(modern().as_bytes()).unwrap();
    assert_eq!(log.warnings, []);
    let table = &log.tables[0];
    assert_is_a100(table);
    assert_eq!((table.operation_source, table.ranks_source), (OperationSource::Figures, RanksSource::Devices));
    assert_eq!((table.nodes(), table.gpu()), (Some(1), Some("NVIDIA A100-SXM4-40GB")));
    assert_eq!(table.devices[3].bus_id, "0x13");
    assert_eq!((table.parameters.iters, table.parameters.validation), (Some(20), Some(true)));
    assert_eq!(table.out_of_bounds, Some(OutOfBounds { count: 0, ok: true }));
    assert_eq!(table.average_busbw, Some(227.533));
    assert_eq!(table.rows[0].root, None);
    assert_eq!(table.rows[0].redop.as_deref(), Some("sum"));
}

#[test]
fn however_it_was_pasted() {
    let text = modern();
    let each = |f: &dyn Fn(&str) -> String| text.lines().map(f).collect::<String>();
    for (what, pasted) in [
        ("mpirun labels", each(&|l| format!("[1,0]<stdout>:{l}\n"))),
        ("indented labels", each(&|l| format!("   [1,0]<stdout>: {l}\n"))),
        ("srun labels", each(&|l| format!("0: {l}\n"))),
        ("wide srun labels", each(&|l| format!(" 12: {l}\n"))),
        ("time stamps", each(&|l| format!("2025-03-04T10:11:12.123456Z {l}\n"))),
        ("time stamps in brackets", each(&|l| format!("[2025-03-04 10:11:12] {l}\n"))),
        ("pod names", each(&|l| format!("launcher-0 | {l}\n"))),
        ("quotation", each(&|l| format!("> {l}\n"))),
        ("indentation", each(&|l| format!("    {l}\n"))),
        ("tabs", each(&|l| format!("\t{}\n", l.replace("  ", "\t")))),
        ("collapsed blanks", each(&|l| l.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")),
        ("CRLF", each(&|l| format!("{l}\r\n"))),
        ("lost line ends", each(&|l| format!("{l} "))),
        ("all blanks collapsed", text.split_whitespace().collect::<Vec<_>>().join(" ")),
        ("trailing words", each(&|l| format!("{l} nodeB:7:7 [0] NCCL INFO x\n"))),
        ("CR only", each(&|l| format!("{l}\r"))),
        ("blank lines between", each(&|l| format!("{l}\n\n"))),
        ("no comment marks", each(&|l| l.trim_start_matches('#').to_owned() + "\n")),
        ("byte order mark", format!("\u{feff}{text}")),
        ("colour", each(&|l| format!("\u{1b}[32m{l}\u{1b}[0m\n"))),
        ("non-breaking blanks", text.replace(' ', "\u{a0}")),
        (
            "debugging between",
            each(&|l| format!("{l}\nnodeA:99:99 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 - x\n")),
        ),
        ("elisions", each(&|l| format!("{l}\n...\n"))),
        ("no header", rows()),
        ("no header, labels", rows().lines().map(|l| format!("[1,0]<stdout>:{}\n", l.trim())).collect()),
        ("no last line end", rows().trim_end().to_owned()),
        ("half a header", format!("{}\n{}", &HEADER[..300], rows())),
        ("junk", format!("\0\u{1}\u{2}junk\0\n{text}\n\0\0\0")),
    ] {
        let log = read(pasted.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(log.tables.len(), 1, "{what}");
        assert_is_a100(&log.tables[0]);
        assert!(log.warnings.is_empty(), "{what}: {:?}", log.warnings);
    }
    for big_endian in [false, true] {
        let utf16: Vec<u8> = "\u{feff}"
            .encode_utf16()
            .chain(text.encode_utf16())
            .flat_map(|u| if big_endian { u.to_be_bytes() } else { u.to_le_bytes() })
            .collect();
        assert_is_a100(&read(&utf16).unwrap().tables[0]);
    }
}

#[test]
fn wrapped_rows_are_joined() {
    let text: String = rows().lines().map(|l| format!("{}\n{}\n", &l[..80], &l[80..])).collect();
    let log = read(format!("{HEADER}{text}").as_bytes()).unwrap();
    assert_is_a100(&log.tables[0]);
    assert!(log.warnings.iter().all(|w| w.message.contains("wrapped")), "{:?}", log.warnings);
}

#[test]
fn old_layouts() {
    // Figures of published runs: V100 hybrid mesh all-reduce, A100 reduce-scatter over InfiniBand, V100 broadcast
    // over sockets, RTX 2080 Ti all-gather. Columns as of 2019 to 2022.
    let table =
        one("  67108864  16777216   float     sum    992.7   67.60  118.30  2e-07    995.0   67.45  118.04  2e-07\n");
    assert_eq!((table.operation, table.ranks), (Some(Operation::AllReduce), Some(8)));
    assert_eq!(table.rows[0].out_of_place.unwrap().wrong, Check::MaxError(2e-7));
    let table = one(
        "  134217728       4194304     float     sum   6913.0   19.42   16.99  2e-07   6917.1   19.40   16.98  2e-07\n",
    );
    assert_eq!((table.operation, table.ranks), (Some(Operation::ReduceScatter), Some(8)));
    assert_eq!(table.ranks_source, RanksSource::Counts);
    let table = one(
        "           8             2   float       0    45.82    0.00    0.00    N/A    38.17    0.00    0.00    N/A\n",
    );
    assert_eq!((table.operation, table.ranks, table.rows[0].root), (Some(Operation::Broadcast), None, Some(0)));
    assert_eq!(table.rows[0].in_place.unwrap().wrong, Check::NotChecked);
    let table = one("  134217728  16777216   float   3298.6   20.34   20.34  0e+00   3070.3   21.86   21.86  0e+00\n");
    assert_eq!(
        (table.operation, table.ranks, table.convention),
        (Some(Operation::AllGather), Some(2), Convention::Scaled)
    );
    let table = one("  4294967296 134217728   float    29122  129.05  129.05  1e+00    29169  128.84  128.84  1e+00\n");
    assert_eq!((table.operation, table.ranks), (Some(Operation::AllGather), Some(8)));
    // NCCL 1: milliseconds.
    let table = one(
        "      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n   10485760       2621440   float     sum    0.929  11.29  16.93    0e+00    0.930  11.28  16.91    0e+00\n",
    );
    assert!(table.layout.milliseconds);
    assert!((table.rows[0].in_place.unwrap().time_us - 930.0).abs() < 1e-9);
    assert_eq!((table.operation, table.ranks), (Some(Operation::AllReduce), Some(4)));
}

#[test]
fn further_columns() {
    // copybw before #wrong, spread over iterations, a time stamp, both halves.
    let table = one("1048576 262144 float sum -1 50.00 20.97 36.70 12.5 0 51.00 20.56 35.98 12.4 0\n");
    assert!(table.layout.copybw);
    assert_eq!(table.rows[0].in_place.unwrap().copybw, Some(12.4));
    let table = one(
        "1048576 262144 float sum -1 50.00 20.97 36.70 0 48.1 57.2 56.9 3.4 51.00 20.56 35.98 0 48.2 58.0 57.7 3.6%\n",
    );
    let spread = table.rows[0].in_place.unwrap().spread.unwrap();
    assert_eq!((spread.min_us, spread.max_us, spread.p99_us, spread.cv_percent), (48.2, 58.0, 57.7, 3.6));
    let table = one("1048576 262144 float sum -1 50.00 20.97 36.70 0 51.00 20.56 35.98 0 2025-10-08 12:13:14\n");
    assert!(table.layout.stamp);
    assert_eq!(table.ranks, Some(8));
    let table = one(
        "# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong\n1048576 262144 float sum -1 50.00 20.97 36.70 0 51.00 20.56 35.98 0\n",
    );
    assert!(table.layout.cpu_time);
    let table = one("1048576 262144 float sum -1 50.00 20.97 36.70 1e+06 51.00 20.56 35.98 7\n");
    assert_eq!(table.rows[0].out_of_place.unwrap().wrong, Check::Wrong(1_000_000));
    let table = one("1048576 262144 f8e4m3 sum -1 N/A N/A N/A N/A 51.00 20.56 35.98 0\n");
    assert_eq!(table.rows[0].out_of_place, None);
}

#[test]
fn operations_from_figures() {
    let table = |text: &str, name: &str| read_named(text.as_bytes(), name).unwrap().tables.remove(0);
    // Published runs: GB300 all-to-all on 4 and 64 ranks, B200 all-gather, B200 send-receive.
    let t = table("8589934592 536870912 float none -1 10308 833.31 624.98 0 9568.2 897.76 673.32 N/A\n", "x.txt");
    assert_eq!(
        (t.operation, t.operation_source, t.ranks),
        (Some(Operation::AllToAll), OperationSource::Figures, Some(4))
    );
    let t = table("8589934592 268435456 float none -1 11322.8 758.64 663.81 0 11102.2 773.71 677.00 0\n", "x.txt");
    assert_eq!(
        (t.operation, t.operation_source, t.ranks),
        (Some(Operation::AllGather), OperationSource::Figures, Some(8))
    );
    let t = table("8589934592 8589934592 uint8 sum -1 12989.0 661.32 661.32 0 13323.0 644.74 644.74 N/A\n", "x.txt");
    assert_eq!((t.operation, t.operation_source, t.ranks), (Some(Operation::SendRecv), OperationSource::Figures, None));
    // Nothing is checked, ratio one: two ranks of an all-reduce or a send-receive. The name decides.
    let both = "1073741824 268435456 float sum -1 22661 47.38 47.38 N/A 22658 47.39 47.39 N/A\n";
    let t = table(both, "two.txt");
    assert_eq!(
        (t.operation, t.operation_source, t.ranks),
        (Some(Operation::AllReduce), OperationSource::Guess, Some(2))
    );
    let t = table(both, "a40_sendrecv_perf.log");
    assert_eq!((t.operation, t.operation_source), (Some(Operation::SendRecv), OperationSource::FileName));
    // A name against the figures is not believed.
    let log = read_named(rows().as_bytes(), "reduce_scatter.txt").unwrap();
    assert_eq!(log.tables[0].operation, Some(Operation::AllReduce));
    assert!(log.warnings[0].message.contains("file's name says reduce_scatter"), "{:?}", log.warnings);
    // The program's own word counts, a command line's if it fits.
    let said = format!("# Collective test starting: all_reduce_perf\n{}", rows());
    assert_eq!(one(&said).operation_source, OperationSource::Banner);
    let said = format!("$ mpirun -x NCCL_ALGO=Ring ./build/all_reduce_perf -b 1G -e 2G -n 50\n{}", rows());
    let log = read(said.as_bytes()).unwrap();
    assert_eq!(log.tables[0].operation_source, OperationSource::CommandLine);
    assert_eq!(log.tables[0].parameters.iters, Some(50));
    assert_eq!(log.env.get("NCCL_ALGO").map(String::as_str), Some("Ring"));
}

#[test]
fn several_tables() {
    let log = read(format!("{}{}", modern(), modern()).as_bytes()).unwrap();
    assert_eq!(log.tables.len(), 2);
    log.tables.iter().for_each(assert_is_a100);
    let second = modern().replace("Rank  3 Group", "Rank 31 Group");
    assert_eq!(read(format!("{}{second}", modern()).as_bytes()).unwrap().tables[0].devices.len(), 4);
    // Two processes that each print a table, line by line.
    let mixed: String = rows().lines().map(|l| format!("[1,0]<stdout>:{l}\n[1,1]<stdout>:{l}\n")).collect();
    let log = read(mixed.as_bytes()).unwrap();
    assert_eq!(log.tables.len(), 2);
    log.tables.iter().for_each(assert_is_a100);
    // A header twice, a table once.
    let log = read(format!("{HEADER}{HEADER}{}{HEADER}", rows()).as_bytes()).unwrap();
    assert_eq!(log.tables.len(), 1);
}

#[test]
fn cut_and_garbled() {
    // Every cut: the rows before it are there, and the cut row is never taken for another.
    let text = modern();
    let first_end = text.find("  2147483648 ").unwrap();
    for end in 0..text.len() {
        match read(&text.as_bytes()[..end]) {
            Ok(log) => {
                // The first row may lack its line end, or the last blanks of it.
                assert!(end >= first_end - 1, "at {end}");
                let table = &log.tables[0];
                assert!(table.rows.len() <= 2);
                assert_eq!((table.operation, table.ranks), (Some(Operation::AllReduce), Some(4)), "at {end}");
                if let [_, second] = &table.rows[..] {
                    assert_eq!(second.out_of_place.unwrap().time_us, 13_989.0, "at {end}");
                    assert_eq!(second.in_place.unwrap().time_us, 13_997.0, "at {end}");
                } else {
                    // What is left of the second row is told of.
                    let begun = text[..end].get(first_end..).unwrap_or_default().trim();
                    let told = log.warnings.iter().any(|w| w.line == table.rows[0].line + 1);
                    assert!(begun.is_empty() || told, "at {end}: {:?}", log.warnings);
                }
            }
            Err(error) => {
                assert!(end < first_end, "at {end}: {error}");
                assert!(error.line >= 1 && error.column >= 1 && !error.expected.is_empty());
            }
        }
    }
    // Half a row alone is not enough, and the message points at its end.
    let half = &rows()[..80];
    let error = read(half.as_bytes()).unwrap_err();
    assert_eq!((error.kind, error.line, error.column), (LogErrorKind::Damaged, 1, half.trim_end().len() + 1));
    // A garbled figure is noticed.
    let log = read(rows().replace("7163.5", "7963.5").as_bytes()).unwrap();
    assert!(log.warnings[0].message.contains("one of the figures is damaged"), "{:?}", log.warnings);
    let log = read(rows().replace("7163.5", "71x3.5").as_bytes()).unwrap();
    assert_eq!((log.tables[0].rows.len(), log.warnings[0].line, log.warnings[0].column), (1, 1, 56));
}

#[test]
fn numbers_of_any_length() {
    let long = "1".repeat(300);
    for (name, text) in [
        ("time", rows().replace("7163.5", &long)),
        ("size", rows().replace("1073741824 ", &format!("{long} "))),
        ("count", rows().replace(" 268435456", &format!(" {long}"))),
        ("root", rows().replacen("-1", &long, 1)),
        ("wrong", rows().replacen("     0  ", &format!("  {long}x  "), 1)),
    ] {
        let log = read(text.as_bytes()).unwrap();
        assert_eq!(log.tables[0].rows.len(), 1, "{name}");
        let told = &log.warnings[0];
        assert!(told.line == 1 && told.message.contains("it is left out"), "{name}: {told}");
        assert!(told.message.len() < 200, "{name}: {told}");
    }
}

#[test]
fn utf_16_of_both_ends_with_and_without_a_mark() {
    let units: Vec<u16> = modern().encode_utf16().collect();
    let (little, big) = (u16::to_le_bytes, u16::to_be_bytes);
    for of in [little, big] {
        for mark in [Some(0xfeff), None] {
            let bytes: Vec<u8> = mark.iter().chain(&units).flat_map(|unit| of(*unit)).collect();
            let log = read(&bytes).unwrap();
            assert_eq!(log.tables[0].rows.len(), 2);
            assert_eq!(log.warnings[0].message, "the file is UTF-16; it was converted");
        }
    }
    // A row of its own after text with zeros in it is no UTF-16.
    assert_eq!(read(format!("\0\0\0\n{}", rows()).as_bytes()).unwrap().tables[0].rows.len(), 2);
}

#[test]
fn what_is_no_log() {
    let kind = |text: &str| read(text.as_bytes()).unwrap_err();
    assert_eq!(kind("").kind, LogErrorKind::Empty);
    assert_eq!(kind(" \n\n").kind, LogErrorKind::Empty);
    let error = kind("hello\nworld\n");
    assert_eq!((error.kind, error.text.as_str()), (LogErrorKind::NotALog, "hello"));
    let error = kind(
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor)\nnode1: Test NCCL failure common.cu:958 'unhandled system error'\n",
    );
    assert_eq!((error.kind, error.line), (LogErrorKind::NoRow, 2));
    assert_eq!(kind(HEADER).kind, LogErrorKind::NoRow);
    assert_eq!(kind("node:1:1 [0] NCCL INFO Bootstrap : Using eth0\n").kind, LogErrorKind::NoRow);
    assert_eq!(kind("\u{1f}\u{0}\u{3}\u{0}").kind, LogErrorKind::Binary);
    assert_eq!(read(&[0x1f, 0x8b, 8, 0]).unwrap_err().hint.as_deref(), Some("unpack it first"));
    assert!(kind("#bytes     #iterations    BW peak[GB/sec]\n65536 1000 24.1\n").message.contains("perftest"));
    assert_eq!(kind("{\"results\": []}").kind, LogErrorKind::Json);
    assert_eq!(kind("{\"a\": ").kind, LogErrorKind::Json);
}

#[test]
fn limits_hold() {
    let limits = Limits { rows: 10, ..Limits::default() };
    let many = rows().repeat(6);
    assert_eq!(read_from(many.as_bytes(), None, &limits).unwrap_err().kind, LogErrorKind::TooLarge);
    let limits = Limits { bytes: 100, ..Limits::default() };
    assert_eq!(read_from(many.as_bytes(), None, &limits).unwrap_err().kind, LogErrorKind::TooLarge);
    // A line without end is skipped in bounded memory; the rows after it are read.
    let text = format!("{}\n{}", "x".repeat(1 << 20), rows());
    let log = read(text.as_bytes()).unwrap();
    assert_is_a100(&log.tables[0]);
    assert!(log.warnings[0].message.contains("too long"));
    let noisy = rows() + &"1024 256 float sum -1 12\n".repeat(500);
    let log = read(noisy.as_bytes()).unwrap();
    assert_eq!((log.warnings.len(), log.more_warnings), (100, 400));
}

fn json() -> String {
    let results: Vec<String> = A100
        .iter()
        .map(|(size, out, inside)| {
            let half = |[t, a, b]: [f64; 3]| format!(r#"{{"time": {t}, "alg_bw": {a}, "bus_bw": {b}, "nwrong": "0"}}"#);
            format!(
                r#"{{"size": {size}, "count": {}, "type": "float", "redop": "sum", "root": "-1", "out_of_place": {}, "in_place": {}}}"#,
                size / 4,
                half(*out),
                half(*inside)
            )
        })
        .collect();
    format!(
        r#"{{"version": 3, "start_time": "x", "args": ["./all_reduce_perf", "-J", "o.json"], "env": ["NCCL_ALGO=Ring", "SECRET=1"], "nccl_version": 22703,
"config": {{"iters": 20}},
"devices": [{{"rank": 0, "group": 0, "pid": 5, "hostname": "a", "device": 0, "device_hex": "0x0f", "device_info": "NVIDIA A100"}}, {{"rank": 3, "hostname": "a", "device": 3, "device_hex": "0x1f", "device_info": "NVIDIA A100"}}],
"results": [
{}
],
"out_of_bounds": {{"count": 0, "okay": "true"}}, "average_bus_bandwidth": {{"bandwidth": 227.5, "okay": "true"}}, "end_time": "y"}}
"#,
        results.join(",\n")
    )
}

#[test]
fn json_output() {
    let text = json();
    let log = read(text.as_bytes()).unwrap();
    assert_is_a100(&log.tables[0]);
    assert_eq!(log.tables[0].operation_source, OperationSource::Banner);
    assert_eq!((log.nccl_version.as_deref(), log.env.len()), (Some("2.27.3"), 1));
    assert_eq!((log.tables[0].average_busbw, log.tables[0].nodes()), (Some(227.5), Some(1)));
    assert_eq!(log.tables[0].parameters.iters, Some(20));
    assert_eq!(read(format!("{text}{text}").as_bytes()).unwrap().tables.len(), 2);
    // Cut in the second result: the first is kept.
    let cut = text.rfind("in_place").unwrap();
    let log = read(&text.as_bytes()[..cut]).unwrap();
    assert_eq!((log.tables[0].rows.len(), log.tables[0].operation), (1, Some(Operation::AllReduce)));
    assert!(log.warnings.iter().any(|w| w.message.contains("JSON is damaged")), "{:?}", log.warnings);
    for end in 0..text.len() {
        let _ = read(&text.as_bytes()[..end]);
    }
}

#[test]
fn shortened_lists_of_devices() {
    let text = "#  Rank  0 Group  0 Pid 1 on host0 device  0 [0x1] NVIDIA GB300\n...\n#  Rank 127 Group  0 Pid 1 on host31 device  3 [0x1] NVIDIA GB300\n17179869184 4294967296 float sum -1 46170 372.10 738.39 0 46070 372.91 739.99 0\n";
    let table = one(text);
    assert_eq!((table.ranks, table.nodes()), (Some(128), Some(32)));
    // A list that is cut short is overruled by the figures.
    let log = read(text.replace("127", "7").as_bytes()).unwrap();
    assert_eq!((log.tables[0].ranks, log.tables[0].ranks_source), (Some(128), RanksSource::Bandwidths));
    assert!(log.warnings[0].message.contains("ends at 8 ranks"), "{:?}", log.warnings);
}

#[test]
fn a_damaged_bandwidth_does_not_overrule_the_list_of_ranks() {
    // The fastest row's busbw is damaged: 224.84 / 149.89 would be four ranks, 268.49 / 153.42 eight.
    let text = modern().replace("230.13", "268.49").replace("230.27", "268.64");
    let log = read(text.as_bytes()).unwrap();
    assert_eq!((log.tables[0].ranks, log.tables[0].ranks_source), (Some(4), RanksSource::Devices));
    let said = |log: &NcclLog| log.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(said(&log).contains("taken as 4, since a figure may be damaged"), "{}", said(&log));
    // Where all figures agree on another number, the list is the one that was cut.
    let text = text.replace("224.84", "262.31").replace("224.89", "262.38");
    let log = read(text.as_bytes()).unwrap();
    assert_eq!((log.tables[0].ranks, log.tables[0].ranks_source), (Some(8), RanksSource::Bandwidths));
    assert!(said(&log).contains("the figures are taken, as all of them agree"), "{}", said(&log));
}

#[test]
fn a_word_that_is_no_type() {
    let error = read(b"1024 256 flaot sum -1 12.3 0.08 0.15 0 12.1 0.08 0.15 0\n").unwrap_err();
    assert_eq!((error.kind, error.column), (LogErrorKind::Damaged, 10));
    assert!(error.message.contains("`flaot` is no type") && error.message.contains("bfloat16"), "{error}");
    let text = "1024 256 fl\u{fffd}at sum -1 12.3 0.08 0.15 0 12.1 0.08 0.15 0\n";
    assert!(read(text.as_bytes()).unwrap_err().message.contains("no UTF-8"));
    // What only begins like a row is none.
    assert_eq!(read(b"1024 256 hosts 1 2 3\n").unwrap_err().kind, LogErrorKind::NotALog);
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
    }

    #[test]
    fn any_words(text in "([0-9]{1,12}|float|sum|none|-1|N/A|[0-9.]{1,6}|1e[+-]0[0-9]|#|size|nan|inf|\\{|\"results\"|\\[|Rank|nThread|\n| |\r|:){0,60}") {
        if let Err(error) = read(text.as_bytes()) {
            prop_assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
        }
    }

    #[test]
    fn mutated(seed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), which in 0..3, cut in any::<prop::sample::Index>()) {
        let mut bytes = match which { 0 => modern(), 1 => json(), _ => rows() }.into_bytes();
        for (at, byte) in &seed {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let _ = read(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = read(&bytes);
    }

    #[test]
    fn a_flipped_byte_harms_its_line_only(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = modern().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(byte != b'\n' && bytes[at] != b'\n');
        let line = bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
        bytes[at] = byte;
        let log = read(&bytes).unwrap();
        let table = &log.tables[0];
        let whole: Vec<_> = table.rows.iter().filter(|row| row.line != line).collect();
        prop_assert!(whole.iter().all(|row| row.out_of_place.is_some() && row.in_place.is_some()));
        let expected = one(&modern()).rows.iter().filter(|row| row.line != line).count();
        let found: usize = log.tables.iter().map(|t| t.rows.iter().filter(|row| row.line != line).count()).sum();
        prop_assert_eq!(found, expected);
    }
}
