//! Sweeps as read, and tables that are written and read again.

use super::parquet::Rows;
use super::rows::RowFile;
use super::*;

const TWO: &str = "[base]\nsystem = \"hgx-h100\"\n[[base.workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"1 MiB\"]\n";

fn read(dir: &tempfile::TempDir, text: &str) -> Result<Sweep, Diagnostics> {
    let path = dir.path().join("sweep.toml");
    std::fs::write(&path, text).unwrap();
    Sweep::read(&path, &[])
}

fn faults(text: &str) -> Vec<(Code, String)> {
    let dir = tempfile::tempdir().unwrap();
    let faults = read(&dir, text).unwrap_err();
    faults.list.iter().map(|d| (d.code, faults.line(d) + " " + &d.help.join(" "))).collect()
}

#[test]
fn points_are_numbered_in_the_order_of_the_grid() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = read(
        &dir,
        &format!(
            "{TWO}[[axis]]\nkey = \"nodes\"\nvalues = [1, 2]\n\
             [[axis]]\nkeys = [\"workload.0.sizes\", \"workload.0.op\"]\n\
             values = [[\"1 KiB\", \"all_reduce\"], [[\"1 KiB\", \"2 KiB\"], \"all_gather\"]]\n\
             [[skip]]\nnodes = 2\nworkload.0.op = [\"all_gather\"]\n"
        ),
    )
    .unwrap();
    assert_eq!(sweep.len(), 3);
    let shape = [("nodes".to_owned(), 2), ("workload.0.sizes + workload.0.op".to_owned(), 2)];
    assert_eq!(sweep.shape(), shape);
    assert_eq!(sweep.place(0), ["0", "1", "1 KiB", "all_reduce"]);
    assert_eq!(sweep.place(1), ["1", "1", "[\"1 KiB\", \"2 KiB\"]", "all_gather"]);
    assert_eq!(sweep.place(2), ["2", "2", "1 KiB", "all_reduce"]);
    assert_eq!(sweep.describe(2), "nodes = 2, workload.0.sizes = 1 KiB, workload.0.op = all_reduce");
    let loaded = sweep.load(2).unwrap();
    assert_eq!((loaded.scenario.gpus(), loaded.scenario.workloads.len()), (16, 1));
    assert!(sweep.id.ends_with("/3"), "{}", sweep.id);
    // A point depends on nothing but its number.
    let flag = Arc::new(AtomicBool::new(false));
    let once = sweep.play(2, &flag).unwrap();
    assert_eq!(once.cells, sweep.play(2, &flag).unwrap().cells);
    assert_eq!(once.cells.len(), sweep.header().len());
    assert!(!once.failed && once.absent.is_empty(), "{once:?}");
}

#[test]
fn a_fabric_that_is_kept_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = read(
        &dir,
        &format!(
            "{TWO}[[base.fault]]\ntarget = \"node0.nic0\"\nkind = \"degraded\"\nfactor = 0.5\n[[axis]]\nkey = \"nodes\"\nvalues = [2, 4]\n[[axis]]\nkey = \"workload.0.sizes\"\nvalues = [\"1 KiB\", \"1 MiB\"]\n"
        ),
    );
    let sweep = sweep.unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = [0, 1, 2, 3, 0, 1].map(|point| sweep.play(point, &flag).unwrap().cells).into();
    assert_eq!(all[0], all[4]);
    assert_eq!(all[1], all[5]);
    let fresh = read(&dir, &std::fs::read_to_string(dir.path().join("sweep.toml")).unwrap()).unwrap();
    assert_eq!(fresh.play(1, &flag).unwrap().cells, all[1]);
    assert_eq!(fresh.id, sweep.id);
}

