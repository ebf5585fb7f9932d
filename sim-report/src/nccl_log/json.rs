//! The JSON that `-J` writes (file version 3), also when its end is missing.

use serde_json::Value;
use sim_core::units::Bytes;

use super::error::{LogError, LogErrorKind};
use super::header::{self, Fact};
use super::scan::Scan;
use super::types::{Check, DataType, Device, Layout, OutOfBounds, Parameters, Row, Timing};

/// Reads one or more JSON documents. Where one is cut, its complete rows are kept.
pub(super) fn read(bytes: &[u8], scan: &mut Scan<'_>) -> Result<(), LogError> {
    let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut any = false;
    loop {
        let start = documents.byte_offset();
        match documents.next() {
            None => break,
            Some(Ok(document)) => any |= take(&document, line_of(bytes, start), scan)?,
            Some(Err(error)) => {
                let message = format!("the JSON is damaged ({})", plain(&error));
                let rest = bytes.get(start..).unwrap_or_default();
                let found = salvage(rest, start, bytes, scan)?;
                any |= found;
                if !any {
                    return Err(LogError::new(
                        LogErrorKind::Json,
                        line_of(bytes, start) + error.line().max(1) - 1,
                        error.column().max(1),
                        message,
                    )
                    .expected("a JSON file as `-J` writes it, with `results`")
                    .hint("the file is cut or edited; the text output of the same run can be read, too"));
                }
                scan.warn(
                    line_of(bytes, start) + error.line().max(1) - 1,
                    error.column().max(1),
                    message + "; its complete rows are kept",
                );
                break;
            }
        }
    }
    if any {
        return Ok(());
    }
    Err(LogError::new(LogErrorKind::Json, 1, 1, "the JSON has no complete row in `results`")
        .expected("`results`: a list of objects with `size`, `count`, `type`, `out_of_place`, `in_place`")
        .hint("only files that nccl-tests wrote with -J are read here"))
}

/// The parser's message without its position.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line").map_or(text.clone(), |(head, _)| head.to_owned())
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    bytes.iter().take(offset).filter(|b| **b == b'\n').count() + 1
}

/// Takes a document in; true if it had a complete row.
fn take(document: &Value, line: usize, scan: &mut Scan<'_>) -> Result<bool, LogError> {
    let Some(results) = document.get("results").and_then(Value::as_array) else { return Ok(false) };
    head(document, line, scan);
    let mut any = false;
    for (i, result) in results.iter().enumerate() {
        any |= take_row(result, i, line, scan)?;
    }
    if let Some(footer) = document.get("out_of_bounds")
        && let Some(count) = number(footer.get("count"))
    {
        let ok = truth(footer.get("okay")).unwrap_or(count == 0.0);
        scan.fact(Fact::OutOfBounds(OutOfBounds { count: count.max(0.0) as u64, ok }), "", line, None);
    }
    let average = document.get("average_bus_bandwidth");
    if let Some(average) = average.and_then(|a| number(a.get("bandwidth")).or_else(|| number(Some(a)))) {
        scan.fact(Fact::Average(average), "", line, None);
    }
    Ok(any)
}

/// What stands before the results. Every document begins a run.
fn head(document: &Value, line: usize, scan: &mut Scan<'_>) {
    let config = document.get("config");
    let field = |names: &[&str]| names.iter().find_map(|n| config.and_then(|c| c.get(n)));
    let small = |names: &[&str]| number(field(names)).filter(|n| *n >= 0.0).map(|n| n as u32);
    let size = |names: &[&str]| number(field(names)).filter(|n| *n >= 0.0).map(|n| n as u64);
    let parameters = Parameters {
        threads: small(&["nthreads", "nThread", "threads", "n_threads"]),
        gpus: small(&["ngpus", "nGpus", "gpus", "n_gpus"]),
        min_bytes: size(&["minBytes", "min_bytes", "minbytes"]),
        max_bytes: size(&["maxBytes", "max_bytes", "maxbytes"]),
        step: None,
        warmup_iters: small(&["warmup_iters", "warmupIters"]),
        iters: small(&["iters", "iterations"]),
        agg_iters: small(&["agg_iters", "aggIters"]),
        validation: truth(field(&["validation", "datacheck"])),
        graph: small(&["graph", "cudaGraphLaunches", "cuda_graph"]),
        unalign: small(&["unalign"]),
    };
    scan.fact(Fact::Banner(parameters), "", line, None);
    if let Some(op) = operation(document) {
        scan.fact(Fact::Starting(op), "", line, None);
    }
    if let Some(version) = document.get("nccl_version").and_then(version) {
        scan.fact(Fact::NcclVersion(version), "", line, None);
    }
    match document.get("env") {
        Some(Value::Array(items)) => {
            for (name, value) in items.iter().filter_map(Value::as_str).filter_map(|s| s.split_once('=')) {
                env(name, value, line, scan);
            }
        }
        Some(Value::Object(items)) => {
            for (name, value) in items {
                env(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned), line, scan);
            }
        }
        _ => {}
    }
    for item in document.get("devices").and_then(Value::as_array).into_iter().flatten() {
        if let Some(device) = device(item) {
            scan.fact(Fact::Device(device), "", line, None);
        }
    }
}

