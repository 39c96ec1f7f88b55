//! The threads of one island.

use std::sync::{Mutex, PoisonError};

use super::error::CpuError;

/// Threads that sleep between steps: the caller's own and, beyond the first, a pool's.
#[derive(Debug)]
pub(super) struct Threads {
    pool: Option<rayon::ThreadPool>,
    count: usize,
}

impl Threads {
    pub(super) fn new(count: usize) -> Result<Self, CpuError> {
        let failed = |reason: String| CpuError::Threads { count, reason };
        if count == 0 {
            return Err(failed("at least one is needed".into()));
        }
        let pool = if count > 1 {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(count - 1);
            let builder = builder.thread_name(|index| format!("island-{}", index + 1));
            Some(builder.build().map_err(|error| failed(error.to_string()))?)
        } else {
            None
        };
        Ok(Self { pool, count })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Does `work` on every item and returns when all is done.
    ///
    /// Each thread has a state of its own and takes the next item when it is done with one, so a
    /// thread that others keep from its core holds nobody up. Work must not depend on the state's
    /// past: which thread takes which item is chance.
    pub(super) fn run<S: Send, T: Send>(
        &self,
        states: &mut [S],
        items: impl Iterator<Item = T> + Send,
        work: impl Fn(&mut S, T) + Sync,
    ) {
        let queue = Mutex::new(items);
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let take = |state: &mut S| {
            while let Some(item) = next() {
                work(state, item);
            }
        };
        let Some((first, others)) = states.split_first_mut() else { return };
        match &self.pool {
            None => take(first),
            Some(pool) => pool.in_place_scope(|scope| {
                for state in others {
                    scope.spawn(|_| take(state));
                }
                take(first);
            }),
        }
    }
}
