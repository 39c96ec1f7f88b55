//! Contents: files named by the hash of their bytes, and believed only as far as it fits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use atoll_protocol::crypto::content_id;
use atoll_protocol::id::ContentId;

use super::budget::Budget;
use super::content_file::ContentFile;
use super::error::{StoreError, is_unreadable};
use super::file;
use super::incident::Incidents;
use super::locked;

/// The folder of contents.
#[derive(Debug)]
pub(super) struct Contents {
    folder: PathBuf,
    /// Where files are made before they get their name.
    workshop: PathBuf,
    broken: PathBuf,
    known: Mutex<BTreeMap<ContentId, Entry>>,
    /// Tells apart files that are made at the same time.
    made: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    bytes: u64,
    reached: Reached,
}

/// How far a file is on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reached {
    /// The system has it, the disk perhaps not.
    Nothing,
    /// Its bytes are on the disk, its name perhaps not.
    Bytes,
    /// It survives a loss of power.
    Disk,
}

impl Contents {
    /// Looks at what is there.
    pub(super) fn open(
        folder: PathBuf,
        workshop: PathBuf,
        broken: PathBuf,
        budget: &Budget,
    ) -> Result<Self, StoreError> {
        let mut known = BTreeMap::new();
        for prefix in 0..=u8::MAX {
            for (name, bytes) in file::list(&folder.join(format!("{prefix:02x}")))? {
                if let Some(id) = file::parse_id(&name) {
                    // Nothing says whether an earlier process waited for the disk.
                    known.insert(id, Entry { bytes, reached: Reached::Nothing });
                }
            }
        }
        let contents = known.values().map(|entry| entry.bytes).sum();
        let aside = file::list(&broken)?.iter().map(|(_, bytes)| bytes).sum();
        budget.count(|used| (used.contents, used.broken) = (contents, aside));
        let (known, made) = (Mutex::new(known), AtomicU64::new(0));
        Ok(Self { folder, workshop, broken, known, made })
    }

    /// Stores bytes of our own and waits until they, though not yet their name, are on the disk.
    ///
    /// They are counted and never refused: without them no checkpoint could be written, and
    /// training would be lost.
    pub(super) fn put(
        &self,
        bytes: &[u8],
        budget: &Budget,
        incidents: &Incidents,
    ) -> Result<ContentId, StoreError> {
        let id = content_id(bytes);
        if !self.is_whole(&id, bytes.len() as u64, budget, incidents)? {
            budget.count(|used| used.contents += bytes.len() as u64);
            self.make(id, bytes, Reached::Bytes, budget)?;
        }
        Ok(id)
    }

    /// Stores what somebody else has sent, verified, if there is room for it. Nothing waits for the
    /// disk before a record names it.
    pub(super) fn take(
        &self,
        id: ContentId,
        bytes: &[u8],
        budget: &Budget,
        incidents: &Incidents,
    ) -> Result<(), StoreError> {
        let length = bytes.len() as u64;
        if self.is_whole(&id, length, budget, incidents)? {
            return Ok(());
        }
        budget.reserve(&self.path(&id), length, |used| used.contents += length)?;
        self.make(id, bytes, Reached::Nothing, budget)
    }

    /// Makes a file of bytes that are taken into account already; not any more, if that fails.
    fn make(
        &self,
        id: ContentId,
        bytes: &[u8],
        reached: Reached,
        budget: &Budget,
    ) -> Result<(), StoreError> {
        let length = bytes.len() as u64;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let made = self.workshop.join(format!("{}-{number}{MADE}", id.to_hex()));
        let placed = file::write_new(&made, bytes, reached >= Reached::Bytes)
            .and_then(|()| self.place(id, &made, length, reached, budget));
        if placed.is_err() {
            let _ = file::remove(&made);
            budget.count(|used| used.contents -= length);
        }
        placed
    }

    /// Gives the file `made`, whose bytes have been verified and taken into account, its name.
    pub(super) fn place(
        &self,
        id: ContentId,
        made: &Path,
        bytes: u64,
        reached: Reached,
        budget: &Budget,
    ) -> Result<(), StoreError> {
        let path = self.path(&id);
        let mut known = locked(&self.known);
        let prefix = path.parent().unwrap_or(&self.folder);
        if !prefix.exists() {
            file::make_folder(prefix)?;
            file::flush_folder(&self.folder)?;
        }
        fs::rename(made, &path).map_err(StoreError::file(&path))?;
        if let Some(before) = known.insert(id, Entry { bytes, reached }) {
            budget.count(|used| used.contents -= before.bytes);
        }
        Ok(())
    }