#[test]
fn faults_of_a_sweep_are_told_at_their_place() {
    let axis = "[[axis]]\nkey = \"nodes\"\nvalues = [1, 2]\n";
    for (text, code, part) in [
        (TWO.to_owned(), Code::MissingKey, "axis"),
        (axis.to_owned(), Code::MissingKey, "which scenario"),
        (format!("scenario = \"none.toml\"\n{axis}"), Code::Unreadable, "none.toml"),
        (
            format!("{TWO}[[axis]]\nkey = \"nodse\"\nvalues = [1]\n"),
            Code::UnknownKey,
            "sweep.toml:8:7: unknown key `nodse`: did you mean",
        ),
        (format!("{TWO}[[axis]]\nkey = \"nodes\"\nvalues = [1, \"x\"]\n"), Code::WrongType, "sweep.toml:9:14"),
        (
            format!("{TWO}[[axis]]\nkey = \"workload.0.sizes\"\nvalues = [\"1 MB\", 64]\n"),
            Code::MissingUnit,
            "sweep.toml:9:19",
        ),
        (
            format!("{TWO}[[axis]]\nkey = \"workload.1.op\"\nvalues = [\"alltoall\"]\n"),
            Code::BadArgument,
            "no such member",
        ),
        (format!("{TWO}[[axis]]\nkey = \"nodes\"\nvalues = []\n"), Code::OutOfRange, "without values"),
        (format!("{TWO}[[axis]]\nkey = \"nodes\"\n"), Code::MissingKey, "neither `values` nor `range`"),
        (format!("{TWO}[[axis]]\nkey = \"nodes\"\nvalues = [1, 2, 1]\n"), Code::BadArgument, "twice"),
        (format!("{TWO}{axis}{axis}"), Code::Exclusive, "on two axes"),
        (format!("{TWO}[[axis]]\nkeys = [\"nodes\", \"seed\"]\nvalues = [[1, 2], 3]\n"), Code::WrongType, "2 keys"),
        (format!("{TWO}[[axis]]\nkey = \"name\"\nvalues = [\"a\"]\n"), Code::BadArgument, "cannot be varied"),
        (
            format!(
                "{TWO}[[axis]]\nkey = \"seed\"\nrange = {{ from = 1, to = 2000, step = 1 }}\n[[axis]]\nkey = \"nodes\"\nrange = {{ from = 1, to = 1000, step = 1 }}\n"
            ),
            Code::TooLarge,
            "1000 values, and the axes before them leave room for 500",
        ),
        (format!("{TWO}{axis}[[skip]]\nnodse = 1\n"), Code::UnknownKey, "did you mean `nodes`?"),
        (format!("{TWO}{axis}[[skip]]\nnodes = 3\n"), Code::UnknownChoice, "never is `3`"),
        (format!("{TWO}{axis}[[skip]]\nnodes = [1, 2]\n"), Code::NoWorkload, "takes out all 2"),
        (format!("colums = []\n{TWO}{axis}"), Code::UnknownKey, "did you mean `columns`?"),
        (format!("columns = [1]\n{TWO}{axis}"), Code::WrongType, "paths into the results"),
        (format!("columns = [\"engine.wall_s\"]\n{TWO}{axis}"), Code::BadArgument, "wall-clock"),
        (
            format!("columns = {{ nodes = \"engine.events\" }}\n{TWO}{axis}"),
            Code::Exclusive,
            "two columns are called `nodes`",
        ),
        (format!("seeds = 2\n{TWO}[[axis]]\nkey = \"seed\"\nvalues = [1]\n"), Code::Exclusive, "an axis of seeds"),
        (
            "[base]\nsystem = \"hgx-h100\"\n[[axis]]\nkey = \"nodes\"\nvalues = [1]\n".to_owned(),
            Code::NoWorkload,
            "no `[[workload]]`",
        ),
        (format!("{TWO}[[axis]]\nkey = \"system\"\nvalues = [\"hgx-h1000\"]\n"), Code::UnknownSystem, "did you mean"),
        (format!("{TWO}[[axis]]\nkey = \"design\"\nvalues = [\"a\"]\n"), Code::BadArgument, "no design `a`"),
    ] {
        let found = faults(&text);
        assert!(found.iter().any(|(c, line)| *c == code && line.contains(part)), "{text}\n{found:?}");
    }
    // What a setting of the command line sets, no axis varies.
    let dir = tempfile::tempdir().unwrap();
    read(&dir, &format!("{TWO}{axis}")).unwrap();
    let faults = Sweep::read(&dir.path().join("sweep.toml"), &[Setting::set("nodes=4")]).unwrap_err();
    assert_eq!(faults.list[0].code, Code::Exclusive);
}

