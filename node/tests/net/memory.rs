//! Contents in memory, with a few ways to misbehave.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use atoll_node::net::{Contents, Incoming, Stored};
use atoll_protocol::crypto::{Outline, content_id};
use atoll_protocol::id::ContentId;

/// Contents in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) stored: Mutex<BTreeMap<ContentId, Arc<Vec<u8>>>>,
    pub(crate) partial: Mutex<BTreeMap<ContentId, Partial>>,
    /// Reads of parts so far, those for outlines too.
    pub(crate) reads: Arc<AtomicUsize>,
    /// Reads after which the disk fails.
    pub(crate) fails_after: Option<usize>,
    /// At this read, all that have this barrier wait for each other.
    pub(crate) meets_at: Option<(usize, Arc<Barrier>)>,
}

#[derive(Clone, Default)]
pub(crate) struct Partial {
    outline: Option<Outline>,
    chunks: BTreeMap<u32, Vec<u8>>,
}

impl Memory {
    /// Stores a content.
    pub(crate) fn put(&self, bytes: Vec<u8>) -> ContentId {
        let content = content_id(&bytes);
        self.stored.lock().unwrap().insert(content, Arc::new(bytes));
        content
    }

    /// Flips a bit of a stored content.
    pub(crate) fn spoil(&self, content: &ContentId) {
        let mut stored = self.stored.lock().unwrap();
        let bytes = Arc::make_mut(stored.get_mut(content).unwrap());
        bytes[1000] ^= 1;
    }

    /// A stored content.
    pub(crate) fn content(&self, content: &ContentId) -> Option<Arc<Vec<u8>>> {
        self.stored.lock().unwrap().get(content).cloned()
    }
}

/// The same contents, as the network sees them.
pub(crate) struct Shared(pub(crate) Arc<Memory>);

impl Contents for Shared {
    fn open(&self, content: &ContentId) -> Option<Arc<dyn Stored>> {
        let bytes = self.0.content(content)?;
        Some(Arc::new(Part { memory: self.0.clone(), bytes }))
    }

    fn receive(&self, content: &ContentId) -> io::Result<Box<dyn Incoming>> {
        let partial = self.0.partial.lock().unwrap().remove(content).unwrap_or_default();
        Ok(Box::new(Coming { memory: self.0.clone(), content: *content, partial }))
    }
}

struct Part {
    memory: Arc<Memory>,
    bytes: Arc<Vec<u8>>,
}

impl Stored for Part {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let reads = self.memory.reads.fetch_add(1, Ordering::SeqCst) + 1;
        if self.memory.fails_after.is_some_and(|most| reads > most) {
            return Err(io::Error::other("planted"));
        }
        if let Some((at, barrier)) = &self.memory.meets_at
            && reads == *at
        {
            barrier.wait();
        }
        let start = usize::try_from(offset).unwrap();
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
        Ok(())
    }
}

struct Coming {
    memory: Arc<Memory>,
    content: ContentId,
    partial: Partial,
}

impl Incoming for Coming {
    fn outline(&self) -> Option<Outline> {
        self.partial.outline.clone()
    }

    fn begin(&mut self, outline: &Outline) -> io::Result<()> {
        self.partial = Partial { outline: Some(outline.clone()), chunks: BTreeMap::new() };
        Ok(())
    }

    fn has(&self, chunk: u32) -> bool {
        self.partial.chunks.contains_key(&chunk)
    }

    fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()> {
        let twice = self.partial.chunks.insert(chunk, bytes.to_vec()).is_some();
        assert!(!twice, "chunk {chunk} came twice");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let chunks = std::mem::take(&mut self.partial.chunks);
        self.partial.outline = None;
        let bytes: Vec<u8> = chunks.into_values().flatten().collect();
        assert_eq!(content_id(&bytes), self.content, "only whole contents are finished");
        self.memory.put(bytes);
        Ok(())
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if self.partial.outline.is_some() {
            let partial = std::mem::take(&mut self.partial);
            self.memory.partial.lock().unwrap().insert(self.content, partial);
        }
    }
}
