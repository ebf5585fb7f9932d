//! Kernels of a row's GPUs.

use sim_workload::compute::{Figures, Machine};

use crate::mapping::Case;

/// What is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The part of the laws' rates that kernels reach.
    pub(crate) efficiency: f64,
}

impl Fit {
    pub(crate) const NONE: Self = Self { efficiency: 1.0 };
}

pub(crate) fn machine(case: &Case, fit: Fit) -> Machine {
    let figures = Figures::builtin();
    let device = figures.device(&case.row.gpu).unwrap_or_else(|e| panic!("{e}"));
    let mut machine = Machine::of(device, case.number, case.cluster.memory, figures);
    if case.graph {
        machine.launch = figures.graph_launch;
    }
    let flash_2 = matches!(case.row.family, "torchtitan" | "llm-foundry-fsdp" | "llama3" | "nemo-long-seq");
    if flash_2 && case.row.gpu.starts_with('h') {
        machine.attention = (FLASH_2_ON_HOPPER, FLASH_2_ON_HOPPER);
    }
    if case.row.family == "torchtitan" && case.row.recompute.as_deref() == Some("selective") {
        machine.again = 500_000;
    }
    machine.gradient =
        if matches!(case.row.family, "torchtitan" | "llm-foundry-fsdp") { 2 } else { 2 * case.widths.gradient };
    machine.scaled((fit.efficiency / slowest(case.row.gpus) * 1e6).round() as u64)
}

/// What FlashAttention 2 reaches of an H100's peak: the abstract of FlashAttention 3 (arXiv 2407.08608).
const FLASH_2_ON_HOPPER: u64 = 350_000;

/// GPUs of one node differ by 5 % and more (ml-engineering, accelerator chapter): a range of eight, which is 2.85 σ.
const GPU_SIGMA: f64 = 0.05 / 2.85;

/// How much longer than the median the slowest of `n` GPUs takes, for whom all others wait: the expected largest of n normal numbers.
fn slowest(n: u64) -> f64 {
    if n < 2 {
        return 1.0;
    }
    let root = (2.0 * (n as f64).ln()).sqrt();
    let largest = root - ((n as f64).ln().ln() + (4.0 * std::f64::consts::PI).ln()) / (2.0 * root) + 0.5772 / root;
    (GPU_SIGMA * largest).exp()
}

/// Seconds of the kernels of a step in its first stage, at the laws' rates.
fn alone(case: &Case) -> f64 {
    let (machine, job) = (machine(case, Fit::NONE), case.job());
    let chunks = (0..case.sizes.virtual_stages).map(|chunk| machine.chunk(&job, 0, chunk).total().as_secs());
    chunks.sum::<f64>() * case.sizes.micros() as f64
}

/// Whether a row is published faster than its kernels alone at the best rates known for its numbers.
pub(crate) fn contradict(case: &Case) -> bool {
    case.seconds < alone(case)
}
