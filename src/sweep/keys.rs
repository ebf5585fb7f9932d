//! The keys of a sweep file.

use crate::scenario::keys::{Kind, TableSpec, key};

/// The file itself.
pub(super) static SWEEP: TableSpec = TableSpec {
    name: "sweep",
    doc: "The keys of a sweep file.",
    keys: &[
        key("description", Kind::Text, "What the sweep is about, in any length."),
        key("scenario", Kind::Named("a path", "cluster.toml"), "The scenario, relative to this file."),
        key(
            "base",
            Kind::Any("keys of a scenario"),
            "Keys of the scenario that hold at every point, upon the file, or the whole scenario.",
        ),
        key("axis", Kind::Tables(&AXIS), "What varies; the first axis slowest.").required(),
        key(
            "skip",
            Kind::Any("an array of tables"),
            "Points that are left out: all keys of one have a value it lists.",
        ),
        key("seeds", Kind::Integer(1, 10_000), "Plays each point with so many seeds, from the scenario's own on."),
        key(
            "on_error",
            Kind::Choice(&["row", "stop"]),
            "What a point comes to that cannot be played: a row that says why, or the end of the sweep.",
        )
        .default("row"),
        key(
            "columns",
            Kind::Any("an array of paths into the results, or a table of names and paths"),
            "What a row has of the results.",
        ),
    ],
};

/// `[[axis]]`.
pub(super) static AXIS: TableSpec = TableSpec {
    name: "axis",
    doc: "An axis of the grid.",
    keys: &[
        key("key", Kind::Named("a key", "fabric.spines"), "The key that varies, as `--set` takes it."),
        key("keys", Kind::List(&Kind::Named("a key", "fabric.spines")), "Several that vary together."),
        key("name", Kind::Text, "The name of the column. Without it, the key."),
        key("values", Kind::Any("an array"), "The values; with `keys`, an array of one value a key each."),
        key("range", Kind::Table(&RANGE), "The values as a range."),
    ],
};

/// `range = { … }`.
pub(super) static RANGE: TableSpec = TableSpec {
    name: "range",
    doc: "Evenly spaced values.",
    keys: &[
        key("from", Kind::Any("a number or a quantity"), "The first value.").required(),
        key("to", Kind::Any("a number or a quantity"), "The last value, if a step meets it.").required(),
        key("step", Kind::Any("a number or a quantity"), "The difference of neighbours."),
        key("factor", Kind::Number(0.0, 1e9), "The ratio of neighbours."),
        key("count", Kind::Integer(1, 1_000_000), "How many values; both ends are among them."),
        key("log", Kind::Boolean, "With `count`: neighbours have the same ratio, not the same difference.")
            .default("false"),
    ],
};
