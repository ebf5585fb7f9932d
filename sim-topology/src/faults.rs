//! What is broken: faults laid upon a built fabric.
//!
//! A [`Fault`] names its target (a device, a link, a cable, any of them by wildcard) and its kind. Each kind is a file
//! here: it says what becomes of the devices and links that the target names. [`Fabric::with_faults`] applies a list;
//! what it did is kept in the fabric ([`Fabric::faults`]) for reports and for the words about a bottleneck.

mod acs;
mod ailments;
pub(crate) mod census;
mod dead;
mod degraded;
mod error;
mod flapping;
mod miscabled;
mod nic_map;
mod patient;
mod pause_storm;
pub mod report;
mod straggler;
mod target;
#[cfg(test)]
mod tests;

pub use acs::Acs;
pub(crate) use ailments::Ailments;
pub use ailments::{AppliedFault, Lossy, Slowness};
pub use dead::Dead;
pub use degraded::{Degraded, Errors};
pub use error::{FaultError, FaultErrorKind, FaultWarning};
pub use flapping::Flapping;
pub use miscabled::Miscabled;
pub use nic_map::NicMap;
pub use pause_storm::PauseStorm;
pub use straggler::Straggler;

use patient::Patient;
use target::{Item, resolve};

use crate::catalogue::Catalogue;
use crate::fabric::Fabric;

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What it befalls: `node3.nic2`, `leaf4`, `node0.gpu2->node0.nvswitch`, `leaf3<->spine1#1`, `node*.nic2`,
    /// `leaf4->*`.
    pub target: String,
    /// Only so many of what the target names, drawn with the seed.
    pub pick: Option<u32>,
    /// What it does.
    pub kind: FaultKind,
}

/// The kinds of fault.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A slower link.
    Degraded(Degraded),
    /// A link that is down at times.
    Flapping(Flapping),
    /// A GPU that works more slowly.
    Straggler(Straggler),
    /// A link or device that doesn't work.
    Dead(Dead),
    /// GPUs that use other NICs.
    NicMap(NicMap),
    /// Two cables that were swapped.
    Miscabled(Miscabled),
    /// Peer traffic redirected through root ports.
    Acs(Acs),
    /// Pauses without a reason.
    PauseStorm(PauseStorm),
}

impl FaultKind {
    /// The kind's own file; a new kind has its line here.
    fn effect(&self) -> &dyn Effect {
        match self {
            Self::Degraded(kind) => kind,
            Self::Flapping(kind) => kind,
            Self::Straggler(kind) => kind,
            Self::Dead(kind) => kind,
            Self::NicMap(kind) => kind,
            Self::Miscabled(kind) => kind,
            Self::Acs(kind) => kind,
            Self::PauseStorm(kind) => kind,
        }
    }

    /// The word for the kind in scenarios and results.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.effect().name()
    }
}

/// What a kind of fault does.
trait Effect {
    /// Its word in scenarios and results.
    fn name(&self) -> &'static str;

    /// When it is applied, lower ranks first: what is dead is known before anything is degraded.
    fn rank(&self) -> u8;

    /// Acts on what the target names. Says in a few words what it did.
    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError>;
}

impl Fabric {
    /// The fabric with these faults. Random choices are drawn with `seed`; `pxn` says whether relays count as a way.
    ///
    /// # Errors
    /// All faults that name nothing, contradict each other or ask for what can't be; or that cut GPUs off from each other.
    pub fn with_faults(
        self,
        faults: &[Fault],
        seed: u64,
        pxn: bool,
        catalogue: &Catalogue,
    ) -> Result<(Self, Vec<FaultWarning>), Vec<FaultError>> {
        let (fabric, warnings) = self.laid((0..faults.len()).collect(), faults, seed, catalogue)?;
        let cuts = |f: &Fault| matches!(f.kind, FaultKind::Dead(_) | FaultKind::Miscabled(_) | FaultKind::NicMap(_));
        let suspects: Vec<usize> = (0..faults.len()).filter(|&i| cuts(&faults[i])).collect();
        let Some(&first) = suspects.first() else { return Ok((fabric, warnings)) };
        let Err(error) = fabric.check_whole(first, pxn) else { return Ok((fabric, warnings)) };
        // The first with which it falls apart, where to try them is cheap; else the others are named.
        let whole_with = |number: usize| {
            let up_to = suspects.iter().copied().filter(|&i| i <= number).collect();
            let healthy = Self::build(fabric.spec(), catalogue).ok()?;
            let (some, _) = healthy.laid(up_to, faults, seed, catalogue).ok()?;
            Some(some.check_whole(number, pxn))
        };
        if suspects.len() > 1 && suspects.len() <= 16 && fabric.gpus().len() <= 1024 {
            for &number in &suspects {
                if let Some(Err(error)) = whole_with(number) {
                    return Err(vec![error]);
                }
            }
        }
        let others: Vec<&str> = suspects.iter().skip(1).take(5).map(|&i| faults[i].target.as_str()).collect();
        Err(vec![match others.as_slice() {
            [] => error,
            others => FaultError { label: format!("{}; it may also be {}", error.label, others.join(", ")), ..error },
        }])
    }

    /// The fabric with those of the faults whose numbers are given.
    fn laid(
        mut self,
        mut order: Vec<usize>,
        faults: &[Fault],
        seed: u64,
        catalogue: &Catalogue,
    ) -> Result<(Self, Vec<FaultWarning>), Vec<FaultError>> {
        let mut errors = Vec::new();
        order.sort_by_key(|&i| (faults[i].kind.effect().rank(), i));
        let mut patient = Patient::new(&mut self, catalogue);
        for number in order {
            let fault = &faults[number];
            patient.begin(number, fault);
            let done = resolve(patient.fabric(), fault, seed, number)
                .and_then(|items| fault.kind.effect().apply(&items, &mut patient));
            match done {
                Ok(what) => patient.done(fault, what),
                Err(error) => errors.push(FaultError { fault: number, ..error }),
            }
        }
        let warnings = patient.finish().unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        });
        errors.sort_by_key(|e| e.fault);
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok((self, warnings))
    }

    /// Whether all GPUs that live reach each other.
    fn check_whole(&self, fault: usize, pxn: bool) -> Result<(), FaultError> {
        let (count, examples) = census::cut_off(self, pxn);
        if count == 0 {
            return Ok(());
        }
        let name = |id| self.device(id).name.as_str();
        let pairs: Vec<String> = examples.iter().map(|&(a, b)| format!("{} to {}", name(a), name(b))).collect();
        let more = count - (examples.len() as u64).min(count);
        let more = if more > 0 { format!(", and {more} more ordered pairs") } else { String::new() };
        let error = FaultError::new(
            "target",
            FaultErrorKind::Partition,
            "the faults cut GPUs off from each other",
            format!("no way from {}{more}", pairs.join(", ")),
        );
        let pxn = if pxn { ", and over a relay GPU" } else { "; PXN is off" };
        let help = format!("ways go up to a spine and down again, never up twice{pxn}");
        Err(FaultError { fault, ..error }.help(help))
    }

    /// The faults that were laid upon it, in the order given; empty for a healthy fabric.
    #[must_use]
    pub fn faults(&self) -> &[AppliedFault] {
        &self.ailments.applied
    }
}
