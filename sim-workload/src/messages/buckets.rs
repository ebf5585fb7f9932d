//! How gradients and parameters are cut into messages.

/// A rule for the size of a message, in parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Buckets {
    /// All in one.
    Whole,
    /// So many bytes of gradients: PyTorch DDP's default is 25 MiB.
    Bytes(u64),
    /// So many parameters: DeepSpeed ZeRO's default is 5·10⁸.
    Parameters(u64),
    /// Megatron's: max(40·10⁶, 10⁶·d) parameters; with chunks in a stage, one for each chunk.
    #[default]
    Megatron,
}

impl Buckets {
    /// PyTorch DDP's default.
    pub const DDP: Self = Self::Bytes(25 << 20);
    /// DeepSpeed ZeRO's default.
    pub const DEEPSPEED: Self = Self::Parameters(500_000_000);

    /// Cuts `parameters` of `width` bytes on each of `data` ranks, in a stage of `chunks` chunks: sizes in parameters, and how
    /// many there are of each; they add up to `parameters`.
    #[must_use]
    pub fn cut(self, parameters: u64, width: u64, data: u64, chunks: u64) -> Vec<(u64, u64)> {
        let size = match self {
            Self::Whole => parameters,
            Self::Bytes(bytes) => bytes / width.max(1),
            Self::Parameters(n) => n,
            Self::Megatron if chunks > 1 => parameters.div_ceil(chunks),
            Self::Megatron => (1_000_000 * data).max(40_000_000),
        }
        .max(1);
        let mut out = Vec::new();
        if parameters >= size {
            out.push((size, parameters / size));
        }
        if !parameters.is_multiple_of(size) {
            out.push((parameters % size, 1));
        }
        out
    }
}
