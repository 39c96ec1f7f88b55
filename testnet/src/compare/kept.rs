//! Finished runs on disk, so that a comparison can be stopped and continued.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::scale::Scale;
use super::variant::Variant;
use crate::central::Point;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// Held-out loss at the end.
    pub loss: f64,
    /// Tokens behind it.
    pub tokens: u64,
    /// Bytes that all islands sent.
    pub bytes: u64,
    /// Held-out loss on the way.
    pub curve: Vec<Point>,
    /// How long it took here.
    pub seconds: f64,
}

/// A folder of finished runs.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
}

#[derive(Serialize)]
struct Key<'k> {
    version: u32,
    scale: &'k Scale,
    variant: &'k Variant,
    seed: u64,
}

impl Kept {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| {
            format!(
                "cannot keep runs in {}\nhint: choose another folder with --dir",
                folder.display()
            )
        })?;
        Ok(Self { folder: folder.into() })
    }

    /// The run, if it was kept whole.
    pub(super) fn find(&self, scale: &Scale, variant: &Variant, seed: u64) -> Option<Learnt> {
        let text = fs::read(self.path(scale, variant, seed)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn keep(
        &self,
        scale: &Scale,
        variant: &Variant,
        seed: u64,
        learnt: &Learnt,
    ) -> Result<()> {
        let path = self.path(scale, variant, seed);
        let half = path.with_extension("half");
        let written = fs::write(&half, serde_json::to_vec(learnt)?);
        written
            .and_then(|()| fs::rename(&half, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn path(&self, scale: &Scale, variant: &Variant, seed: u64) -> PathBuf {
        let key = Key { version: VERSION, scale, variant, seed };
        let text = serde_json::to_vec(&key).expect("numbers and words can be written");
        self.folder.join(format!("{}.json", &blake3::hash(&text).to_hex()[..16]))
    }
}

/// Counts up when old runs no longer say what new ones would.
const VERSION: u32 = 1;
