//! The time of kernels on a GPU.
//!
//! `t = max(flops/(peak·η), bytes/(memory·ηm)) + launch` for each kernel. η is the best share that a search over shapes found, less
//! what tiles leave idle in the last wave ([`law`]), or a share by the size of the product (Calculon). A measured profile
//! takes the place of the law for the kernels that it has.

pub mod data;
pub mod jitter;
pub mod law;
pub mod profile;
pub mod slowdown;

#[cfg(test)]
mod tests;

use sim_core::units::{Bytes, Rate, Span};

pub use data::{Device, Figures, UnknownDevice};
pub use jitter::Jitter;
pub use law::{Curve, MatrixLaw, Tiles};
pub use profile::{Idle, Instead, Profile, ProfileError, asked};
pub use slowdown::Slowdown;

use crate::job::Job;
use crate::model::Model;
use crate::model::kernels::{Kernel, Pass, Share, Work};
use crate::units::{FlopRate, Flops};

/// The numbers that matrix products multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Number {
    /// 16 bits (bf16, fp16).
    #[default]
    Bf16,
    /// 8 bits.
    Fp8,
    /// 4 bits; in memory a scale of 8 for 16 of them besides.
    Fp4,
}

impl Number {
    /// Bits of an element in memory, scales included.
    #[must_use]
    pub const fn bits(self) -> Bits {
        match self {
            Self::Bf16 => Bits(32),
            Self::Fp8 => Bits(16),
            Self::Fp4 => Bits(9),
        }
    }
}

/// Memory of an element in half bits, so that shared scales count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits(u64);

impl Bits {
    /// Bytes of so many elements, rounded up.
    #[must_use]
    pub const fn of(self, elements: u64) -> Bytes {
        let bytes = (elements as u128 * self.0 as u128).div_ceil(16);
        Bytes::new(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
}

/// A GPU as kernels meet it. Shares are millionths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Peak rate of dense matrix products in 16 bits.
    pub peak: FlopRate,
    /// The same for the products of weights, if they are in 8 bits.
    pub peak_weights: FlopRate,
    /// Peak rate of the memory.
    pub memory: Rate,
    /// The law of matrix products.
    pub matrix: MatrixLaw,
    /// Shares of the memory's rate by the bytes of a kernel.
    pub memory_share: Curve,
    /// Shares of [`peak`](Self::peak) that the core of attention reaches, forward and backward.
    pub attention: (u64, u64),
    /// Grouped products with fewer rows a group than this reach the second part of the dense rate.
    pub grouped: (u64, u64),
    /// Bytes that are moved to put an element in narrow numbers, before a product in them.
    pub narrowing: u64,
    /// Bytes that a gradient by weights moves for each parameter: 8 where it is added to one in fp32 in the product itself.
    pub gradient: u64,
    /// The part of matrix products, in millionths, whose forward pass is done again for the gradient by their inputs: 500,000 where every
    /// other one is (torchtitan's selective recomputation).
    pub again: u64,
    /// Between kernels.
    pub launch: Span,
    /// Times that were measured.
    pub profile: Profile,
}

/// The times of a layer, or of embedding or head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerTimes {
    /// Forward.
    pub forward: Span,
    /// Gradient by the inputs, with what is recomputed for it.
    pub data: Span,
    /// Gradient by the weights.
    pub weight: Span,
}

impl LayerTimes {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Span {
        self.forward + self.data + self.weight
    }
}

impl core::ops::Add for LayerTimes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self { forward: self.forward + rhs.forward, data: self.data + rhs.data, weight: self.weight + rhs.weight }
    }
}

impl core::ops::Mul<u64> for LayerTimes {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self { forward: self.forward * rhs, data: self.data * rhs, weight: self.weight * rhs }
    }
}

impl Machine {
    /// A machine that reaches its peaks, without launches: bounds.
    #[must_use]
    pub fn ideal(peak: FlopRate, memory: Rate) -> Self {
        Self {
            peak,
            peak_weights: peak,
            memory,
            matrix: MatrixLaw::Share(Curve::flat(1_000_000)),
            memory_share: Curve::flat(1_000_000),
            attention: (1_000_000, 1_000_000),
            grouped: (0, 1_000_000),
            narrowing: 0,
            gradient: 2,
            again: 0,
            launch: Span::ZERO,
            profile: Profile::default(),
        }
    }

