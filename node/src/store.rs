//! What a node keeps on the disk: the run's folder, and the only code that names redb.
//!
//! Records, and the payloads of the contributions they name, are durable when
//! [`Store::persist`] returns. A process that ends at any instant leaves a folder that opens.
//! Every file is believed only as far as its hash or checksum holds: what is damaged is moved
//! aside and reported, and the swarm has it still.
//!
//! All calls block; the driver makes them from threads that may.

mod bases;
mod budget;
mod checkpoint;
mod content_file;
mod contents;
mod error;
mod file;
mod folder;
mod incident;
mod incoming;
mod mark;
mod measured;
mod payloads;
mod peers;
mod position;
mod records;
mod repair;
mod signed;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_protocol::engine::Record;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};
use atoll_protocol::outer::Norms;

pub use budget::Usage;
pub use checkpoint::SaveError;
pub use content_file::ContentFile;
pub use error::StoreError;
pub use incident::Incident;
pub use incoming::IncomingFile;

use bases::Bases;
use budget::Budget;
use contents::Contents;
use folder::Folder;
use incident::Incidents;
use incoming::Incoming;
use measured::Measured;
use records::Records;
use signed::Signed;

/// A run's folder, open. Clones are the same store; the last one to go closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    genesis: Genesis,
    log: Mutex<Log>,
    measured: Measured,
    contents: Contents,
    incoming: Incoming,
    bases: Bases,
    budget: Budget,
    incidents: Incidents,
    /// Last, so that it is given up when everything else is closed.
    folder: Folder,
}

/// What is written in one order.
#[derive(Debug)]
struct Log {
    records: Records,
    signed: Signed,
}

impl Store {
    /// Makes the folder of a run, or opens the one that is there. Refuses one of another run.
    pub fn create(folder: &Path, genesis: &Genesis) -> Result<Self, StoreError> {
        file::make_folder(folder)?;
        let folder = Folder::claim(folder)?;
        let wanted = genesis.run_id();
        let there = match folder.genesis() {
            Err(StoreError::Genesis { .. }) => None,
            other => other?,
        };
        if let Some(found) = there.as_ref().map(Genesis::run_id)
            && found != wanted
        {
            return Err(StoreError::OtherRun { folder: folder.root().to_owned(), found, wanted });
        }
        let made = folder.is_made()?;
        folder.make_folders()?;
        if !made && !folder.records().exists() {
            Records::create(&folder.records(), wanted)?;
        }
        if there.is_none() {
            // Whose records these are decides whether the genesis may lie beside them.
            Records::open(&folder.records(), &folder.mark(), wanted)?;
            folder.put_genesis(genesis)?;
        }
        let store = Self::load(folder, genesis.clone(), made)?;
        if !made {
            store.inner.folder.made()?;
        }
        Ok(store)
    }

    /// Notes that this node made the run: at its first start it waits for nobody.
    pub fn found(&self) -> Result<(), StoreError> {
        self.inner.folder.found()
    }

    /// Whether this node made the run.
    pub fn is_founder(&self) -> bool {
        self.inner.folder.is_founder()
    }

