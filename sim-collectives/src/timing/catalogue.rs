//! The values that are built in: `data/timing.toml`, read once, and which of them hold for a GPU and a transport.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::{Key, Origin, Parameter};

/// The embedded data.
const DATA: &str = include_str!("../../data/timing.toml");

/// The longest chain of `like`: longer ones are circles.
const LONGEST: usize = 8;

/// Where what belongs to no generation and no transport stands.
const LINKS: &str = "links";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "there is one form of the file")]
    schema: u32,
    generation: Vec<Section>,
    transport: Vec<Section>,
    link: Group,
}

/// A generation of GPUs, or a transport.
#[derive(Debug, Deserialize)]
struct Section {
    name: String,
    /// The transport, where the name is another.
    transport: Option<String>,
    /// Compute capabilities, times ten: those of the generation; of a transport, of the GPUs that it is for, all if empty.
    #[serde(default)]
    sm: Vec<u32>,
    /// Which other gives what doesn't stand here.
    like: Option<String>,
    #[serde(flatten)]
    groups: BTreeMap<String, Group>,
}

type Group = BTreeMap<String, Entry>;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    Like(Like),
    Value(Value),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Like {
    like: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    value: f64,
    origin: Origin,
    #[serde(default)]
    runs: Vec<String>,
    source: Option<String>,
}

impl Value {
    /// Its runs and what else is said, in words.
    fn source(&self) -> String {
        match (self.runs.is_empty(), &self.source) {
            (true, words) => words.clone().unwrap_or_default(),
            (false, None) => self.runs.join(", "),
            (false, Some(words)) => format!("{}: {words}", self.runs.join(", ")),
        }
    }
}

/// The sections with every value that holds in each, in the order of [`Key::ALL`] as far as they have them.
struct Built {
    generations: Vec<(Vec<u32>, Vec<Parameter>)>,
    transports: Vec<(String, Vec<u32>, Vec<Parameter>)>,
    links: Vec<Parameter>,
    stated: Vec<Parameter>,
}

/// The value of `key` in `section`, from where it stands, and the section's name.
fn find<'a>(all: &'a [Section], mut section: &'a Section, key: Key) -> Option<(&'a Section, &'a Value)> {
    let name = key.name().strip_prefix(key.group())?.strip_prefix('.')?;
    for _ in 0..LONGEST {
        let like = match section.groups.get(key.group()).and_then(|group| group.get(name)) {
            Some(Entry::Value(value)) => return Some((section, value)),
            Some(Entry::Like(other)) => Some(&other.like),
            None => section.like.as_ref(),
        }?;
        section = all.iter().find(|other| other.name == *like)?;
    }
    None
}

fn parameter(section: &str, key: Key, stands: &'static str, value: &'static Value) -> Parameter {
    let own = section == stands;
    Parameter {
        key,
        value: value.value,
        origin: if own { value.origin } else { Origin::Assumed },
        source: if own { value.source() } else { format!("as {stands}: {}", value.source()) },
        runs: &value.runs,
        stands,
        spread: None,
    }
}

fn values(all: &'static [Section], section: &'static Section) -> Vec<Parameter> {
    let one = |key: &Key| {
        let (stands, value) = find(all, section, *key)?;
        Some(parameter(&section.name, *key, &stands.name, value))
    };
    Key::ALL.iter().filter_map(one).collect()
}

/// What stands in `section` itself.
fn stated(all: &'static [Section]) -> impl Iterator<Item = Parameter> {
    let of = |section: &'static Section| {
        let own = move |key: &Key| {
            let (stands, value) = find(core::slice::from_ref(section), section, *key)?;
            Some(parameter(&stands.name, *key, &stands.name, value))
        };
        Key::ALL.iter().filter_map(own)
    };
    all.iter().flat_map(of)
}

