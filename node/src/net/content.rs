//! Contents: bytes by their hash, in verified chunks, from and to several peers at once.

pub(super) mod bucket;
pub(super) mod fetch;
mod frame;
mod holder;
mod outlines;
mod pool;
pub(super) mod rates;
pub(super) mod serve;

use std::io;

/// Runs what may block on a thread that may.
async fn blocking<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}

/// The most that is written at once: whatever else waits for the connection gets its turn.
const PIECE_BYTES_MAX: usize = 64 * 1024;