    /// The bytes, verified.
    pub(super) fn read(
        &self,
        id: &ContentId,
        budget: &Budget,
        incidents: &Incidents,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        while self.has(id) {
            let path = self.path(id);
            match fs::read(&path) {
                Ok(bytes) if content_id(&bytes) == *id => return Ok(Some(bytes)),
                Err(error) if !is_lost(&error) => return Err(StoreError::file(&path)(error)),
                _ => {}
            }
            if let Some(kept) = self.set_aside(id, budget, incidents)? {
                return Err(StoreError::Broken { content: *id, kept });
            }
        }
        Ok(None)
    }

    /// A content to serve, as it is on the disk.
    pub(super) fn open_file(&self, id: &ContentId) -> Option<ContentFile> {
        locked(&self.known).get(id)?;
        ContentFile::open(&self.path(id)).ok()
    }

    /// Whether the content is here with that length and hash. One that is not is set aside.
    pub(super) fn is_whole(
        &self,
        id: &ContentId,
        length: u64,
        budget: &Budget,
        incidents: &Incidents,
    ) -> Result<bool, StoreError> {
        while self.has(id) {
            let path = self.path(id);
            match file::content_id_of(&path) {
                // Right by its hash: whoever expects another length is wrong.
                Ok(Some((found, bytes))) if found == *id => return Ok(bytes == length),
                Err(error) if !is_lost(&error) => return Err(StoreError::file(&path)(error)),
                _ => {}
            }
            if self.set_aside(id, budget, incidents)?.is_some() {
                break;
            }
        }
        Ok(false)
    }

    /// Waits until `ids` survive a loss of power; fails if one of them is not here.
    pub(super) fn flush(&self, ids: &BTreeSet<ContentId>) -> Result<(), StoreError> {
        let mut folders = BTreeSet::new();
        for id in ids {
            let Some(entry) = locked(&self.known).get(id).copied() else {
                return Err(StoreError::NoPayload { payload: *id });
            };
            let path = self.path(id);
            if entry.reached == Reached::Disk {
                continue;
            }
            let opened = File::open(&path);
            if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return Err(StoreError::NoPayload { payload: *id });
            }
            if entry.reached == Reached::Nothing {
                opened.and_then(|file| file.sync_all()).map_err(StoreError::file(&path))?;
            }
            folders.extend(path.parent().map(Path::to_owned));
        }
        folders.iter().try_for_each(|folder| file::flush_folder(folder))?;
        let mut known = locked(&self.known);
        for id in ids {
            if let Some(entry) = known.get_mut(id) {
                entry.reached = Reached::Disk;
            }
        }
        Ok(())
    }

    /// Removes contents; those that are not here count as removed.
    pub(super) fn remove(&self, ids: &[ContentId], budget: &Budget) -> Result<(), StoreError> {
        let mut known = locked(&self.known);
        for id in ids {
            if known.contains_key(id) {
                file::remove(&self.path(id))?;
                forget(&mut known, id, budget);
            }
        }
        Ok(())
    }

    /// Everything that is here.
    pub(super) fn ids(&self) -> Vec<ContentId> {
        locked(&self.known).keys().copied().collect()
    }

    /// Whether the content seems to be here.
    pub(super) fn has(&self, id: &ContentId) -> bool {
        locked(&self.known).contains_key(id)
    }

    /// Moves a file that seems damaged out of the way and says where; none if another thread did
    /// so, or has put a good one in its place.
    fn set_aside(
        &self,
        id: &ContentId,
        budget: &Budget,
        incidents: &Incidents,
    ) -> Result<Option<PathBuf>, StoreError> {
        let path = self.path(id);
        let mut known = locked(&self.known);
        match file::content_id_of(&path) {
            Ok(None) => {
                forget(&mut known, id, budget);
                return Ok(None);
            }
            Ok(Some((found, _))) if found == *id => return Ok(None),
            Err(error) if !is_lost(&error) => return Err(StoreError::file(&path)(error)),
            _ => {}
        }
        let kept = file::move_aside(&path, &self.broken)?;
        forget(&mut known, id, budget);
        drop(known);
        count_broken(&self.broken, budget);
        incidents.note(&path, Some(&kept), "it is fetched again when it is needed");
        Ok(Some(kept))
    }

    fn path(&self, id: &ContentId) -> PathBuf {
        let name = id.to_hex();
        self.folder.join(&name[..2]).join(name)
    }
}

fn forget(known: &mut MutexGuard<'_, BTreeMap<ContentId, Entry>>, id: &ContentId, budget: &Budget) {
    if let Some(entry) = known.remove(id) {
        budget.count(|used| used.contents -= entry.bytes);
    }
}

/// Whether there is nothing to read any more, as opposed to a failure that passes.
fn is_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is_unreadable(error)
}

/// Takes into account what lies in the folder of damaged files.
pub(super) fn count_broken(broken: &Path, budget: &Budget) {
    if let Ok(files) = file::list(broken) {
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        budget.count(|used| used.broken = bytes);
    }
}

/// Ends the names of files that are being made.
pub(super) const MADE: &str = ".made";
