//! `cluster = "NAME"`: the keys of a reference cluster, below all that the scenario and its settings say.

use super::named_keys::{self, Kind};
use super::tree::Table;
use crate::diagnostic::{Code, Diagnostics};

/// Lays `table` upon the keys of the cluster that it names, if it names one.
pub(super) fn under(table: Table, diagnostics: &mut Diagnostics) -> Table {
    let Some(node) = table.get("cluster") else { return table };
    // Another type than text is for validation to refuse.
    let Some(name) = node.as_text() else { return table };
    let below = named_keys::keys(&CLUSTERS, &table, (name, node), &mut Vec::new(), diagnostics);
    let Some(mut below) = below else { return table };
    // A node that is described stands in place of the cluster's system, another kind of network in place of its own.
    if table.get("node").is_some() {
        below.remove("system");
    }
    let kind = |table: &Table| Some(table.get("fabric")?.as_table()?.get("kind")?.as_text()?.to_owned());
    if kind(&table).is_some_and(|asked| Some(asked) != kind(&below)) {
        below.remove("fabric");
    }
    below.lay(table);
    below
}

static CLUSTERS: Kind = Kind {
    word: "cluster",
    unknown: Code::UnknownSystem,
    builtin: |catalogue, name| catalogue.cluster(name).map(|row| (row.name.clone(), row.scenario.clone())),
};

#[cfg(test)]
mod tests {
    use super::super::{Input, Scenario, Setting};
    use sim_topology::Catalogue;

    fn load(text: &str) -> Result<super::super::Loaded, crate::diagnostic::Diagnostics> {
        Scenario::load(&Input::Text { name: "t.toml".into(), text: text.into() }, &[])
    }

    #[test]
    fn builders_reach_the_published_counts() {
        for row in Catalogue::builtin().clusters() {
            let loaded = load(&format!("cluster = \"{}\"\n", row.name)).map_err(|d| format!("{d:?}")).unwrap();
            let warnings: Vec<_> = loaded.diagnostics.list.iter().map(|d| &d.message).collect();
            assert!(warnings.is_empty(), "{}: {warnings:?}", row.name);
            let plan = loaded.fabric.plan();
            assert!(plan.leaves > 0, "{} has a network", row.name);
            for said in [row.published, row.derived] {
                let check = |what: &str, got: u64, want: Option<u64>| {
                    assert!(want.is_none_or(|want| want == got), "{}: {got} {what}, stated {want:?}", row.name);
                };
                check("leaves", plan.leaves.into(), said.leaves.map(u64::from));
                check("spines", plan.spines.into(), said.spines.map(u64::from));
                check("cores", plan.cores.into(), said.cores.map(u64::from));
                let links = said.links_per_cable.unwrap_or(1);
                check("cables to NICs", plan.cables.nic_leaf / links, said.nic_cables);
                check("cables to spines", plan.cables.leaf_spine / links, said.leaf_spine_cables);
                check("cables to cores", plan.cables.spine_core / links, said.spine_core_cables);
                if let Some(want) = said.cross_pod_gbit_per_gpu {
                    let rate = plan.core_rate.as_gbyte() * 8.0 * plan.cables.spine_core as f64;
                    let got = rate / loaded.fabric.gpus().len() as f64;
                    // To whole links of the spines.
                    assert!((got / want - 1.0).abs() < 0.02, "{}: {got} Gb/s a GPU, published {want}", row.name);
                }
            }
        }
    }

    #[test]
    fn clusters_of_ones_own() {
        let own = "[catalogue.cluster.ours]\nlike = \"superpod-b200-4su\"\nnodes = 100\nfabric.spines = 25\n";
        let loaded = load(&format!("cluster = \"ours\"\n{own}")).unwrap();
        let plan = loaded.fabric.plan();
        assert_eq!((loaded.fabric.nodes().len(), plan.leaves, plan.spines), (100, 32, 25));
        assert!(loaded.head().contains("cluster ours"), "{}", loaded.head());
        // Alone, and in place of a built-in one.
        let alone = "cluster = \"x\"\n[catalogue.cluster.x]\nsystem = \"hgx-h100\"\nnodes = 3\n";
        assert_eq!(load(alone).unwrap().fabric.gpus().len(), 24);
        let same = "cluster = \"megascale\"\n[catalogue.cluster.megascale]\nlike = \"megascale\"\nnodes = 64\n";
        assert_eq!(load(same).unwrap().fabric.nodes().len(), 64);
        let Err(error) = load(&format!("cluster = \"ours\"\n{own}oops = 1\n")) else { panic!("loaded") };
        assert!(error.list.iter().any(|d| d.message.contains("oops")), "{error:?}");
        let circle = "cluster = \"a\"\n[catalogue.cluster]\na.like = \"b\"\nb.like = \"a\"\n";
        let Err(error) = load(circle) else { panic!("loaded") };
        assert!(error.list.iter().any(|d| d.message.contains("like itself")), "{error:?}");
    }

    #[test]
    fn other_keys_go_above_the_clusters() {
        let loaded = load("cluster = \"superpod-b200-4su\"\nnodes = 127\n").unwrap();
        assert_eq!((loaded.fabric.nodes().len(), loaded.fabric.plan().leaves), (127, 32));
        let other = load("cluster = \"superpod-b200-1su\"\n[fabric]\nkind = \"leaf-spine\"\n").unwrap();
        assert_eq!(other.scenario.cluster.fabric, sim_topology::FabricKind::LeafSpine);
        let flags = Scenario::load(&Input::Flags, &[Setting::text("--cluster", "cluster", "meta-24k")]).unwrap();
        assert_eq!(flags.fabric.gpus().len(), 24_576);
        let Err(error) = load("cluster = \"superpod-b200-5su\"\n") else { panic!("loaded") };
        assert!(error.list.iter().any(|d| d.help.iter().any(|h| h.contains("superpod-b200"))), "{error:?}");
    }
}
