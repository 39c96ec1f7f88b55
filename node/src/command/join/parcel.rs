//! One content that a newcomer fetches before it has a store.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_node::net::{Contents, Incoming, Stored};
use atoll_protocol::crypto::Outline;
use atoll_protocol::id::ContentId;

/// A content in memory, once it has come. Gives nothing to others.
#[derive(Clone, Default)]
pub(in crate::command) struct Parcel(Arc<Mutex<Option<Vec<u8>>>>);

impl Parcel {
    /// What has come.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Contents for Parcel {
    fn open(&self, _: &ContentId) -> Option<Arc<dyn Stored>> {
        None
    }

    fn receive(&self, _: &ContentId) -> io::Result<Box<dyn Incoming>> {
        Ok(Box::new(Coming { parcel: self.clone(), outline: None, chunks: BTreeMap::new() }))
    }
}

struct Coming {
    parcel: Parcel,
    outline: Option<Outline>,
    chunks: BTreeMap<u32, Vec<u8>>,
}

impl Incoming for Coming {
    fn outline(&self) -> Option<Outline> {
        self.outline.clone()
    }

    fn begin(&mut self, outline: &Outline) -> io::Result<()> {
        self.outline = Some(outline.clone());
        self.chunks.clear();
        Ok(())
    }

    fn has(&self, chunk: u32) -> bool {
        self.chunks.contains_key(&chunk)
    }

    fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()> {
        self.chunks.insert(chunk, bytes.to_vec());
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let bytes = self.chunks.into_values().flatten().collect();
        *self.parcel.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        Ok(())
    }
}
