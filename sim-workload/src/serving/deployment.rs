//! Who serves: pools of instances that are alike, what each can hold, and how caches go from one pool to the other.

use std::rc::Rc;

use sim_core::units::Span;

use super::step::Steps;

/// Which work comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Steps of whole prompts before steps that decode.
    PrefillFirst,
    /// Each step decodes all, and fills up with parts of prompts.
    #[default]
    Chunked,
}

/// What an instance can hold and do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a batch, at least one.
    pub sequences: u64,
    /// Tokens of a step, at least one; a whole prompt may exceed it.
    pub tokens: u64,
    /// Tokens in the cache.
    pub cache: u64,
}

/// Instances that are alike.
#[derive(Debug)]
pub struct Pool<'a> {
    /// Their steps.
    pub steps: Steps<'a>,
    /// How many, at least one.
    pub count: u32,
    /// Of each.
    pub limits: Limits,
    /// Which work comes first.
    pub order: Order,
}

/// What a cache takes of a link on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The link, or whatever else caches share, by a number.
    pub link: u32,
    /// How long a token keeps it busy, picoseconds.
    pub ps_per_token: f64,
}

/// How the cache goes from one pool to the other. Ranks that have requests of their own together are a *holder*: an instance of d-fold
/// data parallelism has d, which are numbered instance by instance in each pool.
pub trait Handover {
    /// The time that the cache of `tokens` tokens takes from a holder that made it to one that decodes when nothing else is sent.
    fn time(&self, from: u32, to: u32, tokens: u64) -> Span;
    /// What it takes of each link on that way, which caches share.
    fn loads(&self, from: u32, to: u32) -> Rc<[Load]>;
    /// Whether layers are sent as soon as they are made.
    fn by_layer(&self) -> bool;
}

/// Who serves.
#[derive(Clone, Copy)]
pub enum Deployment<'a> {
    /// One pool does both.
    Together(&'a Pool<'a>),
    /// One pool for prompts, one for answers.
    Apart {
        /// For prompts.
        prefill: &'a Pool<'a>,
        /// For answers.
        decode: &'a Pool<'a>,
        /// Between them.
        handover: &'a dyn Handover,
    },
}

impl core::fmt::Debug for Deployment<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Together(_) => "Together",
            Self::Apart { .. } => "Apart",
        })
    }
}

impl<'a> Deployment<'a> {
    /// The pools, that for prompts first.
    pub fn pools(&self) -> impl Iterator<Item = &'a Pool<'a>> {
        let (first, second) = match *self {
            Self::Together(pool) => (pool, None),
            Self::Apart { prefill, decode, .. } => (prefill, Some(decode)),
        };
        core::iter::once(first).chain(second)
    }

    /// All GPUs.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.pools().map(|p| u64::from(p.count) * p.steps.instance.shape.gpus()).sum()
    }
}
