//! How serving engines choose between their own all-reduce kernels and NCCL, by size and number of GPUs.

use super::Name;
use crate::call::Group;
use crate::nccl::Operation;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// vLLM's custom all-reduce (`vllm/distributed/device_communicators/custom_all_reduce.py`, `csrc/custom_all_reduce.cuh`).
pub const VLLM: &str = "vllm";
/// TensorRT-LLM's custom all-reduce (`cpp/tensorrt_llm/thop/allreduceOp.cpp`).
pub const TENSORRT_LLM: &str = "tensorrt_llm";

/// What is known of a call when an engine chooses.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The operation.
    pub operation: Operation,
    /// Its size.
    pub bytes: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Compute capability times ten.
    pub sm: u32,
    /// Whether NVLink joins every two of the group's GPUs.
    pub nvlink: bool,
    /// The group.
    pub group: &'a Group,
}

/// What the rule `name` takes: an algorithm, or NCCL's own choice (`None`). A name that is no rule stands for itself.
#[must_use]
pub fn resolve(name: Name, situation: &Situation<'_>) -> Option<Name> {
    let ranks = situation.group.ranks();
    let inside = situation.operation == Operation::AllReduce && situation.group.nodes().len() == 1;
    let shot = |one| Some(Name(if one { "one_shot" } else { "two_shot" }));
    match name.as_str() {
        VLLM => {
            let ready = inside && matches!(ranks, 2 | 4 | 6 | 8) && (situation.nvlink || ranks == 2);
            if !ready || !situation.bytes.is_multiple_of(16) || situation.bytes >= 8 * MIB {
                return None;
            }
            shot(ranks == 2 || ranks <= 4 && situation.bytes < 512 * KIB || situation.bytes < 256 * KIB)
        }
        TENSORRT_LLM => {
            let workspace = if ranks == 2 { 16_000_000 } else { 8_000_000 };
            if !inside || !matches!(ranks, 2 | 4 | 8) || situation.bytes > workspace {
                return None;
            }
            let elements = situation.bytes / situation.element.max(1);
            let two_shot_from = match (ranks, situation.sm >= 100) {
                (2, _) => 4096 * 4096,
                (4, false) => 1024 * 1024,
                (4, true) => 1024 * 2048,
                (_, false) => 512 * 512,
                (_, true) => 1024 * 1024,
            };
            shot(elements < two_shot_from)
        }
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rule: &str, ranks: u32, bytes: u64) -> Option<&'static str> {
        let group = Group::regular(1, ranks);
        let situation =
            Situation { operation: Operation::AllReduce, bytes, element: 2, sm: 90, nvlink: true, group: &group };
        resolve(rule.parse().unwrap(), &situation).map(Name::as_str)
    }

    #[test]
    fn engines_go_by_size_and_ranks() {
        assert_eq!(taken(VLLM, 8, 128 * KIB), Some("one_shot"));
        assert_eq!(taken(VLLM, 8, 256 * KIB), Some("two_shot"));
        assert_eq!(taken(VLLM, 4, 256 * KIB), Some("one_shot"));
        assert_eq!(taken(VLLM, 2, 4 * MIB), Some("one_shot"));
        assert_eq!(taken(VLLM, 8, 8 * MIB), None);
        assert_eq!(taken(VLLM, 8, 1000), None, "no multiple of 16 B");
        assert_eq!(taken(VLLM, 3, 1024), None);
        assert_eq!(taken(TENSORRT_LLM, 8, 512 * KIB - 2), Some("one_shot"));
        assert_eq!(taken(TENSORRT_LLM, 8, 512 * KIB), Some("two_shot"));
        assert_eq!(taken(TENSORRT_LLM, 4, 9_000_000), None);
        assert_eq!(taken("ring", 4, 9_000_000), Some("ring"));
    }
}
