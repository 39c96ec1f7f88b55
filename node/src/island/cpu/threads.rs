//! The threads of one island.

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

    /// Does `work` on every item, the first in the caller's thread, and returns when all is done.
    pub(super) fn run<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync) {
        let Some((first, others)) = items.split_first_mut() else { return };
        match &self.pool {
            None => {
                work(first);
                others.iter_mut().for_each(work);
            }
            Some(pool) => pool.in_place_scope(|scope| {
                for item in others {
                    scope.spawn(|_| work(item));
                }
                work(first);
            }),
        }
    }
}
