//! The folder of a run: where everything is, which format it has, and who works in it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use atoll_protocol::genesis::Genesis;

use super::error::StoreError;
use super::file;

/// A run's folder that this process alone works in.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Locked; the system frees it however the process ends.
    lock: File,
}

impl Folder {
    /// Whether a run may have been made there; looking leaves nothing behind.
    pub(super) fn seems_made(root: &Path) -> bool {
        root.join(STAMP).exists()
    }

    /// Takes the folder for this process.
    pub(super) fn claim(root: &Path) -> Result<Self, StoreError> {
        let path = root.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::file(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = lock.read_to_string(&mut text);
                let holder = text.trim().parse().ok();
                return Err(StoreError::Locked { folder: root.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::file(&path)(error)),
        }
        // Only for the message above: whoever holds the lock holds it, whatever is written here.
        let _ = lock.set_len(0).and_then(|()| lock.rewind());
        let _ = writeln!(lock, "{}", std::process::id());
        Ok(Self { root: root.to_owned(), lock })
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a run was made here, in the format of this program.
    pub(super) fn is_made(&self) -> Result<bool, StoreError> {
        let Some(found) = file::read(&self.root.join(STAMP))? else { return Ok(false) };
        let found = String::from_utf8_lossy(&found).trim().to_owned();
        if found == FORMAT {
            return Ok(true);
        }
        Err(StoreError::Version { folder: self.root.clone(), found, supported: FORMAT })
    }

    /// Says that everything a run needs is here. The last step of making it.
    pub(super) fn made(&self) -> Result<(), StoreError> {
        file::replace(&self.root.join(STAMP), format!("{FORMAT}\n").as_bytes())
    }

    /// Says that the run was made here and not joined.
    pub(super) fn found(&self) -> Result<(), StoreError> {
        file::replace(&self.root.join(FOUNDED), b"")
    }

    /// Whether the run was made here.
    pub(super) fn is_founder(&self) -> bool {
        self.root.join(FOUNDED).exists()
    }

    /// The genesis, if one is here.
    pub(super) fn genesis(&self) -> Result<Option<Genesis>, StoreError> {
        let path = self.root.join(GENESIS);
        let Some(bytes) = file::read(&path)? else { return Ok(None) };
        let genesis = Genesis::from_bytes(&bytes);
        genesis.map(Some).map_err(|source| StoreError::Genesis { path, source })
    }

    /// Writes the genesis, for this program and for people. A damaged one is kept aside.
    pub(super) fn put_genesis(&self, genesis: &Genesis) -> Result<(), StoreError> {
        if matches!(self.genesis(), Err(StoreError::Genesis { .. })) {
            file::move_aside(&self.root.join(GENESIS), &self.root)?;
        }
        file::replace(&self.root.join(GENESIS_TEXT), genesis.to_toml().as_bytes())?;
        file::replace(&self.root.join(GENESIS), &genesis.to_bytes())
    }

    /// The database of records.
    pub(super) fn records(&self) -> PathBuf {
        self.root.join("records.redb")
    }

    /// How many records were acknowledged.
    pub(super) fn mark(&self) -> PathBuf {
        self.root.join("records.mark")
    }

    /// What this node signed.
    pub(super) fn signed(&self) -> PathBuf {
        self.root.join("signed")
    }

    /// Contents by their hash.
    pub(super) fn contents(&self) -> PathBuf {
        self.root.join("contents")
    }

    /// Contents of which only a part is here.
    pub(super) fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }

    /// Base states.
    pub(super) fn bases(&self) -> PathBuf {
        Self::bases_in(&self.root)
    }

    /// Base states of a folder that nobody has claimed.
    pub(super) fn bases_in(root: &Path) -> PathBuf {
        root.join("bases")
    }

    /// Damaged files that nothing uses any more.
    pub(super) fn broken(&self) -> PathBuf {
        self.root.join("broken")
    }

    /// Peers to try first after a restart.
    pub(super) fn peers(&self) -> PathBuf {
        self.root.join("peers.json")
    }

    /// Makes the folders that are missing.
    pub(super) fn make_folders(&self) -> Result<(), StoreError> {
        for folder in [self.contents(), self.incoming(), self.bases(), self.broken()] {
            file::make_folder(&folder)?;
        }
        file::flush_folder(&self.root)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing alone would not do: a process that is just being started by another thread has
        // the file open too, until it becomes another program.
        let _ = self.lock.unlock();
    }
}

/// The format of everything in the folder.
const FORMAT: &str = "1";
const STAMP: &str = "VERSION";
/// Whether the run was made here.
const FOUNDED: &str = "FOUNDED";
const LOCK: &str = "LOCK";
const GENESIS: &str = "genesis.bin";
const GENESIS_TEXT: &str = "genesis.toml";
