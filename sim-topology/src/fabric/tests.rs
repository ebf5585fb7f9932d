use super::*;
use crate::{Catalogue, RouteRequest};

#[test]
fn smoke() {
    let c = Catalogue::builtin();
    for s in c.systems() {
        for nodes in [1, 2, 4] {
            if s.node.nics == 0 && nodes > 1 {
                continue;
            }
            let f = Fabric::build(&FabricSpec::new(s.node.clone(), nodes), c)
                .unwrap_or_else(|e| panic!("{} x {nodes}: {e}", s.name));
            for &a in f.gpus() {
                for &b in f.gpus() {
                    if a != b {
                        let r = f.route(&RouteRequest::auto(a, b)).unwrap();
                        if nodes == 2 && a.0 == 0 {
                            println!(
                                "{} {:?} {}",
                                s.name,
                                r.links.iter().map(|&l| f.link_name(l)).collect::<Vec<_>>(),
                                r.links.iter().map(|&l| f.link(l).latency.as_us()).sum::<f64>()
                            );
                        }
                    }
                }
            }
        }
    }
}
