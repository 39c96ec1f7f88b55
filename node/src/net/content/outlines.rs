//! Outlines of contents we serve: made once, kept while they are asked for.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_protocol::crypto::{Outline, OutlineDraft};
use atoll_protocol::id::ContentId;
use atoll_protocol::limits::{CONTENT_CHUNK_BYTES, OUTLINES_BYTES_MAX};
use tokio::sync::OnceCell;

use super::super::contents::Stored;
use super::blocking;

/// The outlines used last, at most [`OUTLINES_BYTES_MAX`] of them.
#[derive(Debug, Default)]
pub(super) struct Outlines(Mutex<VecDeque<Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    content: ContentId,
    bytes: usize,
    outline: Arc<OnceCell<Arc<Outline>>>,
}

impl Outlines {
    /// The outline of a stored content; none if its bytes do not have its hash.
    pub(super) async fn of(
        &self,
        content: ContentId,
        stored: &Arc<dyn Stored>,
    ) -> io::Result<Option<Arc<Outline>>> {
        let cell = self.cell(content, stored.bytes());
        let stored = stored.clone();
        // Whoever asks at the same time waits for the first.
        let made = cell.get_or_try_init(|| async move {
            let outline = blocking(move || outline(stored.as_ref())).await?;
            if outline.verify(&content) { Ok(Arc::new(outline)) } else { Err(broken()) }
        });
        match made.await {
            Ok(outline) => Ok(Some(outline.clone())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.forget(&content);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The bytes changed, or are gone.
    pub(super) fn forget(&self, content: &ContentId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|kept| kept.content != *content);
    }

    fn cell(&self, content: ContentId, bytes: u64) -> Arc<OnceCell<Arc<Outline>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|kept| kept.content == content);
        let bytes = Outline::wire_bytes(bytes).unwrap_or_default();
        let this = known.and_then(|at| kept.remove(at)).unwrap_or_else(|| Kept {
            content,
            bytes: usize::try_from(bytes).unwrap_or(OUTLINES_BYTES_MAX) + KEPT_BYTES,
            outline: Arc::default(),
        });
        let outline = this.outline.clone();
        kept.push_back(this);
        while kept.iter().map(|kept| kept.bytes).sum::<usize>() > OUTLINES_BYTES_MAX {
            kept.pop_front();
        }
        outline
    }
}

fn outline(stored: &dyn Stored) -> io::Result<Outline> {
    let mut draft = OutlineDraft::new(stored.bytes());
    let mut chunk = vec![0; CONTENT_CHUNK_BYTES];
    while let Some(range) = draft.next() {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        stored.read_at(range.start, &mut chunk[..length])?;
        draft.push(&chunk[..length]);
    }
    draft.finish().ok_or_else(broken)
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the content does not have its hash")
}

/// What an entry costs besides the outline.
const KEPT_BYTES: usize = 128;
