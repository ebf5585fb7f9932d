//! A link that is down at times: a bad transceiver, a port that retrains.

use sim_core::outage::Outage;
use sim_core::units::Span;

use super::patient::Patient;
use super::target::{Item, Wanted, links_of};
use super::{Effect, FaultError};

/// A link that is down on a schedule.
///
/// Traffic waits for its end: transports on lossless fabrics and link-level replay hold what they have, and no route is
/// taken anew. What is on the wire when an outage begins survives ([`Outage`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flapping {
    /// How long each outage lasts.
    pub down_for: Span,
    /// From the start of an outage to the start of the next; `None` if there is only one.
    pub every: Option<Span>,
    /// Start of the first outage, from the start of each simulation.
    pub first: Span,
    /// Time after each outage until traffic flows again: retraining, a retransmission timer.
    pub recovery: Span,
}

impl Flapping {
    /// The schedule that the engine plays.
    #[must_use]
    pub fn outage(&self) -> Outage {
        Outage { first: self.first, down_for: self.down_for + self.recovery, every: self.every }
    }
}

impl Effect for Flapping {
    fn name(&self) -> &'static str {
        "flapping"
    }

    fn rank(&self) -> u8 {
        6
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        let outage = self.outage();
        if outage.down_for == Span::ZERO {
            return Err(FaultError::range("down_for", "an outage of no length", "longer than zero"));
        }
        if let Some(every) = self.every
            && every <= outage.down_for
        {
            let recovery = if self.recovery == Span::ZERO { "" } else { " and `recovery`" };
            let label = format!("down for {} of every {every}: it would never be up", outage.down_for);
            return Err(FaultError::range(
                "down_for",
                format!("`down_for`{recovery} must be shorter than `every`"),
                label,
            )
            .help("kind = \"dead\" is a link that is down for good"));
        }
        let what = match self.every {
            Some(every) => format!("down for {} every {every} from {} on", outage.down_for, self.first),
            None => format!("down once, for {} at {}", outage.down_for, self.first),
        };
        let links = patient.living(links_of(items, patient.fabric(), Wanted::Cable)?)?;
        for id in links {
            patient.interrupt(id, outage, what.clone())?;
        }
        Ok(what)
    }
}
