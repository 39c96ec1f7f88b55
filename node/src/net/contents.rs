//! Where contents come from and go to: the driver's side of every transfer.

use std::io;
use std::sync::Arc;

use atoll_protocol::crypto::Outline;
use atoll_protocol::id::ContentId;

/// The contents of this node. All calls may block; they are made on blocking threads.
pub trait Contents: Send + Sync + 'static {
    /// Opens a content to serve it; none if it is not here, or not for others.
    fn open(&self, content: &ContentId) -> Option<Arc<dyn Stored>>;
    /// Begins to receive a content, or goes on with what an earlier attempt left.
    fn receive(&self, content: &ContentId) -> io::Result<Box<dyn Incoming>>;
    /// Takes a content of one chunk, which is verified, in one go.
    fn store(&self, content: &ContentId, bytes: &[u8]) -> io::Result<()> {
        let mut incoming = self.receive(content)?;
        incoming.begin(&Outline::of(bytes))?;
        incoming.write(0, bytes)?;
        incoming.finish()
    }
}

/// A content that can be read anywhere.
pub trait Stored: Send + Sync {
    /// Its length.
    fn bytes(&self) -> u64;
    /// Fills `into` with the bytes from `offset` on.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// A content on its way in. Dropped before [`Incoming::finish`], it keeps what it has for the
/// next attempt.
pub trait Incoming: Send {
    /// The outline an earlier attempt left.
    fn outline(&self) -> Option<Outline>;
    /// Takes note of the outline, which is verified; replaces another one and its chunks.
    fn begin(&mut self, outline: &Outline) -> io::Result<()>;
    /// Whether a chunk is here.
    fn has(&self, chunk: u32) -> bool;
    /// Writes a chunk, which is verified.
    fn write(&mut self, chunk: u32, bytes: &[u8]) -> io::Result<()>;
    /// All chunks are here: makes the content one of [`Contents`].
    fn finish(self: Box<Self>) -> io::Result<()>;
}
