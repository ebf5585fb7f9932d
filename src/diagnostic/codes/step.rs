//! The pages of findings about training steps.

pub(super) const UNKNOWN_MODEL: &str = "`model` of a step names no transformer of the catalogue. The message lists those that there are, with the nearest. Any other is
given by its dimensions:

    [[workload]]
    kind = \"step\"
    model = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, gated = true, vocab = 128256 }

docs/workloads.md says what each dimension does.";

pub(super) const NO_KERNEL_RATES: &str = "A step needs to know how fast kernels run on the system's GPU, and nothing is known of it. Take the rates of another one, scaled,
or measured times of your own kernels:

    [workload.compute]
    gpu = \"h100-sxm\"
    efficiency = 0.6            # all rates times this

`sim-workload/data/compute.toml` has the GPUs that are known, each rate with its source.";

pub(super) const BAD_SIZES: &str = "The sizes of a parallelism break a relation: between each other, with the model, with the schedule of the pipeline, or with the
cluster. The message has the relation and the values, and the nearest that would do. All that fail are told at once.

    error[E120]: `kv_heads % tp = 0 or tp % kv_heads = 0` does not hold
      help: near: tp = 4 or 8

docs/workloads.md lists the relations.";

pub(super) const DOES_NOT_FIT: &str = "The fullest rank of a step needs more memory than a GPU has to fill: weights, gradients, states of the optimizer, activations of as
many micro batches as the schedule keeps in flight, logits, buffers. The message has the parts, and which changes of one or two sizes
would fit at the same number of GPUs.

    [[workload]]
    recompute = \"full\"         # activations of a layer's input only
    zero = 1                   # states of the optimizer divided over data-parallel ranks

    [workload.memory]
    usable = 0.95              # nine tenths, if this is not said
    buffers = \"1 GB\"

`memory_check = false` turns it into the warning W120 and plays the step.";

pub(super) const WOULD_NOT_FIT: &str =
    "As E121, where the scenario says `memory_check = false`: the step is played as if there were memory enough. So are a step of serving
whose sequences have more cache than the GPUs have room for, and a cache on its way that is larger than their memory.";

pub(super) const LEAVES_SCALE_UP: &str = "A group of tensor parallelism has ranks in several scale-up domains, so that the messages of every layer go over NICs, which are a
tenth as fast or less. It is played as it is. Put `tp` first in `order`, or make it a divisor of the GPUs of a domain.";
