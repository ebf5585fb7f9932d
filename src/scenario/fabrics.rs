//! Fabrics that were built, for scenarios that differ in other things.

use std::sync::{Arc, Mutex, PoisonError};

use sim_topology::{Fabric, FabricSpec};

/// How many are kept: those of the threads of a large machine, and of the values of an axis or two.
const MOST: usize = 64;
/// How many links all of them may have together; a fabric of a million links takes some hundred MB.
const MOST_LINKS: usize = 2_000_000;

/// The last fabrics that were built, before any fault was laid on them. Threads may share it.
#[derive(Debug, Default)]
pub struct Fabrics {
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    spec: FabricSpec,
    catalogue: u64,
    fabric: Arc<Fabric>,
}

impl Fabrics {
    /// The fabric of `spec` with the catalogue whose own rows have the hash `catalogue`: one that is kept, or what `build`
    /// makes.
    ///
    /// # Errors
    /// Those of `build`.
    pub fn get<E>(
        &self,
        spec: &FabricSpec,
        catalogue: u64,
        build: impl FnOnce() -> Result<Fabric, E>,
    ) -> Result<Fabric, E> {
        let is = |kept: &Kept| kept.catalogue == catalogue && kept.spec == *spec;
        // A panic elsewhere leaves the list as it was.
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lock().iter().find(|kept| is(kept)).map(|kept| Arc::clone(&kept.fabric));
        if let Some(fabric) = found {
            return Ok((*fabric).clone());
        }
        let fabric = build()?;
        let mut list = lock();
        if !list.iter().any(is) && fabric.links().len() <= MOST_LINKS {
            list.push(Kept { spec: spec.clone(), catalogue, fabric: Arc::new(fabric.clone()) });
            let links = |list: &[Kept]| list.iter().map(|kept| kept.fabric.links().len()).sum::<usize>();
            while list.len() > MOST || links(&list) > MOST_LINKS {
                list.remove(0);
            }
        }
        Ok(fabric)
    }
}
