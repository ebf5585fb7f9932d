//! Calls without their place: two calls are of one form if the engine can't tell one from the other.
//!
//! The engine breaks ties by the numbers of links, flows and lanes, and reads of a link its specification. So a form is a program
//! whose links are numbered in their order, without gaps, and what each of these links is. A call's operation is its form and
//! the links of the network that it is played on.

use core::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use sim_core::ids::LinkId;
use sim_core::network::{LinkSpec, Network};
use sim_core::program::Program;

use super::super::calls::Calls;
use super::super::carrier::CarryError;

/// A program on links of its own, and what they are (indices in [`Forms::specs`]).
#[derive(Debug)]
pub(super) struct Form {
    pub(super) program: Program,
    pub(super) classes: Box<[u32]>,
    /// Whether it is not the same at every time: one of its links is down at times.
    pub(super) timed: bool,
}

/// A call of a communicator: a form on links of the network, in ascending order.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) communicator: u32,
    pub(super) call: u32,
    pub(super) form: u32,
    pub(super) links: Box<[u32]>,
}

/// No such thing yet.
pub(super) const NONE: u32 = u32::MAX;

/// All forms and operations that were met.
#[derive(Debug, Default)]
pub(super) struct Forms {
    /// What links are, and whether one other feeds them alone.
    specs: Vec<(LinkSpec, bool)>,
    class_of: Vec<u32>,
    forms: Vec<Form>,
    by_hash: FxHashMap<u64, Vec<u32>>,
    operations: Vec<Operation>,
    /// By communicator, then call.
    known: Vec<Vec<u32>>,
}

impl Forms {
    /// None yet, of calls over this network.
    pub(super) fn new(network: &Network, communicators: usize) -> Self {
        let mut classes: FxHashMap<(LinkSpec, bool), u32> = FxHashMap::default();
        let mut specs = Vec::new();
        let class_of = network.links().iter().enumerate().map(|(i, link)| {
            let spec = (*link, network.is_in_series(LinkId::new(i)));
            *classes.entry(spec).or_insert_with(|| {
                specs.push(spec);
                specs.len() as u32 - 1
            })
        });
        let class_of = class_of.collect();
        Self { class_of, specs, known: vec![Vec::new(); communicators], ..Self::default() }
    }

    pub(super) fn form(&self, form: u32) -> &Form {
        &self.forms[form as usize]
    }

    /// How many forms there are.
    pub(super) fn count(&self) -> usize {
        self.forms.len()
    }

    pub(super) fn operation(&self, operation: u32) -> &Operation {
        &self.operations[operation as usize]
    }

    /// A network of links of these kinds.
    pub(super) fn network(&self, classes: &[u32]) -> Network {
        let specs = || classes.iter().map(|class| self.specs[*class as usize]);
        Network::new(specs().map(|(spec, _)| spec).collect()).in_series(specs().map(|(_, series)| series).collect())
    }

    /// The operation of a call of a communicator, worked out when it is first asked for.
    #[inline]
    pub(super) fn find(&mut self, calls: &mut Calls<'_>, communicator: u32, call: u32) -> Result<u32, CarryError> {
        let known = self.known.get(communicator as usize).and_then(|known| known.get(call as usize));
        match known {
            Some(operation) if *operation != NONE => Ok(*operation),
            _ => self.make(calls, communicator, call),
        }
    }

    #[cold]
    fn make(&mut self, calls: &mut Calls<'_>, communicator: u32, call: u32) -> Result<u32, CarryError> {
        let mut program = calls.program(communicator, call)?;
        let mut links: Vec<u32> = program.routes.iter().map(|link| link.0).collect();
        links.sort_unstable();
        links.dedup();
        for link in &mut program.routes {
            *link = LinkId(links.binary_search(&link.0).unwrap_or(0) as u32);
        }
        let classes: Box<[u32]> = links.iter().map(|link| self.class_of[*link as usize]).collect();
        let form = self.intern(program, classes);
        let operation = self.operations.len() as u32;
        self.operations.push(Operation { communicator, call, form, links: links.into() });
        let of_communicator = &mut self.known[communicator as usize];
        if of_communicator.len() <= call as usize {
            of_communicator.resize(call as usize + 1, NONE);
        }
        of_communicator[call as usize] = operation;
        Ok(operation)
    }

    fn intern(&mut self, program: Program, classes: Box<[u32]>) -> u32 {
        let mut hasher = FxHasher::default();
        (&program, &classes).hash(&mut hasher);
        let alike = self.by_hash.entry(hasher.finish()).or_default();
        let same = |form: &Form| form.classes == classes && form.program == program;
        if let Some(known) = alike.iter().find(|form| same(&self.forms[**form as usize])) {
            return *known;
        }
        let form = self.forms.len() as u32;
        alike.push(form);
        let timed = classes.iter().any(|class| self.specs[*class as usize].0.outage.is_some());
        self.forms.push(Form { program, classes, timed });
        form
    }
}
