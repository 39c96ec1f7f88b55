//! The island's checkpoint: a folder that the next one replaces at once or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::budget::Budget;
use super::error::StoreError;
use super::file;

/// Why a checkpoint was not saved. The one before is still there.
#[derive(Debug, thiserror::Error)]
pub enum SaveError<E> {
    /// Whoever had to write it could not.
    #[error("{0}")]
    Write(E),
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The newest checkpoint under `root`, if there is one.
pub(super) fn newest(root: &Path) -> Option<PathBuf> {
    // A crash between two renames leaves only the one before.
    [CURRENT, BEFORE].map(|name| root.join(name)).into_iter().find(|path| path.exists())
}

/// Lets `write` fill a folder and makes it the checkpoint, durable.
pub(super) fn save<E>(
    root: &Path,
    budget: &Budget,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), SaveError<E>> {
    let [next, current, before] = [NEXT, CURRENT, BEFORE].map(|name| root.join(name));
    file::remove_folder(&next)?;
    file::make_folder(&next)?;
    let written = write(&next).map_err(SaveError::Write);
    let flushed = written.and_then(|()| Ok(flush(&next).map_err(StoreError::file(&next))?));
    if let Err(error) = flushed {
        let _ = file::remove_folder(&next);
        return Err(error);
    }
    if current.exists() {
        file::remove_folder(&before)?;
        fs::rename(&current, &before).map_err(StoreError::file(&current))?;
    }
    fs::rename(&next, &current).map_err(StoreError::file(&next))?;
    file::flush_folder(root)?;
    file::remove_folder(&before)?;
    count(root, budget);
    Ok(())
}

/// Takes the checkpoint into account.
pub(super) fn count(root: &Path, budget: &Budget) {
    let bytes = newest(root).map_or(0, |path| length(&path).unwrap_or(0));
    budget.count(|used| used.checkpoint = bytes);
}

/// Waits until everything in a folder is on the disk.
fn flush(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            flush(&path)?;
        } else {
            File::open(&path)?.sync_all()?;
        }
    }
    file::flush_folder(folder).map_err(io::Error::from)
}

fn length(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let about = entry?;
        let kind = about.metadata()?;
        bytes += if kind.is_dir() { length(&about.path())? } else { kind.len() };
    }
    Ok(bytes)
}

const CURRENT: &str = "checkpoint";
const NEXT: &str = "checkpoint.next";
const BEFORE: &str = "checkpoint.before";