/// Only NCCL's own variables: the rest of an environment is private.
fn env(name: &str, value: &str, line: usize, scan: &mut Scan<'_>) {
    if name.starts_with("NCCL_") {
        scan.fact(Fact::Env(name.to_owned(), value.to_owned()), "", line, None);
    }
}

fn operation(document: &Value) -> Option<crate::metrics::Operation> {
    let args = document.get("args")?;
    let words: Vec<&str> = match args {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::String(line) => line.split_whitespace().collect(),
        _ => return None,
    };
    words.into_iter().find_map(header::program)
}

/// A version as text, or as the library's number.
fn version(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => n.as_u64().map(header::library_version),
        _ => None,
    }
}

fn device(item: &Value) -> Option<Device> {
    let small = |name: &str| number(item.get(name)).filter(|n| *n >= 0.0).map(|n| n as u32);
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    Some(Device {
        rank: small("rank")?,
        group: small("group").unwrap_or(0),
        pid: number(item.get("pid")).filter(|n| *n >= 0.0).map(|n| n as u64),
        host: text("hostname"),
        device: small("device").unwrap_or(0),
        bus_id: text("device_hex"),
        gpu: match item.get("device_info") {
            Some(Value::Object(info)) => info.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            _ => text("device_info"),
        },
    })
}

fn take_row(result: &Value, index: usize, line: usize, scan: &mut Scan<'_>) -> Result<bool, LogError> {
    let whole = |name: &str| number(result.get(name)).filter(|n| *n >= 0.0 && *n < 1.8e19).map(|n| n as u64);
    let dtype = result.get("type").and_then(Value::as_str).and_then(DataType::from_name);
    let (Some(bytes), Some(count), Some(dtype)) = (whole("size"), whole("count"), dtype) else {
        scan.warn(line, 1, format!("result {} has no size, count or known type; it is left out", index + 1));
        return Ok(false);
    };
    let half = |name: &str| result.get(name).and_then(timing);
    let (out, inside) = (half("out_of_place"), half("in_place"));
    if out.is_none() && inside.is_none() {
        scan.warn(line, 1, format!("result {} has no time; it is left out", index + 1));
        return Ok(false);
    }
    let cpu_time =
        ["out_of_place", "in_place"].iter().any(|h| result.get(h).is_some_and(|h| h.get("cpu_time").is_some()));
    let redop = result.get("redop").and_then(Value::as_str).filter(|op| *op != "none").map(str::to_owned);
    let root = number(result.get("root")).filter(|n| *n >= 0.0).map(|n| n as u32);
    let bytes = Bytes::new(bytes);
    let row = Row { bytes, count, dtype, redop, root, out_of_place: out, in_place: inside, line, damaged: false };
    let layout = Layout { redop: true, root: true, cpu_time, ..Layout::default() };
    scan.take_row(None, row, layout)?;
    Ok(true)
}

fn timing(half: &Value) -> Option<Timing> {
    let figure = |name: &str| number(half.get(name)).filter(|x| x.is_finite() && *x >= 0.0);
    let wrong = match half.get("nwrong") {
        Some(value) => number(Some(value)).filter(|n| *n >= 0.0).map_or(Check::NotChecked, |n| Check::Wrong(n as u64)),
        None => Check::NotChecked,
    };
    Some(Timing {
        time_us: figure("time").or_else(|| figure("cpu_time"))?,
        algbw: figure("alg_bw")?,
        busbw: figure("bus_bw")?,
        copybw: figure("copy_bw"),
        wrong,
        spread: None,
    })
}

/// A number, also one in quotes.
fn number(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|x: &f64| x.is_finite()),
        _ => None,
    }
}

/// A truth value: `true`, `"true"`, 1.
fn truth(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(b) => Some(*b),
        Value::String(text) => match text.as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Value::Number(n) => n.as_f64().map(|n| n != 0.0),
        _ => None,
    }
}

/// Rows of a document whose end is missing or garbled: the objects of `results` up to the damage.
fn salvage(rest: &[u8], start: usize, all: &[u8], scan: &mut Scan<'_>) -> Result<bool, LogError> {
    let Some(at) = find(rest, b"\"results\"") else { return Ok(false) };
    let Some(open) = rest[at..].iter().position(|b| *b == b'[').map(|i| at + i + 1) else { return Ok(false) };
    // What stands before may be whole: close it and read it as a document of its own.
    let mut before = rest[..at].trim_ascii_end().to_vec();
    if before.last() == Some(&b',') {
        before.pop();
    }
    before.push(b'}');
    let document = serde_json::from_slice(&before).unwrap_or(Value::Null);
    head(&document, line_of(all, start), scan);
    let mut any = false;
    let mut at = open;
    let mut line = line_of(all, start + open);
    for index in 0.. {
        while let Some(b) = rest.get(at).filter(|b| b.is_ascii_whitespace() || **b == b',') {
            line += usize::from(*b == b'\n');
            at += 1;
        }
        let Some(tail) = rest.get(at..) else { break };
        let mut objects = serde_json::Deserializer::from_slice(tail).into_iter::<Value>();
        let Some(Ok(object @ Value::Object(_))) = objects.next() else { break };
        any |= take_row(&object, index, line, scan)?;
        let used = objects.byte_offset();
        line += line_of(tail, used) - 1;
        at += used;
    }
    Ok(any)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
