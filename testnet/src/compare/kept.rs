//! Finished runs on disk, so that a comparison can be stopped and continued.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::scale::Scale;
use super::variant::Variant;
use crate::central::Point;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// Held-out loss at the end; none if training left the numbers.
    pub loss: Option<f64>,
    /// Tokens behind it.
    pub tokens: u64,
    /// Bytes that all islands sent.
    pub bytes: u64,
    /// Held-out loss on the way.
    pub curve: Vec<Point>,
    /// How long it took here.
    pub seconds: f64,
}

/// There is no such folder, and it cannot be made.
#[derive(Debug, Error)]
#[error("cannot keep runs in {}: {source}\nhint: choose another folder with --dir", folder.display())]
pub struct NoFolder {
    folder: PathBuf,
    source: std::io::Error,
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
    pub(super) fn open(folder: &Path) -> Result<Self, NoFolder> {
        let failed = |source| NoFolder { folder: folder.into(), source };
        fs::create_dir_all(folder).map_err(failed)?;
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

    /// Where a page about all of them goes.
    pub(super) fn page(&self) -> PathBuf {
        self.folder.join("report.html")
    }

    /// Named after everything that the run depends on: what was asked for, and all that the two
    /// geneses hold besides, defaults included. Another default is another run.
    fn path(&self, scale: &Scale, variant: &Variant, seed: u64) -> PathBuf {
        let key = Key { version: VERSION, scale, variant, seed };
        let text = serde_json::to_vec(&key).expect("numbers and words can be written");
        let mut hasher = blake3::Hasher::new();
        hasher.update(&text);
        hasher.update(&variant.genesis(scale, seed).to_bytes());
        hasher.update(&variant.scale(scale).genesis(seed).to_bytes());
        self.folder.join(format!("{}.json", &hasher.finalize().to_hex()[..16]))
    }
}

/// Counts up when old runs no longer say what new ones would: the kernels, the data, the weather,
/// what the learning rate follows.
const VERSION: u32 = 4;

#[cfg(test)]
mod tests {
    use atoll_protocol::genesis::InnerOptimiser;

    use super::*;
    use crate::compare::section::{CALM, Section};

    #[test]
    fn a_run_is_found_again_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path()).unwrap();
        let (scale, variant) = (Scale::quick(), Variant::new(Section::Own, "one", CALM));
        let curve = vec![Point { tokens: 0, loss: 5.5 }];
        let learnt = Learnt { loss: None, tokens: 0, bytes: 1, curve, seconds: 2.0 };
        kept.keep(&scale, &variant, 1, &learnt).unwrap();
        let renamed = Variant { name: "other".into(), ..variant.clone() };
        assert_eq!(kept.find(&scale, &renamed, 1), Some(learnt));
        assert_eq!(kept.find(&scale, &variant, 2), None);
        for other in [
            Variant { optimiser: InnerOptimiser::AdamW, ..variant.clone() },
            Variant { quorum_percent: 75, ..variant.clone() },
            Variant { peak: 1.0, ..variant.clone() },
        ] {
            assert_eq!(kept.find(&scale, &other, 1), None);
        }
        assert_eq!(kept.find(&Scale { steps: 1, ..scale }, &variant, 1), None);
    }
}