fn built() -> &'static Built {
    static FILE: OnceLock<File> = OnceLock::new();
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let file = FILE.get_or_init(|| toml::from_str(DATA).expect("the embedded timing data are sound"));
        let link = |key: &Key| match file.link.get(key.name().strip_prefix("link.")?)? {
            Entry::Value(value) => Some(parameter(LINKS, *key, LINKS, value)),
            Entry::Like(_) => None,
        };
        let links: Vec<Parameter> = Key::ALL.iter().filter_map(link).collect();
        let (generation, transport) = (&file.generation, &file.transport);
        Built {
            generations: generation.iter().map(|g| (g.sm.clone(), values(generation, g))).collect(),
            transports: transport
                .iter()
                .map(|t| (t.transport.as_ref().unwrap_or(&t.name).clone(), t.sm.clone(), values(transport, t)))
                .collect(),
            stated: stated(generation).chain(stated(transport)).chain(links.clone()).collect(),
            links,
        }
    })
}

/// All values that stand in the data, by where they stand.
#[must_use]
pub fn catalogue() -> &'static [Parameter] {
    &built().stated
}

/// The values for GPUs of compute capability `sm` (times ten) over `transport`, in the order of [`Key::ALL`].
///
/// An unknown generation takes the nearest older one's values, one older than all the oldest's; an unknown transport InfiniBand's.
pub(super) fn parameters(sm: u32, transport: &str) -> Vec<Parameter> {
    let built = built();
    let near = |(of, _): &&(Vec<u32>, Vec<Parameter>)| of.iter().filter(|s| **s <= sm).max().copied().unwrap_or(0);
    let generation = built.generations.iter().rev().max_by_key(near);
    let fits =
        |(name, of, _): &&(String, Vec<u32>, Vec<Parameter>)| name == transport && (of.is_empty() || of.contains(&sm));
    let wire = built.transports.iter().find(fits).or(built.transports.first());
    let values = generation.map(|g| &g.1).into_iter().chain(wire.map(|w| &w.2)).chain([&built.links]);
    values.flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_there_for_every_gpu_and_transport() {
        for sm in [60, 70, 80, 90, 100, 103, 120] {
            for transport in ["infiniband", "roce", "efa", "tcp", "tcpxo", "unknown"] {
                let keys: Vec<Key> = parameters(sm, transport).iter().map(|p| p.key).collect();
                assert_eq!(keys, Key::ALL, "{sm} {transport}");
            }
        }
    }

    #[test]
    fn every_value_stands_under_a_name_that_is_known_and_has_a_source() {
        let file: File = toml::from_str(DATA).unwrap();
        let mut names = 0;
        for section in file.generation.iter().chain(&file.transport) {
            for (group, values) in &section.groups {
                for (name, entry) in values {
                    let key = format!("{group}.{name}");
                    key.parse::<Key>().unwrap_or_else(|e| panic!("{}: {e}", section.name));
                    if let Entry::Value(v) = entry {
                        names += 1;
                        assert!(!v.source().is_empty(), "{} {key} has neither runs nor a source", section.name);
                        assert!(v.origin != Origin::Spec, "{} {key}: no data sheet has it", section.name);
                        let words = v.source.as_deref().unwrap_or_default();
                        // What is measured or fitted was so on a run, or on figures that are named.
                        let named = !v.runs.is_empty()
                            || words.contains("github.com/")
                            || words.contains("issue")
                            || words.contains("microsoft/");
                        assert!(v.origin == Origin::Assumed || named, "{} {key}: measured on what?", section.name);
                    }
                }
            }
        }
        assert_eq!(names + file.link.len(), catalogue().len());
    }

    #[test]
    fn what_is_inherited_is_assumed_and_depends_on_the_same_runs() {
        let of = |sm| parameters(sm, "roce");
        let get = |list: &[Parameter], key| list.iter().find(|p: &&Parameter| p.key == key).cloned().unwrap();
        let own = get(&of(100), Key::SimpleStep);
        let (hopper, ampere) = (get(&of(90), Key::SimpleStep), get(&of(80), Key::TreeLlRate));
        assert_eq!((hopper.value, hopper.runs, hopper.stands), (own.value, own.runs, "blackwell"));
        assert_eq!((hopper.origin, hopper.source), (Origin::Assumed, format!("as blackwell: {}", own.source)));
        // From hopper, which has it from blackwell.
        assert_eq!((ampere.origin, ampere.stands), (Origin::Assumed, "blackwell"));
        assert_eq!(get(&of(90), Key::NetworkPortShare).stands, "infiniband");
        let efa = get(&parameters(80, "efa"), Key::NetworkCts);
        assert_eq!((efa.origin, efa.stands), (Origin::Assumed, "efa"));
    }
}
