//! What a step is made of, from its sizes alone: memory, messages and how their groups lie, work, the bubble of its schedule.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::units::{Bytes, Span};
use sim_report::result::{StepMemory, StepMemoryPart, StepMessages, StepOutline};
use sim_workload::compute::data::Figures;
use sim_workload::messages::{self, Message, Overlap};
use sim_workload::model::flops::Counted;
use sim_workload::parallel::{Group, Local, Ranks};
use sim_workload::pipeline::EqualTimes;

use crate::scenario::Step;

impl Step {
    /// What the step is made of.
    #[must_use]
    pub fn outline(&self) -> StepOutline {
        let (model, sizes, job) = (&self.model, &self.sizes, self.job());
        let stages = 0..sizes.pipeline;
        let of_rank = stages.clone().map(|stage| Local::of_stage(model, sizes, stage).total()).max().unwrap_or(0);
        let (stage, messages) = self.messages();
        let times: Vec<EqualTimes> = stages.map(|stage| self.kernels(stage)).collect();
        let frozen = self.choices.adapters.is_some();
        let work = model.training_flops(sizes.global_batch, sizes.sequence, Counted { frozen, ..Counted::MODEL });
        let parallelism = [
            ("tp", sizes.tensor),
            ("cp", sizes.context),
            ("pp", sizes.pipeline),
            ("vp", sizes.virtual_stages),
            ("dp", sizes.data),
            ("ep", sizes.expert),
            ("etp", sizes.expert_tensor),
        ];
        let longest = times.iter().map(EqualTimes::work).max().unwrap_or_default();
        StepOutline {
            name: self.title().to_owned(),
            model: model.to_string(),
            sizes: sizes.to_string(),
            order: self.order.to_string(),
            gpus: sizes.gpus,
            parallelism: parallelism.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
            micro_batches: sizes.micros(),
            tokens: sizes.global_batch * sizes.sequence,
            parameters: model.parameters(),
            active_parameters: model.active_parameters(),
            parameters_of_rank: of_rank,
            memory: self.memory(),
            messages,
            messages_of_stage: stage,
            kernels: self.rates.clone(),
            best_kernels: self.best_rates,
            model_tflop: work.as_tera(),
            peak_tflops: self.peak_tflops(),
            kernels_us: Span::from_ps(longest.as_ps().saturating_mul(job.sizes.micros())).as_us(),
            ideal_bubble: self.ideal_bubble(&times),
        }
    }

    /// The dense peak that MFU is of: that of the numbers which products with weights multiply, without any efficiency.
    #[must_use]
    pub fn peak_tflops(&self) -> f64 {
        let device = Figures::builtin().device(&self.device);
        device.map_or(0.0, |device| device.rates(self.number).0.as_tera())
    }

    /// The times of the kernels of `stage` for one micro batch.
    fn kernels(&self, stage: u64) -> EqualTimes {
        let job = self.job();
        let mut out = EqualTimes { forward: Span::ZERO, data: Span::ZERO, weight: Span::ZERO, both: Span::ZERO };
        for chunk in 0..self.sizes.virtual_stages {
            let times = self.machine.chunk(&job, stage, chunk);
            out.forward += times.forward;
            out.data += times.data;
            out.weight += times.weight;
        }
        out.both = out.work();
        out
    }

    /// The idle share by the closed form of the schedule, with the mean of all stages.
    fn ideal_bubble(&self, times: &[EqualTimes]) -> Option<f64> {
        let stages = times.len() as u64;
        if stages < 2 {
            return None;
        }
        let mean = |part: fn(&EqualTimes) -> Span| {
            Span::from_ps(times.iter().map(|t| part(t).as_ps()).fold(0, u64::saturating_add) / stages)
        };
        let mean = EqualTimes {
            forward: mean(|t| t.forward),
            data: mean(|t| t.data),
            weight: mean(|t| t.weight),
            both: mean(|t| t.both),
        };
        let bubble = self.sizes.schedule.bubble(self.sizes.shape(), mean)?.as_us();
        let work = mean.work().as_us() * self.sizes.micros() as f64;
        Some(bubble / (bubble + work).max(f64::MIN_POSITIVE))
    }

