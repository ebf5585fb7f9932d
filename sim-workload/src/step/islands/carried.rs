//! What links carried: what each form puts on its links does not depend on what else is under way.

use sim_core::engine::{Engine, Limits};
use sim_core::outcome::StopReason;
use sim_core::units::Bytes;

use super::Islands;

impl Islands<'_> {
    /// Payload that each link of the network has carried in all calls so far. Each form that was met is played once more, alone.
    ///
    /// # Errors
    /// If one does not end alone, which those that were carried do.
    pub fn carried(&self) -> Result<Vec<Bytes>, String> {
        let mut of_form: Vec<Option<Vec<u64>>> = vec![None; self.forms.count()];
        let mut sum = vec![0u64; self.owners.len()];
        for (operation, times) in self.started.iter().enumerate().filter(|(_, times)| **times > 0) {
            let of = self.forms.operation(operation as u32);
            let known = &mut of_form[of.form as usize];
            if known.is_none() {
                let form = self.forms.form(of.form);
                let limits = Limits { one_program: true, ..Limits::default() };
                let mut engine: Engine =
                    Engine::new(&self.forms.network(&form.classes), self.calls.fabric().mtu(), limits);
                engine.load(form.program.clone(), sim_core::units::Time::ZERO).map_err(|e| e.to_string())?;
                let stop = engine.run(|_, _| {});
                if stop != StopReason::Finished {
                    return Err(format!("a call alone does not end: {stop:?}"));
                }
                *known = Some(engine.finish(stop).links.iter().map(|counted| counted.payload).collect());
            }
            for (link, payload) in of.links.iter().zip(known.iter().flatten()) {
                sum[*link as usize] += payload * times;
            }
        }
        Ok(sum.into_iter().map(Bytes::new).collect())
    }
}
