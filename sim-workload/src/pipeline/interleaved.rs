//! Interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473): v chunks a stage, p micro batches at a time through each.
//!
//! The order is that of Megatron-LM's core/pipeline_parallel/schedules.py: forwards go through chunk after chunk in groups of p
//! micro batches, 2(p − 1 − i) + (v − 1)p of them before the first backward of stage i.

use sim_core::units::Span;

use super::{Cell, EqualTimes, Schedule, ScheduleFault, Shape, Slot};
use crate::nearest::Nearest;

/// 1F1B over chunks.
#[derive(Debug)]
pub struct Interleaved;

impl Interleaved {
    fn warm(shape: Shape, stage: u64) -> u64 {
        let Shape { stages, chunks, micros } = shape;
        (2 * (stages - 1 - stage) + (chunks - 1) * stages).min(chunks * micros)
    }

    /// The cell of the `k`-th forward; that of the `k`-th backward is in the chunk counted from the end.
    fn cell(shape: Shape, k: u64) -> Cell {
        let group = shape.stages * shape.chunks;
        Cell { micro: k / group * shape.stages + k % shape.stages, chunk: k % group / shape.stages }
    }
}

impl Schedule for Interleaved {
    fn name(&self) -> &'static str {
        "interleaved"
    }

    fn can(&self, stages: u64, chunks: u64, micros: u64) -> Result<(), ScheduleFault> {
        let schedule = self.name();
        if stages == 1 && chunks > 1 {
            let near = Nearest::to(stages, [2, 4]);
            let values = format!("pp = {stages}, vp = {chunks}");
            return Err(ScheduleFault::Rule { schedule, rule: "pp > 1", values, key: "pp", near });
        }
        if !micros.is_multiple_of(stages) {
            let near = Nearest::multiple(micros, stages);
            let values = format!("m = global_batch / (dp · micro_batch) = {micros}, pp = {stages}");
            return Err(ScheduleFault::Rule { schedule, rule: "m % pp = 0", values, key: "m", near });
        }
        Ok(())
    }

    fn slots(&self, shape: Shape, stage: u64) -> Vec<Slot> {
        let total = shape.chunks * shape.micros;
        let warm = Self::warm(shape, stage);
        let forward = |k| Slot::Forward(Self::cell(shape, k));
        let mut out: Vec<Slot> = (0..warm).map(forward).collect();
        for k in 0..total {
            if k + warm < total {
                out.push(forward(k + warm));
            }
            let cell = Self::cell(shape, k);
            out.push(Slot::Backward(Cell { chunk: shape.chunks - 1 - cell.chunk, ..cell }));
        }
        out
    }

    /// (p − 1)(F + Bd + W)/v.
    fn bubble(&self, shape: Shape, times: EqualTimes) -> Option<Span> {
        Some(Span::from_ps((times.work() * (shape.stages - 1)).as_ps() / shape.chunks))
    }

    /// Of the first stage p·v + p − 1 chunks: p(1 + (p−1)/(p·v)) micro batches.
    fn in_flight(&self, shape: Shape, stage: u64) -> u64 {
        (Self::warm(shape, stage) + 1).min(shape.chunks * shape.micros)
    }
}
