//! A test over a directory of logs that are not part of the repository.

use super::*;

/// Reads every `*.txt` in the directory that `FABRICSIM_LOG_CORPUS` names. Where a name holds nodes and ranks as in
/// `x-2n16-y.txt`, and an operation, these must be found in the text alone.
#[test]
fn corpus() {
    let Some(directory) = std::env::var_os("FABRICSIM_LOG_CORPUS") else { return };
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let log = match read(&bytes) {
            Ok(log) => log,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        for table in &log.tables {
            println!(
                "{name}: {:?} {:?} {:?} {:?} {:?} nodes {:?} rows {} gpu {:?}",
                table.operation,
                table.operation_source,
                table.ranks,
                table.ranks_source,
                table.ranks_range,
                table.nodes(),
                table.rows.len(),
                table.gpu()
            );
        }
        log.warnings.iter().for_each(|w| println!("    {w}"));
        let ranks = name
            .split('-')
            .find_map(|part| part.split_once('n'))
            .and_then(|(nodes, ranks)| Some((nodes.parse::<u32>().ok()?, ranks.parse::<u32>().ok()?)));
        let table = &log.tables[0];
        if let (Some((_, ranks)), Some(found)) = (ranks, table.ranks)
            && ranks != found
        {
            wrong.push(format!("{name}: {found} ranks"));
        }
        if let (Some((nodes, _)), Some(found)) = (ranks, table.nodes())
            && nodes != found
        {
            wrong.push(format!("{name}: {found} nodes"));
        }
        let named = read_named(&bytes, &name).unwrap();
        if table.operation != named.tables[0].operation {
            wrong.push(format!("{name}: {:?} without, {:?} with its name", table.operation, named.tables[0].operation));
        }
        wrong.extend(damaged(&bytes, &log).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Cuts and flips a log at many places. No row may appear that the whole log lacks, but the one that was hit.
fn damaged(bytes: &[u8], whole: &NcclLog) -> Vec<String> {
    let known: Vec<&Row> = whole.rows().collect();
    let mut wrong = Vec::new();
    for i in 0..300 {
        let at = bytes.len() * i / 300;
        if let Ok(log) = read(&bytes[..at]) {
            for row in log.rows() {
                let twin = known.iter().find(|k| k.line == row.line);
                let same = twin.is_some_and(|k| {
                    let alike = |a: &Option<Timing>, b: &Option<Timing>| match (a, b) {
                        (Some(a), Some(b)) => (a.time_us, a.algbw, a.busbw) == (b.time_us, b.algbw, b.busbw),
                        (None, _) => true,
                        _ => false,
                    };
                    k.bytes == row.bytes
                        && alike(&row.out_of_place, &k.out_of_place)
                        && alike(&row.in_place, &k.in_place)
                });
                if !same {
                    wrong.push(format!("cut at {at}: {row:?}"));
                }
            }
        }
        let mut flipped = bytes.to_vec();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 1 << (i % 8);
        }
        let hit = bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
        if let Ok(log) = read(&flipped) {
            // A flip that makes or breaks a line end moves the lines after it; those are left to the cuts.
            let moved =
                flipped.iter().filter(|b| **b == b'\n').count() != bytes.iter().filter(|b| **b == b'\n').count();
            let kept = |row: &&Row| row.line != hit;
            if !moved && log.rows().filter(kept).count() != whole.rows().filter(kept).count() {
                wrong.push(format!("flipped at {at}, line {hit}: other rows are lost or found"));
            }
        } else if known.len() > 1 {
            wrong.push(format!("flipped at {at}: nothing is read"));
        }
    }
    wrong
}
