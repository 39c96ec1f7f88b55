//! Base states: for each fragment the newest two, durable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use atoll_protocol::crypto::content_id;
use atoll_protocol::id::{ContentId, FragmentId};

use super::budget::Budget;
use super::content_file::ContentFile;
use super::contents::count_broken;
use super::error::{StoreError, is_unreadable};
use super::file;
use super::incident::Incidents;
use super::locked;

/// The folder of base states. A file's name says everything about it, so that it needs no record:
/// its fragment, which one of that fragment's it is, and its digest.
#[derive(Debug)]
pub(super) struct Bases {
    folder: PathBuf,
    broken: PathBuf,
    known: Mutex<BTreeMap<Name, u64>>,
}

/// In the order of fragments, and within one from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    fragment: FragmentId,
    number: u64,
    digest: ContentId,
}

impl Bases {
    /// Looks at what is there.
    pub(super) fn open(
        folder: PathBuf,
        broken: PathBuf,
        budget: &Budget,
    ) -> Result<Self, StoreError> {
        let mut known = BTreeMap::new();
        for (name, bytes) in file::list(&folder)? {
            match Name::parse(&name) {
                Some(name) => drop(known.insert(name, bytes)),
                None => file::remove(&folder.join(name))?,
            }
        }
        let bases = Self { folder, broken, known: Mutex::new(known) };
        // A crash may have come between a new one and the end of the oldest.
        bases.drop_old(budget)?;
        Ok(bases)
    }

    /// Makes a base state durable, then forgets all but the newest of its fragment.
    pub(super) fn put(
        &self,
        digest: ContentId,
        bytes: &[u8],
        fragment: FragmentId,
        budget: &Budget,
    ) -> Result<(), StoreError> {
        let last = {
            let known = locked(&self.known);
            known.keys().filter(|name| name.fragment == fragment).map(|name| name.number).max()
        };
        let name = Name { fragment, number: last.map_or(1, |last| last + 1), digest };
        file::replace(&self.folder.join(name.to_string()), bytes)?;
        locked(&self.known).insert(name, bytes.len() as u64);
        self.drop_old(budget)
    }

    /// A base state, verified.
    pub(super) fn read(
        &self,
        digest: &ContentId,
        budget: &Budget,
        incidents: &Incidents,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(name) = self.find(digest) else { return Ok(None) };
        let path = self.folder.join(name.to_string());
        match fs::read(&path) {
            Ok(bytes) if content_id(&bytes) == *digest => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                locked(&self.known).remove(&name);
                self.count(budget);
                return Ok(None);
            }
            Err(error) if !is_unreadable(&error) => return Err(StoreError::file(&path)(error)),
            _ => {}
        }
        let kept = file::move_aside(&path, &self.broken)?;
        locked(&self.known).remove(&name);
        self.count(budget);
        count_broken(&self.broken, budget);
        incidents.note(&path, Some(&kept), "the fragment is fetched from a peer");
        Err(StoreError::Broken { content: *digest, kept })
    }

    /// A base state to serve, as it is on the disk.
    pub(super) fn open_file(&self, digest: &ContentId) -> Option<ContentFile> {
        ContentFile::open(&self.folder.join(self.find(digest)?.to_string())).ok()
    }

    /// The newest file with this digest.
    fn find(&self, digest: &ContentId) -> Option<Name> {
        locked(&self.known).keys().rev().find(|name| name.digest == *digest).copied()
    }

    fn drop_old(&self, budget: &Budget) -> Result<(), StoreError> {
        let mut known = locked(&self.known);
        let names: Vec<Name> = known.keys().copied().collect();
        let mut kept: Vec<Name> = Vec::new();
        for name in names.into_iter().rev() {
            let same: Vec<&Name> =
                kept.iter().filter(|other| other.fragment == name.fragment).collect();
            let again = same.iter().any(|other| other.digest == name.digest);
            if again || same.len() >= KEPT {
                file::remove(&self.folder.join(name.to_string()))?;
                known.remove(&name);
            } else {
                kept.push(name);
            }
        }
        drop(known);
        self.count(budget);
        Ok(())
    }

    fn count(&self, budget: &Budget) {
        let bytes = locked(&self.known).values().sum();
        budget.count(|used| used.bases = bytes);
    }
}

/// The newest base state in `folder` of each fragment, verified. Changes nothing, so it may be
/// called while a node works there.
pub(super) fn newest(folder: &Path) -> Result<BTreeMap<FragmentId, Vec<u8>>, StoreError> {
    let mut tries = 0;
    loop {
        let names = file::list(folder)?.into_iter().filter_map(|(name, _)| Name::parse(&name));
        let names: BTreeSet<Name> = names.collect();
        let mut found = BTreeMap::new();
        for name in names.iter().rev() {
            let path = folder.join(name.to_string());
            if !found.contains_key(&name.fragment)
                && let Some(bytes) = file::read(&path)?
                && content_id(&bytes) == name.digest
            {
                found.insert(name.fragment, bytes);
            }
        }
        let lost = names.iter().find(|name| !found.contains_key(&name.fragment));
        tries += 1;
        match lost {
            None => return Ok(found),
            // The node may have replaced them meanwhile.
            Some(_) if tries < LOOKS_MAX => {}
            Some(name) => {
                let path = folder.join(name.to_string());
                return Err(StoreError::corrupt(&path, "the base state", "its hash is wrong"));
            }
        }
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let fragment = FragmentId(parts.next()?.parse().ok()?);
        let number = parts.next()?.parse().ok()?;
        let digest = file::parse_id(parts.next()?)?;
        let name = Self { fragment, number, digest };
        (name.to_string() == text).then_some(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.fragment.0, self.number, self.digest.to_hex())
    }
}

/// Base states kept of each fragment: the one that records speak of and the one before or after.
const KEPT: usize = 2;
/// How often a folder is looked at in which a node works.
const LOOKS_MAX: usize = 10;