#[test]
fn rows_are_kept_in_order_and_taken_up_wherever_a_file_ends() {
    let dir = tempfile::tempdir().unwrap();
    let sweep =
        read(&dir, &format!("{TWO}[[axis]]\nkey = \"seed\"\nrange = {{ from = 1, to = 9, step = 1 }}\n")).unwrap();
    let points: Vec<usize> = (0..9).collect();
    let cells = |point: usize| {
        let mut cells = sweep.place(point);
        cells.resize(sweep.header().len() - 2, format!("a, \"b\" {point}"));
        cells.extend([if point == 4 { "E000 why" } else { "" }.to_owned(), sweep.id.clone()]);
        cells
    };
    let path = dir.path().join("all.csv");
    let mut whole = RowFile::open(&path, &sweep, &points, false).unwrap();
    points.iter().for_each(|at| whole.put(*at, &cells(*at)).unwrap());
    assert_eq!((whole.in_turn(), whole.failed()), (9, 1));
    whole.finish().unwrap();
    let expected = std::fs::read(&path).unwrap();
    let code = |result: Result<RowFile, Box<Diagnostic>>| result.unwrap_err().code;
    assert_eq!(code(RowFile::open(&path, &sweep, &points, false)), Code::Exists);

    // Cut anywhere, rows come in any order, the file is the same in the end.
    let path = dir.path().join("part.csv");
    for cut in (0..=expected.len()).step_by(7).chain([expected.len()]) {
        std::fs::write(&path, &expected[..cut]).unwrap();
        let mut rows = RowFile::open(&path, &sweep, &points, true).unwrap();
        let missing: Vec<usize> = points.iter().copied().filter(|at| !rows.has(*at)).collect();
        for at in missing.iter().rev().take(2) {
            rows.put(*at, &cells(*at)).unwrap();
        }
        drop(rows);
        let rows_again = RowFile::open(&path, &sweep, &points, true);
        let mut rows = rows_again.unwrap();
        assert_eq!(rows.done(), 9 - missing.len() + missing.len().min(2), "{cut}");
        for at in points.iter().copied().filter(|at| !rows.has(*at)).collect::<Vec<_>>() {
            rows.put(at, &cells(at)).unwrap();
        }
        assert_eq!((rows.in_turn(), rows.failed()), (9, 1));
        rows.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected, "{cut}");
    }
    // Another process writes it.
    let held = RowFile::open(&path, &sweep, &points, true).unwrap();
    assert_eq!(code(RowFile::open(&path, &sweep, &points, true)), Code::Exists);
    drop(held);

    // Files of something else stay as they are.
    let other =
        read(&dir, &format!("{TWO}[[axis]]\nkey = \"seed\"\nrange = {{ from = 2, to = 10, step = 1 }}\n")).unwrap();
    assert_eq!(code(RowFile::open(&path, &other, &points, true)), Code::OtherSweep);
    assert_eq!(code(RowFile::open(&path, &sweep, &points[1..], true)), Code::OtherSweep);
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    assert_eq!(code(RowFile::open(&path, &sweep, &points, true)), Code::OtherSweep);
    std::fs::write(&path, "notes").unwrap();
    assert_eq!(code(RowFile::open(&path, &sweep, &points, true)), Code::OtherSweep);
    assert_eq!(std::fs::read(&path).unwrap(), b"notes");
}

#[test]
fn tables_come_back_from_parquet_as_they_were() {
    let cells = [
        ["point", "version", "size", "float", "mixed", "flag", "gap", "none", "long"],
        ["0", "2.20", "1 MiB", "1.0", "1", "true", "", "", "9223372036854775807"],
        ["1", "2.21", "", "1e-7", "1.5", "false", "3", "", "-1"],
        ["2", "2.3", "a, \"b\" ü", "0.30000000000000004", "2", "true", "", "", "0"],
    ];
    let rows: Vec<Vec<String>> = cells.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
    let table = Rows { header: rows[0].clone(), rows: rows[1..].to_vec() };
    let bytes = table.to_parquet().unwrap();
    assert_eq!(bytes, table.to_parquet().unwrap());
    let again = Rows::from_parquet(bytes).unwrap();
    // A whole number among others that are not is a double there.
    let mut expected = table.clone();
    expected.rows[0][4] = "1.0".to_owned();
    expected.rows[2][4] = "2.0".to_owned();
    assert_eq!(again, expected);
    assert_eq!(Rows::from_csv(&table.to_csv()), table);
    assert!(Rows::from_parquet(b"PAR1 no".to_vec()).is_err());
    let empty = Rows { header: vec!["a".to_owned()], rows: Vec::new() };
    assert_eq!(Rows::from_parquet(empty.to_parquet().unwrap()).unwrap(), empty);
}
