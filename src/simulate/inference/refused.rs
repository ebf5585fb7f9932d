//! What of inference is known without serving: what it is made of, and what can't be done.

use sim_core::engine::Limits;
use sim_core::units::Span;
use sim_report::result::{CallOutline, InferenceOutline, InferencePoolOutline, KernelsOfStep};
use sim_workload::serving::Batch;
use sim_workload::serving::messages::Messages;
use sim_workload::serving::step::Steps;
use sim_workload::step::plan::Call;

use super::super::RunError;
use super::super::caches::Caches;
use super::{names, played, ranks, shown, sizes};
use crate::scenario::{Inference, Loaded, PoolSpec};

/// The first message that can't be sent: in a step that is shown, or of a cache on its way.
pub(in super::super) fn refused(loaded: &Loaded, asked: &Inference) -> Result<(), RunError> {
    let fail = |why: String| RunError::Inference { what: format!("inference {}", asked.title()), why };
    let by_library = loaded.library_network();
    for (pool, name) in asked.pools().zip(names(asked)) {
        let instance = asked.instance(pool);
        let messages = played(loaded, &by_library, asked, pool).map_err(&fail)?;
        for batch in batches(asked, pool, name) {
            let mut calls = instance.calls(&batch).into_iter();
            if let Some(why) = calls.find_map(|counted| messages.refused(&counted.call)) {
                return Err(fail(why));
            }
        }
    }
    let network = loaded.network();
    match &asked.second {
        Some((second, moves)) => {
            let caches = Caches::new((&loaded.fabric, &network), asked, (second, moves), Limits::default());
            caches.refused().map_err(fail)
        }
        None => Ok(()),
    }
}

/// A rank's share of the steps that are shown.
fn batches(asked: &Inference, pool: &PoolSpec, name: &str) -> Vec<Batch> {
    let steps = shown(asked, pool, name, names(asked)).into_iter();
    steps.map(|step| step.batch.share(pool.shape.data)).collect()
}

/// Messages that take no time: what is left are kernels.
struct Nothing;

impl Messages for Nothing {
    fn time(&self, _: &Call) -> Span {
        Span::ZERO
    }
}

impl Inference {
    /// What the workload is made of.
    #[must_use]
    pub fn outline(&self) -> InferenceOutline {
        let names = names(self);
        let pools: Vec<InferencePoolOutline> =
            self.pools().zip(names).map(|(pool, name)| self.outline_of(pool, name)).collect();
        InferenceOutline {
            name: self.title().to_owned(),
            model: self.model.to_string(),
            kernels: self.rates.clone(),
            gpus: pools.iter().map(|pool| pool.instances * pool.gpus).sum(),
            memory_bytes: self.memory.get(),
            pools,
        }
    }

    fn outline_of(&self, pool: &PoolSpec, name: &str) -> InferencePoolOutline {
        let instance = self.instance(pool);
        let steps = Steps::new(&instance, &Nothing);
        let kernels = shown(self, pool, name, names(self)).into_iter().map(|step| KernelsOfStep {
            phase: step.phase.to_owned(),
            sequences: step.sequences,
            tokens: step.tokens,
            kernels_us: steps.time(&step.batch).kernels.as_us(),
        });
        let last = batches(self, pool, name).pop().map(|batch| instance.calls(&batch)).unwrap_or_default();
        let call = |counted: &sim_workload::serving::messages::Counted| CallOutline {
            name: counted.call.name.to_owned(),
            ranks: ranks(pool, counted.call.group),
            bytes: counted.call.bytes.get(),
            count: counted.count,
        };
        InferencePoolOutline {
            pool: name.to_owned(),
            instances: pool.replicas.into(),
            gpus: pool.shape.gpus(),
            sizes: sizes(pool),
            weights_bytes: instance.weights().get(),
            cache_bytes_per_token: instance.cache_per_token().get(),
            cache_tokens: instance.room(self.memory),
            steps: kernels.collect(),
            calls: last.iter().map(call).collect(),
        }
    }
}
