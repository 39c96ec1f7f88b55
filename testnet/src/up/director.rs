//! Does to a swarm what its schedule says, when it says so.

use super::chaos::{Deed, Schedule};
use super::error::UpError;
use super::stage::Stage;
use super::swarm::Swarm;

/// Goes through a schedule.
#[derive(Debug)]
pub(super) struct Director {
    /// What is still to be done, the first last.
    rest: Vec<(f64, Deed)>,
}

impl Director {
    pub(super) fn new(schedule: &Schedule) -> Self {
        let mut rest = schedule.deeds.clone();
        rest.reverse();
        Self { rest }
    }

    /// Does what is due so many seconds after training began.
    pub(super) fn direct(
        &mut self,
        seconds: f64,
        swarm: &mut Swarm<'_>,
        stage: &mut Stage,
    ) -> Result<(), UpError> {
        while let Some((_, deed)) = self.rest.pop_if(|(due, _)| *due <= seconds) {
            swarm.suffer(&deed, stage)?;
        }
        Ok(())
    }
}
