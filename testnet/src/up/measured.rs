//! How good the swarm's model is, and what it writes.

use std::path::{Path, PathBuf};

use atoll_protocol::genesis::Genesis;

use super::alone::{self, Evaluated};
use super::error::UpError;
use super::model;
use super::options::Options;
use super::outcome::{LossOf, Outcome};
use super::site::Site;
use super::stage::Stage;

/// What there is to measure.
#[derive(Debug)]
pub(super) struct Measured<'a> {
    pub(super) site: &'a Site,
    pub(super) options: &'a Options,
    pub(super) genesis: &'a Genesis,
    /// Those of the islands that agree.
    pub(super) run_folders: Vec<PathBuf>,
}

impl Measured<'_> {
    /// Measures the model that the swarm agreed on and lets it write; without, the rest still
    /// counts.
    pub(super) fn measure(&self, stage: &mut Stage, outcome: &mut Outcome) -> Result<(), UpError> {
        stage.begin("measuring what the swarm agreed on")?;
        match self.look(stage, outcome) {
            Ok((of, evaluated, sample)) => {
                outcome.loss_of = of;
                outcome.loss_last = Some(evaluated.loss);
                outcome.sample = Some(sample);
            }
            Err(UpError::Interrupted) => return Err(UpError::Interrupted),
            Err(error) => {
                outcome.loss_last = stage.recording.held_out();
                outcome.notes.push(format!("the agreed model could not be measured: {error}"));
            }
        }
        Ok(())
    }

    /// The stable state if that is the agreed one, or the agreed one of a checkpoint, or else the
    /// stable one after all: it is older, but it is known which one it is.
    fn look(
        &self,
        stage: &mut Stage,
        outcome: &Outcome,
    ) -> Result<(LossOf, Evaluated, String), UpError> {
        let none = || UpError::usage("no island has one", "--keep keeps the logs");
        let first = self.run_folders.first().ok_or_else(none)?;
        let stable = alone::evaluate(self.site, self.options, first, stage);
        let versions = stable.as_ref().ok().and_then(|it| it.versions.clone()).unwrap_or_default();
        let of = outcome.loss_of(&versions);
        let folder = self.site.folder.join("agreed");
        if of != LossOf::Agreed
            && outcome.digests_agree
            && let Some(since) = outcome.settled_at
            && model::agreed(&self.run_folders, since, self.genesis, &folder).is_ok()
        {
            let evaluated = alone::evaluate(self.site, self.options, &folder, stage)?;
            return Ok((LossOf::Agreed, evaluated, self.sample(&folder, stage)?));
        }
        Ok((of, stable?, self.sample(first, stage)?))
    }

    fn sample(&self, folder: &Path, stage: &mut Stage) -> Result<String, UpError> {
        alone::sample(self.site, folder, stage)
    }
}
