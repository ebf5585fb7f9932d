//! The keys of `[observe]`.

use super::{Kind, TableSpec, key};

pub(crate) static OBSERVE: TableSpec = TableSpec {
    name: "observe",
    doc: "What is recorded of packets beside the counters; nothing that is measured depends on it. `run --series 10us --out DIR` writes it as \
          series.csv, queues.svg and rates.svg.",
    keys: &[
        key(
            "interval",
            Kind::Time,
            "Time between two samples of queues and rates, from the start of each simulation. Without it, none are taken. At most \
             2,097,152 samples of links and queue pairs are kept in all: beyond, every other instant is dropped and the interval \
             doubles.",
        ),
        key("from", Kind::Time, "Depths of queues, and samples, count from here on.").default("0 us"),
        key("to", Kind::Time, "They count until here. Without it, to the end."),
        key(
            "links",
            Kind::List(&Kind::Named("a link, a device or a pattern", "leaf0->node*.nic0")),
            "The links whose queues are sampled; a switch stands for its links, a NIC for its cable. Without it, all of the network.",
        ),
        key(
            "flows",
            Kind::List(&Kind::Named("queue pairs by their NICs", "node1.nic0->node0.nic0")),
            "The queue pairs that are sampled, by their NICs: `node*.nic0->node0.nic0`, or one NIC or node alone for all from or to it. \
             `all`, and without this key, all of them; the first 4,096 in any case.",
        ),
        key("histogram", Kind::Boolean, "Results have the time that each link's queue was at each depth.")
            .default("false"),
    ],
};
