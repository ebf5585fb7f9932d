//! The published steps as they were published: `tests/data/steps/<family>.toml`.

use serde::Deserialize;

/// A published step. What is not stated is absent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The time of the step, where it is published or follows from a rate.
    pub(crate) seconds: Option<f64>,
    /// What was published, if not the time.
    pub(crate) figure: Option<String>,
    /// Logged steps, and percentiles of theirs.
    pub(crate) steps: Option<u64>,
    pub(crate) p05: Option<f64>,
    pub(crate) p95: Option<f64>,
    /// Catalogue name of the GPU, how many, and how many a node.
    pub(crate) gpu: String,
    pub(crate) gpus: u64,
    pub(crate) node: u64,
    pub(crate) network: Option<String>,
    pub(crate) model: String,
    pub(crate) seq: u64,
    pub(crate) gbs: Option<u64>,
    pub(crate) mbs: Option<u64>,
    /// Sequences of a data-parallel rank.
    pub(crate) local_batch: Option<u64>,
    pub(crate) tp: Option<u64>,
    pub(crate) cp: Option<u64>,
    pub(crate) pp: Option<u64>,
    pub(crate) vp: Option<u64>,
    pub(crate) ep: Option<u64>,
    pub(crate) dp: Option<u64>,
    pub(crate) fsdp: Option<u64>,
    /// `bf16`, `fp16`, `fp8`, `fp8-tensorwise`, `fp8-rowwise`, `mxfp8`, `fp4`, `nvfp4`.
    pub(crate) number: Option<String>,
    pub(crate) recompute: Option<String>,
    pub(crate) order: Option<String>,
    pub(crate) schedule: Option<String>,
    pub(crate) tp_overlap: Option<bool>,
    pub(crate) grad_overlap: Option<bool>,
    pub(crate) param_overlap: Option<bool>,
    pub(crate) fp8_gather: Option<bool>,
    pub(crate) graph: Option<bool>,
    pub(crate) bucket_mb: Option<u64>,
    pub(crate) segment: Option<u64>,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// A: nothing that matters is to be guessed; B: one or two things; C: several.
    pub(crate) grade: String,
    pub(crate) source: Option<String>,
    #[serde(skip)]
    pub(crate) family: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u64,
    row: Vec<Row>,
}

const FAMILIES: &[(&str, &str)] = &[
    ("mlperf-llama31-405b", include_str!("../data/steps/mlperf-llama31-405b.toml")),
    ("mlperf-llama31-8b", include_str!("../data/steps/mlperf-llama31-8b.toml")),
    ("mlperf-llama2-70b-lora", include_str!("../data/steps/mlperf-llama2-70b-lora.toml")),
    ("mlperf-gpt3", include_str!("../data/steps/mlperf-gpt3.toml")),
    ("megatron-bridge", include_str!("../data/steps/megatron-bridge.toml")),
    ("nemo-long-seq", include_str!("../data/steps/nemo-long-seq.toml")),
    ("megatron-sc21", include_str!("../data/steps/megatron-sc21.toml")),
    ("megatron-seqsel", include_str!("../data/steps/megatron-seqsel.toml")),
    ("megascale", include_str!("../data/steps/megascale.toml")),
    ("llama3", include_str!("../data/steps/llama3.toml")),
    ("torchtitan", include_str!("../data/steps/torchtitan.toml")),
    ("llm-foundry-fsdp", include_str!("../data/steps/llm-foundry-fsdp.toml")),
    ("deepseek-v3", include_str!("../data/steps/deepseek-v3.toml")),
];

impl Row {
    pub(crate) fn tagged(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }
}

/// All rows, family by family.
pub(crate) fn all() -> Vec<Row> {
    let mut out = Vec::new();
    for (family, text) in FAMILIES {
        let file: File = toml::from_str(text).unwrap_or_else(|e| panic!("{family}: {e}"));
        assert_eq!(file.schema, 1, "{family}");
        out.extend(file.row.into_iter().map(|row| Row { family, ..row }));
    }
    out
}

/// All families, in the order of the pages.
pub(crate) fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

impl Row {
    /// The release that a row of Megatron-Bridge is of: rows of two differ by software.
    pub(crate) fn source_release(&self) -> &str {
        if self.family == "megatron-bridge" { self.source.as_deref().unwrap_or_default() } else { "" }
    }

    /// What makes two rows different configurations.
    pub(crate) fn shape(&self) -> [u64; 12] {
        let or = |v: Option<u64>| v.unwrap_or(0);
        let tags = u64::from(self.tagged("async-tp")) + 2 * u64::from(self.tagged("compile"));
        [
            self.gpus,
            self.seq,
            or(self.gbs),
            or(self.mbs),
            or(self.tp),
            or(self.cp),
            or(self.pp),
            or(self.vp),
            or(self.ep),
            or(self.fsdp),
            tags,
            match self.recompute.as_deref() {
                None => 0,
                Some("full") => 1,
                Some(_) => 2,
            },
        ]
    }
}
