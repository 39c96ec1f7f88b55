//! Going on without a damaged database.

use std::path::{Path, PathBuf};

use atoll_protocol::id::RunId;

use super::Store;
use super::error::StoreError;
use super::file;
use super::folder::Folder;
use super::records::Records;
use super::signed::require_whole;

impl Store {
    /// Puts an empty database in the place of a damaged one, which is kept beside it; returns
    /// where, if there was one. Contents, base states and the checkpoint stay, and so does what
    /// this node signed and how often it was started: the swarm gives back the rest.
    ///
    /// Does nothing if the database can be opened.
    pub fn repair(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        let (folder, genesis) = Self::claim(folder)?;
        let run = genesis.run_id();
        let (records, mark) = (folder.records(), folder.mark());
        let opened = Records::open(&records, &mark, run).and_then(|mut records| records.all());
        match opened {
            Ok(_) => return Ok(None),
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        Self::replace(&folder, run)
    }

    /// Puts an empty database in the place of one that speaks of what is gone, and keeps it
    /// beside; everything else as [`Store::repair`].
    pub fn start_over(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        let (folder, genesis) = Self::claim(folder)?;
        Self::replace(&folder, genesis.run_id())
    }

    fn replace(folder: &Folder, run: RunId) -> Result<Option<PathBuf>, StoreError> {
        let (records, mark) = (folder.records(), folder.mark());
        // Without it nothing would keep this node from signing twice.
        require_whole(&folder.signed(), run)?;
        let kept = match records.exists() {
            true => Some(file::move_aside(&records, folder.root())?),
            false => None,
        };
        // Before the new database is there, or it would be behind this one's number.
        file::remove(&mark)?;
        Records::create(&records, run)?;
        Ok(kept)
    }
}
