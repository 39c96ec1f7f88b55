//! Damage that was found and got out of the way, for the log.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::locked;

/// A file that was not what had been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Which file.
    pub path: PathBuf,
    /// Where it is now; none if it was not worth keeping.
    pub kept: Option<PathBuf>,
    /// What becomes of it.
    pub outcome: &'static str,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was damaged", self.path.display())?;
        if let Some(kept) = &self.kept {
            write!(f, " and is now {}", kept.display())?;
        }
        write!(f, "; {}", self.outcome)
    }
}

/// Incidents that nobody has asked for yet.
#[derive(Debug, Default)]
pub(super) struct Incidents(Mutex<Vec<Incident>>);

impl Incidents {
    /// Notes one. Beyond a few the newest are only logged.
    pub(super) fn note(&self, path: &Path, kept: Option<&Path>, outcome: &'static str) {
        let kept = kept.map(Path::to_owned);
        let incident = Incident { path: path.to_owned(), kept, outcome };
        tracing::warn!("{incident}");
        let mut known = locked(&self.0);
        if known.len() < INCIDENTS_MAX {
            known.push(incident);
        }
    }

    /// Those since the last time.
    pub(super) fn take(&self) -> Vec<Incident> {
        std::mem::take(&mut locked(&self.0))
    }
}

const INCIDENTS_MAX: usize = 1024;