    fn memory(&self) -> StepMemory {
        let mut parts: Vec<StepMemoryPart> = self
            .usage
            .parts
            .iter()
            .map(|(name, bytes)| StepMemoryPart { name: (*name).to_owned(), bytes: bytes.get() })
            .collect();
        parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        StepMemory {
            stage: self.usage.stage,
            parts,
            total_bytes: self.usage.total().get(),
            limit_bytes: self.budget.limit().get(),
            gpu_bytes: self.budget.memory.get(),
        }
    }

    /// The messages of the stage whose ranks send most, by kind of group and operation.
    fn messages(&self) -> (u64, Vec<StepMessages>) {
        let job = self.job();
        let sent = |list: &[(Message, u64)]| -> u128 {
            let wire =
                |(m, n): &(Message, u64)| u128::from(m.wire_bytes(m.group.size(&self.sizes)).get()) * u128::from(*n);
            list.iter().map(wire).sum()
        };
        let all = (0..self.sizes.pipeline).map(|stage| (stage, messages::of_stage(&job, stage)));
        // The first of equals.
        let most = all.rev().max_by_key(|(_, list)| sent(list));
        let (Some((stage, list)), Some(ranks)) = (most, self.ranks()) else { return (0, Vec::new()) };
        (stage, self.by_group(&list, &ranks))
    }

    /// On how many rails ranks are; 0 where the network has none.
    fn rails_of(&self, ranks: &[u64]) -> u64 {
        let Some(rails) = &self.rails else { return 0 };
        let of = |rank: &u64| rails.get(usize::try_from(*rank).ok()?).copied();
        ranks.iter().filter_map(of).collect::<BTreeSet<u32>>().len() as u64
    }

    /// Where groups of a kind lie: the one that is spread most, and how many leave their scale-up domain.
    fn place_of(&self, group: Group, ranks: &Ranks) -> StepMessages {
        let mut row = StepMessages::default();
        for members in ranks.groups(group) {
            let spread = self.placement.spread(&members);
            let rails = self.rails_of(&members);
            row.groups += 1;
            row.leaving += u64::from(spread.scales_out());
            if (spread.domains, spread.nodes, rails) > (row.domains, row.nodes, row.rails) {
                (row.domains, row.nodes, row.rails) = (spread.domains, spread.nodes, rails);
            }
        }
        row
    }

    fn by_group(&self, list: &[(Message, u64)], ranks: &Ranks) -> Vec<StepMessages> {
        type Row = (StepMessages, Vec<&'static str>, Vec<Overlap>);
        let mut rows: BTreeMap<(Group, messages::Operation), Row> = BTreeMap::new();
        for (message, count) in list {
            let size = message.group.size(&self.sizes);
            let (row, names, beside) = rows.entry((message.group, message.operation)).or_insert_with(|| {
                let row = StepMessages {
                    group: message.group.name().to_owned(),
                    operation: message.operation.to_string(),
                    ranks: size,
                    ..self.place_of(message.group, ranks)
                };
                (row, Vec::new(), Vec::new())
            });
            row.count += count;
            row.bytes = row.bytes.max(message.bytes.get());
            let wire: Bytes = message.wire_bytes(size);
            row.wire_bytes = row.wire_bytes.saturating_add(wire.get().saturating_mul(*count));
            if !names.contains(&message.name) {
                names.push(message.name);
            }
            if !beside.contains(&message.overlap) {
                beside.push(message.overlap);
            }
        }
        let finish = |(row, names, beside): Row| {
            let words: Vec<&str> = beside.iter().map(|o| words(*o)).collect();
            StepMessages { names: names.join(", "), beside: words.join("; "), ..row }
        };
        rows.into_values().map(finish).collect()
    }
}

/// What a message may run beside, in words.
const fn words(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Nothing => "nothing",
        Overlap::SplitGemm => "its matrix product, if cut",
        Overlap::Attention => "attention of the block before",
        Overlap::OtherTokens => "shared experts",
        Overlap::OtherMicros => "other micro batches",
        Overlap::Backward => "the backward pass",
        Overlap::Forward => "the forward pass",
        Overlap::PreviousUnit => "the unit before",
    }
}
