//! The chunks of one fetch that are still to come, shared by its holders.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_protocol::id::NodeId;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Chunks nobody was asked for, and those that were asked for and are not here.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    missing: BTreeSet<u32>,
    asked: BTreeMap<u32, Asked>,
    /// Nobody is asked for anything more.
    closed: bool,
}

/// A chunk that somebody is asked for.
#[derive(Debug)]
struct Asked {
    of: NodeId,
    since: Instant,
    /// Somebody else is asked for it, too.
    twice: bool,
}

impl Pool {
    pub(super) fn new(missing: BTreeSet<u32>) -> Self {
        let state = State { missing, asked: BTreeMap::new(), closed: false };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Whether everything is here.
    pub(super) fn is_done(&self) -> bool {
        self.lock().is_done()
    }

    /// Chunks nobody was asked for.
    pub(super) fn missing(&self) -> usize {
        self.lock().missing.len()
    }

    /// Lets nobody be asked for more; what was asked for may still come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// Waits until everything is here.
    pub(super) async fn done(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, or a change in between would be missed.
            changed.as_mut().enable();
            if self.is_done() {
                return;
            }
            changed.await;
        }
    }

    /// The next chunks in a row to ask `of` a holder, at most `most`. While all are asked for, one
    /// may come back, or take its holder so long that it is worth asking for again; none when
    /// everything is here or nothing more is to be asked for.
    pub(super) async fn take(&self, of: NodeId, most: u32) -> Option<Taken<'_>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let slow = {
                let mut state = self.lock();
                if state.is_done() || state.closed {
                    return None;
                }
                let now = Instant::now();
                let next = state.next(of, most, now).or_else(|| state.again(of, now));
                if let Some(left) = next {
                    return Some(Taken { pool: self, left });
                }
                state.slow_at(of)
            };
            match slow {
                // Either way there is something new to look at.
                Some(slow) => drop(timeout_at(slow, changed).await),
                None => changed.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_done(&self) -> bool {
        self.missing.is_empty() && self.asked.is_empty()
    }

    fn next(&mut self, of: NodeId, most: u32, now: Instant) -> Option<Range<u32>> {
        let first = self.missing.first().copied()?;
        let last = first.saturating_add(most.max(1));
        let end = (first..last).find(|chunk| !self.missing.remove(chunk)).unwrap_or(last);
        let asked = |chunk| (chunk, Asked { of, since: now, twice: false });
        self.asked.extend((first..end).map(asked));
        Some(first..end)
    }

    /// A chunk that another holder should have sent by now: the last one, which it gets to last.
    fn again(&mut self, of: NodeId, now: Instant) -> Option<Range<u32>> {
        let mut slow = self.asked.iter_mut().rev();
        let (chunk, asked) =
            slow.find(|(_, it)| !it.twice && it.of != of && it.since + SLOW_TIME <= now)?;
        asked.twice = true;
        Some(*chunk..chunk + 1)
    }

    /// When [`State::again`] may find something.
    fn slow_at(&self, of: NodeId) -> Option<Instant> {
        let others = self.asked.values().filter(|it| !it.twice && it.of != of);
        others.map(|it| it.since + SLOW_TIME).min()
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
        for chunk in std::mem::take(&mut self.left) {
            state.asked.remove(&chunk);
        }
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
        for chunk in self.left.clone() {
            match state.asked.get_mut(&chunk) {
                // The other one may still send it.
                Some(asked) if asked.twice => asked.twice = false,
                Some(_) => {
                    state.asked.remove(&chunk);
                    state.missing.insert(chunk);
                }
                // The other one has.
                None => {}
            }
        }
        drop(state);
        self.pool.changed.notify_waiters();
    }
}

/// A holder that has not sent a chunk after this long is slow, whatever the reason.
const SLOW_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId([1; 32]);
    const OTHER: NodeId = NodeId([2; 32]);

    #[tokio::test]
    async fn what_does_not_come_goes_back() {
        let pool = Pool::new([0, 1, 2, 5, 6].into());
        let mut first = pool.take(ONE, 2).await.unwrap();
        assert_eq!(first.range(), 0..2);
        let second = pool.take(ONE, 9).await.unwrap();
        assert_eq!(second.range(), 2..3);
        let third = pool.take(ONE, 9).await.unwrap();
        assert_eq!(third.range(), 5..7);
        third.done();
        first.pop().unwrap().done();
        let waiting = pool.take(ONE, 9);
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(first);
        let again = waiting.await.unwrap();
        assert_eq!(again.range(), 1..2);
        again.done();
        assert!(!pool.is_done());
        second.done();
        assert!(pool.is_done() && pool.take(ONE, 1).await.is_none());
    }

    #[tokio::test]
    async fn a_closed_pool_takes_what_was_asked_for() {
        let pool = Pool::new([0, 1, 2].into());
        let first = pool.take(ONE, 1).await.unwrap();
        pool.close();
        assert!(pool.take(ONE, 1).await.is_none());
        first.done();
        assert_eq!(pool.missing(), 2);
    }

    #[test]
    fn one_slow_holder_does_not_hold_up_the_end() {
        let (pool, now) = (Pool::new([0, 1, 2].into()), Instant::now());
        let taken = |left: Option<Range<u32>>| Taken { pool: &pool, left: left.unwrap() };
        let slow = taken(pool.lock().next(ONE, 3, now));
        assert_eq!(pool.lock().again(OTHER, now), None);
        assert_eq!(pool.lock().slow_at(OTHER), Some(now + SLOW_TIME));
        assert_eq!(pool.lock().slow_at(ONE), None);
        let later = now + SLOW_TIME;
        let again = || taken(pool.lock().again(OTHER, later));
        let (first, second) = (again(), again());
        assert_eq!((first.range(), second.range()), (2..3, 1..2));
        // Given up again, it is still asked of the first, and may be asked for once more.
        drop(second);
        for expected in [1..2, 0..1] {
            let again = again();
            assert_eq!(again.range(), expected);
            again.done();
        }
        assert_eq!(pool.lock().again(OTHER, later), None);
        first.done();
        assert!(pool.is_done());
        drop(slow);
        assert!(pool.is_done());
    }
}
