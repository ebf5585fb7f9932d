//! The scenario that `init` writes when none is named: every frequent key, with comments.

/// A commented scenario for `system`.
#[must_use]
pub fn starter(system: &str) -> String {
    format!(
        "\
# A scenario: which cluster, which software, which work. Lines that begin with # are comments; take the # away to set a key.
#
#   node0  gpu0..7 ─ nic0..7 ──┐        ┌── nic0..7 ─ gpu0..7  node1
#                              leaf 0..7
#
# `fabricsim check FILE` validates it, `fabricsim run FILE` plays it, `fabricsim schema --markdown` lists every key.

schema = 1
name = \"{system} x2\"
system = \"{system}\"              # `fabricsim catalog --kind system` lists all
nodes = 2
# gpus_per_node = 4               # only the first so many GPUs of each node
# nics = \"8x400Gb/s\"              # other NICs than the system's own
# seed = 1

[fabric]
kind = \"rail-optimized\"           # or leaf-spine, single-switch
# spines = 4                      # left out: the fewest that do
# oversubscription = 2            # 2:1, in place of 1:1

[transport]
# kind = \"roce\"                   # infiniband, roce, efa, tcp or tcpxo; left out: what the system uses
# mtu = \"4096 B\"

[software]
# nccl = \"2.21\"
# env = {{ NCCL_ALGO = \"Ring\" }}
# graph = true                    # captured launches

[[workload]]
kind = \"collective\"
op = \"all_reduce\"                 # all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv ...
min = \"8 B\"
max = \"8 GiB\"
factor = 8

# [[workload]]
# kind = \"transfer\"
# pattern = \"all_to_all\"          # or incast, permutation, shift; or a list of single transfers
# size = \"1 MiB\"
"
    )
}

#[cfg(test)]
mod tests {
    use super::starter;
    use crate::scenario::{Input, Scenario};

    #[test]
    fn the_starter_is_valid_for_every_system_with_a_network() {
        for row in sim_topology::Catalogue::builtin().systems() {
            let text = starter(&row.name);
            let result = Scenario::load(&Input::Text { name: "s.toml".into(), text }, &[]);
            if row.node.nics > 0 {
                assert!(result.is_ok(), "{}: {:?}", row.name, result.err().map(|e| e.list));
            }
        }
    }
}
