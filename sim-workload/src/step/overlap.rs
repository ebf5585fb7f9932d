//! What a framework lets run beside kernels.

/// Which messages run beside kernels. What is not hidden stands between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Pieces in which a tensor-parallel message and the matrix product next to it are cut; 1: not at all. Needs sequence parallelism.
    pub tensor: u64,
    /// Gradients are reduced in the backward pass of the last micro batch, bucket by bucket; else after it.
    pub gradients: bool,
    /// Updated parameters are gathered in the forward pass of the first micro batch; else after the update.
    pub parameters: bool,
    /// What passes between stages holds up neither end; else both wait until it is there.
    pub pipeline: bool,
    /// A block of keys and values is sent on while attention works on the one before.
    pub context: bool,
    /// Tokens go to experts while shared experts work.
    pub experts: bool,
}

impl Default for Overlap {
    /// As frameworks do if nothing is said: all but the cutting of matrix products.
    fn default() -> Self {
        Self { tensor: 1, gradients: true, parameters: true, pipeline: true, context: true, experts: true }
    }
}