    /// The GPU `device` with its best shares and tiles, weights multiplied as `number`.
    #[must_use]
    pub fn of(device: &Device, number: Number, memory: Rate, figures: &Figures) -> Self {
        let (peak, _) = device.rates(Number::Bf16);
        let (peak_weights, best) = device.rates(number);
        let share = best.get() as f64 / peak_weights.get().max(1) as f64;
        Self {
            peak,
            peak_weights,
            memory,
            matrix: MatrixLaw::Tiles(Tiles {
                best: (share * 1e6).round() as u64,
                processors: device.processors,
                ..figures.tiles
            }),
            memory_share: figures.memory.clone(),
            attention: device.attention,
            grouped: figures.grouped,
            narrowing: if number == Number::Bf16 { 0 } else { figures.narrowing },
            gradient: figures.gradient,
            again: 0,
            launch: figures.launch,
            profile: Profile::default(),
        }
    }

    /// The same GPU by Calculon's shares: of the peak of `number` by the operations of a product. Launches are in these shares.
    #[must_use]
    pub fn by_size(device: &Device, number: Number, memory: Rate, figures: &Figures) -> Self {
        Self {
            matrix: MatrixLaw::Share(figures.matrix.clone()),
            launch: Span::ZERO,
            ..Self::of(device, number, memory, figures)
        }
    }

    /// The same with all rates of kernels at `millionths` of theirs: what a fit to measured steps gives. Launches stay.
    #[must_use]
    pub fn scaled(self, millionths: u64) -> Self {
        let memory = u128::from(self.memory.get()) * u128::from(millionths) / 1_000_000;
        Self {
            peak: self.peak.scaled(millionths),
            peak_weights: self.peak_weights.scaled(millionths),
            memory: Rate::bytes_per_sec(u64::try_from(memory).unwrap_or(u64::MAX)),
            ..self
        }
    }

    /// The time of a kernel in a pass, elements of `width` bytes; nothing if the pass has no work for it.
    #[must_use]
    pub fn kernel(&self, kernel: &Kernel, pass: Pass, width: u64) -> Span {
        if let Some(span) = self.profile.get(kernel, pass) {
            return span;
        }
        let flops = kernel.flops(pass);
        let mut bytes = kernel.bytes(pass, width);
        if pass == Pass::WeightGradient && kernel.has_weights() {
            bytes = Bytes::new(bytes.get() - kernel.weights() * width + kernel.weights() * self.gradient);
        }
        if flops == Flops::ZERO && bytes == Bytes::ZERO {
            return Span::ZERO;
        }
        let work = self.operations(kernel, pass, flops);
        let narrow = self.narrow(kernel, pass);
        let again = match kernel.work {
            Work::Gemm { .. } | Work::Grouped { .. }
                if self.again > 0 && pass == Pass::DataGradient && !kernel.is_wide() =>
            {
                let forward = u128::from(self.kernel(kernel, Pass::Forward, width).as_ps());
                Span::from_ps((forward * u128::from(self.again) / 1_000_000) as u64)
            }
            _ => Span::ZERO,
        };
        work.max(self.pass_over(bytes)) + narrow + again + self.launch
    }

    /// The time of a kernel's forward pass when it reads and writes `bytes`, as those know who hold weights and caches in other widths
    /// than activations; nothing if there is no work.
    #[must_use]
    pub fn roofline(&self, kernel: &Kernel, bytes: Bytes) -> Span {
        if let Some(span) = self.profile.get(kernel, Pass::Forward) {
            return span;
        }
        let flops = kernel.flops(Pass::Forward);
        if flops == Flops::ZERO && bytes == Bytes::ZERO {
            return Span::ZERO;
        }
        let work = self.operations(kernel, Pass::Forward, flops);
        work.max(self.pass_over(bytes)) + self.narrow(kernel, Pass::Forward) + self.launch
    }

    /// The time of a kernel's operations alone.
    fn operations(&self, kernel: &Kernel, pass: Pass, flops: Flops) -> Span {
        match kernel.work {
            Work::Gemm { .. } | Work::Grouped { .. } | Work::Batched { .. } => self.product(kernel, pass, flops),
            Work::Attention { .. } | Work::Cached { .. } => {
                let share = if pass == Pass::Forward { self.attention.0 } else { self.attention.1 };
                // Backward the scores are worked out again: five products for the forward pass's two.
                let done = if pass == Pass::Forward { flops } else { Flops::new(flops.get() * 5 / 4) };
                self.peak.scaled(share).time_for(done)
            }
            Work::Memory { .. } => Span::ZERO,
        }
    }

    /// The time to put a product's operands in narrow numbers.
    fn narrow(&self, kernel: &Kernel, pass: Pass) -> Span {
        match self.narrowing {
            0 => Span::ZERO,
            bytes => self.pass_over(Bytes::new(kernel.narrowed(pass) * bytes)),
        }
    }

    /// The time of a kernel that is done in `parts` parts of its rows, one after the other: tiles of a part fill less of their waves.
    #[must_use]
    pub fn cut(&self, kernel: &Kernel, pass: Pass, width: u64, parts: u64) -> Span {
        let parts = parts.max(1);
        let part = match kernel.work {
            Work::Gemm { m, n, k } => Work::Gemm { m: m.div_ceil(parts), n, k },
            _ => return self.kernel(kernel, pass, width),
        };
        self.kernel(&Kernel { work: part, ..*kernel }, pass, width) * parts
    }

