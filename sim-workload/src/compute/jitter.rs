//! GPUs that are not equal, and kernels that don't always take as long.
//!
//! Three independent laws, each with random streams of its own by the number of the GPU, so that switching one on moves no other:
//! kernels vary around their time by a log-normal factor; GPUs differ for good by one of their own; a few are slow for good.
//! Sources: docs/workloads.md.

use rand_distr::{Distribution, Exp1, StandardNormal, StandardUniform};
use sim_core::random;
use sim_core::units::Span;

/// The laws. All zero: no jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    /// The scenario's seed.
    pub seed: u64,
    /// The number of the step: kernels of another one vary anew, GPUs stay what they are.
    pub step: u64,
    /// σ of the logarithm of a kernel's time: 0.01 to 0.02 between kernels of one GPU.
    pub kernel_sigma: f64,
    /// σ of the logarithm of a GPU's lasting factor.
    pub gpu_sigma: f64,
    /// Share of GPUs that are slow for good.
    pub straggler_share: f64,
    /// How much longer they take: 0.1 for a tenth.
    pub straggler_slowdown: f64,
}

/// How whole steps vary: `median · exp(N(0, σ²))`, and now and then a stall. What counts as one in the logs is longer than 0.15
/// medians; beyond that its length is drawn from an exponential law with their mean.
///
/// Both are one-sided beside the median of a step that is simulated without jitter: compare medians with it, not means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLaw {
    /// The median step.
    pub median: Span,
    /// Steps in the logs.
    pub steps: u64,
    /// σ of the logarithm of a step.
    pub sigma: f64,
    /// The share of steps with a stall.
    pub stall_share: f64,
    /// The mean length of a stall: what a step with one takes beyond the median.
    pub stall: Span,
}

impl StepLaw {
    /// What step number `step`, of `span` without jitter, takes.
    #[must_use]
    pub fn draw(&self, seed: u64, step: u64, span: Span) -> Span {
        let mut stream = random::stream(seed, "step jitter", step);
        let normal: f64 = StandardNormal.sample(&mut stream);
        let stalls: f64 = StandardUniform.sample(&mut stream);
        let length: f64 = Exp1.sample(&mut stream);
        let least = 0.15 * self.median.as_ps() as f64;
        let beyond = (self.stall.as_ps() as f64 - least).max(0.0);
        let stall = if stalls < self.stall_share { least + beyond * length } else { 0.0 };
        Span::from_ps((span.as_ps() as f64 * (self.sigma * normal).exp() + stall).round() as u64)
    }
}

/// The factors of one GPU, drawn in the order of its kernels.
#[derive(Clone, Debug)]
pub struct GpuJitter<R> {
    lasting: f64,
    sigma: f64,
    stream: R,
}

impl Jitter {
    /// The lasting factor of GPU number `gpu`.
    #[must_use]
    pub fn lasting(&self, gpu: u64) -> f64 {
        let mut factor = 1.0;
        if self.gpu_sigma > 0.0 {
            let normal: f64 = StandardNormal.sample(&mut random::stream(self.seed, "GPU spread", gpu));
            factor *= (self.gpu_sigma * normal).exp();
        }
        if self.is_straggler(gpu) {
            factor *= 1.0 + self.straggler_slowdown.max(0.0);
        }
        factor
    }

    /// Whether GPU number `gpu` is slow for good.
    #[must_use]
    pub fn is_straggler(&self, gpu: u64) -> bool {
        if self.straggler_share <= 0.0 {
            return false;
        }
        let draw: f64 = StandardUniform.sample(&mut random::stream(self.seed, "straggler", gpu));
        draw < self.straggler_share
    }

    /// The factors of GPU number `gpu`.
    #[must_use]
    pub fn gpu(&self, gpu: u64) -> GpuJitter<impl rand::Rng + Clone + core::fmt::Debug + use<>> {
        let seed = if self.step == 0 { self.seed } else { random::mix(self.seed ^ random::mix(self.step)) };
        let stream = random::stream(seed, "kernel jitter", gpu);
        GpuJitter { lasting: self.lasting(gpu), sigma: self.kernel_sigma, stream }
    }
}

impl<R: rand::Rng> GpuJitter<R> {
    /// What a kernel of `span` takes this time.
    pub fn next(&mut self, span: Span) -> Span {
        let mut factor = self.lasting;
        if self.sigma > 0.0 {
            let normal: f64 = StandardNormal.sample(&mut self.stream);
            factor *= (self.sigma * normal).exp();
        }
        if factor == 1.0 { span } else { Span::from_ps((span.as_ps() as f64 * factor).round() as u64) }
    }
}
