//! The reference page of scenarios (`docs/scenario.md`), made from the tables of keys.

use core::fmt::Write as _;

use super::keys::{KeySpec, Kind, TableSpec};
use super::schema::all_tables;

const HEAD: &str = "\
<!-- Made by `fabricsim schema --markdown`; a test holds it to the program. -->
# Scenario files

A scenario is a TOML file that says which cluster, which software and which work. Everything has a default except the
system; unknown keys are errors. `fabricsim init` writes one to start from, `fabricsim check` validates one, and
`fabricsim schema` prints a JSON Schema that gives editors completion.

```toml
system = \"hgx-h100\"
nodes = 2

[[workload]]
kind = \"collective\"
op = \"all_reduce\"
min = \"8 B\"
max = \"8 GiB\"
factor = 8
```

## Values

| kind | written as | note |
|---|---|---|
| rate | `\"400 Gb/s\"`, `\"50 GB/s\"`, `\"400Gbps\"` | one direction; `b` is bits, `B` bytes; `{ both_directions = \"900 GB/s\" }` is halved |
| size | `\"64 KiB\"`, `\"64 KB\"` | `KiB` is 1024 bytes, `KB` 1000 |
| time | `\"1.5 us\"`, `\"200 ns\"` | `ps`, `ns`, `us`, `ms`, `s`, `min`, `h`, `d` |
| length | `\"3 m\"` | `cm`, `m`, `km` |
| device | `3`, `\"node0.gpu3\"`, `\"node0.nic1\"`, `\"leaf4\"` | a number is a rank, node by node |

A quantity always names its unit; a bare number is an error. On the command line, `--set key=value` replaces any key:
`--set nodes=4`, `--set fabric.spines=8`, `--set workload.0.op=alltoall`.
";

/// The page as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    for spec in all_tables() {
        section(spec, &mut out);
    }
    out
}

fn section(spec: &TableSpec, out: &mut String) {
    let head = match spec.name {
        "scenario" => "Keys at the top".to_owned(),
        name if name.starts_with("fault.") => format!("`[[fault]]` with `kind = \"{}\"`", &name["fault.".len()..]),
        name if name.starts_with("workload.") && name.matches('.').count() == 1 => {
            format!("`[[workload]]` with `kind = \"{}\"`", &name["workload.".len()..])
        }
        "workload.step.slow_ranks" => format!("`{}`, an array of tables", spec.name),
        "node.pcie" => "`[[node.pcie]]`".to_owned(),
        name if name.starts_with("catalogue.") => format!("`[{name}.NAME]`"),
        name if name.ends_with(".list") => format!("`{name}`, an array of tables"),
        name => format!("`[{name}]`"),
    };
    // Writing to a String cannot fail.
    let _ = write!(out, "\n## {head}\n\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n", spec.doc);
    for key in spec.keys {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", key.name, kind(key), default(key), cell(key.doc));
    }
}

fn kind(key: &KeySpec) -> String {
    cell(&match &key.kind {
        Kind::Choice(words) => words.iter().map(|w| format!("`\"{w}\"`")).collect::<Vec<_>>().join(", "),
        other => other.describe().replace('"', "`"),
    })
}

fn default(key: &KeySpec) -> String {
    match (key.default, key.required) {
        (Some(default), _) => format!("`{}`", cell(default)),
        (None, true) => "required".to_owned(),
        (None, false) => String::new(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
