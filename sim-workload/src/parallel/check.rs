//! The relations between sizes, and between sizes and a model.

use crate::model::{Attention, Model};
use crate::nearest::{Nearest, divisors};
use crate::pipeline::{self, Schedule, ScheduleFault};

use super::SizeFault;
use super::sizes::{ContextKind, Sizes, SizesSpec, Zero};

const MOST_GPUS: u64 = 1 << 22;
const MOST_TOKENS: u64 = 1 << 28;
/// Kernels and messages of a rank, and of all ranks, that can be gone through: some gigabytes for what waits for what (some hundred
/// bytes each, kept for a stage), and some hours at a few million a second.
const MOST_OPERATIONS: (u64, u64) = (20_000_000, 4_000_000_000);
/// About so many of a layer and micro batch: two passes, six kernels and messages in each.
const OPERATIONS_OF_LAYER: u64 = 12;

impl SizesSpec {
    /// Checks the sizes against each other and against `model`.
    ///
    /// # Errors
    /// All faults at once; each names the relation that does not hold and the nearest values that would do.
    pub fn check(&self, model: &Model) -> Result<Sizes, Vec<SizeFault>> {
        let mut faults = Vec::new();
        self.check_range(model, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let data = self.check_product(&mut faults);
        // What is left for data parallelism is not known then: what depends on it would blame keys that are right.
        let known = faults.is_empty() || self.data.is_some();
        let before = faults.len();
        self.check_model(model, &mut faults);
        if faults.len() == before {
            self.check_tokens(&mut faults);
        }
        self.check_experts(model, data, known, &mut faults);
        let micros = if known { self.check_batch(data, &mut faults) } else { 1 };
        let schedule = self.check_schedule(micros, known, &mut faults);
        let layers = self.split.layers(model.layers, self.pipeline, self.virtual_stages);
        let shard = if known { self.check_shard(data, &mut faults) } else { None };
        if faults.is_empty() {
            self.check_operations(model, micros, &mut faults);
        }
        match (layers, schedule, shard) {
            (Ok(chunk_layers), Some(schedule), Some(shard)) if faults.is_empty() => Ok(Sizes {
                gpus: self.gpus,
                tensor: self.tensor,
                context: self.context,
                context_kind: self.context_kind,
                expert: self.expert,
                expert_tensor: self.expert_tensor,
                data,
                pipeline: self.pipeline,
                virtual_stages: self.virtual_stages,
                schedule,
                chunk_layers,
                sequence_parallel: self.sequence_parallel.unwrap_or(self.tensor > 1),
                zero: self.zero,
                shard,
                recompute: self.recompute,
                fused_attention: self.fused_attention,
                micro_batch: self.micro_batch,
                global_batch: self.global_batch,
                sequence: self.sequence,
            }),
            (layers, ..) => {
                faults.extend(layers.err());
                Err(faults)
            }
        }
    }

    fn check_range(&self, model: &Model, faults: &mut Vec<SizeFault>) {
        let keys = [
            ("gpus", self.gpus, MOST_GPUS),
            ("tp", self.tensor, MOST_GPUS),
            ("cp", self.context, MOST_GPUS),
            ("ep", self.expert, MOST_GPUS),
            ("etp", self.expert_tensor, MOST_GPUS),
            ("dp", self.data.unwrap_or(1), MOST_GPUS),
            ("pp", self.pipeline, 1 << 14),
            ("vp", self.virtual_stages, 1 << 14),
            ("shard", self.shard.unwrap_or(1), MOST_GPUS),
            ("micro_batch", self.micro_batch, MOST_TOKENS),
            ("global_batch", self.global_batch, 1 << 32),
            ("sequence", self.sequence, MOST_TOKENS),
        ];
        for (key, value, limit) in keys {
            if value == 0 {
                faults.push(SizeFault::Zero { key });
            } else if value > limit {
                faults.push(SizeFault::Absurd { key, value: value.into(), limit: limit.into() });
            }
        }
        if !faults.is_empty() {
            return;
        }
        let mut most = |key, value: u128, limit: u128| {
            if value > limit {
                faults.push(SizeFault::Absurd { key, value, limit });
            }
        };
        let tokens = u128::from(self.micro_batch) * u128::from(self.sequence);
        most("micro_batch · sequence", tokens, MOST_TOKENS.into());
        most("micro_batch · sequence · the widest of a layer's tensors", tokens * self.widest(model), 1 << 57);
        if !self.fused_attention {
            most(
                "heads · micro_batch · sequence²",
                tokens * u128::from(self.sequence) * u128::from(model.heads),
                1 << 57,
            );
        }
        most("pp · vp", u128::from(self.pipeline) * u128::from(self.virtual_stages), 1 << 14);
    }

    /// Elements of a token in the widest tensor of a layer.
    fn widest(&self, model: &Model) -> u128 {
        let wide = u128::from;
        let (width_qk, width_v) = model.head_widths();
        let g = wide(model.ffn_matrices());
        let experts = model.experts.map_or(0, |e| {
            let copies = wide(e.top_k) * wide(self.expert_tensor);
            (copies * wide(model.hidden.max(e.ffn)) * g).max(wide(e.shared) * wide(e.ffn) * g).max(wide(e.experts))
        });
        let latent = match model.attention {
            Attention::Latent { query_rank, kv_rank, .. } => wide(query_rank.unwrap_or(0)) + wide(kv_rank),
            Attention::Grouped { .. } => 0,
        };
        [
            wide(model.heads) * 2 * (wide(width_qk) + wide(width_v)),
            wide(model.ffn) * g,
            wide(model.vocab) + wide(model.hidden),
            2 * wide(model.hidden) + latent,
            experts,
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }

    /// The data parallelism that makes up the GPUs.
    fn check_product(&self, faults: &mut Vec<SizeFault>) -> u64 {
        let wide = u128::from;
        let model_ranks = wide(self.tensor) * wide(self.context) * wide(self.pipeline);
        let data = self.data.unwrap_or_else(|| u64::try_from(wide(self.gpus) / model_ranks).unwrap_or(1).max(1));
        let product = model_ranks * wide(data);
        if product != wide(self.gpus) {
            let mut choices = Vec::new();
            for (key, value) in [("dp", data), ("pp", self.pipeline), ("cp", self.context), ("tp", self.tensor)] {
                let others = if self.data.is_some() { product } else { model_ranks } / wide(value);
                if (key == "dp" && self.data.is_none()) || !wide(self.gpus).is_multiple_of(others) {
                    continue;
                }
                let rest = self.gpus / u64::try_from(others).unwrap_or(u64::MAX).max(1);
                if self.data.is_some() {
                    choices.push(format!("{key} = {rest}"));
                } else if value > 1 {
                    // Data parallelism takes what is left.
                    choices.push(format!("{key} = {}", Nearest::divisor(value, rest, |_| true)));
                }
            }
            if self.data.is_some() {
                choices.push(format!("gpus = {product}"));
            } else {
                let below = wide(self.gpus) / model_ranks * model_ranks;
                if below > 0 {
                    choices.push(format!("gpus = {below}"));
                }
                choices.push(format!("gpus = {}", (wide(self.gpus) / model_ranks + 1) * model_ranks));
            }
            choices.dedup();
            faults.push(SizeFault::Product {
                tensor: self.tensor,
                context: self.context,
                pipeline: self.pipeline,
                data,
                product,
                gpus: self.gpus,
                choices,
            });
        }
        data
    }

    fn check_model(&self, model: &Model, faults: &mut Vec<SizeFault>) {
        let t = self.tensor;
        let mut divide = |rule, name: &str, value: u64, key, by: u64, keep: &dyn Fn(u64) -> bool| {
            if !value.is_multiple_of(by) {
                let near = Nearest::divisor(by, value, keep);
                faults.push(SizeFault::Rule { rule, values: format!("{name} = {value}, {key} = {by}"), key, near });
            }
        };
        divide("heads % tp = 0", "heads", model.heads, "tp", t, &|_| true);
        divide("hidden % tp = 0", "hidden", model.hidden, "tp", t, &|d| model.heads.is_multiple_of(d));
        if model.ffn > 0 {
            divide("ffn % tp = 0", "ffn", model.ffn, "tp", t, &|d| model.heads.is_multiple_of(d));
        }
        if let Some(experts) = model.experts {
            divide("expert_ffn % etp = 0", "expert_ffn", experts.ffn, "etp", self.expert_tensor, &|_| true);
        }
        let kv = model.kv_heads();
        let fits = |t: u64| kv.is_multiple_of(t) || t.is_multiple_of(kv);
        if !fits(t) {
            let near = Nearest::divisor(t, model.heads, fits);
            let values = format!("kv_heads = {kv}, tp = {t}");
            faults.push(SizeFault::Rule { rule: "kv_heads % tp = 0 or tp % kv_heads = 0", values, key: "tp", near });
        }
        if self.context_kind == ContextKind::AllToAll && model.heads.is_multiple_of(t) {
            let heads = model.heads / t;
            if !heads.is_multiple_of(self.context) {
                let near = Nearest::divisor(self.context, heads, |_| true);
                let values = format!("heads / tp = {heads}, cp = {}", self.context);
                faults.push(SizeFault::Rule { rule: "(heads / tp) % cp = 0", values, key: "cp", near });
            }
        }
    }

    fn check_experts(&self, model: &Model, data: u64, known: bool, faults: &mut Vec<SizeFault>) {
        let Some(experts) = model.experts else {
            if self.expert > 1 || self.expert_tensor > 1 {
                let hint = "leave `ep` and `etp` at 1".to_owned();
                faults.push(SizeFault::Needs { what: "expert parallelism", needs: "a model with experts", hint });
            }
            return;
        };
        let fits = |e: u64| experts.experts.is_multiple_of(e);
        if self.expert > experts.experts {
            let near = Nearest::divisor(self.expert, experts.experts, |_| true);
            let values = format!("ep = {}, experts = {}", self.expert, experts.experts);
            faults.push(SizeFault::Rule { rule: "ep <= experts", values, key: "ep", near });
        } else if !fits(self.expert) {
            let near = Nearest::divisor(self.expert, experts.experts, |_| true);
            faults.push(SizeFault::Experts { experts: experts.experts, ranks: self.expert, near });
        }
        let ranks = u128::from(self.tensor) * u128::from(self.context) * u128::from(data);
        let parts = u128::from(self.expert) * u128::from(self.expert_tensor);
        if known && !ranks.is_multiple_of(parts) {
            let per = u64::try_from(ranks).unwrap_or(1) / self.expert_tensor.max(1);
            let near = Nearest::divisor(self.expert, per.min(MOST_GPUS), fits);
            let values = format!("{ranks} ranks of a stage, ep · etp = {parts}");
            faults.push(SizeFault::Rule { rule: "(tp · cp · dp) % (ep · etp) = 0", values, key: "ep", near });
        }
        if self.tensor > 1 && self.sequence_parallel == Some(false) && self.expert > 1 {
            let hint = "leave `sequence_parallel` out, or set `tp = 1` or `ep = 1`".to_owned();
            faults.push(SizeFault::Needs { what: "`ep > 1` with `tp > 1`", needs: "sequence parallelism", hint });
        }
    }

    fn check_tokens(&self, faults: &mut Vec<SizeFault>) {
        let s = self.sequence;
        let sequence_parallel = self.sequence_parallel.unwrap_or(self.tensor > 1);
        if self.sequence_parallel == Some(true) && self.tensor == 1 {
            let hint = "leave `sequence_parallel` out".to_owned();
            faults.push(SizeFault::Needs { what: "sequence parallelism", needs: "`tp > 1`", hint });
        }
        // A ring balances the causal mask by two pieces of a sequence a rank.
        let balanced = matches!(self.context_kind, ContextKind::Ring | ContextKind::PyTorch);
        let pieces = if self.context == 1 {
            1
        } else if balanced {
            2 * u128::from(self.context)
        } else {
            u128::from(self.context)
        };
        let parts = pieces * u128::from(if sequence_parallel { self.tensor } else { 1 });
        if !u128::from(s).is_multiple_of(parts) {
            let rule = match (balanced, sequence_parallel) {
                (true, true) => "sequence % (2 · cp · tp) = 0",
                (true, false) => "sequence % (2 · cp) = 0",
                (_, true) => "sequence % (cp · tp) = 0",
                (_, false) => "sequence % cp = 0",
            };
            let rule = if self.context == 1 { "sequence % tp = 0" } else { rule };
            let near = Nearest::multiple(s, u64::try_from(parts).unwrap_or(u64::MAX));
            let values = format!("sequence = {s}, cp = {}, tp = {}", self.context, self.tensor);
            faults.push(SizeFault::Rule { rule, values, key: "sequence", near });
        }
    }

    /// Micro batches of a step and data-parallel rank.
    fn check_batch(&self, data: u64, faults: &mut Vec<SizeFault>) -> u64 {
        let each = data * self.micro_batch;
        if !self.global_batch.is_multiple_of(each) {
            let near = Nearest::multiple(self.global_batch, each);
            let values =
                format!("global_batch = {}, dp = {data}, micro_batch = {}", self.global_batch, self.micro_batch);
            faults.push(SizeFault::Rule {
                rule: "global_batch % (dp · micro_batch) = 0",
                values,
                key: "global_batch",
                near,
            });
        }
        (self.global_batch / each).max(1)
    }

    /// Micro batches that are not known are no fault of the schedule's.
    fn check_schedule(&self, micros: u64, known: bool, faults: &mut Vec<SizeFault>) -> Option<&'static dyn Schedule> {
        let default = if self.virtual_stages > 1 { "interleaved" } else { "1f1b" };
        let schedule = match pipeline::by_name(self.schedule.as_deref().unwrap_or(default)) {
            Ok(schedule) => schedule,
            Err(fault) => {
                faults.push(fault.into());
                return None;
            }
        };
        // A single stage has no schedule.
        if self.pipeline == 1 && self.virtual_stages == 1 {
            return pipeline::by_name(default).ok();
        }
        if let Err(fault) = schedule.can(self.pipeline, self.virtual_stages, micros) {
            if known || !matches!(fault, ScheduleFault::Rule { key: "m", .. }) {
                faults.push(fault.into());
            }
            return None;
        }
        Some(schedule)
    }

    /// Refuses steps of more operations than can be gone through.
    fn check_operations(&self, model: &Model, micros: u64, faults: &mut Vec<SizeFault>) {
        let layers = model.layers.div_ceil(self.pipeline) + 2 * self.virtual_stages;
        let of_micro = u128::from(layers) * u128::from(OPERATIONS_OF_LAYER);
        let each = u128::from(micros) * of_micro;
        let all = each * u128::from(self.gpus);
        let (most, most_of_all) = MOST_OPERATIONS;
        if each > u128::from(most) || all > u128::from(most_of_all) {
            let fits = u128::from(most.min(most_of_all / self.gpus)) / of_micro;
            let fits = u64::try_from(fits).unwrap_or(u64::MAX);
            faults.push(SizeFault::Operations { micros, layers, each, all, most, most_of_all, fits });
        }
    }

    fn check_shard(&self, data: u64, faults: &mut Vec<SizeFault>) -> Option<u64> {
        let ranks = data.saturating_mul(self.context);
        let shard = self.shard.unwrap_or(ranks);
        if self.zero == Zero::Replicated && self.shard.is_some_and(|s| s > 1) {
            let hint = "set `zero` to 1, 2 or 3, or leave `shard` out".to_owned();
            faults.push(SizeFault::Needs { what: "`shard`", needs: "something to divide", hint });
            return None;
        }
        if !ranks.is_multiple_of(shard) {
            let near = Nearest::to(shard, divisors(ranks.min(1 << 40)));
            let values = format!("dp · cp = {ranks}, shard = {shard}");
            faults.push(SizeFault::Rule { rule: "(dp · cp) % shard = 0", values, key: "shard", near });
            return None;
        }
        Some(shard)
    }
}
