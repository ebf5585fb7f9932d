//! Groups of ranks: who communicates with whom.

use super::order::{Axis, Order, OrderFault};
use super::sizes::Sizes;

/// The kinds of group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Ranks that a layer's matrices are divided over.
    Tensor,
    /// Ranks that a sequence is divided over.
    Context,
    /// Ranks with the same parameters and other sequences.
    Data,
    /// Ranks with the same parameters: d·c, over which gradients are reduced.
    DataContext,
    /// The part of [`DataContext`](Self::DataContext) that states are divided over.
    Shard,
    /// Ranks with the same shard.
    Replicas,
    /// The stages of a pipeline.
    Pipeline,
    /// First and last stage: tied embeddings.
    Ends,
    /// All ranks of a replica that hold a part of the model: t·p.
    Model,
    /// Ranks that experts are divided over.
    Expert,
    /// Ranks that an expert's matrices are divided over.
    ExpertTensor,
    /// Ranks with the same part of an expert.
    ExpertData,
    /// All ranks.
    All,
}

impl Group {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Tensor,
        Self::Context,
        Self::Data,
        Self::DataContext,
        Self::Shard,
        Self::Replicas,
        Self::Pipeline,
        Self::Ends,
        Self::Model,
        Self::Expert,
        Self::ExpertTensor,
        Self::ExpertData,
        Self::All,
    ];

    /// Ranks of such a group.
    #[must_use]
    pub fn size(self, sizes: &Sizes) -> u64 {
        match self {
            Self::Tensor => sizes.tensor,
            Self::Context => sizes.context,
            Self::Data => sizes.data,
            Self::DataContext => sizes.data * sizes.context,
            Self::Shard => sizes.shard,
            Self::Replicas => sizes.data * sizes.context / sizes.shard,
            Self::Pipeline => sizes.pipeline,
            Self::Ends => sizes.pipeline.min(2),
            Self::Model => sizes.tensor * sizes.pipeline,
            Self::Expert => sizes.expert,
            Self::ExpertTensor => sizes.expert_tensor,
            Self::ExpertData => sizes.expert_data(),
            Self::All => sizes.gpus,
        }
    }

    /// What it is called in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tp",
            Self::Context => "cp",
            Self::Data => "dp",
            Self::DataContext => "dp-cp",
            Self::Shard => "shard",
            Self::Replicas => "replicas",
            Self::Pipeline => "pp",
            Self::Ends => "ends",
            Self::Model => "model",
            Self::Expert => "ep",
            Self::ExpertTensor => "etp",
            Self::ExpertData => "edp",
            Self::All => "all",
        }
    }
}

/// A grid: axes with their sizes, fastest first.
#[derive(Clone, Debug)]
struct Grid(Vec<(Axis, u64)>);

impl Grid {
    /// Where `rank` is on each axis, in the order of the axes.
    fn coordinates(&self, rank: u64) -> Vec<u64> {
        let mut rest = rank;
        let digit = |size: u64| {
            let at = rest % size;
            rest /= size;
            at
        };
        self.0.iter().map(|(_, size)| *size).map(digit).collect()
    }

    fn at(&self, axis: Axis, rank: u64) -> u64 {
        let mut stride = 1;
        let mut out = 0;
        for ((other, size), at) in self.0.iter().zip(self.coordinates(rank)) {
            if *other == axis {
                out += at * stride;
                stride *= size;
            }
        }
        out
    }

    /// The ranks that differ from `rank` on `axes` only, ascending by the mixed radix of these axes.
    fn line(&self, axes: &[Axis], rank: u64) -> Vec<u64> {
        let mut out = vec![0];
        let mut stride = 1;
        for ((axis, size), at) in self.0.iter().zip(self.coordinates(rank)) {
            out = if axes.contains(axis) {
                (0..*size).flat_map(|i| out.iter().map(move |base| base + i * stride)).collect()
            } else {
                out.iter().map(|base| base + at * stride).collect()
            };
            stride *= size;
        }
        out
    }

    /// Ranks inside `axis`.
    fn inside(&self, axis: Axis) -> u64 {
        self.0.iter().take_while(|(a, _)| *a != axis).map(|(_, size)| size).product()
    }
}

/// Where a rank is in the parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinates {
    /// In tensor parallelism.
    pub tensor: u64,
    /// In context parallelism.
    pub context: u64,
    /// In data parallelism.
    pub data: u64,
    /// The stage.
    pub stage: u64,
    /// In expert parallelism.
    pub expert: u64,
    /// In the tensor parallelism of experts.
    pub expert_tensor: u64,
    /// Among the ranks with the same part of an expert.
    pub expert_data: u64,
}

/// All ranks with their groups.
#[derive(Clone, Debug)]
pub struct Ranks {
    dense: Grid,
    experts: Grid,
    sizes: Sizes,
}