    /// The time to read and write so many bytes of memory, without a launch.
    #[must_use]
    pub fn pass_over(&self, bytes: Bytes) -> Span {
        let share = self.memory_share.at(bytes.get().into());
        let rate = Rate::bytes_per_sec((u128::from(self.memory.get()) * u128::from(share) / 1_000_000) as u64);
        rate.time_for(bytes)
    }

    fn product(&self, kernel: &Kernel, pass: Pass, flops: Flops) -> Span {
        let Some((m, n, k)) = kernel.shape(pass) else { return Span::ZERO };
        let (groups, each) = match kernel.work {
            // Of a gradient by weights each group's rows are summed over.
            Work::Grouped { groups, rows, .. } => (groups.max(1), rows / groups.max(1)),
            Work::Batched { count, .. } => (count.max(1), u64::MAX),
            _ => (1, u64::MAX),
        };
        let mut share = match &self.matrix {
            MatrixLaw::Share(curve) => curve.at(flops.get()),
            MatrixLaw::Tiles(tiles) if pass == Pass::WeightGradient => tiles.share(groups, m, n, k / groups),
            MatrixLaw::Tiles(tiles) => tiles.share(groups, m.div_ceil(groups), n, k),
            MatrixLaw::Chosen(tiles) if pass == Pass::WeightGradient => tiles.chosen(groups, m, n, k / groups),
            MatrixLaw::Chosen(tiles) => tiles.chosen(groups, m.div_ceil(groups), n, k),
        };
        if each < self.grouped.0 {
            share = share * self.grouped.1 / 1_000_000;
        }
        // Activations among themselves are multiplied in 16 bits.
        let peak = if kernel.has_weights() && !kernel.is_wide() { self.peak_weights } else { self.peak };
        peak.scaled(share).time_for(flops)
    }

    /// The times of kernels one after the other.
    #[must_use]
    pub fn kernels(&self, kernels: &[Kernel], width: u64) -> LayerTimes {
        let sum = |pass| kernels.iter().map(|k| self.kernel(k, pass, width)).sum();
        LayerTimes { forward: sum(Pass::Forward), data: sum(Pass::DataGradient), weight: sum(Pass::WeightGradient) }
    }

    /// The times of layer number `index` on a rank with `share`.
    #[must_use]
    pub fn layer(&self, model: &Model, index: u64, share: &Share, width: u64) -> LayerTimes {
        self.kernels(&model.layer_kernels(index, share), width)
    }

    /// The times of all layers of a chunk, embedding and head where they are, with what is recomputed.
    #[must_use]
    pub fn chunk(&self, job: &Job<'_>, stage: u64, chunk: u64) -> LayerTimes {
        use crate::model::activations::Recompute;
        let (model, sizes, width) = (job.model, job.sizes, job.widths.activation);
        let share = sizes.share();
        let mut out = LayerTimes::default();
        let mut add = |kernels: &[Kernel]| {
            let mut layer = self.kernels(kernels, width);
            layer.data += match sizes.recompute {
                Recompute::Nothing => Span::ZERO,
                // A fused core works its scores out again within its backward kernel.
                Recompute::Selective => {
                    kernels.iter().filter(|k| k.is_core()).map(|k| self.kernel(k, Pass::Forward, width)).sum()
                }
                Recompute::Full => layer.forward,
            };
            out = out + layer;
        };
        for index in sizes.layers_of(stage, chunk) {
            add(&model.layer_kernels(index, &share));
        }
        let last = stage + 1 == sizes.pipeline && chunk + 1 == sizes.virtual_stages;
        if last && model.mtp_layers > 0 {
            let kernels = model.prediction_kernels(&share);
            (0..model.mtp_layers).for_each(|_| add(&kernels));
        }
        if stage == 0 && chunk == 0 {
            out = out + self.kernels(&model.embedding_kernels(&share), width);
        }
        if last {
            out = out + self.kernels(&model.head_kernels(&share), width);
        }
        if let Some(adapters) = job.choices.adapters {
            // Frozen matrices have no gradient.
            out.weight = Span::ZERO;
            let passes = self.kernels(&adapters.kernels(model, &share), width);
            out = out + passes * sizes.layers_of(stage, chunk).count() as u64;
        }
        out
    }

    /// The time of the optimizer's update of `parameters`: a pass over states, main gradients and weights; the states are read and
    /// written.
    #[must_use]
    pub fn update(&self, parameters: u64, widths: &crate::job::Widths) -> Span {
        self.pass_over(Bytes::new(parameters * (2 * widths.optimizer + widths.gradient + widths.weight))) + self.launch
    }
}
