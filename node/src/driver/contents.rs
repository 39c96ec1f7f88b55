//! What the network may take from the store, and how it puts there what it fetches.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_protocol::crypto::Outline;
use atoll_protocol::id::ContentId;

use crate::net::{Contents, Incoming, Stored};
use crate::store::{ContentFile, IncomingFile, Store};

/// The store, as the network sees it.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) store: Store,
    pub(super) serving: Arc<Serving>,
}

/// Snapshots that may be served now.
#[derive(Debug, Default)]
pub(super) struct Serving(Mutex<BTreeSet<ContentId>>);

impl Serving {
    pub(super) fn set(&self, snapshots: Vec<ContentId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = snapshots.into_iter().collect();
    }

    fn has(&self, content: &ContentId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(content)
    }
}

impl Contents for Shelf {
    fn open(&self, content: &ContentId) -> Option<Arc<dyn Stored>> {
        // A payload is served once it was checked, a snapshot as the donor rule has it, and the
        // run's tokenizer to whoever joins.
        let may = self.serving.has(content)
            || self.store.is_checked(content)
            || self.store.genesis().data.tokenizer_content == Some(*content);
        let file = may.then(|| self.store.open_content(content)).flatten();
        file.map(|file| Arc::new(Shelved(file)) as Arc<dyn Stored>)
    }

    fn receive(&self, content: &ContentId) -> io::Result<Box<dyn Incoming>> {
        Ok(Box::new(Arriving(self.store.incoming(content)?)))
    }

    fn store(&self, content: &ContentId, bytes: &[u8]) -> io::Result<()> {
        Ok(self.store.take(*content, bytes)?)
    }
}

struct Shelved(ContentFile);

impl Stored for Shelved {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, into)
    }
}

struct Arriving(IncomingFile);

impl Incoming for Arriving {
    fn outline(&self) -> Option<Outline> {
        Outline::from_bytes(&self.0.outline()?, u64::MAX)
    }

    fn begin(&mut self, outline: &Outline) -> io::Result<()> {
        self.0.begin(outline.bytes(), &outline.to_bytes())
    }

    fn has(&self, chunk: u32) -> bool {
        self.0.has(chunk)
    }

    fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()> {
        self.0.write(chunk, bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.finish()
    }
}