impl Ranks {
    /// The ranks of `sizes` in `order`.
    ///
    /// # Errors
    /// If the order leaves out an axis of more than one rank, or the stages of dense layers and of experts would not be the same.
    pub fn new(order: &Order, sizes: &Sizes) -> Result<Self, OrderFault> {
        let dense_size = |axis| match axis {
            Axis::Tensor => sizes.tensor,
            Axis::Context => sizes.context,
            Axis::Expert => 1,
            Axis::Data => sizes.data,
            Axis::Pipeline => sizes.pipeline,
        };
        let expert_size = |axis| match axis {
            Axis::Tensor => sizes.expert_tensor,
            Axis::Context => 1,
            Axis::Expert => sizes.expert,
            Axis::Data => sizes.expert_data(),
            Axis::Pipeline => sizes.pipeline,
        };
        for axis in Axis::ALL {
            let size = dense_size(axis).max(if axis == Axis::Expert { sizes.expert } else { 1 });
            if size > 1 && !order.names(axis) {
                let example = format!("{order}-{}", axis.name());
                return Err(OrderFault::Missing { order: order.to_string(), axis: axis.name(), size, example });
            }
        }
        let grid = |size: &dyn Fn(Axis) -> u64| Grid(order.axes().iter().map(|a| (*a, size(*a))).collect());
        let (dense, experts) = (grid(&dense_size), grid(&expert_size));
        let inside = (dense.inside(Axis::Pipeline), experts.inside(Axis::Pipeline));
        let has_experts = sizes.expert * sizes.expert_tensor > 1;
        if sizes.pipeline > 1 && has_experts && inside.0 != inside.1 {
            let product = |names: &[&'static str]| {
                let before = order.axes().iter().take_while(|a| **a != Axis::Pipeline).map(|a| a.name());
                let list: Vec<&str> = before.filter(|n| names.contains(n)).collect();
                if list.is_empty() { "1".to_owned() } else { list.join(" · ") }
            };
            let of_experts = product(&["tp", "ep", "dp"]).replace("tp", "etp").replace("dp", "edp");
            return Err(OrderFault::Stages {
                order: order.to_string(),
                dense: inside.0,
                experts: inside.1,
                inequality: format!("{} = {of_experts}", product(&["tp", "cp", "dp"])),
            });
        }
        // Experts that are not divided: all ranks of a stage have the same, whatever the order.
        let experts = if has_experts {
            experts
        } else {
            let label = |axis| if axis == Axis::Pipeline { axis } else { Axis::Data };
            Grid(dense.0.iter().map(|(axis, size)| (label(*axis), *size)).collect())
        };
        Ok(Self { dense, experts, sizes: sizes.clone() })
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.sizes.gpus
    }

    /// Whether there is none; there always is one.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Where `rank` is.
    #[must_use]
    pub fn coordinates(&self, rank: u64) -> Coordinates {
        Coordinates {
            tensor: self.dense.at(Axis::Tensor, rank),
            context: self.dense.at(Axis::Context, rank),
            data: self.dense.at(Axis::Data, rank),
            stage: self.dense.at(Axis::Pipeline, rank),
            expert: self.experts.at(Axis::Expert, rank),
            expert_tensor: self.experts.at(Axis::Tensor, rank),
            expert_data: self.experts.at(Axis::Data, rank),
        }
    }

    /// The group of `rank`, in the order in which its members are numbered.
    #[must_use]
    pub fn group(&self, group: Group, rank: u64) -> Vec<u64> {
        use Axis::{Context, Data, Expert, Pipeline, Tensor};
        match group {
            Group::Tensor => self.dense.line(&[Tensor], rank),
            Group::Context => self.dense.line(&[Context], rank),
            Group::Data => self.dense.line(&[Data], rank),
            Group::DataContext => self.dense.line(&[Data, Context], rank),
            Group::Shard => {
                let (all, at) = self.data_context(rank);
                let size = self.sizes.shard as usize;
                all[at / size * size..][..size].to_vec()
            }
            Group::Replicas => {
                let (all, at) = self.data_context(rank);
                let size = self.sizes.shard as usize;
                all.into_iter().skip(at % size).step_by(size).collect()
            }
            Group::Pipeline => self.dense.line(&[Pipeline], rank),
            Group::Ends => {
                let mut line = self.dense.line(&[Pipeline], rank);
                if let [first, .., last] = line[..] {
                    line = vec![first, last];
                }
                line
            }
            Group::Model => self.dense.line(&[Tensor, Pipeline], rank),
            Group::Expert => self.experts.line(&[Expert], rank),
            Group::ExpertTensor => self.experts.line(&[Tensor], rank),
            Group::ExpertData => self.experts.line(&[Data], rank),
            Group::All => (0..self.len()).collect(),
        }
    }

    fn data_context(&self, rank: u64) -> (Vec<u64>, usize) {
        let all = self.dense.line(&[Axis::Data, Axis::Context], rank);
        let at = all.iter().position(|r| *r == rank).unwrap_or(0);
        (all, at)
    }

    /// All groups of a kind, by their lowest rank. Of [`Ends`](Group::Ends), those of first and last stage only.
    #[must_use]
    pub fn groups(&self, group: Group) -> Vec<Vec<u64>> {
        let mut seen = vec![false; self.len() as usize];
        let mut out = Vec::new();
        for rank in 0..self.len() {
            if seen[rank as usize] {
                continue;
            }
            let members = self.group(group, rank);
            if !members.contains(&rank) {
                continue;
            }
            for member in &members {
                seen[*member as usize] = true;
            }
            out.push(members);
        }
        out
    }
}
