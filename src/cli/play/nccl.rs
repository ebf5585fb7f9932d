//! Results in nccl-tests' own columns.

use sim_core::units::Bytes;
use sim_report::metrics::Operation;
use sim_report::nccl_log::{DataType, Parameters};
use sim_report::table::{NcclDevice, NcclRow, NcclTable};

use crate::scenario::{Collective, Loaded, Workload};
use crate::simulate::{Report, played};

/// One table a collective workload.
pub(super) fn tables(loaded: &Loaded, name: &str, report: &Report) -> String {
    let mut rows = report.results.collectives.iter().zip(&report.ranks).peekable();
    let mut out = String::new();
    for workload in &loaded.scenario.workloads {
        let Workload::Collective(collective) = workload else { continue };
        let Some(operation) = Operation::ALL.into_iter().find(|op| op.name() == collective.op.name()) else { continue };
        let dtype = DataType::from_name(&collective.type_name).unwrap_or(DataType::Float);
        let ranks = collective.group.len() as u32;
        let mut list = Vec::new();
        for _ in &collective.sizes {
            let Some((row, _)) = rows.next_if(|(row, of)| row.op == operation.name() && **of == ranks) else {
                continue;
            };
            let count = operation.trim(Bytes::new(row.bytes), dtype.size(), ranks).count;
            list.push(NcclRow {
                bytes: Bytes::new(row.bytes),
                count,
                dtype,
                redop: collective.op.reduces().then(|| collective.reduction_name.clone()),
                root: matches!(operation, Operation::Broadcast | Operation::Reduce).then_some(collective.root),
                out_of_place_us: row.time_us,
                in_place_us: row.time_us,
            });
        }
        let seed = loaded.scenario.seed;
        let version = env!("CARGO_PKG_VERSION");
        let remarks = [format!("simulated by fabricsim {version}: {name}, seed {seed}")];
        let own = loaded.own_rows().map(|rows| format!("catalogue: {rows}"));
        let table = NcclTable {
            operation,
            ranks,
            remarks: remarks.into_iter().chain(own).collect(),
            parameters: parameters(loaded, collective),
            devices: devices(loaded, collective),
            rows: list,
        };
        out += &table.render();
    }
    out
}

fn parameters(loaded: &Loaded, collective: &Collective) -> Parameters {
    let ratio = match collective.sizes.as_slice() {
        [first, second, ..] if first.get() > 0 => Some(format!("{}(factor)", second.get() / first.get())),
        _ => None,
    };
    // Not what was asked for, but what the times below are of.
    let (warmup, iterations) = played(collective.op, (collective.warmup, collective.iterations));
    Parameters {
        min_bytes: collective.sizes.first().map(|s| s.get()),
        max_bytes: collective.sizes.last().map(|s| s.get()),
        step: ratio,
        warmup_iters: Some(warmup),
        iters: Some(iterations),
        validation: Some(false),
        graph: Some(u32::from(loaded.scenario.software.launch.graph)),
        gpus: Some(loaded.scenario.software.launch.gpus_per_thread),
        ..Parameters::default()
    }
}

fn devices(loaded: &Loaded, collective: &Collective) -> Vec<NcclDevice> {
    let fabric = &loaded.fabric;
    let gpu = loaded.catalogue.gpu(&fabric.node_spec().gpu);
    let gpu = gpu.map_or_else(|_| fabric.node_spec().gpu.clone(), |row| row.name.clone());
    let device = |rank: &u32| {
        let device = fabric.device(*fabric.gpus().get(*rank as usize)?);
        Some(NcclDevice { host: format!("node{}", device.node?), device: device.index, gpu: gpu.clone() })
    };
    collective.group.iter().filter_map(device).collect()
}