    /// Opens the folder of a run.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let (folder, genesis) = Self::claim(folder)?;
        folder.make_folders()?;
        Self::load(folder, genesis, true)
    }

    /// The run's genesis.
    pub fn genesis(&self) -> &Genesis {
        &self.inner.genesis
    }

    /// Where the run is kept.
    pub fn folder(&self) -> &Path {
        self.inner.folder.root()
    }

    /// Counts a start of the node: more than any before, even before a repair. Durable.
    pub fn begin(&self) -> Result<u64, StoreError> {
        let mut log = self.log();
        let incarnation = log.signed.incarnation().max(log.records.incarnation()?) + 1;
        log.signed.begin(incarnation)?;
        log.records.begin(incarnation)?;
        Ok(incarnation)
    }

    /// The records, in the order they were persisted.
    pub fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.log().records.all()
    }

    /// Makes records durable, all or none of them, with the payloads of their contributions.
    /// Those of `own` are noted as signed first, see [`Store::signed_floor`].
    pub fn persist(&self, own: NodeId, records: &[Record]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let headers = records.iter().filter_map(|record| match record {
            Record::Contribution(signed) => Some(signed.body),
            _ => None,
        });
        let (payloads, headers): (BTreeSet<ContentId>, Vec<_>) =
            headers.map(|header| (header.payload, header)).unzip();
        self.inner.contents.flush(&payloads)?;
        let ours: Vec<_> = headers.into_iter().filter(|header| header.author == own).collect();
        let mut log = self.log();
        let norms = self.inner.measured.unwritten();
        let before = log.records.count()?;
        let undo = log.signed.sign(&ours)?;
        if let Err(error) = log.records.write(records, &norms) {
            // A disk that fails may have kept them all the same; then they stay signed.
            if log.records.count().is_ok_and(|now| now == before) {
                log.signed.undo(undo);
            }
            return Err(error);
        }
        self.inner.measured.written(&norms);
        self.count_records(&log);
        Ok(())
    }

    /// The highest round of `fragment` that this node may have signed for. It outlives the
    /// records, so that a node whose database was lost still never signs twice.
    pub fn signed_floor(&self, fragment: FragmentId) -> Version {
        self.log().signed.floor(fragment)
    }

    /// Forgets what `Output::Prune` names: contributions and closed rounds of `fragment`, those of
    /// `own` up to `own_through` and all others up to `through`, and payloads.
    pub fn prune(
        &self,
        own: NodeId,
        fragment: FragmentId,
        through: Version,
        own_through: Version,
        payloads: &[ContentId],
    ) -> Result<(), StoreError> {
        let mut log = self.log();
        log.records.prune(own, fragment, through, own_through, payloads)?;
        self.count_records(&log);
        drop(log);
        self.inner.measured.forget(payloads);
        // Second: a crash in between leaves files that nothing names, for `sweep`.
        self.inner.contents.remove(payloads, &self.inner.budget)
    }

    /// Stores a payload of our own. Its bytes are on the disk on return; `persist` makes it
    /// durable.
    pub fn put(&self, bytes: &[u8]) -> Result<ContentId, StoreError> {
        let Inner { contents, budget, incidents, .. } = &*self.inner;
        contents.put(bytes, budget, incidents)
    }

    /// Stores a content that somebody else has sent and that is verified; `persist` makes it durable.
    pub fn take(&self, id: ContentId, bytes: &[u8]) -> Result<(), StoreError> {
        let Inner { contents, budget, incidents, .. } = &*self.inner;
        contents.take(id, bytes, budget, incidents)
    }

    /// A content, verified. A damaged one is moved aside and is [`StoreError::Broken`] once; after
    /// that it is not here.
    pub fn content(&self, id: &ContentId) -> Result<Option<Vec<u8>>, StoreError> {
        let Inner { contents, budget, incidents, .. } = &*self.inner;
        contents.read(id, budget, incidents)
    }

    /// Whether a content is here, as far as is known without reading it.
    pub fn has(&self, id: &ContentId) -> bool {
        self.inner.contents.has(id)
    }

    /// A content or a base state, to serve it.
    pub fn open_content(&self, id: &ContentId) -> Option<ContentFile> {
        self.inner.contents.open_file(id).or_else(|| self.inner.bases.open_file(id))
    }

    /// A content that arrives, from where an earlier attempt left it.
    pub fn incoming(&self, id: &ContentId) -> io::Result<IncomingFile> {
        IncomingFile::open(self.inner.clone(), *id)
    }

    /// Notes what a check for a fragment measured of a content. Durable with the next records.
    pub fn measure(&self, id: &ContentId, fragment: FragmentId, norms: &Norms) {
        self.inner.measured.note(*id, fragment, norms);
    }

    /// What a check for a fragment measured of a content; none if there was none.
    pub fn norms(&self, id: &ContentId, fragment: FragmentId) -> Option<Norms> {
        self.inner.measured.norms(id, fragment)
    }

    /// Whether a content was checked, for whatever fragment.
    pub fn is_checked(&self, id: &ContentId) -> bool {
        self.inner.measured.has(id)
    }

    /// Payloads that records of contributions name and that are not here whole. Reads them all.
    pub fn missing(&self) -> Result<BTreeSet<ContentId>, StoreError> {
        payloads::missing(self)
    }

    /// Every content that is here, whole or not.
    pub fn contents(&self) -> BTreeSet<ContentId> {
        let Inner { contents, incoming, .. } = &*self.inner;
        contents.ids().into_iter().chain(incoming.ids()).collect()
    }

    /// Removes contents, whole or not, unless they are arriving now, and what was measured of them.
    pub fn discard(&self, gone: &[ContentId]) -> Result<(), StoreError> {
        let Inner { contents, incoming, measured, budget, .. } = &*self.inner;
        contents.remove(gone, budget)?;
        let unmeasured: Vec<ContentId> =
            gone.iter().filter(|id| measured.has(id)).copied().collect();
        self.log().records.remove_norms(&unmeasured)?;
        measured.forget(&unmeasured);
        gone.iter().try_for_each(|id| incoming.remove(id, budget))
    }

    /// Removes whole contents that no record of a contribution names and `keep` does not hold;
    /// returns how many. What has arrived in part stays: whoever was joining goes on with it.
    pub fn sweep(&self, keep: &BTreeSet<ContentId>) -> Result<usize, StoreError> {
        let named: BTreeSet<ContentId> =
            payloads::named(&self.records()?).map(|(id, _)| id).collect();
        let useless = |id: &ContentId| !named.contains(id) && !keep.contains(id);
        let Inner { contents, measured, budget, .. } = &*self.inner;
        let gone: Vec<ContentId> = contents.ids().into_iter().filter(useless).collect();
        contents.remove(&gone, budget)?;
        let unmeasured: Vec<ContentId> = measured.ids().into_iter().filter(useless).collect();
        self.log().records.remove_norms(&unmeasured)?;
        measured.forget(&unmeasured);
        Ok(gone.len())
    }

    /// Makes a base state durable; of each fragment the newest two are kept.
    pub fn put_base(
        &self,
        digest: ContentId,
        bytes: &[u8],
        fragment: FragmentId,
    ) -> Result<(), StoreError> {
        self.inner.bases.put(digest, bytes, fragment, &self.inner.budget)
    }

    /// A base state, verified. A damaged one is moved aside and is [`StoreError::Broken`] once.
    pub fn base(&self, digest: &ContentId) -> Result<Option<Vec<u8>>, StoreError> {
        let Inner { bases, budget, incidents, .. } = &*self.inner;
        bases.read(digest, budget, incidents)
    }

    /// The newest base state of each fragment in a run's folder, verified; none for a fragment of
    /// which no round was ever stable. Changes nothing, and so works beside a running node.
    pub fn newest_bases(folder: &Path) -> Result<BTreeMap<FragmentId, Vec<u8>>, StoreError> {
        bases::newest(&Folder::bases_in(folder))
    }

    /// Bytes used on the disk.
    pub fn usage(&self) -> Usage {
        self.inner.budget.usage()
    }

    /// Sets the bytes that may be used; none for as many as there are. Only contents, put or
    /// incoming, are refused beyond it: nothing that is here is given up.
    pub fn set_budget(&self, max: Option<u64>) {
        self.inner.budget.set_max(max);
    }

    /// The bytes that may be used, if there is a limit.
    pub fn budget(&self) -> Option<u64> {
        self.inner.budget.max()
    }

    /// The island's newest checkpoint.
    pub fn checkpoint(&self) -> Option<PathBuf> {
        checkpoint::newest(self.folder())
    }

    /// Lets `write` fill a folder and makes that the checkpoint, durable. Until it is, the one
    /// before stays.
    pub fn save_checkpoint<E>(
        &self,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), SaveError<E>> {
        checkpoint::save(self.folder(), &self.inner.budget, write)
    }

    /// Addresses of peers, as saved last.
    pub fn peers(&self) -> Vec<String> {
        peers::read(&self.inner.folder.peers(), &self.inner.incidents)
    }

    /// Saves addresses of peers.
    pub fn save_peers(&self, peers: &[String]) -> Result<(), StoreError> {
        peers::write(&self.inner.folder.peers(), peers)
    }

    /// Damage found since the last call, for the log.
    pub fn incidents(&self) -> Vec<Incident> {
        self.inner.incidents.take()
    }

    /// Takes a folder in which a run was made.
    fn claim(folder: &Path) -> Result<(Folder, Genesis), StoreError> {
        let missing = || StoreError::NoRun { folder: folder.to_owned() };
        if !Folder::seems_made(folder) {
            return Err(missing());
        }
        let claimed = Folder::claim(folder)?;
        if !claimed.is_made()? {
            return Err(missing());
        }
        let genesis = claimed.genesis()?.ok_or_else(missing)?;
        Ok((claimed, genesis))
    }

    fn load(folder: Folder, genesis: Genesis, made: bool) -> Result<Self, StoreError> {
        let run = genesis.run_id();
        let incidents = Incidents::default();
        let budget = Budget::default();
        let mut records = Records::open(&folder.records(), &folder.mark(), run)?;
        let measured = Measured::new(records.norms()?);
        let path = folder.signed();
        let there = path.exists();
        let (signed, kept) = Signed::open(&path, run, || records.rounds())?;
        if kept.is_some() || (made && !there) {
            incidents.note(&path, kept.as_deref(), "it was made anew from the records");
        }
        let contents =
            Contents::open(folder.contents(), folder.incoming(), folder.broken(), &budget)?;
        let incoming = Incoming::open(folder.incoming(), &budget)?;
        let bases = Bases::open(folder.bases(), folder.broken(), &budget)?;
        checkpoint::count(folder.root(), &budget);
        let log = Mutex::new(Log { records, signed });
        let inner =
            Inner { genesis, log, measured, contents, incoming, bases, budget, incidents, folder };
        let store = Self { inner: Arc::new(inner) };
        store.count_records(&store.log());
        Ok(store)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        locked(&self.inner.log)
    }

    fn count_records(&self, log: &Log) {
        let bytes = log.records.bytes() + log.signed.bytes();
        self.inner.budget.count(|used| used.records = bytes);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.folder.root()).finish()
    }
}

/// The value behind a lock. Every change under one is whole before anything can panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
