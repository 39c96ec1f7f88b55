//! The chunks of one fetch that are still to come, shared by its holders.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Chunks nobody was asked for, and how many were asked for and are not here.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    missing: BTreeSet<u32>,
    asked: usize,
}

impl Pool {
    pub(super) fn new(missing: BTreeSet<u32>) -> Self {
        Self { state: Mutex::new(State { missing, asked: 0 }), changed: Notify::new() }
    }

    /// Whether everything is here.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.missing.is_empty() && state.asked == 0
    }

    /// Chunks nobody was asked for.
    pub(super) fn missing(&self) -> usize {
        self.lock().missing.len()
    }

    /// The next chunks in a row, at most `most`. Waits while all are asked for, because one may
    /// come back; none when everything is here.
    pub(super) async fn take(&self, most: u32) -> Option<Taken<'_>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, or a change in between would be missed.
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                if let Some(first) = state.missing.first().copied() {
                    let end = (first..first.saturating_add(most.max(1)))
                        .find(|chunk| !state.missing.remove(chunk))
                        .unwrap_or(first.saturating_add(most.max(1)));
                    state.asked += (end - first) as usize;
                    return Some(Taken { pool: self, left: first..end });
                }
                if state.asked == 0 {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Chunks that somebody is asked for. What did not come goes back.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    pool: &'a Pool,
    left: Range<u32>,
}

impl<'a> Taken<'a> {
    /// Which.
    pub(super) fn range(&self) -> Range<u32> {
        self.left.clone()
    }

    /// Splits the first chunk off.
    pub(super) fn pop(&mut self) -> Option<Self> {
        let first = self.left.next()?;
        Some(Self { pool: self.pool, left: first..first + 1 })
    }

    /// They are here, verified and written.
    pub(super) fn done(mut self) {
        let mut state = self.pool.lock();
        state.asked -= self.left.len();
        self.left = 0..0;
        drop(state);
        self.pool.changed.notify_waiters();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let mut state = self.pool.lock();
        state.asked -= self.left.len();
        state.missing.extend(self.left.clone());
        drop(state);
        self.pool.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_come_goes_back() {
        let pool = Pool::new([0, 1, 2, 5, 6].into());
        let mut first = pool.take(2).await.unwrap();
        assert_eq!(first.range(), 0..2);
        let second = pool.take(9).await.unwrap();
        assert_eq!(second.range(), 2..3);
        let third = pool.take(9).await.unwrap();
        assert_eq!(third.range(), 5..7);
        third.done();
        first.pop().unwrap().done();
        let waiting = pool.take(9);
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(first);
        let again = waiting.await.unwrap();
        assert_eq!(again.range(), 1..2);
        again.done();
        assert!(!pool.is_done());
        second.done();
        assert!(pool.is_done() && pool.take(1).await.is_none());
    }
}
