//! What is known of published rows beside their time: shares of the peak that their publishers name, and how rows of one model follow from each
//! other. These hold the rows and the operations that are counted, not the simulation.

use sim_workload::compute::Figures;
use sim_workload::model::flops::Counted;

use crate::cases;
use crate::mapping::Case;

fn case(family: &str, name: &str) -> Case {
    let mut all = cases().0.into_iter();
    all.find(|c| c.row.family == family && c.row.name == name).unwrap_or_else(|| panic!("{family} {name}"))
}

/// The model's operations over what the GPUs could do in 16 bits in the published time, in percent.
fn utilisation(case: &Case, counted: Counted) -> f64 {
    let sizes = &case.sizes;
    let flops = case.model.training_flops(sizes.global_batch, sizes.sequence, counted).get() as f64;
    let device = Figures::builtin().device(&case.row.gpu).unwrap();
    let peak = device.rates(case.number).0.get() as f64;
    flops / (case.seconds * case.row.gpus as f64 * peak) * 100.0
}

/// Shares of the peak as published: Llama 3 (arXiv 2407.21783, table 4: 43 and 38 %), llm-foundry's table of benchmarks (MPT-30B: 44 % on 32
/// H100, 53 to 60 % on A100), DeepSeek-V3 in Megatron-Bridge's tables (about 26 % of the peak in 8 bits on GB200).
#[test]
fn published_utilisation() {
    for (family, name, counted, low, high) in [
        ("llama3", "405b-8192-cp1", Counted::FULL, 42.5, 44.0),
        ("llama3", "405b-16384-cp16", Counted::FULL, 37.5, 39.0),
        ("llm-foundry-fsdp", "mpt30b-h100-32", Counted::FULL, 43.0, 45.0),
        ("llm-foundry-fsdp", "mpt30b-a100-8", Counted::FULL, 53.0, 60.0),
        ("llm-foundry-fsdp", "mpt70b-a100-64", Counted::FULL, 53.0, 60.0),
        ("megatron-bridge", "2608-deepseek-v3-gb200-256-mxfp8-gbs4096-tp1pp4cp1ep64", Counted::MODEL, 25.0, 27.0),
    ] {
        let share = utilisation(&case(family, name), counted);
        println!("{family} {name}: {share:.1} %");
        assert!((low..=high).contains(&share), "{family} {name}: {share} %");
    }
}

/// Llama 3.1 405B on three sizes of one machine: (m + 7/8)·0.1893 s + 0.43 s within 0.2 %, m the micro batches of a step.
#[test]
fn one_model_on_three_sizes() {
    for name in
        ["v5.0-nvidia-eos-dfw-n64-ngc25-01", "v5.0-nvidia-eos-dfw-n304-ngc25-01", "v5.0-nvidia-eos-dfw-n320-ngc25-01"]
    {
        let case = case("mlperf-llama31-405b", name);
        let law = (case.sizes.micros() as f64 + 7.0 / 8.0) * 0.1893 + 0.43;
        assert!((law / case.seconds - 1.0).abs() < 0.002, "{name}: {law}");
    }
}
